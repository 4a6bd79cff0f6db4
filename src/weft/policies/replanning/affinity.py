"""Job affinity: keep a job on one node or device if transfers are expensive.

A list scheduler places one task at a time, and one task alone gains nothing by waiting for a near
device. So it scatters a job over nodes with slow links between them, and no small change of the
plan brings the tasks back together. Therefore a second plan gives every job a group of devices
first (clustering before mapping: Yang and Gerasoulis 1994).
"""

from __future__ import annotations

import numpy as np

from weft.model import Cluster
from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import JOB_HERE, RecordTable, Sim

NO_GROUP = -1
"""Group of a job that has none yet, or may run anywhere."""
DEMAND = record("load critical_path", "")
"""Seconds a job needs on a group: all its tasks over the devices there; its longest path, with each
task on its fastest device."""


def divisions(cluster: Cluster) -> list[IntArray]:
    """Return groupings of the devices: by node, and one by one.

    Examples
    --------
    >>> cluster = Cluster(speed=[1.0, 1.0, 2.0], nodes=("a", "a", "b"))
    >>> [group.tolist() for group in divisions(cluster)]
    [[0, 0, 1], [0, 1, 2]]
    """
    names = list(dict.fromkeys(cluster.nodes))
    found = [np.array([names.index(node) for node in cluster.nodes], np.int64)]
    if not 1 < len(names) < cluster.p:
        found = []
    return [*found, np.arange(cluster.p)] if cluster.p > 1 else found


def transfer_within(cluster: Cluster, group: IntArray) -> tuple[float, float]:
    """Return mean latency and seconds per byte between different devices of a group.

    Examples
    --------
    >>> cluster = Cluster(speed=[1.0] * 3, latency=[[0, 1, 9], [1, 0, 9], [9, 9, 0]])
    >>> transfer_within(cluster, np.array([0, 0, 1]))
    (1.0, 0.0)
    """
    near = (group[:, None] == group[None, :]) & ~np.eye(len(group), dtype=bool)
    pairs = max(int(near.sum()), 1)
    latency, per_byte = (cluster.latency * near).sum(), (cluster.per_byte * near).sum()
    return float(latency) / pairs, float(per_byte) / pairs


@njit_noalloc
def weigh_groups(
    sim: Sim,
    topological: IntArray,
    starts: IntArray,
    group: IntArray,
    demand: RecordTable,
    work: FloatArray,
) -> None:
    """Compute the demand of each workflow on each group, (workflows, groups).

    A task that a group cannot run runs elsewhere: it adds nothing to the load of the group, and
    adds its least time on any device to the path. A group that can run no task of a workflow has an
    infinite path. `work`, (tasks + 3, groups), is working memory. Its first rows hold the longest
    path from the start of each task; the last three, for one task, the number of devices of each
    group that can run it, their seconds in all, and their least seconds.
    """
    p, tasks = len(group), len(sim.task) - 1
    able, total, least = work[tasks], work[tasks + 1], work[tasks + 2]
    for w in range(len(starts) - 1):
        for g in range(p):
            demand[w, g].load = 0.0
            demand[w, g].critical_path = np.inf if starts[w] < starts[w + 1] else 0.0
        for k in range(starts[w + 1] - 1, starts[w] - 1, -1):
            u = topological[k]
            anywhere = _weigh_task(sim, u, group, able, total, least)
            for g in range(p):
                after = 0.0
                for e in range(sim.task[u].succ, sim.task[u + 1].succ):
                    after = max(after, work[sim.edge[e].target, g])
                work[u, g] = after + (least[g] if able[g] > 0.0 else anywhere)
                if able[g] > 0.0:
                    demand[w, g].load += total[g] / able[g]
                    demand[w, g].critical_path = 0.0
        for k in range(starts[w], starts[w + 1]):
            for g in range(p):
                path = work[topological[k], g]
                demand[w, g].critical_path = max(demand[w, g].critical_path, path)
    for g in range(p):
        devices = 0
        for d in range(p):
            devices += 1 if group[d] == g else 0
        for w in range(len(starts) - 1):
            demand[w, g].load /= max(devices, 1)


@njit_inline
def _weigh_task(
    sim: Sim, u: int, group: IntArray, able: FloatArray, total: FloatArray, least: FloatArray
) -> float:
    """Fill in a task's devices, total and least seconds; return the least of all."""
    anywhere = np.inf
    for g in range(len(group)):
        able[g], total[g], least[g] = 0.0, 0.0, np.inf
    for d in range(len(group)):
        if sim.grid[sim.task[u].row, d] < np.inf:
            seconds, g = sim.task[u].work * sim.grid[sim.task[u].row, d], group[d]
            able[g], total[g], least[g] = able[g] + 1.0, total[g] + seconds, min(least[g], seconds)
            anywhere = min(anywhere, seconds)
    return float(anywhere)


@njit_noalloc
def assign_groups(sim: Sim, device: RecordTable, demand: RecordTable, job: RecordTable) -> None:
    """Assign every job present to a group: where it should finish first.

    A job that has begun keeps its group while a device of it is up. The tables are those of
    `PlanState`.
    """
    p = len(device)
    for g in range(p):
        device[g].group_load = np.inf  # of groups that are down
    for d in range(p):
        if device[d].free < np.inf:
            device[device[d].group].group_load = 0.0
    for begun in (True, False):
        for j in range(len(sim.job) - 1):
            size = sim.job[j + 1].first - sim.job[j].first
            if sim.job[j].state != JOB_HERE or (sim.job[j].remaining < size) != begun:
                continue
            share, chosen = sim.job[j].remaining / max(size, 1), job[j].group
            if not begun or chosen == NO_GROUP or device[chosen].group_load == np.inf:
                soonest, chosen = np.inf, NO_GROUP
                for g in range(p):
                    need = max(demand[j, g].load, demand[j, g].critical_path)
                    ends = device[g].group_load + share * need
                    if ends < soonest:
                        soonest, chosen = ends, g
            job[j].group = chosen
            if chosen != NO_GROUP:
                device[chosen].group_load += share * demand[j, chosen].load
