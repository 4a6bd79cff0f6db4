"""A network that chooses actions in compiled simulations, with its buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import BoolArray, IntArray, Numbers
from weft.policies.conditional.networks import Network, choose, choose_given, working_space
from weft.policies.conditional.waiting import forbid_standstill, shorten_waits
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.observation import mask_actions, observe
from weft.sim.vector.state import StepState


class Proposer(NamedTuple):
    """A network that chooses, with buffers.

    The index chooses instead if the network has no units.
    """

    network: Network
    seen: Numbers
    mask: BoolArray  # (units, kinds + 1)
    remaining: IntArray
    capacity: IntArray
    space: Numbers


def make_proposer(network: Network | None, batch: StepBatch) -> Proposer:
    """Allocate the proposer of a network, or of one without units if there is none."""
    if network is None:
        none = np.zeros(0, np.float32)
        network = Network(np.zeros(1, np.int64), none, none, none, none, 0, 0)
    return Proposer(
        network,
        np.zeros(batch.observation_size, np.float32),
        np.zeros((batch.units, batch.kinds + 1), np.bool_),
        np.zeros(batch.kinds, np.int64),
        np.asarray(batch.stream.problem.cluster.batch, np.int64).copy(),
        working_space(network),
    )


@njit_noalloc
def propose(sim: Sim, state: StepState, proposer: Proposer, actions: IntArray) -> None:
    """Write the actions of the network; units that are not idle wait."""
    observe(sim, state, proposer.seen)
    mask_actions(sim, state, proposer.mask.reshape(proposer.mask.size))
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
    shorten_waits(sim, state, actions)


@njit_noalloc
def propose_around(
    sim: Sim, state: StepState, proposer: Proposer, unit: int, kind: int, actions: IntArray
) -> None:
    """Write the network's actions with one unit's kind given (number of kinds: wait).

    Outputs and mask are those of the last `propose`.
    """
    for k in range(len(proposer.remaining)):
        proposer.remaining[k] = sim.kind[k].ready
    choose_given(
        proposer.network,
        proposer.space[(len(proposer.network.sizes) - 1) % 2],
        proposer.mask,
        proposer.remaining,
        proposer.capacity,
        actions,
        unit,
        kind,
    )
    shorten_waits(sim, state, actions)
