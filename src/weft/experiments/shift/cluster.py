"""The document's tasks with queues and parallelism: one CPU and four GPUs in the simulator, parents before children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.experiments.shift.contenders import forest_rows, train_models
from weft.experiments.shift.tasks import CPU, GPU, Tasks
from weft.learn.durations.forest import Forest
from weft.learn.durations.hybrid import HybridPolicy
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, Workflow, Workload
from weft.model.check import check
from weft.model.columns import FloatArray
from weft.planners import plan
from weft.policies import simulate
from weft.sim.view import Decision, Policy, View

GPUS = 4


def cluster_problem(tasks: Tasks, *, name: str = "shift") -> Problem:
    """The tasks on one CPU and four GPUs. Transfers are part of a task's time on a GPU, as in the document; edges carry order only."""
    pairs = np.array(
        [(parent, child) for child, mine in enumerate(tasks.parents) for parent in mine], np.int64
    ).reshape(-1, 2)
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
    return Problem.bind(
        workflow,
        Cluster(
            speed=np.ones(len(kinds)), kinds=kinds, names=("cpu", *(f"gpu{i}" for i in range(GPUS)))
        ),
    )


@dataclass(frozen=True, eq=False)
class ClusterResult:
    """Traces by contender, and a bound on the makespan of any schedule."""

    problem: Problem
    bound: float
    traces: dict[str, Trace]

    def rows(self) -> list[dict[str, object]]:
        """Makespan, share of the tasks on the CPU and what was known, by contender."""
        return [
            {
                "policy": name,
                "knows": KNOWS[name],
                "makespan": trace.makespan,
                "over_bound": float(trace.makespan / self.bound),
                "on_cpu": float((trace.device == 0).mean()),
            }
            for name, trace in self.traces.items()
        ]


KNOWS = {
    "HEFT": "all durations",
    "eft": "all durations",
    "fifo": "nothing",
    "forest": "the biased offline data",
    "offline": "the biased offline data",
    "hybrid": "the biased offline data, and what it sees",
}


@dataclass(frozen=True, eq=False)
class Placed:
    """Every task on the kind of device that was chosen for it beforehand, oldest first."""

    kinds: Sequence[str]
    name: str = "forest"

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Nothing to prepare."""

    def decide(self, view: View) -> Decision | None:
        """The first ready task whose kind of device has an idle one."""
        idle = {view.workload.cluster.kinds[d]: d for d in np.flatnonzero(view.idle)[::-1].tolist()}
        for instance in view.ready.tolist():
            kind = self.kinds[view.workload.task_of(instance)[1]]
            if kind in idle:
                return Decision(instance, idle[kind])
        return None


def run_cluster(
    test: Tasks, training: Tasks, forest: Forest, *, noise: float = 0.0, seed: int = 0
) -> ClusterResult:
    """Simulate the test tasks under plans and rules that know every duration, and under models that know the biased data only."""
    problem = cluster_problem(test)
    workload = Workload.of(problem)
    scenario = Scenario.draw(workload, seed=seed, noise=noise)
    best = plan(problem, "heft")
    contenders: dict[str, str | Policy | Schedule] = {
        "HEFT": best.schedule,
        "eft": "eft",
        "fifo": "fifo",
        "forest": Placed(
            ["gpu" if f >= 0.5 else "cpu" for f in forest.predict(forest_rows(test.features))]
        ),
        "offline": learner(training, test, learning=False),
        "hybrid": learner(training, test),
    }
    traces = {
        name: simulate(workload, contender, scenario=scenario)
        for name, contender in contenders.items()
    }
    for name, trace in traces.items():
        wrong = check(workload, trace)
        assert not wrong, f"{name}: {wrong[0]}"
    return ClusterResult(problem, best.bound, traces)


def learner(training: Tasks, test: Tasks, *, learning: bool = True) -> Policy:
    """The policy `hybrid` for the test tasks; without learning it keeps to the offline data."""
    cpu, gpu = train_models(training)
    return HybridPolicy(
        {"cpu": cpu, "gpu": gpu},
        rows_of(test),
        name="hybrid" if learning else "offline",
        learning=learning,
    )


def rows_of(tasks: Tasks) -> Callable[[Workload], FloatArray]:
    """The features of every instance, for a workload whose jobs are all these tasks."""
    return lambda workload: np.tile(tasks.features, (workload.jobs, 1))
