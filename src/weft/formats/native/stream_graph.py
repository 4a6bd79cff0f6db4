"""The graph of a stream file: tasks, loops, times and choices with their branches."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.formats.parsing.limits import check_cells
from weft.formats.parsing.record import Record
from weft.model import Workflow, WorkflowBuilder
from weft.model.conditional_stream import ProbabilityDrift
from weft.registry import closest

_CHANGE_KEYS = {
    "fixed": (),
    "steps": ("at",),
    "ramps": ("at",),
    "walk": ("spread", "low", "high"),
    "uniform": ("low", "high"),
}

MOST_ROUNDS = 100
"""Rounds of a task that repeats."""


def read_graph(
    record: Record, tasks: list[Record], title: str, units: dict[str, float]
) -> tuple[Workflow, list[ProbabilityDrift], list[int]]:
    """Return the workflow, the drift of each choice, and the watched choices."""
    builder = WorkflowBuilder(title)
    check_cells(len(tasks) * len(units), f"a table of {len(tasks)} tasks x {len(units)} units")
    output = {}
    for r in tasks:
        r.only(("name", "time", "then", "kind", "memory", "output", "repeat"))
        by_unit = _times(r, units)
        memory = r.quantity("memory", "bytes", 0.0)
        output[r.text("name")] = r.quantity("output", "bytes", 0.0)
        for name in _rounds(r):
            builder.task(
                name,
                work=max(by_unit.values()) if isinstance(r.raw("time"), dict) else _time(r),
                kind=r.text("kind", r.text("name")),
                memory=memory,
                durations=by_unit,
            )
    drift, watched = [], []
    for c, r in enumerate(record.children("choices") if "choices" in record else []):
        drift.append(_choice(r, builder, output, [t for t in tasks if "repeat" in t]))
        watched += [c] if r.flag("estimate", default=False) else []
    for r in tasks:
        drift += _repeat(r, builder, read_names(r, "then", []), output[r.text("name")])
    return builder.build(), drift, watched


def _rounds(r: Record) -> list[str]:
    """Return the names of the rounds of a task: its name, then name~2, name~3, ..."""
    name = r.text("name")
    most = 1
    if "repeat" in r:
        r.child("repeat").only(("most", "again"))
        most = r.child("repeat").count("most")
    if most > MOST_ROUNDS:
        raise InvalidInput(f"task '{name}' repeats {most} times; at most {MOST_ROUNDS} are read")
    return [name, *(f"{name}~{k}" for k in range(2, most + 1))]


def _repeat(
    r: Record, builder: WorkflowBuilder, then: list[str], output: float
) -> list[ProbabilityDrift]:
    """Add the edges of a task that always follow, and the choices between its rounds."""
    names, drift = _rounds(r), []
    for this, following in pairwise(names):
        again = r.child("repeat").quantity("again", "number")
        if not 0.0 <= again <= 1.0:
            raise InvalidInput(f"{r.path('repeat')}.again is {again:g}; it must be 0 to 1")
        builder.choice(this, {"again": again, "done": 1.0 - again})
        builder.edge(this, following, data=output, when="again")
        for target in then:
            builder.edge(this, target, data=output, when="done")
        drift.append(ProbabilityDrift("fixed", np.array([[again, 1.0 - again]])))
    for target in then:
        builder.edge(names[-1], target, data=output)
    return drift


def _times(r: Record, units: dict[str, float]) -> dict[str, float]:
    """Return the seconds of a task on each unit: given, or one time by coefficients."""
    if isinstance(r.raw("time"), dict):
        given = r.child("time")
        given.only(units)
        return {name: _time(given, name) for name in units}
    # In decimal: 10 ms at a coefficient of 0.8 is the number nearest to 0.008.
    seconds = Decimal(repr(_time(r)))
    return {name: float(seconds * Decimal(repr(factor))) for name, factor in units.items()}


def _time(r: Record, key: str = "time") -> float:
    seconds = r.quantity(key, "seconds")
    if not 0 <= seconds < np.inf:
        raise InvalidInput(f"{r.path(key)} is {seconds}; it must be a finite time, zero or more")
    return seconds


def _choice(
    r: Record, builder: WorkflowBuilder, output: dict[str, float], repeating: list[Record]
) -> ProbabilityDrift:
    """Add a choice and its edges; `output` has the bytes that each task gives."""
    known = list(output)
    change = r.text("change", "fixed")
    if change not in _CHANGE_KEYS:
        raise UnknownName(f"{r.path('change')} is '{change}'{closest(change, _CHANGE_KEYS)}")
    r.only(("task", "branches", "leads_to", "estimate", "change", *_CHANGE_KEYS[change]))
    task, branches = r.text("task"), _branches(r)
    if task in [t.text("name") for t in repeating]:
        raise InvalidInput(
            f"task '{task}' repeats, so it has no other choice; let a task after it choose"
        )
    leads_to = r.child("leads_to").content if "leads_to" in r else {}
    for label in leads_to:
        if label not in branches:
            raise UnknownName(
                f"{r.path('leads_to')} names the unknown branch '{label}'{closest(label, branches)}"
            )
    builder.choice(task, branches)
    for label in branches:
        if label not in leads_to and label not in known:
            raise UnknownName(
                f"branch '{label}' of task '{task}' is no task{closest(label, known)}; or name "
                "its target in leads_to"
            )
        for target in _targets(leads_to.get(label, [label]), f"{r.path('leads_to')}.{label}"):
            builder.edge(task, target, data=output.get(task, 0.0), when=label)
    rows, times = [list(branches.values())], [0.0]
    for i, entry in enumerate(read_list(r, "at", [])):
        step = Record(entry, f"{r.path('at')}[{i}]")
        step.only(("time", "branches"))
        share = _branches(step)
        if set(share) != set(branches):
            raise InvalidInput(
                f"{step.path('branches')} must have the branches {', '.join(branches)}"
            )
        rows.append([share[label] for label in branches])
        times.append(step.quantity("time", "seconds"))
    limits = r.quantities(dict.fromkeys(("spread", "low", "high"), "number"))
    return ProbabilityDrift(change, np.array(rows, float), np.array(times, float), **limits)


def _targets(value: object, where: str) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInput(f"{where} is {shown(value)}; it must be a list of tasks")
    return Record({where: value}).strings(where)


def _branches(r: Record) -> dict[str, float]:
    given = r.child("branches")
    share = {str(label): given.quantity(label, "number") for label in given.content}
    total = sum(share.values())
    if not share or not all(p >= 0 for p in share.values()) or abs(total - 1.0) > 1e-9:
        raise InvalidInput(
            f"{r.path('branches')}: the probabilities of {', '.join(share) or 'nothing'} add up to "
            f"{total:g}; they must add up to 1"
        )
    return share


def refuse_unreachable(workflow: Workflow, starts: list[str]) -> None:
    """Raise if no path leads from a start to a task."""
    names = [workflow.task_name(t) for t in range(workflow.n)]
    for start in starts:
        if start not in names:
            raise UnknownName(f"start names the unknown task '{start}'{closest(start, names)}")
    reached = [name in starts for name in names]
    for u in workflow.order.tolist():
        for v in workflow.dst[int(workflow.succ_ptr[u]) : int(workflow.succ_ptr[u + 1])].tolist():
            reached[v] = reached[v] or reached[u]
    lost = [name for name, here in zip(names, reached, strict=True) if not here]
    if lost:
        raise InvalidInput(
            f"task '{lost[0]}' is never reached from {', '.join(starts)}; lead to it with then or "
            "a branch, or add it to start"
        )
    for start in starts:
        if workflow.pred_ptr[names.index(start) + 1] > workflow.pred_ptr[names.index(start)]:
            raise InvalidInput(f"a job begins with task '{start}', so no other task may lead to it")


def read_list(r: Record, key: str, default: list[Any]) -> list[Any]:
    """Return a list."""
    value = r.raw(key, default)
    if not isinstance(value, list):
        raise InvalidInput(f"{r.path(key)} is {shown(value)}; it must be a list")
    return value


def read_names(r: Record, key: str, default: list[str]) -> list[str]:
    """Return names; one name may stand without a list."""
    value = r.raw(key, default)
    return [value] if isinstance(value, str) else r.strings(key, default)
