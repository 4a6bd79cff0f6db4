"""Training of `policies/conditional/pair_network.py`, for any conditional graph.

Separable CMA-ES, as for the index. Every generation runs new random streams: graph, units,
durations, arrivals and draws. All its candidates run the same streams and are ranked by the mean
log of the mean job completion time, so that one per cent counts the same on every stream. First a
linear score is tuned; it then becomes one hidden unit of a network, whose other units start with
zero output weight.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Annotated

import numpy as np

from weft.errors import InvalidInput
from weft.generators.conditional_streams import random_conditional_stream
from weft.learn.cma import SeparableCma
from weft.learn.conditional.scores import missed, power_mean
from weft.learn.settings import Bound, Count, PopulationSize, Positive, Settings
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import WINDOW
from weft.policies.conditional.networks import Network, arrays_of, network_of
from weft.policies.conditional.pair_network import OBSERVATION, PAIR_FEATURES, PairPolicy
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.vector.batch import REWARDS, StepBatch, StepOptions
from weft.typed import typed_dataclass

VALIDATION = 50_000_000
"""First seed of the validation streams."""


@typed_dataclass(frozen=True, kw_only=True)
class PairSettings(Settings, noun="pair network"):
    """Settings of the tuning.

    Parameters
    ----------
    generations, population : number of generations, and candidates per generation
    sigma : initial standard deviation of the weights
    streams : random streams per generation, of `jobs` jobs each
    hidden : hidden units; 0 for a linear score
    every : generations between validations, each on `validation` streams
    norm : the measure to minimise: 1 is the mean completion time, 2 the root mean square, and so
        on; the larger the norm, the more the slowest jobs count (Bansal and Pruhs 2003, "Server
        Scheduling in the Lp Norm")
    objective : "completion", or for streams with a deadline "tardiness" (seconds after it) or
        "late" (jobs after it); see `weft.sim.vector.batch.REWARDS`
    """

    generations: Count = 200
    population: PopulationSize = 24
    sigma: Positive = 0.2
    streams: Count = 12
    jobs: Count = 200
    hidden: Annotated[int, Bound(0)] = 0
    every: Count = 10
    validation: Count = 60
    norm: Annotated[float, Bound(1)] = 1.0
    objective: str = "completion"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range, and an unknown objective."""
        super().__post_init__()
        if self.objective not in REWARDS:
            raise InvalidInput(
                f"objective is '{self.objective}'; it must be one of {', '.join(REWARDS)}"
            )

    @property
    def jobs_per_generation(self) -> int:
        """Jobs that all candidates of a generation run."""
        return self.population * self.streams * self.jobs


@dataclass
class TunedPairs:
    """The best parameters by validation, and the course of the tuning."""

    parameters: FloatArray
    score: float
    curve: list[dict[str, float]]
    settings: PairSettings

    @property
    def policy(self) -> PairPolicy:
        """The policy with these parameters."""
        return policy_of(self.parameters, self.settings.hidden)

    def record(self) -> dict[str, object]:
        """Return plain values for the card."""
        return {**asdict(self.settings), "score": self.score, "curve": self.curve}


def policy_of(parameters: FloatArray, hidden: int) -> PairPolicy:
    """Build a linear score, or a network with one hidden layer, from a flat array."""
    n = len(PAIR_FEATURES)
    arrays: dict[str, FloatArray] = {"input.mean": np.zeros(n), "input.scale": np.ones(n)}
    if hidden == 0:
        arrays |= {"0.weight": parameters[None, :n], "0.bias": parameters[n:]}
    else:
        first = parameters[: hidden * (n + 1)].reshape(hidden, n + 1)
        last = parameters[hidden * (n + 1) :]
        arrays |= {
            "0.weight": first[:, :n],
            "0.bias": first[:, n],
            "1.weight": last[None, :hidden],
            "1.bias": last[hidden:],
        }
    return PairPolicy(network_of(arrays, units=1, actions=1))


def parameters_of(network: Network) -> FloatArray:
    """Return a network of at most one hidden layer as the flat array of `policy_of`.

    Examples
    --------
    >>> flat = first_parameters()
    >>> bool((abs(parameters_of(policy_of(flat, 0).network) - flat) < 1e-6).all())
    True
    """
    arrays = arrays_of(network)
    if len(network.sizes) == 2:
        return np.concatenate((arrays["0.weight"].ravel(), arrays["0.bias"])).astype(float)
    first = np.column_stack((arrays["0.weight"], arrays["0.bias"]))
    parts = (first.ravel(), arrays["1.weight"].ravel(), arrays["1.bias"])
    return np.concatenate(parts).astype(float)


def first_parameters() -> FloatArray:
    """Return a first linear score: short, full batches on their fastest unit first."""
    parameters = np.zeros(len(PAIR_FEATURES) + 1)
    for name, value in {
        "fill": 0.5,
        "duration a task": -0.3,
        "remaining a task": -0.3,
        "slower than the best unit": -0.5,
    }.items():
        parameters[PAIR_FEATURES.index(name)] = value
    parameters[-1] = 1.0
    return parameters


SHIFT = 40.0
"""Bias that keeps the hidden unit of the linear score positive; inputs are of the order of 1."""


def widened(linear: FloatArray, hidden: int, rng: np.random.Generator) -> FloatArray:
    """Return a network equal to a linear score.

    Its other hidden units have zero output weight.
    """
    n = len(PAIR_FEATURES)
    first = rng.normal(0.0, 0.5, (hidden, n + 1))
    first[0], first[0, n] = linear, linear[n] + SHIFT
    last = np.zeros(hidden + 1)
    last[0], last[hidden] = 1.0, -SHIFT
    return np.concatenate((first.reshape(-1), last))


def cost_of(times: FloatArray, stream: ConditionalStream, norm: float, objective: str) -> float:
    """Return the measure to minimise: a mean completion time, or missed deadlines."""
    if objective == "completion":
        return power_mean(times, norm)
    if stream.deadline == inf:
        raise InvalidInput(
            f"objective '{objective}' needs a deadline, and stream '{stream.name}' has none; "
            'give it one, such as deadline = "400 ms"'
        )
    return missed(times, objective, stream.deadline)


class PairEvaluator:
    """Streams, random or given, with one draw each, on which candidates are compared."""

    def __init__(
        self,
        seeds: Sequence[int],
        jobs: int,
        *,
        norm: float = 1.0,
        objective: str = "completion",
        stream: ConditionalStream | None = None,
    ) -> None:
        self.norm, self.objective = norm, objective
        own = None if stream is None else stream.with_jobs(jobs)
        streams = [(seed, own or random_conditional_stream(seed, jobs=jobs)) for seed in seeds]
        options = StepOptions(idle="event", window=WINDOW)
        self.batches = [(StepBatch(s, 1, options), *s.draw_ticks(seed)) for seed, s in streams]

    def score(self, policy: PairPolicy) -> float:
        """Return the mean log of the job completion time in seconds, or of `objective`.

        The completion times of a draw count by their power mean of the norm.
        """
        total = 0.0
        for batch, arrival, outcome in self.batches:
            batch.place(0, arrival, outcome)
            policy.run(batch)
            total += float(np.log(cost_of(batch.jct(0), batch.stream, self.norm, self.objective)))
        return total / len(self.batches)


def train_any(
    *, samples: int = 20_000_000, seed: int = 0, progress: Progress[dict[str, float]] = silent
) -> tuple[TrainedNetwork, TunedPairs]:
    """Tune a linear score, then a network that starts from it.

    `samples` is the number of jobs that candidates run in total.
    """
    linear = PairSettings(seed=seed)
    network = PairSettings(population=32, sigma=0.1, streams=20, hidden=12, seed=seed + 1)
    stages: list[TunedPairs] = []
    for stage, share in ((linear, 0.3), (network, 0.7)):
        generations = max(1, round(share * samples / stage.jobs_per_generation))
        start = stages[-1].parameters if stages else None
        settings = replace(stage, generations=generations)
        stages.append(tune_pairs(settings, start=start, progress=progress))
    best = stages[-1]
    curve, jobs = [], 0
    for found in stages:
        each = found.settings.jobs_per_generation
        curve += [
            {"samples": jobs + row["generation"] * each, "score": row["validation"]}
            for row in found.curve
        ]
        jobs += found.settings.generations * each
    training = {
        "algorithm": "separable CMA-ES (weft.learn.conditional.pair_network)",
        "seed": seed,
        "samples": jobs,
        "score": best.score,
        "stages": [found.record() for found in stages],
        "curve": curve,
    }
    environment = {
        "name": "random conditional streams",
        "idle": "event",
        "probability": "random",
        "jobs": linear.jobs,
    }
    about = "any conditional graph, any units: one small network over pairs of unit and kind"
    return TrainedNetwork(
        "any", best.policy.network, OBSERVATION, environment, training, about
    ), best


def tune_pairs(
    settings: PairSettings | None = None,
    *,
    start: FloatArray | None = None,
    stream: ConditionalStream | None = None,
    seconds: float = inf,
    progress: Progress[dict[str, float]] = silent,
) -> TunedPairs:
    """Tune the policy for any graph, or for one stream.

    Equal seeds give equal parameters.

    With a limit of processor time, the tuning may end before the last generation.
    """
    s = settings or PairSettings()
    rng, end = generator(s.seed, "pair_search"), time.process_time() + seconds
    mean = first_parameters() if start is None else start
    if s.hidden and len(mean) == len(PAIR_FEATURES) + 1:
        mean = widened(mean, s.hidden, rng)
    seeds = range(VALIDATION, VALIDATION + s.validation)
    validation = PairEvaluator(seeds, 2 * s.jobs, norm=s.norm, objective=s.objective, stream=stream)
    best = TunedPairs(mean, validation.score(policy_of(mean, s.hidden)), [], s)
    progress({"generation": 0.0, "validation": best.score})
    cma = SeparableCma(mean, s.sigma, population=s.population, rng=rng, guarded=True)
    for generation in range(1, s.generations + 1):
        base = 1_000_000 + (s.seed * s.generations + generation) * s.streams
        seeds = range(base, base + s.streams)
        training = PairEvaluator(seeds, s.jobs, norm=s.norm, objective=s.objective, stream=stream)
        cma.improve(lambda c: training.score(policy_of(c, s.hidden)))  # noqa: B023  # at once
        late = time.process_time() >= end
        if generation % s.every == 0 or generation == s.generations or late:
            value = validation.score(policy_of(cma.mean, s.hidden))
            row = {
                "generation": float(generation),
                "validation": round(value, 6),
                "sigma": round(cma.sigma, 6),
            }
            best.curve.append(row)
            progress(row)
            if value < best.score:
                best.parameters, best.score = cma.mean.copy(), value
        if late:
            break
    return best
