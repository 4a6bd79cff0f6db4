"""Devices that are decided before placement: the critical path on one device, everything on one, in turn, at random."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model import Problem
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.insertion import ANYWHERE
from weft.rng import generator
from weft.sim.kernel.ranks import mean_transfer, upward_rank


def nowhere(problem: Problem) -> IntArray:
    """No task is pinned."""
    return np.full(problem.n, ANYWHERE)


def critical_path(problem: Problem) -> IntArray:
    """The longest path with mean durations and transfers, from an entry to an exit; the lower number among equals.

    Topcuoglu et al. (2002), section 4.2, follow children whose priority equals the entry's. Going down the upward rank finds the same
    path, without comparing sums that differ by rounding and without a short cut to a later task of the path.
    """
    if problem.n == 0:
        return np.zeros(0, np.int64)
    rank = upward_rank(problem)
    latency, per_byte = mean_transfer(problem)
    a = problem.arrays
    entries = np.flatnonzero(np.diff(a.pred_ptr) == 0)
    path = [int(entries[np.argmax(rank[entries])])]
    while a.succ_ptr[path[-1]] < a.succ_ptr[path[-1] + 1]:
        edges = slice(a.succ_ptr[path[-1]], a.succ_ptr[path[-1] + 1])
        path.append(
            int(
                a.succ[edges][
                    np.argmax(latency + a.succ_data[edges] * per_byte + rank[a.succ[edges]])
                ]
            )
        )
    return np.array(path, np.int64)


def pin_to_best(problem: Problem, tasks: IntArray) -> IntArray:
    """Pin tasks to the one device that takes least for all of them together.

    If no device can run them all, the one that can run most of them gets those; the others stay free.
    """
    pin = nowhere(problem)
    if len(tasks):
        can = np.isfinite(problem.pace)[problem.row[tasks]]
        pace = np.where(can, problem.pace[problem.row[tasks]], 0.0)
        total = (problem.work[tasks, None] * pace).sum(axis=0)
        device = int(np.lexsort((total, -can.sum(axis=0)))[0])
        pin[tasks[can[:, device]]] = device
    return pin


def paces_by_node(problem: Problem, *, most: int = 4) -> Iterator[FloatArray]:
    """Seconds per unit of work on all devices; then, for each node, those of its devices alone wherever one of them can run the work.

    Of many nodes, the ones that should take least for everything: by mean seconds over the number of devices.

    Examples
    --------
    >>> from weft.model import Cluster, Workflow
    >>> cluster = Cluster(speed=[1.0, 2.0, 4.0], nodes=("a", "a", "b"))
    >>> [pace.tolist() for pace in paces_by_node(Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[]), cluster))]
    [[[1.0, 0.5, 0.25]], [[inf, inf, 0.25]], [[1.0, 0.5, inf]]]
    """
    yield problem.pace
    nodes, names = np.array(problem.cluster.nodes), list(dict.fromkeys(problem.cluster.nodes))
    if len(names) == 1 or problem.n == 0:
        return
    work = np.bincount(problem.row, problem.work, len(problem.pace))
    seconds = np.where(
        np.isfinite(problem.pace),
        problem.pace,
        np.nanmax(np.where(np.isfinite(problem.pace), problem.pace, np.nan)),
    )
    area = {
        name: float((work @ seconds[:, nodes == name]).sum()) / np.count_nonzero(nodes == name) ** 2
        for name in names
    }
    for name in sorted(names, key=lambda name: area[name])[:most]:
        here = (nodes == name)[None, :]
        able = np.isfinite(np.where(here, problem.pace, np.inf)).any(axis=1, keepdims=True)
        yield np.where(here | ~able, problem.pace, np.inf)


def pin_in_turn(problem: Problem, order: IntArray) -> IntArray:
    """The i-th task goes to device i modulo p or, if it cannot run there, to the next one that it can."""
    pin = nowhere(problem)
    turn = np.arange(problem.n) % problem.p
    for _ in range(problem.p):
        waits = pin[order] == ANYWHERE
        can = waits & np.isfinite(problem.pace[problem.row[order], turn])
        pin[order[can]] = turn[can]
        if bool((pin != ANYWHERE).all()):
            break
        turn = (turn + 1) % problem.p
    return pin


def pin_at_random(problem: Problem, seed: int) -> IntArray:
    """Each task goes to any of the devices that can run it, all equally likely."""
    can = np.isfinite(problem.pace)
    number = np.argsort(~can, axis=1, kind="stable")  # the devices that can, first
    choice = (generator(seed, "device").random(problem.n) * can.sum(axis=1)[problem.row]).astype(
        np.int64
    )
    return np.asarray(number[problem.row, choice], np.int64)
