"""The report of a real run: figures, predictions, a terminal chart and a page."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.learn.durations.end_time import Forecast
from weft.model import Schedule, Trace
from weft.model.trace import DONE
from weft.policies import simulate
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, Text, write_report
from weft.report.quantities import format_seconds
from weft.report.tables import Column, table_text
from weft.runtime.api import RunTrace

COLUMNS = (
    Column("kind"),
    Column("device"),
    Column("tasks"),
    Column("predicted", unit="s"),
    Column("measured", unit="s"),
    Column("ratio", "measured / predicted", digits=3),
)


def predicted_trace(trace: Trace, decider: Any) -> Trace:
    """Simulate the run as estimated before it began, with the branches that were taken."""
    problem = trace.workload.problems[0]
    guide = decider.solve(problem).schedule if hasattr(decider, "solve") else decider
    future = replace(
        trace.scenario,
        change_time=np.zeros(0),
        change_device=np.zeros(0, np.int64),
        change_pace=np.zeros(0),
    )
    future = replace(future, cancel=np.full(trace.workload.jobs, np.inf))
    return simulate(
        trace.workload, guide if isinstance(guide, Schedule) else decider, scenario=future
    ).named("predicted")


def accuracy(trace: Trace) -> list[dict[str, Any]]:
    """Return median predicted and measured seconds and their ratio by kind and device."""
    problem = trace.workload.problems[0]
    done = trace.status == DONE
    task, device = trace.task[done], trace.device[done]
    measured = (trace.finish - trace.start)[done]
    predicted = np.array(
        [problem.duration(int(t), int(d)) for t, d in zip(task, device, strict=True)]
    )
    kinds = problem.workflow.kind[task]
    rows = []
    for kind, name in enumerate(problem.workflow.kinds):
        for d, place in enumerate(problem.cluster.names):
            mine = (kinds == kind) & (device == d)
            if mine.any():
                ratio = float(np.median(measured[mine] / np.maximum(predicted[mine], 1e-12)))
                row = {"kind": name, "device": place, "tasks": int(mine.sum()), "ratio": ratio}
                rows.append(
                    {
                        **row,
                        "predicted": float(np.median(predicted[mine])),
                        "measured": float(np.median(measured[mine])),
                    }
                )
    return rows


def facts(trace: RunTrace, predicted: Trace | None = None) -> dict[str, str]:
    """Headline figures."""
    done = len(np.unique(trace.task[trace.status == DONE]))
    found = {
        "tasks": f"{done:,} of {trace.workload.instances:,}",
        "makespan": format_seconds(trace.makespan),
        "utilisation": f"{trace.utilisation:.1%}",
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
    """Return a chart in letters: a line per device, a letter per task kind, a dot for idle.

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> problem = Problem.from_arrays([[2.0, 2.0], [1.0, 1.0]], [[0, 1]])
    >>> print(gantt_text(simulate(problem, "eft"), width=6))
    d0 |aaaaaa|
    d1 |......|
    a = task
    """
    names = trace.workload.cluster.names
    kinds = trace.workload.kinds
    letters = (string.ascii_lowercase + string.ascii_uppercase) * (len(kinds) // 52 + 1)
    begin = float(trace.workload.arrival.min(initial=0.0))
    span = max(trace.makespan, 1e-12)
    wide = max(len(n) for n in names)
    lanes = [["."] * width for _ in names]
    number = [[kinds.index(k) for k in p.workflow.kinds] for p in trace.workload.problems]
    for r in range(len(trace)):
        template = int(trace.workload.template[trace.job[r]])
        kind = number[template][int(trace.workload.problems[template].workflow.kind[trace.task[r]])]
        first = int((trace.start[r] - begin) / span * width)
        last = max(first + 1, round((trace.finish[r] - begin) / span * width))
        mark = letters[kind] if trace.status[r] == DONE else "!"
        lanes[int(trace.device[r])][first:last] = [mark] * (min(last, width) - min(first, width))
    legend = ", ".join(f"{letters[k]} = {kind}" for k, kind in enumerate(kinds))
    return "\n".join(
        [*(f"{n:<{wide}} |{''.join(lane)}|" for n, lane in zip(names, lanes, strict=True)), legend]
    )


def run_text(trace: RunTrace, predicted: Trace | None = None) -> str:
    """A run, for people at a terminal."""
    head = (
        f"{trace.workload.name}: "
        + ", ".join(f"{k} {v}" for k, v in facts(trace, predicted).items())
        + f", policy {trace.policy}"
    )
    parts = [head, gantt_text(trace), table_text(accuracy(trace), COLUMNS)]
    if trace.shadow is not None:
        parts.append(str(trace.shadow))
    parts += [str(failure) for failure in trace.failures]
    return "\n\n".join(parts)


def write_run_report(trace: RunTrace, path: str | Path, predicted: Trace | None = None) -> Path:
    """Write a page: figures, charts of the run and of the prediction, and their difference."""
    charts = {"measured": trace, **({"predicted": predicted} if predicted is not None else {})}
    blocks: Sequence[PageBlock] = [Facts(facts(trace, predicted)), Gantts(charts)]
    notes = [*([str(trace.shadow)] if trace.shadow else ()), *(str(f) for f in trace.failures)]
    if trace.replaced:
        notes.append(f"Greedy earliest finish time took over: {trace.replaced}.")
    sections = [
        Section("The run", [*blocks, *(Text(note) for note in notes)]),
        Section("Predicted against measured", [Table(accuracy(trace), COLUMNS)]),
        Section("The workflow", [Dag(trace.workload.problems[0].workflow)]),
    ]
    return write_report(
        path, title=f"{trace.workload.name}, run with {trace.policy}", sections=sections
    )
