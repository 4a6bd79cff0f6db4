"""One step of look-ahead on top of the tuned index: before units act, other actions are tried in futures that are imagined.

Rollouts (Bertsekas, Tsitsiklis and Wu 1997): every candidate, the index's own choice with one unit's action changed, is carried out in
the same imagined futures (`imagination.py`), the index plays on until all jobs that are here and the next ones are done, and the
candidate with the least time of jobs in the system is taken. Candidates that are clearly worse drop out early; one that is not clearly
better than the index's own choice is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput, Stuck
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.conditional.evaluate import (
    WINDOW,
    check_network_fits,
    forbid_standstill,
    options_of,
    shorten_waits,
)
from weft.policies.conditional.index import load_index
from weft.policies.conditional.networks import Network, Numbers, choose, working_space
from weft.policies.conditional.rules import (
    INDEX,
    ConditionalRule,
    choose_around,
    choose_one,
    runs_here,
)
from weft.policies.conditional.sampled_future import (
    TRIAL,
    FutureSampler,
    begin_trial,
    draw_scenario,
    imagine,
    limited,
    take_in,
)
from weft.policies.conditional.trained_network import TrainedNetwork, read_network
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import MOMENT, STUCK, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import Sim
from weft.sim.vector.batch import Idle, StepBatch, StepOptions
from weft.sim.vector.step import (
    BatchTables,
    StepState,
    act,
    mask_actions,
    observe,
    proceed,
    sim_of,
    state_of,
)

ROOM = 512
MOST = 48
"""Candidates of one decision."""


class Proposer(NamedTuple):
    """A network whose choice is the first candidate, with what it works in; without units there is none."""

    network: Network
    seen: Numbers
    mask: BoolArray  # (units, kinds + 1)
    remaining: IntArray
    capacity: IntArray
    space: Numbers


class RolloutBudget(NamedTuple):
    """How hard to think; see `Rollout`."""

    ahead: int
    least: int
    most: int
    doubt: float


class RolloutBuffers(NamedTuple):
    """How candidates fared at one decision."""

    action: IntArray  # (MOST, units)
    alive: IntArray  # (MOST,)
    mean: FloatArray  # (MOST,) cost less that of the first, in job ticks
    square: FloatArray  # (MOST,) sum of squares around it
    tally: IntArray  # (4,) steps, decisions with a choice, decisions changed, futures played


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """The index with rollouts.

    Parameters
    ----------
    weights : of the index
    ahead : jobs still to come in an imagined future
    least, most : futures in which every candidate is tried, and in which those are that have not dropped out
    doubt : a candidate is taken when it is better by so many standard errors, and drops out when it is worse by twice as many
    proposer : a network whose choice comes first; without one, it is the index's
    """

    weights: FloatArray
    ahead: int = 6
    least: int = 8
    most: int = 64
    doubt: float = 1.0
    seed: int = 0
    proposer: TrainedNetwork | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if (
            not 1 <= self.ahead <= ROOM // 2
            or not 2 <= self.least <= self.most
            or not self.doubt >= 0
        ):
            raise InvalidInput(
                f"rollout: ahead is {self.ahead}, least {self.least}, most {self.most}, doubt {self.doubt}; "
                f"ahead must be 1 to {ROOM // 2}, least 2 or more and at most 'most', doubt not negative"
            )

    def options(self, waiting: Idle | None = None) -> StepOptions:
        """How a stream is to be stepped and shown."""
        if self.proposer is not None:
            return options_of(self.proposer, waiting)
        return StepOptions(idle=waiting or "event", window=WINDOW)

    def play(self, fleet: StepBatch) -> IntArray:
        """Play every simulation to its end; (size, 4): steps, decisions with a choice, decisions changed, futures played."""
        ConditionalRule("index", self.weights).check_fits(fleet)
        if self.proposer is not None:
            check_network_fits(self.proposer.network, fleet)
        effort = RolloutBudget(self.ahead, self.least, self.most, self.doubt)
        mind = imagine(fleet.stream, fleet, room=ROOM, seed=self.seed)
        counts = np.zeros((fleet.size, 4), np.int64)
        proposer = make_proposer(self.proposer, fleet)
        for s in range(fleet.size):
            trials = make_trials(fleet.units)
            if (
                play_rollouts(fleet.tables, s, mind, self.weights, proposer, trials, effort)
                == STUCK
            ):
                raise Stuck(
                    f"rule 'rollout' waits in '{fleet.stream.name}', but nothing is in flight or due"
                )
            counts[s] = trials.tally
        return counts


def load_rollout() -> Rollout:
    """Rollouts for the stream `conditional-paper`: the shipped network's choices against others, the tuned index plays on.

    Examples
    --------
    >>> load_rollout().ahead
    6
    """
    return Rollout(weights=load_index().weights, proposer=read_network("conditional-best"))


def make_proposer(policy: TrainedNetwork | None, fleet: StepBatch) -> Proposer:
    """Prepare a policy that reads what a fleet shows; without one, an empty network."""
    if policy is None:
        none = np.zeros(0, np.float32)
        network = Network(np.zeros(1, np.int64), none, none, none, none, 0, 0)
    else:
        network = policy.network
    return Proposer(
        network,
        np.zeros(fleet.observation_size, np.float32),
        np.zeros((fleet.units, fleet.kinds + 1), np.bool_),
        np.zeros(fleet.kinds, np.int64),
        np.asarray(fleet.stream.problem.cluster.batch, np.int64).copy(),
        working_space(network),
    )


def make_trials(units: int) -> RolloutBuffers:
    """Room for the candidates of a decision."""
    return RolloutBuffers(
        np.zeros((MOST, units), np.int64),
        np.zeros(MOST, np.int64),
        np.zeros(MOST),
        np.zeros(MOST),
        np.zeros(4, np.int64),
    )


@njit_noalloc
def play_rollouts(
    fleet: BatchTables,
    s: int,
    mind: FutureSampler,
    weights: FloatArray,
    proposer: Proposer,
    trials: RolloutBuffers,
    effort: RolloutBudget,
) -> int:
    """Play one simulation from its beginning to its end."""
    sim, desk = sim_of(fleet, s), state_of(fleet, s)
    answer = proceed(sim, desk)
    while answer == MOMENT:
        best = decide(sim, desk, mind, weights, proposer, trials, effort)
        act(sim, desk, trials.action[best])
        answer = proceed(sim, desk)
        trials.tally[0] += 1
    return answer


@njit_noalloc
def decide(
    sim: Sim,
    desk: StepState,
    mind: FutureSampler,
    weights: FloatArray,
    proposer: Proposer,
    trials: RolloutBuffers,
    effort: RolloutBudget,
) -> int:
    """The number of the candidate to take."""
    candidates = gather_candidates(sim, desk, weights, proposer, trials)
    played = (
        try_candidates(sim, desk, mind, weights, trials, candidates, effort)
        if candidates > 1
        else 0
    )
    best = pick(trials, candidates, played, effort.doubt)
    trials.tally[1] += 1 if candidates > 1 else 0
    trials.tally[2] += 1 if best > 0 else 0
    return best


@njit_noalloc
def try_candidates(
    sim: Sim,
    desk: StepState,
    mind: FutureSampler,
    weights: FloatArray,
    trials: RolloutBuffers,
    candidates: int,
    effort: RolloutBudget,
) -> int:
    """Play the candidates in futures; returns in how many the first was played, 0 where there are too many jobs to imagine any."""
    jobs = take_in(sim, desk, mind, effort.ahead)
    if jobs == 0:
        return 0
    for c in range(candidates):
        trials.alive[c] = 1
        trials.mean[c] = 0.0
        trials.square[c] = 0.0
    played, others = 0, candidates - 1
    while played < effort.most and others > 0:
        draw_scenario(sim, mind, jobs, effort.ahead)
        own = live_on(mind, jobs, weights, trials.action[0], trials.action[MOST - 1])
        played += 1
        trials.tally[3] += 1
        for c in range(1, candidates):
            if trials.alive[c] == 1:
                cost = live_on(mind, jobs, weights, trials.action[c], trials.action[MOST - 1]) - own
                trials.tally[3] += 1
                shift = cost - trials.mean[c]
                trials.mean[c] += shift / played
                trials.square[c] += shift * (cost - trials.mean[c])
        if effort.least <= played < effort.most:
            others = _drop(trials, candidates, played, effort.doubt)
    return played


@njit_noalloc
def pick(trials: RolloutBuffers, candidates: int, played: int, doubt: float) -> int:
    """The best candidate that is clearly better than the first, or the first."""
    best = 0
    if played == 0:
        return best
    for c in range(1, candidates):
        if (
            trials.alive[c] == 1
            and trials.mean[c] + doubt * _error(trials, c, played) < 0.0
            and trials.mean[c] < trials.mean[best]
        ):
            best = c
    return best


@njit_inline
def _error(trials: RolloutBuffers, c: int, played: int) -> float:
    return float(np.sqrt(trials.square[c] / (played * (played - 1.0))))


@njit_inline
def _drop(trials: RolloutBuffers, candidates: int, played: int, doubt: float) -> int:
    """Drop what is clearly worse than the index's choice, or than the best; how many are left beside the first."""
    best = 0
    for c in range(1, candidates):
        if trials.alive[c] == 1 and trials.mean[c] < trials.mean[best]:
            best = c
    others = 0
    for c in range(1, candidates):
        if trials.alive[c] == 1:
            if trials.mean[c] - 2.0 * doubt * _error(trials, c, played) > trials.mean[best]:
                trials.alive[c] = 0
            else:
                others += 1
    return others


@njit_noalloc
def gather_candidates(
    sim: Sim, desk: StepState, weights: FloatArray, proposer: Proposer, trials: RolloutBuffers
) -> int:
    """The index's own choice first, then it with one unit's action changed; like units count once."""
    kinds, units, found = len(sim.kind), len(sim.device), 1
    choose_one(sim, desk, INDEX, weights, trials.action[0])
    if proposer.network.units > 0:
        propose(sim, desk, proposer, trials.action[1])
        if not _known(trials, 1):
            for d in range(units):
                trials.action[0, d], trials.action[1, d] = trials.action[1, d], trials.action[0, d]
            found = 2
    may_wait = next_time(sim) < np.inf
    for d in range(units):
        if not is_idle(sim, d) or _seen_before(sim, desk, trials, d):
            continue
        for k in range(kinds + 1):
            for j in range(kinds):
                desk.scratch[j] = sim.kind[j].ready
            if (
                found == MOST - 1
                or (k == kinds and not may_wait)
                or (k < kinds and not runs_here(sim, desk.scratch, k, d))
            ):
                continue
            choose_around(sim, desk, weights, d, k, trials.action[found])
            if not _known(trials, found):
                found += 1
    return found


@njit_noalloc
def propose(sim: Sim, desk: StepState, proposer: Proposer, actions: IntArray) -> None:
    """What the network would do; units that are not idle wait."""
    observe(sim, desk, proposer.seen)
    mask_actions(sim, desk, proposer.mask.reshape(proposer.mask.size))
    forbid_standstill(sim, proposer.mask)
    for k in range(len(proposer.remaining)):
        proposer.remaining[k] = sim.kind[k].ready
    choose(
        proposer.network,
        proposer.seen,
        proposer.mask,
        proposer.remaining,
        proposer.capacity,
        proposer.space,
        actions,
    )
    shorten_waits(sim, desk, actions)


@njit_inline
def _seen_before(sim: Sim, desk: StepState, trials: RolloutBuffers, d: int) -> bool:
    for other in range(d):
        if (
            is_idle(sim, other)
            and desk.group[other] == desk.group[d]
            and trials.action[0, other] == trials.action[0, d]
        ):
            return True
    return False


@njit_inline
def _known(trials: RolloutBuffers, found: int) -> bool:
    for c in range(found):
        same = True
        for d in range(trials.action.shape[1]):
            same = same and trials.action[c, d] == trials.action[found, d]
        if same:
            return True
    return False


@njit_noalloc
def live_on(
    mind: FutureSampler, jobs: int, weights: FloatArray, first: IntArray, actions: IntArray
) -> float:
    """Job ticks in the system when an action is carried out and the index plays on."""
    begin_trial(mind, jobs)
    sim, desk = limited(sim_of(mind.fleet, TRIAL), jobs), state_of(mind.fleet, TRIAL)
    act(sim, desk, first)
    answer = proceed(sim, desk)
    cost = desk.counters[0].cost
    while answer == MOMENT:
        choose_one(sim, desk, INDEX, weights, actions)
        act(sim, desk, actions)
        answer = proceed(sim, desk)
        cost += desk.counters[0].cost
    return float(cost) if answer != STUCK else np.inf
