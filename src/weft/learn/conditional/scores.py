"""Scores of policies and rules for streams of conditional jobs on the same draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import UnknownName
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    WINDOW,
    options_of,
    play,
    reads_pairs,
    watched_task,
    with_first,
)
from weft.policies.conditional.files import ALIASES, Learned, find_policy, read_policy, shipped
from weft.policies.conditional.index import load_index
from weft.policies.conditional.pair_policy import PairPolicy
from weft.policies.conditional.rollout import Rollout, load_rollout
from weft.policies.conditional.rules import RULES, ConditionalRule
from weft.registry import closest
from weft.sim.vector.batch import StepBatch, StepOptions, Waiting

Contender = Learned | ConditionalRule | PairPolicy | Rollout
ROLLOUT = "rollout"


def contender(name: str) -> Contender:
    """Return a rule, rollouts or a learned policy by name, or a learned policy by path."""
    if name == ROLLOUT:
        return load_rollout()
    if name in RULES:
        return load_index() if name == "index" else ConditionalRule(name)
    try:
        learned = read_policy(find_policy(name))
        return PairPolicy(learned.network, learned.name) if reads_pairs(learned) else learned
    except UnknownName:
        known = [*RULES, ROLLOUT, *ALIASES, *shipped()]
        raise UnknownName(f"unknown policy '{name}'{closest(name, known)}") from None


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
    policy: Contender,
    streams: Sequence[ConditionalStream],
    seeds: Sequence[int],
    *,
    waiting: Waiting | None = None,
    authors: bool = False,
) -> FloatArray:
    """(streams, seeds) mean job completion time in seconds; inf where a policy never finishes.

    `waiting` defaults to that of the policy's training, and to "event" for rules.
    """
    return np.array(
        [[_play(policy, stream, seed, waiting, authors) for seed in seeds] for stream in streams]
    ).reshape(len(streams), len(seeds))


def _play(
    policy: Contender,
    stream: ConditionalStream,
    seed: int,
    waiting: Waiting | None,
    authors: bool,
) -> float:
    if isinstance(policy, Learned):
        options = options_of(policy, waiting)
        return float(play(policy.network, stream, [seed], options=options, authors=authors)[0])
    options = (
        policy.options(waiting)
        if isinstance(policy, Rollout)
        else StepOptions(waiting=waiting or "event", window=WINDOW)
    )
    batch = StepBatch(stream, 1, options, authors=authors)
    batch.place(0, *stream.draw_ticks(seed, authors=authors))
    policy.play(batch)
    return float(batch.jct(0).mean())
