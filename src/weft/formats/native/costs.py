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

COSTS = {"work": "work", "row": "row", "pace": "per_work"}
"""Key of files -> column of a problem."""


def encode_costs(problem: Problem) -> dict[str, Any]:
    """Return the costs of a problem, or nothing if binding it again gives the same."""
    again = bind(problem.workflow, problem.cluster)
    given = {key: getattr(problem, column) for key, column in COSTS.items()}
    same = all(np.array_equal(given[key], getattr(again, COSTS[key])) for key in COSTS)
    return {} if same else given


def decode_costs(r: Record, problem: Problem) -> Problem:
    """Return a problem with the costs of a record."""
    r.only(tuple(COSTS))
    n, p, per_work = problem.n, problem.p, r.floats("pace", rank=2)
    check_cells(per_work.size, r.path("pace"))
    work = floats(r.floats("work"), r.path("work"), shape=(n,))
    row = integers(r.integers("row"), r.path("row"), shape=(n,))
    if per_work.ndim != 2 or per_work.shape[1] != p:
        raise InvalidInput(f"{r.path('pace')} must have a column for each of the {p} devices")
    if n and not (int(row.min()) >= 0 and int(row.max()) < len(per_work)):
        raise InvalidInput(
            f"{r.path('row')} must number the {len(per_work)} rows of the pace, from 0"
        )
    if not (np.isfinite(work).all() and (work >= 0).all()):
        raise InvalidInput(f"{r.path('work')} must be finite and not negative")
    if (
        np.isnan(per_work).any()
        or (per_work < 0).any()
        or np.isinf(per_work.min(axis=1)[row]).any()
    ):
        raise InvalidInput(
            f"{r.path('pace')} must not be negative, and finite on one device of each task"
        )
    return replace(
        problem, work=frozen(work), row=frozen(row), per_work=frozen(np.ascontiguousarray(per_work))
    )
