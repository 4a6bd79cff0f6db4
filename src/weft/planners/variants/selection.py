"""Choosing a variant for each task: local search, judged by quick plans.

A choice is a vector of variant numbers. The search begins with simple choices (the quickest, the
least use of capacities, the most accurate, the cheapest), made accurate enough. It then changes one
task, all tasks with the same variants, or two tasks at once, while HEFT's plan becomes shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.model.columns import FloatArray
from weft.model.variants import Variant, mean_accuracy, resolve, variants_by_task
from weft.planners.planner import PLANNERS, solve
from weft.planners.search.clock import Clock
from weft.rng import generator

EFFORT = 200
"""Choices that are planned without a time limit."""

Pick = tuple[int, ...]
"""The number of the chosen variant of each task that has some."""


@dataclass(frozen=True, eq=False)
class EvaluatedChoice:
    """A choice with its plan by HEFT."""

    pick: Pick
    problem: Problem
    schedule: Schedule
    cost: float
    energy: float
    accuracy: float

    @property
    def makespan(self) -> float:
        """End of the last task."""
        return self.schedule.makespan


@dataclass(eq=False)
class VariantChoices:
    """The choices of a problem with variants, under limits."""

    problem: Problem
    min_accuracy: float = -inf
    budget: float = inf
    seed: int = 0
    tried: dict[Pick, EvaluatedChoice | None] = field(default_factory=dict)

    @cached_property
    def ways(self) -> dict[int, tuple[Variant, ...]]:
        """Task -> its variants."""
        return variants_by_task(self.problem.workflow)

    def chosen(self, pick: Pick) -> dict[str, Variant]:
        """Return task name -> its variant."""
        name = self.problem.workflow.task_name
        return {name(t): ways[k] for (t, ways), k in zip(self.ways.items(), pick, strict=True)}

    def accurate(self, pick: Pick) -> bool:
        """Return whether the mean accuracy of a choice is high enough."""
        accuracy = mean_accuracy(self.chosen(pick))
        return isnan(accuracy) or accuracy >= self.min_accuracy - 1e-12

    def plan(self, pick: Pick) -> EvaluatedChoice | None:
        """Return a choice with its plan; None: it fits no device."""
        if pick not in self.tried:
            self.tried[pick] = self._plan(pick)
        return self.tried[pick]

    def _plan(self, pick: Pick) -> EvaluatedChoice | None:
        chosen = self.chosen(pick)
        try:
            problem = resolve(self.problem, chosen)
        except InvalidInput:
            return None
        schedule = solve(PLANNERS.create("heft"), problem).schedule
        span, c = schedule.makespan, problem.cluster
        cost = c.rent(span) + sum(v.cost for v in chosen.values())
        energy = c.energy(schedule.busy(problem.p), span)
        return EvaluatedChoice(pick, problem, schedule, cost, energy, mean_accuracy(chosen))

    def allowed(self, pick: Pick) -> EvaluatedChoice | None:
        """Plan a choice and return it; None if it breaks a limit."""
        found = self.plan(pick) if self.accurate(pick) else None
        return found if found is not None and found.cost <= self.budget * (1 + 1e-12) else None

    def starts(self) -> Iterator[Pick]:
        """Yield simple choices, raised to the least accuracy at little slowdown or cost."""
        scores_of: list[Any] = [self._seconds, self._use, self._accuracy, self._cost]
        for score in scores_of:
            scores = [[score(t, way) for way in ways] for t, ways in self.ways.items()]
            pick = tuple(row.index(min(row)) for row in scores)
            yield self._repaired(pick, _money if score == self._cost else self._seconds)

    def _repaired(self, pick: Pick, price: Callable[[int, Variant], float]) -> Pick:
        """Take more accurate variants, cheapest gain first, until the mean is high enough."""
        now = list(pick)
        while not self.accurate(tuple(now)):
            best, least = None, (inf, inf)
            for i, (t, ways) in enumerate(self.ways.items()):
                for k, way in enumerate(ways):
                    gain = way.accuracy - ways[now[i]].accuracy
                    if gain > 0:
                        more = (price(t, way) - price(t, ways[now[i]])) / gain
                        rank = (more, self._seconds(t, way))
                        if rank < least:
                            best, least = (i, k), rank
            if best is None:
                break
            now[best[0]] = best[1]
        return tuple(now)

    def neighbours(self, pick: Pick) -> list[Pick]:
        """Return the choices with another variant for one task, one group, or two tasks."""
        ways = list(self.ways.values())
        found: dict[Pick, None] = {}
        for i, own in enumerate(ways):
            for k in range(len(own)):
                if k != pick[i]:
                    found[(*pick[:i], k, *pick[i + 1 :])] = None
                    alike = zip(ways, pick, strict=True)
                    found[tuple(k if w is own else p for w, p in alike)] = None
        pairs = [(i, j) for i in range(len(ways)) for j in range(i) if pick[i] != pick[j]]
        for i, j in pairs[:200]:  # exchange the variants of two tasks, if both have these numbers
            if pick[j] < len(ways[i]) and pick[i] < len(ways[j]):
                other = list(pick)
                other[i], other[j] = pick[j], pick[i]
                found[tuple(other)] = None
        order = generator(self.seed, "variants").permutation(len(found))
        return [list(found)[k] for k in order.tolist()]

    def search(self, clock: Clock) -> list[EvaluatedChoice]:
        """Return the best choices found, the shortest first; refuse if there is none."""
        best = min(
            (x for pick in self.starts() if (x := self.allowed(pick)) is not None),
            key=lambda x: x.makespan,
            default=None,
        )
        if best is None:
            raise InvalidInput(self._why_none())
        improved = True
        while improved and self.goes_on(clock):
            improved = False
            for pick in self.neighbours(best.pick):
                other = self.allowed(pick)
                if other is not None and other.makespan < best.makespan * (1 - 1e-12):
                    best, improved = other, True
                    break
                if not self.goes_on(clock):
                    break
        found = [x for x in self.tried.values() if x is not None and self.allowed(x.pick)]
        return sorted(found, key=lambda x: x.makespan)

    def goes_on(self, clock: Clock, effort: int = EFFORT) -> bool:
        """Return whether there is time left or, without a limit, effort."""
        return len(self.tried) < effort if clock.seconds is None else clock.left() > 0.0

    def _why_none(self) -> str:
        picks = [*self.starts()]
        best = max((mean_accuracy(self.chosen(p)) for p in picks), default=-inf)
        if best < self.min_accuracy:
            return f"min_accuracy is {self.min_accuracy:g}; the variants reach {best:g} at most"
        costs = [x.cost for p in picks if (x := self.plan(p)) is not None]
        return (
            f"no choice of variants was found within the budget of {self.budget:g} and the "
            f"accuracy; the cheapest found costs {min(costs, default=inf):g}"
        )

    # -- scores of single variants ----------------------------------------------

    def _seconds(self, task: int, way: Variant) -> float:
        return float(way.on(self.problem, task).min())

    def _use(self, task: int, way: Variant) -> float:
        """Return the largest share of a capacity, times seconds."""
        whole = {k: float(v.sum()) for k, v in self.problem.cluster.capacity.items()}
        w = self.problem.workflow
        own = {
            "cores": w.cores[task] if way.cores is None else way.cores,
            "memory": w.memory[task] if way.memory is None else way.memory,
            **way.needs,
        }
        share = max((own[k] / whole[k] for k in own if whole.get(k, 0.0) > 0.0), default=1.0)
        return float(share) * self._seconds(task, way)

    def _accuracy(self, task: int, way: Variant) -> tuple[float, float]:
        return (inf if isnan(way.accuracy) else -way.accuracy, self._seconds(task, way))

    def _cost(self, task: int, way: Variant) -> tuple[float, float]:
        return (way.cost, self._seconds(task, way))


def _money(_: int, way: Variant) -> float:
    return way.cost


def least_of_all(problem: Problem, ways: Mapping[int, tuple[Variant, ...]]) -> Problem:
    """Return a problem that no choice beats: least seconds and needs of variants."""
    w = problem.workflow
    best: dict[str, Variant] = {}
    for t, own in ways.items():
        seconds: FloatArray = np.min([way.on(problem, t) for way in own], axis=0)
        names = dict.fromkeys(k for way in own for k in way.needs)
        given = {k: w.needs[k][t] if k in w.needs else 0.0 for k in names}
        able = np.isfinite(seconds)
        best[w.task_name(t)] = Variant(
            "least of all",
            seconds={problem.cluster.names[d]: float(seconds[d]) for d in np.flatnonzero(able)},
            cores=min(int(w.cores[t]) if v.cores is None else v.cores for v in own),
            memory=min(float(w.memory[t]) if v.memory is None else v.memory for v in own),
            needs={k: min(float(v.needs.get(k, given[k])) for v in own) for k in names},
        )
    return resolve(problem, best)
