"""Costs of tasks on devices: the columns work, row and per_work of a problem.

Costs of the form work / speed need one row of `per_work`, costs per task kind need one row per
kind, and a full matrix needs one row per task. A device that cannot run a task has an infinite
`per_work`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.model.cluster import Cluster
from weft.model.columns import FloatArray, IntArray
from weft.model.workflow import Workflow
from weft.registry import closest

if TYPE_CHECKING:
    from weft.model.problem import Problem

ROUNDING = 1e-12
"""Share of a capacity by which rounding may change a sum of amounts."""

SHORTEST = 1e-150
"""Least seconds of a duration or a transfer that is not zero. Smaller ones lose their digits in
products and quotients of times."""

PLENTY = 1e300
"""Sums of seconds below this leave room for every other sum of times."""


def costs_of(workflow: Workflow, cluster: Cluster) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return work, row and per_work; raises `InvalidInput` when a task fits no device."""
    with np.errstate(over="ignore"):  # infinite seconds are refused
        work, row, per_work = _costs(workflow, cluster)
    row, per_work = _forbid_misfits(workflow, cluster, row, per_work)
    row, per_work = _forbid_excess(workflow, cluster, row, per_work)
    return work, row, per_work


def _costs(workflow: Workflow, cluster: Cluster) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return work, row and per_work, before memory and cores."""
    if workflow.durations:
        return _per_work_from_durations(workflow, cluster)
    if cluster.throughput:
        return workflow.work, workflow.kind, _per_work_by_kind(workflow, cluster)
    return workflow.work, np.zeros(workflow.n, np.int64), (1.0 / cluster.speed)[None, :]


def _per_work_from_durations(
    workflow: Workflow, cluster: Cluster
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return one row per task: measured seconds, by device name, then by device kind."""
    n, p = workflow.n, cluster.p
    per_work = np.full((n, p), np.nan)
    for d, (name, kind) in enumerate(zip(cluster.names, cluster.kinds, strict=True)):
        column = workflow.durations.get(name, workflow.durations.get(kind))
        if column is not None:
            per_work[:, d] = column
    # A task without any measured duration falls back to work / speed.
    bare = np.isnan(np.stack(list(workflow.durations.values()))).all(axis=0)
    with np.errstate(invalid="ignore"):  # no work, infinite per unit
        by_speed = (
            workflow.work[bare, None] * _per_work_by_kind(workflow, cluster)[workflow.kind[bare]]
        )
    per_work[bare] = np.where(np.isnan(by_speed), np.inf, by_speed)
    per_work[np.isnan(per_work)] = np.inf
    return np.ones(n), np.arange(n, dtype=np.int64), per_work


def _per_work_by_kind(workflow: Workflow, cluster: Cluster) -> FloatArray:
    """Return one row per task kind, from the cluster's throughput, else its speed."""
    per_work = np.empty((len(workflow.kinds), cluster.p))
    with np.errstate(divide="ignore"):
        for k, kind in enumerate(workflow.kinds):
            rate = cluster.throughput.get(kind, cluster.speed)
            per_work[k] = 1.0 / np.where(np.isnan(rate), cluster.speed, rate)
    return per_work


def _forbid_misfits(
    workflow: Workflow, cluster: Cluster, row: IntArray, per_work: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Split rows so that memory and cores become infinite costs; refuse misfits."""
    # Tasks whose needs lie between the same two capacities fit the same devices, so classes are
    # few.
    by_memory = np.searchsorted(np.unique(cluster.memory), workflow.memory)
    cores = cluster.cores
    if "cores" in cluster.capacity:  # then the node limits cores, not the device
        shared = np.isfinite(cluster.capacity["cores"])[cluster.node]
        cores = np.where(shared, max(1, int(workflow.cores.max(initial=1))), cores)
    by_cores = np.searchsorted(np.unique(cores), workflow.cores)
    if by_memory.any() or by_cores.any():
        keys = np.stack([row, by_memory, by_cores], axis=1)
        classes, first, member = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        fits = (workflow.memory[first, None] <= cluster.memory) & (
            workflow.cores[first, None] <= cores
        )
        per_work = np.where(fits, per_work[classes[:, 0]], np.inf)
        row = member.reshape(-1).astype(np.int64)
    stranded = np.isinf(per_work.min(axis=1, initial=np.inf))[row]
    if stranded.any():
        t = int(np.flatnonzero(stranded)[0])
        raise InvalidInput(
            f"task '{workflow.task_name(t)}' fits no device of '{cluster.name}': "
            f"{_why_none(workflow, cluster, t)}"
        )
    return row, per_work


def _why_none(workflow: Workflow, cluster: Cluster, task: int) -> str:
    """Return why a task can run on no device."""
    known = [device for device, seconds in workflow.durations.items() if seconds[task] >= 0]
    if known and not any(x in known for x in (*cluster.names, *cluster.kinds)):
        kinds = ", ".join(dict.fromkeys(cluster.kinds))
        return f"no duration for device kind {kinds}; known: {', '.join(known)}"
    memory, cores = float(workflow.memory[task]), int(workflow.cores[task])
    if memory > cluster.memory.max():
        return (
            f"it needs {memory:g} bytes of memory, the largest device has {cluster.memory.max():g}"
        )
    if cores > cluster.cores.max():
        return f"it needs {cores} cores, the largest device has {cluster.cores.max()}"
    kind = workflow.kinds[workflow.kind[task]]
    return (
        f"none has {memory:g} bytes of memory, {cores} cores and a finite duration of kind "
        f"'{kind}' at once"
    )


def amounts_of(cluster: Cluster) -> FloatArray:
    """Return (nodes, capacities) the amount of each capacity."""
    columns = list(cluster.capacity.values())
    return np.array(columns).reshape(len(columns), len(cluster.node_names)).T


def needs_of(workflow: Workflow, cluster: Cluster) -> FloatArray:
    """Return (n, capacities) the need of each task."""
    own = {"cores": workflow.cores.astype(float), "memory": workflow.memory} | dict(workflow.needs)
    columns = [own.get(name, np.zeros(workflow.n)) for name in cluster.capacity]
    return np.ascontiguousarray(np.array(columns).reshape(len(columns), workflow.n).T)


def _forbid_excess(
    workflow: Workflow, cluster: Cluster, row: IntArray, per_work: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Split rows so that needs beyond a node's capacity become infinite costs.

    Needs that no node has and tasks that then fit no device are refused.
    """
    for name in workflow.needs:
        if name not in cluster.capacity:
            raise InvalidInput(
                f"workflow '{workflow.name}' needs '{name}', but no node of '{cluster.name}' has "
                f"it{closest(name, cluster.capacity)}; give it as capacity of the nodes"
            )
    if not cluster.capacity or workflow.n == 0:
        return row, per_work
    needs, group = np.unique(needs_of(workflow, cluster), axis=0, return_inverse=True)
    room = amounts_of(cluster)[cluster.node] * (1.0 + ROUNDING)
    fits = np.asarray((needs[:, None, :] <= room[None, :, :]).all(axis=2))
    if fits.all():
        return row, per_work
    both, first, member = np.unique(
        np.stack([row, group.reshape(-1)], axis=1), axis=0, return_index=True, return_inverse=True
    )
    allowed: FloatArray = np.where(fits[both[:, 1]], per_work[both[:, 0]], np.inf)
    stranded = np.flatnonzero(np.isinf(allowed.min(axis=1)))
    if len(stranded):
        t = int(first[stranded[0]])
        own = needs_of(workflow, cluster)[t]
        needed = ", ".join(f"{x:g} {k}" for k, x in zip(cluster.capacity, own, strict=True) if x)
        raise InvalidInput(
            f"task '{workflow.task_name(t)}' needs {needed}: no node of '{cluster.name}' whose "
            "devices can run it has that much"
        )
    return member.reshape(-1).astype(np.int64), allowed


def refuse_times(problem: Problem) -> None:
    """Refuse durations, transfers and sums too short or too long to compute with."""
    with np.errstate(all="ignore"):
        total = _total_duration(problem) + _total_transfer(problem)
    if not np.isfinite(total):
        _refuse_total(problem)


def _total_duration(problem: Problem) -> float:
    """Return the seconds of all tasks on all devices; refuse durations out of range."""
    work, row, per_work = problem.work, problem.row, problem.per_work
    quick = _quick_total(work, per_work)
    if quick is not None:
        return quick
    finite = np.where(np.isfinite(per_work), per_work, 0.0)
    _refuse_duration(problem, ~np.isfinite(work * finite.max(axis=1, initial=0.0)[row]))
    least = np.where(finite > 0.0, finite, np.inf).min(axis=1, initial=np.inf)[row]
    _refuse_duration(problem, (work > 0.0) & (work * least < SHORTEST))
    return float((work * finite.sum(axis=1)[row]).sum())


def _quick_total(work: FloatArray, per_work: FloatArray) -> float | None:
    """Return a bound on all seconds, or None.

    There is a bound if the extremes alone show that no duration is out of range.
    """
    low, high = float(per_work.min(initial=1.0)), float(per_work.max(initial=1.0))
    least = float(work.min(initial=np.inf, where=work > 0.0))
    total = float(work.sum()) * high * per_work.shape[1]
    return total if low > 0.0 and least * low >= SHORTEST and total < PLENTY else None


def _refuse_duration(problem: Problem, bad: NDArray[np.bool_]) -> None:
    if not bad.any():
        return
    t = int(np.flatnonzero(bad)[0])
    work, per_work = float(problem.work[t]), problem.per_work[problem.row[t]]
    able = np.isfinite(per_work) & (per_work > 0.0)
    seconds = np.where(able, work * per_work, 1.0)
    d = int(np.argmin(seconds) if np.isfinite(seconds).all() else np.argmax(seconds))
    what = f"task '{problem.workflow.task_name(t)}' takes"
    where = f"on device '{problem.cluster.names[d]}'"
    if np.isinf(seconds[d]):
        raise InvalidInput(f"{what} more seconds than a float can hold {where} (work {work:g})")
    raise InvalidInput(
        f"{what} {seconds[d]:g} seconds {where}; it must be 0 or at least {SHORTEST:g}"
    )


def _total_transfer(problem: Problem) -> float:
    """Return the seconds of all edges over the slowest link, unless out of range."""
    near, far, quick, slow = problem.cluster.extreme_links
    data = problem.workflow.data
    most = float(data.max(initial=0.0))
    if not np.isfinite(far + most * slow):
        _refuse_transfer(problem, most, slow=True)
    least = float(data.min(initial=np.inf, where=data > 0.0))
    if problem.m and min(near, least * quick) < SHORTEST:
        _refuse_transfer(problem, least, slow=False)
    return float(data.sum() * slow + problem.m * far)


def _refuse_transfer(problem: Problem, data: float, *, slow: bool) -> None:
    c = problem.cluster
    seconds = c.latency + data * c.per_byte
    if slow:
        bad = ~np.isfinite(seconds)
        takes, rule = "more seconds than a float can hold", ""
    else:
        parts = np.where(c.latency > 0.0, c.latency, np.inf), data * c.per_byte
        bad = (parts[0] < SHORTEST) | ((c.per_byte > 0.0) & (parts[1] < SHORTEST))
        takes = "too few seconds"
        rule = f"; latency and data / bandwidth must be 0 or at least {SHORTEST:g}"
    i, j = (int(x) for x in np.argwhere(bad)[0])
    raise InvalidInput(
        f"moving {data:g} bytes over link '{c.names[i]}' -> '{c.names[j]}' takes {takes} "
        f"(latency {c.latency[i, j]:g}, bandwidth {c.bandwidth[i, j]:g}){rule}"
    )


def _refuse_total(problem: Problem) -> None:
    per_work = np.where(np.isinf(problem.per_work), 0.0, problem.per_work)
    longest = problem.work * per_work.max(axis=1)[problem.row]
    t, most = int(longest.argmax()), problem.workflow.data.max(initial=0.0)
    raise InvalidInput(
        f"the times of '{problem.name}' add up to more seconds than a float can hold; task "
        f"'{problem.workflow.task_name(t)}' takes up to {longest[t]:g}, an edge has up to "
        f"{most:g} bytes"
    )


def distinct_pairs(
    row: IntArray, other: IntArray, count: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct pairs of a row and another number, and each task's pair.

    Costs that depend on both have one row per pair, as a matrix of all tasks and devices would take
    more memory than the rest of a run. The other numbers are below `count`.

    Examples
    --------
    >>> rows, others, pair = distinct_pairs(np.array([0, 1, 0, 0]), np.array([1, 0, 1, 0]), 2)
    >>> rows.tolist(), others.tolist(), pair.tolist()
    ([0, 0, 1], [0, 1, 0], [1, 2, 1, 0])
    """
    pairs, pair = np.unique(row * count + other, return_inverse=True)
    return pairs // count, pairs % count, pair.reshape(-1).astype(np.int64)
