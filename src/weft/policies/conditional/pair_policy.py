"""The policy of `pairs.py` at work: in step-wise simulations of any stream, and behind the protocol of all policies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.errors import InvalidInput, Stuck
from weft.model.columns import IntArray
from weft.policies.conditional.evaluate import shorten_waits
from weft.policies.conditional.networks import Network, Numbers, working_space
from weft.policies.conditional.pair_network import (
    PAIR_FEATURES,
    Situation,
    choose_pairs,
    fill_situation,
    make_situation,
)
from weft.sim.kernel.events import ENDED, MOMENT, STUCK
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.step import BatchTables, act, proceed, sim_of, state_of

OBSERVATION = {"name": "pairs", "version": 1, "features": list(PAIR_FEATURES)}
"""What cards of such policies say they read."""


@dataclass(frozen=True, eq=False)
class PairPolicy:
    """A network over `PAIR_FEATURES` with one output; it plays what a `ConditionalRule` plays."""

    network: Network
    name: str = "any"
    _space: Numbers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse networks of another shape."""
        if self.network.sizes[0] != len(PAIR_FEATURES) or self.network.sizes[-1] != 1:
            raise InvalidInput(
                f"a policy over pairs reads {len(PAIR_FEATURES)} numbers and gives one; got {self.network.sizes.tolist()}"
            )
        object.__setattr__(self, "_space", working_space(self.network))

    def play(self, fleet: StepBatch) -> IntArray:
        """Play every simulation, laid out by `fleet.place`, to its end; returns the number of steps of each."""
        steps, actions = np.zeros(fleet.size, np.int64), np.zeros(fleet.units, np.int64)
        now = make_situation(fleet.stream.problem.n, fleet.kinds, fleet.units)
        if play_pairs(fleet.tables, now, self.network, self._space, actions, steps) >= 0:
            raise Stuck(
                f"policy '{self.name}' waits in '{fleet.stream.name}', but nothing is in flight or due"
            )
        return steps

    def choose(self, fleet: StepBatch, actions: IntArray) -> None:
        """Write the actions of all simulations, (size, units), as they stand now."""
        now = make_situation(fleet.stream.problem.n, fleet.kinds, fleet.units)
        choose_pairs_many(fleet.tables, now, self.network, self._space, actions)


@njit_noalloc
def play_pairs(
    fleet: BatchTables,
    now: Situation,
    network: Network,
    space: Numbers,
    actions: IntArray,
    steps: IntArray,
) -> int:
    """Play simulations from their beginning to their end; returns the number of one that is stuck, or -1."""
    for s in range(len(steps)):
        sim, desk = sim_of(fleet, s), state_of(fleet, s)
        now.visit[desk.order[0]] = 0.0  # worked out anew for each simulation
        answer = proceed(sim, desk)
        while answer == MOMENT:
            fill_situation(sim, desk, now)
            choose_pairs(now, network, space, actions)
            shorten_waits(sim, desk, actions)
            act(sim, desk, actions)
            answer = proceed(sim, desk)
            steps[s] += 1
        if answer == STUCK:
            return s
        assert answer == ENDED
    return -1


@njit_noalloc
def choose_pairs_many(
    fleet: BatchTables, now: Situation, network: Network, space: Numbers, actions: IntArray
) -> None:
    """Choose for all simulations."""
    for s in range(len(actions)):
        sim, desk = sim_of(fleet, s), state_of(fleet, s)
        now.visit[desk.order[0]] = 0.0
        fill_situation(sim, desk, now)
        choose_pairs(now, network, space, actions[s])
        shorten_waits(sim, desk, actions[s])
