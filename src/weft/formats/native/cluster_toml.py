"""Clusters as TOML, written by hand or by weft.

Example::

    name = "two nodes"

    [links]
    bandwidth = "100 Gbit/s"        # between nodes; or a matrix, one row per device
    latency = "5 us"
    node_bandwidth = "300 GB/s"     # within a node, where it differs
    node_latency = 0

    [[devices]]
    name = "a100"                   # with a count: a100-0, a100-1, ...
    count = 4
    kind = "A100"
    node = "n0"
    speed = 9.7                     # work per second
    throughput = {conv = 20.0}      # by task kind, where it differs; 0: cannot run it
    memory = "40 GB"
    cores = 1
    batch = 8                       # the most tasks of one kind at once
    batch_curve = {conv = 0.4}      # what each further task adds, or [1, 1.2, ...] by batch size
    setup = {conv = {time = "3 s", memory = "8 GB"}}  # loading a kind; or conv = "3 s"
    cache = "30 GB"                 # what stays loaded; the kind used least recently is dropped
    switch = "5 ms"                 # before a group of another kind than the last one
    power = "400 W"
    idle_power = 50
    price = 3.5                     # money per hour of each device, busy or not

    [nodes.n0]
    price = 4.0                     # per hour of the node, shared by its devices
    capacity = {cores = 32, memory = "256 GB", licence = 2}  # shared by tasks while they run

A `[network]` has links that transfers between nodes share: see `formats/native/network.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.native.network import network_lines, quoted, read_network
from weft.formats.parsing.limits import check_cells, check_devices
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.model import Cluster, Device, Links, Topology
from weft.model.columns import FloatArray
from weft.model.machines.device import Curve
from weft.model.machines.setup import ANY_KIND, Setup

QUANTITIES = {
    "speed": "work per second",
    "memory": "bytes",
    "power": "watts",
    "idle_power": "watts",
    "price": "money per hour",
}
MACHINE_KEYS = ("batch_curve", "setup", "cache", "switch")
"""Keys that devices of clusters and units of streams share."""
COUNTS = ("cores", "batch", "count")
LINKS = {
    "bandwidth": "bytes per second",
    "latency": "seconds",
    "node_bandwidth": "bytes per second",
    "node_latency": "seconds",
}

TOML_LINE_CELLS, TOML_PART_CELLS, TOML_CHARACTER_CELLS = 128, 16, 2
"""Cells that a line, a part of it (between commas, dots, escapes) and a character count for.

They are many because tomllib is slow; files written by hand are short.
"""

KEY_PARTS = 20
"""The most parts of a dotted key."""

_DEEP_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{KEY_PARTS}}}"
)
"""A key of `KEY_PARTS` parts or more, for which tomllib takes quadratic time."""


def read_cluster_toml(text: str, *, name: str) -> Cluster:
    """Return the cluster that a TOML text describes; `name` is for texts without one."""
    record = Record(parse_toml(text))
    _refuse_stream(record)
    record.only(("name", "links", "devices", "nodes", "network"))
    devices = list(_devices(record))
    if not devices:
        raise InvalidInput("has no devices; add at least one [[devices]] table")
    if "nodes" in record:
        devices = _with_node_prices(record.child("nodes"), devices)
    links, matrices = _links(record)
    kinds = {kind for device in devices for kind in device.throughput}
    check_cells(
        len(kinds) * len(devices), f"throughput of {len(kinds)} kinds on {len(devices)} devices"
    )
    cluster = Cluster.of(
        devices,
        links,
        capacity=_capacities(record),
        network=_network(record),
        name=record.text("name", name),
    )
    if not matrices:
        return cluster
    columns = {key: getattr(cluster, key) for key in Cluster.__dataclass_fields__}
    return Cluster(**{**columns, **matrices})


def _refuse_stream(record: Record) -> None:
    if "devices" not in record and any(key in record for key in ("tasks", "streams")):
        raise InvalidInput(
            "holds a stream of jobs; simulate it with weft evaluate --stream (in Python: "
            "weft.formats.native.stream_toml.load_stream)"
        )


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; whatever is wrong becomes `InvalidInput`."""
    cells = TOML_LINE_CELLS * text.count("\n") + TOML_CHARACTER_CELLS * len(text)
    cells += TOML_PART_CELLS * sum(map(text.count, ",.\\"))
    check_cells(cells, "a TOML text of this size")
    if _DEEP_KEY.search(text):
        raise InvalidInput(f"has a key of more than {KEY_PARTS} parts; it is not read")
    try:
        return tomllib.loads(text, parse_float=_float)
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput("is nested too deeply to be read") from None
    except ValueError as error:  # TOMLDecodeError is one
        raise InvalidInput(f"is not valid TOML: {error}") from None


def _float(text: str) -> float:
    value = float(text)
    if np.isinf(value) and "inf" not in text:
        raise InvalidInput(f"the number {shown(text)} is too large to be used")
    return value


def _devices(record: Record) -> Iterator[Device]:
    numbered: dict[str, int] = {}
    total = 0
    for r in record.children("devices"):
        r.only(("name", "kind", "node", "throughput", *MACHINE_KEYS, *QUANTITIES, *COUNTS))
        kind = r.text("kind", "device")
        given = r.quantities(QUANTITIES)
        given |= {key: r.count(key) for key in ("cores", "batch") if key in r}
        throughput = {
            k: quantity(v, "work per second", f"{r.path('throughput')}.{k}")
            for k, v in (r.child("throughput").content if "throughput" in r else {}).items()
        }
        count = r.count("count", 1)
        total += count
        check_devices(total)
        base = r.text("name", kind)
        for _ in range(count):
            i = numbered.get(base, 0)
            numbered[base] = i + 1
            plain = "name" in r and "count" not in r
            yield Device(
                base if plain else f"{base}-{i}",
                kind=kind,
                node=r.text("node", "node0"),
                throughput=throughput,
                batch_curve=read_batch_curve(r),
                **read_setup(r),
                **given,  # type: ignore[arg-type]  # fields by name
            )


def _with_node_prices(nodes: Record, devices: list[Device]) -> list[Device]:
    """Add the price of each node to its devices, in equal parts."""
    count = Counter(device.node for device in devices)
    nodes.only(count)
    share = {}
    for node in nodes.content:
        r = nodes.child(node)
        r.only(("price", "capacity"))
        share[node] = r.quantity("price", "money per hour", 0.0) / count[node]
    return [replace(d, price=d.price + share.get(d.node, 0.0)) for d in devices]


def _capacities(record: Record) -> dict[str, dict[str, float]]:
    """Return capacity -> node -> amount."""
    found: dict[str, dict[str, float]] = {}
    for node in record.child("nodes").content if "nodes" in record else ():
        r = record.child("nodes").child(node)
        for what, amount in r.child("capacity").content.items() if "capacity" in r else ():
            unit = "bytes" if what == "memory" else "number"
            path = f"{r.path('capacity')}.{what}"
            found.setdefault(what, {})[node] = quantity(amount, unit, path)
    return found


def _network(record: Record) -> Topology | None:
    if "network" not in record:
        return None
    links = record.child("links") if "links" in record else Record({})
    for key in ("bandwidth", "latency"):
        if key in links and not isinstance(links.raw(key), list):
            raise InvalidInput(
                f"{links.path(key)} between nodes follows from the network; leave it out (within "
                f"nodes: node_{key})"
            )
    return read_network(record.child("network"))


def read_batch_curve(r: Record) -> dict[str, Curve]:
    """Return the batch curves of a device: by task kind, or one for all kinds."""
    if "batch_curve" not in r:
        return {}
    given = r.raw("batch_curve")
    path = r.path("batch_curve")
    if not isinstance(given, dict):
        return {ANY_KIND: _curve(given, path)}
    return {kind: _curve(value, f"{path}.{kind}") for kind, value in given.items()}


def _curve(value: object, path: str) -> Curve:
    if isinstance(value, list):
        check_cells(len(value), f"{path} of {len(value)} numbers")
        return [quantity(x, "number", f"{path}[{i}]") for i, x in enumerate(value)]
    number = quantity(value, "number", path)
    if not 0.0 <= number < np.inf:
        raise InvalidInput(f"{path} is {number:g}; it must be a finite number, zero or more")
    return number


def read_setup(r: Record) -> dict[str, Any]:
    """Return those of set-up, cache and switch that are given for a device."""
    given: dict[str, Any] = {**r.quantities({"cache": "bytes", "switch": "seconds"})}
    if "setup" not in r:
        return given
    if not isinstance(r.raw("setup"), dict):
        return given | {"setup": {ANY_KIND: Setup(r.quantity("setup", "seconds"))}}
    table = r.child("setup")
    return given | {"setup": {kind: _setup_of(table, kind) for kind in table.content}}


def _setup_of(table: Record, kind: str) -> Setup:
    if not isinstance(table.raw(kind), dict):
        return Setup(table.quantity(kind, "seconds"))
    r = table.child(kind)
    r.only(("time", "memory", "pinned"))
    return Setup(
        r.quantity("time", "seconds"),
        r.quantity("memory", "bytes", 0.0),
        r.flag("pinned", default=False),
    )


def _links(record: Record) -> tuple[Links, dict[str, FloatArray]]:
    if "links" not in record:
        return Links(), {}
    r = record.child("links")
    r.only(LINKS)
    numbers, matrices = {}, {}
    for key, unit in LINKS.items():
        if key not in r:
            continue
        if isinstance(r.raw(key), list) and not key.startswith("node_"):
            if f"node_{key}" in r:
                raise InvalidInput(
                    f"{r.path(f'node_{key}')} has no meaning beside a matrix of {key}; leave it out"
                )
            matrices[key] = _matrix(r, key, unit)
        else:
            numbers[key] = r.quantity(key, unit)
    return Links(**numbers), matrices


def _matrix(r: Record, key: str, unit: str) -> FloatArray:
    rows = r.raw(key)
    if any(not isinstance(row, list) or len(row) != len(rows) for row in rows):
        raise InvalidInput(
            f"{r.path(key)} must be a square matrix, one row and one column per device"
        )
    return np.array(
        [
            [quantity(x, unit, f"{r.path(key)}[{i}][{j}]") for j, x in enumerate(row)]
            for i, row in enumerate(rows)
        ],
        float,
    )


def write_cluster_toml(cluster: Cluster) -> bytes:
    """Return the TOML text of a cluster; reading it gives the same one, bit for bit."""
    lines = [f"name = {quoted(cluster.name)}", "", "[links]"]
    for key in ("bandwidth", "latency"):
        lines += _link_lines(
            key,
            getattr(cluster, key),
            np.array([cluster.nodes.index(n) for n in cluster.nodes]),
            routed=cluster.network is not None,
        )
    for d in range(cluster.p):
        lines += ["", "[[devices]]", *_device_lines(cluster, d)]
    for i, node in enumerate(cluster.node_names):
        limits = [
            f"{quoted(k)} = {float(v[i])!r}" for k, v in cluster.capacity.items() if v[i] < np.inf
        ]
        if limits:
            lines += ["", f"[nodes.{quoted(node)}]", f"capacity = {{{', '.join(limits)}}}"]
    if cluster.network is not None:
        lines += network_lines(cluster.network)
    return ("\n".join(lines) + "\n").encode("utf-8")


def _link_lines(key: str, matrix: FloatArray, node: FloatArray, *, routed: bool) -> list[str]:
    same = node[:, None] == node[None, :]
    between, within = matrix[~same], matrix[same & ~np.eye(len(matrix), dtype=bool)]
    between = between[:0] if routed else between  # links between nodes follow from the network
    if all((part == part[:1]).all() for part in (between, within)):
        made = [f"{key} = {float(between[0])!r}"] if len(between) else []
        return made + ([f"node_{key} = {float(within[0])!r}"] if len(within) else [])
    rows = [f"  [{', '.join(repr(x) for x in row)}]," for row in matrix.tolist()]
    return [f"{key} = [", *rows, "]"]


def _device_lines(c: Cluster, d: int) -> list[str]:
    lines = [
        f"{key} = {quoted(values[d])}"
        for key, values in (("name", c.names), ("kind", c.kinds), ("node", c.nodes))
    ]
    lines += [f"{key} = {float(getattr(c, key)[d])!r}" for key in QUANTITIES]
    lines += [f"{key} = {int(getattr(c, key)[d])}" for key in ("cores", "batch")]
    rates = [
        f"{quoted(k)} = {float(v[d])!r}" for k, v in c.throughput.items() if not np.isnan(v[d])
    ]
    lines += [f"throughput = {{{', '.join(rates)}}}"] if rates else []
    size = int(c.batch[d])
    curves = [f"{quoted(k)} = {v[d, :size].tolist()!r}" for k, v in c.batch_curve.items()]
    lines += [f"batch_curve = {{{', '.join(curves)}}}"] if curves else []
    return lines + _setup_lines(c, d)


def _setup_lines(c: Cluster, d: int) -> list[str]:
    rows = [
        f"{quoted(kind)} = {{time = {seconds!r}, memory = {memory!r}, "
        f"pinned = {'true' if pinned else 'false'}}}"
        for kind, table in c.setup.items()
        for seconds, memory, pinned in [table[d].tolist()]
    ]
    lines = [f"setup = {{{', '.join(rows)}}}"] if rows else []
    lines += [f"cache = {float(c.cache[d])!r}"] if c.cache[d] < np.inf else []
    return lines + ([f"switch = {float(c.switch[d])!r}"] if c.switch[d] > 0 else [])
