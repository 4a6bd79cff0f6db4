"""Tuning the index of `policies/conditional/rules.py` by evolution: the whole loop in one file.

Separable CMA-ES (Ros and Hansen 2008): a normal distribution with one variance a weight, moved towards the better half of each
generation. Every candidate of a generation plays the same jobs; the next generation plays new ones, so that nothing is learned by
heart. What is minimised is the mean, over the probabilities, of log(mean job completion time / that of a reference rule).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.rules import FEATURES, ConditionalRule
from weft.rng import generator
from weft.sim.vector.batch import StepBatch, StepOptions

OWN = ("one", "queue", "estimate")
"""Features with weights for each kind."""
REFERENCE = "shortest-remaining"
VALIDATION = 10_000_000
"""Draws for comparing means of generations begin here; those of the generations stay far below."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the loop can be told.

    Parameters
    ----------
    generations, population : how many, and candidates in each
    sigma : first standard deviation of the weights
    draws : futures for each probability and generation; `jobs` in each
    every : generations between validations, each over `validation` futures for each probability
    """

    generations: int = 300
    population: int = 24
    sigma: float = 0.3
    draws: int = 2
    jobs: int = 2000
    every: int = 10
    validation: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("generations", "draws", "jobs", "every", "validation"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"index search: {name} is {getattr(self, name)}; it must be 1 or more"
                )
        if self.population < 4 or not self.sigma > 0:
            raise InvalidInput(
                f"index search: population is {self.population} and sigma {self.sigma}; they must be 4 or more, and above 0"
            )


@dataclass
class Found:
    """The best weights by validation, and how the search went."""

    weights: FloatArray
    score: float
    curve: list[dict[str, float]]
    search: Search

    def record(self) -> dict[str, object]:
        """Plain values, to be kept beside the weights."""
        return {
            "method": "separable CMA-ES",
            "score": self.score,
            **asdict(self.search),
            "curve": self.curve,
        }


class Ties:
    """Few numbers for many weights: kinds of like tasks share all weights but those of `OWN`."""

    def __init__(self, fleet: StepBatch) -> None:
        sim, desk = fleet.tables.sim, fleet.tables.state
        kind = sim.task["kind"][:-1]
        times = [tuple(desk.duration[kind == k].max(axis=0)) for k in range(fleet.kinds)]
        alike = np.array([list(dict.fromkeys(times)).index(t) for t in times])
        groups, shared = int(desk.group.max()) + 1, int(alike.max()) + 1
        self.place = np.zeros((groups, fleet.kinds, len(FEATURES)), np.int64)
        at = 0
        for f, name in enumerate(FEATURES):
            width = fleet.kinds if name in OWN else shared
            self.place[:, :, f] = (
                at
                + np.arange(groups)[:, None] * width
                + (np.arange(fleet.kinds) if name in OWN else alike)[None, :]
            )
            at += groups * width
        self.size = at

    def expand(self, numbers: FloatArray) -> FloatArray:
        """Weights of the index."""
        weights: FloatArray = numbers[self.place]
        return weights

    def gather(self, weights: FloatArray) -> FloatArray:
        """The numbers of weights: the mean of those that are tied."""
        flat = self.place.reshape(-1)
        count = np.bincount(flat, minlength=self.size)
        numbers: FloatArray = (
            np.bincount(flat, weights=weights.reshape(-1), minlength=self.size) / count
        )
        return numbers


class IndexTrial:
    """Plays rules on the same futures of several variants of a stream (one for each probability, say)."""

    def __init__(
        self, variants: Sequence[ConditionalStream], draws: int, options: StepOptions
    ) -> None:
        self.variants, self.draws = list(variants), draws
        self.fleet = StepBatch(variants[0], len(self.variants) * draws, options)
        self._futures: list[tuple[FloatArray, np.ndarray]] = []
        self._reference = np.zeros(len(self.variants))

    def prepare(self, seed: int) -> None:
        """Draw the futures, and let the reference play them."""
        self._futures = [
            variant.draw_ticks(seed + i) for variant in self.variants for i in range(self.draws)
        ]
        self._reference = np.log(self.times(ConditionalRule(REFERENCE)))

    def times(self, rule: ConditionalRule) -> FloatArray:
        """(variants,) mean job completion time in seconds."""
        for s, future in enumerate(self._futures):
            self.fleet.place(s, *future)
        rule.play(self.fleet)
        mean = np.array([self.fleet.jct(s).mean() for s in range(self.fleet.size)])
        each: FloatArray = mean.reshape(len(self.variants), self.draws).mean(axis=1)
        return each

    def score(self, weights: FloatArray) -> float:
        """Mean log of the time relative to the reference: lower is better."""
        return float(
            (np.log(self.times(ConditionalRule("index", weights))) - self._reference).mean()
        )


def first_weights(fleet: StepBatch) -> FloatArray:
    """A start that works: tasks with little left to do first, full batches first."""
    sim, desk = fleet.tables.sim, fleet.tables.state
    quickest = desk.duration.min(axis=1)
    remaining = np.zeros(len(quickest))
    for t in desk.order[::-1].tolist():
        after = [
            float(remaining[sim.edge["target"][e]])
            for e in range(int(sim.task["succ"][t]), int(sim.task["succ"][t + 1]))
        ]
        remaining[t] = quickest[t] + (sum(after) / len(after) if after else 0.0)
    weights = np.zeros((int(desk.group.max()) + 1, fleet.kinds, len(FEATURES)))
    shortest = max(float(remaining.min()), 1e-12)
    for t, kind in enumerate(sim.task["kind"][:-1].tolist()):
        weights[:, kind, 0] = 1.2 - 0.4 * math.log(max(float(remaining[t]), shortest) / shortest)
    for d, group in enumerate(desk.group.tolist()):
        weights[group, :, 1] = 1.0 if sim.device["batch"][0, d] > 1 else 0.0
    return weights


def search_index(
    variants: Sequence[ConditionalStream],
    search: Search | None = None,
    *,
    options: StepOptions | None = None,
    start: FloatArray | None = None,
    report: Callable[[dict[str, float]], None] = lambda row: None,  # noqa: ARG005
) -> Found:
    """Tune the index for variants of a stream that differ in arrivals and probabilities only; the same seed gives the same weights."""
    search, options = search or Search(), options or StepOptions()
    short = [variant.with_jobs(search.jobs) for variant in variants]
    trial, judge = (
        IndexTrial(short, search.draws, options),
        IndexTrial(short, search.validation, options),
    )
    judge.prepare(VALIDATION)
    weights = first_weights(trial.fleet) if start is None else start
    ties = Ties(trial.fleet)
    evolution = Evolution(ties.gather(weights), population=search.population, sigma=search.sigma)
    best = Found(weights, judge.score(weights), [], search)
    rng = generator(search.seed, "index_search")
    for generation in range(1, search.generations + 1):
        trial.prepare(
            1_000_000 + search.seed * 7919 * search.generations + generation * search.draws
        )
        steps = rng.standard_normal((search.population, ties.size))
        scores = np.array(
            [trial.score(ties.expand(candidate)) for candidate in evolution.spread(steps)]
        )
        evolution.move(steps[np.argsort(scores, kind="stable")])
        if generation % search.every == 0 or generation == search.generations:
            weights = ties.expand(evolution.mean)
            value = judge.score(weights)
            row = {
                "generation": float(generation),
                "validation": value,
                "best": float(scores.min()),
                "sigma": evolution.sigma,
            }
            best.curve.append(row)
            report(row)
            if value < best.score:
                best.weights, best.score = weights, value
    return best


class Evolution:
    """The distribution: mean, step size and one variance a weight, with their paths (Hansen 2016, tutorial; rates for separable CMA-ES)."""

    def __init__(self, mean: FloatArray, *, population: int, sigma: float) -> None:
        n, parents = len(mean), population // 2
        weights = math.log(population / 2 + 0.5) - np.log(np.arange(1, parents + 1))
        self.weights: FloatArray = weights / weights.sum()
        self.mean, self.sigma = mean.copy(), sigma
        self.variance, self.path, self.step_path = np.ones(n), np.zeros(n), np.zeros(n)
        mass = 1.0 / float((self.weights**2).sum())
        self.mass = mass
        self.step_rate = (mass + 2) / (n + mass + 5)
        self.damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + self.step_rate
        self.path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        faster = (n + 2) / 3  # one variance a weight is learned so much faster than a full matrix
        self.one_rate = min(0.5, faster * 2 / ((n + 1.3) ** 2 + mass))
        self.many_rate = min(0.5, faster * 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self.expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.age = 0

    def spread(self, steps: FloatArray) -> FloatArray:
        """Candidates for standard normal steps."""
        candidates: FloatArray = self.mean + self.sigma * np.sqrt(self.variance) * steps
        return candidates

    def move(self, ranked: FloatArray) -> None:
        """Take in the steps of a generation, best first."""
        self.age += 1
        chosen = ranked[: len(self.weights)]
        step = self.weights @ chosen
        self.mean += self.sigma * np.sqrt(self.variance) * step
        self.step_path = (1 - self.step_rate) * self.step_path + math.sqrt(
            self.step_rate * (2 - self.step_rate) * self.mass
        ) * step
        length = float(np.linalg.norm(self.step_path))
        steady = (
            length / math.sqrt(1 - (1 - self.step_rate) ** (2 * self.age))
            < (1.4 + 2 / (len(step) + 1)) * self.expected
        )
        push = math.sqrt(self.path_rate * (2 - self.path_rate) * self.mass) if steady else 0.0
        self.path = (1 - self.path_rate) * self.path + push * np.sqrt(self.variance) * step
        spread = self.weights @ (self.variance * chosen**2)
        kept = 1 - self.one_rate - self.many_rate
        self.variance = (
            kept * self.variance + self.one_rate * self.path**2 + self.many_rate * spread
        )
        self.sigma *= math.exp((self.step_rate / self.damping) * (length / self.expected - 1))
