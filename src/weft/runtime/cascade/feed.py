"""Changes of a cascade while it runs, for pages and other programs that follow it.

`Cascade.state()` is what goes on now; `Cascade.watch(f)` calls `f` with every change after it, a
document that JSON can hold::

    {"time": 3.21, "kind": "batch", "unit": "one", "stage": "large", "jobs": [8]}
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

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


class CascadeEvent(NamedTuple):
    """An event of a cascade, with its time in seconds since the start."""

    time: float
    kind: str
    text: str


class CascadeFeed:
    """Passes changes on to watchers, and keeps those with a text as events."""

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

    def tell(self, kind: str, /, **facts: Any) -> None:
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
