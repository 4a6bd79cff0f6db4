"""Clusters: from a text like ``4xV100+2xA100+8xT4``, or at random."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import numpy as np

from weft.arguments import number, whole
from weft.errors import InvalidInput
from weft.generators.machines.catalogue import (
    DeviceModel,
    LinkModel,
    catalogue,
    device_model,
    link_model,
)
from weft.generators.machines.costs import related_speeds
from weft.model import Cluster
from weft.rng import generator
from weft.typed import typed


class _Place(NamedTuple):
    model: DeviceModel
    node: str


MOST_DEVICES = 4096
"""Devices that a number may ask for: tables between devices grow with its square."""
DIGITS = 10
"""Longest count that is read in full; a longer one is too large in any case."""


@typed
def gpu_cluster(
    text: str,
    *,
    name: str | None = None,
    precision: str = "fp32",
    efficiency: float = 1.0,
    network: str = "Ethernet-25G",
    per_node: int = 8,
    idle_share: float = 0.2,
) -> Cluster:
    """Make a cluster of published devices: TFLOP/s, and work in 10**12 operations.

    Parameters
    ----------
    text : nodes joined by "+". ``4xV100`` is a node of four V100, ``3x4xV100`` three such nodes,
        ``4xV100,2xCPU`` a node of both
    precision : whose peak counts: fp64, fp32 or fp16
    efficiency : share of the peak that is reached
    network : link between nodes (`weft.generators.machines.catalogue.link_model`)
    per_node : the most devices of a node; further devices go to further nodes
    idle_share : idle power as a share of the TDP (our own round number)

    Notes
    -----
    Within a node, two devices of one kind exchange data over their peer link (NVLink, xGMI) if they
    have one, all others over the slower of their PCIe links. Bandwidths are peaks; latencies are
    our own round numbers.

    Examples
    --------
    >>> c = gpu_cluster("2xV100+2xT4")
    >>> c.names, c.speed.tolist()
    (('V100:0', 'V100:1', 'T4:0', 'T4:1'), [15.7, 15.7, 8.1, 8.1])
    >>> [float(b) / 1e9 for b in c.bandwidth[0, 1:3]]  # NVLink, network
    [150.0, 3.125]
    """
    efficiency, idle_share = (
        number(efficiency, "efficiency", high=1.0, above=True),
        number(idle_share, "idle_share", high=1.0),
    )
    places = _parse(text, whole(per_node, "per_node"))
    models = [place.model for place in places]
    bandwidth, latency = _links(places, link_model(network))
    return Cluster(
        name=name or text,
        names=_numbered([m.name for m in models]),
        kinds=tuple(m.name for m in models),
        nodes=tuple(place.node for place in places),
        speed=np.array([efficiency * m.peak(precision) for m in models]),
        memory=np.array([m.memory for m in models]),
        cores=np.array([m.cores for m in models], np.int64),
        power=np.array([m.tdp for m in models]),
        idle_power=np.array([idle_share * m.tdp for m in models]),
        bandwidth=bandwidth,
        latency=latency,
    )


@typed
def mixed_cluster(
    seed: int = 0, *, kinds: int = 3, most: int = 4, cpus: int = 1, precision: str = "fp32"
) -> Cluster:
    """Draw a cluster of `kinds` GPUs, 1 to `most` of each, and a node of CPUs.

    Examples
    --------
    >>> mixed_cluster(3).name
    '1xA10+1xM60+1xV100-32+1xEPYC-7763'
    """
    rng = generator(seed, "clusters", "mixed")
    gpus = [
        name
        for name, model in catalogue().items()
        if model.cores == 1 and (precision != "fp16" or model.fp16)
    ]
    kinds, most = whole(kinds, "kinds"), whole(most, "most")
    if kinds > len(gpus):
        raise InvalidInput(f"kinds is {kinds}, but the catalogue has {len(gpus)} GPUs")
    chosen = rng.choice(len(gpus), size=kinds, replace=False).tolist()
    terms = [
        f"{int(rng.integers(1, most + 1))}x{gpus[g]}" for g in sorted(chosen, key=gpus.__getitem__)
    ]
    if whole(cpus, "cpus", least=0):
        terms.append(f"{cpus}xEPYC-7763")
    return gpu_cluster("+".join(terms), precision=precision)


@typed
def random_cluster(
    devices: int = 8,
    *,
    nodes: int = 1,
    heterogeneity: float = 1.0,
    speed: float = 1.0,
    bandwidth: float = 1e9,
    link_heterogeneity: float = 0.0,
    latency: float = 0.0,
    node_factor: float = 1.0,
    seed: int = 0,
) -> Cluster:
    """Draw related speeds and symmetric links.

    `speed` is the mean speed, `bandwidth` the mean bytes per second, `latency` in seconds.

    Parameters
    ----------
    heterogeneity, link_heterogeneity : speeds and bandwidths are uniform in their mean times [1 - h
        / 2, 1 + h / 2]
    nodes : number of nodes, each with a block of devices; within a node, bandwidth is `node_factor`
        times as high

    Examples
    --------
    >>> c = random_cluster(devices=4, nodes=2, node_factor=10.0)
    >>> c.nodes, float(c.bandwidth[0, 1] / c.bandwidth[0, 2])
    (('node0', 'node0', 'node1', 'node1'), 10.0)
    """
    devices, nodes = whole(devices, "devices"), whole(nodes, "nodes")
    h = number(link_heterogeneity, "link_heterogeneity", high=1.999)
    node = np.arange(devices) * nodes // devices
    draw = generator(seed, "clusters", "links").uniform(
        1.0 - h / 2, 1.0 + h / 2, (devices, devices)
    )
    upper = np.triu(draw, 1)
    within = np.where(node[:, None] == node, number(node_factor, "node_factor", above=True), 1.0)
    return Cluster(
        name=f"random-{devices}",
        speed=related_speeds(devices, heterogeneity=heterogeneity, speed=speed, seed=seed),
        nodes=tuple(f"node{i}" for i in node.tolist()),
        bandwidth=number(bandwidth, "bandwidth", above=True)
        * within
        * (upper + upper.T + np.eye(devices)),
        latency=number(latency, "latency"),  # type: ignore[arg-type]  # a scalar fills the matrix
    )


def _parse(text: str, per_node: int) -> list[_Place]:
    """Return the devices in the order they are written, each with its node."""
    rooms: list[list[DeviceModel]] = []
    devices = 0
    for term in text.split("+"):
        parts = [_part(part.strip(), text) for part in term.split(",")]
        devices += sum(nodes * count for nodes, count, _ in parts)
        if devices > MOST_DEVICES:
            raise InvalidInput(
                f"cluster '{text[:60]}' has more than {MOST_DEVICES} devices, the most of such a "
                "text; their links take memory with the square of their number"
            )
        if len(parts) > 1:
            if any(nodes > 1 for nodes, _, _ in parts):
                raise InvalidInput(
                    f"cluster '{text}' has the term '{term}'; a node of several kinds is written "
                    "like 4xV100,2xCPU"
                )
            rooms.append([model for _, count, model in parts for _ in range(count)])
            continue
        nodes, count, model = parts[0]
        rooms += [
            [model] * min(per_node, count - begin)
            for _ in range(nodes)
            for begin in range(0, count, per_node)
        ]
    return [_Place(model, f"node{i}") for i, room in enumerate(rooms) for model in room]


def _part(part: str, text: str) -> tuple[int, int, DeviceModel]:
    """Split ``3x4xV100`` into (3, 4, V100)."""
    head = part
    numbers: list[int] = []
    while len(numbers) < 2:
        first, x, rest = head.partition("x")
        if not x or not (first.strip().isascii() and first.strip().isdigit()):
            break
        numbers.append(int(first.strip()[:DIGITS]))
        head = rest.strip()
    if not head or 0 in numbers:
        raise InvalidInput(
            f"cluster '{text}' has the term '{part}'; write terms like 4xV100 or 3x4xV100, joined "
            "by +"
        )
    nodes, count = ([1, 1, *numbers])[-2:]
    return nodes, count, device_model(head)


def _links(places: list[_Place], network: LinkModel) -> tuple[np.ndarray, np.ndarray]:
    """Return (p, p) bandwidth and latency, computed once per pair of (kind, node)."""
    groups = list(dict.fromkeys(places))
    member = np.array([groups.index(place) for place in places])
    pair = [[_link(a, b, network) for b in groups] for a in groups]
    bandwidth = np.array([[link.bandwidth for link in row] for row in pair])
    latency = np.array([[link.latency for link in row] for row in pair])
    return bandwidth[np.ix_(member, member)], latency[np.ix_(member, member)]


def _link(a: _Place, b: _Place, network: LinkModel) -> LinkModel:
    if a.node != b.node:
        return network
    if a.model == b.model and a.model.peer is not None:
        return a.model.peer
    return min(a.model.host, b.model.host, key=lambda link: link.bandwidth)


def _numbered(names: list[str]) -> tuple[str, ...]:
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    return tuple(f"{name}:{next(numbers[name])}" for name in names)
