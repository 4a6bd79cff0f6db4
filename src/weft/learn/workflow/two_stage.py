"""Environment of the two-stage DQN, and training of the policy `dqn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.errors import UnknownName
from weft.generators import Instance
from weft.learn.dqn import DqnSettings, Episode, Exploration, Numbers, TrainedDqn, train
from weft.learn.workflow.tuned_list import (
    VALIDATION,
    clip_ratio,
    copy_sim,
    draw_instances,
    log_completion,
    start_sim,
)
from weft.model.columns import FloatArray
from weft.policies.replanning.portfolio import (
    UNLIMITED,
    WINDOW,
    PlanOptions,
    Portfolio,
    make_portfolio,
    run_by_portfolio,
)
from weft.policies.two_stage.candidates import (
    FEATURES,
    OWN_FEATURES,
    REWARDS,
    Candidates,
    apply,
    make_candidates,
    next_decision,
)
from weft.policies.two_stage.choose import (
    greedy_choice,
    planned_choice,
    run_by_values,
    stage_networks,
)
from weft.policies.two_stage.q_network import QNetwork
from weft.registry import closest
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim

OURS: Mapping[str, float] = {"promise": 1.0}
DOCUMENT: Mapping[str, float] = {"elapsed": 1.0, "idle": 0.3, "imbalance": 0.1, "late": 0.3}
"""Weights of the reward: ours, and the terms of the document. It does not publish its weights;
these are our choice."""


@dataclass(frozen=True, kw_only=True)
class TwoStageSettings(DqnSettings):
    """Settings of the training, see `DqnSettings`.

    Parameters
    ----------
    reward : weights by name, see `weft.policies.two_stage.candidates.Rewards`
    alone, streams : validation instances, of single workflows and of streams
    """

    reward: Mapping[str, float] = field(default_factory=lambda: dict(OURS))
    alone: int = 90
    streams: int = 9

    def __post_init__(self) -> None:
        """Refuse unknown rewards and values out of range."""
        super().__post_init__()
        for name in self.reward:
            if name not in REWARDS:
                raise UnknownName(f"unknown reward '{name}'{closest(name, REWARDS)}")


@njit_noalloc
def record_episode(
    sim: Sim,
    portfolio: Portfolio,
    candidates: Candidates,
    network: QNetwork,
    follow: float,
    explore: float,
    chance: FloatArray,
    episode: Episode,
) -> int:
    """Simulate and record, up to the length of the episode.

    Return the number of decisions.
    """
    for t in range(len(episode.stage)):
        answer = next_decision(sim, portfolio, candidates)
        if t > 0:
            for k in range(len(candidates.reward)):
                episode.reward[t - 1, k] = candidates.reward[k]
        if answer != MOMENT:
            return t
        count = candidates.state[0].count
        if chance[t, 0] < follow:
            choice = planned_choice(candidates)
        elif chance[t, 0] < follow + explore:
            choice = int(chance[t, 1] * count)
        else:
            choice = greedy_choice(network, candidates)
        kept = min(count, episode.candidates.shape[1])
        episode.stage[t], episode.kept[t] = candidates.state[0].stage, kept
        for f in range(FEATURES):
            episode.chosen[t, f] = candidates.feature[choice, f]
            for c in range(kept - 1):
                episode.candidates[t, c, f] = candidates.feature[c, f]
            # The last candidate is to wait, or to hold.
            episode.candidates[t, kept - 1, f] = candidates.feature[count - 1, f]
        task, device = apply(candidates, choice)
        if device >= 0:
            commit(sim, task, device)
    return len(episode.stage)


def portfolio_for(instance: Instance, sim: Sim, sets: Sequence[FloatArray]) -> Portfolio:
    """Make whole plans: of all tasks of a single workflow, in a window for a stream."""
    window = WINDOW if instance.workload.jobs > 1 else UNLIMITED
    options = PlanOptions(window=window, early_exit=False)
    return make_portfolio(instance.workload, sim, sets, options)


class TwoStageEnvironment:
    """Workflows that are scheduled by decisions in two stages."""

    features, own_features = FEATURES, OWN_FEATURES

    def __init__(
        self,
        sets: Sequence[FloatArray],
        settings: TwoStageSettings,
        draw: Callable[[int, int, int], list[Instance]],
    ) -> None:
        self.weights = np.array([settings.reward.get(name, 0.0) for name in REWARDS])
        self._sets, self._seed, self._draw = sets, settings.seed, draw
        self._pool: list[Instance] = []
        self._instances = draw(VALIDATION + 1, settings.alone, settings.streams)
        self._blank = [start_sim(instance) for instance in self._instances]
        self._reference = self._costs(None)

    def run_episode(
        self, number: int, arrays: Mapping[str, Numbers], exploration: Exploration, episode: Episode
    ) -> int:
        """Simulate the next instance, and record its decisions."""
        if not self._pool:
            self._pool = self._draw(self._seed * 100_000 + 50_000 + number, 22, 2)
        instance = self._pool.pop()
        sim = start_sim(instance)
        portfolio, network = portfolio_for(instance, sim, self._sets), stage_networks(arrays)
        follow, explore, rng = exploration
        chance = rng.random((len(episode.stage), 2))
        candidates = make_candidates(sim)
        return record_episode(sim, portfolio, candidates, network, follow, explore, chance, episode)

    def score(self, arrays: Mapping[str, Numbers]) -> float:
        """Return the mean log of the objective over that of following the plan."""
        return float(clip_ratio(self._costs(stage_networks(arrays)) - self._reference).mean())

    def _costs(self, network: QNetwork | None) -> FloatArray:
        return np.array([self._cost(k, network) for k in range(len(self._instances))])

    def _cost(self, k: int, network: QNetwork | None) -> float:
        sim = copy_sim(self._blank[k])
        portfolio = portfolio_for(self._instances[k], sim, self._sets)
        if network is None:
            answer = run_by_portfolio(sim, portfolio)
        else:
            answer = run_by_values(sim, portfolio, make_candidates(sim), network)
        return log_completion(sim) if answer == ENDED else np.inf


def train_two_stage(
    sets: Sequence[FloatArray],
    settings: TwoStageSettings | None = None,
    *,
    draw: Callable[[int, int, int], list[Instance]] = draw_instances,
    start: Mapping[str, Numbers] | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> TrainedDqn:
    """Train the two-stage DQN over the plans of weight sets.

    `start` gives weights to start from.

    `draw(seed, alone, streams)` draws the instances; `progress` receives the row of each
    validation.
    """
    settings = settings or TwoStageSettings()
    environment = TwoStageEnvironment(sets, settings, draw)
    return train(environment, settings, start=start, progress=progress)
