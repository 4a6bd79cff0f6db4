"""Fitting a policy that plans in sight to some samples: its weights move by evolution, its networks stay."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.generators import Instance
from weft.learn.cma import SeparableCma
from weft.learn.workflow.rule import TUNED, copied
from weft.model.columns import BoolArray, FloatArray
from weft.policies import POLICIES
from weft.policies.replanning.placement import WEIGHTS
from weft.policies.replanning.policy import ReplanningPolicy
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import Sim, make_sim

HELD_BACK = 3
"""Every third sample judges; the others are learned from."""


def fine_tune(
    policy: str | ReplanningPolicy, cases: Sequence[Instance], seconds: float = 60.0, seed: int = 0
) -> ReplanningPolicy:
    """Return the policy with weights that suit the cases better, or as they were where none were found in the time.

    All sets of weights move together. What is found on two thirds of the cases is taken if it is better on the others too.

    Parameters
    ----------
    policy : "tuned-list", "portfolio", "replan-switch", or one of your own
    cases : samples of what it is to be used for, at least three
    seconds : of processor time
    """
    if len(cases) < HELD_BACK:
        raise InvalidInput(f"fine-tuning needs at least {HELD_BACK} cases; got {len(cases)}")
    given = POLICIES.create(policy) if isinstance(policy, str) else policy
    if not isinstance(given, ReplanningPolicy):
        raise Unsupported(
            f"policy '{given.name}' has no weights to tune; those of 'tuned-list', 'portfolio' and 'replan-switch' can be"
        )
    at = [WEIGHTS.index(name) for name in TUNED]
    judge = np.arange(len(cases)) % HELD_BACK == HELD_BACK - 1
    blank = [make_sim(case.workload, case.scenario, None, eager=True) for case in cases]

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
            sim = copied(blank[k])
            ended = trial.live(sim) == ENDED
            found.append(np.log(_reached(sim, given.aim)) if ended else np.inf)
        return np.array(found)

    began = time.process_time()
    best, still = np.zeros(len(at)), np.zeros(len(at))
    own, judged = times(still, ~judge), times(still, judge)
    least = 0.0
    evolution = SeparableCma(
        still, np.full(len(at), 0.05), population=10, rng=generator(seed, "fine-tuning")
    )
    while time.process_time() - began < seconds:
        candidates = evolution.ask()
        evolution.tell(
            candidates, np.array([_mean_change(times(c, ~judge), own) for c in candidates])
        )
        change = _mean_change(times(evolution.mean, ~judge), own)
        second = _mean_change(times(evolution.mean, judge), judged)
        if max(change, second) < 0.0 and change + second < least:
            best, least = evolution.mean.copy(), change + second
    return moved(best)


def _reached(sim: Sim, aim: str) -> float:
    """What the policy aims at: the mean completion time of jobs, or the time until all are done."""
    finish, arrival = sim.job["finish"][:-1], sim.job["arrival"][:-1]
    return float((finish - arrival).mean() if aim == "completion" else finish.max() - arrival.min())


def _mean_change(found: FloatArray, before: FloatArray) -> float:
    return float(np.clip(found - before, -np.log(2), np.log(2)).mean())
