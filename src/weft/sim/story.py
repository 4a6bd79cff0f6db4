"""States of an instance, the transitions between them, and the log of each instance."""

from __future__ import annotations

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

    def __init__(self, names: list[str]) -> None:
        self.names = names
        """Every instance in words."""
        self.state = [State.WAITING] * len(names)
        self._chapters: dict[int, list[Chapter]] = {}

    def reset(self, rows: slice, names: list[str]) -> None:
        """Begin other stories in place of these rows, or add them at the end."""
        self.names[rows], self.state[rows] = names, [State.WAITING] * len(names)
        for instance in range(rows.start, rows.stop):
            self._chapters.pop(instance, None)

    def of(self, instance: int) -> tuple[Chapter, ...]:
        """All that happened to an instance; empty while it waits for its job."""
        return tuple(self._chapters.get(instance, ()))

    def note(self, instance: int, now: float, text: str) -> None:
        """Write a line without a change of state: a copy that runs beside the original."""
        self._chapters.setdefault(instance, []).append(Chapter(now, self.state[instance], text))

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
