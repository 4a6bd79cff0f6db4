"""Plans for nodes whose tasks share capacities: timing by earliest fit, compiled.

Any planner's schedule becomes valid by placing its tasks one after another, in the order of their
starts, at the earliest time at which a device is free and the node has room (the serial schedule
generation scheme of project scheduling: Kolisch and Hartmann 1999, section 2.1). Equal devices of a
node are one *pool*: how many of them are free is one more capacity, and which of them runs a task
is chosen at the end, in order of start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray, frozen
from weft.planners.search.clock import Clock
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import upward_rank

ANYWHERE = -1
"""The pin of a task that may go to any pool."""

MOVES, CHUNKS, HEAT = 200, 20, 0.03
"""Moves between looks at the clock; such rounds without a time limit; the largest relative
worsening that is accepted at first."""

INITIAL_STEPS = 8
"""Steps of a node's profile for which a new profile has memory."""


Packed = tuple[IntArray, FloatArray, FloatArray]
"""The pool, start and duration of each task."""


class Pools(NamedTuple):
    """Equal devices of a node as pools, and their needs and capacities."""

    first: IntArray  # (pools,) one device of each pool
    node: IntArray  # (pools,)
    slot: IntArray  # (pools,) the capacity that counts its busy devices
    need: FloatArray  # (n, capacities) without the slots
    room: FloatArray  # (nodes, capacities + slots)
    latency: FloatArray  # (pools, pools)
    per_byte: FloatArray  # (pools, pools)


class Profile(NamedTuple):
    """Amounts in use over time, node by node: those of step i hold until step i + 1 begins."""

    begin: FloatArray
    used: FloatArray  # (size, capacities + slots)
    first: IntArray  # (nodes,)
    steps: IntArray  # (nodes,)
    capacity: IntArray  # (nodes,) steps for which the node has memory
    size: IntArray  # (1,) memory in use


def pool_of_devices(problem: Problem) -> IntArray:
    """(p,) the pool of each device: equal costs, links and node.

    Examples
    --------
    >>> from weft.model import Cluster, Workflow
    >>> cluster = Cluster(speed=[1.0, 1.0, 2.0], nodes=("a", "a", "a"))
    >>> problem = Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[]), cluster)
    >>> pool_of_devices(problem).tolist()
    [0, 0, 1]
    """
    c = problem.cluster
    found: dict[tuple[int, bytes], list[int]] = {}
    for d in range(problem.p):
        found.setdefault((int(c.node[d]), problem.pace[:, d].tobytes()), []).append(d)
    pool, count = np.zeros(problem.p, np.int64), 0
    for members in found.values():
        if _equal_links(c.latency, members) and _equal_links(c.per_byte, members):
            pool[members], count = count, count + 1
        else:
            pool[members] = count + np.arange(len(members))
            count += len(members)
    return pool


def _equal_links(table: FloatArray, members: list[int]) -> bool:
    """Whether devices have the same links to and from all others, and one between them."""
    others = np.ones(len(table), bool)
    others[members] = False
    inside = table[np.ix_(members, members)][~np.eye(len(members), dtype=bool)]
    out, back = table[members][:, others], table[others][:, members]
    return bool(
        (inside == inside[:1]).all() and (out == out[:1]).all() and (back == back[:, :1]).all()
    )


def make_pools(problem: Problem, pool: IntArray) -> Pools:
    """Gather the pools of a problem."""
    c, count = problem.cluster, int(pool.max()) + 1
    first = np.array([int(np.flatnonzero(pool == k)[0]) for k in range(count)], np.int64)
    node, capacities = c.node[first], problem.needs.shape[1]
    slot = np.zeros(count, np.int64)
    for k in range(count):
        slot[k] = capacities + np.count_nonzero(node[:k] == node[k])
    room = np.full((len(c.node_names), int(slot.max()) + 1), np.inf)
    room[:, :capacities] = problem.room
    room[node, slot] = np.bincount(pool)
    return Pools(
        first=first,
        node=np.ascontiguousarray(node),
        slot=slot,
        need=np.ascontiguousarray(problem.needs),
        room=room,
        latency=_between_pools(c.latency, pool, first),
        per_byte=_between_pools(c.per_byte, pool, first),
    )


def _between_pools(table: FloatArray, pool: IntArray, first: IntArray) -> FloatArray:
    """Return the value between pools; within a pool, that between two of its devices."""
    made = np.ascontiguousarray(table[np.ix_(first, first)])
    for k in range(len(first)):
        members = np.flatnonzero(pool == k)
        if len(members) > 1:
            made[k, k] = table[members[0], members[1]]
    return made


def pack(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule that respects the capacities of nodes, made of one that may not.

    The best of a few: tasks in the order of their starts, on their devices, on devices like theirs
    or on the best ones, and tasks by upward rank on the best ones. Copies are left out.
    """
    if problem.n == 0:
        return schedule
    device, by_start = _devices_and_order(problem, schedule)
    by_rank = np.lexsort((_places(problem), -upward_rank(problem))).astype(np.int64)
    free = np.full(problem.n, ANYWHERE)
    pool = pool_of_devices(problem)
    tries = [(pool, by_start, pool[device]), (pool, by_start, free), (pool, by_rank, free)]
    alone = _each_alone(problem, pool)
    if alone is not pool:
        tries.append((alone, by_start, alone[device]))
    found = [
        (into, *pack_in_order(problem.arrays, make_pools(problem, into), order, pin))
        for into, order, pin in tries
    ]
    return as_schedule(problem, *min(found, key=lambda rows: float((rows[2] + rows[3]).max())))


def _each_alone(problem: Problem, pool: IntArray) -> IntArray:
    """Return pools of one device each, unless data moves freely within the pools.

    A pool does not know which of its devices has the data of a task, so it counts the link between
    two of them.
    """
    c, same = problem.cluster, pool[:, None] == pool[None, :]
    free = not (c.latency[same].any() or c.per_byte[same].any())
    return pool if free else np.arange(problem.p)


def improve(
    problem: Problem, schedule: Schedule, *, seconds: float | None = None, seed: int = 0
) -> Schedule:
    """Search for a shorter schedule that respects capacities, beginning with a valid one.

    Annealing over the order of the tasks and their pools. Without a time limit, the effort is
    fixed and the result the same on every machine.
    """
    if problem.n == 0:
        return schedule
    clock = Clock(seconds)
    pool = _each_alone(problem, pool_of_devices(problem))
    pools = make_pools(problem, pool)
    device, order = _devices_and_order(problem, schedule)
    pin = pool[device]
    state = np.array([seed % 2**31 + 1], np.uint64)
    best = pack_in_order(problem.arrays, pools, order, pin)
    turned = _Turned(problem, problem.arrays, pools, *_reversed(problem.arrays, pools))
    for chunk in range(CHUNKS if seconds is None else 10**9):
        if clock.left() <= 0:
            break
        heat = HEAT * (1.0 - chunk / CHUNKS if seconds is None else clock.left() / seconds)
        found = anneal(problem.arrays, pools, order, pin, state, heat)
        if _length(found) < _length(best):
            best = found
            while _length(other := back_and_forth(turned, best)) < _length(best):
                best = other
                order[:], pin[:] = _order_of(problem, best[1]), best[0]
    packed = as_schedule(problem, pool, *best)
    return min(schedule, packed, key=lambda s: s.makespan)


class _Turned(NamedTuple):
    """A problem, and the same with time running backwards."""

    problem: Problem
    arrays: ProblemArrays
    pools: Pools
    back: ProblemArrays
    back_pools: Pools


def _reversed(a: ProblemArrays, pools: Pools) -> tuple[ProblemArrays, Pools]:
    back = a._replace(
        order=np.ascontiguousarray(a.order[::-1]),
        succ_ptr=a.pred_ptr,
        succ=a.pred,
        succ_data=a.pred_data,
        pred_ptr=a.succ_ptr,
        pred=a.succ,
        pred_data=a.succ_data,
    )
    links = [frozen(np.ascontiguousarray(x)) for x in (a.latency.T, a.per_byte.T)]
    near = [np.ascontiguousarray(x) for x in (pools.latency.T, pools.per_byte.T)]
    turned = pools._replace(latency=near[0], per_byte=near[1])
    return back._replace(order=frozen(back.order), latency=links[0], per_byte=links[1]), turned


def back_and_forth(turned: _Turned, rows: Packed) -> Packed:
    """Pack the tasks from the end, last finish first, and then again from the beginning.

    Forward-backward improvement (Valls, Ballestin and Quintanilla 2005, section 3).
    """
    pool, start, seconds = rows
    place = _places(turned.problem)
    last = np.lexsort((-place, -(start + seconds))).astype(np.int64)
    _, late, again = pack_in_order(turned.back, turned.back_pools, last, pool)
    order = _order_of(turned.problem, -(late + again))
    return pack_in_order(turned.arrays, turned.pools, order, pool)


def _order_of(problem: Problem, start: FloatArray) -> IntArray:
    return np.lexsort((_places(problem), start)).astype(np.int64)


def _length(rows: Packed) -> float:
    return float((rows[1] + rows[2]).max())


def _places(problem: Problem) -> IntArray:
    place = np.empty(problem.n, np.int64)
    place[problem.workflow.order] = np.arange(problem.n)
    return place


def _devices_and_order(problem: Problem, schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Return the device of each task, and the tasks in the order of their starts.

    Without copies, a child may start before its parent: it had the data of a copy. So the order is
    made topological: a task goes after its parents.
    """
    device, start = np.zeros(problem.n, np.int64), np.zeros(problem.n)
    rows = ~schedule.copy
    device[schedule.task[rows]] = schedule.device[rows]
    start[schedule.task[rows]] = schedule.start[rows]
    w, places = problem.workflow, _places(problem)
    if schedule.copies or (start[w.src] > start[w.dst]).any():
        for edge in np.argsort(places[w.src], kind="stable").tolist():
            start[w.dst[edge]] = max(start[w.dst[edge]], start[w.src[edge]])
    return device, np.lexsort((places, start)).astype(np.int64)


def as_schedule(
    problem: Problem, pool: IntArray, chosen: IntArray, start: FloatArray, seconds: FloatArray
) -> Schedule:
    """Choose a device of its pool for each task, in order of start."""
    device = np.zeros(problem.n, np.int64)
    for k in range(int(pool.max()) + 1):
        members = np.flatnonzero(pool == k)
        free = np.zeros(len(members))
        tasks = np.flatnonzero(chosen == k)
        for t in tasks[np.lexsort((start[tasks] + seconds[tasks], start[tasks]))].tolist():
            # The one that was free last leaves the others for longer tasks.
            able = np.flatnonzero(free <= start[t])
            at = int(able[np.argmax(free[able])])
            device[t], free[at] = members[at], start[t] + seconds[t]
    return Schedule.of(device=device, start=start, finish=start + seconds)


@njit
def pack_in_order(
    a: ProblemArrays, pools: Pools, order: IntArray, pin: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Place each task, in order, in its pinned pool or where it finishes first.

    Returns the pool, start and duration of each task.
    """
    n, count = len(a.work), len(pools.first)
    pool, start, seconds = np.full(n, -1), np.zeros(n), np.zeros(n)
    profile = empty_profile(pools.room, n)
    ready, amount = np.zeros(count), np.zeros(pools.room.shape[1])
    for task in order:
        ready[:] = 0.0
        for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
            parent = a.pred[i]
            source = pool[parent]
            sent = start[parent] + seconds[parent]
            for k in range(count):
                moved = pools.latency[source, k] + a.pred_data[i] * pools.per_byte[source, k]
                ready[k] = max(ready[k], sent + moved)
        best, chosen, begin = np.inf, -1, 0.0
        for k in range(count):
            pace = a.pace[a.row[task], pools.first[k]]
            if pace == np.inf or (pin[task] != ANYWHERE and pin[task] != k):
                continue
            duration = a.work[task] * pace
            if ready[k] + duration >= best:
                continue
            for c in range(pools.need.shape[1]):
                amount[c] = pools.need[task, c]
            amount[pools.need.shape[1] :] = 0.0
            amount[pools.slot[k]] = 1.0
            at = earliest_fit(profile, pools, pools.node[k], ready[k], duration, amount, best)
            if at + duration < best:
                best, chosen, begin = at + duration, k, at
        pool[task], start[task] = chosen, begin
        seconds[task] = a.work[task] * a.pace[a.row[task], pools.first[chosen]]
        for c in range(pools.need.shape[1]):
            amount[c] = pools.need[task, c]
        amount[pools.need.shape[1] :] = 0.0
        amount[pools.slot[chosen]] = 1.0
        use(profile, pools.node[chosen], begin, begin + seconds[task], amount)
    return pool, start, seconds


@njit
def _random(state: NDArray[np.uint64], below: int) -> int:
    """Draw a number by a multiplicative generator of Lehmer (1951), modulus 2^31 - 1."""
    state[0] = (state[0] * np.uint64(48271)) % np.uint64(2147483647)
    return int(state[0]) % below


@njit
def anneal(
    a: ProblemArrays,
    pools: Pools,
    order: IntArray,
    pin: IntArray,
    state: NDArray[np.uint64],
    heat: float,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Change the order and the pools of tasks for a while, in place; return the best found."""
    n = len(order)
    best = pack_in_order(a, pools, order, pin)
    here = least = (best[1] + best[2]).max()
    for _ in range(MOVES):
        i = _random(state, n)
        task, other = order[i], i
        before = pin[task]
        if _random(state, 2) == 0:
            pin[task] = _random(state, len(pools.first) + 1) - 1  # -1 is anywhere
            if pin[task] != ANYWHERE and a.pace[a.row[task], pools.first[pin[task]]] == np.inf:
                pin[task] = ANYWHERE
        else:
            other = _move(a, order, i, _random(state, n))
        found = pack_in_order(a, pools, order, pin)
        length = (found[1] + found[2]).max()
        if length <= here + heat * here * (_random(state, 1000) / 1000.0) ** 4:
            here = length
            if length < least:
                best, least = found, length
        else:
            pin[task] = before
            _shift(order, other, i)
    return best


@njit
def _move(a: ProblemArrays, order: IntArray, i: int, target: int) -> int:
    """Move a task of the order towards a place, not beyond parents and children."""
    task, j = order[i], i
    while j < target and not _is_parent(a, task, order[j + 1]):
        j += 1
    while j > target and not _is_parent(a, order[j - 1], task):
        j -= 1
    _shift(order, i, j)
    return j


@njit
def _is_parent(a: ProblemArrays, parent: int, child: int) -> bool:
    for k in range(a.pred_ptr[child], a.pred_ptr[child + 1]):  # noqa: SIM110 (compiled)
        if a.pred[k] == parent:
            return True
    return False


@njit
def _shift(order: IntArray, i: int, j: int) -> None:
    """Take the element at i out and insert it at j."""
    task = order[i]
    while i < j:
        order[i] = order[i + 1]
        i += 1
    while i > j:
        order[i] = order[i - 1]
        i -= 1
    order[i] = task


@njit
def empty_profile(room: FloatArray, executions: int) -> Profile:
    """Make the profile of idle nodes, with memory for a number of executions."""
    nodes = len(room)
    # An execution adds two steps. Places of 8, 16, ... up to below 2 s add up to less than 4 s.
    size = 8 * executions + 4 * INITIAL_STEPS * nodes
    first = np.arange(nodes) * INITIAL_STEPS
    begin, used = np.zeros(size), np.zeros((size, room.shape[1]))
    return Profile(
        begin,
        used,
        first,
        np.full(nodes, 1),
        np.full(nodes, INITIAL_STEPS),
        np.full(1, nodes * INITIAL_STEPS),
    )


@njit
def _step_at(profile: Profile, node: int, time: float) -> int:
    """Return the last step of a node that begins at a time or before."""
    low = profile.first[node]
    high = low + profile.steps[node] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if profile.begin[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return int(low)


@njit
def earliest_fit(
    profile: Profile,
    pools: Pools,
    node: int,
    ready: float,
    duration: float,
    amount: FloatArray,
    limit: float,
) -> float:
    """Return the earliest start at which a node has room for an amount; inf if beyond `limit`."""
    end = profile.first[node] + profile.steps[node]
    at, start = _step_at(profile, node, ready), ready
    while at < end and (profile.begin[at] < start + duration or profile.begin[at] <= start):
        for c in range(len(amount)):
            if profile.used[at, c] + amount[c] > pools.room[node, c]:
                start = profile.begin[at + 1]  # the last step is idle, so there is a next one
                break
        if start + duration >= limit:
            return np.inf
        at += 1
    return start


@njit
def use(profile: Profile, node: int, start: float, finish: float, amount: FloatArray) -> None:
    """Add an amount to what a node uses between two times; a task of no length takes an instant."""
    finish = max(finish, np.nextafter(start, np.inf))
    _split(profile, node, start)
    _split(profile, node, finish)
    at = _step_at(profile, node, start)
    while profile.begin[at] < finish:
        for c in range(len(amount)):
            profile.used[at, c] += amount[c]
        at += 1


@njit
def _split(profile: Profile, node: int, time: float) -> None:
    """Let a step of a node begin at a time."""
    at = _step_at(profile, node, time)
    if profile.begin[at] == time:
        return
    old, count = profile.first[node], profile.steps[node]
    first = old
    if count == profile.capacity[node]:
        first = profile.size[0]
        profile.capacity[node] *= 2
        profile.size[0] += profile.capacity[node]
        profile.first[node] = first
        for i in range(at - old + 1):
            profile.begin[first + i] = profile.begin[old + i]
            profile.used[first + i] = profile.used[old + i]
    for i in range(count - 1, at - old, -1):
        profile.begin[first + i + 1] = profile.begin[old + i]
        profile.used[first + i + 1] = profile.used[old + i]
    new = first + at - old + 1
    profile.begin[new] = time
    profile.used[new] = profile.used[new - 1]
    profile.steps[node] = count + 1
