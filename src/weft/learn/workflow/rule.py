"""Tuning the weights of planning in sight by evolution: the policy `tuned-list`. The whole loop in one file.

Every candidate of a generation plays the same cases; the next generation plays new ones, so that nothing is learned by heart. What is
minimised is the mean, over the cases, of log(objective / that of a strong hand-made rule): the makespan of one workflow against HEFT
planned anew with observed durations, the mean job completion time of a stream against the shortest remaining work first. A single case
counts for at most a factor of two, so that none of them rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from weft.errors import InvalidInput
from weft.generators import Instance, draw_instance
from weft.learn.cma import SeparableCma
from weft.model.columns import FloatArray
from weft.policies.replanning.placement import WEIGHTS
from weft.policies.replanning.policy import weights_of
from weft.policies.replanning.portfolio import FAR, SIGHT, live_by_plans, make_plans
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import Sim, make_sim

TUNED = tuple(name for name in WEIGHTS if name not in {"energy", "moved"})
"""All but what is not asked for, and what would want all plans to be whole (see `weft.policies.replanning.portfolio`)."""
START: Mapping[str, float] = {
    "ahead": 0.7,
    "work": 1.0,
    "rank": 0.3,
    "trust": 1.0,
    "overdue": 0.2,
    "together": 0.1,
}
"""Where the search begins: looking ahead, short jobs first, observed durations."""
ALONE = ("static", "noisy", "failing", "biased", "changing")
VALIDATION = 10_000_000
"""Cases for comparing means of generations begin here; those of the generations stay below."""


@dataclass(frozen=True, kw_only=True)
class RuleSearch:
    """What the loop can be told.

    Parameters
    ----------
    seconds : when to stop, at the latest; generations : how many, at most
    population : candidates in each generation
    alone, streams : cases of single workflows and of streams in each generation
    every : generations between validations, each over `validation` times as many cases
    """

    seconds: float = 900.0
    generations: int = 400
    population: int = 14
    alone: int = 30
    streams: int = 3
    every: int = 10
    validation: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("generations", "every", "validation"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"rule search: {name} is {getattr(self, name)}; it must be 1 or more"
                )
        if self.alone + self.streams < 1:
            raise InvalidInput("rule search: there must be a case to play; raise alone or streams")


@dataclass
class FoundRule:
    """The best weights by validation, and how the search went."""

    weights: dict[str, float]
    score: float
    search: RuleSearch
    seconds: float
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, object]:
        """Plain values, to be kept beside the weights."""
        settings = {"settings": asdict(self.search)}
        counts = {"seed": self.search.seed, "cpu_seconds": round(self.seconds, 1)}
        return {
            "algorithm": "separable CMA-ES",
            "score": self.score,
            **counts,
            **settings,
            "curve": self.curve,
        }


class WeightTrial:
    """Cases that are played again and again: laid out once, copied for every game."""

    def __init__(self, cases: Sequence[Instance]) -> None:
        self.cases = list(cases)
        self._blank = [
            make_sim(case.workload, case.scenario, None, eager=True) for case in self.cases
        ]
        hand = [weights_of({"trust": 1.0}), weights_of({"work": 1.0, "rank": 1e-3})]
        self.reference = np.array(
            [self.play(k, hand[case.workload.jobs > 1]) for k, case in enumerate(self.cases)]
        )

    def play(self, k: int, weights: FloatArray) -> float:
        """Log of the objective of case k."""
        workload, most = self.cases[k].workload, SIGHT if self.cases[k].workload.jobs > 1 else FAR
        sim = copied(self._blank[k])
        if live_by_plans(sim, make_plans(workload, sim, [weights], most=most)) != ENDED:
            return np.inf
        return float(np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()))

    def score(self, weights: FloatArray) -> float:
        """Mean log of the objective against the reference; lower is better."""
        return float(
            np.clip(
                [self.play(k, weights) for k in range(len(self.cases))] - self.reference,
                -np.log(2),
                np.log(2),
            ).mean()
        )


def copied(sim: Sim) -> Sim:
    """A simulation of its own, at the same point."""
    return sim._replace(
        **{
            n: getattr(sim, n).copy()
            for n in ("world", "job", "inst", "entry", "kind", "device", "due", "execution")
        }
    )


def draw_cases(seed: int, alone: int, streams: int, *, jobs: int = 15) -> list[Instance]:
    """Single workflows under all conditions in turn, and streams of some jobs; CCR 0.1 to 6, load 0.7 to 0.95."""
    rng = generator(seed, "rule search", "cases")
    cases = []
    for k in range(alone + streams):
        ccr, load = float(10 ** rng.uniform(-1.0, 0.8)), float(rng.uniform(0.7, 0.95))
        if k < alone:
            cases.append(draw_instance(ALONE[k % len(ALONE)], seed=seed * 1000 + k, ccr=ccr))
        else:
            cases.append(
                draw_instance(
                    "stream", seed=seed * 1000 + k, jobs=jobs, tasks=(20, 80), ccr=ccr, load=load
                )
            )
    return cases


def search_rule(
    search: RuleSearch | None = None,
    *,
    start: Mapping[str, float] = START,
    draw: Callable[[int, int, int], list[Instance]] = draw_cases,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> FoundRule:
    """Search until the time or the generations are up; `draw(seed, alone, streams)` gives the cases, `watch` gets each validation."""
    search = search or RuleSearch()
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
    trial = WeightTrial(
        draw(VALIDATION, search.alone * search.validation, search.streams * search.validation)
    )
    found = FoundRule(named(evolution.mean), trial.score(expand(evolution.mean)), search, 0.0)
    for generation in range(1, search.generations + 1):
        cases = WeightTrial(draw(search.seed * 100_000 + generation, search.alone, search.streams))
        candidates = evolution.ask()
        evolution.tell(
            candidates, np.array([cases.score(expand(numbers)) for numbers in candidates])
        )
        found.seconds = time.process_time() - began
        last = generation == search.generations or found.seconds > search.seconds
        if generation % search.every == 0 or last:
            score = trial.score(expand(evolution.mean))
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
            if watch is not None:
                watch(found.curve[-1])
        if last:
            break
    return found
