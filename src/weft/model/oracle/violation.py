"""`Violation`, and comparisons that the checks of schedules and traces share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.model.cluster import Cluster
from weft.model.columns import BoolArray, FloatArray, IntArray, offsets
from weft.model.problem import Problem

TOLERANCE = 1e-9
"""Two times count as equal when they differ by less than this share of the larger one."""


@dataclass(frozen=True)
class Violation:
    """One broken rule; the message names the task, the device and the values.

    Examples
    --------
    >>> print(Violation("overlap", "task 't1' starts on 'd0' at 2 while task 't0' runs until 3"))
    overlap: task 't1' starts on 'd0' at 2 while task 't0' runs until 3
    """

    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class Executions(NamedTuple):
    """Finished executions sorted by instance: those of i are ptr[i]:ptr[i + 1]."""

    ptr: IntArray
    device: IntArray
    finish: FloatArray

    @classmethod
    def of(
        cls, instance: IntArray, device: IntArray, finish: FloatArray, *, instances: int
    ) -> Executions:
        """Sort rows by instance."""
        order = np.argsort(instance, kind="stable")
        ptr = offsets(np.bincount(instance, minlength=instances))
        return cls(ptr, device[order], finish[order])


class Inputs(NamedTuple):
    """First finish and first arrival of data, one entry per row and incoming edge."""

    row: IntArray
    edge: IntArray
    finished: FloatArray
    arrived: FloatArray
    local: BoolArray  # whether the data that arrived first was on the device already


def exceeds(one: FloatArray, other: FloatArray) -> BoolArray:
    """Return whether `one` is above `other` by more than the tolerance; NaN always is."""
    scale = np.minimum(
        np.maximum(np.abs(one), np.abs(other)), np.finfo(float).max
    )  # the tolerance stays finite
    return ~(one <= other + TOLERANCE * scale)


def differs(one: FloatArray, other: FloatArray) -> BoolArray:
    """Return whether two columns differ by more than the tolerance; NaN always does."""
    return exceeds(one, other) | exceeds(other, one)


def expand(ptr: IntArray, key: IntArray) -> tuple[IntArray, IntArray]:
    """List (number of the key, position) of ptr[k]:ptr[k + 1] for every key.

    Examples
    --------
    >>> expand(np.array([0, 2, 3]), np.array([1, 0]))
    (array([0, 1, 1]), array([2, 0, 1]))
    """
    count = ptr[key + 1] - ptr[key]
    owner = np.repeat(np.arange(len(key)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + ptr[key][
        owner
    ]


def overlaps(device: IntArray, start: FloatArray, finish: FloatArray) -> Iterator[tuple[int, int]]:
    """Yield pairs (earlier, later) of rows that overlap on a device.

    If any two rows overlap, it yields at least one pair. A row without length may lie at the start
    or end of other rows, but not inside a longer one.
    """
    slack = TOLERANCE * np.maximum(np.abs(start), np.abs(finish))
    long = finish - start > slack
    # Sorted just before its instant, a row without length follows every long row begun before it.
    order = np.lexsort((finish, np.where(long, start, start - slack), device))
    place = np.where(long[order], np.arange(len(order)), -1)
    before = np.concatenate(([-1], np.maximum.accumulate(place)[:-1])) if len(order) else place
    rows = np.flatnonzero(before >= 0)
    earlier, later = order[before[rows]], order[rows]
    bad = (device[earlier] == device[later]) & exceeds(finish[earlier], start[later])
    yield from zip(earlier[bad].tolist(), later[bad].tolist(), strict=True)


def excesses(
    cluster: Cluster,
    device: IntArray,
    start: FloatArray,
    finish: FloatArray,
    need: FloatArray,
    name: Callable[[int], str],
) -> Iterator[Violation]:
    """Yield rows whose start exceeds a capacity of their node.

    Rows hold their needs, (rows, capacities), from start to finish; needs of a row that ends at an
    instant are free at that instant.
    """
    if not cluster.capacity:
        return
    node, room = cluster.node[device], np.array(list(cluster.capacity.values())).T
    slack = TOLERANCE * np.maximum(np.abs(start), np.abs(finish))
    for n in range(len(room)):
        here = np.flatnonzero((node == n) & (finish - start > slack))
        for row in here.tolist():
            # Running at the start of this row; rounding may let a row end just after it.
            at = start[row]
            with_it = here[(start[here] <= at) & (finish[here] - slack[here] > at)]
            used = need[with_it].sum(axis=0)
            for c in np.flatnonzero(exceeds(used, room[n])).tolist():
                if need[row, c] > 0:
                    yield Violation(
                        "capacity",
                        f"{name(row)} starts at {at:.9g} on node '{cluster.node_names[n]}', where "
                        f"tasks then use {used[c]:g} {list(cluster.capacity)[c]} of {room[n, c]:g}",
                    )


def inputs(
    problem: Problem,
    executions: Executions,
    first: IntArray,
    task: IntArray,
    device: IntArray,
    decided: FloatArray | None = None,
) -> Inputs:
    """Return when inputs of rows arrive, from the earliest execution of each parent.

    An arrival is sent + (latency + data * per_byte).

    `first` is the first instance of each row's job. Data is sent at the parent's finish, or, with
    `decided`, not before that.
    """
    w, c = problem.workflow, problem.cluster
    row, position = expand(w.pred_ptr, task)
    edge = w.pred_edge[position]
    link, x = expand(executions.ptr, first[row] + w.src[edge])
    source, target = executions.device[x], device[row[link]]
    done = executions.finish[x]
    sent = done if decided is None else np.maximum(done, decided[row[link]])
    arrival = sent + (c.latency[source, target] + w.data[edge[link]] * c.per_byte[source, target])
    finished, arrived = np.full(len(row), np.inf), np.full(len(row), np.inf)
    np.minimum.at(finished, link, done)
    np.minimum.at(arrived, link, arrival)
    local = np.zeros(len(row), bool)
    local[link[(source == target) & (arrival == arrived[link])]] = True
    return Inputs(row, edge, finished, arrived, local)


def task_name(problem: Problem, task: int) -> str:
    """Return the task as messages name it."""
    return f"task '{problem.workflow.task_name(int(task))}'"


def device_name(problem: Problem, device: int) -> str:
    """Return the device as messages name it."""
    return f"'{problem.cluster.names[int(device)]}'"


def misfits(problem: Problem, task: IntArray, device: IntArray) -> Iterator[Violation]:
    """Yield rows on a device that lacks their memory or cores, or cannot run them.

    A device cannot run kinds whose cost there is infinite.
    """
    w, c = problem.workflow, problem.cluster
    small = w.memory[task] > c.memory[device]
    own = np.isinf(c.capacity["cores"])[c.node] if "cores" in c.capacity else np.ones(c.p, bool)
    narrow = (w.cores[task] > c.cores[device]) & own[device]  # otherwise the node limits cores
    for rule, unit, lacking in (("memory", "bytes", small), ("cores", "cores", narrow)):
        for r in np.flatnonzero(lacking).tolist():
            need, room = getattr(w, rule)[task[r]], getattr(c, rule)[device[r]]
            text = f"{task_name(problem, task[r])} needs {need:g} {unit}, "
            yield Violation(rule, f"{text}{device_name(problem, device[r])} has {room:g}")
    for r in np.flatnonzero(
        np.isinf(problem.per_work[problem.row[task], device]) & ~small & ~narrow
    ).tolist():
        yield Violation(
            "cannot run",
            f"{task_name(problem, task[r])} cannot run on {device_name(problem, device[r])}",
        )
