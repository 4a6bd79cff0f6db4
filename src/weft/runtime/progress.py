"""The progress display of a run: bar, devices, busy, waiting, last event.

It has eight lines.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, TextIO

from weft.errors import visible
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Finished, Started
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.status import RunStatus, StatusReader, task_name
from weft.sim.device_state import Group

if TYPE_CHECKING:
    from weft.runtime.costs.forecast import Forecaster

ROWS = 4
"""Maximum number of lines for devices; the rest is counted."""

EVERY = 0.2
"""Seconds between two updates."""


class ProgressDisplay(Observer):
    """A display, updated in a thread; off unless the stream is a terminal.

    Parameters
    ----------
    predicted : expected seconds of the run; used until a tenth of the work is done
    width : columns; by default those of the terminal
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        predicted: float | None = None,
        force: bool = False,
        width: int | None = None,
    ) -> None:
        self.stream = stream or sys.stderr
        self.predicted = predicted
        self.forecaster: Forecaster | None = None
        """Forecasts the end with a band; None: the share of the work done counts."""
        self.on = force or self.stream.isatty()
        self.width = width
        self._drawn = 0
        """Lines of the display on the screen."""
        self._weights: list[float] = []
        self._done = 0.0
        self._seen = (0.0, time.perf_counter())
        """A run time, and its wall-clock time."""
        self._reader = StatusReader()
        self._last = ""
        """The last event, in words."""
        self._over = threading.Event()
        self._painter: threading.Thread | None = None

    def announce(self, text: str) -> None:
        """Write a line before the display starts, also where no terminal shows it."""
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """Start the display with the first order."""
        if self.on and self._painter is None:
            self._see(event.time)
            self._weigh(life)
            self._painter = threading.Thread(
                target=self._paint, args=(life,), name="weft-progress", daemon=True
            )
            self._painter.start()

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Count finished work."""
        if self.on:
            self._weigh(life)
            self._done += sum(self._weights[i] for i in group.members)
            self._see(event.finish)
            seconds = max(event.finish - group.start, 0.0)
            self._last = (
                f"{_first_name(life, group)} took {seconds:.1f} s on "
                + (life.workload.cluster.names[group.device])
            )

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """Show a failed attempt."""
        self._last = f"{task_name(life, instance)} failed: {text}"

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Show a lost device."""
        self._last = f"{life.workload.cluster.names[event.device]} is lost: {event.text}"

    def added(self, life: LiveLifecycle, event: DeviceAdded) -> None:
        """Show a device that is up."""
        self._last = f"{life.workload.cluster.names[event.device]} is up"

    def close(self) -> None:
        """Remove the display."""
        self._over.set()
        if self._painter is not None:
            self._painter.join()
            self._painter = None
        if self._drawn:
            self.stream.write(_back(self._drawn) + "\x1b[J")
            self.stream.flush()
            self._drawn = 0

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Remove the display."""
        self.close()

    def _see(self, now: float) -> None:
        if now > self._seen[0]:
            self._seen = (now, time.perf_counter())

    def _paint(self, life: LiveLifecycle) -> None:
        while not self._over.wait(EVERY):
            now, when = self._seen
            self.draw(life, now + time.perf_counter() - when)

    def _weigh(self, life: LiveLifecycle) -> None:
        """Compute the share of each instance in the work, by its estimate."""
        if not self._weights:
            for problem in (life.workload.problem_of(j) for j in range(life.workload.jobs)):
                self._weights += (problem.work * problem.best_per_work[problem.row]).tolist()
            if not any(self._weights):
                self._weights = [1.0] * len(self._weights)
            self._all = sum(self._weights)

    def draw(self, life: LiveLifecycle, now: float) -> None:
        """Draw over the last drawing."""
        self._weigh(life)
        width = self.width or _columns(self.stream)
        left = self._left(now)
        found = None if self.forecaster is None else self.forecaster.latest(life, now)
        band = None if found is None else tuple(max(end - now, 0.0) for end in found.most)
        status = self._reader.read(life, now)
        lines = [
            summary(life, now, left, width, band),
            *device_lines(life, width),
            *status_lines(status, self._last, width),
        ]
        blank = [""] * (self._drawn - len(lines))  # wipe lines below: the terminal may be wider now
        self.stream.write(
            _back(self._drawn) + "\n".join(f"{line}\x1b[K" for line in (*lines, *blank))
        )
        self.stream.flush()
        self._drawn = max(self._drawn, len(lines))

    def _left(self, now: float) -> float | None:
        share = self._done / self._all if self._all else 1.0
        if share >= 0.1 and now > 0:
            return now * (1.0 - share) / share
        return self.predicted - now if self.predicted is not None and self.predicted > now else None


def summary(
    life: LiveLifecycle,
    now: float,
    left: float | None,
    width: int = 80,
    band: tuple[float, ...] | None = None,
) -> str:
    """Return the summary line of a run.

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]])))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> _ = life.begin(0, 0.0)
    >>> summary(life, 1.0, 4.0)
    '[....................] 0/2 tasks, 1.0 s, about 4.0 s left'
    >>> device_lines(life, 80)
    ['d0 t0']
    """
    total = len(life.place)
    over = sum(life.over(job) for job in range(life.workload.jobs))
    bar = ("#" * (20 * over // total if total else 20)).ljust(20, ".")
    rest = f", about {left:.1f} s left" if left is not None and over < total else ""
    if band is not None and over < total:
        rest = f", {band[0]:.1f} to {band[1]:.1f} s left (90 %)"
    return f"[{bar}] {over}/{total} tasks, {now:.1f} s{rest}"[: width - 1]


def device_lines(life: LiveLifecycle, width: int, rows: int = ROWS) -> list[str]:
    """Return each device's current task in columns; the last cell counts the rest."""
    names = enumerate(life.workload.cluster.names)
    cells = [visible(" ".join(f"{name} {_doing(life, d)}".split())) for d, name in names]
    columns = max(1, (width - 1) // (min(max(map(len, cells)), 24) + 2))
    room = rows * columns
    if len(cells) > room:
        busy = sum(machine.running is not None for machine in life.machines[room - 1 :])
        cells = [*cells[: room - 1], f"+{len(cells) - room + 1}: {busy} busy"]
    return [
        _row(cells[k : k + columns], (width - 1) // columns) for k in range(0, len(cells), columns)
    ]


def status_lines(status: RunStatus, last: str, width: int) -> list[str]:
    """Return busy devices, reasons of waiting and the last event, without empty lines.

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]], [[0, 1]])))
    >>> life.arrive(0, 0.0)
    >>> status_lines(StatusReader().read(life, 1.0), "a took 1.0 s on d0", 80)
    ['busy 0 %: d0 0', 'waiting: 1 for a device, 1 for inputs', 'last: a took 1.0 s on d0']
    """
    shares = [device.busy or 0.0 for device in status.devices]
    each = ", ".join(
        f"{device.name} {100 * share:.0f}"
        for device, share in zip(status.devices, shares, strict=True)
    )
    waiting = ", ".join(f"{count} {reason}" for reason, count in status.waiting.items())
    lines = [f"busy {100 * sum(shares) / max(len(shares), 1):.0f} %: {each}"]
    lines += [f"waiting: {waiting}"] if waiting else []
    lines += [f"last: {last}"] if last else []
    return [visible(" ".join(line.split()))[: width - 1] for line in lines]


def _first_name(life: LiveLifecycle, group: Group) -> str:
    more = f" and {len(group.members) - 1} more" if len(group.members) > 1 else ""
    return task_name(life, group.members[0]) + more


def _row(cells: Sequence[str], width: int) -> str:
    return "".join(cell[: width - 1].ljust(width) for cell in cells).rstrip()


def _doing(life: LiveLifecycle, device: int) -> str:
    machine = life.machines[device]
    running = machine.running  # the run continues while this draws
    if machine.slowdown == inf:
        return "down"
    if running is None or not running.members:
        return "idle"
    return task_name(life, running.members[0])


def _back(lines: int) -> str:
    """Return the escape codes to the start of the last drawing."""
    return "\r" + (f"\x1b[{lines - 1}A" if lines > 1 else "")


def _columns(stream: TextIO) -> int:
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, 20)
    except (OSError, ValueError):
        return 80
