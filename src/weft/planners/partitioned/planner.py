"""The planner `partitioned`: parts of a graph planned side by side, then joined.

Parts that exchange no data (workflows in one graph that are not connected) get a group of devices
each; other parts follow one another on all devices. HEFT plans each part on its own, as if its
inputs from other parts were there; equal parts are planned once. The joined plan has the devices of
these plans and, on every device, their order; one pass with all inputs gives the exact times.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from threading import Lock
from typing import ClassVar, NamedTuple

import numpy as np

from weft.arguments import number, whole
from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray, frozen, offsets
from weft.planners.lists.common_link import common_link, insert, sorted_schedule
from weft.planners.lists.insertion import ANYWHERE, Rows
from weft.planners.lists.ranks import rank_order
from weft.planners.partitioned.partition import components, refine, slices
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import mean_durations, upward_rank
from weft.typed import typed_dataclass

LEAST_PARTS, PART_TASKS = 4, 500_000
"""Fewest parts if `parts` is None, and most tasks of a part."""

ROUNDS = 2
"""Rounds of moves between parts."""


class Parts(NamedTuple):
    """Parts of a problem: their tasks, in the order of their ranks, and their devices."""

    part: IntArray  # (n,) the part of each task; no edge leads to a lower one
    task: IntArray  # (n,) the tasks of all parts, one part after the other
    first: IntArray  # (parts + 1,) where the tasks of each part begin
    place: IntArray  # (n,) the place of each task in its part
    devices: tuple[IntArray, ...]  # of each part


@PLANNERS.register("partitioned")
@typed_dataclass(frozen=True)
class Partitioned:
    """HEFT on parts of a very large graph, planned side by side, then joined.

    The parts are planned on all cores. The plan is the same for any number of threads.

    Parameters
    ----------
    parts : number of parts, at most one per task; None: one per 500,000 tasks, at least four
    tolerance : how far the work of a part may exceed its share (0.1: by 10 %), beside one task
    threads : parts that are planned at once; None: one per core

    Examples
    --------
    >>> work, chains = [2.0, 1.0, 2.0, 1.0], [[0, 1], [2, 3]]
    >>> problem = Problem.from_arrays(work=work, speed=[1.0, 1.0], edges=chains)
    >>> Partitioned(parts=2).solve(problem).schedule.device.tolist()  # a device for each chain
    [0, 0, 1, 1]
    """

    parts: int | None = None
    tolerance: float = 0.1
    threads: int | None = None
    name: str = "partitioned"
    supports: ClassVar[frozenset[str]] = QUICK

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("parts", "threads"):
            if getattr(self, option) is not None:
                whole(getattr(self, option), option)
        number(self.tolerance, "tolerance", high=0.5)

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        count = self.parts or max(LEAST_PARTS, -(-problem.n // PART_TASKS))
        parts = partition(problem, min(count, problem.n), self.tolerance)
        order, device = plan_parts(problem, parts, self.threads or os.cpu_count() or 1)
        rows = Rows(device, np.empty(problem.n), np.empty(problem.n))
        append(problem.arrays, order, rows, only_link(problem.arrays))
        return Solution(sorted_schedule(rows))


def partition(problem: Problem, count: int, tolerance: float) -> Parts:
    """Divide a problem into unconnected parts if possible, else by upward rank."""
    order = rank_order(problem, upward_rank(problem))
    found = _apart(problem, order, count, tolerance)
    if found is None:
        found = _in_sequence(problem, order, count, tolerance), [np.arange(problem.p)] * count
    part, devices = found
    task = order[np.argsort(part[order].astype(np.int32), kind="stable")]
    first = offsets(np.bincount(part, minlength=count))
    place = np.empty(problem.n, np.int64)
    place[task] = np.arange(problem.n) - first[part[task]]
    return Parts(part, task, first, place, tuple(devices))


def _in_sequence(problem: Problem, order: IntArray, count: int, tolerance: float) -> IntArray:
    """Return refined slices of the order, to follow one another on all devices."""
    work, share = mean_durations(problem), np.full(count, 1.0 / count)
    part = slices(problem.arrays, order, work, share, tolerance)
    most = np.maximum((1.0 + tolerance) * share * work.sum(), np.bincount(part, work, count))
    refine(problem.arrays, work, part, most, ROUNDS)
    return part


def _apart(
    problem: Problem, order: IntArray, count: int, tolerance: float
) -> tuple[IntArray, list[IntArray]] | None:
    """Return parts without edges between them, and their devices; None: impossible."""
    if not 1 < count <= problem.p:
        return None
    component = components(problem.arrays)
    enough = np.count_nonzero(component == np.arange(problem.n)) >= count
    if not enough or (found := device_groups(problem, count)) is None:
        return None
    groups, share = found
    together = order[np.argsort(component[order], kind="stable")]
    part = slices(problem.arrays, together, mean_durations(problem), share, tolerance)
    return (part, groups) if bool((part == part[component]).all()) else None


def device_groups(problem: Problem, count: int) -> tuple[list[IntArray], FloatArray] | None:
    """Divide the devices into groups of about the same speed.

    Returns the groups and their shares of the speed; None if a group could not run every task.
    Nodes stay whole if there are at least `count`.

    Examples
    --------
    >>> problem = Problem.from_arrays(work=[1.0], speed=[4.0, 3.0, 2.0, 1.0])
    >>> device_groups(problem, 2)
    ([array([0, 3]), array([1, 2])], array([0.5, 0.5]))
    """
    speed, node = mean_speeds(problem), problem.cluster.node
    if len(np.unique(node)) < count:
        node = np.arange(problem.p)
    by_node = np.bincount(node, speed)
    group_of, total = np.empty(len(by_node), np.int64), np.zeros(count)
    for i in np.argsort(-by_node, kind="stable"):  # largest first, each to the slowest group
        group_of[i] = np.argmin(total)
        total[group_of[i]] += by_node[i]
    fastest = np.argsort(-speed, kind="stable")
    groups = [fastest[group_of[node[fastest]] == g] for g in range(count)]
    able = np.isfinite(problem.per_work[np.unique(problem.row)])
    if any(not able[:, group].any(axis=1).all() for group in groups):
        return None
    return groups, total / total.sum()


def mean_speeds(problem: Problem) -> FloatArray:
    """Return the speed (p,) of each device relative to the mean, weighted by work."""
    able = np.isfinite(problem.per_work) & (problem.per_work > 0.0)
    mean = np.broadcast_to(problem.mean_per_work[:, None], problem.per_work.shape)
    relative = np.divide(mean, problem.per_work, out=np.zeros(problem.per_work.shape), where=able)
    work = np.bincount(problem.row, mean_durations(problem), len(mean)).astype(np.float64)
    speed = np.asarray(work @ relative)
    return speed if speed.any() else np.ones(problem.p)


def plan_parts(problem: Problem, parts: Parts, threads: int) -> tuple[IntArray, IntArray]:
    """Plan parts by HEFT; return tasks by part and start, and their devices."""
    order, device = np.empty(problem.n, np.int64), np.empty(problem.n, np.int64)
    cache = OnceCache()

    def plan_part(j: int) -> None:
        inside = slice(parts.first[j], parts.first[j + 1])
        tasks, devices = parts.task[inside], parts.devices[j]
        a = part_arrays(problem.arrays, parts, j)
        number = np.arange(len(tasks))
        rows = cache.get(
            digest(a, problem.arrays), lambda: insert(a, number, np.full(len(tasks), ANYWHERE))
        )
        device[tasks] = devices[rows.device]
        order[inside] = tasks[np.argsort(rows.start, kind="stable")]  # parents first: by rank

    with ThreadPoolExecutor(threads, "weft-part") as pool:
        list(pool.map(plan_part, range(len(parts.devices))))
    return order, device


class OnceCache:
    """Results by key, each made once; other threads that ask for it wait."""

    def __init__(self) -> None:
        self.futures: dict[bytes, Future[Rows]] = {}
        self.lock = Lock()

    def get(self, key: bytes, make: Callable[[], Rows]) -> Rows:
        """Return the result for a key; the first to ask makes it."""
        with self.lock:
            mine = key not in self.futures
            future = self.futures.setdefault(key, Future())
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()


def digest(a: ProblemArrays, whole_problem: ProblemArrays) -> bytes:
    """Return a hash of what HEFT reads of a part; parts may share the devices."""
    found = blake2b(digest_size=16)
    columns = [a.work, a.row, a.pred_ptr, a.pred, a.pred_data]
    if a.per_work is not whole_problem.per_work:
        columns += [a.per_work, a.latency, a.per_byte]
    for column in columns:
        found.update(f"{column.shape}".encode())
        found.update(column.data)
    return found.digest()


def part_arrays(a: ProblemArrays, parts: Parts, j: int) -> ProblemArrays:
    """Return costs, parents and devices of a part, its tasks numbered by place."""
    tasks, devices = parts.task[parts.first[j] : parts.first[j + 1]], parts.devices[j]
    columns = _inside(a, tasks, parts.part, parts.place)
    work, row, ptr, pred, data = (frozen(column) for column in columns)  # one signature
    a = a._replace(work=work, row=row, pred_ptr=ptr, pred=pred, pred_data=data)
    if len(devices) == a.per_work.shape[1]:
        return a
    pair = np.ix_(devices, devices)
    per_work, latency, per_byte = a.per_work[:, devices], a.latency[pair], a.per_byte[pair]
    return a._replace(
        per_work=frozen(np.ascontiguousarray(per_work)),
        latency=frozen(np.ascontiguousarray(latency)),
        per_byte=frozen(np.ascontiguousarray(per_byte)),
    )


@njit
def _inside(
    a: ProblemArrays, tasks: IntArray, part: IntArray, place: IntArray
) -> tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray]:
    n, edges = len(tasks), 0
    for t in tasks:
        edges += a.pred_ptr[t + 1] - a.pred_ptr[t]
    work, row, ptr = np.empty(n), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    pred, data, k = np.empty(edges, np.int64), np.empty(edges), 0
    for i in range(n):
        t = tasks[i]
        work[i], row[i] = a.work[t], a.row[t]
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            if part[a.pred[e]] == part[t]:
                pred[k], data[k] = place[a.pred[e]], a.pred_data[e]
                k += 1
        ptr[i + 1] = k
    return work, row, ptr, pred[:k].copy(), data[:k].copy()


def only_link(a: ProblemArrays) -> FloatArray:
    """Return latency and seconds per byte of all links; NaN if links differ.

    They are NaN for few devices, too.
    """
    link = common_link(a.latency, a.per_byte)
    alike = link is not None and link.alone
    return np.array([link.latency, link.per_byte] if link and alike else [np.nan, np.nan])


@njit
def append(a: ProblemArrays, order: IntArray, rows: Rows, alike: FloatArray) -> None:
    """Fill in the times of tasks, in order, each behind the last one on its device.

    `alike` has latency and seconds per byte of all links, NaN if links differ: a table of links
    takes more memory than a cache has.
    """
    free, links = np.zeros(a.per_work.shape[1]), np.isnan(alike[0])
    for t in order:
        device, start = rows.device[t], 0.0
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            parent = a.pred[e]
            source, arrival = rows.device[parent], rows.finish[parent]
            if links:
                arrival += a.latency[source, device] + a.pred_data[e] * a.per_byte[source, device]
            elif source != device:
                arrival += alike[0] + a.pred_data[e] * alike[1]
            start = max(start, arrival)
        start = max(start, free[device])
        rows.start[t], rows.finish[t] = start, start + a.work[t] * a.per_work[a.row[t], device]
        free[device] = rows.finish[t]
