"""Steps of the shift experiment."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import in_processes
from weft.experiments.onnx_session import onnx_session
from weft.experiments.shift import matrix_product
from weft.experiments.shift.chooser import HybridChooser
from weft.experiments.shift.contenders import (
    TASKS,
    Learner,
    RunResult,
    best_fractions,
    fixed_fractions,
    forest_fractions,
    forest_rows,
    make_bandit,
    make_hybrid,
    make_trend,
    pretrain_bandit,
    run_learner,
    shifted_tasks,
    train_models,
)
from weft.experiments.shift.forest import Forest, fit_sklearn, write_onnx
from weft.experiments.shift.physics import PHYSICS, Physics, draw_case
from weft.experiments.shift.queues import ClusterResult, run_cluster
from weft.experiments.shift.statistics import recovery, within
from weft.experiments.shift.tasks import GPU, Tasks, TaskSequence, sequences, split_seconds
from weft.model.columns import FloatArray

SEEDS, QUICK_SEEDS = 100, 20
"""Number of bandits; the row "RL Agent (DQN)" is their mean, and the tail is shown."""
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
GOAL = 18.0
"""Seconds that every bandit shall stay below."""
PROBING = (0.0, 0.015, 0.05)
MIXED_DRAWS, SHIFTED_DRAWS = 5, 2
"""Draws of mixed and of shifted tasks per device model; in quick runs too, since the mean over two
mixed draws varies by 1 %."""
FRESH = range(101, 106)
"""Seeds of sequences that no setting was chosen with."""


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

    @property
    def processes(self) -> int:
        """Processes of the longest steps."""
        return 1 if self.quick else 2

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
    fractions["Hybrid ML (RF)"] = forest_fractions(found.forest, test.features)
    for name, fraction in fractions.items():
        spent = split_seconds(test.seconds, fraction)
        found.add(name, [spent], [int((fraction >= 0.5).sum())])


def hardware(found: ShiftResults) -> None:
    """Measure matrix products on this machine."""
    rows = matrix_product.measure((128, 256, 512) if found.quick else matrix_product.SIZES)
    accelerator = rows[0]["accelerator_seconds"] is not None
    found.document["hardware"] = {"accelerator": accelerator, "rows": rows}


def forest_speed(found: ShiftResults) -> None:
    """Measure one prediction of a forest trained on both kinds of tasks."""
    shifted = shifted_tasks(np.random.RandomState(7))
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


def bandit(found: ShiftResults) -> None:
    """Run many bandits (the document's DQN), each with its own weights and draws."""
    seeds = range(min(SEEDS, QUICK_SEEDS) if found.quick else SEEDS)
    run = partial(run_agent, training=found.training, test=found.test)
    ran = list(in_processes(run, seeds, processes=found.processes))
    results = [each for _, each in ran]
    found.add("RL Agent (DQN)", [p.seconds for p in results], [_on_gpu(p) for p in results])
    totals = [p.total for p in results]
    found.document["dqn"] = {
        "makespans": totals,
        "median": float(np.median(totals)),
        "p95": float(np.quantile(totals, 0.95)),
        "worst": max(totals),
        "above_18": sum(total > GOAL for total in totals),
        "gpu_preferred_at_start": [start for start, _ in ran],
    }


def run_agent(seed: int, *, training: Tasks, test: Tasks) -> tuple[float, RunResult]:
    """Return the share of tasks for which an agent first prefers the GPU, and its run."""
    agent = make_bandit(training, seed)
    return float((agent.best(test.features) == GPU).mean()), run_learner(agent, test)


def hybrid(found: ShiftResults) -> None:
    """Run the duration models that learn online."""
    chooser = make_hybrid(found.training)
    result = run_learner(chooser, found.test)
    found.add("hybrid", [result.seconds], [_on_gpu(result)])
    found.document["hybrid"] = {
        "gpu_tasks": np.flatnonzero(result.device == GPU).tolist(),
        "probes": chooser.probes,
        "probe_seconds": chooser.probe_seconds,
    }


def _on_gpu(result: RunResult) -> int:
    return int((result.device == GPU).sum())


# -- beyond the document ---------------------------------------------------------------


def probing(found: ShiftResults) -> None:
    """Vary the probing budget for the shift and for a slow device."""
    device = next(s for s in sequences(found.test) if s.name == "device")
    rows = []
    for budget in PROBING:
        here = run_learner(make_hybrid(found.training, probing=budget), found.test)
        there = run_learner(make_hybrid(found.training, probing=budget), device)
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
    agents = min(SEEDS, 2 if found.quick else 5)
    for sequence in found.sequences:
        fraction = forest_fractions(found.forest, sequence.features)
        runs = {
            "hybrid": [run_learner(make_hybrid(found.training), sequence).seconds],
            "RL Agent (DQN)": [
                run_learner(make_bandit(found.training, seed), sequence).seconds
                for seed in range(agents)
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
        tasks = shifted_tasks(np.random.RandomState(seed))
        for sequence in sequences(tasks, seed):
            learners: dict[str, Learner] = {
                "hybrid": make_hybrid(found.training),
                "RL Agent (DQN)": make_bandit(found.training, seed),
            }
            for name, learner in learners.items():
                spent, key = run_learner(learner, sequence).seconds, (sequence.name, name)
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


# -- other device models ---------------------------------------------------------------


def physics(found: ShiftResults) -> None:
    """Run other device models: mixed sets, and tasks as shifted as the document's."""
    for mixed, draws in ((True, MIXED_DRAWS), (False, SHIFTED_DRAWS)):
        run = partial(physics_row, training=found.training, mixed=mixed, draws=draws)
        rows = in_processes(run, PHYSICS, processes=found.processes)
        found.document.setdefault("physics", []).extend(rows)


def physics_row(
    model: Physics, *, training: Tasks, mixed: bool, draws: int, first: int = 0
) -> dict[str, Any]:
    """Return time over the optimum by contender, mean and worst over draws."""
    over: dict[str, list[float]] = {}
    for seed in range(first, first + draws):
        case = draw_case(model, training.features, mixed=mixed, seed=seed)
        offline = case.offline, case.offline_seconds
        learners: dict[str, Learner] = {
            "hybrid": HybridChooser(train_models(*offline, case.profile_seconds)),
            "without profile": HybridChooser(train_models(*offline)),
            "trend only": make_trend(*offline),
            "RL Agent (DQN)": pretrain_bandit(*offline, seed),
        }
        over.setdefault("best single device", []).append(case.single)
        for name, learner in learners.items():
            ratio = run_learner(learner, case).total / float(case.optimal.sum())
            over.setdefault(name, []).append(ratio)
    return {
        "physics": model.name,
        "about": model.about,
        "tasks": "mixed" if mixed else "shifted",
        "draws": draws,
        "over_optimal": {name: float(np.mean(values)) for name, values in over.items()},
        "worst": {name: max(values) for name, values in over.items()},
    }


STEPS = (
    fixed,
    hardware,
    forest_speed,
    bandit,
    hybrid,
    probing,
    cluster,
    streams,
    fresh_streams,
    physics,
)
"""Steps in order."""
