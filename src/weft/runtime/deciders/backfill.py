"""Starting planned tasks on nodes whose tasks share capacities.

Tasks start in their planned order. A task that fits may overtake a task that waits for room on the
same node, unless that delays the waiting one, by the expected ends of the tasks that run there
(EASY backfilling: Lifka 1995).
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.columns import FloatArray, IntArray
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.view import Decision


def next_start(
    life: LiveLifecycle, turn: Mapping[int, tuple[int, int]], pool: IntArray, now: float
) -> Decision | None:
    """Return the next planned task that can start now, or None.

    Parameters
    ----------
    turn : instance -> its place in the plan, and its planned device
    pool : (p,) the pool of each device: a task may take any idle device of its pool
    """
    idle = [d for d in range(len(life.machines)) if life.idle(d, now)]
    waiting: dict[int, list[int]] = {}
    for i in sorted((i for i in life.ready if i in turn), key=turn.__getitem__):
        planned = turn[i][1]
        device = next((d for d in idle if pool[d] == pool[planned] and life.can_run(i, d)), None)
        if device is None:
            continue
        before = waiting.setdefault(life.room.node(device), [])
        delays = any(_delays(life, i, other, device, now) for other in before)
        if life.room.fits([i], device) and not delays:
            return Decision(i, device)
        before.append(i)
    return None


def _delays(life: LiveLifecycle, instance: int, waiting: int, device: int, now: float) -> bool:
    """Return whether a start now delays a task that waits for room on the same node."""
    own, wanted = life.room.needs([instance]), life.room.needs([waiting])
    node, left = life.room.node(device), life.room.left()
    assert left is not None
    free, at = left[node], now
    for end, amounts in _ends(life, node, now):
        if (wanted <= free).all():
            break
        free, at = free + amounts, end
    return now + life.expected([instance], device) > at and not bool((own + wanted <= free).all())


def _ends(life: LiveLifecycle, node: int, now: float) -> list[tuple[float, FloatArray]]:
    """Return the expected ends of groups on a node, in order, and what each frees."""
    ends = []
    for device, machine in enumerate(life.machines):
        if machine.running is not None and life.room.node(device) == node:
            needs = life.room.needs(machine.running.members)
            ends.append((max(machine.running.expected, now), needs))
    return sorted(ends, key=lambda row: row[0])
