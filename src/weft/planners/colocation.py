"""Lower bound by colocation: tasks that must share a device, compiled.

Take a target T and any schedule without copies that ends by T. Let head[t, d] be the earliest start
of task t on device d in any schedule and tail[t, d] the shortest time from its finish to the end.

1. *Devices*: task t runs on d only if head[t, d] + duration[t, d] + tail[t, d] <= T, since it
   starts no earlier than its head and leaves at least its tail.
2. *Colocation*: for an edge u -> v on devices d and e that differ, v starts no earlier than
   head[u, d] + duration[u, d] + transfer, so this plus duration[v, e] + tail[v, e] is at most T. If
   no pair of possible devices satisfies this, u and v run on one device. This is an equivalence, so
   the tasks fall into groups, each on one device.
3. *One machine*: tasks of one group do not overlap. If d is their device, then for every subset S
   the least head in S + all durations in S + the least tail in S is at most T (Carlier 1982).
   Otherwise the group does not run on d.
4. A device that is impossible for a task of a group is impossible for all of it. With fewer devices
   fewer pairs remain: repeat from 2 until nothing changes. A task without a device contradicts the
   assumption, so every schedule is longer than T.

Every step only removes devices that no such schedule uses, so a contradiction is a proof. The bound
is the largest refuted T of a search by doubling and bisection. Tails do not hold for schedules with
copies, where a child may read another copy; the bound is not used for them.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.bounds import device_heads, device_tails, rounding_slack
from weft.sim.kernel.jit import njit

PAIRS = 500_000
"""Most edges x devices x devices: a test of a target then takes at most about a millisecond."""

FIRST_STEP, STEPS = 0.02, 7
"""First relative distance of a target from the known bound, and steps of the bisection."""


def colocation_bound(problem: Problem, known: float) -> float:
    """Return a lower bound on the makespan without copies, at least the `known` one.

    Examples
    --------
    >>> p = Problem.from_arrays([[3.0, 3.0]] * 3, [[0, 1], [1, 2]], 9.0, bandwidth=1.0)
    >>> colocation_bound(p, 8.0) > 8.9
    True
    """
    if problem.m == 0 or problem.m * problem.p**2 > PAIRS or known <= 0.0:
        return known
    heads, tails = device_heads(problem), device_tails(problem)
    slack = rounding_slack(problem)

    def refuted(target: float) -> bool:
        return bool(refutes(problem.arrays, heads, tails, target / slack))

    if not refuted(known * (1.0 + FIRST_STEP * 0.5**STEPS)):  # the last step of the bisection
        return known  # a refuted target refutes all smaller ones
    low, step = known, FIRST_STEP
    while refuted(known * (1.0 + step)):
        low = known * (1.0 + step)
        step *= 2.0
    high = known * (1.0 + step)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


@njit
def refutes(a: ProblemArrays, heads: FloatArray, tails: FloatArray, target: float) -> bool:
    """Return whether no schedule without copies ends by the target."""
    n, p = len(a.work), a.per_work.shape[1]
    possible, group = np.zeros((n, p), np.bool_), np.arange(n)
    for t in range(n):
        for d in range(p):
            if heads[t, d] < np.inf:
                length = a.work[t] * a.per_work[a.row[t], d]
                possible[t, d] = heads[t, d] + length + tails[t, d] <= target
    changed = True
    while changed:
        for v in range(n):
            for e in range(a.pred_ptr[v], a.pred_ptr[v + 1]):
                u = a.pred[e]
                if find_root(group, u) != find_root(group, v) and not _apart(
                    a, heads, tails, possible, u, v, a.pred_data[e], target
                ):
                    group[find_root(group, u)] = find_root(group, v)
        changed = _restrict(a, heads, tails, possible, group, target)
        for t in range(n):
            if not possible[t].any():
                return True
    return False


@njit
def find_root(group: IntArray, t: int) -> int:
    """Return the task that stands for the group of a task, and shorten the path to it."""
    while group[t] != t:
        group[t] = group[group[t]]
        t = group[t]
    return t


@njit
def _apart(
    a: ProblemArrays,
    heads: FloatArray,
    tails: FloatArray,
    possible: BoolArray,
    u: int,
    v: int,
    data: float,
    target: float,
) -> bool:
    """Return whether a parent and a child may run on different devices."""
    for d in range(a.per_work.shape[1]):
        if possible[u, d]:
            done = heads[u, d] + a.work[u] * a.per_work[a.row[u], d]
            for e in range(a.per_work.shape[1]):
                if e != d and possible[v, e]:
                    arrival = done + (a.latency[d, e] + data * a.per_byte[d, e])
                    length = a.work[v] * a.per_work[a.row[v], e]
                    if arrival + length + tails[v, e] <= target:
                        return True
    return False


@njit
def _restrict(
    a: ProblemArrays,
    heads: FloatArray,
    tails: FloatArray,
    possible: BoolArray,
    group: IntArray,
    target: float,
) -> bool:
    """Remove a group's impossible devices from all its tasks; return if any was."""
    n, p, changed = len(group), possible.shape[1], False
    members = np.empty(n, np.int64)
    for root in range(n):
        if group[root] != root:
            continue
        size = 0
        for t in range(n):
            if find_root(group, t) == root:
                members[size] = t
                size += 1
        for d in range(p):
            fits, some = True, False
            for i in range(size):
                fits = fits and possible[members[i], d]
                some = some or possible[members[i], d]
            if some and not (fits and _sequence_fits(a, heads, tails, members[:size], d, target)):
                changed = True
                for i in range(size):
                    possible[members[i], d] = False
    return changed


@njit
def _sequence_fits(
    a: ProblemArrays, heads: FloatArray, tails: FloatArray, tasks: IntArray, d: int, target: float
) -> bool:
    """Return whether the tasks of a group may fit on one device.

    No set of tasks with late heads and long tails is too long for the device.
    """
    size = len(tasks)
    if size == 1:
        return True
    key = np.empty(size)
    for i in range(size):
        key[i] = -tails[tasks[i], d]
    by_tail = np.argsort(key)
    for i in range(size):
        least, total = heads[tasks[i], d], 0.0
        for k in by_tail:
            t = tasks[k]
            if heads[t, d] >= least:
                total += a.work[t] * a.per_work[a.row[t], d]
                if least + total + tails[t, d] > target:
                    return False
    return True
