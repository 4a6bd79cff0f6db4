"""The jobs of a session, their workflows, and the branches that tasks took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow, Workload
from weft.model.columns import frozen
from weft.model.conditional_stream import ConditionalStream
from weft.runtime.session.file import encoded
from weft.sim.lifecycle import Lifecycle

FAR = 1e300
"""Arrival of a job that may come, in seconds: policies wait for such jobs."""
COLUMNS = {"template": np.int64, "arrival": float, "deadline": float, "priority": float}
SPARE: dict[str, float] = {"template": 0, "arrival": FAR, "deadline": inf, "priority": 0.0}

Branch = str | int
JobOutcome = Branch | Sequence[Branch | None] | Mapping[int, Branch] | None
"""The branch of a single task, a list with an entry per task, or a mapping from job to branch."""


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
    """Jobs by slot: the first ones have arrived, the others are room.

    Callers name jobs by number.

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

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    def slot(self, number: int) -> int:
        """Return the slot of a job."""
        if number not in self:
            raise InvalidInput(f"job {number} is unknown, or ended long ago")
        return self._slots[number]

    def kept(self, slots: list[int], job: dict[str, float] | None, room: int) -> SessionJobs:
        """Return some of the jobs, with a slot for one more and room for others like it."""
        more = [] if job is None else [job]
        spare = SPARE if job is None else {**SPARE, "template": job["template"]}
        added = _columns([*more, *[spare] * room])
        columns = {
            name: np.concatenate((self.columns[name][slots], added[name])) for name in COLUMNS
        }
        return SessionJobs(columns, [self.numbers[slot] for slot in slots], self.following)


def _columns(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}


# -- workflows ----------------------------------------------------------------


def bound(workflow: Workflow | Problem, cluster: Cluster) -> Problem:
    """Return the problem of a workflow on the cluster of the session."""
    if not isinstance(workflow, Problem):
        return Problem.bind(workflow, cluster)
    if workflow.cluster.names != cluster.names:
        raise InvalidInput(
            f"problem '{workflow.name}' has the devices {', '.join(workflow.cluster.names)}, the "
            f"session {', '.join(cluster.names)}; bind its workflow to the session's cluster"
        )
    return workflow


def template_of(workflow: Workflow | Problem, problems: list[Problem], cluster: Cluster) -> int:
    """Return the number of a workflow among the problems; a new one is added to them."""
    graph = workflow if isinstance(workflow, Workflow) else workflow.workflow
    for number, known in enumerate(problems):
        if graph is known.workflow:
            return number
    same = [encoded(graph) == encoded(known.workflow) for known in problems]
    if any(same):
        return same.index(True)
    problem = bound(workflow, cluster)
    Workload.of([*problems[:1], problem])  # refuses other links, nodes and capacities
    problems.append(problem)
    return len(problems) - 1


def require_alike(stream: ConditionalStream, problems: list[Problem], cluster: Cluster) -> None:
    """Raise unless a stream has the tasks, edges, branches and units of the session."""
    new = stream.problem
    if (
        not problems
        or new.cluster.names != cluster.names
        or _shape(problems[0].workflow) != _shape(new.workflow)
    ):
        raise InvalidInput(
            f"stream '{stream.name}' has other tasks or units than the session; "
            "only times, probabilities and arrivals may differ"
        )


def _shape(workflow: Workflow) -> tuple[object, ...]:
    ends = (workflow.src.tolist(), workflow.dst.tolist())
    return workflow.task_names, *ends, list(workflow.choices.labels)


# -- branches -----------------------------------------------------------------


def read_outcomes(
    life: Lifecycle, members: Sequence[int], jobs: Sequence[int], outcome: JobOutcome
) -> dict[int, int]:
    """Return the branch of each choice of a group's members; `jobs` are their jobs."""
    given: list[Any]
    if isinstance(outcome, Mapping):
        given = [outcome.get(job) for job in jobs]
    elif outcome is None or isinstance(outcome, str | int):
        given = [outcome] * len(members)
    else:
        given = list(outcome)
    if len(given) != len(members):
        raise InvalidInput(f"{len(given)} outcomes are given for {len(members)} tasks")
    found: dict[int, int] = {}
    for i, job, branch in zip(members, jobs, given, strict=True):
        choices = life.choices_of(i)
        each = branch if isinstance(branch, tuple) else [branch] * len(choices)
        for c, one in zip_longest(choices, each[: len(choices)]):  # None where one is missing
            found[c] = _branch(life, i, job, c, one)
    return found


def _branch(life: Lifecycle, instance: int, job: int, choice: int, given: Branch | None) -> int:
    slot, task = life.place[instance]
    w, first = life.problem(instance).workflow, int(life.workload.first_choice[slot])
    labels = [w.choices.labels[b] for b in w.choices.branches(choice - first)]
    if isinstance(given, str) and given in labels:
        return labels.index(given)
    if isinstance(given, int) and 0 <= given < len(labels):
        return given
    raise InvalidInput(
        f"task '{w.task_name(task)}' of job {job} ended with {given!r}; "
        f"its branches are {', '.join(labels)}"
    )
