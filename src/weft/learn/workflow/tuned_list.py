"""Tuning of list-scheduling weights by CMA-ES: the policy `tuned-list`.

All candidates of a generation are scored on the same instances; the next generation gets new ones,
so that the weights do not overfit. The score is the mean, over the instances, of log(objective /
objective of a hand-made rule): for one workflow the makespan against HEFT planned at every event
with observed durations, for a stream the mean job completion time against shortest remaining work
first. An instance counts for at most a factor of two, so that none dominates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from weft.generators import Instance, draw_instance
from weft.learn.cma import SeparableCma
from weft.learn.settings import Count, InstanceSettings, TrainingRecord
from weft.model.columns import FloatArray
from weft.policies.replanning.portfolio import (
    UNLIMITED,
    WINDOW,
    PlanOptions,
    make_portfolio,
    run_by_portfolio,
)
from weft.policies.replanning.weights import WEIGHTS, weights_of
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import Sim, copy_sim, make_sim
from weft.typed import typed_dataclass

TUNED = tuple(name for name in WEIGHTS if name not in {"energy", "moved", "price"})
"""All weights but `energy`, which is another objective, and `moved`, which needs whole plans."""
START: Mapping[str, float] = {
    "ahead": 0.7,
    "work": 1.0,
    "rank": 0.3,
    "trust": 1.0,
    "overdue": 0.2,
    "together": 0.1,
}
"""Start of the search: optimistic remainder, short jobs first, observed durations."""
ALONE = ("static", "noisy", "failing", "biased", "changing")
VALIDATION = 10_000_000
"""First seed of the validation instances; those of the generations are below."""


@dataclass
class TunedWeights(TrainingRecord):
    """The best weights by validation, and how the search went."""

    algorithm: ClassVar[str] = "separable CMA-ES"
    weights: dict[str, float]
    score: float
    settings: TuningSettings
    seconds: float
    curve: list[dict[str, float]] = field(default_factory=list)


@typed_dataclass(frozen=True, kw_only=True)
class TuningSettings(InstanceSettings):
    """Settings of the tuning.

    Parameters
    ----------
    seconds, generations : limits of the search
    population : candidates per generation
    alone, streams : instances per generation, of single workflows and of streams
    every : generations between validations, each on `validation` times the instances of a
        generation
    """

    seconds: float = 900.0
    generations: Count = 400
    population: int = 14
    streams: int = 3
    every: Count = 10
    validation: Count = 6


class Trial:
    """Instances that are simulated again and again."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = list(instances)
        self._blank = [start_sim(instance) for instance in self.instances]

    def cost(self, k: int, sets: Sequence[FloatArray], options: PlanOptions) -> float:
        """Return the log of the objective of an instance; inf if it does not end."""
        sim = copy_sim(self._blank[k])
        portfolio = make_portfolio(self.instances[k].workload, sim, sets, options)
        return log_completion(sim) if run_by_portfolio(sim, portfolio) == ENDED else np.inf


class WeightTrial(Trial):
    """Score of weights."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        super().__init__(instances)
        hand = [weights_of({"trust": 1.0}), weights_of({"work": 1.0, "rank": 1e-3})]
        rivals = [hand[instance.workload.jobs > 1] for instance in self.instances]
        self.reference = self._costs(rivals)

    def score(self, weights: FloatArray) -> float:
        """Return the mean log of the objective against the reference; lower is better."""
        costs = self._costs([weights] * len(self.instances))
        return float(clip_ratio(costs - self.reference).mean())

    def _costs(self, weights: Sequence[FloatArray]) -> FloatArray:
        windows = [WINDOW if some.workload.jobs > 1 else UNLIMITED for some in self.instances]
        options = [PlanOptions(window=window) for window in windows]
        return np.array([self.cost(k, [weights[k]], options[k]) for k in range(len(weights))])


def clip_ratio(change: FloatArray) -> FloatArray:
    """Limit logarithms of ratios to a factor of two."""
    return np.clip(change, -np.log(2), np.log(2))


def start_sim(instance: Instance) -> Sim:
    """Make the simulation of an instance, without a decider."""
    return make_sim(instance.workload, instance.scenario, None, eager=True)


def log_completion(sim: Sim) -> float:
    """Return the log of the mean completion time of the jobs."""
    return float(np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()))


def draw_instances(seed: int, alone: int, streams: int, *, jobs: int = 15) -> list[Instance]:
    """Draw single workflows under all conditions in turn, and streams of jobs.

    CCR is 0.1 to 6, load 0.7 to 0.95.
    """
    rng = generator(seed, "rule search", "cases")
    found = []
    for k in range(alone + streams):
        ccr, load = float(10 ** rng.uniform(-1.0, 0.8)), float(rng.uniform(0.7, 0.95))
        if k < alone:
            found.append(draw_instance(ALONE[k % len(ALONE)], seed=seed * 1000 + k, ccr=ccr))
        else:
            found.append(
                draw_instance(
                    "stream", seed=seed * 1000 + k, jobs=jobs, tasks=(20, 80), ccr=ccr, load=load
                )
            )
    return found


def tune_weights(
    search: TuningSettings | None = None,
    *,
    start: Mapping[str, float] = START,
    draw: Callable[[int, int, int], list[Instance]] = draw_instances,
    progress: Progress[dict[str, float]] = silent,
) -> TunedWeights:
    """Search within the limits; `draw(seed, alone, streams)` draws the instances.

    `progress` receives each validation.
    """
    search = search or TuningSettings()
    at = [WEIGHTS.index(name) for name in TUNED]
    began = time.process_time()

    def expand(numbers: FloatArray) -> FloatArray:
        weights = weights_of({})
        weights[at] = numbers
        return weights

    def named(numbers: FloatArray) -> dict[str, float]:
        return dict(zip(TUNED, numbers.round(4).tolist(), strict=True))

    evolution = SeparableCma(
        weights_of(start)[at],
        np.full(len(at), 0.12),
        population=search.population,
        rng=generator(search.seed, "rule search"),
    )
    validation = WeightTrial(
        draw(VALIDATION, search.alone * search.validation, search.streams * search.validation)
    )
    found = TunedWeights(
        named(evolution.mean), validation.score(expand(evolution.mean)), search, 0.0
    )
    for generation in range(1, search.generations + 1):
        trial = WeightTrial(draw(search.seed * 100_000 + generation, search.alone, search.streams))
        evolution.improve(lambda x: trial.score(expand(x)))  # noqa: B023  # called at once
        found.seconds = time.process_time() - began
        last = generation == search.generations or found.seconds > search.seconds
        if generation % search.every == 0 or last:
            score = validation.score(expand(evolution.mean))
            found.curve.append(
                {
                    "generation": generation,
                    "score": score,
                    "sigma": evolution.sigma,
                    "seconds": round(found.seconds, 1),
                }
            )
            if score < found.score:
                found.score, found.weights = score, named(evolution.mean)
            progress(found.curve[-1])
        if last:
            break
    return found
