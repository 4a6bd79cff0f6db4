"""Objectives beyond the document: what energy and fairness cost, by weights of a policy that plans at every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.evaluator import Evaluator
from weft.experiments.gpu_cluster.runs import FIRST_SEED
from weft.generators import draw_instance
from weft.policies import POLICIES
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.weights import WEIGHTS
from weft.report.figures import pareto_front
from weft.sim.view import Policy

Labelled = tuple[str, Policy]
ENERGY = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Weights of energy against time."""
AGE = (0.0, 0.03, 0.1, 0.3, 1.0, 10.0)
"""Weights of a job's age against what is left of it: the higher, the more it is first come, first served."""


def weighted_policies(names: Sequence[str]) -> dict[str, list[Labelled]]:
    """Variants of the tuned rule (re-planned HEFT, shortest remaining work first, while there is none) by what they weigh."""
    if "heft-replanned" not in names:
        return {}
    tuned = POLICIES.create("tuned-list") if "tuned-list" in names else None
    base = _weights(tuned) if isinstance(tuned, ReplanningPolicy) else {}
    waiting = base or {"work": 1.0, "rank": 1e-3}
    return {
        "energy": [
            (
                f"energy {w:g}",
                ReplanningPolicy("weighted", {**base, "energy": base.get("energy", 0.0) + w}),
            )
            for w in ENERGY
        ],
        "fairness": [
            (
                f"age {w:g}",
                ReplanningPolicy("weighted", {**waiting, "age": waiting.get("age", 0.0) + w}),
            )
            for w in AGE
        ],
    }


def _weights(policy: ReplanningPolicy) -> dict[str, float]:
    return dict(zip(WEIGHTS, policy.sets[0].tolist(), strict=True))


def trade_off(
    policies: Sequence[Labelled], *, against: str, seeds: int, jobs: int, tasks: tuple[int, int]
) -> list[dict[str, Any]]:
    """Every policy on the same draws: geometric means over the first policy's, and who is beaten by nobody.

    `against` is "energy" (makespan and joules, all jobs there from the beginning) or "fairness" (mean completion time in a stream, and how
    unequally its jobs are slowed down: 1 / Jain's index).
    """
    figures = ("makespan", "energy") if against == "energy" else ("jct", "fairness")
    logs = {label: [] for label, _ in policies}  # type: dict[str, list[list[float]]]
    for seed in range(seeds):
        if against == "energy":
            case = draw_instance(
                "noisy", seed=FIRST_SEED + seed, jobs=max(1, jobs // 4), tasks=tasks
            )
        else:
            case = draw_instance("stream", seed=FIRST_SEED + seed, jobs=jobs, tasks=tasks, load=0.9)
        arena = Evaluator(case.workload, stream=against != "energy")
        for label, policy in policies:
            found = arena.play_policy(policy, case.scenario)
            second = found["energy"] if against == "energy" else 1.0 / found["fairness"]
            logs[label].append([np.log(found[figures[0]]), np.log(second)])
    base = np.array(logs[policies[0][0]])
    means = {
        label: np.exp((np.array(rows) - base).mean(axis=0)).tolist() for label, rows in logs.items()
    }
    front = pareto_front({label: (x, y) for label, (x, y) in means.items()})
    return [
        {"label": label, "time": x, "other": y, "front": label in front}
        for label, (x, y) in means.items()
    ]
