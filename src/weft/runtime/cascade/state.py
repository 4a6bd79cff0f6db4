"""A moment of a cascade: what units do, and what waits at which stage; for live pages.

`Cascade.state` returns it. `as_dict` is plain data for JSON: every stream of live pages sends it
once per second, so a page that missed some needs only the newest.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.runtime.status import Snapshot


@dataclass(frozen=True)
class UnitState:
    """What a unit does: `task` is empty while it is idle; `batch` is 0 while it loads a stage.

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
    """Requests at a stage, and what it has done so far.

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
    """A moment of a cascade; `now` in seconds since it began, `requests` are those that are open.

    Examples
    --------
    >>> CascadeState(1.5, 0, (), {"small": StageState(waiting=2)}).as_dict()["stages"]["small"]
    {'waiting': 2, 'queued': 0, 'running': 0, 'batches': 0, 'requests': 0, 'seconds': 0.0}
    """

    requests: int
    units: tuple[UnitState, ...]
    stages: dict[str, StageState]
