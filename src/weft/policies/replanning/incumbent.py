"""An incumbent plan, improved by local search between events; compiled.

The plans of `placement` are made again at every event, from weights alone. With reliable costs it
is better to keep a plan: its tasks stay on their devices and in their order. At every event a few
moves are tried: a task goes to another device or to another place in the order, and stays there if
the predicted completion is no worse.
"""

from __future__ import annotations

import numpy as np

from weft.policies.replanning.feedback import expect_ends, learn_durations, update_rates
from weft.policies.replanning.placement import insert, skip_done
from weft.policies.replanning.state import PlanState, end_of
from weft.sim.kernel.gaps import gap_in_rows
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import JOB_HERE, READY, WAITING, RecordTable, Sim

LONGEST_SHIFT = 12
"""Most places by which a task moves in the order."""
MOVE = record("", "before after device child child_device")
"""How to undo a move: the place before and after it, and the device before it; the child that moved
too, and its device before the move, or -1."""
_TO_DEVICE, _IN_ORDER, _BOTH, _WITH_CHILD = range(4)


@njit_noalloc
def adopt(source: PlanState, incumbent: PlanState) -> None:
    """Take over a plan: the order in which its tasks were placed, and their devices."""
    incumbent.state[0].planned = source.state[0].planned
    for k in range(source.state[0].planned):
        i = source.sequence[k]
        incumbent.sequence[k], incumbent.inst[i].device = i, source.inst[i].device


@njit_noalloc
def refresh(sim: Sim, incumbent: PlanState, trust: float, overdue: float) -> bool:
    """Drop committed tasks and time the rest.

    False if a task is new or its device is down.
    """
    learn_durations(sim, incumbent, trust)
    update_rates(sim, incumbent)
    planned = incumbent.state[0].planned
    if planned == 0 or not expect_ends(sim, incumbent, overdue):
        return False
    count = 0
    for k in range(planned):
        if sim.inst[incumbent.sequence[k]].status in (WAITING, READY):
            incumbent.sequence[count] = incumbent.sequence[k]
            count += 1
    incumbent.state[0].planned = count
    return count == _count_uncommitted(sim, incumbent) and time_tasks(sim, incumbent)


@njit_inline
def _count_uncommitted(sim: Sim, incumbent: PlanState) -> int:
    """Count the uncommitted tasks of the jobs present, and move their cursors."""
    count = 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        for k in range(skip_done(sim, incumbent, j), sim.job[j + 1].first):
            count += 1 if sim.inst[incumbent.inst[k].order].status in (WAITING, READY) else 0
    return count


@njit_noalloc
def time_tasks(sim: Sim, incumbent: PlanState) -> bool:
    """Compute the times of tasks in order; return whether all run on their devices."""
    for d in range(len(sim.device)):
        incumbent.device[d].used, incumbent.device[d].first = 0, -1
    for k in range(incumbent.state[0].planned):
        i = incumbent.sequence[k]
        d = incumbent.inst[i].device
        seconds = _seconds(sim, incumbent, i, d)
        if seconds == np.inf:
            return False
        ready = max(incumbent.device[d].free, _arrival(sim, incumbent, i, d))
        if ready == np.inf:
            return False
        used = incumbent.device[d].used
        start, slot = gap_in_rows(incumbent.begin[d], incumbent.end[d], used, ready, seconds)
        incumbent.inst[i].start, incumbent.inst[i].finish = start, start + seconds
        insert(incumbent, i, d, slot)
    return True


@njit_inline
def _seconds(sim: Sim, incumbent: PlanState, i: int, d: int) -> float:
    g = task_of(sim, i)
    row, kind = sim.task[g].row, sim.task[g].kind
    if d < 0 or incumbent.device[d].free == np.inf or sim.grid[row, d] == np.inf:
        return np.inf
    return float(sim.task[g].work * sim.grid[row, d] * incumbent.rate[kind, d])


@njit_inline
def _arrival(sim: Sim, incumbent: PlanState, i: int, d: int) -> float:
    """Return when the inputs of a task are on a device; inf if a parent has none."""
    g, latest = task_of(sim, i), 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + i - g
        origin, done = end_of(sim, incumbent, parent)
        if origin < 0:
            return np.inf
        latest = max(latest, done + transfer_time(sim, origin, d, sim.edge[e].data))
    return latest


# -- moves -------------------------------------------------------------------------


@njit_noalloc
def try_move(sim: Sim, incumbent: PlanState, undo: RecordTable) -> bool:
    """Move a random task: device, order, both, or with a child; False: no change."""
    k = _draw(incumbent, incumbent.state[0].planned)
    i, kind, move = incumbent.sequence[k], _draw(incumbent, 4), undo[0]
    move.before, move.after, move.device, move.child = k, k, incumbent.inst[i].device, -1
    if kind != _IN_ORDER:
        d = _draw(incumbent, len(sim.device))
        if _seconds(sim, incumbent, i, d) < np.inf:
            incumbent.inst[i].device = d
            if kind == _WITH_CHILD:
                _move_child(sim, incumbent, i, d, undo)
    if kind in (_IN_ORDER, _BOTH):
        steps = 1 + _draw(incumbent, LONGEST_SHIFT)
        move.after = _shift(sim, incumbent, k, steps, _draw(incumbent, 2) == 0)
    return bool(move.after != k or incumbent.inst[i].device != move.device or move.child >= 0)


@njit_inline
def _move_child(sim: Sim, incumbent: PlanState, i: int, d: int, undo: RecordTable) -> None:
    """Move a child to the same device: if data is expensive, neither moves alone."""
    g = task_of(sim, i)
    children = sim.task[g + 1].succ - sim.task[g].succ
    if children == 0:
        return
    child = sim.edge[sim.task[g].succ + _draw(incumbent, children)].target + i - g
    if incumbent.inst[child].device != d and _seconds(sim, incumbent, child, d) < np.inf:
        undo[0].child, undo[0].child_device = child, incumbent.inst[child].device
        incumbent.inst[child].device = d


@njit_noalloc
def undo_move(incumbent: PlanState, undo: RecordTable) -> None:
    """Take back the last move."""
    move, sequence = undo[0], incumbent.sequence
    at, i = move.after, sequence[move.after]
    incumbent.inst[i].device = move.device
    if move.child >= 0:
        incumbent.inst[move.child].device = move.child_device
    while at > move.before:
        sequence[at] = sequence[at - 1]
        at -= 1
    while at < move.before:
        sequence[at] = sequence[at + 1]
        at += 1
    sequence[at] = i


@njit_inline
def _shift(sim: Sim, incumbent: PlanState, k: int, steps: int, earlier: bool) -> int:
    """Shift the task at a place up to a parent or child; return its new place."""
    sequence = incumbent.sequence
    i, at = sequence[k], k
    for _ in range(steps):
        if earlier:
            if at == 0 or _is_child(sim, sequence[at - 1], i):
                break
            sequence[at] = sequence[at - 1]
            at -= 1
        else:
            if at == incumbent.state[0].planned - 1 or _is_child(sim, i, sequence[at + 1]):
                break
            sequence[at] = sequence[at + 1]
            at += 1
    sequence[at] = i
    return at


@njit_inline
def _is_child(sim: Sim, i: int, other: int) -> bool:
    """Return whether the second instance is a child of the first."""
    if sim.inst[i].job != sim.inst[other].job:
        return False
    g, h = task_of(sim, i), task_of(sim, other)
    for e in range(sim.task[g].succ, sim.task[g + 1].succ):  # noqa: SIM110  # does not compile
        if sim.edge[e].target == h:
            return True
    return False


@njit_inline
def _draw(incumbent: PlanState, below: int) -> int:
    """Draw a number (a linear congruential generator: the same in every run)."""
    state = incumbent.state[0]
    state.random = (state.random * 1103515245 + 12345) % 2147483648
    return int(state.random // 65536 % below)
