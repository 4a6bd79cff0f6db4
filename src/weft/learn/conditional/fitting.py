"""Training for one stream: measure, tune, learn from the best and keep the best.

1. Every rule and shipped policy that supports the stream is measured on held-back draws.
2. The 27 numbers of a linear score over pairs of unit and kind are tuned on the stream, in seconds.
3. A small network that starts from the better of that score and `conditional-any` is tuned.
4. PPO imitates the best so far and improves on it.

The policy with the least mean completion time on the held-back draws is kept; another norm may
replace the mean.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np

from weft.errors import Unsupported, WeftError
from weft.learn.conditional.pair_network import (
    PairSettings,
    TunedPairs,
    cost_of,
    parameters_of,
    tune_pairs,
)
from weft.learn.conditional.scores import completions
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.pair_network import OBSERVATION, PairPolicy
from weft.policies.conditional.pair_view import PairNetworkPolicy
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.load import list_policies, load_policy
from weft.progress import Progress, silent
from weft.sim.view import Policy

HELD_BACK = 60_000_000
"""First seed of the draws that choose between policies."""
FRESH = 70_000_000
"""First seed of the draws of the final table, which serve no other purpose."""
JOBS = 1000
"""Jobs per draw, at most."""
DRAWS = 10
LEFT_OUT = ("hybrid",)
"""A policy that is not compared, as it learns durations that a stream gives, and is slow."""
LINEAR = PairSettings(generations=120, population=16, streams=4, jobs=300, every=5, validation=8)
WIDE = replace(LINEAR, hidden=12, sigma=0.1, population=20)
SHARES = {"linear": 0.2, "wide": 0.3, "ppo": 0.4}
"""Parts of the processor time."""
SAMPLES_PER_SECOND = 30_000
"""Approximate steps of PPO per second; schedules of PPO need the number of steps."""


@dataclass
class Fitted:
    """The best policy for a stream.

    Attributes
    ----------
    policy : the best that was trained
    origin : how it was made: "linear", "wide", "ppo" or "start"
    held_back : completion time on the held-back draws of all policies, in seconds, in the norm
    """

    policy: NetworkPolicy
    origin: str
    held_back: dict[str, float]
    interrupted: bool = False

    def compare(self, stream: ConditionalStream, draws: int = DRAWS) -> dict[str, FloatArray]:
        """Return the completion times of all policies on fresh draws, the best first."""
        seeds = range(FRESH, FRESH + draws)
        everyone: dict[str, Policy] = {self.policy.name: self.policy, **contenders(stream)}
        found = {name: measure(policy, stream, seeds) for name, policy in everyone.items()}
        return dict(sorted(found.items(), key=lambda item: float(item[1].mean())))


def contenders(stream: ConditionalStream) -> dict[str, Policy]:
    """Return name -> policy of all rules and shipped policies that support a stream."""
    fit = [e for e in list_policies() if str(e) not in LEFT_OUT and e.supports(stream)]
    return {str(e): load_policy(str(e)) for e in fit}


def measure(
    policy: Policy,
    stream: ConditionalStream,
    seeds: range,
    norm: float = 1.0,
    objective: str = "completion",
) -> FloatArray:
    """Return the objective for each seed; inf if a run cannot go on."""
    try:
        short = stream.with_jobs(min(JOBS, stream.jobs))
        (each,) = completions(policy, [short], seeds)
    except WeftError:
        return np.full(len(seeds), inf)
    return np.array([cost_of(jobs, stream, norm, objective) for jobs in each])


def fit_stream(
    stream: ConditionalStream,
    *,
    name: str = "own",
    seconds: float = 240.0,
    seed: int = 0,
    start: Policy | None = None,
    network: bool = True,
    norm: float = 1.0,
    objective: str = "completion",
    progress: Progress[str] = silent,
) -> Fitted:
    """Train the best policy for a stream within a limit of processor time.

    `start` is a policy to begin from: a score over pairs is tuned further, a network is trained
    further by PPO, and any other policy that chooses in steps is imitated. Without `network`, only
    the linear score over pairs is tuned. `norm` above 1 makes the slowest jobs count more, and
    `objective` says whether deadlines count instead, see `PairSettings`; both are for scores over
    pairs, not PPO.
    """
    shares = dict(SHARES) if network else {"linear": 0.8}
    if objective != "completion":
        shares.pop("ppo", None)
    return _Fit(stream, name, seconds, seed, start, norm, objective, progress, shares).run()


@dataclass
class _Fit:
    stream: ConditionalStream
    name: str
    seconds: float
    seed: int
    start: Policy | None
    norm: float
    objective: str
    progress: Progress[str]
    shares: dict[str, float]
    begun: float = field(default_factory=time.process_time)
    held_back: dict[str, float] = field(default_factory=dict)
    made: dict[str, NetworkPolicy] = field(default_factory=dict)
    others: dict[str, Policy] = field(default_factory=dict)

    def run(self) -> Fitted:
        self._measure_all()
        interrupted = False
        try:
            linear = self._tune("linear", LINEAR, self._start_parameters(linear=True))
            if "wide" in self.shares:
                self._tune("wide", WIDE, self._better_start(linear))
            if "ppo" in self.shares:
                self._learn()
        except KeyboardInterrupt:
            if not self.made:
                raise
            interrupted = True
        best = min(self.made, key=lambda origin: self.held_back[origin])
        self.progress(f"kept: {best}")
        return Fitted(self.made[best], best, self.held_back, interrupted)

    def _enter(self, origin: str, policy: Policy) -> None:
        seeds = range(HELD_BACK, HELD_BACK + DRAWS)
        value = float(measure(policy, self.stream, seeds, self.norm, self.objective).mean())
        self.held_back[origin] = value
        self.progress(f"{origin}: {self._shown(value)} on held-back draws")

    def _shown(self, value: float) -> str:
        return f"{value:.2%} late" if self.objective == "late" else f"{value * 1000:.2f} ms"

    def _measure_all(self) -> None:
        self.others = contenders(self.stream)
        if self.start is not None:
            self.start.begin(self.stream.draw(0)[0])  # refuses a policy that does not fit
            self.others["start"] = self.start
            if isinstance(self.start, NetworkPolicy):
                renamed = replace(self.start.learned, name=self.name)
                self.made["start"] = type(self.start)(renamed)
        for name, policy in self.others.items():
            self._enter(name, policy)

    def _start_parameters(self, *, linear: bool) -> FloatArray | None:
        if not isinstance(self.start, PairNetworkPolicy):
            return None
        found = parameters_of(self.start.network)
        return found if (len(self.start.network.sizes) == 2) == linear else None

    def _better_start(self, linear: TunedPairs) -> FloatArray:
        """Return where the wide network starts: the best score over pairs so far."""
        given = self._start_parameters(linear=False)
        if given is not None:
            return given
        shipped = self.others.get("conditional-any")
        if (
            isinstance(shipped, PairNetworkPolicy)
            and self.held_back["conditional-any"] < self.held_back["linear"]
        ):
            return parameters_of(shipped.network)
        return linear.parameters

    def _tune(self, origin: str, settings: PairSettings, start: FloatArray | None) -> TunedPairs:
        settings = replace(settings, seed=self.seed, norm=self.norm, objective=self.objective)
        found = tune_pairs(
            settings,
            start=start,
            stream=self.stream,
            seconds=self.shares[origin] * self.seconds,
            progress=lambda row: self.progress(
                f"{origin}: generation {row['generation']:.0f}, "
                f"{self._shown(float(np.exp(row['validation'])))}"
            ),
        )
        about = f"A score over pairs of unit and kind, tuned for {self.stream.name}."
        environment = {"stream": self.stream.name, "idle": "event", "jobs": settings.jobs}
        training = {
            "algorithm": "separable CMA-ES (weft.learn.conditional.fitting)",
            "seed": self.seed,
            **found.record(),
        }
        learned = TrainedNetwork(
            self.name, found.policy.network, OBSERVATION, environment, training, about
        )
        self.made[origin] = PairNetworkPolicy(learned)
        self._enter(origin, self.made[origin])
        return found

    def _learn(self) -> None:
        """Improve on the best so far by PPO, if torch is installed and time is left."""
        left = self.seconds * 0.95 - (time.process_time() - self.begun)
        if find_spec("torch") is None or left < SHARES["ppo"] * self.seconds * 0.5:
            return
        from weft.learn.conditional.training import DEFAULT, train_policy

        everyone = {**self.others, **self.made}
        order = sorted(everyone, key=lambda name: self.held_back[name])
        steps: list[Any] = [getattr(everyone[name], "stepwise", None) for name in order]
        teachers = [step for step in steps if isinstance(step, ConditionalRule | PairPolicy)]
        samples = int(left * SAMPLES_PER_SECOND)
        settings = replace(DEFAULT, samples=samples, imitation=samples // 8, evaluations=10)
        start = None
        if isinstance(self.start, NetworkPolicy) and not isinstance(self.start, PairNetworkPolicy):
            start = self.start.learned
        try:
            network, _ = train_policy(
                self.stream,
                "own",
                settings=settings,
                seed=self.seed,
                start=start,
                teacher=teachers[0],
                seconds=left,
                progress=lambda p: self.progress(f"ppo: {p.samples:,} of {samples:,} samples"),
            )
        except Unsupported:
            return
        self.made["ppo"] = NetworkPolicy(replace(network, name=self.name))
        self._enter("ppo", self.made["ppo"])
