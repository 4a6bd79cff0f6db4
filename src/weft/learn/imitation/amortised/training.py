"""Training of `amortised`: evolution of the network's weights on the makespan of what its decoder makes, the whole loop in one file.

What is minimised is the mean over drawn problems of log(makespan of one pass / makespan of the search planner with a second's moves):
how far one pass is from the planner it stands for. (For half of it the better of one pass and the quick planners counts, as in use.)
Antithetic evolution strategies (Salimans et al. 2017) with ranks as fitness and Adam; every candidate of a generation gets the same
problems, the next generation others. Decoding a graph takes microseconds, so direct search needs no labels of devices. Imitating the
devices of the search was tried: it foretells them no better than the best quick plan does (many assignments are equally good).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weft.learn.imitation.amortised.data import MOVES, SearchedExample
from weft.model.columns import FloatArray
from weft.planners.imitation.amortised.features import SIZE
from weft.planners.imitation.amortised.network import SHAPES, Weights, one_pass, weights_of
from weft.planners.imitation.amortised.planner import Observation, observe
from weft.planners.objective import Objective
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import Decoder, make_decoder
from weft.planners.search.warm_start import quick_start
from weft.rng import generator

LEARNED = ("hidden", "offset", "output", "skip")
"""The arrays that evolve; mean and scale of the inputs are those of the training problems."""


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """What the loop can be told."""

    generations: int = 150
    pairs: int = 12
    problems: int = 64
    sigma: float = 0.05
    rate: float = 0.012
    every: int = 10
    validation: float = 0.15
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Exercise:
    """A problem as the network and the decoder take it, with the makespan to reach."""

    seen: Observation
    decoder: Decoder
    quick: float
    target: float

    def makespan(self, weights: Weights) -> float:
        """Makespan of one pass."""
        return float(one_pass(weights, *self.seen, self.decoder))

    def score(self, weights: Weights) -> float:
        """Log of one pass over the target, and of the better of it and the quick planners, half and half."""
        made = self.makespan(weights)
        return 0.5 * math.log(made / self.target) + 0.5 * math.log(
            min(made, self.quick) / self.target
        )


def exercise_of(lesson: SearchedExample) -> Exercise:
    """Observe a problem, as the planner does."""
    start = quick_start(lesson.problem, Objective.of("makespan"), Clock(None))
    return Exercise(
        observe(lesson.problem, start),
        make_decoder(lesson.problem.n, lesson.problem.p),
        start.value,
        lesson.makespan,
    )


@dataclass
class TrainedAmortised:
    """The best weights by validation, and how it went."""

    weights: Weights
    score: float
    start: float
    curve: list[dict[str, float]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def record(
        self, evolution: EvolutionSettings, lessons: int, lessons_seconds: float
    ) -> dict[str, Any]:
        """Plain values for the card; `lessons_seconds` is the processor time it took to solve the problems."""
        return {
            "method": "antithetic evolution strategy on log(makespan / makespan of anytime)",
            "lessons": lessons,
            "moves_a_lesson": MOVES,
            "score": self.score,
            "score_of_heft": self.start,
            "cpu_seconds": round(lessons_seconds + self.cpu_seconds, 1),
            "cpu_seconds_of_lessons": round(lessons_seconds, 1),
            "settings": asdict(evolution),
            "seed": evolution.seed,
            "curve": self.curve,
        }


def train(
    exercises: Sequence[Exercise],
    evolution: EvolutionSettings | None = None,
    *,
    threads: int = 2,
    report: Callable[[dict[str, float]], None] = lambda row: None,  # noqa: ARG005
    keep: Callable[[TrainedAmortised], None] = lambda best: None,  # noqa: ARG005
) -> TrainedAmortised:
    """Evolve the weights; the same seed and exercises give the same weights. `keep` gets the best so far after every validation."""
    evolution, begun = evolution or EvolutionSettings(), time.process_time()
    held = max(1, round(len(exercises) * evolution.validation))
    judged, taught = exercises[:held], exercises[held:]
    form = _Form(taught)
    rng = generator(evolution.seed, "amortised", "evolution")
    mean = form.first(rng)
    best = TrainedAmortised(form.weights(mean), np.inf, 0.0)
    best.start = best.score = _mean_score(judged, best.weights)
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    with ThreadPoolExecutor(threads) as pool:
        for generation in range(1, evolution.generations + 1):
            chosen = [
                taught[i]
                for i in rng.choice(
                    len(taught), min(evolution.problems, len(taught)), replace=False
                )
            ]
            steps = rng.standard_normal((evolution.pairs, len(mean)))
            candidates = [
                form.weights(mean + s * evolution.sigma * step)
                for step in steps
                for s in (1.0, -1.0)
            ]
            # All candidates play one problem before the next one: each decoder belongs to one thread at a time.
            scores = np.array(list(pool.map(partial(_scores, candidates), chosen)))
            gradient = (
                _utilities(scores.mean(axis=0)).reshape(-1, 2)
                @ np.array([1.0, -1.0])
                @ steps
                / (2 * evolution.pairs)
            )
            first = 0.9 * first + 0.1 * gradient
            second = 0.99 * second + 0.01 * gradient**2
            rate = evolution.rate * (1.0 - 0.9 * generation / evolution.generations)
            mean = mean - rate * (first / (1 - 0.9**generation)) / (
                np.sqrt(second / (1 - 0.99**generation)) + 1e-8
            )
            if generation % evolution.every == 0 or generation == evolution.generations:
                weights = form.weights(mean)
                value = _mean_score(judged, weights)
                row = {
                    "generation": float(generation),
                    "validation": value,
                    "training": float(scores.mean()),
                }
                best.curve.append(row)
                report(row)
                if value < best.score:
                    best.weights, best.score = weights, value
                keep(best)
    best.cpu_seconds = time.process_time() - begun
    return best


def _utilities(scores: FloatArray) -> FloatArray:
    """Ranks from -0.5 (best) to 0.5: one graph of extreme makespans does not rule."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(len(scores))
    return ranks / (len(scores) - 1) - 0.5


def _scores(candidates: Sequence[Weights], exercise: Exercise) -> list[float]:
    return [exercise.score(weights) for weights in candidates]


def _mean_score(exercises: Sequence[Exercise], weights: Weights) -> float:
    return float(np.mean([exercise.score(weights) for exercise in exercises]))


class _Form:
    """Between one vector and the arrays of the network."""

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        rows = np.concatenate([e.seen.features[e.seen.able] for e in exercises])
        self.mean = rows.mean(axis=0).astype(np.float32)
        self.scale = (1.0 / (rows.std(axis=0) + 1e-3)).astype(np.float32)
        self.sizes = [int(np.prod(SHAPES[name])) for name in LEARNED]

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Random hidden units, and outputs of zero: the start is HEFT."""
        vector = np.zeros(sum(self.sizes))
        vector[: self.sizes[0]] = rng.standard_normal(self.sizes[0]) / np.sqrt(SIZE)
        return vector

    def weights(self, vector: FloatArray) -> Weights:
        """The network of a vector."""
        parts = np.split(vector, np.cumsum(self.sizes)[:-1])
        arrays = {
            name: part.reshape(SHAPES[name]).astype(np.float32)
            for name, part in zip(LEARNED, parts, strict=True)
        }
        return weights_of({"mean": self.mean, "scale": self.scale, **arrays})
