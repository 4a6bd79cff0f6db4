"""Steps of the shift experiment.

The document adds up task times. The cluster step runs the same tasks with queues and parallelism:
one CPU and four GPUs in the simulator, parents before children.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.shift.contenders import (
    Learner,
    Played,
    best_fractions,
    fixed_fractions,
    forest_rows,
    make_dqn,
    make_hybrid,
    play,
    train_models,
)
from weft.experiments.shift.statistics import recovery, within
from weft.experiments.shift.tasks import (
    CPU,
    GPU,
    SHIFTED,
    Tasks,
    TaskSequence,
    document_tasks,
    sequences,
    split_seconds,
)
from weft.learn.durations import matrix_product
from weft.learn.durations.forest import Forest, fit_sklearn, write_onnx
from weft.learn.durations.hybrid import HybridPolicy
from weft.learn.onnx_session import onnx_session
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, Workflow, Workload
from weft.model.check import check
from weft.model.columns import FloatArray
from weft.planners import plan
from weft.policies import simulate
from weft.sim.view import Decision, Policy, View

TASKS = 500
SEEDS = 20
"""Number of DQN agents; the DQN's row is their mean."""
DOCUMENT = {
    "Offline Optimal": 12.97,
    "Round Robin": 56.87,
    "Random": 67.14,
    "Greedy": 18.30,
    "Hybrid ML (RF)": 122.92,
    "RL Agent (DQN)": 21.12,
}
"""Makespans in the document, seconds."""
DOCUMENT_MEAN = dict(zip(DOCUMENT, (0.03, 0.11, 0.13, 0.04, 0.25, 0.04), strict=True))
"""Mean task times in the document, seconds."""
PROBING = (0.0, 0.015, 0.05)
FRESH = range(101, 106)
"""Seeds of sequences that no setting was chosen with."""
GPUS = 4
INFORMATION = {
    "HEFT": "all durations",
    "eft": "all durations",
    "fifo": "nothing",
    "forest": "the biased offline data",
    "offline": "the biased offline data",
    "hybrid": "the biased offline data and its observations",
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


@dataclass(eq=False)
class ShiftResults:
    """Results of the steps so far; `document` becomes results.json."""

    quick: bool
    training: Tasks
    test: Tasks
    forest: Forest
    generator: np.random.RandomState
    curves: dict[str, list[FloatArray]] = field(default_factory=dict)
    clusters: dict[float, ClusterResult] = field(default_factory=dict)
    sequences: list[TaskSequence] = field(default_factory=list)
    sequence_curves: dict[str, dict[str, list[FloatArray]]] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, spent: list[FloatArray], gpu_tasks: list[int]) -> None:
        """Add a strategy: seconds of each task in each run, tasks on the GPU in each run."""
        self.curves[name] = spent
        totals = [float(s.sum()) for s in spent]
        base = self.curves.get("Round Robin")
        baseline = DOCUMENT["Round Robin"] if base is None else float(base[0].sum())
        self.document.setdefault("strategies", []).append(
            {
                "strategy": name,
                "document": DOCUMENT.get(name),
                "makespan": float(np.mean(totals)),
                "spread": float(np.std(totals)) if len(totals) > 1 else None,
                "runs": len(totals),
                "mean_task": float(np.mean(totals)) / TASKS,
                "document_mean_task": DOCUMENT_MEAN.get(name),
                "speedup": baseline / float(np.mean(totals)),
                "gpu_tasks": float(np.mean(gpu_tasks)),
            }
        )


# -- the document's pipeline -----------------------------------------------------------


def fixed(found: ShiftResults) -> None:
    """Run the strategies that do not learn online, the forest included."""
    test = found.test
    fractions = fixed_fractions(test, found.generator)
    fractions["Hybrid ML (RF)"] = found.forest.predict(forest_rows(test.features))
    for name, fraction in fractions.items():
        spent = split_seconds(test.seconds, fraction)
        found.add(name, [spent], [int((fraction >= 0.5).sum())])


def hardware(found: ShiftResults) -> None:
    """Time matrix products on this machine."""
    rows = matrix_product.measure((128, 256, 512) if found.quick else matrix_product.SIZES)
    accelerator = rows[0]["accelerator_seconds"] is not None
    found.document["hardware"] = {"accelerator": accelerator, "rows": rows}


def forest_speed(found: ShiftResults) -> None:
    """Time one prediction of a forest trained on both kinds of tasks."""
    shifted = document_tasks(TASKS, SHIFTED, np.random.RandomState(7))
    mixed = Tasks(*np.concatenate([found.training.features[:TASKS], shifted.features]).T)
    rows = forest_rows(mixed.features)
    model, centre, spread = fit_sklearn(rows, np.log(mixed.seconds[:, GPU]))
    flat = Forest.from_sklearn(model, centre, spread, names=found.forest.names)
    scaled = (rows - centre) / spread
    same = bool((flat.predict(rows[:200]) == model.predict(scaled[:200])).all())
    found.document["forest"] = {
        "trees": len(flat.roots),
        "nodes": len(flat.nodes),
        "flat_microseconds": _microseconds(lambda k: flat.predict_one(rows[k]), 5000),
        "onnx_microseconds": _onnx_microseconds(flat, scaled),
        "sklearn_microseconds": _microseconds(lambda k: model.predict(scaled[k : k + 1]), 50),
        "same_predictions": same,
        "trained_on_biased": {
            "nodes": len(found.forest.nodes),
            "share_on_gpu": float(best_fractions(found.training, 11).mean()),
        },
    }


def _onnx_microseconds(forest: Forest, scaled: FloatArray) -> float | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    rows = scaled.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        write_onnx(forest, Path(folder) / "forest.onnx")
        session = onnx_session(Path(folder) / "forest.onnx")
    return _microseconds(lambda k: session.run(None, {"rows": rows[k : k + 1]}), 2000)


def _microseconds(call: Callable[[int], object], times: int) -> float:
    call(0)
    begin = time.process_time()
    for k in range(times):
        call(k % 1000)
    return 1e6 * (time.process_time() - begin) / times


def dqn(found: ShiftResults) -> None:
    """Run many agents, each with its own weights and draws."""
    played, starts = [], []
    for seed in range(SEEDS):
        agent = make_dqn(found.training, seed)
        starts.append(float((agent.best(found.test.features) == GPU).mean()))
        played.append(play(agent, found.test))
    found.add("RL Agent (DQN)", [p.seconds for p in played], [_on_gpu(p) for p in played])
    found.document["dqn"] = {
        "makespans": [p.total for p in played],
        "gpu_preferred_at_start": starts,
    }


def hybrid(found: ShiftResults) -> None:
    """Run the duration models that learn online."""
    chooser = make_hybrid(found.training)
    played = play(chooser, found.test)
    found.add("hybrid", [played.seconds], [_on_gpu(played)])
    found.document["hybrid"] = {
        "gpu_tasks": np.flatnonzero(played.device == GPU).tolist(),
        "probes": chooser.probes,
        "probe_seconds": chooser.probe_seconds,
    }


def _on_gpu(played: Played) -> int:
    return int((played.device == GPU).sum())


# -- beyond the document ---------------------------------------------------------------


def probing(found: ShiftResults) -> None:
    """Vary the probing budget for the shift and for a slow device."""
    device = next(s for s in sequences(found.test) if s.name == "device")
    rows = []
    for budget in PROBING:
        here = play(make_hybrid(found.training, probing=budget), found.test)
        there = play(make_hybrid(found.training, probing=budget), device)
        rows.append(
            {
                "probing": budget,
                "document_shift": here.total,
                "device_over_optimal": there.total / float(device.optimal.sum()),
                "noticed_after": recovery(there.seconds, device.optimal, 500, 975),
            }
        )
    found.document["probing"] = rows


def streams(found: ShiftResults) -> None:
    """Run the task sequences: time over the optimum, in total and after every change."""
    found.sequences = sequences(found.test)
    found.document["streams"] = []
    agents = min(SEEDS, 2 if found.quick else 10)
    for sequence in found.sequences:
        fraction = found.forest.predict(forest_rows(sequence.features))
        runs = {
            "hybrid": [play(make_hybrid(found.training), sequence).seconds],
            "RL Agent (DQN)": [
                play(make_dqn(found.training, seed), sequence).seconds for seed in range(agents)
            ],
            "Hybrid ML (RF)": [split_seconds(sequence.seconds, fraction)],
            "CPU only": [sequence.seconds[:, 0]],
        }
        found.sequence_curves[sequence.name] = runs
        best = float(sequence.optimal.sum())
        found.document["streams"] += [
            {
                "stream": sequence.name,
                "about": sequence.about,
                "strategy": name,
                "runs": len(spent),
                "over_optimal": float(np.mean([s.sum() for s in spent])) / best,
                "after_changes": [
                    float(np.mean([within(sequence, s, change) for s in spent]))
                    for change in sequence.changes
                ],
            }
            for name, spent in runs.items()
        ]


def fresh_streams(found: ShiftResults) -> None:
    """Run other draws of the sequences, not used for settings."""
    draws = FRESH[:2] if found.quick else FRESH
    over: dict[tuple[str, str], list[float]] = {}
    after: dict[tuple[str, str], list[float]] = {}
    for seed in draws:
        tasks = document_tasks(TASKS, SHIFTED, np.random.RandomState(seed))
        for sequence in sequences(tasks, seed):
            learners: dict[str, Learner] = {
                "hybrid": make_hybrid(found.training),
                "RL Agent (DQN)": make_dqn(found.training, seed),
            }
            for name, learner in learners.items():
                spent, key = play(learner, sequence).seconds, (sequence.name, name)
                over.setdefault(key, []).append(float(spent.sum() / sequence.optimal.sum()))
                after.setdefault(key, []).extend(
                    within(sequence, spent, change) for change in sequence.changes
                )
    found.document["fresh_streams"] = [
        {
            "stream": key[0],
            "strategy": key[1],
            "runs": len(draws),
            "over_optimal": float(np.mean(values)),
            "worst_over_optimal": max(values),
            "mean_after": float(np.mean(after[key])) if after[key] else None,
            "worst_after": max(after[key], default=None),
        }
        for key, values in over.items()
    ]


# -- queues and parallelism ------------------------------------------------------------


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


def cluster(found: ShiftResults) -> None:
    """Simulate the test tasks on the cluster, without and with noise."""
    for noise in (0.0, 0.3):
        found.clusters[noise] = run_cluster(found.test, found.training, found.forest, noise=noise)
    found.document["cluster"] = [
        {"noise": noise, **row, "over_bound": row["over_bound"] if noise == 0 else None}
        for noise, result in found.clusters.items()
        for row in result.rows()
    ]
    found.document["cluster_bound"] = found.clusters[0.0].bound


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
    fractions = forest.predict(forest_rows(test.features))
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
    cpu, gpu = train_models(training)
    name = "hybrid" if learning else "offline"

    def features(workload: Workload) -> FloatArray:
        return np.tile(test.features, (workload.jobs, 1))

    return HybridPolicy({"cpu": cpu, "gpu": gpu}, features, name=name, learning=learning)


STEPS = (fixed, hardware, forest_speed, dqn, hybrid, probing, cluster, streams, fresh_streams)
"""Steps in order."""
