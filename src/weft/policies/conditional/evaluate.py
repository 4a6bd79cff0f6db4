"""A learned policy at work in step-wise simulations of a stream: compiled from the observation to the decision."""

from __future__ import annotations

import dataclasses

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift
from weft.policies.conditional.networks import Network, Numbers, choose, working_space
from weft.policies.conditional.pair_network import PAIR_FEATURES
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import MOMENT, next_time
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

WINDOW = 500.0
"""Outcomes an estimate remembers: a deviation of 0.016 at most, and it follows a change within some seconds."""
MAX_STEPS_PER_JOB = 40
"""Steps per job after which a run is given up: a policy that only ever waits would never end (good ones take 2 or 3)."""


def options_of(policy: TrainedNetwork, waiting: Idle | None = None) -> StepOptions:
    """Return how a stream is to be stepped and shown for a policy."""
    seen = policy.observation
    if reads_pairs(policy):
        return StepOptions(idle=waiting or "event", window=WINDOW)
    if seen.get("name") != "steps" or seen.get("version") != 1:
        raise InvalidInput(
            f"policy '{policy.name}' reads observations '{seen.get('name')}' version {seen.get('version')}; "
            "known: 'steps' and 'pairs', version 1"
        )
    shown = {key: value for key, value in seen.items() if key not in {"name", "version", "watched"}}
    try:
        return StepOptions(idle=waiting or policy.idle, **shown)
    except TypeError as error:
        raise InvalidInput(
            f"policy '{policy.name}': its observation cannot be read ({error})"
        ) from None


def reads_pairs(policy: TrainedNetwork) -> bool:
    """Whether a policy scores pairs of unit and kind (`pairs.py`) and so plays on any graph."""
    if policy.observation.get("name") != "pairs" or policy.observation.get("version") != 1:
        return False
    if policy.observation.get("features") != list(PAIR_FEATURES):
        raise InvalidInput(
            f"policy '{policy.name}': its features are not those of this version of weft; train it again"
        )
    return True


def watched_task(stream: ConditionalStream) -> str:
    """Return the task whose choice is estimated; there must be one."""
    if not stream.watched:
        raise InvalidInput(
            f"stream '{stream.name}' has no choice with estimate = true; mark one, or train the policy 'own'"
        )
    return task_name(stream, stream.watched[0])


def task_name(stream: ConditionalStream, choice: int) -> str:
    """Return the name of the task that makes a choice."""
    w = stream.problem.workflow
    return w.task_name(int(w.choices.task[choice]))


def with_first(stream: ConditionalStream, task: str, p: float) -> ConditionalStream:
    """Return the stream with probability p for the first branch of a task's choice; the others share the rest as before."""
    return stream.with_drift(task, dataclasses.replace(random_drift(stream, task), low=p, high=p))


def random_drift(stream: ConditionalStream, task: str) -> ProbabilityDrift:
    """Return a drift that draws the probability of the first branch once for each run, uniform in [0, 1]."""
    w = stream.problem.workflow
    owners = [w.task_name(int(t)) for t in w.choices.task]
    return ProbabilityDrift("uniform", stream.drift[owners.index(task)].probability[:1])


def play(
    network: Network,
    stream: ConditionalStream,
    seeds: list[int],
    *,
    options: StepOptions,
    authors: bool = False,
) -> FloatArray:
    """Mean job completion time (seconds) of each seed's draw; inf where the policy never finishes.

    The policy acts greedily: each idle unit, in order, takes its best allowed action among what the units before it left.
    """
    fleet = StepBatch(stream, 1, options, authors=authors)
    check_network_fits(network, fleet)
    found = np.zeros(len(seeds))
    for i, seed in enumerate(seeds):
        fleet.place(0, *stream.draw_ticks(seed, authors=authors))
        found[i] = float(fleet.jct(0).mean()) if play_batch(network, fleet) else np.inf
    return found


def play_batch(network: Network, batch: StepBatch) -> bool:
    """Run the first simulation of a batch to its end; return whether it ended."""
    seen = np.zeros(batch.observation_size, np.float32)
    mask = np.zeros((batch.units, batch.kinds + 1), np.bool_)
    action, remaining = np.zeros(batch.units, np.int64), np.zeros(batch.kinds, np.int64)
    capacity = np.array(batch.stream.problem.cluster.batch, np.int64)
    space, most = working_space(network), MAX_STEPS_PER_JOB * batch.stream.jobs + 1000
    steps = play_out(batch.tables, 0, network, capacity, seen, mask, remaining, space, action, most)
    return bool(steps >= 0)


def check_network_fits(network: Network, batch: StepBatch) -> None:
    """Raise unless a network reads what a stream shows and acts on its units."""
    shown = (batch.observation_size, batch.units, batch.kinds + 1)
    if shown != (int(network.sizes[0]), network.units, network.actions):
        raise Unsupported(
            f"the network reads {network.sizes[0]} numbers for {network.units} units and "
            f"{network.actions - 1} kinds of task; stream '{batch.stream.name}' shows {shown[0]} "
            f"for {batch.units} and {batch.kinds}; train one for it: weft train conditional"
        )


@njit_noalloc
def play_out(
    fleet: BatchTables,
    s: int,
    network: Network,
    capacity: IntArray,
    seen: Numbers,
    mask: BoolArray,
    remaining: IntArray,
    space: Numbers,
    action: IntArray,
    most: int,
) -> int:
    """Play one simulation to its end; return the steps it took, or -1 when it did not end."""
    sim, desk = sim_of(fleet, s), state_of(fleet, s)
    flat = mask.reshape(mask.size)
    answer = proceed(sim, desk)
    for step in range(most):
        if answer != MOMENT:
            return step
        observe(sim, desk, seen)
        mask_actions(sim, desk, flat)
        forbid_standstill(sim, mask)
        for k in range(len(remaining)):
            remaining[k] = sim.kind[k].ready
        choose(network, seen, mask, remaining, capacity, space, action)
        shorten_waits(sim, desk, action)
        act(sim, desk, action)
        answer = proceed(sim, desk)
    return -1


# -- the paper's waiting ---------------------------------------------------------------


@njit_inline
def forbid_standstill(sim: Sim, mask: BoolArray) -> None:
    """Take waiting from units that have something to do when nothing is in flight or due; the paper's mask would let all wait for ever."""
    kinds = mask.shape[1] - 1
    if next_time(sim) < np.inf:
        return
    for d in range(mask.shape[0]):
        for k in range(kinds):
            if mask[d, k]:
                mask[d, kinds] = False


@njit_inline
def shorten_waits(sim: Sim, desk: StepState, actions: IntArray) -> None:
    """Where waiting holds a unit for 10 ms, name a queue that an earlier unit empties in this step: that binds to the next event only.

    The paper's environment takes such an action for nothing at all, so every policy could give it; here they all do.
    """
    if desk.config[0].blocking == 0:
        return
    kinds, left = len(sim.kind), desk.scratch
    for k in range(kinds):
        left[k] = sim.kind[k].ready
    for d in range(len(sim.device)):
        if not is_idle(sim, d):
            continue
        kind = actions[d]
        if kind < kinds:
            left[kind] -= min(left[kind], sim.device[d].batch)
            continue
        for k in range(kinds):
            if sim.kind[k].ready > 0 and left[k] == 0:
                actions[d] = k


@njit_noalloc
def forbid_standstills(fleet: BatchTables, mask: BoolArray) -> None:
    """`forbid_standstill` in all simulations."""
    for s in range(len(mask)):
        forbid_standstill(sim_of(fleet, s), mask[s])


@njit_noalloc
def shorten_all_waits(fleet: BatchTables, actions: IntArray) -> None:
    """`shorten_waits` in all simulations."""
    for s in range(len(actions)):
        shorten_waits(sim_of(fleet, s), state_of(fleet, s), actions[s])
