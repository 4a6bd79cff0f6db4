"""Training of the switch of `replan-switch`, from rollouts.

A round simulates instances by the policy so far. Each simulation stops at random events; from there
both options are followed to the end, in the same future. The value of each, against the mean of
both, is the target of the network (`policies/replanning/switch.py`). The policy of the next round
takes the option with the higher value at every event: with true values that is never worse than
either option (Sutton, Precup and Singh 1999, theorem 2). Values of following one option to the end
do not depend on the policy, so samples of earlier rounds stay valid; only the states that a policy
visits change. Targets are complete outcomes without bootstrapping, and random effects that both
options share cancel.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.generators import Instance, draw_instance
from weft.learn.settings import Count, InstanceSettings, TrainingRecord
from weft.learn.value_networks import FitSettings, ValueNetworks, fit_network
from weft.learn.workflow.tuned_list import ALONE, VALIDATION, clip_ratio, log_completion, start_sim
from weft.model.columns import Float32Array, FloatArray
from weft.policies.q_network import NetworkArrays, empty_network
from weft.policies.replanning.portfolio import (
    MOVES,
    WINDOW,
    PlanOptions,
    Portfolio,
    advance_to_decision,
    commit_planned,
    copy_portfolio,
    describe,
    make_portfolio,
    replan,
    run_by_portfolio,
)
from weft.policies.replanning.switch import FEATURES, switch_network
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.tables import Sim, copy_sim
from weft.typed import typed_dataclass

MARGINS = (0.0, 0.05, 0.1, 0.2)
"""Margins that each validation tries, in tenths of a logarithm."""
LARGEST_VALUE = 2.0
"""Largest absolute value of an option: a factor of 1.5 between the two."""


@typed_dataclass(frozen=True, kw_only=True)
class SwitchSettings(InstanceSettings):
    """Settings of the training.

    Parameters
    ----------
    rounds : of simulating and fitting; alone, streams : instances per round
    stops : mean stops per simulation; in the first round the option is drawn at random there
    fit : of the network
    validation : number of single workflows to validate with; there is one stream per eight of them
    processes : worker processes; results do not depend on it
    """

    rounds: Count = 3
    alone: int = 1500
    streams: int = 100
    stops: Count = 6
    fit: FitSettings = field(default_factory=FitSettings)
    validation: Count = 240
    processes: Count = 2


class Switch(NamedTuple):
    """Arrays of a network, and the margin of its decisions."""

    arrays: NetworkArrays
    margin: float


@dataclass
class TrainedSwitch(TrainingRecord):
    """The best network by validation, and the curve of the training.

    The score is the mean log of the objective over that of planning again at every event.
    """

    algorithm: ClassVar[str] = "Q-values of two options, from rollouts (weft.learn.workflow.switch)"
    recorded: ClassVar[tuple[str, ...]] = ("samples",)
    arrays: NetworkArrays
    margin: float
    settings: SwitchSettings
    score: float = math.inf
    seconds: float = 0.0
    samples: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)


# -- samples -----------------------------------------------------------------------


Draw = Callable[[], Instance]
"""Draws an instance; it is small enough to send to another process."""


def make_draws(seed: int, alone: int, streams: int) -> list[Draw]:
    """Return draws of single workflows under all conditions in turn, and of streams.

    Jobs have 20 to 150 tasks, streams 6 to 16 jobs; CCR is 0.1 to 6, load 0.7 to 0.95.
    """
    rng = generator(seed, "plan values", "cases")
    draws: list[Draw] = []
    for k in range(alone + streams):
        ccr, load = float(10 ** rng.uniform(-1.0, 0.8)), float(rng.uniform(0.7, 0.95))
        jobs = int(rng.integers(6, 17)) if k >= alone else 1
        condition, own = ALONE[k % len(ALONE)] if k < alone else "stream", seed * 10_000 + k
        draws.append(partial(draw_instance, condition, seed=own, jobs=jobs, ccr=ccr, load=load))
    return draws


def time_left(sim: Sim, portfolio: Portfolio, keep: int) -> float:
    """Follow an option to the end; return the time that jobs spend from now on."""
    now, sim = float(sim.world["now"][0]), copy_sim(sim)
    portfolio = copy_portfolio(portfolio)._replace(switch=empty_network(1))
    portfolio.state["keep"] = keep
    commit_planned(sim, portfolio, replan(sim, portfolio))
    if run_by_portfolio(sim, portfolio) != ENDED:
        return math.inf
    begin = np.maximum(sim.job["arrival"][:-1], now)
    return float(np.maximum(sim.job["finish"][:-1] - begin, 0.0).sum())


def sample_values(
    case: Instance,
    sets: Sequence[FloatArray],
    switch: Switch | None,
    settings: SwitchSettings,
    seed: int,
) -> list[FloatArray]:
    """Return samples of one instance, each (options, features and value)."""
    rng = generator(seed, "plan values", "stops")
    sim = start_sim(case)
    portfolio = _portfolio_of(case, sim, sets, switch)
    chance = settings.stops * (1 if case.workload.jobs == 1 else 2) / (0.7 * len(sim.inst))
    samples: list[FloatArray] = []
    first = True
    while advance_to_decision(sim, portfolio) == MOMENT:
        if first or rng.random() < chance:
            describe(sim, portfolio)
            features = portfolio.features.copy()
            left = np.array([time_left(sim, portfolio, keep) for keep in (0, 1)])
            if np.isfinite(left).all() and left.min() > 0.0:
                value = 10.0 * (np.log(left).mean() - np.log(left))
                value = np.clip(value, -LARGEST_VALUE, LARGEST_VALUE)
                samples.append(np.column_stack((features, value)))
            if switch is None:
                portfolio.state["keep"] = rng.integers(2)
        commit_planned(sim, portfolio, replan(sim, portfolio))
        first = False
    return samples


def outcome(case: Instance, sets: Sequence[FloatArray], switch: Switch | None) -> float:
    """Return the log of the mean completion time."""
    sim = start_sim(case)
    answer = run_by_portfolio(sim, _portfolio_of(case, sim, sets, switch))
    return log_completion(sim) if answer == ENDED else math.inf


def _portfolio_of(
    case: Instance, sim: Sim, sets: Sequence[FloatArray], switch: Switch | None
) -> Portfolio:
    options = PlanOptions(window=WINDOW, moves=MOVES, affinity=True)
    if switch is None:
        return make_portfolio(case.workload, sim, sets, options)
    network = switch_network(switch.arrays)
    return make_portfolio(case.workload, sim, sets, options, switch=network, margin=switch.margin)


# -- the network ----------------------------------------------------------------


class SwitchValues(ValueNetworks):
    """The compiled network in torch."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__(1, features, hidden)

    def forward(self, feature: Tensor) -> Tensor:
        """Map (..., features) to (...)."""
        value: Tensor = self.nets[0](feature)
        return value.squeeze(-1)


def fit(samples: Float32Array, settings: SwitchSettings, round_: int) -> tuple[SwitchValues, float]:
    """Fit a network to samples (stops, options, features and value).

    Also return the share of the variance that is left unexplained.
    """
    torch.manual_seed(settings.seed * 1000 + round_)
    torch.set_num_threads(1)
    feature, target = torch.from_numpy(samples[..., :-1]), torch.from_numpy(samples[..., -1])
    net = SwitchValues(feature.shape[-1], settings.fit.hidden)

    def loss_of(rows: Tensor) -> Tensor:
        value: Tensor = net(feature[rows])
        # Only differences between the options matter.
        return ((value - value.mean(1, keepdim=True) - target[rows]) ** 2).mean()

    *_, left = fit_network(net, len(feature), loss_of, settings.fit)
    return net, left / max(float((target**2).mean()), 1e-12)


# -- training ----------------------------------------------------------------------


def train_switch(
    sets: Sequence[FloatArray],
    settings: SwitchSettings | None = None,
    *,
    draws_of: Callable[[int, int, int], list[Draw]] = make_draws,
    progress: Progress[dict[str, float]] = silent,
) -> TrainedSwitch:
    """Learn when to keep an incumbent among the plans of weight sets.

    `draws_of(seed, alone, streams)` gives the instances; `progress` receives the row of each round.
    """
    s = settings or SwitchSettings()
    samples: list[FloatArray] = []
    switch: Switch | None = None
    trained = TrainedSwitch(SwitchValues(len(FEATURES), s.fit.hidden).arrays(), 0.0, s)
    with _mapping(s.processes) as apply_all:
        draws = draws_of(VALIDATION + 3, s.validation, s.validation // 8)
        validation = _Validation(draws, sets, apply_all)
        for round_ in range(s.rounds):
            draws = draws_of(s.seed * 100 + round_ + 40, s.alone, s.streams)
            first = (s.seed * 100 + round_) * 100_000
            jobs = [(draw, sets, switch, s, first + k) for k, draw in enumerate(draws)]
            for found, seconds in apply_all(_samples_of, jobs):
                samples += found
                trained.seconds += seconds
            began = time.process_time()
            net, unexplained = fit(np.stack(samples).astype(np.float32), s, round_)
            trained.seconds += time.process_time() - began
            arrays = net.arrays()
            scores = {margin: validation.score(Switch(arrays, margin)) for margin in MARGINS}
            margin = min(scores, key=lambda m: (scores[m], m))
            switch = Switch(arrays, margin)
            trained.seconds += validation.seconds
            trained.samples, validation.seconds = len(samples), 0.0
            row = {
                "round": round_ + 1.0,
                "samples": float(len(samples)),
                "unexplained": unexplained,
                "margin": margin,
                "score": scores[margin],
                "greedy": scores[0.0],
                "seconds": round(trained.seconds, 1),
            }
            trained.curve.append(row)
            if scores[margin] < trained.score:
                trained.arrays, trained.margin, trained.score = arrays, margin, scores[margin]
            progress(row)
    return trained


_Map = Callable[[Callable[[tuple[Any, ...]], Any], list[tuple[Any, ...]]], Iterator[Any]]


class _Validation:
    """The same instances every time; streams count as much as one condition."""

    def __init__(self, draws: Sequence[Draw], sets: Sequence[FloatArray], apply_all: _Map) -> None:
        self._draws, self._sets = draws, sets
        self._apply_all, self.seconds = apply_all, 0.0
        self._reference = self._outcomes(None)

    def _outcomes(self, switch: Switch | None) -> FloatArray:
        jobs = [(draw, self._sets, switch) for draw in self._draws]
        found = list(self._apply_all(_outcome_of, jobs))
        self.seconds += sum(seconds for *_, seconds in found)
        self._weight = np.array([1.0 if alone else 1.6 for _, alone, _ in found])
        return np.array([value for value, *_ in found])

    def score(self, switch: Switch) -> float:
        """Return the mean log of the objective over that of planning again at every event."""
        change = clip_ratio(self._outcomes(switch) - self._reference)
        return float((change * self._weight).sum() / self._weight.sum())


@contextmanager
def _mapping(processes: int) -> Iterator[_Map]:
    """Yield a map over instances, in order, in this process or in several."""
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield lambda work, jobs: pool.map(work, jobs, chunksize=4)


def _samples_of(job: tuple[Any, ...]) -> tuple[list[FloatArray], float]:
    draw, *settings = job
    began = time.process_time()
    samples = sample_values(draw(), *settings)
    return samples, time.process_time() - began


def _outcome_of(job: tuple[Any, ...]) -> tuple[float, bool, float]:
    draw, sets, switch = job
    began, case = time.process_time(), draw()
    return outcome(case, sets, switch), case.workload.jobs == 1, time.process_time() - began
