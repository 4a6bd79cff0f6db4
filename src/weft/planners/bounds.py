"""Lower bounds on the makespan: no valid schedule is shorter.

Four relaxations:

* *paths*: the earliest start of each task on each device, if every parent may run where it suits
  this one child best. A parent runs on the child's device, one after the other with the other
  parents there, or on another device with a transfer (the critical sets of Colin and Chretienne
  1991, for devices that differ). The same computation from the end gives tails.
* *area*: all work on all devices, tasks divisible: the linear program of unrelated machines
  (Lenstra, Shmoys and Tardos 1990), by its dual.
* *capacities*: what tasks take of the capacities of nodes, in `capacity_bounds.py`.
* *both*: the work of all tasks with late heads and long tails must fit between these (Carlier 1982,
  on several machines).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray, frozen
from weft.planners.capacity_bounds import capacity_shares
from weft.sim.kernel.jit import njit

PAIR_LIMIT = 100_000_000
"""Most edges x devices x devices for transfers between all pairs of devices."""

CELL_LIMIT = 25_000_000
"""Most tasks x devices (8 bytes each, four arrays) for heads per device."""

LOCAL_PARENTS = 12
"""Parents that compete for the child's device; leaving some out only weakens the bound."""


def lower_bound(problem: Problem, *, copies: bool = False) -> float:
    """Return a lower bound on the makespan of every valid schedule.

    Parameters
    ----------
    copies : whether schedules may run a task more than once, which weakens the bound

    Examples
    --------
    >>> durations = [[2.0, 3.0], [4.0, 5.0], [2.0, 2.0]]
    >>> p = Problem.from_arrays(durations, [[0, 1]], [1.0], bandwidth=1.0)
    >>> round(lower_bound(p), 9)  # 2 + 4 on the path
    6.0
    """
    if problem.n == 0:
        return 0.0
    forward = problem.arrays
    cheapest = problem.work * problem.best_per_work[problem.row]
    # Added in the order in which schedules add, so exact to the last bit.
    path = float((_chain_heads(forward, cheapest) + cheapest).max())
    heads, tails, pinned = _heads_and_tails(problem, forward, cheapest, copies)
    area = _area(problem, np.ones(problem.n, bool))
    between = _between(problem, heads, tails)
    shared = _shared(problem, heads, tails)
    return max(path, max(pinned, area, between, shared) * rounding_slack(problem))


def rounding_slack(problem: Problem) -> float:
    """Return the factor for bounds that add in another order than a schedule does.

    Such sums differ by rounding; the factor lowers the bound by more than that.
    """
    return 1.0 - 4.0 * float(np.finfo(float).eps) * (problem.n + 2)


def path_bound(problem: Problem) -> float:
    """Return the quickest bound: the longest path on best devices, without transfers.

    Examples
    --------
    >>> durations = [[2.0, 3.0], [4.0, 5.0], [2.0, 2.0]]
    >>> path_bound(Problem.from_arrays(durations, [[0, 1]], [1.0], bandwidth=1.0))
    6.0
    """
    cheapest = problem.work * problem.best_per_work[problem.row]
    return float((_chain_heads(problem.arrays, cheapest) + cheapest).max(initial=0.0))


def device_heads(problem: Problem) -> FloatArray:
    """Return the earliest start of each task on each device in any schedule: (n, p)."""
    return _pick_device_heads(problem)(problem.arrays)


def device_tails(problem: Problem) -> FloatArray:
    """Return the shortest time from a task's finish to the end, without copies.

    (n, p) by device of the task, or (n, 1) for the largest problems.
    """
    if problem.n * problem.p > CELL_LIMIT // 5:
        return chain_tails(problem)
    return _pick_device_heads(problem)(problem.arrays.reversed())  # heads of the reversed graph


def chain_tails(problem: Problem) -> FloatArray:
    """Return the shortest time from a finish to the end, without transfers: (n, 1)."""
    cheapest = problem.work * problem.best_per_work[problem.row]
    return _chain_heads(problem.arrays.reversed(), cheapest)[:, None]


def _heads_and_tails(
    problem: Problem, forward: ProblemArrays, cheapest: FloatArray, copies: bool
) -> tuple[FloatArray, FloatArray, float]:
    """Return (n,) heads, (n,) tails, and the best bound through one task.

    The task is on its best device.
    """
    backward = problem.arrays.reversed()
    if problem.n * problem.p > CELL_LIMIT:
        heads, tails = _chain_heads(forward, cheapest), _chain_heads(backward, cheapest)
        return heads, tails, float((heads + cheapest + tails).max())
    earliest = _pick_device_heads(problem)
    start = earliest(forward)
    # A child may read another copy: only the work after a task is certain, not the transfers.
    if copies:
        rest = np.broadcast_to(_chain_heads(backward, cheapest)[:, None], start.shape)
    else:
        rest = earliest(backward)
    through = _through(forward, start, frozen(np.ascontiguousarray(rest)))
    return start.min(axis=1), rest.min(axis=1), through


def _pick_device_heads(problem: Problem) -> Callable[[ProblemArrays], FloatArray]:
    pairs = problem.m * problem.p * problem.p
    return _device_heads if pairs <= PAIR_LIMIT else _device_heads_of_many


@njit
def _chain_heads(a: ProblemArrays, cheapest: FloatArray) -> FloatArray:
    head = np.zeros(len(a.work))
    for t in a.order:
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            u = a.pred[e]
            head[t] = max(head[t], head[u] + cheapest[u])
    return head


@njit
def _duration(a: ProblemArrays, task: int, device: int) -> float:
    per_work = a.per_work[a.row[task], device]
    return a.work[task] * per_work if per_work < np.inf else np.inf


@njit
def _device_heads(a: ProblemArrays) -> FloatArray:
    """Compute heads per device, for which parents compete; inf: cannot run."""
    n, p = len(a.work), a.per_work.shape[1]
    head, done = np.zeros((n, p)), np.empty((n, p))
    widest = 0
    for t in range(n):
        widest = max(widest, a.pred_ptr[t + 1] - a.pred_ptr[t])
    remote, local, release, length = (
        np.empty(widest),
        np.empty(widest, np.int64),
        np.empty(LOCAL_PARENTS),
        np.empty(LOCAL_PARENTS),
    )
    for t in a.order:
        first, last = a.pred_ptr[t], a.pred_ptr[t + 1]
        for d in range(p):
            own = _duration(a, t, d)
            if own == np.inf:
                head[t, d] = done[t, d] = np.inf
                continue
            for k in range(last - first):
                u, data = a.pred[first + k], a.pred_data[first + k]
                best = np.inf
                for other in range(p):
                    if other != d:
                        best = min(
                            best,
                            done[u, other] + (a.latency[other, d] + data * a.per_byte[other, d]),
                        )
                remote[k] = best
                local[k] = u
            head[t, d] = _earliest_join(a, head, d, remote, local, last - first, release, length)
            done[t, d] = head[t, d] + own
    return head


@njit
def _device_heads_of_many(a: ProblemArrays) -> FloatArray:
    """Compute heads per device for large problems.

    All transfers into a device take the shortest one, and parents do not compete.
    """
    n, p = len(a.work), a.per_work.shape[1]
    head, done = np.zeros((n, p)), np.empty((n, p))
    wait, slow = _nearest(a.latency, a.per_byte)
    for t in a.order:
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            u, data = a.pred[e], a.pred_data[e]
            soonest = np.inf
            for d in range(p):
                soonest = min(soonest, done[u, d])
            for d in range(p):
                head[t, d] = max(head[t, d], min(done[u, d], soonest + (wait[d] + data * slow[d])))
        for d in range(p):
            own = _duration(a, t, d)
            if own == np.inf:
                head[t, d] = np.inf
            done[t, d] = head[t, d] + own
    return head


@njit
def _nearest(latency: FloatArray, per_byte: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least latency and seconds per byte into each device from another one."""
    p = len(latency)
    wait, slow = np.full(p, np.inf), np.full(p, np.inf)
    for d in range(p):
        for other in range(p):
            if other != d:
                wait[d] = min(wait[d], latency[other, d])
                slow[d] = min(slow[d], per_byte[other, d])
    return wait, slow


@njit
def _earliest_join(
    a: ProblemArrays,
    head: FloatArray,
    device: int,
    remote: FloatArray,
    local: IntArray,
    count: int,
    release: FloatArray,
    length: FloatArray,
) -> float:
    """Return the earliest arrival of the data of all parents on a device.

    Parents whose data would arrive later run on this device instead, one after the other.
    """
    best, serial = np.inf, 0.0
    for step in range(min(count, LOCAL_PARENTS) + 1):
        if step == count:
            return min(best, serial)
        at = step
        for k in range(step + 1, count):  # next, the parent with the latest remote data
            if remote[k] > remote[at]:
                at = k
        remote[step], remote[at] = remote[at], remote[step]
        local[step], local[at] = local[at], local[step]
        best = min(best, max(serial, remote[step]))
        if serial >= best or step == LOCAL_PARENTS:
            break
        u = local[step]
        begin, seconds = head[u, device], _duration(a, u, device)
        if seconds == np.inf:  # it cannot run here, so its data must be sent
            return float(best)
        k = step
        while k > 0 and release[k - 1] > begin:
            release[k], length[k] = release[k - 1], length[k - 1]
            k -= 1
        release[k], length[k] = begin, seconds
        serial = 0.0
        for i in range(step + 1):
            serial = max(serial, release[i]) + length[i]
    return min(best, serial)


@njit
def _through(a: ProblemArrays, start: FloatArray, rest: FloatArray) -> float:
    longest = 0.0
    for t in range(len(a.work)):
        shortest = np.inf
        for d in range(a.per_work.shape[1]):
            if start[t, d] < np.inf:
                shortest = min(shortest, start[t, d] + _duration(a, t, d) + rest[t, d])
        longest = max(longest, shortest)
    return longest


def _area(problem: Problem, chosen: np.ndarray) -> float:
    """Return the least time for the chosen tasks if they are divisible."""
    return float(_area_bound(*_row_totals(problem, chosen))[0])


def _row_totals(problem: Problem, chosen: np.ndarray) -> tuple[FloatArray, FloatArray]:
    total = np.bincount(
        problem.row[chosen], weights=problem.work[chosen], minlength=len(problem.per_work)
    )
    return np.asarray(total, float), problem.per_work


@njit
def _area_bound(total: FloatArray, per_work: FloatArray) -> tuple[float, FloatArray]:
    """Maximise the sum over rows of total x min(w x per_work), over weights w.

    Every w gives a bound. Returns the best bound and its weights.
    """
    k, p = per_work.shape
    weight = np.empty(p)
    for d in range(p):
        units, seconds = 0.0, 0.0
        for r in range(k):
            if per_work[r, d] < np.inf:
                units += total[r]
                seconds += total[r] * per_work[r, d]
        weight[d] = units / seconds if seconds > 0.0 else 1.0
    weight /= weight.sum()
    best, kept, load = -1.0, weight.copy(), np.empty(p)
    rounds = max(1, min(300, 40_000_000 // (k * p + 1)))
    for i in range(rounds):
        value = _weighted(total, per_work, weight, load)
        if value > best:
            best = value
            kept[:] = weight
        if value <= 0.0:
            break
        step = 0.5 / np.sqrt(1.0 + i)
        for d in range(p):
            weight[d] *= np.exp(step * min(load[d] / value - 1.0, 3.0))
        weight /= weight.sum()
    return best, kept


@njit
def _weighted(
    total: FloatArray, per_work: FloatArray, weight: FloatArray, load: FloatArray
) -> float:
    value = 0.0
    load[:] = 0.0
    for r in range(len(per_work)):
        if total[r] == 0.0:
            continue
        at, least = -1, np.inf
        for d in range(len(weight)):
            if weight[d] * per_work[r, d] < least:
                at, least = d, weight[d] * per_work[r, d]
        value += total[r] * least
        load[at] += total[r] * per_work[r, at]
    return value


def _between(problem: Problem, heads: FloatArray, tails: FloatArray) -> float:
    """Maximise head + area + tail over sets of tasks with at least this head and tail."""
    best = 0.0
    weight = _area_bound(*_row_totals(problem, np.ones(problem.n, bool)))[1]
    for _ in range(3):  # weights of the best set may find a better set
        share = problem.work * _least_share(problem.per_work, weight)[problem.row]
        value, head, tail = _window(
            share, heads, tails, np.argsort(-tails, kind="stable"), _thresholds(heads)
        )
        chosen = (heads >= head) & (tails >= tail)
        refined, weight = _area_bound(*_row_totals(problem, chosen))
        value = max(value, head + refined + tail)
        if value <= best:
            break
        best = value
    return best


def _shared(problem: Problem, heads: FloatArray, tails: FloatArray) -> float:
    """Maximise least head + use of a capacity + least tail over sets of tasks."""
    by_tail, thresholds = np.argsort(-tails, kind="stable"), _thresholds(heads)
    found = [
        _window(share, heads, tails, by_tail, thresholds)[0] for share in capacity_shares(problem)
    ]
    return max(found, default=0.0)


def _least_share(per_work: FloatArray, weight: FloatArray) -> FloatArray:
    return np.asarray((per_work * weight).min(axis=1))


def _thresholds(heads: FloatArray) -> FloatArray:
    values = np.unique(heads)
    room = max(16, 20_000_000 // max(1, len(heads)))
    return (
        values
        if len(values) <= room
        else values[np.linspace(0, len(values) - 1, room).astype(np.int64)]
    )


@njit
def _window(
    share: FloatArray,
    heads: FloatArray,
    tails: FloatArray,
    by_tail: IntArray,
    thresholds: FloatArray,
) -> tuple[float, float, float]:
    best, head, tail = 0.0, 0.0, 0.0
    for h in thresholds:
        total = 0.0
        for t in by_tail:
            if heads[t] >= h:
                total += share[t]
                if h + total + tails[t] > best:
                    best, head, tail = h + total + tails[t], h, tails[t]
    return best, head, tail
