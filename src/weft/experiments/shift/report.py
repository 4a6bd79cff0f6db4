"""Report of the shift experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import line, write_experiment_page
from weft.experiments.shift.queues import ClusterResult
from weft.experiments.shift.runs import ShiftResults
from weft.experiments.shift.statistics import LEARNERS, WINDOW, window_ratios
from weft.experiments.shift.tasks import CPU, GPU, Tasks, TaskSequence
from weft.model.columns import FloatArray
from weft.model.explain.quantities import format_number
from weft.report.figures import Series, bar_figure
from weft.report.page import Facts, Figure, Figures, Gantts, Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns

Curves = Mapping[str, Sequence[FloatArray]]
STRATEGY_COLUMNS: Columns = [
    "strategy",
    Column("document", "document (s)", places=2),
    Column("makespan", "ours (s)", places=2),
    Column("spread", "+- (s)", digits=2),
    Column("document_mean_task", "mean task, document (s)"),
    Column("mean_task", "mean task (s)", digits=3),
    Column("speedup", "speedup over Round Robin", digits=3),
    Column("gpu_tasks", "on GPU"),
]
GOAL_COLUMNS: Columns = [
    "goal",
    Column("at_most", "goal: at most"),
    Column("measured", digits=4),
    "unit",
    "met",
]


@colors_by_name()
def write(path: Path, found: ShiftResults) -> Path:
    """Write the report."""
    document = found.document
    rows = {row["strategy"]: row for row in document["strategies"]}
    pictures = [_document_figures(rows), _workload_figures(found.training, found.test)]
    sections = [
        Section(
            "Result",
            [
                _facts(document, rows),
                _strategy_table(document),
                Text(_verdict(rows, document)),
                Table(document["goals"], GOAL_COLUMNS),
            ],
        ),
        Section("The document's figures", [Figures(figures) for figures in pictures]),
        Section(
            "Regret over time", [Figures(_regret_figures(found.test, found.curves)), Text(REGRET)]
        ),
        Section(
            "Repeated shifts",
            [
                Text(STREAMS),
                _stream_table(document),
                Figures(_stream_figures(found.sequences, found.sequence_curves)),
                *_fresh_blocks(document),
            ],
        ),
        Section("Other device models", [Text(PHYSICS), _physics_table(document)]),
        Section("Cost of probing", [Text(PROBING), _probing_table(document)]),
        Section(
            "Queues and parallelism", [Text(CLUSTER), *_cluster_blocks(document, found.clusters)]
        ),
        Section("Hardware and forest", _hardware_blocks(document)),
    ]
    return write_experiment_page("shift", path, document, sections)


STREAMS = """\
Each learner starts from the biased offline data. "reversed" appends training tasks to the \
document's 500 test tasks; "repeated" alternates six times; "gradual" drifts through the region \
where both devices are equally fast; in "device" the GPU is 30 times slower from task 250 to 500, \
which the features do not show.

"After a change" is the time of tasks 51 to 100 after a change over the optimum: the goal is 1.1. \
The last change of "device" can only be detected by probing, because no task runs on the GPU when \
it recovers. The forgetting of the DQN and the probing of "hybrid" were tuned on these sequences."""

PHYSICS = """\
In the document's test the CPU is best for every task. Here 500 tasks have sizes from 50 to 1000, \
intensities from 0 to 1 and memories from 10 to 5000 MB ("mixed"), so that no single device is \
best, or are shifted as the document's, under device models that each change one thing. All \
learners start from the biased offline data under that model. "hybrid" also has a profile: five \
matrix products and three copies, timed on every device beforehand. Time is relative to the device \
with the least expected time for each task; noise is part of both."""

PROBING = """\
A device without tasks gives no measurements. "hybrid" therefore probes within a budget: averaged \
over all tasks so far, probes may cost the given share of a task's expected time. More probing \
costs more under the document's shift, where it finds nothing, and less where a device recovers. \
With a budget of 0 the recovery is never detected."""

CLUSTER = """\
The document adds up task times, so no two tasks overlap. Here the same 500 tasks, with the \
parents that its generator drew, run in weft's simulator on one CPU and four GPUs. Slower devices \
are then useful too, so the shift costs less. HEFT and eft have exact durations. "hybrid" gives \
an idle device the task it is best at according to its models; "offline" is the same without \
learning. Noise is log-normal with sigma 0.3."""

REGRET = """\
Regret is the time beyond that of the better device for each task. A fixed strategy pays for \
every task; a learner pays until it adapts, and then for exploration. The band of the DQN spans \
its seeds."""


def _facts(document: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> Facts:
    best = rows["Offline Optimal"]["makespan"]
    dqn, hybrid = rows["RL Agent (DQN)"], rows["hybrid"]
    return Facts(
        {
            "hybrid": f"{hybrid['makespan']:.2f} s",
            "above optimal": f"{hybrid['makespan'] / best - 1:.1%}",
            f"DQN, mean of {dqn['runs']}": f"{dqn['makespan']:.2f} s",
            f"DQN, worst of {dqn['runs']}": f"{document['dqn']['worst']:.2f} s",
            "DQN in the document": "21.12 s",
            "forest prediction": f"{document['forest']['flat_microseconds']:.1f} µs",
        }
    )


def _strategy_table(document: Mapping[str, Any]) -> Table:
    caption = (
        "500 tasks with low intensity and much memory. Makespan in the document is the sum of task "
        "times. On GPU: tasks with half or more of their work there, "
        "mean over runs."
    )
    return Table(document["strategies"], STRATEGY_COLUMNS, caption=caption)


def _verdict(rows: Mapping[str, Mapping[str, Any]], document: Mapping[str, Any]) -> str:
    starts = document["dqn"]["gpu_preferred_at_start"]
    tried, probes = document["hybrid"]["gpu_tasks"], document["hybrid"]["probes"]
    where = ", ".join(f"number {k + 1}" for k in tried) or "none"
    return (
        "The first five rows equal the document's to the second decimal: same seeds, device model "
        "and accounting. Its DQN row cannot be reproduced: the published code does not learn "
        "during the evaluation and assigns the reward to the wrong action. The DQN here prefers "
        f"the GPU for at least {min(starts):.0%} of the tasks before the first one, learns after "
        f"every task from that task's duration, and needs {rows['RL Agent (DQN)']['makespan']:.2f} "
        "s including all "
        f'exploration.\n\n"hybrid" uses the GPU for {len(tried)} of the 500 tasks ({where}), for '
        f"{probes} of them as a probe. Its models have the profile of the devices: copies of much "
        "memory are slow on the GPU, which the biased offline data do not show."
    )


def _document_figures(rows: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    base = rows["Round Robin"]["document"]

    def bars(theirs: Callable[[Any], float], ours: str) -> dict[str, dict[str, float]]:
        published = {n: theirs(row) for n, row in rows.items() if row["document"] is not None}
        return {"document": published, "ours": {name: row[ours] for name, row in rows.items()}}

    makespans = bars(lambda row: row["document"], "makespan")
    means = bars(lambda row: row["document_mean_task"], "mean_task")
    speedups = bars(lambda row: base / row["document"], "speedup")
    return [
        Figure(bar_figure(makespans, title="Makespan by strategy", y_label="seconds")),
        Figure(bar_figure(means, title="Average task duration", y_label="seconds")),
        Figure(bar_figure(speedups, title="Speedup over Round Robin", y_label="", baseline=1.0)),
    ]


def _workload_figures(training: Tasks, test: Tasks) -> list[Figure]:
    """Draw cumulative distributions of the tasks."""
    shown: list[tuple[str, str, bool, Callable[[Tasks], FloatArray]]] = [
        ("Size", "", True, lambda t: t.size),
        ("Compute intensity", "", False, lambda t: t.intensity),
        ("Memory", "MB", True, lambda t: t.memory),
        (
            "CPU time over GPU time",
            "above 1 the GPU is better",
            True,
            lambda t: t.seconds[:, CPU] / t.seconds[:, GPU],
        ),
    ]
    share, figures = np.linspace(0.0, 1.0, 101), []
    for title, unit, log, column in shown:
        lines = {
            name: Series(np.quantile(column(tasks), share), share)
            for name, tasks in (("training", training), ("test", test))
        }
        figures.append(line(lines, title, unit, "share of the tasks below", log_x=log))
    return figures


def _regret_figures(test: Tasks, curves: Curves) -> list[Figure]:
    best = test.seconds.min(axis=1)
    shown = {
        name: _regret(spent, best) for name, spent in curves.items() if name != "Offline Optimal"
    }
    ours = {name: line for name, line in shown.items() if name in LEARNERS}
    label = "seconds beyond the optimum"
    return [
        line(shown, "Regret, all strategies", "tasks", label, log_y=True),
        line(ours, "Regret, the learners", "tasks", label),
    ]


def _regret(spent: Sequence[FloatArray], best: FloatArray) -> Series:
    runs = np.stack([np.cumsum(s - best) for s in spent])
    x = np.arange(1, len(best) + 1)
    return (
        Series(x, runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0))
        if len(runs) > 1
        else Series(x, runs[0])
    )


def _stream_table(document: Mapping[str, Any]) -> Table:
    rows = [
        {
            "stream": row["stream"],
            "strategy": row["strategy"],
            "runs": row["runs"],
            "over_optimal": row["over_optimal"],
            "after": ", ".join(f"{x:.2f}" for x in row["after_changes"]) or None,
        }
        for row in document["streams"]
    ]
    columns: Columns = [
        "stream",
        "strategy",
        "runs",
        Column("over_optimal", "time over optimum", digits=4),
        Column("after", "after a change"),
    ]
    return Table(rows, columns)


def _fresh_blocks(document: Mapping[str, Any]) -> list[Any]:
    columns: Columns = [
        "stream",
        "strategy",
        "runs",
        Column("over_optimal", "time over optimum"),
        Column("worst_over_optimal", "worst draw"),
        Column("mean_after", "after a change, mean"),
        Column("worst_after", "after a change, worst"),
    ]
    text = "Other draws, test tasks included, made after all settings were fixed:"
    return [Text(text), Table(document["fresh_streams"], columns)]


def _stream_figures(
    streams: Sequence[TaskSequence], stream_curves: Mapping[str, Curves]
) -> list[Figure]:
    """Draw time over the optimum in windows of tasks."""
    figures = []
    for stream in streams:
        ends = np.arange(WINDOW, len(stream.seconds) + 1, WINDOW)
        lines = {
            name: Series(ends, window_ratios(np.mean(spent, axis=0), stream.optimal))
            for name, spent in stream_curves[stream.name].items()
        }
        figures.append(
            line(
                lines,
                stream.name.capitalize(),
                "tasks",
                "time over the optimum",
                stream.about,
                log_y=True,
            )
        )
    return figures


def _physics_table(document: Mapping[str, Any]) -> Table:
    rows = [
        {"physics": row["physics"], "tasks": row["tasks"], "draws": row["draws"]}
        | row["over_optimal"]
        | {"worst": row["worst"]["hybrid"]}
        for row in document["physics"]
    ]
    names = list(document["physics"][0]["over_optimal"])
    columns: Columns = ["physics", "tasks", "draws", *(Column(n, places=3) for n in names)]
    return Table(rows, [*columns, Column("worst", "hybrid, worst draw", places=3)])


def _probing_table(document: Mapping[str, Any]) -> Table:
    columns: Columns = [
        Column("probing", "budget", unit="%"),
        Column("document_shift", "the document's shift", unit="seconds"),
        Column("device_over_optimal", "slow device: time over optimum"),
        Column("noticed_after", "recovery noticed after", unit="tasks"),
    ]
    return Table(document["probing"], columns)


def _cluster_blocks(
    document: Mapping[str, Any], clusters: Mapping[float, ClusterResult]
) -> list[Any]:
    columns: Columns = [
        "policy",
        Column("information", "information"),
        Column("noise", "noise"),
        Column("makespan", unit="s"),
        Column("over_bound", "over the bound"),
        Column("on_cpu", "tasks on the CPU", unit="%", digits=3),
    ]
    plain = clusters[0.0]
    bound = f"No schedule without noise is shorter than {format_number(plain.bound)} s."
    charts = {name: plain.traces[name] for name in ("hybrid", "HEFT", "offline")}
    return [
        Table(document["cluster"], columns, caption=bound),
        Gantts(charts, caption="Without noise."),
    ]


def _hardware_blocks(document: Mapping[str, Any]) -> list[Any]:
    hardware, forest = document["hardware"], document["forest"]
    text = "Products of square matrices in single precision, best of three."
    if not hardware["accelerator"]:
        text += (
            " This machine has no accelerator. All results above use the document's device model "
            "in any case: 1 + 3 x intensity times as fast as the CPU, memory moves at 16 GB/s."
        )
    columns: Columns = [
        "size",
        Column("cpu_seconds", "CPU", unit="s"),
        Column("cpu_gflops", "CPU", unit="GFLOP/s"),
        Column("accelerator_seconds", "accelerator", unit="s"),
        Column("accelerator_gflops", "accelerator", unit="GFLOP/s"),
    ]
    same = "equal" if forest["same_predictions"] else "not equal"
    spent = forest["onnx_microseconds"]
    onnx = "onnxruntime is not installed" if spent is None else f"{spent:.1f} µs with onnxruntime"
    speed = (
        f"One prediction of a forest with {forest['trees']} trees and {forest['nodes']:,} nodes, "
        f"trained on both kinds of tasks, takes {forest['flat_microseconds']:.1f} µs with flat "
        f"arrays, {onnx} and {forest['sklearn_microseconds']:,.0f} µs with scikit-learn (processor "
        f"time, same process); the predictions are {same} to the last bit. The document's forest, "
        f"trained on biased data, has {forest['trained_on_biased']['nodes']} nodes in 100 trees: "
        "it always gives the same answer."
    )
    return [Text(text), Table(hardware["rows"], columns), Text(speed)]
