"""The document's tasks with queues: one CPU and four GPUs in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.experiments.shift.contenders import forest_fractions, train_models
from weft.experiments.shift.forest import Forest
from weft.experiments.shift.physics import profile_tasks
from weft.experiments.shift.tasks import CPU, GPU, Tasks
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, Workflow, Workload
from weft.model.check import check
from weft.model.columns import FloatArray
from weft.planners import plan
from weft.policies import simulate
from weft.policies.hybrid.policy import HybridPolicy
from weft.sim.view import Decision, Policy, View

GPUS = 4
INFORMATION = {
    "HEFT": "all durations",
    "eft": "all durations",
    "fifo": "nothing",
    "forest": "the biased offline data",
    "offline": "the biased offline data, a profile",
    "hybrid": "the biased offline data, a profile and its observations",
}


@dataclass(frozen=True, eq=False)
class ClusterResult:
    """Traces by contender, and a lower bound on the makespan of any schedule."""

    bound: float
    traces: dict[str, Trace]

    def rows(self) -> list[dict[str, Any]]:
        """Return makespan, share of the tasks on the CPU and information, by contender."""
        return [
            {
                "policy": name,
                "information": INFORMATION[name],
                "makespan": trace.makespan,
                "over_bound": float(trace.makespan / self.bound),
                "on_cpu": float((trace.device == 0).mean()),
            }
            for name, trace in self.traces.items()
        ]


@dataclass(frozen=True, eq=False)
class Placed:
    """Policy with a device kind per task chosen in advance; oldest first."""

    kinds: Sequence[str]
    name: str = "forest"

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Prepare nothing."""

    def decide(self, view: View) -> Decision | None:
        """Return the first ready task whose device kind has an idle device."""
        idle = {view.workload.cluster.kinds[d]: d for d in np.flatnonzero(view.idle)[::-1].tolist()}
        for instance in view.ready.tolist():
            kind = self.kinds[view.workload.task_of(instance)[1]]
            if kind in idle:
                return Decision(instance, idle[kind])
        return None


def cluster_problem(tasks: Tasks, *, name: str = "shift") -> Problem:
    """Return the tasks on one CPU and four GPUs.

    Transfers are part of a task's time on a GPU, as in the document; edges carry order only.
    """
    edges = [(parent, child) for child, mine in enumerate(tasks.parents) for parent in mine]
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    seconds = tasks.seconds
    workflow = Workflow(
        work=np.zeros(len(tasks)),
        src=pairs[:, 0],
        dst=pairs[:, 1],
        data=np.zeros(len(pairs)),
        durations={"cpu": seconds[:, CPU], "gpu": seconds[:, GPU]},
        name=name,
    )
    kinds = ("cpu", *["gpu"] * GPUS)
    names = ("cpu", *(f"gpu{i}" for i in range(GPUS)))
    return Problem.bind(workflow, Cluster(speed=np.ones(len(kinds)), kinds=kinds, names=names))


def run_cluster(
    test: Tasks, training: Tasks, forest: Forest, *, noise: float = 0.0, seed: int = 0
) -> ClusterResult:
    """Simulate all contenders of the cluster step."""
    problem = cluster_problem(test)
    workload = Workload.of(problem)
    scenario = Scenario.draw(workload, seed=seed, noise=noise)
    best = plan(problem, "heft")
    fractions = forest_fractions(forest, test.features)
    contenders: dict[str, str | Policy | Schedule] = {
        "HEFT": best.schedule,
        "eft": "eft",
        "fifo": "fifo",
        "forest": Placed(["gpu" if f >= 0.5 else "cpu" for f in fractions]),
        "offline": hybrid_policy(training, test, learning=False),
        "hybrid": hybrid_policy(training, test),
    }
    traces = {name: simulate(workload, c, scenario=scenario) for name, c in contenders.items()}
    for name, trace in traces.items():
        wrong = check(workload, trace)
        assert not wrong, f"{name}: {wrong[0]}"
    return ClusterResult(best.bound, traces)


def hybrid_policy(training: Tasks, test: Tasks, *, learning: bool = True) -> Policy:
    """Return the policy `hybrid`, with or without online learning."""
    profile = Tasks(*profile_tasks().T).seconds
    cpu, gpu = train_models(training.features, training.seconds, profile)
    name = "hybrid" if learning else "offline"

    def features(workload: Workload) -> FloatArray:
        return np.tile(test.features, (workload.jobs, 1))

    return HybridPolicy({"cpu": cpu, "gpu": gpu}, features, name=name, learning=learning)
