"""The verdict on a schedule, contenders at equal time, and better records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.experiments.arena.attack import makespan
from weft.experiments.arena.library import ArenaInstance
from weft.model import Schedule
from weft.model.check import check
from weft.planners.bounds import lower_bound
from weft.planners.planner import EXACT, plan
from weft.progress import Track
from weft.runtime.deciders.contender import load_contender


@dataclass(frozen=True)
class Verdict:
    """A valid schedule of an instance beside the best known one.

    `bound` is computed again for the problem; `gap` is the distance from it.
    """

    instance: str
    makespan: float
    best: float
    by: str
    bound: float
    verdict: str

    @property
    def gap(self) -> float:
        """Relative distance from the bound."""
        return self.makespan / self.bound - 1


def judge(instance: ArenaInstance, schedule: Schedule) -> Verdict:
    """Check a schedule and compare it with the best known makespan and the bound."""
    problem = instance.problem()
    wrong = check(problem, schedule)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InvalidInput(f"no valid schedule of '{instance.name}': {wrong[0]}{more}")
    bound = lower_bound(problem, copies=schedule.copies > 0)
    if not schedule.copies:
        bound = max(bound, instance.bound)
    ratio = schedule.makespan / instance.best
    if schedule.makespan < bound * (1 - EXACT):
        text = "below the bound: the bound is wrong, please report it"
    elif ratio < 1 - EXACT:
        text = f"a new record: {1 - ratio:.2%} below the best known"
        text += " (with copies, which the best known has not)" if schedule.copies else ""
    elif ratio <= 1 + EXACT:
        text = "equal to the best known"
    else:
        text = f"{ratio - 1:.2%} above the best known"
    return Verdict(instance.name, schedule.makespan, instance.best, instance.by, bound, text)


def contend(
    names: Sequence[str],
    instances: Sequence[ArenaInstance],
    *,
    seconds: float,
    seed: int = 0,
    track: Track = iter,
) -> list[dict[str, Any]]:
    """Return one row per contender: makespan over best known, time per instance.

    Makespans are grouped by the origin of the instances.

    Every planner that searches has the same time limit; a policy decides without one. All have the
    exact durations.
    """
    contenders = [load_contender(name) for name in names]
    problems = [instance.problem() for instance in instances]
    for contender in contenders:  # compile, or read the cache, before the clock starts
        makespan(problems[0], contender, seconds=seconds, seed=seed)
    rows = []
    for contender in track(contenders):
        begin = time.perf_counter()
        own = [makespan(problem, contender, seconds=seconds, seed=seed) for problem in problems]
        spent = (time.perf_counter() - begin) / len(problems)
        ratios = np.array([m / i.best for m, i in zip(own, instances, strict=True)])
        row: dict[str, Any] = {"contender": contender.name}
        for origin in dict.fromkeys(i.origin for i in instances):
            chosen = ratios[[i.origin == origin for i in instances]]
            row[origin] = float(np.exp(np.log(chosen).mean()))
        row |= {"worst": float(ratios.max()), "best_known": int((ratios <= 1 + EXACT).sum())}
        rows.append({**row, "seconds": spent})
    return sorted(rows, key=lambda row: tuple(row.values())[1:])


def improve(instance: ArenaInstance, *, seconds: float, seed: int = 0) -> ArenaInstance:
    """Search a shorter schedule and a higher bound; keep the better ones."""
    problem = instance.problem()
    made = [plan(problem, name, seconds=seconds, seed=seed) for name in ("anytime", "exact")]
    found = instance
    for each in made:
        if check(problem, each):
            raise InvalidInput(f"'{each.planner}' made no valid schedule of '{instance.name}'")
        if each.makespan < found.best * (1 - EXACT) and not each.schedule.copies:
            found = replace(found, best=each.makespan, by=each.planner)
    own = lower_bound(problem)
    for bound, proof in ((own, "bounds"), (made[1].proved, "exact")):
        if bound > found.bound * (1 + EXACT):
            found = replace(found, bound=bound, proof=proof)
    return found


def certify(instance: ArenaInstance, *, seconds: float, seed: int = 0) -> dict[str, Any]:
    """Check the record and the bound of an instance again, from the problem alone.

    A bound is computed again; a proof by the exact planner is repeated within the time limit. The
    best known makespan is reached if a search finds a schedule that short and the oracle accepts
    it.
    """
    problem, proved = instance.problem(), instance.proof == "exact"
    bound = lower_bound(problem)
    search = [plan(problem, "anytime", seconds=seconds, seed=seed)]
    if proved and bound < instance.bound * (1 - EXACT):
        search.append(plan(problem, "exact", seconds=seconds, seed=seed))
        bound = max(bound, search[1].proved)
    valid = [each.makespan for each in search if not check(problem, each)]
    reached = min(valid, default=np.inf)
    return {
        "instance": instance.name,
        "best": instance.best,
        "reached": reached,
        "record": "reached" if reached <= instance.best * (1 + EXACT) else "not reached",
        "bound": instance.bound,
        "again": bound,
        "certificate": "holds" if bound >= instance.bound * (1 - EXACT) else "not repeated",
    }
