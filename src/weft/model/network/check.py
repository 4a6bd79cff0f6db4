"""Rules of transfers on a network, from docs/simulator.md, not from the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model.cluster import Cluster
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.network.rates import link_rates, link_use, transfer_ends
from weft.model.network.transfers import Transfers
from weft.model.oracle.violation import TOLERANCE, Violation, differs, exceeds, overlaps
from weft.model.workload import Workload


class TransferCheck:
    """The transfers of a trace, and the rules they obey.

    `done_at` and `ran_on` are (instances,): the end of each instance and its device.
    """

    def __init__(
        self, workload: Workload, moved: Transfers, done_at: FloatArray, ran_on: IntArray
    ) -> None:
        self.workload, self.cluster, self.moved = workload, workload.cluster, moved
        self.done_at, self.ran_on = done_at, ran_on
        self.known = _known(workload, moved)
        if self.known:
            first = workload.first_instance[moved.job]
            self.data, task = np.zeros(len(moved)), np.zeros(len(moved), np.int64)
            for here, problem in workload.by_problem(moved.job):
                self.data[here] = problem.workflow.data[moved.edge[here]]
                task[here] = problem.workflow.src[moved.edge[here]]
            self.parent = first + task

    def violations(self, last: float) -> Iterator[Violation]:
        """Yield transfers that cannot be; `last` is the end of the last job."""
        if not self.known:
            yield Violation("transfer", "a row names an unknown job, edge or device")
            return
        yield from self._begins()
        yield from self._ends(last)
        assert self.cluster.network is not None
        if self.cluster.network.one_port:
            yield from self._ports()
        else:
            yield from self._links()

    def _name(self, r: int) -> str:
        job, task = self.workload.task_of(int(self.parent[r]))
        name = self.workload.problem_of(job).workflow.task_name(task)
        return (
            f"the data of task '{name}' of job {job} for "
            f"'{self.cluster.names[self.moved.target[r]]}'"
        )

    def _begins(self) -> Iterator[Violation]:
        m = self.moved
        for r in np.flatnonzero(exceeds(self.done_at[self.parent], m.begin)).tolist():
            yield Violation(
                "transfer",
                f"{self._name(r)} begins to move at {m.begin[r]:.9g}, before the task ends at "
                f"{self.done_at[self.parent[r]]:.9g}",
            )
        for r in np.flatnonzero(self.ran_on[self.parent] != m.source).tolist():
            source = self.cluster.names[m.source[r]]
            yield Violation("transfer", f"{self._name(r)} comes from '{source}', which has it not")

    def _ends(self, last: float) -> Iterator[Violation]:
        m = self.moved
        must = transfer_ends(self.cluster, m.source, m.target, self.data, m.begin)
        said = np.where(np.isnan(m.end), np.maximum(must, last), m.end)
        for r in np.flatnonzero(differs(said, must)).tolist():
            yield Violation(
                "sharing",
                f"{self._name(r)} moves from {m.begin[r]:.9g} to {said[r]:.9g}; on shared links it "
                f"must arrive at {must[r]:.9g}",
            )

    def _links(self) -> Iterator[Violation]:
        """Yield violations of links that move more bytes than their rates allow."""
        m, c = self.moved, self.cluster
        begin, whole = m.begin + c.latency[m.source, m.target], np.isfinite(m.end) & (self.data > 0)
        uses, rate = link_use(c, m.source, m.target), link_rates(c)
        for link in np.flatnonzero(np.isfinite(rate) & uses.any(axis=0)).tolist():
            rows = np.flatnonzero(uses[:, link] & whole)
            rows = rows[np.argsort(m.end[rows], kind="stable")]
            for since in np.unique(begin[rows]).tolist():
                inside = rows[begin[rows] >= since]
                moved = np.cumsum(self.data[inside])
                slack = TOLERANCE * np.abs(m.end[inside])
                room = rate[link] * (m.end[inside] - since + slack)
                for k in np.flatnonzero(exceeds(moved, room))[:1].tolist():
                    yield Violation(
                        "link",
                        f"{moved[k]:g} bytes move from {since:.9g} to {m.end[inside[k]]:.9g} over "
                        f"{_link_name(c, link)} of {rate[link]:g} bytes per second",
                    )

    def _ports(self) -> Iterator[Violation]:
        """Yield violations of nodes that send or receive two transfers at a time."""
        m, c = self.moved, self.cluster
        seconds = c.latency[m.source, m.target] + self.data * c.per_byte[m.source, m.target]
        real = np.flatnonzero(
            (self.data > 0) & np.isfinite(c.bandwidth[m.source, m.target]) & np.isfinite(m.end)
        )
        for device, verb in ((m.source, "sends"), (m.target, "receives")):
            pairs = overlaps(c.node[device[real]], (m.end - seconds)[real], m.end[real])
            for a, b in pairs:
                node = c.nodes[device[real[b]]]
                yield Violation(
                    "port",
                    f"node '{node}' {verb} {self._name(real[b])} before {self._name(real[a])} has "
                    f"arrived at {m.end[real[a]]:.9g}",
                )


def _known(workload: Workload, m: Transfers) -> bool:
    """Return whether all rows name existing jobs, edges and devices."""
    job_ok: BoolArray = (m.job >= 0) & (m.job < workload.jobs)
    if not job_ok.all():
        return False
    edges = np.array([p.m for p in workload.problems], np.int64)[workload.template[m.job]]
    p = workload.cluster.p
    parts = ((m.edge, edges), (m.source, p), (m.target, p))
    return all(bool(((x >= 0) & (x < limit)).all()) for x, limit in parts)


def _link_name(cluster: Cluster, link: int) -> str:
    nodes, network = cluster.node_names, cluster.network
    if link < 2 * len(nodes) or network is None:
        return f"the port of node '{nodes[link // 2]}' {'up' if link % 2 == 0 else 'down'}"
    trunk = network.trunks[(link - 2 * len(nodes)) // 2]
    ends = (trunk.one, trunk.other) if link % 2 == 0 else (trunk.other, trunk.one)
    return f"the trunk '{ends[0]}' -> '{ends[1]}'"
