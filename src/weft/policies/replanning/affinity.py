"""Homes: groups of devices that jobs stay in. Where data is dear, a job is better off on a part of the cluster; compiled.

A list planner places one task at a time, and one task alone gains nothing by waiting for a near device. So it scatters a job over nodes
with slow links between them, and no small change of the plan brings it back together. A plan in which every job has a home is another
start altogether (clustering before mapping: Yang and Gerasoulis 1994).
"""

from __future__ import annotations

import numpy as np

from weft.model import Cluster
from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import JOB_HERE, Sim

ANYWHERE = -1
"""In place of a home: the job has none yet, or needs none."""
AREA, PATH = range(2)
"""What a job takes of a group: seconds of its tasks over the devices there; of its longest path, each task where it is quickest."""


def divisions(cluster: Cluster) -> list[IntArray]:
    """Ways to divide the devices into groups, by the number of each device's group: nodes, and every device for itself.

    Examples
    --------
    >>> [groups.tolist() for groups in divisions(Cluster(speed=[1.0, 1.0, 2.0], nodes=("a", "a", "b")))]
    [[0, 0, 1], [0, 1, 2]]
    """
    names = list(dict.fromkeys(cluster.nodes))
    found = (
        [np.array([names.index(node) for node in cluster.nodes], np.int64)]
        if 1 < len(names) < cluster.p
        else []
    )
    return [*found, np.arange(cluster.p)] if cluster.p > 1 else found


def transfer_within(cluster: Cluster, group: IntArray) -> tuple[float, float]:
    """Mean latency and seconds per byte between different devices of a group.

    Examples
    --------
    >>> transfer_within(Cluster(speed=[1.0] * 3, latency=[[0, 1, 9], [1, 0, 9], [9, 9, 0]]), np.array([0, 0, 1]))
    (1.0, 0.0)
    """
    near = (group[:, None] == group[None, :]) & ~np.eye(len(group), dtype=bool)
    pairs = max(int(near.sum()), 1)
    return float((cluster.latency * near).sum()) / pairs, float(
        (cluster.per_byte * near).sum()
    ) / pairs


@njit_noalloc
def weigh_groups(
    sim: Sim,
    topological: IntArray,
    starts: IntArray,
    group: IntArray,
    toil: FloatArray,
    work: FloatArray,
) -> None:
    """Work out what each workflow takes of each group: (workflows, groups, 2) by `AREA` and `PATH`.

    What a group cannot run is run elsewhere: it takes nothing of it, and on a path the least time anywhere. A group that can run nothing of
    a workflow is no home for it: infinite. `work`, (tasks + 3, groups), is to work in: the longest path from the start of each task; and of
    one task how many devices of each group can run it, their seconds, and the least of these.
    """
    p, tasks = len(group), len(sim.task) - 1
    able, total, least = work[tasks], work[tasks + 1], work[tasks + 2]
    for w in range(len(starts) - 1):
        for g in range(p):
            toil[w, g, AREA], toil[w, g, PATH] = 0.0, np.inf if starts[w] < starts[w + 1] else 0.0
        for k in range(starts[w + 1] - 1, starts[w] - 1, -1):
            u = topological[k]
            anywhere = _weigh_task(sim, u, group, able, total, least)
            for g in range(p):
                after = 0.0
                for e in range(sim.task[u].succ, sim.task[u + 1].succ):
                    after = max(after, work[sim.edge[e].target, g])
                work[u, g] = after + (least[g] if able[g] > 0.0 else anywhere)
                if able[g] > 0.0:
                    toil[w, g, AREA] += total[g] / able[g]
                    toil[w, g, PATH] = 0.0
        for k in range(starts[w], starts[w + 1]):
            for g in range(p):
                toil[w, g, PATH] = max(toil[w, g, PATH], work[topological[k], g])
    for g in range(p):
        devices = 0
        for d in range(p):
            devices += 1 if group[d] == g else 0
        for w in range(len(starts) - 1):
            toil[w, g, AREA] /= max(devices, 1)


@njit_inline
def _weigh_task(
    sim: Sim, u: int, group: IntArray, able: FloatArray, total: FloatArray, least: FloatArray
) -> float:
    """Of each group, how many devices can run a task, their seconds, and the least of these; the least anywhere."""
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
def find_homes(
    sim: Sim, free: FloatArray, group: IntArray, toil: FloatArray, home: IntArray, load: FloatArray
) -> None:
    """Give every job here a home: the one it has, if a task of it is done and a device there is up; else where it should end first."""
    load[:] = np.inf  # of groups that are down
    for d in range(len(free)):
        if free[d] < np.inf:
            load[group[d]] = 0.0
    for begun in (True, False):
        for j in range(len(sim.job) - 1):
            size = sim.job[j + 1].first - sim.job[j].first
            if sim.job[j].state != JOB_HERE or (sim.job[j].remaining < size) != begun:
                continue
            share, chosen = sim.job[j].remaining / max(size, 1), home[j]
            if not begun or chosen == ANYWHERE or load[chosen] == np.inf:
                soonest, chosen = np.inf, ANYWHERE
                for g in range(len(load)):
                    ends = load[g] + share * max(toil[j, g, AREA], toil[j, g, PATH])
                    if ends < soonest:
                        soonest, chosen = ends, g
            home[j] = chosen
            if chosen != ANYWHERE:
                load[chosen] += share * toil[j, chosen, AREA]
