"""The state of a run at a moment: devices, waiting tasks by reason, done work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.story import OVER, POOL, State

REASONS = {
    State.WAITING: "for inputs",
    State.READY: "for a device",
    State.RETRIED: "for a device",
    State.COMMITTED: "in queues",
    State.TRANSFERRING: "for data on its way",
}
"""State of an instance -> what it waits for."""

FORECAST_SECONDS = 1.0
"""Seconds between two forecasts of the end of a run."""


@dataclass(frozen=True)
class DeviceStatus:
    """The present work of a device: `task` is empty while it is idle or down.

    `busy` is its share of the time so far; None: it is not counted.
    """

    name: str
    task: str
    since: float | None
    expected: float | None
    queued: int
    busy: float | None
    down: bool


@dataclass(frozen=True)
class Snapshot:
    """A moment, `now` seconds after the beginning; live pages send it."""

    now: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class RunStatus(Snapshot):
    """A moment of a run.

    Attributes
    ----------
    waiting : reason -> tasks that wait for it
    """

    done: int
    tasks: int
    devices: tuple[DeviceStatus, ...]
    waiting: dict[str, int]


class StatusReader:
    """Reader of the status of a run, which reads ended tasks only once.

    Parameters
    ----------
    count_busy : whether devices get their share of busy time, from the executions so far

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    >>> life = LiveLifecycle(Workload.of(problem))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> _ = life.begin(0, 0.0)
    >>> found = StatusReader().read(life, 1.0)
    >>> found.waiting, found.devices[0].task, found.devices[0].busy
    ({'for inputs': 1}, 't0', 1.0)
    """

    def __init__(self, *, count_busy: bool = True) -> None:
        self._count_busy = count_busy
        self._read = 0
        self._busy: list[float] = []

    def read(self, life: LiveLifecycle, now: float) -> RunStatus:
        """Return the status at a time."""
        self._busy += [0.0] * (len(life.machines) - len(self._busy))
        rows, seen = life.executions[self._read :], set[int]()
        self._read += len(rows)
        for row in rows:
            if row.batch not in seen:
                self._busy[row.device] += row.finish - row.start
            seen.add(row.batch)
        devices = tuple(self._device(life, d, now) for d in range(len(life.machines)))
        states = list(life.stories.state)
        done = sum(state in OVER or state is State.CANCELLED for state in states)
        return RunStatus(now, done, len(states), devices, waiting_by_reason(life))

    def _device(self, life: LiveLifecycle, d: int, now: float) -> DeviceStatus:
        machine = life.machines[d]
        group = machine.running  # the run continues while this looks
        members = list(group.members) if group is not None else []
        running = group is not None and bool(members)
        since = group.start if group is not None and running else None
        busy = self._busy[d] + (max(now - since, 0.0) if since is not None else 0.0)
        return DeviceStatus(
            life.workload.cluster.names[d],
            task_name(life, members[0]) if members else "",
            since,
            group.expected if group is not None and running else None,
            sum(len(g.members) for g in list(machine.queue)),
            (min(busy / now, 1.0) if now > 0 else 0.0) if self._count_busy else None,
            machine.slowdown == inf,
        )


def waiting_by_reason(
    life: LiveLifecycle, instances: Sequence[int] | None = None
) -> dict[str, int]:
    """Return reason -> number of instances that wait for it."""
    states, held = life.stories.state, set(life.held)
    counted = Counter[str]()
    for i in range(len(states)) if instances is None else instances:
        state = states[i]
        if state in POOL and i in held:
            counted["for the next attempt"] += 1
        elif state in REASONS:
            counted[REASONS[state]] += 1
    return dict(counted.most_common())


def task_name(life: LiveLifecycle, instance: int) -> str:
    """Return the name of an instance's task."""
    return life.problem(instance).workflow.task_name(life.place[instance][1])
