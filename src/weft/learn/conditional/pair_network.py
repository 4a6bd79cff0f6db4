"""Training the policy for any conditional graph (`policies/conditional/pair_network.py`) by evolution: the whole loop in one file.

Separable CMA-ES, as for the index. Every generation meets new random streams: graph, units, durations, arrivals and draws. All its
candidates play the same ones, and are ranked by the mean log of the mean job completion time: one per cent counts the same on every
stream. First a linear score is tuned; then it becomes one hidden unit of a network, whose other units begin with no say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from weft.errors import InvalidInput
from weft.generators.conditional_streams import random_conditional_stream
from weft.learn.conditional.index import Evolution
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import WINDOW
from weft.policies.conditional.files import Learned
from weft.policies.conditional.networks import network_of
from weft.policies.conditional.pair_network import PAIR_FEATURES
from weft.policies.conditional.pair_policy import OBSERVATION, PairPolicy
from weft.rng import generator
from weft.sim.vector.batch import StepBatch, StepOptions

VALIDATION = 50_000_000
"""Seeds of the streams that compare means of generations begin here."""
SHIFT = 40.0
"""Keeps the hidden unit that carries the linear score above zero; inputs are of the order of 1."""


@dataclass(frozen=True, kw_only=True)
class PairSearch:
    """What the loop can be told.

    Parameters
    ----------
    generations, population : how many, and candidates in each
    sigma : first standard deviation of the weights
    streams : random streams of a generation; `jobs` in each
    hidden : hidden units; 0 for a linear score
    every : generations between validations, each over `validation` streams
    """

    generations: int = 200
    population: int = 24
    sigma: float = 0.2
    streams: int = 12
    jobs: int = 200
    hidden: int = 0
    every: int = 10
    validation: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("generations", "streams", "jobs", "every", "validation"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"pair search: {name} is {getattr(self, name)}; it must be 1 or more"
                )
        if self.population < 4 or not self.sigma > 0 or self.hidden < 0:
            raise InvalidInput(
                f"pair search: population {self.population}, sigma {self.sigma} and hidden {self.hidden} cannot work"
            )

    @property
    def jobs_a_generation(self) -> int:
        """Jobs that all candidates of a generation play."""
        return self.population * self.streams * self.jobs


@dataclass
class FoundPairs:
    """The best numbers by validation, and how the search went."""

    numbers: FloatArray
    score: float
    curve: list[dict[str, float]]
    search: PairSearch

    @property
    def policy(self) -> PairPolicy:
        """The policy of the numbers."""
        return policy_of(self.numbers, self.search.hidden)

    def record(self) -> dict[str, object]:
        """Plain values for the card."""
        return {**asdict(self.search), "score": self.score, "curve": self.curve}


def policy_of(numbers: FloatArray, hidden: int) -> PairPolicy:
    """The policy of a flat array: weights and bias of the linear score, or of a network with one hidden layer."""
    n = len(PAIR_FEATURES)
    arrays: dict[str, FloatArray] = {"input.mean": np.zeros(n), "input.scale": np.ones(n)}
    if hidden == 0:
        arrays |= {"0.weight": numbers[None, :n], "0.bias": numbers[n:]}
    else:
        first = numbers[: hidden * (n + 1)].reshape(hidden, n + 1)
        last = numbers[hidden * (n + 1) :]
        arrays |= {
            "0.weight": first[:, :n],
            "0.bias": first[:, n],
            "1.weight": last[None, :hidden],
            "1.bias": last[hidden:],
        }
    return PairPolicy(network_of(arrays, units=1, actions=1))


def first_numbers() -> FloatArray:
    """A start that works: short and full before long and empty, on units that are not slow for it."""
    numbers = np.zeros(len(PAIR_FEATURES) + 1)
    for name, value in {
        "fill": 0.5,
        "duration a task": -0.3,
        "remaining a task": -0.3,
        "slower than the best unit": -0.5,
    }.items():
        numbers[PAIR_FEATURES.index(name)] = value
    numbers[-1] = 1.0
    return numbers


def widened(linear: FloatArray, hidden: int, rng: np.random.Generator) -> FloatArray:
    """The numbers of a network that scores as a linear score does; all hidden units but the first have no say yet."""
    n = len(PAIR_FEATURES)
    first = rng.normal(0.0, 0.5, (hidden, n + 1))
    first[0], first[0, n] = linear, linear[n] + SHIFT
    last = np.zeros(hidden + 1)
    last[0], last[hidden] = 1.0, -SHIFT
    return np.concatenate((first.reshape(-1), last))


class PairTrials:
    """Random streams, each with one draw, that candidates play in turn."""

    def __init__(self, seeds: Sequence[int], jobs: int, options: StepOptions) -> None:
        self.fleets: list[tuple[StepBatch, FloatArray, IntArray]] = []
        for seed in seeds:
            stream: ConditionalStream = random_conditional_stream(seed, jobs=jobs)
            self.fleets.append((StepBatch(stream, 1, options), *stream.draw_ticks(seed)))

    def score(self, policy: PairPolicy) -> float:
        """Mean log of the mean job completion time in seconds: lower is better."""
        total = 0.0
        for fleet, arrival, outcome in self.fleets:
            fleet.place(0, arrival, outcome)
            policy.play(fleet)
            total += float(np.log(fleet.jct(0).mean()))
        return total / len(self.fleets)


def train_any(
    *,
    samples: int = 20_000_000,
    seed: int = 0,
    report: Callable[[dict[str, float]], None] = lambda row: None,  # noqa: ARG005
) -> tuple[Learned, FoundPairs]:
    """Tune a linear score, then a network that begins with it; `samples` is how many jobs candidates play in all."""
    linear = PairSearch(seed=seed)
    network = PairSearch(population=32, sigma=0.1, streams=20, hidden=12, seed=seed + 1)
    stages: list[FoundPairs] = []
    for plan, share in ((linear, 0.3), (network, 0.7)):
        most = max(1, round(share * samples / plan.jobs_a_generation))
        start = stages[-1].numbers if stages else None
        stages.append(search_pairs(replace(plan, generations=most), start=start, report=report))
    best = stages[-1]
    curve, played = [], 0
    for found in stages:
        each = found.search.jobs_a_generation
        curve += [
            {"samples": played + row["generation"] * each, "score": row["validation"]}
            for row in found.curve
        ]
        played += found.search.generations * each
    training = {
        "algorithm": "separable CMA-ES (weft.learn.conditional.pair_network)",
        "seed": seed,
        "samples": played,
        "score": best.score,
        "stages": [found.record() for found in stages],
        "curve": curve,
    }
    world = {
        "name": "random conditional streams",
        "idle": "event",
        "probability": "random",
        "jobs": linear.jobs,
    }
    about = "any conditional graph, any units: one small network over pairs of unit and kind"
    return Learned("any", best.policy.network, OBSERVATION, world, training, about), best


def search_pairs(
    search: PairSearch | None = None,
    *,
    start: FloatArray | None = None,
    options: StepOptions | None = None,
    report: Callable[[dict[str, float]], None] = lambda row: None,  # noqa: ARG005
) -> FoundPairs:
    """Tune the policy for any graph; the same seed gives the same numbers."""
    search, options = search or PairSearch(), options or StepOptions(idle="event", window=WINDOW)
    rng = generator(search.seed, "pair_search")
    mean = first_numbers() if start is None else start
    if search.hidden and len(mean) == len(PAIR_FEATURES) + 1:
        mean = widened(mean, search.hidden, rng)
    judge = PairTrials(range(VALIDATION, VALIDATION + search.validation), search.jobs * 2, options)
    best = FoundPairs(mean, judge.score(policy_of(mean, search.hidden)), [], search)
    report({"generation": 0.0, "validation": best.score})
    evolution = Evolution(mean, population=search.population, sigma=search.sigma)
    for generation in range(1, search.generations + 1):
        base = 1_000_000 + (search.seed * search.generations + generation) * search.streams
        trials = PairTrials(range(base, base + search.streams), search.jobs, options)
        steps = rng.standard_normal((search.population, len(mean)))
        scores = np.array(
            [
                trials.score(policy_of(candidate, search.hidden))
                for candidate in evolution.spread(steps)
            ]
        )
        evolution.move(steps[np.argsort(scores, kind="stable")])
        if generation % search.every == 0 or generation == search.generations:
            value = judge.score(policy_of(evolution.mean, search.hidden))
            row = {
                "generation": float(generation),
                "validation": round(value, 6),
                "sigma": round(evolution.sigma, 6),
            }
            best.curve.append(row)
            report(row)
            if value < best.score:
                best.numbers, best.score = evolution.mean.copy(), value
    return best
