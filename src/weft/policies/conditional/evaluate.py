"""Greedy evaluation of networks in step-wise simulations of a stream; compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift
from weft.policies.conditional.networks import Network
from weft.policies.conditional.pair_network import PAIR_FEATURES
from weft.policies.conditional.proposer import Proposer, make_proposer, propose
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import Idle, StepBatch, StepOptions
from weft.sim.vector.state import BatchTables, sim_of, state_of
from weft.sim.vector.step import act, proceed

WINDOW = 500.0
"""Outcomes that an estimate counts: its standard error is 0.016 at most, and it follows a change
within seconds."""
MAX_STEPS_PER_JOB = 40
"""Steps per job after which a run is abandoned, since a policy that always waits never ends one.
Good policies take 2 or 3 steps per job."""


def options_of(policy: TrainedNetwork, idle: Idle | None = None) -> StepOptions:
    """Return the step and observation options of a policy; `idle` replaces its own."""
    seen = policy.observation
    if reads_pairs(policy):
        return StepOptions(idle=idle or "event", window=WINDOW)
    if seen.get("name") != "steps" or seen.get("version") != 1:
        raise InvalidInput(
            f"policy '{policy.name}' reads observations '{seen.get('name')}' "
            f"version {seen.get('version')}; known: 'steps' and 'pairs', version 1"
        )
    shown = {key: value for key, value in seen.items() if key not in {"name", "version", "watched"}}
    try:
        return StepOptions(idle=idle or policy.idle, **shown)
    except (TypeError, InvalidInput) as error:
        raise InvalidInput(
            f"policy '{policy.name}': its observation cannot be read ({error})"
        ) from None


def reads_pairs(policy: TrainedNetwork) -> bool:
    """Return whether a policy scores pairs of unit and kind, which suits any graph."""
    if policy.observation.get("name") != "pairs" or policy.observation.get("version") != 1:
        return False
    if policy.observation.get("features") != list(PAIR_FEATURES):
        raise InvalidInput(
            f"policy '{policy.name}': its features are not those of this version of weft; "
            "train it again"
        )
    return True


def watched_task(stream: ConditionalStream) -> str:
    """Return the task whose choice is estimated; there must be one."""
    if not stream.watched:
        raise InvalidInput(
            f"stream '{stream.name}' has no choice with estimate = true, whose probability could "
            "change; mark one in its file"
        )
    return task_name(stream, stream.watched[0])


def task_name(stream: ConditionalStream, choice: int) -> str:
    """Return the name of the task that makes a choice."""
    w = stream.problem.workflow
    return w.task_name(int(w.choices.task[choice]))


def with_first(stream: ConditionalStream, task: str, p: float) -> ConditionalStream:
    """Return the stream with probability p for the first branch of a task's choice.

    The other branches share the rest in the same proportions as before.
    """
    return stream.with_drift(task, dataclasses.replace(random_drift(stream, task), low=p, high=p))


def variants(
    stream: ConditionalStream, probabilities: Sequence[float] | None
) -> list[ConditionalStream]:
    """Return the stream at each probability of the first branch of its watched choice.

    Without probabilities, return the stream as it is.
    """
    if probabilities is None:
        return [stream]
    return [with_first(stream, watched_task(stream), p) for p in probabilities]


def random_drift(stream: ConditionalStream, task: str) -> ProbabilityDrift:
    """Return a drift that draws the first branch's probability once per run.

    The probability is uniform in [0, 1].
    """
    w = stream.problem.workflow
    owners = [w.task_name(int(t)) for t in w.choices.task]
    return ProbabilityDrift("uniform", stream.drift[owners.index(task)].probability[:1])


def evaluate_network(
    network: Network, stream: ConditionalStream, seeds: list[int], *, options: StepOptions
) -> FloatArray:
    """Return the mean job completion time (s) per seed; inf where a run never ends.

    The network acts greedily: each idle unit, in order, takes the best allowed action that the
    units before it left.
    """
    batch = StepBatch(stream, 1, options)
    check_network_fits(network, batch)
    found = np.zeros(len(seeds))
    for i, seed in enumerate(seeds):
        batch.place(0, *stream.draw_ticks(seed))
        found[i] = float(batch.jct(0).mean()) if run_batch(network, batch) else np.inf
    return found


def run_batch(network: Network, batch: StepBatch) -> bool:
    """Run the first simulation of a batch to its end; return whether it ended."""
    most, actions = MAX_STEPS_PER_JOB * batch.stream.jobs + 1000, np.zeros(batch.units, np.int64)
    return bool(run_episode(batch.tables, make_proposer(network, batch), actions, most))


def check_network_fits(network: Network, batch: StepBatch) -> None:
    """Raise unless a network fits the observation and the units of a stream."""
    shown = (batch.observation_size, batch.units, batch.kinds + 1)
    if shown != (int(network.sizes[0]), network.units, network.actions):
        raise Unsupported(
            f"the network reads {network.sizes[0]} numbers for {network.units} units and "
            f"{network.actions - 1} kinds of task; stream '{batch.stream.name}' shows {shown[0]} "
            f"for {batch.units} and {batch.kinds}; train one for it: weft train conditional"
        )


@njit_noalloc
def run_episode(tables: BatchTables, proposer: Proposer, actions: IntArray, most: int) -> bool:
    """Run the first simulation; return whether it ended within `most` steps."""
    sim, state = sim_of(tables, 0), state_of(tables, 0)
    answer = proceed(sim, state)
    for _ in range(most):
        if answer != MOMENT:
            return True
        propose(sim, state, proposer, actions)
        answer = act(sim, state, actions)
    return False
