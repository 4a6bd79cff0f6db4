"""Costs that do not follow from workflow and cluster: measured ones, written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.binding import bind
from weft.formats.parsing.limits import check_cells
from weft.formats.parsing.record import Record
from weft.model import Problem
from weft.model.columns import floats, frozen, integers

COSTS = ("work", "row", "pace")


def encode_costs(problem: Problem) -> dict[str, Any]:
    """Return the costs of a problem, or nothing if binding it again gives the same."""
    again = bind(problem.workflow, problem.cluster)
    same = all(np.array_equal(getattr(problem, key), getattr(again, key)) for key in COSTS)
    return {} if same else {key: getattr(problem, key) for key in COSTS}


def decode_costs(r: Record, problem: Problem) -> Problem:
    """Return a problem with the costs of a record."""
    r.only(COSTS)
    n, p, pace = problem.n, problem.p, r.floats("pace", rank=2)
    check_cells(pace.size, f"{r.path('pace')}")
    work = floats(r.floats("work"), r.path("work"), shape=(n,))
    row = integers(r.integers("row"), r.path("row"), shape=(n,))
    if pace.ndim != 2 or pace.shape[1] != p:
        raise InvalidInput(f"{r.path('pace')} must have a column for each of the {p} devices")
    if n and not (int(row.min()) >= 0 and int(row.max()) < len(pace)):
        raise InvalidInput(f"{r.path('row')} must number the {len(pace)} rows of the pace, from 0")
    if not (np.isfinite(work).all() and (work >= 0).all()):
        raise InvalidInput(f"{r.path('work')} must be finite and not negative")
    if np.isnan(pace).any() or (pace < 0).any() or np.isinf(pace.min(axis=1)[row]).any():
        raise InvalidInput(
            f"{r.path('pace')} must not be negative, and finite on one device of each task"
        )
    return replace(
        problem, work=frozen(work), row=frozen(row), pace=frozen(np.ascontiguousarray(pace))
    )
