"""A plan that is kept from event to event, and bettered by small changes; compiled.

The plans of `foresight.py` are made anew at every event, from nothing but weights. With costs that can be relied upon it is better to keep
a plan: its tasks stay on their devices and in their order, and whenever there is time, one of them is moved to another device or to
another place in the order, and stays there if that promises more. It is a local search that goes on while the plan is carried out.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import IntArray
from weft.policies.replanning.placement import (
    PlanState,
    expect_ends,
    first_after,
    insert,
    learn_durations,
    note_rates,
)
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.tables import DONE, JOB_HERE, READY, WAITING, Sim

FARTHEST = 12
"""Places in the order a task is moved by, at most."""


@njit_noalloc
def keep(source: PlanState, kept: PlanState) -> None:
    """Take over a plan that was made: the order in which tasks were placed, and where."""
    kept.note[1] = source.note[1]
    for k in range(source.note[1]):
        i = source.sequence[k]
        kept.sequence[k], kept.device[i] = i, source.device[i]


@njit_noalloc
def look_again(sim: Sim, kept: PlanState, trust: float, overdue: float) -> bool:
    """Drop what has been committed, and time the rest anew; False where the plan does not hold: a task is new, or its device is down."""
    learn_durations(sim, kept, trust)
    note_rates(sim, kept)
    if kept.note[1] == 0 or not expect_ends(sim, kept, overdue):
        return False
    count = 0
    for k in range(kept.note[1]):
        if sim.inst[kept.sequence[k]].status in (WAITING, READY):
            kept.sequence[count] = kept.sequence[k]
            count += 1
    kept.note[1] = count
    return count == _to_be_planned(sim, kept) and set_times(sim, kept)


@njit_inline
def _to_be_planned(sim: Sim, kept: PlanState) -> int:
    """How many tasks of the jobs here are not committed; and where each job's list of what is left begins."""
    count = 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        last = sim.job[j + 1].first
        at = max(kept.cursor[j], sim.job[j].first)
        while at < last and sim.inst[kept.order[at]].status == DONE:
            at += 1
        kept.cursor[j] = at
        for k in range(at, last):
            count += 1 if sim.inst[kept.order[k]].status in (WAITING, READY) else 0
    return count


@njit_noalloc
def set_times(sim: Sim, kept: PlanState) -> bool:
    """Time the plan: each task in order, on its device, in the first gap that fits; False where a device cannot run its task."""
    for d in range(len(sim.device)):
        kept.used[d], kept.first[d] = 0, -1
    for k in range(kept.note[1]):
        i = kept.sequence[k]
        d = kept.device[i]
        seconds = _seconds(sim, kept, i, d)
        if seconds == np.inf:
            return False
        at, gap = max(kept.free[d], _arrival(sim, kept, i, d)), kept.used[d]
        for slot in range(first_after(kept, d, at), kept.used[d]):
            if at + seconds <= kept.begins[d, slot]:
                gap = slot
                break
            at = max(at, kept.ends[d, slot])
        kept.start[i], kept.finish[i] = at, at + seconds
        insert(kept, i, d, gap)
    return True


@njit_inline
def _seconds(sim: Sim, kept: PlanState, i: int, d: int) -> float:
    g = task_of(sim, i)
    if d < 0 or kept.free[d] == np.inf or sim.grid[sim.task[g].row, d] == np.inf:
        return np.inf
    return float(sim.task[g].work * sim.grid[sim.task[g].row, d] * kept.rate[sim.task[g].kind, d])


@njit_inline
def _arrival(sim: Sim, kept: PlanState, i: int, d: int) -> float:
    """When the inputs of a task are on a device."""
    g, latest = task_of(sim, i), 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + i - g
        if sim.inst[parent].status == DONE:
            latest = max(
                latest,
                sim.inst[parent].done_at
                + transfer_time(sim, sim.inst[parent].ran_on, d, sim.edge[e].data),
            )
        else:
            latest = max(
                latest,
                kept.finish[parent] + transfer_time(sim, kept.device[parent], d, sim.edge[e].data),
            )
    return latest


# -- small changes --------------------------------------------------------------


@njit_noalloc
def move_one(sim: Sim, kept: PlanState, move: IntArray) -> bool:
    """Move a task drawn at random: elsewhere, in the order, both, or elsewhere together with a child; False where nothing has changed.

    `move` notes how to take it back: place before and after, device before; the child and its device before, or -1.
    """
    k = _draw(kept, kept.note[1])
    i, kind = kept.sequence[k], _draw(kept, 4)
    move[0], move[1], move[2], move[3] = k, k, kept.device[i], -1
    if kind != 1:
        d = _draw(kept, len(sim.device))
        if _seconds(sim, kept, i, d) < np.inf:
            kept.device[i] = d
            if kind == 3:
                _take_along(sim, kept, i, d, move)
    if kind in (1, 2):
        move[1] = _shift(sim, kept, k, 1 + _draw(kept, FARTHEST), _draw(kept, 2) == 0)
    return bool(move[1] != k or kept.device[i] != move[2] or move[3] >= 0)


@njit_inline
def _take_along(sim: Sim, kept: PlanState, i: int, d: int, move: IntArray) -> None:
    """Move a child to the same device: where data is dear, neither would go alone."""
    g = task_of(sim, i)
    children = sim.task[g + 1].succ - sim.task[g].succ
    if children == 0:
        return
    child = sim.edge[sim.task[g].succ + _draw(kept, children)].target + i - g
    if kept.device[child] != d and _seconds(sim, kept, child, d) < np.inf:
        move[3], move[4] = child, kept.device[child]
        kept.device[child] = d


@njit_noalloc
def take_back(kept: PlanState, move: IntArray) -> None:
    """Undo a move."""
    at, i = move[1], kept.sequence[move[1]]
    kept.device[i] = move[2]
    if move[3] >= 0:
        kept.device[move[3]] = move[4]
    while at > move[0]:
        kept.sequence[at] = kept.sequence[at - 1]
        at -= 1
    while at < move[0]:
        kept.sequence[at] = kept.sequence[at + 1]
        at += 1
    kept.sequence[at] = i


@njit_inline
def _shift(sim: Sim, kept: PlanState, k: int, steps: int, earlier: bool) -> int:
    """Move what is at a place earlier or later, but not past a parent or a child; where it is then."""
    i, at = kept.sequence[k], k
    for _ in range(steps):
        if earlier:
            if at == 0 or _precedes(sim, kept.sequence[at - 1], i):
                break
            kept.sequence[at] = kept.sequence[at - 1]
            at -= 1
        else:
            if at == kept.note[1] - 1 or _precedes(sim, i, kept.sequence[at + 1]):
                break
            kept.sequence[at] = kept.sequence[at + 1]
            at += 1
    kept.sequence[at] = i
    return at


@njit_inline
def _precedes(sim: Sim, i: int, other: int) -> bool:
    """Whether the second is a child of the first."""
    if sim.inst[i].job != sim.inst[other].job:
        return False
    g, h = task_of(sim, i), task_of(sim, other)
    for e in range(sim.task[g].succ, sim.task[g + 1].succ):  # noqa: SIM110 (a generator expression does not compile)
        if sim.edge[e].target == h:
            return True
    return False


@njit_inline
def _draw(kept: PlanState, below: int) -> int:
    """A number by chance (a linear congruential generator: the same in every run)."""
    kept.note[2] = (kept.note[2] * 1103515245 + 12345) % 2147483648
    return int(kept.note[2] // 65536 % below)
