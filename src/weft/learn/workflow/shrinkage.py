"""Training of the network that decides how far observed durations are trusted.

Simulations of families of workflows, with known bias, stop at random events. At each stop the
network reads the spread of the durations so far and returns two priors; the loss is the squared
error of the logarithms of the expected durations that follow from these, over all pairs of a task
kind and a device kind. The best constants are the baseline: the priors without a network.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.generators.families.distribution import (
    DEVELOPMENT,
    FAMILY_CONDITIONS,
    FamilyCase,
    draw_case,
)
from weft.learn.settings import Count, Settings, TrainingRecord
from weft.learn.value_networks import FitSettings, ValueNetworks, fit_network
from weft.model.columns import Float32Array, FloatArray
from weft.policies.q_network import NetworkArrays
from weft.policies.replanning.portfolio import (
    UNLIMITED,
    PlanOptions,
    Portfolio,
    advance_to_decision,
    commit_planned,
    make_portfolio,
    replan,
)
from weft.policies.replanning.shrinkage import (
    FEATURES,
    LARGEST,
    OUTPUTS,
    constant_arrays,
    shrinkage_network,
)
from weft.policies.replanning.weights import weights_of
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, make_sim
from weft.typed import typed_dataclass

FIRST_SEED, VALIDATION_SEED = 40_000_000, 45_000_000
"""First seeds of the training and of the validation cases."""
CONSTANTS = tuple(float(np.exp(x)) for x in np.linspace(-4.0, 4.0, 17))
"""Constants that are tried for each of the two priors."""


SMALL = FitSettings(hidden=16, epochs=80, rate=3e-3, batch=128)


@typed_dataclass(frozen=True, kw_only=True)
class ShrinkageSettings(Settings):
    """Settings of the training.

    Parameters
    ----------
    cases, validation : simulations to train and to validate with
    stops : mean events per simulation at which the spread is recorded
    fit : of the networks
    """

    cases: Count = 900
    validation: Count = 300
    stops: Count = 6
    fit: FitSettings = SMALL
    seed: int = 0


class SpreadSamples(NamedTuple):
    """Recorded events, or stops: features, observations and true bias.

    Observations and bias are per task kind and device. Columns are arrays, or tensors to train on.
    """

    feature: Any  # (stops, features)
    number: Any  # (stops, kinds, p)
    log_sum: Any  # (stops, kinds, p)
    truth: Any  # (stops, kinds, p) logarithm of the bias
    share: Any  # (stops, kinds, p) weights that add up to 1


@dataclass
class TrainedShrinkage(TrainingRecord):
    """The network, its error, and that of the best constants."""

    algorithm: ClassVar[str] = "regression of log durations (weft.learn.workflow.shrinkage)"
    arrays: NetworkArrays
    constants: tuple[float, float]
    score: float
    constant_score: float
    estimate_score: float
    settings: ShrinkageSettings
    seconds: float = 0.0
    samples: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, object]:
        """Return plain values for the card."""
        return {
            **super().record(),
            "score_of_best_constants": self.constant_score,
            "score_of_estimates": self.estimate_score,
            "best_constants": list(self.constants),
            "samples": self.samples,
        }


# -- samples -----------------------------------------------------------------------


@njit_noalloc
def record_spread(
    sim: Sim,
    portfolio: Portfolio,
    chance: FloatArray,
    share: float,
    feature: Float32Array,
    count: FloatArray,
    log_sum: FloatArray,
) -> int:
    """Simulate to the end; return the number of recorded events.

    An event is recorded if its chance is below a share.
    """
    found, event = 0, 0
    while advance_to_decision(sim, portfolio) == MOMENT:
        commit_planned(sim, portfolio, replan(sim, portfolio))
        if event < len(chance) and chance[event] < share and found < len(feature):
            for f in range(feature.shape[1]):
                feature[found, f] = portfolio.spread[f]
            for kind in range(count.shape[1]):
                for d in range(count.shape[2]):
                    count[found, kind, d] = portfolio.stack.pair[0, kind, d].count
                    log_sum[found, kind, d] = portfolio.stack.pair[0, kind, d].log_sum
            found += 1
        event += 1
    return found


def sample_spread(case: FamilyCase, stops: int, seed: int) -> SpreadSamples:
    """Return the samples of one simulation by HEFT with observed durations."""
    workload, scenario = case.instance
    rng, n = generator(seed, "shrinkage", "stops"), workload.instances
    sim = make_sim(workload, scenario, None, eager=True)
    portfolio = make_portfolio(
        workload,
        sim,
        [weights_of({"trust": 1.0})],
        PlanOptions(window=UNLIMITED),
        shrinkage=shrinkage_network(constant_arrays((1.0, 1.0))),
    )
    kinds, p = scenario.bias.shape
    feature = np.zeros((3 * stops, len(FEATURES)), np.float32)
    count, log_sum = np.zeros((3 * stops, kinds, p)), np.zeros((3 * stops, kinds, p))
    share = min(stops / (0.7 * n), 1.0)
    found = record_spread(sim, portfolio, rng.random(2 * n), share, feature, count, log_sum)
    # Devices of a kind are alike; kinds count by their tasks.
    used = np.bincount(sim.task["kind"][:-1], minlength=kinds)[:, None] * np.ones(p)
    truth = np.broadcast_to(np.log(scenario.bias), (found, kinds, p))
    weight = np.broadcast_to(used / used.sum(), (found, kinds, p))
    return SpreadSamples(feature[:found], count[:found], log_sum[:found], truth, weight)


def draw_biased(seed: int) -> FamilyCase:
    """Draw a workflow of a family that is not left out, under a condition of one job."""
    names = [name for name, kind in FAMILY_CONDITIONS.items() if not kind.stream]
    return draw_case(names[seed % len(names)], seed=seed, families=DEVELOPMENT)


def _collect(
    draw: Callable[[int], FamilyCase], first: int, cases: int, stops: int
) -> SpreadSamples:
    """Collect samples; devices beyond those of a case have no share."""
    drawn = [sample_spread(draw(first + k), stops, first + k) for k in range(cases)]
    kinds = max(s.number.shape[1] for s in drawn)
    p = max(s.number.shape[2] for s in drawn)

    def pad(array: FloatArray) -> FloatArray:
        wide = np.zeros((len(array), kinds, p))
        wide[:, : array.shape[1], : array.shape[2]] = array
        return wide

    columns = [[pad(array) for array in s[1:]] for s in drawn]
    return SpreadSamples(
        np.concatenate([s.feature for s in drawn]),
        *(np.concatenate(parts) for parts in zip(*columns, strict=True)),
    )


# -- the network -------------------------------------------------------------------


class ShrinkageValues(ValueNetworks):
    """The two networks in torch, as `shrinkage_network` computes them."""

    def __init__(self, hidden: int) -> None:
        super().__init__(OUTPUTS, len(FEATURES), hidden)

    def forward(self, feature: Tensor) -> Tensor:
        """Return (samples, 2) logarithms of the priors."""
        out = torch.cat([net(feature) for net in self.nets], 1)
        return out.clamp(-LARGEST, LARGEST)


def _tensors(samples: SpreadSamples) -> SpreadSamples:
    return SpreadSamples(*(torch.from_numpy(np.asarray(array, np.float32)) for array in samples))


def squared_error(log_prior: Tensor, s: SpreadSamples) -> Tensor:
    """Return the mean squared error of the expected log durations, (samples,)."""
    own, of_kind = log_prior.exp().unbind(1)
    own, of_kind = own[:, None, None], of_kind[:, None, None]
    total, count = s.log_sum.sum(1, keepdim=True), s.number.sum(1, keepdim=True)
    expected = (s.log_sum + own * total / (count + of_kind)) / (s.number + own)
    error: Tensor = (s.share * (expected - s.truth) ** 2).sum((1, 2))
    return error


def best_constants(s: SpreadSamples) -> tuple[tuple[float, float], float]:
    """Return the constant priors with the least error, and this error."""
    found: dict[tuple[float, float], float] = {}
    for own in CONSTANTS:
        for of_kind in CONSTANTS:
            logs = torch.log(torch.tensor([own, of_kind])).expand(len(s.feature), 2)
            found[own, of_kind] = float(squared_error(logs, s).mean())
    best = min(found, key=lambda pair: (found[pair], pair))
    return best, found[best]


def train_shrinkage(
    settings: ShrinkageSettings | None = None,
    *,
    draw: Callable[[int], FamilyCase] = draw_biased,
    progress: Progress[dict[str, float]] = silent,
) -> TrainedShrinkage:
    """Train on drawn cases; `progress` receives the row of each tenth epoch."""
    s = settings or ShrinkageSettings()
    torch.manual_seed(s.seed)
    torch.set_num_threads(1)
    began = time.process_time()
    first = FIRST_SEED + s.seed * s.cases
    own = _tensors(_collect(draw, first, s.cases, s.stops))
    judge = _tensors(_collect(draw, VALIDATION_SEED, s.validation, s.stops))
    constants, _ = best_constants(own)
    logs = torch.log(torch.tensor(constants)).expand(len(judge.feature), 2)
    trained = TrainedShrinkage(
        constant_arrays(constants),
        constants,
        np.inf,
        float(squared_error(logs, judge).mean()),
        float((judge.share * judge.truth**2).sum((1, 2)).mean()),
        s,
        samples=len(own.feature),
    )
    _fit(trained, own, judge, began, progress)
    return trained


def _fit(
    trained: TrainedShrinkage,
    own: SpreadSamples,
    judge: SpreadSamples,
    began: float,
    progress: Progress[dict[str, float]],
) -> None:
    s = trained.settings
    net = ShrinkageValues(s.fit.hidden)

    def loss_of(rows: Tensor) -> Tensor:
        part = SpreadSamples(*(column[rows] for column in own))
        return squared_error(net(part.feature), part).mean()

    for epoch, _ in enumerate(fit_network(net, len(own.feature), loss_of, s.fit), 1):
        if epoch % 10 and epoch != s.fit.epochs:
            continue
        with torch.no_grad():
            score = float(squared_error(net(judge.feature), judge).mean())
        trained.seconds = time.process_time() - began
        row = {"epoch": float(epoch), "score": score, "seconds": round(trained.seconds, 1)}
        trained.curve.append(row)
        if score < trained.score:
            trained.score, trained.arrays = score, net.arrays()
        progress(row)
