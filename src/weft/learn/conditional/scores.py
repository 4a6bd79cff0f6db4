"""Scoring policies and rules for streams of conditional jobs on the same draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from weft.sim.vector.batch import StepBatch, StepOptions, Idle

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
    """Return the stream at each probability of the first branch of its watched choice; as it is without any."""
    if probabilities is None:
        return [stream]
    return [with_first(stream, watched_task(stream), p) for p in probabilities]


def completion_times(
    who: Contender,
    streams: Sequence[ConditionalStream],
    seeds: Sequence[int],
    *,
    waiting: Idle | None = None,
    authors: bool = False,
    watch: Callable[[], None] = lambda: None,
) -> FloatArray:
    """(streams, seeds) mean job completion time in seconds; inf where a policy never finishes.

    `waiting` is by default that a policy was trained with, and "event" for rules.
    """
    found = np.zeros((len(streams), len(seeds)))
    for i, stream in enumerate(streams):
        for j, seed in enumerate(seeds):
            found[i, j] = _one(who, stream, seed, waiting, authors=authors)
            watch()
    return found


def _one(
    who: Contender, stream: ConditionalStream, seed: int, waiting: Idle | None, *, authors: bool
) -> float:
    if isinstance(who, Learned):
        return float(
            play(who.network, stream, [seed], options=options_of(who, waiting), authors=authors)[0]
        )
    options = (
        who.options(waiting)
        if isinstance(who, Rollout)
        else StepOptions(idle=waiting or "event", window=WINDOW)
    )
    fleet = StepBatch(stream, 1, options, authors=authors)
    fleet.place(0, *stream.draw_ticks(seed, authors=authors))
    who.play(fleet)
    return float(fleet.jct(0).mean())
