"""The state of a device: its queue, its running group, commands and executions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf, nan
from typing import NamedTuple


@dataclass(eq=False, slots=True)
class Group:
    """Instances that run together on a device."""

    members: list[int]
    device: int
    decided: float
    copy: bool = False
    copied: int = -1
    """The parent of which a copy goes ahead of it; -1: none."""
    batch: int = -1
    start: float = nan
    expected: float = nan
    """When it is expected to finish."""
    setup: float = 0.0
    """Seconds of set-up at its start."""


@dataclass(frozen=True)
class Start:
    """A command: run this group on its device, now."""

    group: Group


@dataclass(frozen=True)
class Wake:
    """A command: look at this device again at that time."""

    device: int
    at: float


class Execution(NamedTuple):
    """One row of the trace to be."""

    instance: int
    device: int
    decided: float
    start: float
    finish: float
    status: int
    batch: int
    copy: bool


@dataclass
class Machine:
    """A device at work."""

    pace: float = 1.0
    blocked_until: float = -inf
    running: Group | None = None
    queue: deque[Group] = field(default_factory=deque)
    last_kind: int = -1
    """Kind of the group it started last; -1 before the first."""
