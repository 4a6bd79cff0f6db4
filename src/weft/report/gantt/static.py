"""Gantt charts as SVG and PNG by matplotlib, and `save_gantt` for every suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.source import write_file
from weft.model import Problem
from weft.model.trace import CANCELLED, DONE, LOST
from weft.registry import closest
from weft.report.gantt.chart import Chart, Drawable
from weft.report.gantt.html import gantt_html
from weft.report.labels import shortened
from weft.report.matplot import drawing, png_bytes, svg_bytes
from weft.report.palette import LIGHT, category, text_on
from weft.typed import typed

NAMES_UP_TO = 300
"""Charts with more bars show no names: they could not be read."""


@typed
def save_gantt(
    result: Drawable, path: str | Path, problem: Problem | None = None, *, title: str | None = None
) -> Path:
    """Write the Gantt chart of a schedule, plan or trace (.html, .svg, .png)."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _MAKERS:
        near = closest(suffix, _MAKERS)
        raise InvalidInput(
            f"'{path.name}' ends in '{path.suffix}'; a Gantt chart is written to .html, .svg or "
            f".png{near if 'did you mean' in near else ''}"
        )
    return write_file(path, _MAKERS[suffix](result, problem, title=title))


def gantt_svg(
    result: Drawable, problem: Problem | None = None, *, title: str | None = None
) -> bytes:
    """Return the chart as an SVG file; the same chart gives the same bytes."""
    return _drawn(Chart.of(result, problem, title=title), svg_bytes)


def gantt_png(
    result: Drawable, problem: Problem | None = None, *, title: str | None = None
) -> bytes:
    """Return the chart as a PNG file."""
    return _drawn(Chart.of(result, problem, title=title), png_bytes)


_MAKERS: dict[str, Callable[..., bytes | str]] = {
    ".html": gantt_html,
    ".svg": gantt_svg,
    ".png": gantt_png,
}


def _drawn(chart: Chart, as_bytes: Callable[[Any], bytes]) -> bytes:
    with drawing(*_size(chart)) as (figure, axes):
        _draw(chart, figure, axes)
        return as_bytes(figure)


def _size(chart: Chart) -> tuple[float, float]:
    return 11.0, min(60.0, 1.4 + 0.32 * max(3, len(chart.lanes)))


def _draw(chart: Chart, figure: Any, axes: Any) -> None:
    slot, size = chart.slots
    lane = np.empty(len(chart.lanes))
    lane[chart.lanes] = np.arange(len(chart.lanes))
    height = 0.84 / size
    bottom = lane[chart.device] - 0.42 + slot * height
    for device, begin, until, slowdown in chart.pauses.tolist():
        shade = LIGHT["bad"] if np.isinf(slowdown) else LIGHT["muted"]
        axes.barh(
            lane[int(device)],
            until - begin,
            left=begin,
            height=1,
            color="none",
            edgecolor=shade,
            alpha=0.35,
            hatch="///",
            lw=0,
            zorder=3,
        )
    # One call for each look, not for each bar: a hundred thousand bars stay possible.
    for look in _looks(chart):
        _bars(axes, chart, bottom, height, look)
    if len(chart) <= NAMES_UP_TO:
        _names(axes, chart, bottom + height / 2, height)
    _limits(axes, chart, lane)
    _dress(figure, axes, chart)


def _limits(axes: Any, chart: Chart, lane: np.ndarray) -> None:
    """Draw the critical chain's transfers in the lane that waits, and the bound."""
    t = chart.explanation.table
    for s in chart.explanation.segments:
        if s.part == "moving data":
            axes.barh(
                lane[int(t.device[s.row])],
                s.seconds,
                left=s.start,
                height=0.3,
                color=LIGHT["paper"],
                edgecolor=LIGHT["bad"],
                hatch="//////",
                lw=0.8,
                zorder=4,
            )
    if chart.bound > 0:
        axes.axvline(chart.bound, color=LIGHT["ink"], lw=1.2, ls="--", zorder=4)


Look = tuple[int, int, bool]


def _looks(chart: Chart) -> list[Look]:
    rows = np.stack([chart.kind, chart.status, chart.copy.astype(np.int64)], axis=1)
    return [(int(k), int(s), bool(c)) for k, s, c in np.unique(rows, axis=0)] if len(rows) else []


def _bars(axes: Any, chart: Chart, bottom: np.ndarray, height: np.ndarray, look: Look) -> None:
    from matplotlib.collections import PolyCollection

    kind, status, copy = look
    mine = (chart.kind == kind) & (chart.status == status) & (chart.copy == copy)
    x0, x1, y0, y1 = chart.start[mine], chart.finish[mine], bottom[mine], (bottom + height)[mine]
    corners = np.stack(
        [
            np.stack([x0, y0], 1),
            np.stack([x1, y0], 1),
            np.stack([x1, y1], 1),
            np.stack([x0, y1], 1),
        ],
        axis=1,
    )
    color = category(kind)
    edge = {DONE: LIGHT["paper"], LOST: LIGHT["bad"], CANCELLED: LIGHT["ink"]}[status]
    hatch = "xxxx" if status == LOST else "////" if copy else None
    bars = PolyCollection(
        list(corners),
        facecolors=color,
        edgecolors=edge,
        hatch=hatch,
        linewidths=_edges(chart, x1 - x0) if status == DONE else 0.6,
    )
    bars.set_alpha(1.0 if status == DONE else 0.5)
    bars.set_linestyle("--" if status == CANCELLED else "-")
    axes.add_collection(bars, autolim=False)


def _edges(chart: Chart, seconds: np.ndarray) -> np.ndarray:
    """Return the widths of edges: none around thin bars, which they would hide."""
    begin, end = chart.span
    points = 72 * (_size(chart)[0] - 1.6) * seconds / max(end - begin, 1e-300)
    return np.where(points > 3, 0.6, 0.0)


def _names(axes: Any, chart: Chart, middle: np.ndarray, height: np.ndarray) -> None:
    begin, end = chart.span
    inches = (_size(chart)[0] - 1.6) / max(end - begin, 1e-300)
    for r in range(len(chart)):
        room = (chart.finish[r] - chart.start[r]) * inches
        letters, name = int((room - 0.08) / 0.066), chart.task_name(r)
        if letters < min(10, len(name)) or height[r] < 0.4:
            continue
        ink = text_on(category(int(chart.kind[r]))) if chart.status[r] == DONE else LIGHT["ink"]
        x, text = (chart.start[r] + chart.finish[r]) / 2, shortened(name, letters)
        plate = (
            {"facecolor": category(int(chart.kind[r])), "edgecolor": "none", "pad": 1.0}
            if chart.copy[r]
            else None
        )
        axes.text(
            x,
            middle[r],
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=ink,
            clip_on=True,
            bbox=plate,
        )


def _dress(figure: Any, axes: Any, chart: Chart) -> None:
    begin, end = chart.span
    names, nodes = chart.workload.cluster.names, chart.workload.cluster.nodes
    axes.set_xlim(begin, end + (end - begin) * 0.01 if end > begin else begin + 1)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)
    several = len(set(nodes)) > 1
    labels = [f"{nodes[d]} / {names[d]}" if several else names[d] for d in chart.lanes.tolist()]
    axes.set_yticks(range(len(labels)), [shortened(label, 28) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel("seconds")
    facts = ", ".join(f"{label} {value}" for label, value in chart.facts()[:4])
    axes.set_title(f"{shortened(chart.title, 60)}   ({facts})")
    handles = _legend(chart)
    if len(handles) > 1:
        figure.legend(
            handles=handles, loc="outside lower left", ncols=min(6, len(handles)), fontsize=9
        )


def _legend(chart: Chart) -> list[Any]:
    """List kinds of tasks, then all other marks that the chart has."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = np.unique(chart.kind).tolist()[:12]
    handles: list[Any] = [
        Patch(color=category(k), label=shortened(chart.workload.kinds[k], 20)) for k in kinds
    ]
    *_, slowdown = chart.pauses.T
    down, slow = bool(np.isinf(slowdown).any()), bool(np.isfinite(slowdown).any())
    moves = any(s.part == "moving data" for s in chart.explanation.segments)
    marks = (
        (bool(chart.copy.any()), "copy", LIGHT["paper"], category(0), "////"),
        (bool((chart.status == LOST).any()), "lost", LIGHT["bad"], "none", "xxxx"),
        (down, "device down", LIGHT["bad"], "none", "///"),
        (slow, "device slower", LIGHT["muted"], "none", "///"),
        (moves, "data moves (critical chain)", LIGHT["bad"], LIGHT["paper"], "//////"),
    )
    handles += [
        Patch(facecolor=face, edgecolor=edge, hatch=hatch, label=label)
        for present, label, edge, face, hatch in marks
        if present
    ]
    if chart.bound > 0:
        handles.append(Line2D([], [], color=LIGHT["ink"], ls="--", label="proven bound"))
    return handles
