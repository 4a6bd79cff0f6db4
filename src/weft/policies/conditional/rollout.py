"""Rollouts: one-step look-ahead on top of the tuned index, in sampled futures.

Bertsekas, Tsitsiklis and Wu (1997). A candidate is the first choice, of the index or of a network,
with the action of one unit changed. All candidates are executed in the same sampled futures
(`sampled_future.py`); the base policy, the index or a network, continues until all present and next
jobs are done. The candidate with the least time of jobs in the system is taken, if it is clearly
better than the first choice. Candidates that are clearly worse drop out early.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.evaluate import WINDOW, check_network_fits, options_of
from weft.policies.conditional.index import load_index
from weft.policies.conditional.proposer import Proposer, make_proposer, propose, propose_around
from weft.policies.conditional.rules import (
    INDEX,
    ConditionalRule,
    choose_around,
    choose_one,
    runs_here,
)
from weft.policies.conditional.sampled_future import (
    ROLLOUT,
    FutureSampler,
    load_state,
    make_sampler,
    sample_future,
    start_rollout,
    with_first_jobs,
)
from weft.policies.conditional.trained_network import TrainedNetwork, read_network
from weft.policies.conditional.waiting import stuck
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import MOMENT, STUCK, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable, Sim
from weft.sim.vector.batch import Idle, StepBatch, StepOptions
from weft.sim.vector.state import BatchTables, StepState, sim_of, state_of
from weft.sim.vector.step import act, proceed
from weft.typed import typed_dataclass

ROOM = 512
"""Jobs in the simulations of the sampler."""
MAX_CANDIDATES = 48
"""Most candidates of one decision, with one row for the actions of the index."""


COUNTS = record("", "steps choices changed rollouts")
# Of a run. choices: decisions with several candidates; changed: those that took another one than
# the first


class RolloutBudget(NamedTuple):
    """Limits of a decision; see `Rollout`."""

    ahead: int
    least: int
    most: int
    confidence: float


class RolloutBuffers(NamedTuple):
    """Candidates of one decision, with their costs."""

    action: IntArray  # (MAX_CANDIDATES, units)
    active: IntArray  # (MAX_CANDIDATES,) 1: not dropped out
    mean: FloatArray  # (MAX_CANDIDATES,) cost above that of the first, in job ticks
    square: FloatArray  # (MAX_CANDIDATES,) sum of squared deviations from it
    counts: RecordTable  # (1,)


class RolloutTables(NamedTuple):
    """The compiled form of a `Rollout`, and its memory."""

    sampler: FutureSampler
    weights: FloatArray  # of the index
    proposer: Proposer  # its choice is the first candidate
    base: Proposer  # continues after a candidate
    buffers: RolloutBuffers
    budget: RolloutBudget


@typed_dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """Rollouts on top of the index.

    Parameters
    ----------
    weights : of the index
    ahead : number of jobs that arrive in a sampled future
    least : futures in which every candidate is executed
    most : futures for candidates that have not dropped out
    confidence : a candidate is taken if it is better by this number of standard errors, and drops
        out if it is worse by twice the number
    proposer : network whose choice is the first candidate; by default the index's choice is
    continues : whether the proposer continues after a candidate, not the index: better, and slower
    """

    weights: FloatArray
    ahead: int = 6
    least: int = 8
    most: int = 64
    confidence: float = 1.0
    seed: int = 0
    proposer: TrainedNetwork | None = None
    continues: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        jobs, futures = 1 <= self.ahead <= ROOM // 2, 2 <= self.least <= self.most
        if not (jobs and futures and self.confidence >= 0):
            raise InvalidInput(
                f"rollout: ahead is {self.ahead}, least {self.least}, most {self.most}, "
                f"confidence {self.confidence}; ahead must be 1 to {ROOM // 2}, "
                "least 2 or more and at most 'most', confidence not negative"
            )
        if self.continues and self.proposer is None:
            raise InvalidInput("rollout: continues is true, but there is no proposer; give one")

    def options(self, idle: Idle | None = None) -> StepOptions:
        """Return the step and observation options."""
        if self.proposer is not None:
            return options_of(self.proposer, idle)
        return StepOptions(idle=idle or "event", window=WINDOW)

    def run(self, batch: StepBatch) -> RecordTable:
        """Run all simulations to the end; return (size,) records of `COUNTS`."""
        ConditionalRule("index", self.weights).check_fits(batch)
        if self.proposer is not None:
            check_network_fits(self.proposer.network, batch)
        budget = RolloutBudget(self.ahead, self.least, self.most, self.confidence)
        sampler = make_sampler(batch.stream, batch, room=ROOM, seed=self.seed)
        counts = np.zeros(batch.size, COUNTS)
        network = None if self.proposer is None else self.proposer.network
        proposer = make_proposer(network, batch)
        base = make_proposer(network if self.continues else None, batch)
        for s in range(batch.size):
            buffers = make_buffers(batch.units)
            rollout = RolloutTables(sampler, self.weights, proposer, base, buffers, budget)
            if run_rollouts(batch.tables, s, rollout) == STUCK:
                raise stuck("rollout", batch.stream)
            counts[s] = buffers.counts[0]
        return counts


def load_rollout() -> Rollout:
    """Load the rollouts for stream `conditional-paper`, with its network and index.

    Examples
    --------
    >>> load_rollout().ahead
    6
    """
    return Rollout(weights=load_index().weights, proposer=read_network("conditional-best"))


def make_buffers(units: int) -> RolloutBuffers:
    """Allocate the candidates of a decision."""
    return RolloutBuffers(
        np.zeros((MAX_CANDIDATES, units), np.int64),
        np.zeros(MAX_CANDIDATES, np.int64),
        np.zeros(MAX_CANDIDATES),
        np.zeros(MAX_CANDIDATES),
        np.zeros(1, COUNTS),
    )


@njit_noalloc
def run_rollouts(tables: BatchTables, s: int, rollout: RolloutTables) -> int:
    """Run one simulation to the end."""
    sim, state = sim_of(tables, s), state_of(tables, s)
    answer = proceed(sim, state)
    while answer == MOMENT:
        best = decide(sim, state, rollout)
        answer = act(sim, state, rollout.buffers.action[best])
        rollout.buffers.counts[0].steps += 1
    return answer


@njit_noalloc
def decide(sim: Sim, state: StepState, rollout: RolloutTables) -> int:
    """Return the number of the candidate to take."""
    buffers, candidates = rollout.buffers, gather_candidates(sim, state, rollout)
    futures = 0
    if candidates > 1:
        futures = try_candidates(sim, state, rollout, candidates)
    best = pick(buffers, candidates, futures, rollout.budget.confidence)
    buffers.counts[0].choices += 1 if candidates > 1 else 0
    buffers.counts[0].changed += 1 if best > 0 else 0
    return best


@njit_noalloc
def try_candidates(sim: Sim, state: StepState, rollout: RolloutTables, candidates: int) -> int:
    """Execute the candidates in sampled futures; return the number of futures.

    It is 0 if there are too many jobs for the sampler.
    """
    buffers, budget = rollout.buffers, rollout.budget
    jobs = load_state(sim, state, rollout.sampler, budget.ahead)
    if jobs == 0:
        return 0
    for c in range(candidates):
        buffers.active[c] = 1
        buffers.mean[c] = 0.0
        buffers.square[c] = 0.0
    futures, others, spare = 0, candidates - 1, buffers.action[MAX_CANDIDATES - 1]
    while futures < budget.most and others > 0:
        sample_future(sim, rollout.sampler, jobs, budget.ahead)
        own = continue_rollout(rollout, jobs, buffers.action[0], spare)
        futures += 1
        buffers.counts[0].rollouts += 1
        for c in range(1, candidates):
            if buffers.active[c] == 1:
                action = buffers.action[c]
                cost = continue_rollout(rollout, jobs, action, spare) - own
                buffers.counts[0].rollouts += 1
                shift = cost - buffers.mean[c]
                buffers.mean[c] += shift / futures
                buffers.square[c] += shift * (cost - buffers.mean[c])
        if budget.least <= futures < budget.most:
            others = _drop(buffers, candidates, futures, budget.confidence)
    return futures


@njit_noalloc
def pick(buffers: RolloutBuffers, candidates: int, futures: int, confidence: float) -> int:
    """Return the best candidate that is clearly better than the first, or the first."""
    best = 0
    if futures == 0:
        return best
    for c in range(1, candidates):
        if (
            buffers.active[c] == 1
            and buffers.mean[c] + confidence * _error(buffers, c, futures) < 0.0
            and buffers.mean[c] < buffers.mean[best]
        ):
            best = c
    return best


@njit_inline
def _error(buffers: RolloutBuffers, c: int, futures: int) -> float:
    return float(np.sqrt(buffers.square[c] / (futures * (futures - 1.0))))


@njit_inline
def _drop(buffers: RolloutBuffers, candidates: int, futures: int, confidence: float) -> int:
    """Drop candidates clearly worse than the best; return how many remain beside it."""
    best = 0
    for c in range(1, candidates):
        if buffers.active[c] == 1 and buffers.mean[c] < buffers.mean[best]:
            best = c
    others = 0
    for c in range(1, candidates):
        if buffers.active[c] == 1:
            if (
                buffers.mean[c] - 2.0 * confidence * _error(buffers, c, futures)
                > buffers.mean[best]
            ):
                buffers.active[c] = 0
            else:
                others += 1
    return others


@njit_noalloc
def gather_candidates(sim: Sim, state: StepState, rollout: RolloutTables) -> int:
    """Write the candidates; return their number.

    The first choice comes first, then variants with one unit's action changed. Of equal units only
    one is changed, unless data takes time from unit to unit. In a variant the index chooses for the
    other units, or the network if it continues after a candidate.
    """
    kinds, units, found = len(sim.kind), len(sim.device), 1
    weights, buffers = rollout.weights, rollout.buffers
    choose_one(sim, state, INDEX, weights, buffers.action[0])
    if rollout.proposer.network.units > 0:
        propose(sim, state, rollout.proposer, buffers.action[1])
        if not _is_duplicate(buffers, 1):
            for d in range(units):
                buffers.action[0, d], buffers.action[1, d] = (
                    buffers.action[1, d],
                    buffers.action[0, d],
                )
            found = 2
    may_wait = next_time(sim) < np.inf
    for d in range(units):
        if not is_idle(sim, d):
            continue
        if not rollout.sampler.moves and _equals_earlier_unit(sim, state, buffers, d):
            continue
        for k in range(kinds + 1):
            for j in range(kinds):
                state.scratch[j] = sim.kind[j].ready
            if (
                found == MAX_CANDIDATES - 1
                or (k == kinds and not may_wait)
                or (k < kinds and not runs_here(sim, state.scratch, k, d))
            ):
                continue
            if rollout.base.network.units > 0:
                propose_around(sim, state, rollout.proposer, d, k, buffers.action[found])
            else:
                choose_around(sim, state, weights, d, k, buffers.action[found])
            if not _is_duplicate(buffers, found):
                found += 1
    return found


@njit_inline
def _equals_earlier_unit(sim: Sim, state: StepState, buffers: RolloutBuffers, d: int) -> bool:
    for other in range(d):
        if (
            is_idle(sim, other)
            and state.group[other] == state.group[d]
            and buffers.action[0, other] == buffers.action[0, d]
        ):
            return True
    return False


@njit_inline
def _is_duplicate(buffers: RolloutBuffers, found: int) -> bool:
    for c in range(found):
        same = True
        for d in range(buffers.action.shape[1]):
            same = same and buffers.action[c, d] == buffers.action[found, d]
        if same:
            return True
    return False


@njit_noalloc
def continue_rollout(
    rollout: RolloutTables, jobs: int, first: IntArray, actions: IntArray
) -> float:
    """Return the job ticks in the system if the base policy goes on after `first`."""
    start_rollout(rollout.sampler, jobs)
    tables, base = rollout.sampler.tables, rollout.base
    sim, state = with_first_jobs(sim_of(tables, ROLLOUT), jobs), state_of(tables, ROLLOUT)
    answer = act(sim, state, first)
    cost = state.counters[0].cost
    while answer == MOMENT:
        if base.network.units > 0:
            propose(sim, state, base, actions)
        else:
            choose_one(sim, state, INDEX, rollout.weights, actions)
        answer = act(sim, state, actions)
        cost += state.counters[0].cost
    return float(cost) if answer != STUCK else np.inf
