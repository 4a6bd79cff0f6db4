"""Fine-tuning of a replanning policy to sample instances, by CMA-ES."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.generators import Instance
from weft.learn.cma import SeparableCma
from weft.learn.workflow.tuned_list import TUNED, clip_ratio, copy_sim, start_sim
from weft.model.columns import BoolArray, FloatArray
from weft.policies.load import load_policy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.weights import WEIGHTS
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import Sim

HELD_BACK = 3
"""Every third sample is held out for validation."""


def fine_tune(
    policy: str | ReplanningPolicy, cases: Sequence[Instance], seconds: float = 60.0, seed: int = 0
) -> ReplanningPolicy:
    """Return the policy with weights that suit the samples better, if any.

    All weight sets move together; networks stay. Weights found on two thirds of the samples are
    taken if they are better on the others too.

    Parameters
    ----------
    policy : "tuned-list", "portfolio", "replan-switch", or an own one
    cases : samples of the instances it is meant for, at least three
    seconds : of processor time
    """
    if len(cases) < HELD_BACK:
        raise InvalidInput(f"fine-tuning needs at least {HELD_BACK} cases; got {len(cases)}")
    given = load_policy(policy)
    if not isinstance(given, ReplanningPolicy):
        raise Unsupported(
            f"policy '{given.name}' has no weights to tune; use 'tuned-list', 'portfolio' or "
            "'replan-switch'"
        )
    at = [WEIGHTS.index(name) for name in TUNED]
    held_out = np.arange(len(cases)) % HELD_BACK == HELD_BACK - 1
    blank = [start_sim(case) for case in cases]

    def moved(step: FloatArray) -> ReplanningPolicy:
        policy = copy.copy(given)
        policy.sets = tuple(weights.copy() for weights in given.sets)
        for weights in policy.sets:
            weights[at] += step
        return policy

    def times(step: FloatArray, which: BoolArray) -> FloatArray:
        trial, found = moved(step), []
        for k in np.flatnonzero(which).tolist():
            trial.begin(cases[k].workload)
            sim = copy_sim(blank[k])
            ended = trial.live(sim) == ENDED
            found.append(np.log(_objective(sim, given.options.aim)) if ended else np.inf)
        return np.array(found)

    began = time.process_time()
    best, still = np.zeros(len(at)), np.zeros(len(at))
    own, validated = times(still, ~held_out), times(still, held_out)
    least = 0.0
    evolution = SeparableCma(
        still, np.full(len(at), 0.05), population=10, rng=generator(seed, "fine-tuning")
    )
    while time.process_time() - began < seconds:
        candidates = evolution.ask()
        evolution.tell(
            candidates, np.array([_mean_change(times(c, ~held_out), own) for c in candidates])
        )
        change = _mean_change(times(evolution.mean, ~held_out), own)
        second = _mean_change(times(evolution.mean, held_out), validated)
        if max(change, second) < 0.0 and change + second < least:
            best, least = evolution.mean.copy(), change + second
    return moved(best)


def _objective(sim: Sim, aim: str) -> float:
    """Return the aim of the policy: the mean completion time of jobs, or the makespan."""
    finish, arrival = sim.job["finish"][:-1], sim.job["arrival"][:-1]
    return float((finish - arrival).mean() if aim == "completion" else finish.max() - arrival.min())


def _mean_change(found: FloatArray, before: FloatArray) -> float:
    return float(clip_ratio(found - before).mean())
