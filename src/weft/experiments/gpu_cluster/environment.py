"""Random decisions per second in the environment of `dqn`, observations included."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from weft.generators import draw_instance
from weft.model.columns import FloatArray
from weft.policies.replanning.portfolio import WINDOW, PlanOptions, Portfolio, make_portfolio
from weft.policies.replanning.weights import weights_of
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.decision import FEATURES, Candidates, make_candidates
from weft.rng import generator
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, make_sim


def decisions_per_second(seconds: float) -> float:
    """Measure random decisions per second of processor time, observations included.

    Workflows have 20 to 150 tasks; drawing them is not counted.
    """
    weights, rng = weights_of({}), generator(0, "decisions per second")
    options = PlanOptions(window=WINDOW, early_exit=False)
    spent, decisions, k = 0.0, 0, 0
    seen = np.zeros((256, FEATURES), np.float32)
    while spent < seconds:
        case = draw_instance("noisy", seed=k)
        sim = make_sim(case.workload, case.scenario, None, eager=True)
        portfolio = make_portfolio(case.workload, sim, [weights], options)
        candidates, chance = make_candidates(sim), rng.random(20_000)
        began = time.process_time()
        made = _run_at_random(sim, portfolio, candidates, chance, seen)
        if k > 0:  # the first one may have compiled
            spent, decisions = spent + time.process_time() - began, decisions + made
        k += 1
    return decisions / spent


@njit_noalloc
def _run_at_random(
    sim: Sim,
    portfolio: Portfolio,
    candidates: Candidates,
    chance: FloatArray,
    seen: NDArray[np.float32],
) -> int:
    """Choose at random and copy every observation; count the decisions.

    A learner would copy them too.
    """
    for t in range(len(chance)):
        if next_decision(sim, portfolio, candidates) != MOMENT:
            return t
        count = candidates.state[0].count
        for c in range(min(count, len(seen))):
            for f in range(FEATURES):
                seen[c, f] = candidates.feature[c, f]
        task, device = apply(candidates, int(chance[t] * count))
        if device >= 0:
            commit(sim, task, device)
    return len(chance)
