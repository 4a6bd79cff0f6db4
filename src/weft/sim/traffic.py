"""`Traffic`: transfers between the nodes of a network.

It is the slow twin of `sim/kernel/traffic.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np

from weft.model import Problem, Transfers, Workload


@dataclass(eq=False)
class Flow:
    """A transfer: `left` bytes at `since`, moving at `rate` from then on.

    A rate of 0 means that the transfer is in its latency.
    """

    instance: int
    edge: int
    source: int
    target: int
    begin: float
    route: list[int]
    since: float = 0.0
    left: float = 0.0
    rate: float = 0.0
    end: float = inf
    consumer: int = -1
    """The instance that waits for it; -1: none."""


class Traffic:
    """Transfers of one simulation, and the inputs that instances wait for.

    Examples
    --------
    >>> from weft.model import Cluster, Device, Topology, Workflow
    >>> star = Topology.star("ab", up=10.0)
    >>> two = Cluster.of([Device("d0", node="a"), Device("d1", node="b")], network=star)
    >>> chain = Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[50.0])
    >>> problem = Problem.bind(chain, two)
    >>> traffic = Traffic(Workload.of(problem))
    >>> traffic.begin(1, problem, 0, 0, 1, 2.0)
    >>> traffic.next_event(2.0), traffic.arrival([1])
    (7.0, inf)
    """

    def __init__(self, workload: Workload) -> None:
        routes, cluster = workload.cluster.routes, workload.cluster
        assert routes is not None
        assert cluster.network is not None
        self.one_port = cluster.network.one_port
        self.flows: list[Flow] = []
        self.moving: list[Flow] = []
        self._node: list[int] = cluster.node.tolist()
        self._rate: list[float] = routes.rate.tolist()
        self._path: list[list[list[int]]] = routes.path.tolist()
        self._free = [0.0] * len(self._rate)
        self._there = [0.0] * workload.instances
        self._waits = [0] * workload.instances
        self._reshare = False

    def begin(
        self, instance: int, problem: Problem, edge: int, source: int, target: int, now: float
    ) -> None:
        """Send the data of an edge of an instance's job from one device to another."""
        a, b = self._node[source], self._node[target]
        data, cluster = float(problem.workflow.data[edge]), problem.cluster
        if a == b:
            self._arrives(instance, now + problem.transfer(edge, source, target))
            return
        route = [link for link in self._path[a][b] if link >= 0]
        flow = Flow(instance, edge, source, target, now, route)
        self.flows.append(flow)
        latency = float(cluster.latency[source, target])
        if data == 0.0 or cluster.per_byte[source, target] == 0.0:
            flow.end = now + latency
        elif self.one_port:
            begin = max(now, self._free[route[0]], self._free[route[-1]])
            flow.end = begin + problem.transfer(edge, source, target)
            self._free[route[0]] = self._free[route[-1]] = flow.end
        else:
            flow.since, flow.left, flow.consumer = now + latency, data, instance
            self.moving.append(flow)
            self._reshare = True
            self._waits[instance] += 1
            return
        self._arrives(instance, flow.end)

    def _arrives(self, instance: int, at: float) -> None:
        self._there[instance] = max(self._there[instance], at)

    def drop_inputs(self, instance: int) -> None:
        """Let an instance no longer wait for its transfers, which go on."""
        self._there[instance], self._waits[instance] = 0.0, 0
        for flow in self.moving:
            if flow.consumer == instance:
                flow.consumer = -1

    def arrival(self, members: Sequence[int]) -> float:
        """Return when the inputs of a group are there; inf while a transfer is on its way."""
        if any(self._waits[i] for i in members):
            return inf
        return max(self._there[i] for i in members)

    def next_event(self, now: float) -> float:
        """Return when the next transfer ends, or its latency does; inf: never."""
        if self._reshare:
            self._share(now)
        return min((f.end if f.rate > 0.0 else f.since for f in self.moving), default=inf)

    def end_due(self, now: float) -> None:
        """End the transfers that are due."""
        for flow in [f for f in self.moving if f.rate > 0.0 and f.end <= now]:
            self.moving.remove(flow)
            self._reshare = True
            if flow.consumer >= 0:
                self._waits[flow.consumer] -= 1
                self._arrives(flow.consumer, flow.end)
        self._reshare |= any(f.rate == 0.0 and f.since <= now for f in self.moving)

    def _share(self, now: float) -> None:
        """Give max-min fair rates to the transfers whose latency is over."""
        self._reshare = False
        unfixed = [f for f in self.moving if f.since <= now]
        left = list(self._rate)
        level = 0.0
        while unfixed:
            users = [sum(link in f.route for f in unfixed) for link in range(len(left))]
            shares = [x / n if n else inf for x, n in zip(left, users, strict=True)]
            narrow = shares.index(min(shares))
            level = max(level, shares[narrow])  # rounding must not lower the level
            for flow in [f for f in unfixed if narrow in f.route]:
                for link in flow.route:
                    left[link] -= level
                fix_rate(flow, level, now)
            unfixed = [f for f in unfixed if narrow not in f.route]

    def transfers(self, workload: Workload) -> Transfers:
        """Return all transfers so far, in the order in which they began."""
        rows = self.flows
        return Transfers(
            job=np.array([workload.task_of(f.instance)[0] for f in rows], np.int64),
            edge=np.array([f.edge for f in rows], np.int64),
            source=np.array([f.source for f in rows], np.int64),
            target=np.array([f.target for f in rows], np.int64),
            begin=np.array([f.begin for f in rows], np.float64),
            end=np.array([nan if f in self.moving else f.end for f in rows], np.float64),
        )


def fix_rate(flow: Flow, rate: float, now: float) -> None:
    """Set the rate of a transfer; its end moves only if the rate changes."""
    if rate != flow.rate:
        flow.left = max(flow.left - flow.rate * (now - flow.since), 0.0)
        flow.since, flow.rate = now, rate
        flow.end = now + flow.left / rate
