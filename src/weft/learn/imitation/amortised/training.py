"""Training of `amortised`: an evolution strategy on the makespans of its decoder, in one file.

The objective is the mean over drawn problems of log(makespan of one pass / makespan of a one-second
search). For half of it, the better of one pass and the quick planners counts, as in use. The method
is OpenAI's evolution strategy (Salimans et al. 2017, section 2) with antithetic pairs, ranks as
fitness and Adam; all candidates of a generation get the same problems, the next generation others.
Decoding a graph takes microseconds, so direct search needs no labels of devices. Imitating the
devices of the search was tried: it predicts them no better than the best quick plan does, because
many assignments are equally good.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from weft.learn.imitation.amortised.data import MOVES, SearchedExample
from weft.learn.settings import Progress, require, silent
from weft.model.columns import FloatArray
from weft.planners.imitation.amortised.features import SIZE
from weft.planners.imitation.amortised.network import (
    SHAPES,
    AmortisedWeights,
    Observation,
    one_pass,
    weights_of,
)
from weft.planners.imitation.amortised.planner import observe
from weft.planners.objective import Objective
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import Decoder, make_decoder
from weft.planners.search.warm_start import quick_start
from weft.rng import generator

LEARNED = ("hidden", "offset", "output", "skip")
"""Trained arrays; mean and scale of the inputs are those of the training problems."""


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """Training settings."""

    noun: ClassVar[str] = "amortised"
    generations: int = 150
    pairs: int = 12
    problems: int = 64
    sigma: float = 0.05
    rate: float = 0.012
    every: int = 10
    validation: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        counts = ("generations", "pairs", "problems", "every")
        require(self, positive=("sigma", "rate"), at_least_one=counts)


@dataclass(frozen=True, eq=False)
class TrainingInstance:
    """Inputs of the network and the decoder for one problem, with the target makespan."""

    seen: Observation
    decoder: Decoder
    quick: float
    target: float

    def makespan(self, weights: AmortisedWeights) -> float:
        """Return the makespan of one pass."""
        return float(one_pass(weights, self.seen, self.decoder))

    def score(self, weights: AmortisedWeights) -> float:
        """Return the mean log ratio to the target of one pass, and of its best with quick plans."""
        made = self.makespan(weights)
        best = min(made, self.quick)
        return 0.5 * math.log(made / self.target) + 0.5 * math.log(best / self.target)


def instance_of(example: SearchedExample) -> TrainingInstance:
    """Observe a problem as the planner does."""
    problem = example.problem
    start = quick_start(problem, Objective.of("makespan"), Clock(None))
    decoder = make_decoder(problem.n, problem.p)
    return TrainingInstance(observe(problem, start), decoder, start.value, example.makespan)


@dataclass
class TrainedAmortised:
    """The best weights by validation, and the learning curve."""

    weights: AmortisedWeights
    score: float
    start: float
    curve: list[dict[str, float]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def record(
        self, settings: EvolutionSettings, examples: int, examples_seconds: float
    ) -> dict[str, Any]:
        """Return plain values for the card.

        `examples_seconds` is the processor time of the search that solved the examples.
        """
        return {
            "method": "antithetic evolution strategy on log(makespan / makespan of anytime)",
            "examples": examples,
            "moves_per_example": MOVES,
            "score": self.score,
            "score_of_heft": self.start,
            "cpu_seconds": round(examples_seconds + self.cpu_seconds, 1),
            "cpu_seconds_of_examples": round(examples_seconds, 1),
            "settings": asdict(settings),
            "seed": settings.seed,
            "curve": self.curve,
        }


def train(
    instances: Sequence[TrainingInstance],
    settings: EvolutionSettings | None = None,
    *,
    threads: int = 2,
    progress: Progress[dict[str, float]] = silent,
) -> TrainedAmortised:
    """Evolve the weights; the same seed and instances give the same weights."""
    s, begun = settings or EvolutionSettings(), time.process_time()
    held = max(1, round(len(instances) * s.validation))
    validation, training = instances[:held], instances[held:]
    form = _Form(training)
    rng = generator(s.seed, "amortised", "evolution")
    mean = form.first(rng)
    best = TrainedAmortised(form.weights(mean), np.inf, 0.0)
    best.start = best.score = _mean_score(validation, best.weights)
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    with ThreadPoolExecutor(threads) as pool:
        for generation in range(1, s.generations + 1):
            count = min(s.problems, len(training))
            chosen = [training[i] for i in rng.choice(len(training), count, replace=False)]
            steps = rng.standard_normal((s.pairs, len(mean)))
            candidates = [
                form.weights(mean + sign * s.sigma * step) for step in steps for sign in (1.0, -1.0)
            ]
            # One call per problem, with all candidates: a decoder serves one thread at a time.
            scores = np.array(list(pool.map(partial(_scores, candidates), chosen)))
            ranks = _utilities(scores.mean(axis=0)).reshape(-1, 2)
            gradient = ranks @ np.array([1.0, -1.0]) @ steps / (2 * s.pairs)
            first = 0.9 * first + 0.1 * gradient
            second = 0.99 * second + 0.01 * gradient**2
            rate = s.rate * (1.0 - 0.9 * generation / s.generations)
            mean = mean - rate * (first / (1 - 0.9**generation)) / (
                np.sqrt(second / (1 - 0.99**generation)) + 1e-8
            )
            if generation % s.every == 0 or generation == s.generations:
                weights = form.weights(mean)
                value = _mean_score(validation, weights)
                row = {
                    "generation": float(generation),
                    "validation": value,
                    "training": float(scores.mean()),
                }
                best.curve.append(row)
                progress(row)
                if value < best.score:
                    best.weights, best.score = weights, value
    best.cpu_seconds = time.process_time() - begun
    return best


def _utilities(scores: FloatArray) -> FloatArray:
    """Return ranks from -0.5 (best) to 0.5, so that extreme makespans do not dominate."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(len(scores))
    return ranks / (len(scores) - 1) - 0.5


def _scores(candidates: Sequence[AmortisedWeights], instance: TrainingInstance) -> list[float]:
    return [instance.score(weights) for weights in candidates]


def _mean_score(instances: Sequence[TrainingInstance], weights: AmortisedWeights) -> float:
    return float(np.mean([instance.score(weights) for instance in instances]))


class _Form:
    """Conversion between one vector and the arrays of the network."""

    def __init__(self, instances: Sequence[TrainingInstance]) -> None:
        rows = np.concatenate([e.seen.features[e.seen.able] for e in instances])
        self.mean = rows.mean(axis=0).astype(np.float32)
        self.scale = (1.0 / (rows.std(axis=0) + 1e-3)).astype(np.float32)
        self.sizes = [int(np.prod(SHAPES[name])) for name in LEARNED]

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return random hidden units with outputs of zero: the start is HEFT."""
        vector = np.zeros(sum(self.sizes))
        vector[: self.sizes[0]] = rng.standard_normal(self.sizes[0]) / np.sqrt(SIZE)
        return vector

    def weights(self, vector: FloatArray) -> AmortisedWeights:
        """Return the network of a vector."""
        parts = np.split(vector, np.cumsum(self.sizes)[:-1])
        arrays = {
            name: part.reshape(SHAPES[name]).astype(np.float32)
            for name, part in zip(LEARNED, parts, strict=True)
        }
        return weights_of({"mean": self.mean, "scale": self.scale, **arrays})
