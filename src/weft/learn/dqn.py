"""DQN with candidates: one Q-network per stage of a decision, trained together.

Mnih et al. (2015) with a double estimator (van Hasselt, Guez and Silver 2016), prioritized replay
with importance weights (Schaul et al. 2016), n-step returns and, as options, dueling heads (Wang et
al. 2016), soft values and demonstrations. Candidates are scored with shared weights, so that their
number may vary. The behaviour follows the demonstrated choice in part of the decisions (`follow`).
Every stored decision has the demonstrated candidate, even if the behaviour chose another one; a
large-margin loss lifts its value above the values of the others (Hester et al. 2018, equation 2).

`weft.learn.workflow.two_stage` trains the policy `dqn` with it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from weft.learn.replay_memory import Episode, ReplayMemory, make_episode
from weft.learn.settings import Count, Settings, TrainingRecord
from weft.learn.value_networks import ValueNetworks
from weft.model.columns import FloatArray, IntArray
from weft.policies.q_network import NetworkArrays
from weft.progress import Progress, silent
from weft.rng import generator
from weft.typed import typed_dataclass


@typed_dataclass(frozen=True, kw_only=True)
class DqnSettings(Settings):
    """Settings of the training.

    Parameters
    ----------
    seconds, episodes : limits of the training
    hidden, dueling : hidden units, and whether the heads of the networks are dueling
    rate, batch : learning rate, and transitions per update
    updates : of the networks after each episode
    follow, explore : share of decisions that follow the demonstration, and that are random; from
        the first number at the start to the second at the end
    steps, discount : n and the discount of n-step returns
    temperature : the value of a later state is the mean over its candidates, weighted by exp(value
        / temperature); 0: the value of the best candidate
    imitate, lead : weight of the large-margin loss, and the lead in value that it gives to the
        demonstrated candidate; 0: none
    memory : transitions; candidates : candidates of a later state that the memory keeps
    target : updates between two copies of the online to the target network
    alpha, beta : of prioritized replay
    every : episodes between validations
    """

    seconds: float = 1500.0
    episodes: Count = 20_000
    hidden: Count = 32
    rate: float = 3e-4
    batch: Count = 128
    updates: int = 16
    follow: tuple[float, float] = (0.8, 0.6)
    explore: tuple[float, float] = (0.1, 0.05)
    steps: Count = 64
    discount: float = 1.0
    temperature: float = 0.0
    imitate: float = 0.0
    lead: float = 0.05
    memory: Count = 40_000
    candidates: Count = 24
    target: Count = 500
    alpha: float = 0.6
    beta: float = 0.4
    dueling: bool = True
    every: Count = 250
    seed: int = 0


class Exploration(NamedTuple):
    """Chances to follow the plan and to choose at random, and the random draws."""

    follow: float
    explore: float
    rng: np.random.Generator


class Environment(Protocol):
    """Episodes to learn from, and a score.

    `features` is the number of features of a candidate, of which the first `own_features` differ
    between the candidates of a decision. `weights` are those of the reward terms.
    """

    features: int
    own_features: int
    weights: FloatArray

    def run_episode(
        self, number: int, arrays: NetworkArrays, exploration: Exploration, episode: Episode
    ) -> int:
        """Fill in an episode, up to its length; return the number of decisions."""
        ...

    def score(self, arrays: NetworkArrays) -> tuple[float, float]:
        """Return the score of choices by networks (lower is better), and their margin."""
        ...


# -- networks ----------------------------------------------------------------------


class QValues(ValueNetworks):
    """The Q-networks in torch, one per stage.

    `dueling` adds a value of the state, and subtracts their mean from the advantages. The state is
    the features from `own_features` on, which all candidates share.
    """

    def __init__(self, features: int, hidden: int, *, dueling: bool, own_features: int = 0) -> None:
        super().__init__(2, features, hidden)
        self._own_features = own_features
        for net in self.nets:
            nn.init.zeros_(net[4].weight)  # type: ignore[index]  # equal: the given choice is taken
        heads = (
            nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1))
            for _ in self.nets
        )
        self.state = nn.ModuleList(heads) if dueling else None

    def advantage(self, stage: Tensor, feature: Tensor) -> Tensor:
        """Return the (batch, ...) outputs of the networks of each state's `stage`."""
        out = torch.empty(feature.shape[:-1])
        for k, net in enumerate(self.nets):
            mine = stage == k
            out[mine] = net(feature[mine]).squeeze(-1)
        return out

    def forward(self, stage: Tensor, feature: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Return the (batch, ...) values of features in states with these candidates."""
        out = self.advantage(stage, feature)
        if self.state is None:
            return out
        others = (self.advantage(stage, candidates) * mask).sum(-1) / mask.sum(-1)
        shared = candidates[:, 0].clone()
        shared[:, : self._own_features] = 0.0
        value = torch.empty(len(stage))
        for k, net in enumerate(self.state):
            value[stage == k] = net(shared[stage == k]).squeeze(-1)
        level = value - others
        return out + (level if out.ndim == 1 else level[:, None])


# -- training ----------------------------------------------------------------------


@dataclass
class TrainedDqn(TrainingRecord):
    """The best networks by validation, and the curve of the training."""

    algorithm: ClassVar[str] = "DQN (weft.learn.dqn)"
    recorded: ClassVar[tuple[str, ...]] = ("margin", "episodes", "decisions")
    arrays: NetworkArrays
    settings: DqnSettings
    score: float = np.inf
    margin: float = 0.0
    seconds: float = 0.0
    episodes: int = 0
    decisions: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)


def train(
    environment: Environment,
    settings: DqnSettings,
    *,
    progress: Progress[dict[str, float]] = silent,
    checkpoint: Progress[TrainedDqn] = silent,
) -> TrainedDqn:
    """Train Q-networks in an environment.

    `progress` receives the row of each validation, `checkpoint` the state at each new best score.
    """
    s = settings
    torch.manual_seed(s.seed)
    torch.set_num_threads(1)
    rng = generator(s.seed, "replan-switch")  # the name is part of the seed of published results
    features, own = environment.features, environment.own_features
    online, target = (
        QValues(features, s.hidden, dueling=s.dueling, own_features=own) for _ in range(2)
    )
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=s.rate)
    memory = ReplayMemory(s, features)
    episode = make_episode(s.memory // 8, s.candidates, features, len(environment.weights))
    trained = TrainedDqn(online.arrays(), s)
    began, updates = time.process_time(), 0
    for number in range(s.episodes):
        done = min(1.0, trained.seconds / s.seconds) if s.seconds < np.inf else number / s.episodes
        follow, explore = (a + (b - a) * done for a, b in (s.follow, s.explore))
        arrays = online.arrays()
        decisions = environment.run_episode(
            number, arrays, Exploration(follow, explore, rng), episode
        )
        if decisions > s.steps:
            memory.add(episode, episode.reward[:decisions] @ environment.weights)
        if memory.held > 4 * s.batch:
            for _ in range(s.updates):
                _update(online, target, optimizer, memory, s, s.beta + (1 - s.beta) * done, rng)
                updates += 1
                if updates % s.target == 0:
                    target.load_state_dict(online.state_dict())
        trained.seconds, trained.episodes = time.process_time() - began, number + 1
        trained.decisions += decisions
        last = number + 1 == s.episodes or trained.seconds > s.seconds
        if (number + 1) % s.every == 0 or last:
            if _validate(trained, environment, online.arrays(), updates):
                checkpoint(trained)
            progress(trained.curve[-1])
        if last:
            break
    return trained


def _update(
    online: QValues,
    target: QValues,
    optimizer: torch.optim.Optimizer,
    memory: ReplayMemory,
    s: DqnSettings,
    beta: float,
    rng: np.random.Generator,
) -> None:
    places, importance = memory.draw(beta, rng)
    with torch.no_grad():
        stage, candidates, mask = memory.state(memory.later[places])
        value = online(stage, candidates, candidates, mask).masked_fill(~mask, -torch.inf)
        later = target(stage, candidates, candidates, mask)
        if s.temperature > 0.0:
            ahead = (torch.softmax(value / s.temperature, 1) * later * mask).sum(1)
        else:
            ahead = later.gather(1, value.argmax(1, keepdim=True)).squeeze(1)
        gain, discount = memory.gain[places], memory.discount[places]
        goal = torch.from_numpy(gain).float() + torch.from_numpy(discount).float() * ahead
    stage, candidates, mask = memory.state(places)
    value = online(stage, torch.from_numpy(memory.episode.chosen[places]), candidates, mask)
    error = nn.functional.smooth_l1_loss(value, goal, reduction="none", beta=0.1)
    weight = torch.from_numpy(importance).float()
    loss = (weight * error).mean()
    if s.imitate > 0.0:
        loss = loss + s.imitate * (weight * _lead_loss(online, memory, places, s.lead)).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    nn.utils.clip_grad_norm_(online.parameters(), 1.0)
    optimizer.step()
    memory.set_errors(places, (value - goal).detach().numpy().astype(np.float64))


def _lead_loss(online: QValues, memory: ReplayMemory, places: IntArray, lead: float) -> Tensor:
    """Return by how much the demonstrated candidates miss their lead in value."""
    stage, candidates, mask = memory.state(places)
    shown = torch.from_numpy(memory.episode.shown[places])
    value = online.advantage(stage, candidates)
    own = value.gather(1, shown.clamp(min=0)[:, None])
    others = torch.arange(value.shape[1])[None] != shown[:, None]
    best = (value + lead * others).masked_fill(~mask, -torch.inf).amax(1)
    return (best - own.squeeze(1)) * (shown >= 0)


def _validate(
    trained: TrainedDqn, environment: Environment, arrays: NetworkArrays, updates: int
) -> bool:
    """Score networks; keep them if they are the best, and return whether they are."""
    score, margin = environment.score(arrays)
    trained.curve.append(
        {
            "episode": trained.episodes,
            "updates": updates,
            "seconds": round(trained.seconds, 1),
            "score": score,
            "margin": margin,
        }
    )
    better = score < trained.score
    if better:
        trained.arrays, trained.score, trained.margin = arrays, score, margin
    return better
