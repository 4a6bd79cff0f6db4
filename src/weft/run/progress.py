"""The progress of a run, on one line of a terminal: tasks done, what every device does, and when it should end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from math import inf
from typing import TextIO

from weft.run.backend import DeviceAdded, DeviceLost, Finished, Started
from weft.run.live import LiveLifecycle
from weft.run.observer import Observer
from weft.sim.machine import Group
from weft.sim.story import OVER, State


class Progress(Observer):
    """Writes a line whenever something happened, ten times a second at most; nothing unless a person looks at it.

    Parameters
    ----------
    predicted : seconds the whole run should take, if known
    """

    def __init__(self, stream: TextIO | None = None, *, predicted: float | None = None, force: bool = False) -> None:
        self.stream = stream or sys.stderr
        self.predicted = predicted
        self.on = force or self.stream.isatty()
        self._last = -inf
        self._width = 0

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """Show it."""
        self._show(life, event.time)

    def finished(self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]) -> None:  # noqa: ARG002
        """Show it."""
        self._show(life, event.finish)

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Show it."""
        self._show(life, event.time)

    def added(self, life: LiveLifecycle, event: DeviceAdded) -> None:
        """Show it."""
        self._show(life, event.time)

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Leave the line clean."""
        if self.on:
            self._show(life, now, at_once=True)
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()

    def _show(self, life: LiveLifecycle, now: float, *, at_once: bool = False) -> None:
        if not self.on or (not at_once and time.perf_counter() - self._last < 0.1):
            return
        self._last = time.perf_counter()
        text = line(life, now, self.predicted)
        self.stream.write("\r" + text.ljust(self._width))
        self.stream.flush()
        self._width = max(self._width, len(text))


def line(life: LiveLifecycle, now: float, predicted: float | None = None) -> str:
    """The state of a run in words.

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]])))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> _ = life.begin(0, 0.0)
    >>> line(life, 1.0, 5.0)
    '[..........] 0/2 tasks, 1.0 s, about 4.0 s left | d0: t0'
    """
    states = life.stories.state
    total = len(states)
    over = sum(s in OVER or s is State.CANCELLED for s in states)
    bar = ("#" * (10 * over // total if total else 10)).ljust(10, ".")
    left = _left(now, over, total, predicted)
    lanes = ", ".join(f"{name}: {_doing(life, d)}" for d, name in enumerate(life.workload.cluster.names[:8]))
    return f"[{bar}] {over}/{total} tasks, {now:.1f} s{left} | {lanes}"


def _left(now: float, over: int, total: int, predicted: float | None) -> str:
    if over == total:
        return ""
    if predicted is not None and predicted > now:
        return f", about {predicted - now:.1f} s left"
    if over and now > 0:
        return f", about {now * (total - over) / over:.1f} s left"
    return ""


def _doing(life: LiveLifecycle, device: int) -> str:
    machine = life.machines[device]
    if machine.pace == inf:
        return "down"
    if machine.running is None:
        return "idle"
    i = machine.running.members[0]
    return life.problem(i).workflow.task_name(life.place[i][1])
