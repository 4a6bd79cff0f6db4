"""States of instances, transitions between them, and the log of each one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from weft.errors import WeftError


class State(StrEnum):
    """Where an instance is in its life."""

    WAITING = "waiting"  # for its job to arrive, or for its parents
    READY = "ready"
    COMMITTED = "committed"  # in the queue of a device
    TRANSFERRING = "transferring"  # at the head of the queue, its inputs still on their way
    RUNNING = "running"
    DONE = "done"
    LOST = "lost"  # its execution was cut off; ready again, or back in its queue, at once
    RETRIED = "retried"  # ready again: its execution was lost, or its device failed before it began
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


POOL = (State.READY, State.RETRIED)
"""States of instances a policy may commit."""

OVER = (State.DONE, State.SKIPPED)
"""States of instances for which a job does not wait any more."""

AFTER: dict[State, tuple[State, ...]] = {
    State.WAITING: (State.READY, State.SKIPPED, State.CANCELLED),
    State.READY: (State.COMMITTED, State.CANCELLED),
    State.COMMITTED: (State.TRANSFERRING, State.RUNNING, State.RETRIED, State.CANCELLED),
    State.TRANSFERRING: (State.RUNNING, State.RETRIED, State.CANCELLED),
    State.RUNNING: (State.DONE, State.LOST, State.CANCELLED),
    State.LOST: (State.RETRIED, State.COMMITTED),
    State.RETRIED: (State.COMMITTED, State.CANCELLED),
    State.DONE: (),
    State.SKIPPED: (),
    State.CANCELLED: (),
}
"""States that may follow each state. LOST -> COMMITTED: a plan runs its row again."""


ENDED_LINES = 100_000
"""Number of lines of ended stories from which their memory is used again."""

NONE = -1
"""The line before the first one of a story."""


class StateChange(NamedTuple):
    """One line of a story: a new state, or a note on the present one."""

    time: float
    state: State
    note: str


class ImpossibleTransition(WeftError):
    """An event that does not fit the state of its instance, with its story."""

    def __init__(self, text: str, story: tuple[StateChange, ...] = ()) -> None:
        lines = "; ".join(f"{c.time:g} {c.state}{f' ({c.note})' if c.note else ''}" for c in story)
        super().__init__(f"{text}; its story: {lines}" if lines else text)
        self.story = story


class Stories:
    """The state of every instance, how it came about, and the guard of `AFTER`.

    Examples
    --------
    >>> stories = Stories(["'a'"])
    >>> stories.move(0, State.READY, 0.0)
    >>> stories.move(0, State.DONE, 1.0)
    Traceback (most recent call last):
    weft.sim.story.ImpossibleTransition: 'a' cannot be done at 1: it is ready; its story: 0 ready
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        """Every instance in words."""
        self.state = [State.WAITING] * len(names)
        self._last = array("i", [NONE]) * len(names)
        """Instance -> the last line of its story; compact, as there may be millions of stories."""
        self._before, self._time, self._pair = array("i"), array("d"), array("i")
        """Line -> the line before it of the same story, its time, and its state and note."""
        self._pairs: list[tuple[State, str]] = []
        self._number: dict[tuple[State, str], int] = {}
        """Each state with its note once, and its number."""
        self._ended = 0

    def reset(self, rows: slice) -> None:
        """Begin other stories in place of these rows, or add them at the end."""
        for instance in range(rows.start, min(rows.stop, len(self._last))):
            self._ended += len(self.of(instance))
        self.state[rows] = [State.WAITING] * (rows.stop - rows.start)
        self._last[rows] = array("i", [NONE]) * (rows.stop - rows.start)
        if self._ended > max(ENDED_LINES, len(self._time) // 2):
            self._compact()

    def of(self, instance: int) -> tuple[StateChange, ...]:
        """Return the story of an instance; empty while it waits for its job."""
        lines, line = [], self._last[instance]
        while line != NONE:
            lines.append(StateChange(self._time[line], *self._pairs[self._pair[line]]))
            line = self._before[line]
        return tuple(reversed(lines))

    def note(self, instance: int, now: float, text: str) -> None:
        """Write a line without a change of state, about a copy beside the original."""
        pair = (self.state[instance], text)
        number = self._number.get(pair)
        if number is None:
            number = self._number[pair] = len(self._pairs)
            self._pairs.append(pair)
        self._before.append(self._last[instance])
        self._last[instance] = len(self._time)
        self._time.append(now)
        self._pair.append(number)

    def _compact(self) -> None:
        """Keep only the lines of present stories, and their notes."""
        stories = [self.of(instance) for instance in range(len(self._last))]
        self._last = array("i", [NONE]) * len(stories)
        self._before, self._time, self._pair = array("i"), array("d"), array("i")
        self._pairs, self._number, self._ended = [], {}, 0
        now = self.state
        self.state = list(now)
        for instance, lines in enumerate(stories):
            for line in lines:
                self.state[instance] = line.state
                self.note(instance, line.time, line.note)
        self.state = now

    def move(self, instance: int, state: State, now: float, note: str = "") -> None:
        """Change the state, or raise `ImpossibleTransition`."""
        before = self.state[instance]
        if state not in AFTER[before]:
            raise ImpossibleTransition(
                f"{self.names[instance]} cannot be {state} at {now:g}: it is {before}",
                self.of(instance),
            )
        self.state[instance] = state
        self.note(instance, now, note)
