"""The branches that tasks took, as callers name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import InvalidInput
from weft.sim.lifecycle import Lifecycle

Branch = str | int
Outcome = Branch | Sequence[Branch | None] | Mapping[int, Branch] | None
"""The branch of a single task, a list with an entry per task, or a mapping from job to branch."""


def read_outcomes(
    life: Lifecycle, members: Sequence[int], jobs: Sequence[int], outcome: Outcome
) -> dict[int, int]:
    """Return the branch of each choice of the members of a group; `jobs` are their jobs."""
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
        each = list(branch) if isinstance(branch, tuple) else [branch] * len(choices)
        for c, one in zip(choices, each, strict=False):
            found[c] = _branch(life, i, job, c, one)
    return found


def _branch(life: Lifecycle, instance: int, job: int, choice: int, given: Branch | None) -> int:
    slot, task = life.place[instance]
    w, first = life.problem(instance).workflow, int(life.workload.first_choice[slot])
    span = w.choices.branches(choice - first)
    labels = w.choices.labels[span.start : span.stop]
    if isinstance(given, str) and given in labels:
        return labels.index(given)
    if isinstance(given, int) and 0 <= given < len(labels):
        return given
    raise InvalidInput(
        f"task '{w.task_name(task)}' of job {job} ended with {given!r}; "
        f"its branches are {', '.join(labels)}"
    )
