"""A moment of a cascade, and its changes, for live pages and other programs.

`Cascade.state()` is what goes on now: every stream of live pages sends it once per second.
`Cascade.watch(f)` calls `f` with every change after it, a document that JSON can hold::

    {"time": 3.21, "kind": "batch", "unit": "one", "stage": "large", "jobs": [8]}
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.runtime.status import Snapshot

EVENTS = 100
"""Events that are kept."""

CHANGES = {
    "accepted": ("job",),
    "batch": ("unit", "stage", "jobs"),
    "batch ended": ("unit", "stage", "seconds"),
    "answered": ("job",),
    "failed": ("job",),
    "cancelled": ("job",),
    "unit up": ("unit",),
    "unit lost": ("unit", "text"),
    "policy": ("text",),
    "policy replaced": ("text",),
    "drift": ("text",),
}
"""Kinds of changes that watchers receive, with their facts; `jobs` are numbers of requests."""

LOG = logging.getLogger("weft.cascade")
Watcher = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class UnitState:
    """The present work of a unit.

    `task` is empty while it is idle; `batch` is 0 while it loads a stage.

    Attributes
    ----------
    since : when the batch began, in seconds since the cascade began
    queued : batches that wait for the unit
    """

    name: str
    kind: str
    up: bool
    task: str
    batch: int
    since: float | None
    queued: int


@dataclass
class StageState:
    """Requests at a stage, and its batches so far.

    Attributes
    ----------
    waiting, queued, running : requests that wait for a decision, for their unit, or run
    batches, requests, seconds : all that were measured
    """

    waiting: int = 0
    queued: int = 0
    running: int = 0
    batches: int = 0
    requests: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CascadeState(Snapshot):
    """A moment of a cascade.

    `now` is in seconds since it began; `requests` are the open ones.

    Examples
    --------
    >>> CascadeState(1.5, 0, (), {"small": StageState(waiting=2)}).as_dict()["stages"]["small"]
    {'waiting': 2, 'queued': 0, 'running': 0, 'batches': 0, 'requests': 0, 'seconds': 0.0}
    """

    requests: int
    units: tuple[UnitState, ...]
    stages: dict[str, StageState]


class CascadeEvent(NamedTuple):
    """An event of a cascade, with its time in seconds since the start."""

    time: float
    kind: str
    text: str


class CascadeFeed:
    """The changes of a cascade: passed to watchers, kept as events if with a text."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.events: deque[CascadeEvent] = deque(maxlen=EVENTS)
        self._clock = clock
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Add a watcher; return a function that removes it."""
        self._watchers = [*self._watchers, watcher]
        return lambda: self._drop(watcher)

    def _drop(self, watcher: Watcher) -> None:
        self._watchers = [other for other in self._watchers if other is not watcher]

    def publish(self, kind: str, /, **facts: Any) -> None:
        """Pass on a change."""
        now = self._clock()
        if "text" in facts:
            text = f"'{facts['unit']}': {facts['text']}" if "unit" in facts else facts["text"]
            self.events.append(CascadeEvent(now, kind, text))
            LOG.info("%s: %s", kind, text)
        for watcher in self._watchers:
            try:
                watcher({"time": now, "kind": kind, **facts})
            except Exception:  # a watcher must not stop the cascade
                LOG.exception("a watcher is not called again")
                self._drop(watcher)
