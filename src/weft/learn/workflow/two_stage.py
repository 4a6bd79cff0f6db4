"""Environment of the two-stage DQN, and training of the policy `dqn`.

Instances come from families of real workflows (`draw_families`), those on which constants of
policies are chosen. The demonstrations are the decisions of a search at every moment
(`policies/search`), whatever the networks did before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from weft.errors import UnknownName
from weft.generators import Instance
from weft.generators.families.distribution import DEVELOPMENT, FAMILY_CONDITIONS, LOADS, draw_case
from weft.learn.dqn import DqnSettings, Exploration, QValues, TrainedDqn, train
from weft.learn.replay_memory import Episode
from weft.learn.workflow.tuned_list import VALIDATION, clip_ratio, draw_instances, log_completion
from weft.model.columns import FloatArray
from weft.policies.graph.deft import commit_choice
from weft.policies.q_network import NetworkArrays, QNetwork
from weft.policies.replanning.portfolio import (
    UNLIMITED,
    WINDOW,
    PlanOptions,
    Portfolio,
    make_portfolio,
)
from weft.policies.search.planning import IncumbentSearch, SearchOptions, make_search, search_from
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.choose import (
    demonstrated_choice,
    greedy_choice,
    planned_choice,
    run_by_values,
    stage_networks,
)
from weft.policies.two_stage.decision import (
    FEATURES,
    OWN_FEATURES,
    REWARDS,
    Candidates,
    make_candidates,
)
from weft.progress import Progress, silent
from weft.registry import closest
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, copy_sim, make_sim
from weft.typed import typed_dataclass

OURS: Mapping[str, float] = {"promise": 1.0}
DOCUMENT: Mapping[str, float] = {"elapsed": 1.0, "idle": 0.3, "imbalance": 0.1, "late": 0.3}
"""Weights of the reward: ours, and the terms of the document. It does not publish its weights;
these are our choice."""


@typed_dataclass(frozen=True, kw_only=True)
class TwoStageSettings(DqnSettings):
    """Settings of the training, see `DqnSettings`.

    Parameters
    ----------
    reward : weights by name, see `weft.policies.two_stage.decision.Rewards`
    alone, streams : validation instances, of single workflows and of streams
    margins : margins that a validation tries: by how much the value of another candidate must
            exceed that of the planned one
    work, first_work : of the search that demonstrates, see `SearchOptions`; 0: the plan
        demonstrates
    affinity, copies : of the policy, see `PlanOptions` and `TwoStageDqn`
    """

    reward: Mapping[str, float] = field(default_factory=lambda: dict(OURS))
    alone: int = 90
    streams: int = 9
    margins: tuple[float, ...] = (0.0,)
    work: float = 0.0
    first_work: float = 0.0
    affinity: bool = False
    copies: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown rewards and values out of range."""
        super().__post_init__()
        for name in self.reward:
            if name not in REWARDS:
                raise UnknownName(f"unknown reward '{name}'{closest(name, REWARDS)}")


def family_settings(**changes: Any) -> TwoStageSettings:
    """Return settings of `weft train dqn`: search demonstrates; soft values; copies."""
    own: dict[str, Any] = {
        "reward": dict(DOCUMENT),
        "follow": (0.6, 0.3),
        "explore": (0.05, 0.02),
        "imitate": 1.0,
        "temperature": 0.02,
        "margins": (0.0, 0.02, 0.05, 0.1),
        "alone": 42,
        "streams": 6,
        "work": 3_000.0,
        "first_work": 50_000.0,
        "affinity": True,
        "copies": True,
        "every": 200,
    }
    return TwoStageSettings(**own | changes)


@njit_noalloc
def record_episode(
    sim: Sim,
    portfolio: Portfolio,
    candidates: Candidates,
    network: QNetwork,
    search: IncumbentSearch,
    follow: float,
    explore: float,
    chance: FloatArray,
    episode: Episode,
) -> int:
    """Simulate and record up to the length of the episode; return the decisions made."""
    seconds, ended = -1.0, -1
    for t in range(len(episode.stage)):
        answer = next_decision(sim, portfolio, candidates)
        if t > 0:
            for k in range(len(candidates.reward)):
                episode.reward[t - 1, k] = candidates.reward[k]
        if answer != MOMENT:
            return t
        count = candidates.state[0].count
        if search.state[0].first_work > 0.0:
            if sim.world[0].now != seconds or sim.world[0].executions != ended:
                seconds, ended = sim.world[0].now, sim.world[0].executions
                search_from(sim, portfolio, search, portfolio.state[0].followed)
            shown = demonstrated_choice(candidates, search.first)
        else:
            shown = planned_choice(candidates)
        if chance[t, 0] < follow:
            choice = shown
        elif chance[t, 0] < follow + explore:
            choice = int(chance[t, 1] * count)
        else:
            choice = greedy_choice(network, candidates, 0.0)
        kept = min(count, episode.candidates.shape[1])
        episode.shown[t] = kept - 1 if shown == count - 1 else shown if shown < kept - 1 else -1
        episode.stage[t], episode.kept[t] = candidates.state[0].stage, kept
        for f in range(FEATURES):
            episode.chosen[t, f] = candidates.feature[choice, f]
            for c in range(kept - 1):
                episode.candidates[t, c, f] = candidates.feature[c, f]
            # The last candidate is to wait, or to hold.
            episode.candidates[t, kept - 1, f] = candidates.feature[count - 1, f]
        task, device = apply(candidates, choice)
        if device >= 0:
            commit_choice(sim, task, device)
    return len(episode.stage)


def portfolio_for(
    instance: Instance, sim: Sim, sets: Sequence[FloatArray], *, affinity: bool = False
) -> Portfolio:
    """Make whole plans: of all tasks of a single workflow, in a window for a stream."""
    window = WINDOW if instance.workload.jobs > 1 else UNLIMITED
    options = PlanOptions(window=window, early_exit=False, affinity=affinity)
    return make_portfolio(instance.workload, sim, sets, options)


def draw_families(seed: int, alone: int, streams: int) -> list[Instance]:
    """Draw workflows of the families under all conditions, and streams.

    Families that are left out are not drawn.

    Examples
    --------
    >>> [instance.workload.jobs for instance in draw_families(1, 2, 1)]
    [1, 1, 6]
    """
    single = [name for name in FAMILY_CONDITIONS if name not in LOADS]
    found = []
    for k in range(alone + streams):
        names = single if k < alone else list(LOADS)
        case = draw_case(names[k % len(names)], seed=seed * 1000 + k, families=DEVELOPMENT, jobs=6)
        found.append(case.instance)
    return found


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
        self._sets, self._settings, self._draw = sets, settings, draw
        self._pool: list[Instance] = []
        self._instances = draw(VALIDATION + 1, settings.alone, settings.streams)
        self._blank = [self._start(instance) for instance in self._instances]
        self._reference = self._costs(None, 0.0)

    def run_episode(
        self, number: int, arrays: NetworkArrays, exploration: Exploration, episode: Episode
    ) -> int:
        """Simulate the next instance, and record its decisions."""
        s = self._settings
        if not self._pool:
            self._pool = self._draw(s.seed * 100_000 + 50_000 + number, 22, 2)
        instance = self._pool.pop()
        sim = self._start(instance)
        portfolio = portfolio_for(instance, sim, self._sets, affinity=s.affinity)
        follow, explore, rng = exploration
        chance = rng.random((len(episode.stage), 2))
        search = make_search(
            instance.workload,
            sim,
            int(portfolio.state["window"][0]),
            SearchOptions(work=s.work, first_work=s.first_work),
            seed=number,
        )
        network = stage_networks(arrays)
        return record_episode(
            sim, portfolio, make_candidates(sim), network, search, follow, explore, chance, episode
        )

    def score(self, arrays: NetworkArrays) -> tuple[float, float]:
        """Return the least mean log of the objective over the plan's, and its margin."""
        network, found = stage_networks(arrays), {}
        for margin in self._settings.margins:
            change = clip_ratio(self._costs(network, margin) - self._reference)
            found[margin] = float(change.mean())
        best = min(found, key=lambda margin: (found[margin], margin))
        return found[best], best

    def _start(self, instance: Instance) -> Sim:
        copies = self._settings.copies
        return make_sim(instance.workload, instance.scenario, None, eager=True, copies=copies)

    def _costs(self, network: QNetwork | None, margin: float) -> FloatArray:
        """Return the logs of the objectives; without a network, of following the plan."""
        network = network or stage_networks(QValues(FEATURES, 1, dueling=False).arrays())
        return np.array([self._cost(k, network, margin) for k in range(len(self._instances))])

    def _cost(self, k: int, network: QNetwork, margin: float) -> float:
        sim, affinity = copy_sim(self._blank[k]), self._settings.affinity
        portfolio = portfolio_for(self._instances[k], sim, self._sets, affinity=affinity)
        answer = run_by_values(sim, portfolio, make_candidates(sim), network, margin)
        return log_completion(sim) if answer == ENDED else np.inf


def train_two_stage(
    sets: Sequence[FloatArray],
    settings: TwoStageSettings | None = None,
    *,
    draw: Callable[[int, int, int], list[Instance]] = draw_instances,
    progress: Progress[dict[str, float]] = silent,
    checkpoint: Progress[TrainedDqn] = silent,
) -> TrainedDqn:
    """Train the two-stage DQN over the plans of weight sets.

    `draw(seed, alone, streams)` draws the instances; `progress` receives the row of each
    validation, `checkpoint` the state at each new best score.
    """
    settings = settings or TwoStageSettings()
    environment = TwoStageEnvironment(sets, settings, draw)
    return train(environment, settings, progress=progress, checkpoint=checkpoint)
