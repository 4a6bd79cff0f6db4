"""States of an instance, the transitions between them, and the log of each instance."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

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
"""States after which a job needs nothing more from an instance."""

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
"""States that may follow each state. LOST -> COMMITTED: a plan is kept, its row runs again."""


MOST_PAIRS = 10_000
"""Notes that are remembered, to be stored once: notes of failures are all different."""


class Chapter(NamedTuple):
    """One line of a story."""

    time: float
    state: State
    note: str


class ImpossibleTransition(WeftError):
    """An event that does not fit the state of its instance; carries the instance's story."""

    def __init__(self, text: str, story: tuple[Chapter, ...] = ()) -> None:
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
        self._lines: dict[int, list[Any]] = {}
        """Instance -> time, (state, note), time, (state, note), ...; millions must be small."""
        self._pairs: dict[tuple[State, str], tuple[State, str]] = {}
        """Each state with its note once."""

    def reset(self, rows: slice) -> None:
        """Begin other stories in place of these rows, or add them at the end."""
        self.state[rows] = [State.WAITING] * (rows.stop - rows.start)
        for instance in range(rows.start, rows.stop):
            self._lines.pop(instance, None)

    def of(self, instance: int) -> tuple[Chapter, ...]:
        """All that happened to an instance; empty while it waits for its job."""
        lines = self._lines.get(instance, [])
        return tuple(Chapter(t, *pair) for t, pair in zip(lines[::2], lines[1::2], strict=True))

    def note(self, instance: int, now: float, text: str) -> None:
        """Write a line without a change of state: a copy that runs beside the original."""
        pair = (self.state[instance], text)
        known = self._pairs.get(pair)
        if known is None:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            known = self._pairs[pair] = pair
        lines = self._lines.get(instance)
        if lines is None:
            self._lines[instance] = [now, known]
        else:
            lines += (now, known)

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
