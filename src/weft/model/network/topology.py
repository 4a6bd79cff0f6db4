"""`Topology`: ports of nodes, switches and the trunks between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from weft.arguments import number, shown
from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray, frozen
from weft.registry import closest
from weft.typed import description, typed

SHARING = ("fair", "one-port")
"""How transfers share links: max-min fair, or one at a time at each port."""


@description
@dataclass(frozen=True)
class Port:
    """The connection of a node to a switch.

    Bandwidths are in bytes per second up and down, the latency is in seconds. `down` is `up` where
    it is not given. A route has the latency of both of its ports.
    """

    up: float = np.inf
    down: float = None  # type: ignore[assignment]  # made up where not given
    latency: float = 0.0
    switch: str = "switch"

    def __post_init__(self) -> None:
        """Fill in the rate down."""
        if self.down is None:
            object.__setattr__(self, "down", self.up)


@description
@dataclass(frozen=True)
class Trunk:
    """A connection of two switches.

    The bandwidth is in bytes per second in each direction, the latency in seconds.
    """

    one: str
    other: str
    bandwidth: float
    latency: float = 0.0


class Routes(NamedTuple):
    """Links in numbers.

    Those of node i are 2 i (up) and 2 i + 1 (down); then come the trunks, both ways.
    """

    rate: FloatArray  # (links,) bytes per second
    path: IntArray  # (nodes, nodes, longest) links from node to node; -1: none
    bandwidth: FloatArray  # (nodes, nodes) the least rate of a route
    latency: FloatArray  # (nodes, nodes) the sum over a route


@description
@dataclass(frozen=True)
class Topology:
    """Links between nodes that are shared by the data that moves at the same time.

    Parameters
    ----------
    ports : node -> its port
    trunks : connections of switches; a route crosses the fewest
    sharing : "fair": rates are max-min fair on all links of the routes; "one-port": a node sends
        one and receives one transfer at a time, in the order in which they begin

    Examples
    --------
    >>> network = Topology.racks({"left": ["a", "b"], "right": ["c"]}, up=1e9, oversubscription=4)
    >>> network
    Topology(3 ports on 2 switches, 1 trunk, fair)
    >>> network.routes(("a", "b", "c")).bandwidth.tolist()[0]
    [inf, 1000000000.0, 250000000.0]
    """

    ports: Mapping[str, Port]
    trunks: Sequence[Trunk] = ()
    sharing: str = "fair"

    def __post_init__(self) -> None:
        """Refuse rates, latencies and names that have no meaning."""
        if self.sharing not in SHARING:
            raise InvalidInput(
                f"sharing is '{self.sharing}'{closest(self.sharing, SHARING)}; it must be "
                "'fair' or 'one-port'"
            )
        object.__setattr__(self, "ports", dict(self.ports))
        object.__setattr__(self, "trunks", tuple(self.trunks))
        for node, p in self.ports.items():
            _refuse(p.up, p.latency, f"the port of node '{node}' (up)")
            _refuse(p.down, p.latency, f"the port of node '{node}' (down)")
            _refuse_switch(p.switch, f"the port of node '{node}'")
        for t in self.trunks:
            what = f"the trunk '{t.one}' - '{t.other}'"
            _refuse(t.bandwidth, t.latency, what)
            for switch in (t.one, t.other):
                _refuse_switch(switch, what)
            if t.one == t.other:
                raise InvalidInput(f"{what} connects a switch to itself")

    def __repr__(self) -> str:
        switches = {p.switch for p in self.ports.values()}
        switches.update(end for t in self.trunks for end in (t.one, t.other))
        ports, trunks = _count(self.ports, "port"), _count(self.trunks, "trunk")
        return f"Topology({ports} on {_count(switches, 'switch')}, {trunks}, {self.sharing})"

    @classmethod
    @typed
    def star(
        cls,
        nodes: Iterable[str],
        up: float,
        down: float | None = None,
        *,
        latency: float = 0.0,
        sharing: str = "fair",
    ) -> Topology:
        """Connect all nodes to one switch that is never the bottleneck."""
        port = Port(up, up if down is None else down, latency)
        return cls(dict.fromkeys(nodes, port), sharing=sharing)

    @classmethod
    @typed
    def racks(
        cls,
        racks: Mapping[str, Sequence[str]],
        up: float,
        *,
        oversubscription: float = 1.0,
        latency: float = 0.0,
        sharing: str = "fair",
    ) -> Topology:
        """Connect the nodes of each rack to its switch, and the switches to each other.

        Two racks are joined by one trunk, more by a core switch. The trunk of a rack carries the
        rate of its ports over `oversubscription`; a trunk of two racks, that of the smaller one.
        """
        number(oversubscription, "oversubscription", above=True)
        ports = {
            node: Port(up, latency=latency, switch=rack)
            for rack, nodes in racks.items()
            for node in nodes
        }
        rate = {rack: len(nodes) * up / oversubscription for rack, nodes in racks.items()}
        names = tuple(racks)
        if len(names) == 2:
            trunks = [Trunk(*names, min(rate.values()))]
        else:
            core = next(n for n in ("core", "core switch", "_".join(names)) if n not in racks)
            trunks = [Trunk(rack, core, rate[rack]) for rack in names]
        return cls(ports, trunks if len(names) > 1 else (), sharing)

    @property
    def one_port(self) -> bool:
        """Whether a node sends one and receives one transfer at a time."""
        return self.sharing == "one-port"

    def of_nodes(self, nodes: Iterable[str]) -> Topology:
        """Return the network with the ports of these nodes only."""
        return replace(self, ports={node: self.ports[node] for node in nodes})

    def faster(self, factor: float) -> Topology:
        """Return the network with all rates times a factor."""
        ports = {
            n: replace(p, up=p.up * factor, down=p.down * factor) for n, p in self.ports.items()
        }
        trunks = [replace(t, bandwidth=t.bandwidth * factor) for t in self.trunks]
        return replace(self, ports=ports, trunks=trunks)

    def routes(self, nodes: Sequence[str]) -> Routes:
        """Return the links, and those that data takes between each two of some nodes."""
        self._refuse_nodes(nodes)
        ports, count = [self.ports[node] for node in nodes], len(nodes)
        up, down, wait = (
            np.array([getattr(p, key) for p in ports], float) for key in ("up", "down", "latency")
        )
        used = tuple(dict.fromkeys(p.switch for p in ports))
        at = np.array([used.index(p.switch) for p in ports], np.int64)
        crossed, least, seconds = self._between(used, 2 * count)
        apart, pair = ~np.eye(count, dtype=bool), np.ix_(at, at)
        lost = np.argwhere(apart & np.isnan(seconds[pair]))
        if len(lost):
            a, b = lost[0].tolist()
            raise InvalidInput(
                f"no trunks lead from node '{nodes[a]}' (switch '{ports[a].switch}') to node "
                f"'{nodes[b]}' (switch '{ports[b].switch}')"
            )
        node = np.arange(count)
        ends = (np.broadcast_to(x, (count, count)) for x in (2 * node[:, None], 2 * node + 1))
        path = np.stack([next(ends), *np.moveaxis(crossed[pair], 2, 0), next(ends)], axis=2)
        bandwidth = np.minimum(np.minimum(up[:, None], down), least[pair])
        with np.errstate(over="ignore"):
            latency = wait[:, None] + wait + seconds[pair]
        if len(far := np.argwhere(apart & np.isinf(latency))):
            a, b = far[0].tolist()
            raise InvalidInput(
                f"the latencies from node '{nodes[a]}' to node '{nodes[b]}' add up to more than "
                "can be computed with"
            )
        trunks = [t.bandwidth for t in self.trunks for _ in range(2)]
        return Routes(
            frozen(np.concatenate((np.stack((up, down), axis=1).reshape(-1), trunks))),
            frozen(np.where(apart[:, :, None], path, -1)),
            frozen(np.where(apart, bandwidth, np.inf)),
            frozen(np.where(apart, latency, 0.0)),
        )

    def _between(
        self, switches: Sequence[str], first: int
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return trunks, least rate and latency between switches; NaN: there is no way."""
        ways = [self._paths(one, first) for one in switches]
        found = [[way.get(other) for other in switches] for way in ways]
        size = (len(switches), len(switches))
        crossed = np.full((*size, max((len(x) for row in found for x in row if x), default=0)), -1)
        least, seconds = np.full(size, np.inf), np.full(size, np.nan)
        for i, row in enumerate(found):
            for j, trunks in enumerate(row):
                if trunks is not None:
                    crossed[i, j, : len(trunks)] = trunks
                    mine = [self.trunks[(x - first) // 2] for x in trunks]
                    least[i, j] = min((t.bandwidth for t in mine), default=np.inf)
                    seconds[i, j] = sum(t.latency for t in mine)
        return crossed, least, seconds

    def _paths(self, start: str, first: int) -> dict[str, list[int]]:
        """Return the trunks, numbered from `first`, from `start` to each switch."""
        found: dict[str, list[int]] = {start: []}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for k, trunk in enumerate(self.trunks):
                ends = ((trunk.one, trunk.other, 0), (trunk.other, trunk.one, 1))
                for one, other, back in ends:
                    if one == here and other not in found:
                        found[other] = [*found[here], first + 2 * k + back]
                        queue.append(other)
        return found

    def _refuse_nodes(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            if node not in self.ports:
                raise InvalidInput(
                    f"the network has no port for node '{node}'{closest(node, self.ports)}"
                )
        for node in self.ports:
            if node not in nodes:
                raise InvalidInput(
                    f"the network has a port for the unknown node '{node}'{closest(node, nodes)}"
                )


def _refuse(rate: float, latency: float, what: str) -> None:
    if not float(rate) > 0:
        raise InvalidInput(f"the rate of {what} is {rate:g}; it must be above zero")
    if not 0 <= float(latency) < np.inf:
        raise InvalidInput(
            f"the latency of {what} is {latency:g}; it must be a finite number, zero or more"
        )


def _refuse_switch(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise InvalidInput(f"{what} names switch {shown(name)}; a switch has a text as its name")


def _count(things: Collection[object], noun: str) -> str:
    count = len(things)
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{'' if count == 1 else plural}"
