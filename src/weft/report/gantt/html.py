"""The interactive Gantt chart: a canvas in one HTML file that works offline."""

from __future__ import annotations

import numpy as np

from weft.model import Cluster, Problem, Workload
from weft.report.causes.cause_data import cause_data
from weft.report.causes.contenders import Answer, ContenderBar
from weft.report.charts.search_curve import SearchCurve
from weft.report.document import compact, document, embedded_json, facts_html
from weft.report.gantt.chart import Chart, Drawable
from weft.report.labels import escaped
from weft.report.palette import CATEGORIES, DARK_CATEGORIES

LINK_LIMIT = 256
"""Above this, mixed links get no arrival times: the matrix would outweigh the rows."""


def gantt_html(
    result: Drawable, problem: Problem | None = None, *, title: str | None = None
) -> str:
    """Draw a schedule (with its problem), a plan or a trace as one HTML page.

    Examples
    --------
    >>> from weft.model import Schedule
    >>> problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    >>> schedule = Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0])
    >>> gantt_html(schedule, problem, title="two tasks").startswith("<!DOCTYPE html>")
    True
    """
    chart = Chart.of(result, problem, title=title)
    title = f"<h1>{escaped(chart.title)}</h1>"
    header = f'<header class="bar">{title}{facts_html(chart.facts())}</header>'
    answer = Answer((ContenderBar.of(chart),), bound=chart.bound).html("answer")
    history = getattr(result, "history", ())
    if len(history) > 1:
        answer += SearchCurve(history, float(getattr(result, "seconds", 0)), chart.bound).html("t")
    body = f"{header}<main>{answer}{gantt_fragment(chart)}</main>"
    return document(title=chart.title, body=body, page_class="solo")


def gantt_fragment(chart: Chart, *, until: float | None = None) -> str:
    """Return the chart as an element of a page; `until` lengthens the time axis."""
    data = embedded_json(chart_data(chart, until=until))
    label = f"Gantt chart of {chart.title}"
    return (
        f'<section class="gantt" aria-label="{escaped(label)}">'
        "<noscript>This chart needs JavaScript.</noscript>"
        f'<script type="application/json">{data}</script></section>'
    )


def chart_data(chart: Chart, *, until: float | None = None) -> dict[str, object]:
    """Return the data of the chart's script, without constant columns."""
    begin, end = chart.span
    return {
        "title": chart.title,
        "span": [begin, max(end, until or end)],
        "end": end,
        "devices": _devices(chart.workload.cluster, chart.lanes),
        "links": _links(chart.workload.cluster),
        "kinds": list(chart.workload.kinds),
        "templates": _templates(chart.workload),
        "jobs": chart.workload.template.tolist(),
        "outcome": None
        if chart.outcome is None or not len(chart.outcome)
        else chart.outcome.tolist(),
        "pauses": [
            [int(d), a, b, None if np.isinf(slowdown) else slowdown]
            for d, a, b, slowdown in chart.pauses.tolist()
        ],
        "rows": _rows(chart),
        "bound": chart.bound or None,
        "why": cause_data(chart),
        "palette": {"light": list(CATEGORIES), "dark": list(DARK_CATEGORIES)},
    }


def _rows(chart: Chart) -> dict[str, object]:
    columns: dict[str, object] = {
        "task": chart.task.tolist(),
        "device": chart.device.tolist(),
        "start": compact(chart.start),
        "finish": compact(chart.finish),
    }
    if chart.workload.jobs > 1:
        columns["job"] = chart.job.tolist()
    if chart.status.any():
        columns["status"] = chart.status.tolist()
    if chart.copy.any():
        columns["copy"] = chart.copy.astype(int).tolist()
    if len(np.unique(chart.batch)) < len(chart):
        columns["batch"] = chart.batch.tolist()
    if chart.decided is not None:
        columns["decided"] = compact(chart.decided)
    return columns


def _devices(cluster: Cluster, lanes: np.ndarray) -> dict[str, object]:
    return {
        "names": list(cluster.names),
        "kinds": list(cluster.kinds),
        "nodes": list(cluster.nodes),
        "lanes": lanes.tolist(),
    }


def _links(cluster: Cluster) -> dict[str, object] | None:
    """Return distinct pairs (latency, seconds per byte), and which one each link has."""
    p = cluster.p
    pairs, which = np.unique(
        np.stack([cluster.latency.ravel(), cluster.per_byte.ravel()], axis=1),
        axis=0,
        return_inverse=True,
    )
    matrix = which.reshape(p, p)
    across = np.unique(matrix[~np.eye(p, dtype=bool)])
    if len(across) > 1 and p > LINK_LIMIT:
        return None
    table: dict[str, object] = {"latency": pairs[:, 0].tolist(), "perByte": pairs[:, 1].tolist()}
    return table | (
        {"every": int(across[0]) if len(across) else 0}
        if len(across) <= 1
        else {"which": which.reshape(-1).tolist()}
    )


def _templates(workload: Workload) -> list[dict[str, object]]:
    position = {name: k for k, name in enumerate(workload.kinds)}
    templates = []
    for problem in workload.problems:
        w = problem.workflow
        template: dict[str, object] = {
            "name": w.name,
            "n": w.n,
            "names": None if w.names is None else list(w.names),
            "kind": np.array([position[k] for k in w.kinds], np.int64)[w.kind].tolist()
            if len(w.kinds) > 1
            else position[w.kinds[0]],
            "src": w.src.tolist(),
            "dst": w.dst.tolist(),
            "data": compact(w.data, digits=7),
        }
        if w.conditional:
            template |= {
                "choices": len(w.choices),
                "choice": w.choices.edge_choice.tolist(),
                "branch": w.choices.edge_branch.tolist(),
            }
        templates.append(template)
    return templates
