"""`whatif`: a changed problem, planned again, checked and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any
from weakref import WeakSet

import numpy as np

from weft.arguments import shown
from weft.display import Printed
from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.model.check import check
from weft.model.explain.quantities import format_seconds, list_text, share_text
from weft.model.variants import refuse_variants
from weft.planners.planner import Plan, Planner, plan
from weft.planners.replays import replayed
from weft.planners.whatif.changes import Change
from weft.planners.whatif.text import parse_change
from weft.typed import typed

_CHECKED: WeakSet[Plan] = WeakSet()
"""Plans that the oracle accepted."""


@dataclass(frozen=True, eq=False)
class WhatIf(Printed):
    """The answer: the plan before and after the changes.

    Attributes
    ----------
    after : the shorter one of a new plan and the old one on the changed problem
    kept : seconds of the old plan, same devices and order, on the changed problem; NaN where one of
        its devices is gone
    moved : names of the tasks that run on another device than before
    """

    changes: tuple[Change, ...]
    before: Plan
    after: Plan = field(repr=False)
    kept: float
    moved: tuple[str, ...]

    @property
    def saved(self) -> float:
        """Seconds by which the makespan becomes shorter; negative: longer."""
        return self.before.makespan - self.after.makespan

    @property
    def saved_cost(self) -> float:
        """Money by which the rent becomes less; negative: more."""
        return self.before.cost - self.after.cost

    @property
    def sentence(self) -> str:
        """The answer in plain English."""
        before, after = self.before.makespan, self.after.makespan
        head = f"with {list_text([c.words for c in self.changes])}, "
        if abs(self.saved) <= 1e-9 * before:
            head += f"nothing changes: the makespan stays {format_seconds(before)}"
        else:
            size, way = abs(self.saved), "less" if self.saved > 0 else "more"
            head += (
                f"the makespan is {format_seconds(after)} instead of {format_seconds(before)}: "
                f"{format_seconds(size)} ({share_text(size, before)}) {way}"
            )
        tail = f"{len(self.moved)} of {self.before.problem.n} tasks move"
        bound = format_seconds(self.after.bound)
        return f"{head}; no schedule is below {bound}. {tail}{self._rent()}."

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, for JSON."""
        return {
            "sentence": self.sentence,
            "changes": [str(change) for change in self.changes],
            "planner": self.after.planner,
            "before": _figures(self.before),
            "after": _figures(self.after),
            "kept": self.kept,
            "saved": self.saved,
            "saved_cost": self.saved_cost,
            "moved": list(self.moved),
        }

    def _rent(self) -> str:
        before, after = self.before.cost, self.after.cost
        if not before and not after:
            return ""
        return f"; the rent is {after:.4g} instead of {before:.4g}"


@typed
def whatif(
    problem: Problem,
    changes: Change | str | Sequence[Change | str],
    *,
    planner: str | PathLike[str] | Planner = "heft",
    seconds: float | None = None,
    seed: int = 0,
    before: Plan | None = None,
) -> WhatIf:
    """Plan a problem as it is and with changes; check both plans and compare them.

    Parameters
    ----------
    changes : values such as `AddDevice("A100")`, or their texts, such as "add 1xA100" (see
        `parse_change`); applied one after another
    before : the plan of the problem as it is, if there is one already

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0], [2.0], [2.0]], devices=["cpu"])
    >>> answer = whatif(problem, "add 1xdevice")
    >>> answer.saved, answer.moved
    (2.0, ('t1',))
    >>> answer.sentence.partition(":")[0]
    'with 1 more device, the makespan is 4 s instead of 6 s'
    """
    refuse_variants(problem.workflow)
    wanted = read_changes(changes)
    first = before or plan(problem, planner, seconds=seconds, seed=seed)
    if first.problem is not problem:
        raise InvalidInput("before is a plan of another problem")
    changed = problem
    for change in wanted:
        changed = change.apply(changed)
    again = plan(changed, planner, seconds=seconds, seed=seed)
    old = _replayed(first, changed)
    after = again if old is None or again.makespan <= old.makespan else old
    for made in (first, after):
        refuse_invalid(made)
    kept = float("nan") if old is None else old.makespan
    return WhatIf(wanted, first, after, kept, _moved(first, after))


def refuse_invalid(made: Plan) -> None:
    """Raise `InvalidInput` for a plan that breaks a rule; each plan is checked once."""
    if made in _CHECKED:
        return
    wrong = check(made.problem, made.schedule)
    if wrong:
        raise InvalidInput(f"planner '{made.planner}' made an invalid plan: {wrong[0]}")
    _CHECKED.add(made)


def read_changes(changes: Change | str | Sequence[Change | str]) -> tuple[Change, ...]:
    """Return a tuple of changes from one or several, as values or texts."""
    several = isinstance(changes, Sequence) and not isinstance(changes, str)
    listed: Any = changes if several else [changes]
    if not listed:
        raise InvalidInput("no change is given; give at least one change, such as 'add 1xA100'")
    for change in listed:
        if not isinstance(change, str) and not callable(getattr(change, "apply", None)):
            raise InvalidInput(
                f"a change is {shown(change)}; give a text such as 'add 1xA100', or a value "
                "such as AddDevice('A100')"
            )
    return tuple(parse_change(c) if isinstance(c, str) else c for c in listed)


def _replayed(made: Plan, changed: Problem) -> Plan | None:
    """Return the plan, devices and order kept, on another problem; None: impossible."""
    number = {name: d for d, name in enumerate(changed.cluster.names)}
    at = np.array([number.get(name, -1) for name in made.problem.cluster.names], np.int64)
    old, batches = made.schedule, bool((changed.cluster.batch > 1).any())
    if (at[old.device] < 0).any() or batches or made.problem.workflow.conditional:
        return None
    moved = Schedule.of(
        task=old.task, device=at[old.device], start=old.start, finish=old.finish, copy=old.copy
    )
    return Plan(changed, replayed(changed, moved), made.planner, 0.0)


def _moved(before: Plan, after: Plan) -> tuple[str, ...]:
    places = []
    for made in (before, after):
        s, names = made.schedule, np.array(made.problem.cluster.names)
        places.append(names[s.device[~s.copy]])
    workflow = before.problem.workflow
    return tuple(workflow.task_name(t) for t in np.flatnonzero(places[0] != places[1]).tolist())


def _figures(made: Plan) -> dict[str, float]:
    keys = ("makespan", "bound", "gap", "energy", "cost")
    return {key: getattr(made, key) for key in keys} | {"devices": made.problem.p}
