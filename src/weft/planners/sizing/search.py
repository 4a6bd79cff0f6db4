"""Search among the clusters of a catalogue.

It plans all of them if they are few, else only neighbours of the front. A cluster is a count of
each offer. A lower bound on its makespan (the longest path and the area of all work) times its
price per second is a lower bound on its rent: where a planned cluster is as fast and as cheap as
these bounds, the cluster need not be planned. Large catalogues are searched locally: neighbours of
all clusters on the front are planned until none improves the front (Pareto local search, Paquete,
Chiarandini and Stuetzle 2004).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from os import PathLike
from typing import NamedTuple

import numpy as np

from weft.model import Problem
from weft.planners.bounds import lower_bound, path_bound, rounding_slack
from weft.planners.planner import Plan, Planner, plan
from weft.planners.sizing.offers import Offer
from weft.planners.whatif.changes import select_devices

ROUNDS = 30
"""Improvements of the weights of the area bound."""
REFINED = 60
"""Most clusters whose stronger bound is computed for the certificate."""

STEPS = 21
"""Most counts of one offer that are tried from a cluster on the front."""

Counts = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rental:
    """A cluster of the catalogue and its plan.

    Attributes
    ----------
    counts : how many of each offer
    seconds, cost : makespan, and rent of all its devices until the last task ends
    """

    counts: dict[str, int]
    plan: Plan = field(repr=False)
    seconds: float
    cost: float

    def __str__(self) -> str:
        return " + ".join(f"{n} {name}" for name, n in self.counts.items() if n)


class Limits(NamedTuple):
    """Lower bounds on makespan and rent of every schedule on a cluster."""

    seconds: float
    cost: float


@dataclass(eq=False)
class Search:
    """The clusters of a catalogue: which were planned, and which need not be.

    `front` has the planned ones that no other one beats, the fastest first.
    """

    problem: Problem
    offers: tuple[Offer, ...]
    planner: str | PathLike[str] | Planner
    seconds: float | None = None
    seed: int = 0
    front: list[Rental] = field(default_factory=list)
    planned: set[Counts] = field(default_factory=set)
    excluded: set[Counts] = field(default_factory=set)
    _limits: dict[Counts, Limits] = field(default_factory=dict)
    _paths: dict[tuple[bool, ...], float] = field(default_factory=dict)

    @property
    def clusters(self) -> int:
        """Number of clusters in the catalogue."""
        return prod(len(offer.units) + 1 for offer in self.offers) - 1

    def all_counts(self) -> list[Counts]:
        """Return all clusters, the empty one left out."""
        return list(product(*(range(len(o.units) + 1) for o in self.offers)))[1:]

    def enumerate(self) -> Iterator[Counts]:
        """Plan or exclude all clusters, the most promising first."""
        able = [c for c in self.all_counts() if self._possible(c)]
        for counts in sorted(able, key=lambda c: (prod(self.limits(c)), c)):
            self.visit(counts)
            yield counts

    def climb(self, most: int, deadline: float, budget: float) -> Iterator[Counts]:
        """Search from the front to its neighbours; make at most `most` plans.

        The rentals nearest to the deadline or the budget come first; without either, those with
        the widest gaps around them.
        """
        explored: set[Counts] = set()
        self._visit_all(self._starts(), most)
        while len(self.planned) < most:
            gap = self._gaps(deadline, budget)
            left = [r for r in self.front if tuple(r.counts.values()) not in explored]
            if not left:
                return
            counts = tuple(max(left, key=lambda r: gap[id(r)]).counts.values())
            explored.add(counts)
            self._visit_all(self._neighbours(counts), most)
            yield counts

    def visit(self, counts: Counts) -> None:
        """Plan a new cluster that may beat the planned ones and can run every task."""
        if counts in self.planned or counts in self.excluded or not self._possible(counts):
            return
        best = self.limits(counts)
        if self._beaten(best.seconds, best.cost):
            self.excluded.add(counts)
            return
        self.planned.add(counts)
        made = plan(self._on(counts), self.planner, seconds=self.seconds, seed=self.seed)
        if not self._beaten(made.makespan, made.cost):
            named = dict(zip((offer.name for offer in self.offers), counts, strict=True))
            new = Rental(named, made, made.makespan, made.cost)
            kept = [r for r in self.front if r.seconds < new.seconds or r.cost < new.cost]
            self.front = sorted([*kept, new], key=lambda r: r.seconds)

    def _beaten(self, seconds: float, cost: float) -> bool:
        return any(r.seconds <= seconds and r.cost <= cost for r in self.front)

    def _gaps(self, deadline: float, budget: float) -> dict[int, float]:
        """Return how worthwhile the neighbours of each rental on the front are."""
        front = self.front
        if np.isfinite(deadline):
            return {id(r): -_apart(r.seconds, deadline) for r in front}
        if np.isfinite(budget):
            return {id(r): -_apart(r.cost, budget) for r in front}
        ends = [0.0, *(r.seconds for r in front), np.inf]
        triples = zip(front, ends, ends[2:], strict=False)
        return {id(r): _apart(before, after) for r, before, after in triples}

    def limits(self, counts: Counts) -> Limits:
        """Return lower bounds on makespan and rent of a cluster."""
        if counts not in self._limits:
            seconds = max(self._path(counts), self._area(counts))
            self._limits[counts] = Limits(seconds, self._rate(counts) * seconds)
        return self._limits[counts]

    def cheapest_within(self, deadline: float) -> float:
        """Return a lower bound on the rent of schedules within a deadline; inf: none."""
        queue = [(self.limits(c).cost, False, c) for c in self.all_counts() if self._possible(c)]
        heapq.heapify(queue)
        refined = 0
        while queue:
            cost, sure, counts = heapq.heappop(queue)
            if self.limits(counts).seconds > deadline:
                continue
            if sure or refined == REFINED:
                return cost
            refined += 1
            seconds = max(lower_bound(self._on(counts)), self.limits(counts).seconds)
            if seconds <= deadline:
                heapq.heappush(queue, (self._rate(counts) * seconds, True, counts))
        return np.inf

    def fastest_within(self, budget: float) -> float:
        """Return a lower bound on the makespan of schedules within a budget; inf: none."""
        able = (self.limits(c) for c in self.all_counts() if self._possible(c))
        return min((b.seconds for b in able if b.cost <= budget), default=np.inf)

    # -- clusters ---------------------------------------------------------------

    def _on(self, counts: Counts) -> Problem:
        chosen = (u for o, n in zip(self.offers, counts, strict=True) for u in o.units[:n])
        return select_devices(self.problem, sorted(d for unit in chosen for d in unit))

    def _possible(self, counts: Counts) -> bool:
        """Return whether every task fits some device of a cluster."""
        return bool(np.isfinite(self._rows(counts).min(axis=1, initial=np.inf)).all())

    def _rate(self, counts: Counts) -> float:
        prices = zip(self.offers, counts, strict=True)
        return sum(offer.price * n for offer, n in prices) / 3600.0

    @cached_property
    def _work(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) all work of each row of the problem, and which rows have tasks."""
        rows = len(self.problem.per_work)
        total = np.bincount(self.problem.row, weights=self.problem.work, minlength=rows)
        return total, np.bincount(self.problem.row, minlength=rows) > 0

    def _rows(self, counts: Counts) -> np.ndarray:
        """Return per_work: (used rows, devices of one unit of each present offer)."""
        units = [o.units[0] for o, n in zip(self.offers, counts, strict=True) if n]
        devices = [d for unit in units for d in unit]
        return np.asarray(self.problem.per_work[self._work[1]][:, devices])

    def _path(self, counts: Counts) -> float:
        """Return the longest path with every task on its best device.

        It depends on the present offers, not on their counts.
        """
        present = tuple(n > 0 for n in counts)
        if present not in self._paths:
            self._paths[present] = path_bound(self._on(tuple(map(int, present))))
        return self._paths[present]

    def _area(self, counts: Counts) -> float:
        """Return a bound by all work on all devices, with divisible tasks.

        Weights of devices bound it from below.
        """
        per_work = self._rows(counts)
        total = self._work[0][self._work[1]]
        pairs = zip(self.offers, counts, strict=True)
        number = np.array([n for o, n in pairs if n for _ in o.units[0]], float)
        able = np.isfinite(per_work)
        seconds = (total[:, None] * np.where(able, per_work, 0.0)).sum(axis=0)
        done = (total[:, None] * able).sum(axis=0)
        weight = np.where(seconds > 0, done / np.maximum(seconds, 1e-300), 1.0)
        best, rounds = 0.0, ROUNDS if len(per_work) > 1 else 1
        for i in range(rounds):
            weight = weight / (weight * number).sum()
            scaled = per_work * weight
            at = scaled.argmin(axis=1)
            value = float((total * scaled[np.arange(len(total)), at]).sum())
            best = max(best, value)
            if value <= 0.0:
                break
            taken = total * per_work[np.arange(len(total)), at]
            load = np.bincount(at, weights=taken, minlength=len(weight)) / number
            weight = weight * np.exp(0.5 / np.sqrt(1 + i) * np.minimum(load / value - 1.0, 3.0))
        return best * rounding_slack(self.problem)

    # -- local search -----------------------------------------------------------

    def _visit_all(self, found: Iterable[Counts], most: int) -> None:
        for counts in found:
            if len(self.planned) >= most:
                return
            self.visit(counts)

    def _starts(self) -> Iterator[Counts]:
        """Yield all units, and units of one offer alone: one, two, four, ... and all."""
        top = tuple(len(o.units) for o in self.offers)
        yield top
        for i, n in enumerate(top):
            for k in [*(2**j for j in range(n.bit_length()) if 2**j < n), n]:
                yield tuple(k if j == i else 0 for j in range(len(top)))

    def _neighbours(self, counts: Counts) -> Iterator[Counts]:
        """Yield clusters with another count of one offer, or one unit exchanged."""
        for i, offer in enumerate(self.offers):
            top = len(offer.units)
            steps = np.unique(np.linspace(0, top, STEPS).round().astype(int)).tolist()
            for k in sorted({*steps, max(counts[i] - 1, 0), min(counts[i] + 1, top)}):
                made = (*counts[:i], k, *counts[i + 1 :])
                if any(made):
                    yield made
            if counts[i] < top:
                yield from self._swaps(counts, i)

    def _swaps(self, counts: Counts, i: int) -> Iterator[Counts]:
        for j, n in enumerate(counts):
            if j != i and n:
                yield tuple(c + (k == i) - (k == j) for k, c in enumerate(counts))


def _apart(one: float, other: float) -> float:
    """Return how many times one number is the other, as a logarithm without its sign."""
    return abs(float(np.log(max(one, 1e-300) / max(min(other, 1e300), 1e-300))))
