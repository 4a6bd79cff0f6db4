"""Results in notebooks: HTML without scripts, pictures, and pandas tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, MissingExtra
from weft.formats.parsing.source import write_file
from weft.model import Problem, Schedule, Trace
from weft.model.columns import FloatArray
from weft.model.explain import PARTS
from weft.model.explain.quantities import format_bytes, format_seconds
from weft.model.trace import STATUS
from weft.planners import Plan
from weft.report.causes.contenders import PART_COLORS
from weft.report.charts.small_chart import small_chart
from weft.report.comparison import Comparison
from weft.report.dag_svg import dag_svg
from weft.report.document import asset, facts_html
from weft.report.gantt.chart import Chart, Drawable
from weft.report.gantt.static import gantt_svg
from weft.report.labels import escaped
from weft.report.matplot import drawing, svg_bytes
from weft.report.palette import LIGHT, category, light_variables
from weft.report.tables import Column, table_html

Summary = tuple[str, Sequence[tuple[str, str]]]
"""A sentence, which may be empty, and numbers with their names."""

FIRST_ROWS = 8
"""Rows of a bare schedule that are shown."""


@dataclass(frozen=True)
class Picture:
    """An SVG picture; notebooks show it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture to an .svg file."""
        return write_file(Path(path), self.svg)


def html_of(result: object) -> str:
    """Return a result as HTML: a sentence, numbers, a small chart."""
    for kind, make in HTML.items():
        if isinstance(result, kind):
            style = f"<style>.weft{{{light_variables()}}}{asset('answers.css')}</style>"
            return f'{style}<div class="weft">{make(result)}</div>'
    raise InvalidInput(f"a {type(result).__name__} has no HTML")


def text_of(result: object) -> str:
    """Return a result as text: a sentence and numbers, as in the HTML."""
    for kind, make in SUMMARIES.items():
        if isinstance(result, kind):
            said, facts = make(result)
            numbers = ", ".join(f"{label} {value}" for label, value in facts)
            return f"{said}\n{numbers}" if said else numbers
    raise InvalidInput(f"a {type(result).__name__} has no text")


def plot_of(result: Any, problem: Problem | None = None) -> Picture:
    """Return a picture: a Gantt chart, bars of a comparison, or a problem's graph."""
    if isinstance(result, Problem):
        return Picture(dag_svg(result.workflow))
    if isinstance(result, Comparison):
        return Picture(_comparison_svg(result))
    return Picture(gantt_svg(result, problem).decode())


def frame_of(result: Any) -> Any:
    """Return the rows of a result as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("pandas", "notebook") from None
    for kind, make in COLUMNS.items():
        if isinstance(result, kind):
            return pd.DataFrame(make(result))
    raise InvalidInput(f"a {type(result).__name__} has no rows")


# -- HTML --------------------------------------------------------------------------------


def _summary_html(summary: Summary) -> str:
    said, facts = summary
    sentence = f'<p class="answer">{escaped(said)}</p>' if said else ""
    return f"{sentence}{facts_html(facts)}"


def _charted(result: Drawable) -> str:
    chart = Chart.of(result)
    return f"{_summary_html(_of_chart(chart))}{small_chart(chart) if len(chart) else ''}"


def _of_chart(chart: Chart) -> Summary:
    return chart.explanation.sentence, chart.facts()


def _of_problem(problem: Problem) -> Summary:
    w, c = problem.workflow, problem.cluster
    facts = [
        ("tasks", f"{problem.n:,}"),
        ("kinds", f"{len(w.kinds):,}"),
        ("edges", f"{problem.m:,}"),
        ("data", format_bytes(float(w.data.sum()))),
        ("devices", f"{problem.p:,}"),
        ("nodes", f"{len(set(c.nodes)):,}"),
    ]
    work = format_seconds(float(_fastest(problem).sum()))
    return f"{problem.name}: {work} of work, each task on its fastest device.", facts


def _fastest(problem: Problem) -> FloatArray:
    """Return the seconds of each task on its fastest device."""
    return problem.work * problem.best_per_work[problem.row]


def _problem(problem: Problem) -> str:
    w = problem.workflow
    count = np.bincount(w.kind, minlength=len(w.kinds))
    seconds = np.bincount(w.kind, weights=_fastest(problem), minlength=len(w.kinds))
    rows = [
        {"kind": name, "tasks": int(count[k]), "on the fastest device": float(seconds[k])}
        for k, name in enumerate(w.kinds)
    ]
    columns = ("kind", "tasks", Column("on the fastest device", unit="s"))
    return f"{_summary_html(_of_problem(problem))}{table_html(rows[:20], columns)}"


def _of_schedule(schedule: Schedule) -> Summary:
    return "", [
        ("rows", f"{len(schedule):,}"),
        ("devices", f"{len(np.unique(schedule.device)):,}"),
        ("makespan", format_seconds(schedule.makespan)),
    ]


def _schedule(schedule: Schedule) -> str:
    rows = [
        {key: column[r].item() for key, column in schedule.to_arrays().items()}
        for r in range(min(FIRST_ROWS, len(schedule)))
    ]
    more = f"<p>and {len(schedule) - len(rows):,} more</p>" if len(schedule) > len(rows) else ""
    table = table_html(rows) if rows else ""
    return f"{_summary_html(_of_schedule(schedule))}{table}{more}"


def _comparison(found: Comparison) -> str:
    return "".join(
        found.answer(w).html(f"weft-{k}") + found.table(w).html("")
        for k, w in enumerate(found.workloads)
    )


SUMMARIES: dict[type, Callable[[Any], Summary]] = {
    Problem: _of_problem,
    Plan: lambda plan: _of_chart(Chart.of(plan)),
    Trace: lambda trace: _of_chart(Chart.of(trace)),
    Schedule: _of_schedule,
}

HTML: dict[type, Callable[[Any], str]] = {
    Problem: _problem,
    Plan: _charted,
    Trace: _charted,
    Schedule: _schedule,
    Comparison: _comparison,
}


def _comparison_svg(found: Comparison) -> str:
    """Draw a bar per contender and problem, split by cause."""
    bars = [(w.name, bar) for w in found.workloads for bar in found.answer(w).bars]
    several = len(found.workloads) > 1
    labels = [f"{bar.name} ({name})" if several else bar.name for name, bar in bars]
    with drawing(8.0, 1.2 + 0.3 * len(bars)) as (figure, axes):
        left = np.zeros(len(bars))
        for part in PARTS:
            seconds = np.array([bar.parts.get(part, 0.0) for _, bar in bars])
            if seconds.any():
                color = PART_COLORS[part]
                shade = category(int(color[1:])) if color[1:].isdigit() else LIGHT[color]
                axes.barh(range(len(bars)), seconds, left=left, color=shade, label=part)
            left += seconds
        axes.set_yticks(range(len(bars)), labels)
        axes.invert_yaxis()
        axes.set_xlabel("seconds on the critical chain")
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
        return svg_bytes(figure).decode()


# -- tables --------------------------------------------------------------------------------


def _plan_columns(plan: Plan) -> dict[str, Any]:
    w, c, s = plan.problem.workflow, plan.problem.cluster, plan.schedule
    return {
        "task": [w.task_name(t) for t in s.task.tolist()],
        "kind": [w.kinds[w.kind[t]] for t in s.task.tolist()],
        "device": [c.names[d] for d in s.device.tolist()],
        "start": s.start,
        "finish": s.finish,
        "copy": s.copy,
    }


def _trace_columns(trace: Trace) -> dict[str, Any]:
    pairs = list(zip(trace.job.tolist(), trace.task.tolist(), strict=True))
    flows = [trace.workload.problem_of(j).workflow for j, _ in pairs]
    return {
        "job": trace.job,
        "task": [w.task_name(t) for w, (_, t) in zip(flows, pairs, strict=True)],
        "kind": [w.kinds[w.kind[t]] for w, (_, t) in zip(flows, pairs, strict=True)],
        "device": [trace.workload.cluster.names[d] for d in trace.device.tolist()],
        "decided": trace.decided,
        "start": trace.start,
        "finish": trace.finish,
        "status": [STATUS[s] for s in trace.status.tolist()],
        "copy": trace.copy,
    }


def _problem_columns(problem: Problem) -> dict[str, Any]:
    w = problem.workflow
    return {
        "task": list(w.task_names),
        "kind": [w.kinds[k] for k in w.kind.tolist()],
        "work": w.work,
        "memory": w.memory,
        "fastest": _fastest(problem),
    }


COLUMNS: dict[type, Callable[[Any], Any]] = {
    Problem: _problem_columns,
    Plan: _plan_columns,
    Trace: _trace_columns,
    Schedule: Schedule.to_arrays,
    Comparison: lambda found: [asdict(row) for row in found.rows],
}
