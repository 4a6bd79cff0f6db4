"""Decision times, training records, trade-offs with energy and fairness."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.experiments.gpu_cluster.contenders import LEARNED, contender
from weft.experiments.gpu_cluster.runs import FIRST_SEED, Evaluator, ExperimentPlan
from weft.generators import draw_instance, heterogeneous_gpus, scale_ccr
from weft.generators.instances import TASK_KINDS
from weft.model import Cluster, Problem, Scenario, Workflow, Workload
from weft.policies import POLICIES, simulate
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.weights import WEIGHTS
from weft.policies.rules import RulePolicy
from weft.report.figures import pareto_front
from weft.rng import generator
from weft.sim.kernel.rules import run_to_end
from weft.sim.kernel.tables import make_sim
from weft.sim.view import CompiledPolicy, Policy

READY, DEVICES, LENGTH = 32, 16, 10
BUNDLED = Path(weft.__file__).parent / "policies" / "bundled"


def busy_state(seed: int = 0) -> Workload:
    """Return chains with 16 running and 32 ready tasks at most decisions.

    This holds for policies that advance all chains evenly, such as those by upward rank.

    Examples
    --------
    >>> workload = busy_state()
    >>> workload.cluster.p, workload.instances
    (16, 480)
    """
    chains = READY + DEVICES
    rng, n = generator(seed, "busy state"), chains * LENGTH
    src = np.flatnonzero(np.arange(n) % LENGTH < LENGTH - 1)
    workflow = Workflow(
        name="chains",
        work=np.exp(0.5 * rng.standard_normal(n)),
        src=src,
        dst=src + 1,
        data=np.ones(len(src)),
        kind=rng.integers(0, TASK_KINDS, n),
        kinds=tuple(f"k{k}" for k in range(TASK_KINDS)),
    )
    cluster = sixteen()
    return Workload.of(Problem.bind(scale_ccr(workflow, 1.0, cluster), cluster))


def sixteen() -> Cluster:
    """Return the first drawn cluster with four devices of each of four types."""
    return next(
        c for c in (heterogeneous_gpus(seed, kinds=4) for seed in count()) if c.p == DEVICES
    )


def decision_rows(names: Sequence[str], *, rounds: int) -> list[dict[str, Any]]:
    """Return the median time per decision of all online policies."""
    workload = busy_state()
    future = Scenario.draw(workload, seed=1, noise=0.2)
    deciding = [name for name in names if not contender(name).planned]
    return [
        decision_row(name, POLICIES.create(contender(name).maker), workload, future, rounds=rounds)
        for name in deciding
    ]


def decision_row(
    name: str, policy: Policy, workload: Workload, future: Scenario, *, rounds: int
) -> dict[str, Any]:
    """Return processor time per decision, the simulator included.

    Time spent once per workload is `begin_microseconds`.
    """
    begins, spent = [], []
    compiled = isinstance(policy, RulePolicy | CompiledPolicy)
    for _ in range(rounds if compiled else min(rounds, 3)):
        first = time.thread_time()
        run = _ready_to_run(policy, workload, future)
        second = time.thread_time()
        run()
        begins.append(second - first)
        spent.append(time.thread_time() - second)
    _, *begins = begins if len(begins) > 1 else begins * 2  # the first may compile
    _, *spent = spent if len(spent) > 1 else spent * 2
    return {
        "policy": name,
        "compiled": compiled,
        "microseconds": 1e6 * float(np.median(spent)) / workload.instances,
        "begin_microseconds": 1e6 * float(np.median(begins)),
    }


def _ready_to_run(policy: Policy, workload: Workload, future: Scenario) -> Callable[[], object]:
    if isinstance(policy, RulePolicy):
        sim = make_sim(workload, future, policy.rule(workload), eager=True)
        return lambda: run_to_end(sim)
    if isinstance(policy, CompiledPolicy):
        policy.begin(workload, seed=0)
        sim = make_sim(workload, future, None, eager=True, copies=getattr(policy, "copies", False))
        if isinstance(policy, ReplanningPolicy):
            plans = policy.portfolio(sim)
            return lambda: policy.live_by(sim, plans)
        return lambda: policy.live(sim)
    return lambda: simulate(workload, policy, scenario=future)


# -- training records ------------------------------------------------------------------

X_KEYS = "steps decisions samples step episode update updates round iteration generation episodes"
X_KEYS += " seconds"
Y_KEYS = "score all ratio relative best value makespan jct return reward loss"
"""Keys of learning curves, in order of preference."""


def training_rows(names: Sequence[str], folder: Path = BUNDLED) -> list[dict[str, Any]]:
    """Return minutes, seed and curve of each learned policy."""
    rows = []
    for name in (n for n in LEARNED if n in names):
        path = folder / f"{name}.json"
        if path.exists():
            rows.append({"policy": name, **_record(json.loads(path.read_text(encoding="utf-8")))})
    return rows


def _record(card: Mapping[str, Any]) -> dict[str, Any]:
    record = card["training"]
    curve = record["curve"]
    x = next((key for key in X_KEYS.split() if key in curve[0]), "entry")
    y = next(key for key in Y_KEYS.split() if any(key in entry for entry in curve))
    return {
        "minutes": record["cpu_seconds"] / 60,
        "seed": record["seed"],
        "algorithm": record["algorithm"],
        "x": x,
        "y": y,
        "curve": [
            [float(entry.get(x, k)), float(entry[y])]
            for k, entry in enumerate(curve)
            if entry.get(y) is not None
        ],
    }


# -- energy and fairness ---------------------------------------------------------------

Labelled = tuple[str, Policy]
ENERGY = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Weights of energy against time."""
AGE = (0.0, 0.03, 0.1, 0.3, 1.0, 10.0)
"""Weights of a job's age against its remaining work: high weights approach FIFO."""


def weighted_policies() -> dict[str, list[Labelled]]:
    """Return variants of `tuned-list` with other weights of energy and of age."""
    tuned = POLICIES.create("tuned-list")
    assert isinstance(tuned, ReplanningPolicy)
    base = dict(zip(WEIGHTS, tuned.sets[0].tolist(), strict=True))

    def variants(label: str, feature: str, weights: Sequence[float]) -> list[Labelled]:
        return [
            (
                f"{label} {w:g}",
                ReplanningPolicy("weighted", {**base, feature: base.get(feature, 0.0) + w}),
            )
            for w in weights
        ]

    return {"energy": variants("energy", "energy", ENERGY), "fairness": variants("age", "age", AGE)}


def trade_off(
    policies: Sequence[Labelled], *, against: str, plan: ExperimentPlan
) -> list[dict[str, Any]]:
    """Compare policies on the same draws, relative to the first one.

    `against` is "energy" (makespan and joules, all jobs arrive at time 0) or "fairness" (mean
    completion time in a stream, and inequality of slowdowns: 1 / Jain's index).
    """
    jobs, tasks, energy = plan.stream_jobs, plan.stream_tasks, against == "energy"
    logs: dict[str, list[list[float]]] = {label: [] for label, _ in policies}
    for seed in range(FIRST_SEED, FIRST_SEED + plan.seeds.streams):
        if energy:
            case = draw_instance("noisy", seed=seed, jobs=max(1, jobs // 4), tasks=tasks)
        else:
            case = draw_instance("stream", seed=seed, jobs=jobs, tasks=tasks, load=0.9)
        evaluator = Evaluator(case.workload, stream=not energy)
        for label, policy in policies:
            found = evaluator.run_policy(policy, case.scenario)
            pair = (
                (found["makespan"], found["energy"])
                if energy
                else (found["jct"], 1.0 / found["fairness"])
            )
            logs[label].append([np.log(value) for value in pair])
    base = np.array(logs[policies[0][0]])
    means = {
        label: np.exp((np.array(rows) - base).mean(axis=0)).tolist() for label, rows in logs.items()
    }
    front = pareto_front({label: (x, y) for label, (x, y) in means.items()})
    return [
        {"label": label, "time": x, "other": y, "front": label in front}
        for label, (x, y) in means.items()
    ]
