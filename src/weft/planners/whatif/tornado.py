"""`tornado`: which change of speeds or counts of devices saves most.

Every speed changes by the same share, every count of devices by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from os import PathLike
from typing import Any

import numpy as np

from weft.arguments import as_float, shown, whole
from weft.display import Printed
from weft.errors import InvalidInput
from weft.model import Problem
from weft.model.variants import refuse_variants
from weft.planners.planner import Plan, Planner, plan
from weft.planners.whatif.answer import WhatIf, whatif
from weft.planners.whatif.changes import (
    AddDevice,
    Bandwidth,
    Change,
    DeviceSpeed,
    Faster,
    RemoveDevice,
)
from weft.progress import Track
from weft.typed import typed

ChangePair = tuple[str, Change | None, Change | None]


@dataclass(frozen=True, eq=False)
class TornadoRow:
    """One change for the better and one for the worse; None where impossible."""

    what: str
    better: WhatIf | None
    worse: WhatIf | None

    @property
    def saved(self) -> float:
        """Seconds that the change for the better saves."""
        return self.better.saved if self.better is not None else 0.0

    @property
    def lost(self) -> float:
        """Seconds that the change for the worse loses."""
        return -self.worse.saved if self.worse is not None else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        sides = {"better": self.better, "worse": self.worse}
        made: dict[str, Any] = {"what": self.what, "saved": self.saved, "lost": self.lost}
        for side, answer in sides.items():
            made[side] = None if answer is None else str(answer.changes[0])
            made[f"{side}_makespan"] = None if answer is None else answer.after.makespan
            made[f"{side}_cost"] = None if answer is None else answer.after.cost
        return made


@dataclass(frozen=True, eq=False)
class Tornado(Printed):
    """Rows by seconds saved, the largest first."""

    before: Plan
    share: float
    rows: tuple[TornadoRow, ...] = field(repr=False)

    @property
    def sentence(self) -> str:
        """The change that would save most, in words."""
        best = self.rows[0].better if self.rows and self.rows[0].saved > 0 else None
        if best is None:
            return f"no single change shortens the {self.before.makespan:.4g} s of this plan."
        return best.sentence[0].upper() + best.sentence[1:]

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return the table as plain data, for JSON."""
        return {
            "sentence": self.sentence,
            "planner": self.before.planner,
            "makespan": self.before.makespan,
            "bound": self.before.bound,
            "cost": self.before.cost,
            "share": self.share,
            "rows": [row.as_dict() for row in self.rows],
        }


@typed
def tornado(
    problem: Problem,
    *,
    planner: str | PathLike[str] | Planner = "heft",
    share: float = 0.2,
    most: int = 12,
    track: Track = iter,
    seconds: float | None = None,
    seed: int = 0,
) -> Tornado:
    """Change each device kind, link and task kind, and each count of devices.

    Kinds and links change by a share, counts by one.

    Parameters
    ----------
    share : 0.2 makes everything 20 % faster and slower
    most : task kinds and pairs of device kinds to try, those with the most work first
    track : goes through the pairs of changes, for example `tqdm.tqdm`

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0], [2.0], [2.0]], devices=["cpu"])
    >>> [(row.what, round(row.saved, 2), round(row.lost, 2)) for row in tornado(problem).rows]
    [('one device', 2.0, 0.0), ('speed of device', 1.0, 1.5), ('tasks: task', 1.0, 1.5)]
    """
    refuse_variants(problem.workflow)
    if not 0 < as_float(share) < 1:
        raise InvalidInput(f"share is {shown(share)}; it must lie between 0 and 1")
    most = whole(most, "most", least=0)
    before = plan(problem, planner, seconds=seconds, seed=seed)

    def answer(change: Change | None) -> WhatIf | None:
        if change is None:
            return None
        return whatif(problem, change, planner=planner, seconds=seconds, seed=seed, before=before)

    rows = [
        TornadoRow(what, answer(better), answer(worse))
        for what, better, worse in track(_pairs(problem, share, most))
    ]
    return Tornado(before, share, tuple(sorted(rows, key=lambda r: (-r.saved, -r.lost))))


def _pairs(problem: Problem, share: float, most: int) -> list[ChangePair]:
    """Return what is changed, the change for the better and the one for the worse."""
    cluster, more, less = problem.cluster, 1 + share, 1 - share
    kinds = list(dict.fromkeys(cluster.kinds))
    made: list[ChangePair] = []
    for kind in kinds:
        fewer = RemoveDevice(kind) if _can_lose(problem, kind) else None
        made.append((f"one {kind}", AddDevice(kind), fewer))
    made += [(f"speed of {k}", DeviceSpeed(k, more), DeviceSpeed(k, less)) for k in kinds]
    for ends in _linked(problem)[:most]:
        what = f"links {ends[0]} - {ends[1]}"
        made.append((what, Bandwidth(more, ends), Bandwidth(less, ends)))
    w = problem.workflow
    shortest = problem.work * problem.best_per_work[problem.row]
    seconds = np.bincount(w.kind, weights=shortest, minlength=len(w.kinds))
    heavy = [int(k) for k in np.argsort(-seconds, kind="stable")[:most] if seconds[k] > 0]
    names = [w.kinds[k] for k in heavy]
    return made + [(f"tasks: {k}", Faster(k, more), Faster(k, less)) for k in names]


def _can_lose(problem: Problem, kind: str) -> bool:
    """Return whether every task fits some device without the last one of a kind."""
    cluster = problem.cluster
    last = cluster.p - 1 - cluster.kinds[::-1].index(kind)
    rest = np.delete(problem.per_work, last, axis=1)
    return cluster.p > 1 and bool(np.isfinite(rest.min(axis=1))[problem.row].all())


def _linked(problem: Problem) -> list[tuple[str, str]]:
    """Return the pairs of device kinds whose links take time, the slowest first."""
    if not problem.workflow.data.any():
        return []
    cluster = problem.cluster
    slowest: dict[tuple[str, str], float] = {}
    kinds = np.array(cluster.kinds)
    for one, other in combinations_with_replacement(dict.fromkeys(cluster.kinds), 2):
        cost = cluster.per_byte[np.ix_(kinds == one, kinds == other)].max()
        if cost > 0:
            slowest[one, other] = float(cost)
    return sorted(slowest, key=lambda ends: -slowest[ends])
