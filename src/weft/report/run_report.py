"""The report of a real run: figures, predictions, a terminal chart and a page."""

from __future__ import annotations

import string
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.learn.durations.end_time import Forecast
from weft.model import Schedule, Trace
from weft.model.columns import FloatArray, IntArray
from weft.model.explain import compare_explanations, explain
from weft.model.explain.quantities import format_seconds, format_share
from weft.model.metrics import trace_capacity_use
from weft.model.trace import DONE
from weft.planners.planner import solve
from weft.policies import simulate
from weft.report.causes.contenders import Answer, ContenderBar
from weft.report.causes.waterfall import Waterfall
from weft.report.charts.scatter import Scatter, ScatterPoint
from weft.report.gantt.chart import Chart
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, Text, write_report
from weft.report.tables import Column, table_text
from weft.runtime.execution import RunTrace

WIDTH = 100
"""Columns of the widest line at a terminal."""

COLUMNS = (
    Column("kind"),
    Column("device"),
    Column("tasks"),
    Column("predicted", unit="s"),
    Column("measured", unit="s"),
    Column("ratio", "measured / predicted", digits=3),
    Column("lost", "lost in all", unit="s"),
)


def predicted_trace(trace: Trace, decider: Any) -> Trace:
    """Simulate the run as estimated before it began, with the branches it took."""
    problem = trace.workload.problems[0]
    guide = solve(decider, problem).schedule if hasattr(decider, "solve") else decider
    future = replace(
        trace.scenario,
        change_time=np.zeros(0),
        change_device=np.zeros(0, np.int64),
        change_slowdown=np.zeros(0),
    )
    future = replace(future, cancel=np.full(trace.workload.jobs, np.inf))
    return simulate(
        trace.workload, guide if isinstance(guide, Schedule) else decider, scenario=future
    ).named("predicted")


def accuracy(trace: Trace) -> list[dict[str, Any]]:
    """Return median seconds, ratio and lost seconds by kind and device, most first."""
    problem = trace.workload.problems[0]
    task, device, predicted, measured = _durations(trace)
    kinds = problem.workflow.kind[task]
    rows = []
    for kind, name in enumerate(problem.workflow.kinds):
        for d, place in enumerate(problem.cluster.names):
            mine = (kinds == kind) & (device == d)
            if mine.any():
                guess, real = predicted[mine], measured[mine]
                rows.append(
                    {
                        "kind": name,
                        "device": place,
                        "tasks": int(mine.sum()),
                        "ratio": float(np.median(real / np.maximum(guess, 1e-12))),
                        "predicted": float(np.median(guess)),
                        "measured": float(np.median(real)),
                        "lost": float((real - guess).sum()),
                    }
                )
    return sorted(rows, key=lambda row: -row["lost"])


def _durations(trace: Trace) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return task, device, predicted and measured seconds of ended executions."""
    problem = trace.workload.problems[0]
    done = trace.status == DONE
    task, device = trace.task[done], trace.device[done]
    pairs = zip(task.tolist(), device.tolist(), strict=True)
    predicted = np.array([problem.duration(t, d) for t, d in pairs])
    return task, device, predicted, (trace.finish - trace.start)[done]


def facts(trace: RunTrace, predicted: Trace | None = None) -> dict[str, str]:
    """Headline figures."""
    done = len(np.unique(trace.task[trace.status == DONE]))
    found = {
        "tasks": f"{done:,} of {trace.workload.instances:,}",
        "makespan": format_seconds(trace.makespan),
        "utilisation": format_share(trace.utilisation),
        **{
            f"utilisation of {name}": format_share(share)
            for name, share in trace_capacity_use(trace).items()
        },
    }
    if trace.forecast is not None:
        found["forecast"] = forecast_text(trace.forecast)
    elif predicted is not None:
        found["predicted"] = format_seconds(predicted.makespan)
    again = int((trace.status != DONE).sum())
    if again:
        found["executions lost"] = str(again)
    if trace.plans > 1:
        found["planned"] = f"{trace.plans} times"
    return found


def forecast_text(forecast: Forecast) -> str:
    """Return the median and the band of 90 % in few words."""
    low, high = (format_seconds(x) for x in forecast.most)
    return f"{format_seconds(forecast.median)} (90 %: {low} to {high}, {forecast.basis})"


def gantt_text(trace: Trace, *, width: int = 72) -> str:
    """Return a chart in letters: a line per device, a letter per kind, a time axis.

    A capital letter is a cell that is busy for three quarters or more, a small one for a quarter or
    more, a dot for less.

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> problem = Problem.from_arrays([[2.0, 2.0], [1.0, 1.0]], [[0, 1]])
    >>> print(gantt_text(simulate(problem, "eft"), width=6))
    d0 |AAAAAA|
    d1 |......|
       0    3 s
    A = task; small letters: partly busy
    """
    names, kinds = trace.workload.cluster.names, trace.workload.kinds
    letters = (string.ascii_uppercase * (len(kinds) // 26 + 1))[: len(kinds)] + "!"
    wide = max(len(n) for n in names)
    shares = _cell_shares(trace, width)
    lines = [
        f"{name:<{wide}} |{''.join(_cell(cell, letters) for cell in lane)}|"
        for name, lane in zip(names, shares, strict=True)
    ]
    end = format_seconds(trace.makespan)
    axis = f"{'':<{wide + 1}}0{end:>{max(width, len(end)) + 1}}"
    legend = ", ".join(f"{letters[k]} = {kind}" for k, kind in enumerate(kinds))
    lost = "; ! = lost" if (trace.status != DONE).any() else ""
    return "\n".join([*lines, axis, f"{legend}; small letters: partly busy{lost}"])


def _cell_shares(trace: Trace, width: int) -> FloatArray:
    """(devices, width, kinds + 1) share of each cell by kind; the last is lost work."""
    w, kinds = trace.workload, trace.workload.kinds
    begin, span = float(w.arrival.min(initial=0.0)), max(trace.makespan, 1e-12)
    number = [[kinds.index(k) for k in p.workflow.kinds] for p in w.problems]
    shares = np.zeros((w.cluster.p, width, len(kinds) + 1))
    edges = np.arange(width + 1)
    for r in range(len(trace)):
        template = int(w.template[trace.job[r]])
        kind = number[template][int(w.problems[template].workflow.kind[trace.task[r]])]
        a, b = ((t - begin) / span * width for t in (trace.start[r], trace.finish[r]))
        inside = np.clip(np.minimum(edges[1:], b) - np.maximum(edges[:-1], a), 0.0, 1.0)
        shares[int(trace.device[r]), :, kind if trace.status[r] == DONE else -1] += inside
    return shares


def _cell(share: FloatArray, letters: str) -> str:
    busy = float(share.sum())
    if busy < 0.25:
        return "."
    letter = letters[int(share.argmax())]
    return letter if busy >= 0.75 else letter.lower()


def run_text(trace: RunTrace, predicted: Trace | None = None, *, name: str = "") -> str:
    """Return the report of a run as text for a terminal."""
    head = (
        f"{name or trace.workload.name}: "
        + ", ".join(f"{k} {v}" for k, v in facts(trace, predicted).items())
        + f", policy {trace.policy}"
    )
    said = explain(trace).sentence
    parts = [textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in (head, said)]
    parts += [gantt_text(trace), table_text(accuracy(trace), COLUMNS)]
    if trace.shadow is not None:
        parts.append(str(trace.shadow))
    parts += [str(failure) for failure in trace.failures]
    return "\n\n".join(parts)


def write_run_report(
    trace: RunTrace, path: str | Path, predicted: Trace | None = None, *, name: str = ""
) -> Path:
    """Write a page: causes of the run's makespan, its chart over the predicted one."""
    charts = {"measured": trace, **({"predicted": predicted} if predicted is not None else {})}
    notes = [*([str(trace.shadow)] if trace.shadow else ()), *(str(f) for f in trace.failures)]
    if trace.replaced:
        notes.append(f"Greedy earliest finish time took over: {trace.replaced}.")
    sections = [
        Section(
            "The run",
            [
                _run_answer(trace, predicted),
                Facts(facts(trace, predicted)),
                Gantts(charts, beside="predicted"),
                *(Text(note) for note in notes),
            ],
        ),
        Section("Predicted against measured", _differences(trace, predicted)),
        Section("The workflow", [Dag(trace.workload.problems[0].workflow)]),
    ]
    title = f"{name or trace.workload.name}, run with {trace.policy}"
    return write_report(path, title=title, sections=sections)


def _run_answer(trace: Trace, predicted: Trace | None) -> Answer:
    shown = {"measured": trace} | ({} if predicted is None else {"predicted": predicted})
    charts = [Chart.of(one, title=name) for name, one in shown.items()]
    found = [replace(chart.explanation, name=chart.title) for chart in charts]
    sentences = [found[0].sentence]
    if len(found) > 1:
        sentences.append(compare_explanations(found[1], found[0]).sentence)
    return Answer([ContenderBar.of(chart) for chart in charts], sentences=sentences)


def _differences(trace: Trace, predicted: Trace | None) -> list[PageBlock]:
    table = Table(accuracy(trace), COLUMNS)
    if predicted is None:
        return [table]
    steps = Waterfall(explain(predicted), explain(trace), ("predicted", "measured"))
    return [steps, table, _scatter(trace)]


def _scatter(trace: Trace) -> Scatter:
    workflow, cluster = trace.workload.problems[0].workflow, trace.workload.cluster
    points = [
        ScatterPoint(
            f"{workflow.task_name(t)} on {cluster.names[d]}", int(workflow.kind[t]), guess, real
        )
        for t, d, guess, real in zip(*(a.tolist() for a in _durations(trace)), strict=True)
    ]
    return Scatter(points, workflow.kinds)
