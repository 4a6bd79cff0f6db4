"""Networks in cluster files (TOML) and in weft's own schema.

Example::

    [network]
    sharing = "fair"                # or "one-port"

    [[network.ports]]
    nodes = ["n0", "n1"]
    up = "10 Gbit/s"
    down = "10 Gbit/s"              # as up, if left out
    latency = "5 us"
    switch = "left"

    [[network.ports]]
    nodes = ["n2", "n3"]
    up = "10 Gbit/s"
    switch = "right"

    [[network.trunks]]
    between = ["left", "right"]
    bandwidth = "5 Gbit/s"          # each way; or oversubscription = 4: the ports of the first / 4
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.limits import LINK_TABLES, check_cells
from weft.formats.parsing.record import Record
from weft.model import Port, Topology, Trunk
from weft.model.columns import floats

PORT = {"up": "bytes per second", "down": "bytes per second", "latency": "seconds"}
TRUNK = {"bandwidth": "bytes per second", "latency": "seconds"}


def read_network(r: Record) -> Topology:
    """Return the network of a cluster file."""
    r.only(("sharing", "ports", "trunks"))
    ports: dict[str, Port] = {}
    for p in r.children("ports"):
        p.only(("nodes", "switch", *PORT))
        given = p.quantities(PORT)
        for node in p.strings("nodes"):
            if node in ports:
                raise InvalidInput(f"{p.path('nodes')}: node '{node}' has a port already")
            ports[node] = Port(switch=p.text("switch", "switch"), **given)
    rows = r.children("trunks") if "trunks" in r else []
    check_cells(LINK_TABLES * len(rows) ** 2, f"a network of {len(rows)} trunks")
    trunks = [_trunk(t, ports) for t in rows]
    return Topology(ports, trunks, r.text("sharing", "fair"))


def _trunk(t: Record, ports: dict[str, Port]) -> Trunk:
    t.only(("between", "oversubscription", *TRUNK))
    given = t.quantities(TRUNK)
    ends = t.strings("between")
    if len(ends) != 2:
        raise InvalidInput(f"{t.path('between')} has {len(ends)} names; give two switches")
    if ("bandwidth" in t) == ("oversubscription" in t):
        raise InvalidInput(
            f"{t.path('bandwidth')}: give the bandwidth of a trunk or its oversubscription"
        )
    if "oversubscription" in t:
        over = t.quantity("oversubscription", "number")
        if not over > 0:
            raise InvalidInput(f"{t.path('oversubscription')} is {over:g}; it must be above zero")
        given["bandwidth"] = sum(p.up for p in ports.values() if p.switch == ends[0]) / over
    return Trunk(ends[0], ends[1], given["bandwidth"], given.get("latency", 0.0))


def network_lines(network: Topology) -> list[str]:
    """Return the lines of a cluster file."""
    lines = ["", "[network]", f"sharing = {quoted(network.sharing)}"]
    for node, p in network.ports.items():
        lines += ["", "[[network.ports]]", f"nodes = [{quoted(node)}]"]
        lines += [f"{key} = {float(getattr(p, key))!r}" for key in PORT]
        lines += [f"switch = {quoted(p.switch)}"]
    for t in network.trunks:
        lines += ["", "[[network.trunks]]", f"between = [{quoted(t.one)}, {quoted(t.other)}]"]
        lines += [f"{key} = {float(getattr(t, key))!r}" for key in TRUNK]
    return lines


def encode_network(network: Topology) -> dict[str, Any]:
    """Return the columns of a network."""
    ports, trunks = network.ports.values(), network.trunks
    made: dict[str, Any] = {"sharing": network.sharing, "nodes": list(network.ports)}
    made |= {key: np.array([getattr(p, key) for p in ports], float) for key in PORT}
    made |= {"switch": [p.switch for p in ports]}
    if trunks:
        made |= {"one": [t.one for t in trunks], "other": [t.other for t in trunks]}
        made |= {f"trunk_{key}": np.array([getattr(t, key) for t in trunks]) for key in TRUNK}
    return made


def decode_network(r: Record) -> Topology:
    """Return the network of a record."""
    trunk = [f"trunk_{key}" for key in TRUNK]
    r.only(("sharing", "nodes", "switch", "one", "other", *PORT, *trunk))
    nodes, ends = r.strings("nodes"), [r.strings(key, ()) for key in ("one", "other")]
    columns = [_column(r, key, len(nodes)) for key in PORT]
    rates = [_column(r, key, len(ends[0])) for key in trunk]
    switch = r.strings("switch")
    if len(switch) != len(nodes) or len(ends[0]) != len(ends[1]):
        raise InvalidInput(f"{r.path('switch')} needs one name per node, and trunks two ends")
    rows = zip(nodes, *columns, switch, strict=True)
    ports = {node: Port(up, down, latency, at) for node, up, down, latency, at in rows}
    trunks = [Trunk(*row) for row in zip(*ends, *rates, strict=True)]
    return Topology(ports, trunks, r.text("sharing", "fair"))


def _column(r: Record, key: str, count: int) -> list[float]:
    column = np.atleast_1d(r.floats(key, []))
    made: list[float] = floats(column, r.path(key), shape=(count,)).tolist()
    return made


def quoted(text: str) -> str:
    """Return a text as a string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
