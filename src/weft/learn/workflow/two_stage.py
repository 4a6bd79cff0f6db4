"""DQN for workflows: two Q-networks, one for tasks and one for devices, trained together. The whole loop in one file.

Mnih et al. (2015) with a double estimator (van Hasselt, Guez and Silver 2016), prioritized replay with importance weights (Schaul et
al. 2016), n-step returns and, as an option, dueling heads (Wang et al. 2016). Candidates are scored with shared weights, so that there may
be any number of them. The behaviour follows the plan in part of the turns: demonstrations, as many as `follow` says, in the same memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.errors import InvalidInput, UnknownName
from weft.generators import Instance
from weft.learn.workflow.rule import VALIDATION, copied, draw_cases
from weft.learn.workflow.sum_tree import SumTree
from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.portfolio import FAR, SIGHT, Plans, live_by_plans, make_plans
from weft.policies.two_stage.candidates import (
    FEATURES,
    REWARDS,
    Turn,
    make_turn,
    next_turn,
    take_turn,
)
from weft.policies.two_stage.choose import (
    greedy_choice,
    live_by_values,
    planned_choice,
    turn_networks,
)
from weft.policies.two_stage.q_network import QNetwork
from weft.registry import closest
from weft.rng import generator
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, make_sim

OURS: Mapping[str, float] = {"promise": 1.0}
DOCUMENT: Mapping[str, float] = {"elapsed": 1.0, "idle": 0.3, "imbalance": 0.1, "late": 0.3}
"""Weights of the reward: ours, and the terms of the document (its weights are not published; these are our choice)."""


@dataclass(frozen=True, kw_only=True)
class DqnSettings:
    """What the loop can be told.

    Parameters
    ----------
    seconds, episodes : of training, at most
    reward : weights by name, see `weft.policies.two_stage.candidates.REWARDS`
    updates : of the networks after each episode, with `batch` transitions each
    follow, explore : share of turns that follow the plan, and that are drawn at random (from the first number to the second)
    steps, discount : of n-step returns
    memory : transitions; offered : candidates of a later state that are kept for the double estimator
    alpha, beta : of prioritized replay
    """

    seconds: float = 1500.0
    episodes: int = 20_000
    hidden: int = 32
    reward: Mapping[str, float] = field(default_factory=lambda: dict(OURS))
    rate: float = 3e-4
    batch: int = 128
    updates: int = 16
    follow: tuple[float, float] = (0.8, 0.6)
    explore: tuple[float, float] = (0.1, 0.05)
    steps: int = 64
    discount: float = 1.0
    memory: int = 40_000
    offered: int = 24
    target: int = 500
    alpha: float = 0.6
    beta: float = 0.4
    dueling: bool = True
    every: int = 250
    alone: int = 90
    streams: int = 9
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in self.reward:
            if name not in REWARDS:
                raise UnknownName(f"unknown reward '{name}'{closest(name, REWARDS)}")
        for name in (
            "episodes",
            "hidden",
            "batch",
            "steps",
            "memory",
            "offered",
            "target",
            "every",
        ):
            if getattr(self, name) < 1:
                raise InvalidInput(f"dqn: {name} is {getattr(self, name)}; it must be 1 or more")


# -- episodes -----------------------------------------------------------------


class Tape(NamedTuple):
    """One episode, turn by turn."""

    kind: IntArray  # (turns,)
    chosen: NDArray[np.float32]  # (turns, FEATURES)
    kept: IntArray  # (turns,) candidates kept
    offered: NDArray[np.float32]  # (turns, most candidates, FEATURES)
    reward: FloatArray  # (turns, rewards)


def make_tape(turns: int, offered: int) -> Tape:
    """Room for an episode."""
    return Tape(
        np.zeros(turns, np.int64),
        np.zeros((turns, FEATURES), np.float32),
        np.zeros(turns, np.int64),
        np.zeros((turns, offered, FEATURES), np.float32),
        np.zeros((turns, len(REWARDS))),
    )


@njit_noalloc
def play_episode(
    sim: Sim,
    plans: Plans,
    turn: Turn,
    network: QNetwork,
    follow: float,
    explore: float,
    chance: FloatArray,
    tape: Tape,
) -> int:
    """Play one simulation and write it down, up to the length of the tape; returns the number of turns."""
    for t in range(len(tape.kind)):
        answer = next_turn(sim, plans, turn)
        if t > 0:
            for k in range(len(turn.reward)):
                tape.reward[t - 1, k] = turn.reward[k]
        if answer != MOMENT:
            return t
        if chance[t, 0] < follow:
            choice = planned_choice(turn)
        elif chance[t, 0] < follow + explore:
            choice = int(chance[t, 1] * turn.state[2])
        else:
            choice = greedy_choice(network, turn)
        kept = min(turn.state[2], tape.offered.shape[1])
        tape.kind[t], tape.kept[t] = turn.state[0], kept
        for f in range(FEATURES):
            tape.chosen[t, f] = turn.feature[choice, f]
            for c in range(kept - 1):
                tape.offered[t, c, f] = turn.feature[c, f]
            tape.offered[t, kept - 1, f] = turn.feature[
                turn.state[2] - 1, f
            ]  # the last one waits, or holds
        task, device = take_turn(turn, choice)
        if device >= 0:
            commit(sim, task, device)
    return len(tape.kind)


# -- memory -------------------------------------------------------------------


class Memory:
    """A ring of transitions with priorities.

    A later state is the transition that begins there: it is overwritten after those that look at it.
    """

    def __init__(self, size: int, offered: int, alpha: float) -> None:
        self.size, self._alpha, self.held, self._at, self._highest = size, alpha, 0, 0, 1.0
        self.tape = make_tape(size, offered)
        self.gain, self.discount = np.zeros(size), np.zeros(size)
        self.later = np.zeros(size, np.int64)
        self._tree = SumTree(size)

    def add(self, tape: Tape, turns: int, settings: DqnSettings) -> None:
        """Take over an episode, with its n-step returns."""
        weights = np.array([settings.reward.get(name, 0.0) for name in REWARDS])
        reward = tape.reward[:turns] @ weights
        places = (self._at + np.arange(turns)) % self.size
        for name in ("kind", "chosen", "kept", "offered"):
            getattr(self.tape, name)[places] = getattr(tape, name)[:turns]
        ahead = np.zeros(turns + settings.steps)
        ahead[:turns] = reward
        gain = np.zeros(turns)
        for k in range(settings.steps):
            gain += settings.discount**k * ahead[k : k + turns]
        after = np.arange(turns) + settings.steps
        self.gain[places] = gain
        self.discount[places] = np.where(after < turns, settings.discount**settings.steps, 0.0)
        self.later[places] = (self._at + np.minimum(after, turns - 1)) % self.size
        self._tree.set(places, np.full(turns, self._highest))
        self._at = int((self._at + turns) % self.size)
        self.held = min(self.held + turns, self.size)

    def draw(
        self, batch: int, beta: float, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """Places, and their importance weights."""
        shares = (np.arange(batch) + rng.random(batch)) / batch
        places = self._tree.draw(np.minimum(shares, 1.0 - 1e-12))
        weight = (self._tree.priority(places) / self._tree.total * self.held) ** -beta
        return places, weight / weight.max()

    def learned(self, places: IntArray, error: FloatArray) -> None:
        """New priorities."""
        priority = (np.abs(error) + 1e-3) ** self._alpha
        self._highest = max(self._highest, float(priority.max()))
        self._tree.set(places, priority)


# -- networks -----------------------------------------------------------------


class Values(nn.Module):
    """The Q-networks in torch; `dueling` adds a value of the state and counts advantages from their mean."""

    def __init__(self, hidden: int, *, dueling: bool) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Linear(FEATURES, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, 1, bias=False),
            )
            for _ in range(2)
        )
        for net in self.nets:
            nn.init.zeros_(net[4].weight)  # type: ignore[index]  # all alike at first: the plan's choice is taken
        heads = (
            nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, 1))
            for _ in range(2)
        )
        self.state = nn.ModuleList(heads) if dueling else None

    def advantage(self, kind: Tensor, feature: Tensor) -> Tensor:
        """(batch, ...) what the networks say of candidates; `kind` has one entry a state."""
        out = torch.empty(feature.shape[:-1])
        for k, net in enumerate(self.nets):
            mine = kind == k
            out[mine] = net(feature[mine]).squeeze(-1)
        return out

    def forward(self, kind: Tensor, feature: Tensor, offered: Tensor, mask: Tensor) -> Tensor:
        """(batch, ...) values of candidates in states that offer `offered`."""
        out = self.advantage(kind, feature)
        if self.state is None:
            return out
        others = (self.advantage(kind, offered) * mask).sum(-1) / mask.sum(-1)
        seen = offered[:, 0].clone()
        seen[:, :11] = 0.0  # only what is the same for all candidates
        value = torch.empty(len(kind))
        for k, net in enumerate(self.state):
            value[kind == k] = net(seen[kind == k]).squeeze(-1)
        level = value - others
        return out + (level if out.ndim == 1 else level[:, None])

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays the compiled network acts through."""
        parts: dict[str, list[NDArray[np.float32]]] = {
            name: [] for name in ("w1", "b1", "w2", "b2", "w3")
        }
        for net in self.nets:
            for name, value in (
                ("w1", net[0].weight.T),  # type: ignore[index]
                ("b1", net[0].bias),  # type: ignore[index]
                ("w2", net[2].weight.T),  # type: ignore[index]
                ("b2", net[2].bias),  # type: ignore[index]
                ("w3", net[4].weight[0]),  # type: ignore[index]
            ):
                parts[name].append(value.detach().numpy().astype(np.float32))
        return {name: np.stack(value) for name, value in parts.items()}


# -- the loop -----------------------------------------------------------------


@dataclass
class TrainedDqn:
    """The best networks by validation, and how it went."""

    arrays: dict[str, NDArray[np.float32]]
    settings: DqnSettings
    score: float = np.inf
    seconds: float = 0.0
    episodes: int = 0
    turns: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, object]:
        """Plain values, to be kept beside the weights."""
        counts = {
            "cpu_seconds": round(self.seconds, 1),
            "episodes": self.episodes,
            "turns": self.turns,
        }
        known = {
            "algorithm": "DQN (weft.learn.workflow.two_stage)",
            "seed": self.settings.seed,
            "score": self.score,
        }
        return {**known, **counts, "settings": asdict(self.settings), "curve": self.curve}


def plans_for(case: Instance, sim: Sim, sets: Sequence[FloatArray]) -> Plans:
    """Plans of a case, with sight of all of a lone workflow and of the most urgent tasks of a stream."""
    return make_plans(
        case.workload, sim, sets, most=SIGHT if case.workload.jobs > 1 else FAR, hurry=False
    )


class Validation:
    """The same cases every time: log(objective / that of following the plan)."""

    def __init__(self, sets: Sequence[FloatArray], cases: list[Instance]) -> None:
        self.sets, self.cases = sets, cases
        self._blank = [make_sim(case.workload, case.scenario, None, eager=True) for case in cases]
        self.plan = np.array([self._log(k, None) for k in range(len(cases))])

    def _log(self, k: int, network: QNetwork | None) -> float:
        sim = copied(self._blank[k])
        plans = plans_for(self.cases[k], sim, self.sets)
        answer = (
            live_by_plans(sim, plans)
            if network is None
            else live_by_values(sim, plans, make_turn(sim), network)
        )
        if answer != ENDED:
            return np.inf
        return float(np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()))

    def score(self, network: QNetwork) -> float:
        """Below zero: better than the plan. A single case counts for at most a factor of two."""
        found = np.array([self._log(k, network) for k in range(len(self.cases))])
        return float(np.clip(found - self.plan, -np.log(2), np.log(2)).mean())


def train_dqn(
    sets: Sequence[FloatArray],
    settings: DqnSettings | None = None,
    *,
    draw: Callable[[int, int, int], list[Instance]] = draw_cases,
    start: Mapping[str, NDArray[np.float32]] | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> TrainedDqn:
    """Train on top of the plan that sets of weights make; `start` goes on from networks trained before."""
    settings = settings or DqnSettings()
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    rng = generator(settings.seed, "replan-switch")
    online, target = (
        Values(settings.hidden, dueling=settings.dueling),
        Values(settings.hidden, dueling=settings.dueling),
    )
    if start is not None:
        load_arrays(online, start)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=settings.rate)
    memory = Memory(settings.memory, settings.offered, settings.alpha)
    validation = Validation(sets, draw(VALIDATION + 1, settings.alone, settings.streams))
    tape = make_tape(settings.memory // 8, settings.offered)
    trained = TrainedDqn(online.arrays(), settings)
    began, updates = time.process_time(), 0
    pool: list[Instance] = []
    for episode in range(settings.episodes):
        if not pool:
            pool = draw(settings.seed * 100_000 + 50_000 + episode, 22, 2)
        case = pool.pop()
        done = (
            min(1.0, trained.seconds / settings.seconds)
            if settings.seconds < np.inf
            else episode / settings.episodes
        )
        follow, explore = (a + (b - a) * done for a, b in (settings.follow, settings.explore))
        sim = make_sim(case.workload, case.scenario, None, eager=True)
        plans, chance = plans_for(case, sim, sets), rng.random((len(tape.kind), 2))
        turns = play_episode(
            sim,
            plans,
            make_turn(sim),
            turn_networks(online.arrays()),
            follow,
            explore,
            chance,
            tape,
        )
        if turns > settings.steps:
            memory.add(tape, turns, settings)
        if memory.held > 4 * settings.batch:
            for _ in range(settings.updates):
                _update(
                    online,
                    target,
                    optimizer,
                    memory,
                    settings,
                    settings.beta + (1 - settings.beta) * done,
                    rng,
                )
                updates += 1
                if updates % settings.target == 0:
                    target.load_state_dict(online.state_dict())
        trained.seconds, trained.episodes, trained.turns = (
            time.process_time() - began,
            episode + 1,
            trained.turns + turns,
        )
        last = episode + 1 == settings.episodes or trained.seconds > settings.seconds
        if (episode + 1) % settings.every == 0 or last:
            validate(trained, online, validation, updates, watch)
        if last:
            break
    return trained


def load_arrays(values: Values, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Set the networks to arrays `Values.arrays` gave."""
    with torch.no_grad():
        for k, net in enumerate(values.nets):
            for layer, (weight, bias) in enumerate((("w1", "b1"), ("w2", "b2"))):
                net[2 * layer].weight.copy_(
                    torch.from_numpy(np.ascontiguousarray(arrays[weight][k].T))
                )  # type: ignore[index]
                net[2 * layer].bias.copy_(torch.from_numpy(np.array(arrays[bias][k])))  # type: ignore[index]
            net[4].weight.copy_(torch.from_numpy(np.array(arrays["w3"][k]))[None])  # type: ignore[index]


def _update(
    online: Values,
    target: Values,
    optimizer: torch.optim.Optimizer,
    memory: Memory,
    settings: DqnSettings,
    beta: float,
    rng: np.random.Generator,
) -> None:
    places, importance = memory.draw(settings.batch, beta, rng)
    later = memory.later[places]

    def state(at: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        mask = np.arange(memory.tape.offered.shape[1]) < memory.tape.kept[at][:, None]
        return (
            torch.from_numpy(memory.tape.kind[at]),
            torch.from_numpy(memory.tape.offered[at]),
            torch.from_numpy(mask),
        )

    with torch.no_grad():
        kind, offered, mask = state(later)
        best = online(kind, offered, offered, mask).masked_fill(~mask, -torch.inf).argmax(1)
        ahead = target(kind, offered, offered, mask).gather(1, best[:, None]).squeeze(1)
        goal = (
            torch.from_numpy(memory.gain[places]).float()
            + torch.from_numpy(memory.discount[places]).float() * ahead
        )
    kind, offered, mask = state(places)
    value = online(kind, torch.from_numpy(memory.tape.chosen[places]), offered, mask)
    loss = (
        torch.from_numpy(importance).float()
        * nn.functional.smooth_l1_loss(value, goal, reduction="none", beta=0.1)
    ).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(online.parameters(), 1.0)
    optimizer.step()
    memory.learned(places, (value - goal).detach().numpy().astype(np.float64))


def validate(
    trained: TrainedDqn,
    online: Values,
    validation: Validation,
    updates: int,
    watch: Callable[[dict[str, float]], None] | None,
) -> None:
    """Score the networks, and keep them where they are the best so far."""
    arrays = online.arrays()
    score = validation.score(turn_networks(arrays))
    row = {
        "episode": trained.episodes,
        "updates": updates,
        "seconds": round(trained.seconds, 1),
        "score": score,
    }
    trained.curve.append(row)
    if score < trained.score:
        trained.arrays, trained.score = arrays, score
    if watch is not None:
        watch(row)
