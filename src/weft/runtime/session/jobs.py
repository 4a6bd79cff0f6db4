"""The jobs of a session, with room for more."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Workload
from weft.model.columns import frozen

FAR = 1e300
"""Arrival of a job that may come, in seconds: policies wait for such jobs."""
COLUMNS = {"template": np.int64, "arrival": float, "deadline": float, "priority": float}
SPARE: dict[str, float] = {"template": 0, "arrival": FAR, "deadline": inf, "priority": 0.0}


@dataclass(frozen=True)
class Assignment:
    """Tasks that a device runs together, behind what it was assigned before.

    Attributes
    ----------
    tasks : (job, name of the task) of each
    copy : whether the task ran elsewhere already and runs again to have its data here
    """

    device: str
    tasks: tuple[tuple[int, str], ...]
    copy: bool = False


class SessionJobs:
    """Jobs by slot: the first ones have arrived, the others are room. Callers name them by number.

    Attributes
    ----------
    columns : of the workload, one entry per slot; arrivals are written into them
    numbers : of the jobs that arrived, by slot
    """

    def __init__(self, columns: dict[str, Any], numbers: list[int], following: int) -> None:
        self.columns, self.numbers, self.following = columns, numbers, following
        self._slots = {number: slot for slot, number in enumerate(numbers)}

    @classmethod
    def none(cls, room: int = 0) -> SessionJobs:
        """Return no jobs, with room for some."""
        return cls(_columns([SPARE] * room), [], 0)

    def __len__(self) -> int:
        return len(self.numbers)

    def workload(self, problems: list[Problem]) -> Workload:
        """Return the workload of these slots; later arrivals show in it."""
        shown: dict[str, Any] = {name: frozen(self.columns[name]) for name in COLUMNS}
        return Workload(tuple(problems), **shown)

    def fits(self, template: int) -> bool:
        """Return whether the next slot is for a job of a problem."""
        slots = self.columns["template"]
        return len(self) < len(slots) and int(slots[len(self)]) == template

    def enter(self, job: dict[str, float]) -> int:
        """Write a job into the next slot; return its number."""
        for name, value in job.items():
            self.columns[name][len(self)] = value
        number = self.following
        self._slots[number] = len(self)
        self.numbers.append(number)
        self.following += 1
        return number

    def slot(self, number: int) -> int:
        """Return the slot of a job."""
        if number not in self._slots:
            raise InvalidInput(f"job {number} is unknown, or ended long ago")
        return self._slots[number]

    def kept(self, slots: list[int], job: dict[str, float] | None, room: int) -> SessionJobs:
        """Return some of the jobs, with a slot for one more job and room for others like it."""
        more = [] if job is None else [job]
        spare = SPARE if job is None else {**SPARE, "template": job["template"]}
        added = _columns([*more, *[spare] * room])
        columns = {
            name: np.concatenate((self.columns[name][slots], added[name])) for name in COLUMNS
        }
        return SessionJobs(columns, [self.numbers[slot] for slot in slots], self.following)


def _columns(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}
