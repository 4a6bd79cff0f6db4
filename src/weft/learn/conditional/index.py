"""Tuning of the index rule (`policies/conditional/rules.py`) by separable CMA-ES.

Every candidate of a generation runs the same jobs; the next generation runs new ones, so that no
draw is overfitted. The cost is the mean, over the probabilities, of
log(objective / that of a reference rule); the objective is the mean completion time of jobs, unless
another one is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.learn.cma import SeparableCma
from weft.learn.settings import Count, PopulationSize, Positive, Settings
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import variants
from weft.policies.conditional.rules import FEATURES, ConditionalRule
from weft.progress import Progress, silent
from weft.registry import closest
from weft.rng import generator
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.typed import typed_dataclass

PER_KIND = ("one", "queue", "estimate")
"""Features with a weight of its own for each task kind."""
REFERENCE = "shortest-remaining"
OBJECTIVES = ("completion", "p95", "p99", "tardiness", "late")
"""Objectives of a tuning: mean, 95th or 99th percentile of completion times, the mean seconds after
the deadline, or the share of jobs that end after it."""
LEAST_TARDINESS = 1e-3
"""Added to tardiness, in deadlines, since logarithms need more than 0; late jobs get one more."""
VALIDATION = 10_000_000
"""First seed of validation draws; the seeds of the generations stay far below."""


@typed_dataclass(frozen=True, kw_only=True)
class IndexSettings(Settings, noun="index tuning"):
    """Settings of the tuning.

    Parameters
    ----------
    probabilities : of the first branch of the watched choice, all weighted alike; None: as in the
        stream
    generations, population : number of generations, and candidates per generation
    sigma : initial standard deviation of the weights
    draws : futures per probability and generation, of `jobs` jobs each
    every : generations between validations, each with `validation` futures per probability
    objective : one of `OBJECTIVES`
    """

    probabilities: tuple[float, ...] | None = tuple(i / 10 for i in range(11))
    generations: Count = 300
    population: PopulationSize = 24
    sigma: Positive = 0.3
    draws: Count = 2
    jobs: Count = 2000
    every: Count = 10
    validation: Count = 4
    objective: str = "completion"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range, and a choice without a probability."""
        super().__post_init__()
        if self.probabilities == ():
            raise InvalidInput("index tuning: probabilities is empty; give one or more, or None")
        if self.objective not in OBJECTIVES:
            raise UnknownName(
                f"unknown objective '{self.objective}'{closest(self.objective, OBJECTIVES)}"
            )


@dataclass
class TunedIndex:
    """The best weights by validation, and the course of the tuning."""

    weights: FloatArray
    score: float
    curve: list[dict[str, float]]
    settings: IndexSettings

    def record(self) -> dict[str, object]:
        """Return plain values to store beside the weights."""
        settings = asdict(self.settings)
        return {"method": "separable CMA-ES", "score": self.score, **settings, "curve": self.curve}


class TiedWeights:
    """Parameters shared by weights.

    Kinds with equal durations share all but `PER_KIND`.
    """

    def __init__(self, batch: StepBatch) -> None:
        sim, state = batch.tables.sim, batch.tables.state
        kind = sim.task["kind"][:-1]
        times = [tuple(state.duration[kind == k].max(axis=0)) for k in range(batch.kinds)]
        alike = np.array([list(dict.fromkeys(times)).index(t) for t in times])
        groups = int(state.group.max()) + 1
        self.parameter = np.zeros((groups, batch.kinds, len(FEATURES)), np.int64)
        self.size = 0
        for f, name in enumerate(FEATURES):
            column = np.arange(batch.kinds) if name in PER_KIND else alike
            width = int(column.max()) + 1
            rows = np.arange(groups)[:, None] * width
            self.parameter[:, :, f] = self.size + rows + column[None, :]
            self.size += groups * width

    def expand(self, parameters: FloatArray) -> FloatArray:
        """Return the weights of the index."""
        weights: FloatArray = parameters[self.parameter]
        return weights

    def gather(self, weights: FloatArray) -> FloatArray:
        """Return the parameters of weights; shared ones get the mean."""
        flat = self.parameter.reshape(-1)
        total = np.bincount(flat, weights=weights.reshape(-1), minlength=self.size)
        parameters: FloatArray = total / np.bincount(flat, minlength=self.size)
        return parameters


class IndexEvaluator:
    """Simulates rules on the same futures of several variants of a stream."""

    def __init__(
        self,
        variants: Sequence[ConditionalStream],
        draws: int,
        options: StepOptions,
        objective: str = "completion",
    ) -> None:
        self.variants, self.draws, self.objective = list(variants), draws, objective
        self.batch = StepBatch(variants[0], len(self.variants) * draws, options)
        self._futures: list[tuple[FloatArray, np.ndarray]] = []
        self._reference = np.zeros(len(self.variants))

    def prepare(self, seed: int) -> None:
        """Draw the futures and run them by the reference rule."""
        self._futures = [
            variant.draw_ticks(seed + i) for variant in self.variants for i in range(self.draws)
        ]
        self._reference = np.log(self.times(ConditionalRule(REFERENCE)))

    def times(self, rule: ConditionalRule) -> FloatArray:
        """Return (variants,) objectives: by default mean job completion times in seconds."""
        for s, future in enumerate(self._futures):
            self.batch.place(s, *future)
        rule.run(self.batch)
        deadline = self.variants[0].deadline
        jobs = [self.batch.jct(s) for s in range(self.batch.size)]
        found = np.array([objective_of(each, self.objective, deadline) for each in jobs])
        means: FloatArray = found.reshape(len(self.variants), self.draws).mean(axis=1)
        return means

    def score(self, weights: FloatArray) -> float:
        """Return the mean log of the objective relative to the reference: lower is better."""
        times = self.times(ConditionalRule("index", weights))
        return float((np.log(times) - self._reference).mean())


def objective_of(jobs: FloatArray, objective: str, deadline: float) -> float:
    """Return the objective of completion times, more than zero.

    Examples
    --------
    >>> jobs = np.array([1.0, 2.0, 3.0, 6.0])
    >>> [objective_of(jobs, name, deadline=4.0) for name in ("completion", "tardiness", "late")]
    [3.0, 0.504, 0.5]
    """
    if objective == "completion":
        return float(jobs.mean())
    if objective == "late":
        return float(((jobs > deadline).sum() + 1.0) / len(jobs))
    if objective == "tardiness":
        return float(np.maximum(jobs - deadline, 0.0).mean() + LEAST_TARDINESS * deadline)
    return float(np.percentile(jobs, {"p95": 95.0, "p99": 99.0}[objective]))


def first_weights(batch: StepBatch) -> FloatArray:
    """Return weights to start from: little remaining work first, full batches first."""
    sim, state = batch.tables.sim, batch.tables.state
    quickest = state.duration.min(axis=1)
    remaining = np.zeros(len(quickest))
    for t in state.order[::-1].tolist():
        edges = range(int(sim.task["succ"][t]), int(sim.task["succ"][t + 1]))
        after = [float(remaining[sim.edge["target"][e]]) for e in edges]
        remaining[t] = quickest[t] + (sum(after) / len(after) if after else 0.0)
    weights = np.zeros((int(state.group.max()) + 1, batch.kinds, len(FEATURES)))
    shortest = max(float(remaining.min()), 1e-12)
    for t, kind in enumerate(sim.task["kind"][:-1].tolist()):
        weights[:, kind, 0] = 1.2 - 0.4 * math.log(max(float(remaining[t]), shortest) / shortest)
    for d, group in enumerate(state.group.tolist()):
        weights[group, :, 1] = 1.0 if sim.device["batch"][0, d] > 1 else 0.0
    return weights


def tune_index(
    stream: ConditionalStream,
    settings: IndexSettings | None = None,
    *,
    options: StepOptions | None = None,
    progress: Progress[dict[str, float]] = silent,
) -> TunedIndex:
    """Tune the index for a stream; the same seed gives the same weights.

    `progress` receives a row per validation: generation, validation, best and sigma.
    """
    s, options = settings or IndexSettings(), options or StepOptions()
    if s.objective in {"tardiness", "late"} and stream.deadline == np.inf:
        raise InvalidInput(
            f"objective '{s.objective}' needs a deadline, and stream '{stream.name}' has none; "
            'give it one, such as deadline = "400 ms"'
        )
    streams = variants(stream.with_jobs(s.jobs), s.probabilities)
    training = IndexEvaluator(streams, s.draws, options, s.objective)
    validation = IndexEvaluator(streams, s.validation, options, s.objective)
    validation.prepare(VALIDATION)
    weights = first_weights(training.batch)
    ties = TiedWeights(training.batch)
    rng = generator(s.seed, "index_search")
    cma = SeparableCma(
        ties.gather(weights), s.sigma, population=s.population, rng=rng, guarded=True
    )
    best = TunedIndex(weights, validation.score(weights), [], s)
    for generation in range(1, s.generations + 1):
        training.prepare(1_000_000 + s.seed * 7919 * s.generations + generation * s.draws)
        scores = cma.improve(lambda candidate: training.score(ties.expand(candidate)))
        if generation % s.every == 0 or generation == s.generations:
            weights = ties.expand(cma.mean)
            value = validation.score(weights)
            best.curve.append(
                {
                    "generation": float(generation),
                    "validation": value,
                    "best": float(scores.min()),
                    "sigma": cma.sigma,
                }
            )
            progress(best.curve[-1])
            if value < best.score:
                best.weights, best.score = weights, value
    return best
