"""Scores of policies and rules for streams of conditional jobs on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from weft.errors import Unsupported
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    WINDOW,
    evaluate_network,
    options_of,
    watched_task,
    with_first,
)
from weft.policies.conditional.rollout import Rollout
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.load import load_policy
from weft.policies.simulate import simulate
from weft.sim.vector.batch import Idle, StepBatch, StepOptions
from weft.sim.view import Policy


def variants(
    stream: ConditionalStream, probabilities: Sequence[float] | None
) -> list[ConditionalStream]:
    """Return the stream at each probability of the first branch of its watched choice.

    Without probabilities, return the stream as it is.
    """
    if probabilities is None:
        return [stream]
    return [with_first(stream, watched_task(stream), p) for p in probabilities]


def completion_times(
    policy: str | PathLike[str] | Policy,
    streams: Sequence[ConditionalStream],
    seeds: Sequence[int],
    *,
    idle: Idle | None = None,
    authors: bool = False,
) -> FloatArray:
    """(streams, seeds) mean job completion time in seconds; inf where a policy never finishes.

    `idle` defaults to that of the policy's training, and to "event" for rules.
    """
    policy = load_policy(policy)
    found = np.zeros((len(streams), len(seeds)))
    for i, stream in enumerate(streams):
        for j, seed in enumerate(seeds):
            found[i, j] = _one(policy, stream, seed, idle, authors=authors)
    return found


def _one(
    policy: Policy, stream: ConditionalStream, seed: int, idle: Idle | None, *, authors: bool
) -> float:
    stepwise: Any = getattr(policy, "stepwise", None)
    if stepwise is None:
        return _simulated(policy, stream, seed, idle, authors=authors)
    if isinstance(stepwise, TrainedNetwork):
        options = options_of(stepwise, idle)
        return float(
            evaluate_network(stepwise.network, stream, [seed], options=options, authors=authors)[0]
        )
    options = (
        stepwise.options(idle)
        if isinstance(stepwise, Rollout)
        else StepOptions(idle=idle or "event", window=WINDOW)
    )
    batch = StepBatch(stream, 1, options, authors=authors)
    batch.place(0, *stream.draw_ticks(seed, authors=authors))
    stepwise.run(batch)
    return float(batch.jct(0).mean())


def _simulated(
    policy: Policy, stream: ConditionalStream, seed: int, idle: Idle | None, *, authors: bool
) -> float:
    """Simulate a policy that has no step-wise form; it always waits until the next event."""
    if idle == "block":
        raise Unsupported(f"policy '{policy.name}' cannot block idle units; leave out the option")
    workload, scenario = stream.draw(seed, authors=authors)
    return float(simulate(workload, policy, scenario=scenario).jct)
