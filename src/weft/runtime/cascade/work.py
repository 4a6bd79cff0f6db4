"""Batches on units: what a unit runs, and what is tried again one by one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

from weft.runtime.cascade.feed import UnitState
from weft.runtime.cascade.request import Request
from weft.runtime.session.jobs import Assignment


@dataclass(eq=False)
class Run:
    """One call of a stage; without requests it only loads the stage."""

    task: str
    requests: list[Request]
    number: int = -1
    begun: float = inf
    limit: float = inf
    """Time at which its unit is killed."""
    late: bool = False


@dataclass(eq=False)
class Work:
    """An assignment, and the runs that are left of it."""

    assignment: Assignment
    members: list[tuple[Request, str]]
    runs: deque[Run]

    @classmethod
    def of(cls, assignment: Assignment, members: list[tuple[Request, str]]) -> Work:
        """Return an assignment as runs: a batch per task, suspicious requests alone."""
        due = [(r, task) for r, task in members if not r.over and task not in r.results]
        tasks = dict.fromkeys(task for _, task in due)
        batches = [Run(task, [r for r, t in due if t == task and not r.alone]) for task in tasks]
        alone = [Run(task, [r]) for r, task in due if r.alone]
        return cls(assignment, members, deque([*(b for b in batches if b.requests), *alone]))


@dataclass(eq=False)
class CascadeUnit:
    """A unit: its work in order, and the run that its process has.

    Attributes
    ----------
    deaths : processes in a row that died while they loaded, without a batch served between
    out : why it takes no work any more; empty: it does, now or once it is up
    """

    name: str
    kind: str
    index: int
    works: deque[Work] = field(default_factory=deque)
    current: Run | None = None
    loading: deque[Run] = field(default_factory=deque)
    up: bool = False
    deaths: int = 0
    out: str = ""

    def state(self) -> UnitState:
        """Return what the unit does now."""
        run = self.current
        busy = run is not None and bool(run.requests)
        return UnitState(
            self.name,
            self.kind,
            self.up,
            run.task if run is not None else "",
            len(run.requests) if run is not None else 0,
            run.begun if run is not None and busy else None,
            sum(len(work.runs) for work in list(self.works)),
        )

    def following(self) -> Run | None:
        """Return the next run, without ended requests; None if the first work is done."""
        if self.loading:
            return self.loading.popleft()
        while self.works and self.works[0].runs:
            run = self.works[0].runs.popleft()
            run.requests = [request for request in run.requests if not request.over]
            if run.requests:
                return run
        return None
