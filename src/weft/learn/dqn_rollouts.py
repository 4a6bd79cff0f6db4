"""The DQN scheduler's values from rollouts: what would have come of another choice, everything else being equal.

Bootstrapped targets (`learn/dqn.py`) carry the noise of whole runs; one choice among hundreds changes little. Here a run follows the
policy so far, is stopped at a turn, and goes on from there twice in the same future: once with the policy's own choice, once with another.
The difference of the two completions, in mean paths, is what the choice was worth, without bootstrapping and without the noise that both
share. A device's value is learned from that; a task's is the best value of its devices. The result is the policy for the next round:
approximate policy iteration (Lagoudakis and Parr 2003) with rollouts (Bertsekas 2013), and the networks of the DQN.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weft.errors import InvalidInput
from weft.generate import Case
from weft.learn.dqn import TrainedDqn, Validation, Values, load_arrays, plans_for, validate
from weft.learn.rule_search import VALIDATION, copied, draw_cases
from weft.model.columns import FloatArray, IntArray
from weft.policies.dispatch import DEVICE, FEATURES, TASK, Turn, make_turn, next_turn, offer, take_turn
from weft.policies.plans import FOLLOWED, Plans, copy_plans
from weft.policies.q_network import QNetwork, greedy_choice, live_by_values, planned_choice, q_network, q_value
from weft.rng import stream
from weft.sim.commitment import commit
from weft.sim.jit import lean
from weft.sim.kernel import ENDED, MOMENT
from weft.sim.tables import Sim, make_sim


@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """What the loop can be told.

    Parameters
    ----------
    seconds : of training
    stops : turns of a run at which other choices are tried; tries : how many at each
    rounds : after each of that many parts of the time, the policy so far is the one that is followed
    """

    seconds: float = 1500.0
    hidden: int = 32
    stops: int = 10
    tries: int = 3
    rounds: int = 3
    rate: float = 1e-3
    batch: int = 256
    updates: int = 12
    memory: int = 200_000
    every: int = 300
    alone: int = 150
    streams: int = 15
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("hidden", "stops", "tries", "rounds", "batch", "memory", "every"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"rollouts: {name} is {getattr(self, name)}; it must be 1 or more")


@lean
def live_turns(sim: Sim, plans: Plans, turn: Turn, network: QNetwork, caution: float, stop: int) -> int:
    """Follow the policy for so many turns, and stop where the next choice is due; returns the turns taken, fewer at the end of the run."""
    for t in range(stop):
        if next_turn(sim, plans, turn) != MOMENT:
            return t
        task, device = take_turn(turn, greedy_choice(network, turn, caution))
        if device >= 0:
            commit(sim, task, device)
    return stop if next_turn(sim, plans, turn) == MOMENT else stop - 1


@lean
def best_device_values(sim: Sim, plans: Plans, turn: Turn, network: QNetwork, value: FloatArray) -> None:
    """For every candidate of a task turn, the best value of its devices; 0 for waiting. The turn is as it was afterwards."""
    count = turn.state[2]
    for c in range(count):
        value[c] = 0.0
        if turn.offer[c] < 0:
            continue
        # The offer of the device turn overwrites that of the task turn: it is made anew below.
        turn.state[0], turn.state[1] = DEVICE, turn.offer[c]
        offer(sim, plans, turn)
        best = -np.inf
        for k in range(turn.state[2]):
            best = max(best, q_value(network, DEVICE, turn.feature[k]))
        value[c] = best
        turn.state[0] = TASK
        offer(sim, plans, turn)


class Lessons:
    """A ring of (kind of turn, features, worth)."""

    def __init__(self, size: int) -> None:
        self.kind, self.feature = np.zeros(size, np.int64), np.zeros((size, FEATURES), np.float32)
        self.worth, self.held, self._at = np.zeros(size, np.float32), 0, 0

    def add(self, kind: int, feature: NDArray[np.float32], worth: float) -> None:
        """Take one over."""
        self.kind[self._at], self.feature[self._at], self.worth[self._at] = kind, feature, worth
        self._at = (self._at + 1) % len(self.kind)
        self.held = min(self.held + 1, len(self.kind))


class Run:
    """One simulation that can be copied where it stands."""

    def __init__(self, case: Case, sets: Sequence[FloatArray], *, at: tuple[Sim, Plans, Turn] | None = None) -> None:
        self.case, self.sets = case, sets
        if at is None:
            sim = make_sim(case.workload, case.scenario, None, eager=True)
            at = sim, plans_for(case, sim, sets), make_turn(sim)
        self.sim, self.plans, self.turn = at

    def copy(self) -> Run:
        """A run of its own from the same point."""
        return Run(self.case, self.sets, at=(copied(self.sim), copy_plans(self.plans), Turn._make(array.copy() for array in self.turn)))

    def take(self, choice: int) -> None:
        """Take a candidate of this turn."""
        task, device = take_turn(self.turn, choice)
        if device >= 0:
            commit(self.sim, task, device)

    def finish(self, network: QNetwork, caution: float) -> float:
        """Go on to the end; the mean completion time of all jobs."""
        if live_by_values(self.sim, self.plans, self.turn, network, caution) != ENDED:
            return np.inf
        return float((self.sim.job["finish"][:-1] - self.sim.job["arrival"][:-1]).mean())

    def path(self) -> float:
        """Mean rank of the first task of the jobs: the unit of values."""
        order, rank = (array[self.plans.contest[FOLLOWED]] for array in (self.plans.stack.order, self.plans.stack.rank))
        first = order[self.sim.job["first"][:-1]] - self.sim.job["shift"][:-1]
        return max(float(rank[first].mean()), 1e-300) / self.case.workload.jobs


def try_choices(
    run: Run, network: QNetwork, caution: float, learning: QNetwork, lessons: Lessons, tries: int, rng: np.random.Generator
) -> None:
    """At a turn: go on with the policy's choice, and with others; note what each was worth. Values of tasks are those `learning` gives.

    In a task turn another task is taken with one of its devices, and waiting is tried where the policy would not wait.
    """
    own = run.copy().finish(network, caution)
    unit = run.path()
    first = planned_choice(run.turn) if caution == np.inf else greedy_choice(network, run.turn, caution)
    for choice in rng.permutation(int(run.turn.state[2]))[:tries].tolist():
        other = run.copy()
        kind, feature = int(other.turn.state[0]), other.turn.feature[choice].copy()
        waits = bool(other.turn.offer[choice] < 0)
        if choice == first and (waits or kind == DEVICE):
            lessons.add(kind, feature, 0.0)
            continue
        other.take(choice)
        if kind == TASK and not waits:
            if not offer(other.sim, other.plans, other.turn):
                continue
            kind = DEVICE
            device = int(rng.integers(0, int(other.turn.state[2])))
            feature = other.turn.feature[device].copy()
            other.take(device)
        ends = other.finish(network, caution)
        if np.isfinite(ends):
            lessons.add(kind, feature, float(np.clip((own - ends) / unit, -1.0, 1.0)))
    if run.turn.state[0] == TASK:
        value = np.zeros(int(run.turn.state[2]))
        best_device_values(run.sim, run.plans, run.turn, learning, value)
        for choice in rng.permutation(len(value))[:tries].tolist():
            if run.turn.offer[choice] >= 0:
                lessons.add(TASK, run.turn.feature[choice], float(value[choice]))


def draw_short_cases(seed: int, alone: int, streams: int) -> list[Case]:
    """As for the rule, with streams of six jobs: a rollout of a long one takes as long as a hundred of the others."""
    return draw_cases(seed, alone, streams, jobs=6)


def train_by_rollouts(
    sets: Sequence[FloatArray],
    settings: RolloutSettings | None = None,
    *,
    draw: Callable[[int, int, int], list[Case]] = draw_short_cases,
    judge: Callable[[int, int, int], list[Case]] = draw_cases,
    start: Mapping[str, NDArray[np.float32]] | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> TrainedDqn:
    """Train on top of the plan that sets of weights make, which is the policy of the first round; `judge` draws the validation cases."""
    settings = settings or RolloutSettings()
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    rng = stream(settings.seed, "rollouts")
    values = Values(settings.hidden, dueling=False)
    if start is not None:
        load_arrays(values, start)
    optimizer = torch.optim.Adam(values.parameters(), lr=settings.rate)
    lessons = Lessons(settings.memory)
    validation = Validation(sets, judge(VALIDATION + 1, settings.alone, settings.streams))
    trained = TrainedDqn(values.arrays(), 0.0, 0.0, "DQN from rollouts (weft.learn.dqn_rollouts)", settings.seed, asdict(settings))
    began, episode, updates, part = time.process_time(), 0, 0, 0
    followed, caution = q_network(trained.arrays), np.inf
    pool: list[Case] = []
    while trained.seconds < settings.seconds:
        if not pool:
            pool = draw(settings.seed * 100_000 + 70_000 + episode, 21, 3)
            rng.shuffle(pool)
        _learn_from_run(Run(pool.pop(), sets), followed, caution, q_network(values.arrays()), lessons, settings, rng)
        if lessons.held > settings.batch:
            for _ in range(settings.updates):
                _update(values, optimizer, lessons, settings.batch, rng)
                updates += 1
        episode += 1
        trained.seconds, trained.episodes, trained.turns = time.process_time() - began, episode, lessons.held
        if episode % settings.every == 0 or trained.seconds >= settings.seconds:
            validate(trained, values, validation, updates, watch)
        if int(trained.seconds / settings.seconds * settings.rounds) > part and trained.score < 0:
            part += 1
            followed, caution = q_network(trained.arrays), trained.caution
            lessons.held = 0
    return trained


def _learn_from_run(
    run: Run, followed: QNetwork, caution: float, learning: QNetwork, lessons: Lessons, settings: RolloutSettings, rng: np.random.Generator
) -> None:
    """Stop a run here and there."""
    length = max(4 * len(run.sim.inst) // settings.stops, 1)
    for _ in range(settings.stops):
        stop = int(rng.integers(1, length + 1))
        if live_turns(run.sim, run.plans, run.turn, followed, caution, stop) < stop:
            return
        if run.turn.state[2] > 1:
            try_choices(run, followed, caution, learning, lessons, settings.tries, rng)
        run.take(greedy_choice(followed, run.turn, caution))


def _update(values: Values, optimizer: torch.optim.Optimizer, lessons: Lessons, batch: int, rng: np.random.Generator) -> None:
    at: IntArray = rng.integers(0, lessons.held, batch)
    value = values.advantage(torch.from_numpy(lessons.kind[at]), torch.from_numpy(lessons.feature[at]))
    loss = nn.functional.mse_loss(value, torch.from_numpy(lessons.worth[at]))  # the mean: few choices matter, and those a lot
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
