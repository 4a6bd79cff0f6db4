"""The hybrid-scheduler document: offline knowledge under a shift of the workload, and learners that adapt to it.

Behind `weft reproduce shift`: profile the hardware, draw biased training data, train a forest, a DQN and time models on it,
evaluate on the shifted tasks with the document's physics, seeds and accounting; then what the document leaves out: queues and
parallelism in the simulator, shifts that are undone, repeated or gradual, and a device that changes while nobody looks.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments import machine
from weft.experiments.shift import report as shift_report
from weft.experiments.shift.cluster import ClusterResult, run_cluster
from weft.experiments.shift.contenders import (
    Learner,
    Played,
    best_fractions,
    fixed_fractions,
    forest_rows,
    make_dqn,
    make_hybrid,
    play,
    play_stream,
    train_forest,
    training_tasks,
)
from weft.experiments.shift.tasks import (
    GPU,
    SHIFTED,
    Tasks,
    TaskSequence,
    document_tasks,
    split_seconds,
    streams,
    within,
)
from weft.learn.durations import matrix_product
from weft.learn.durations.forest import Forest, fit_sklearn, write_onnx
from weft.learn.onnx_session import onnx_session
from weft.model.columns import FloatArray
from weft.report.tables import Column, Columns, table_text

SUMMARY = "a forest, a DQN and time models under a shift of the workload"
TASKS = 500
SEEDS = 20
"""Agents of which the DQN's row is the mean."""
DOCUMENT = {
    "Offline Optimal": 12.97,
    "Round Robin": 56.87,
    "Random": 67.14,
    "Greedy": 18.30,
    "Hybrid ML (RF)": 122.92,
    "RL Agent (DQN)": 21.12,
}
"""Makespans the document reports, in seconds."""
DOCUMENT_MEAN = dict(zip(DOCUMENT, (0.03, 0.11, 0.13, 0.04, 0.25, 0.04), strict=True))
"""Its mean task times, in seconds."""
PROBING = (0.0, 0.015, 0.05)
FRESH = range(101, 106)
"""Draws of the streams that nothing was chosen with."""


@dataclass(eq=False)
class ShiftResults:
    """What the steps find, one after the other."""

    quick: bool
    training: Tasks
    test: Tasks
    forest: Forest
    curves: dict[str, list[FloatArray]] = field(default_factory=dict)
    clusters: dict[float, ClusterResult] = field(default_factory=dict)
    streams: list[TaskSequence] = field(default_factory=list)
    stream_curves: dict[str, dict[str, list[FloatArray]]] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)


def reproduce(
    folder: str | Path, *, quick: bool = False, watch: Callable[[list[Any]], Iterable[Any]] = iter
) -> dict[str, Any]:
    """Do everything, write results.json and report.html into the folder, and return the results."""
    begin, used = time.perf_counter(), time.process_time()
    generator = np.random.RandomState(99)
    test = document_tasks(TASKS, SHIFTED, generator)
    training = training_tasks()
    found = ShiftResults(quick, training, test, train_forest(training))
    found.document = {"experiment": "shift", "quick": quick, "machine": machine.describe()}
    steps: list[Callable[[ShiftResults], None]] = [
        lambda f: _fixed(f, generator),
        _hardware,
        _forest_speed,
        _dqn,
        _hybrid,
        _probing,
        _cluster,
        _streams,
        _fresh,
    ]
    for step in watch(steps):
        step(found)
    found.document["goals"] = shift_report.goals(found.document)
    found.document["seconds"] = time.perf_counter() - begin
    found.document["cpu_seconds"] = time.process_time() - used
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(
        json.dumps(found.document, indent=2, allow_nan=False) + "\n", encoding="utf-8"
    )
    shift_report.write(
        folder / "report.html",
        found.document,
        found.training,
        found.test,
        found.curves,
        found.clusters,
        found.streams,
        found.stream_curves,
    )
    return found.document


def table(document: dict[str, Any]) -> str:
    """The document's table with ours beside it, and what was asked, as text."""
    columns: Columns = [
        "strategy",
        Column("document", "document (s)", places=2),
        Column("makespan", "ours (s)", places=2),
        Column("spread", "+- (s)", digits=2),
        Column("mean_task", "mean task (s)", digits=3),
        Column("speedup", "speedup over Round Robin", digits=3),
        Column("gpu_tasks", "mostly on GPU"),
    ]
    return "\n\n".join(
        [
            table_text(document["strategies"], columns),
            table_text(document["goals"], shift_report.goal_columns()),
        ]
    )


# -- the document's pipeline ----------------------------------------------------------


def _fixed(found: ShiftResults, generator: np.random.RandomState) -> None:
    """The strategies that do not learn, the forest among them: it is trained, and then stays."""
    test = found.test
    fractions = fixed_fractions(test, generator)
    fractions["Hybrid ML (RF)"] = found.forest.predict(forest_rows(test.features))
    found.document["strategies"] = []
    for name, fraction in fractions.items():
        spent = split_seconds(test.seconds, fraction)
        found.curves[name] = [spent]
        _enter(found, name, [spent], [int((fraction >= 0.5).sum())])


def _enter(found: ShiftResults, name: str, spent: list[FloatArray], gpu_tasks: list[int]) -> None:
    totals = [float(s.sum()) for s in spent]
    baseline = (
        float(found.curves["Round Robin"][0].sum())
        if "Round Robin" in found.curves
        else DOCUMENT["Round Robin"]
    )
    found.document["strategies"].append(
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


def _hardware(found: ShiftResults) -> None:
    rows = matrix_product.measure((128, 256, 512) if found.quick else matrix_product.SIZES)
    found.document["hardware"] = {
        "accelerator": rows[0]["accelerator_seconds"] is not None,
        "rows": rows,
    }


def _forest_speed(found: ShiftResults) -> None:
    """Microseconds a prediction, of a forest that has something to decide: half of its tasks belong on the CPU."""
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
    """The same forest in onnxruntime; None where that is not installed."""
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


def _dqn(found: ShiftResults) -> None:
    """Many agents, each with its own weights and draws; before the first task all prefer the GPU for everything."""
    played, starts = [], []
    for seed in range(SEEDS):
        agent = make_dqn(found.training, seed)
        starts.append(float((agent.best(found.test.features) == GPU).mean()))
        played.append(play(agent, found.test.features, found.test.seconds))
    found.curves["RL Agent (DQN)"] = [p.seconds for p in played]
    _enter(found, "RL Agent (DQN)", [p.seconds for p in played], [_on_gpu(p) for p in played])
    found.document["dqn"] = {
        "makespans": [p.total for p in played],
        "gpu_preferred_at_start": starts,
    }


def _hybrid(found: ShiftResults) -> None:
    chooser = make_hybrid(found.training)
    played = play(chooser, found.test.features, found.test.seconds)
    found.curves["hybrid"] = [played.seconds]
    _enter(found, "hybrid", [played.seconds], [_on_gpu(played)])
    first = np.flatnonzero(played.device == GPU)
    found.document["hybrid"] = {
        "gpu_tasks": first.tolist(),
        "probes": chooser.probes,
        "probe_seconds": chooser.probe_seconds,
    }


def _on_gpu(played: Played) -> int:
    return int((played.device == GPU).sum())


# -- beyond it ------------------------------------------------------------------------


def _probing(found: ShiftResults) -> None:
    """What it costs to look, and what it costs not to: the document's shift and a device that is slow for a while."""
    device = next(s for s in streams(found.test) if s.name == "device")
    rows = []
    for probing in PROBING:
        here = play(
            make_hybrid(found.training, probing=probing), found.test.features, found.test.seconds
        )
        there = play_stream(make_hybrid(found.training, probing=probing), device)
        back = next(
            (
                k
                for k in range(500, 975)
                if there.seconds[k : k + 25].sum() <= 1.1 * device.optimal[k : k + 25].sum()
            ),
            None,
        )
        rows.append(
            {
                "probing": probing,
                "document_shift": here.total,
                "device_over_optimal": there.total / float(device.optimal.sum()),
                "noticed_after": None if back is None else back - 500,
            }
        )
    found.document["probing"] = rows


def _cluster(found: ShiftResults) -> None:
    for noise in (0.0, 0.3):
        found.clusters[noise] = run_cluster(found.test, found.training, found.forest, noise=noise)
    found.document["cluster"] = [
        {"noise": noise, **row, "over_bound": row["over_bound"] if noise == 0 else None}
        for noise, result in found.clusters.items()
        for row in result.rows()
    ]
    found.document["cluster_bound"] = found.clusters[0.0].bound


def _streams(found: ShiftResults) -> None:
    """Shifts that are undone, repeated, gradual, and a device that changes: time over the optimum, and after every change."""
    found.streams = streams(found.test)
    found.document["streams"] = []
    for stream in found.streams:
        fraction = found.forest.predict(forest_rows(stream.features))
        runs = {
            "hybrid": [play_stream(make_hybrid(found.training), stream).seconds],
            "RL Agent (DQN)": [
                play_stream(make_dqn(found.training, seed), stream).seconds
                for seed in range(min(SEEDS, 2 if found.quick else 10))
            ],
            "Hybrid ML (RF)": [split_seconds(stream.seconds, fraction)],
            "CPU only": [stream.seconds[:, 0]],
        }
        found.stream_curves[stream.name] = runs
        best = float(stream.optimal.sum())
        for name, spent in runs.items():
            found.document["streams"].append(
                {
                    "stream": stream.name,
                    "about": stream.about,
                    "strategy": name,
                    "runs": len(spent),
                    "over_optimal": float(np.mean([s.sum() for s in spent])) / best,
                    "after_changes": [
                        float(np.mean([within(stream, s, change) for s in spent]))
                        for change in stream.changes
                    ],
                }
            )


def _fresh(found: ShiftResults) -> None:
    """The same kinds of streams, drawn anew: the settings of both learners were chosen on other draws."""
    draws = FRESH[:2] if found.quick else FRESH
    over: dict[tuple[str, str], list[float]] = {}
    after: dict[tuple[str, str], list[float]] = {}
    for seed in draws:
        for stream in streams(document_tasks(TASKS, SHIFTED, np.random.RandomState(seed)), seed):
            learners: dict[str, Learner] = {
                "hybrid": make_hybrid(found.training),
                "RL Agent (DQN)": make_dqn(found.training, seed),
            }
            for name, learner in learners.items():
                spent = play_stream(learner, stream).seconds
                over.setdefault((stream.name, name), []).append(
                    float(spent.sum() / stream.optimal.sum())
                )
                after.setdefault((stream.name, name), []).extend(
                    within(stream, spent, change) for change in stream.changes
                )
    found.document["fresh_streams"] = [
        {
            "stream": stream,
            "strategy": name,
            "runs": len(draws),
            "over_optimal": float(np.mean(values)),
            "worst_over_optimal": max(values),
            "mean_after": float(np.mean(after[stream, name])) if after[stream, name] else None,
            "worst_after": max(after[stream, name], default=None),
        }
        for (stream, name), values in over.items()
    ]
