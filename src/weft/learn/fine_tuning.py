"""Fitting a policy that plans in sight to a few samples: its weights move by evolution, its networks stay."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.generate import Case
from weft.learn.evolution import Evolution
from weft.learn.rule_search import TUNED, copied
from weft.model.columns import FloatArray
from weft.policies import POLICIES
from weft.policies.foresight import WEIGHTS
from weft.policies.foresight_policy import Foresight
from weft.rng import stream
from weft.sim.kernel import ENDED
from weft.sim.tables import make_sim


def fine_tune(policy: str | Foresight, cases: Sequence[Case], seconds: float = 60.0, seed: int = 0) -> Foresight:
    """Return the policy with weights that suit the cases better, or as they were where none were found in the time.

    Parameters
    ----------
    policy : "rule", "dqn", or one of your own
    cases : samples of what it is to be used for
    seconds : of processor time
    """
    if not cases:
        raise InvalidInput("fine-tuning needs at least one case")
    given = POLICIES.create(policy) if isinstance(policy, str) else policy
    if not isinstance(given, Foresight):
        raise Unsupported(f"policy '{given.name}' has no weights to tune; those of 'rule' and 'dqn' can be")
    at = [WEIGHTS.index(name) for name in TUNED]
    blank = [make_sim(case.workload, case.scenario, None, eager=True) for case in cases]

    def times(numbers: FloatArray) -> FloatArray:
        found = np.zeros(len(cases))
        trial = copy.copy(given)
        trial.weights = given.weights.copy()
        trial.weights[at] = numbers
        for k, case in enumerate(cases):
            trial.begin(case.workload)
            sim = copied(blank[k])
            ended = trial.live(sim) == ENDED
            found[k] = np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()) if ended else np.inf
        return found

    began, start = time.process_time(), given.weights[at]
    reference = times(start)
    best, least = start, 0.0
    evolution = Evolution(start, np.full(len(at), 0.05), population=10, rng=stream(seed, "fine-tuning"))
    while time.process_time() - began < seconds:
        candidates = evolution.ask()
        evolution.tell(candidates, np.array([np.clip(times(c) - reference, -0.7, 0.7).mean() for c in candidates]))
        score = float(np.clip(times(evolution.mean) - reference, -0.7, 0.7).mean())
        if score < least:
            best, least = evolution.mean.copy(), score
    tuned = copy.copy(given)
    tuned.weights = given.weights.copy()
    tuned.weights[at] = best
    return tuned
