"""A small Gantt chart as SVG, for notebooks and wherever scripts do not run."""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.model.explain.quantities import format_seconds
from weft.report.gantt.chart import Chart
from weft.report.labels import escaped, shortened
from weft.report.palette import LIGHT, category

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 92, 54, 20, 22
"""Pixels: of the picture, and around the lanes."""

BARS_UP_TO = 3_000
"""Larger charts show how busy each device is over time, instead of their bars."""

MOST_LANES = 40


def small_chart(chart: Chart) -> str:
    """Draw the chart: bars by kind, the critical chain framed, its transfers hatched.

    Examples
    --------
    >>> from weft.model import Problem, Schedule
    >>> problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    >>> schedule = Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0])
    >>> small_chart(Chart.of(schedule, problem)).count("<rect")
    2
    """
    lanes = chart.lanes[:MOST_LANES]
    lane = np.full(chart.workload.cluster.p, -1)
    lane[lanes] = np.arange(len(lanes))
    row = 16.0 if len(lanes) <= 20 else 10.0
    begin, end = chart.span
    scale = (WIDTH - LEFT - RIGHT) / max(end - begin, 1e-300)
    height = TOP + row * len(lanes) + BOTTOM
    body = _lanes(chart, lanes, row)
    few = len(chart) <= BARS_UP_TO
    body += _bars(chart, lane, row, scale) if few else _load(chart, lane, row, scale)
    body += _transfers(chart, lane, row, scale) + _lines(chart, scale, height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" style="max-width:100%;height:auto;background:{LIGHT["paper"]}" '
        f'font-family="system-ui,sans-serif" font-size="11"><title>{escaped(chart.title)}</title>'
        f'<defs><pattern id="weft-move" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><line y2="5" stroke="{LIGHT["bad"]}" stroke-width="2.4"/>'
        f"</pattern></defs>{''.join(body)}</svg>"
    )


def _lanes(chart: Chart, lanes: IntArray, row: float) -> list[str]:
    names, parts = chart.workload.cluster.names, []
    first = chart.slots[0] == 0
    begin, end = chart.span
    for k, d in enumerate(lanes.tolist()):
        y = TOP + k * row
        mine = first & (chart.device == d)
        busy = float((chart.finish - chart.start)[mine].sum()) / max(end - begin, 1e-300)
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + row - 4:.1f}" text-anchor="end" '
            f'fill="{LIGHT["ink"]}">{escaped(shortened(names[d], 14))}</text>'
            f'<text x="{WIDTH - 4}" y="{y + row - 4:.1f}" text-anchor="end" '
            f'fill="{LIGHT["muted"]}">{100 * busy:.0f} %</text>'
        )
    return parts


def _bars(chart: Chart, lane: IntArray, row: float, scale: float) -> list[str]:
    begin = chart.span[0]
    on_chain = np.zeros(len(chart), bool)
    on_chain[np.isin(chart.order, chart.explanation.chain)] = True
    parts = []
    for r in np.flatnonzero(lane[chart.device] >= 0).tolist():
        x = LEFT + (chart.start[r] - begin) * scale
        wide = max(0.6, (chart.finish[r] - chart.start[r]) * scale - 0.4)
        look = f'stroke="{LIGHT["ink"]}"' if on_chain[r] else 'fill-opacity="0.45"'
        parts.append(
            f'<rect x="{x:.1f}" y="{TOP + lane[chart.device[r]] * row + 1:.1f}" '
            f'width="{wide:.1f}" height="{row - 2:.1f}" fill="{category(int(chart.kind[r]))}" '
            f"{look}><title>{escaped(chart.task_name(r))}</title></rect>"
        )
    return parts


def _load(chart: Chart, lane: IntArray, row: float, scale: float) -> list[str]:
    """Return one rectangle per lane and six pixels, the fuller the stronger."""
    begin, width = chart.span[0], 6.0
    bins = int((WIDTH - LEFT - RIGHT) / width)
    shares: FloatArray = np.zeros((int(lane.max()) + 1, bins))
    for r in np.flatnonzero(lane[chart.device] >= 0).tolist():
        a, b = ((t - begin) * scale / width for t in (chart.start[r], chart.finish[r]))
        for k in range(int(a), min(bins, int(b) + 1)):
            shares[lane[chart.device[r]], k] += max(0.0, min(b, k + 1) - max(a, k))
    return [
        f'<rect x="{LEFT + k * width:.0f}" y="{TOP + d * row + 1:.1f}" width="{width:.0f}" '
        f'height="{row - 2:.1f}" fill="{category(0)}" fill-opacity="{min(1, shares[d, k]):.2f}"/>'
        for d, k in np.argwhere(shares > 0.01).tolist()
    ]


def _transfers(chart: Chart, lane: IntArray, row: float, scale: float) -> list[str]:
    t, begin = chart.explanation.table, chart.span[0]
    return [
        f'<rect x="{LEFT + (s.start - begin) * scale:.1f}" '
        f'y="{TOP + lane[t.device[s.row]] * row + row / 4:.1f}" '
        f'width="{max(1.0, s.seconds * scale):.1f}" height="{row / 2:.1f}" '
        f'fill="url(#weft-move)" stroke="{LIGHT["bad"]}"><title>data moves for '
        f"{escaped(format_seconds(s.seconds))}</title></rect>"
        for s in chart.explanation.segments
        if s.part == "moving data" and lane[t.device[s.row]] >= 0
    ]


def _lines(chart: Chart, scale: float, height: float) -> list[str]:
    begin, end = chart.span
    marks = [(end, f"makespan {format_seconds(end - begin)}", "", "end")]
    if 0 < chart.bound < end - begin:
        label = f"bound {format_seconds(chart.bound)}"
        marks.append((begin + chart.bound, label, ' stroke-dasharray="4 3"', "end"))
    place = f'x="{LEFT}" y="{height - 6:.0f}"'
    parts = [f'<text {place} fill="{LIGHT["muted"]}">{escaped(format_seconds(begin))}</text>']
    for (at, label, dash, anchor), y in zip(marks, (height - 6, TOP - 7), strict=False):
        x = LEFT + (at - begin) * scale
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - BOTTOM + 3:.0f}" '
            f'stroke="{LIGHT["ink"]}" stroke-width="1.2"{dash}/><text x="{x:.1f}" y="{y:.0f}" '
            f'text-anchor="{anchor}" fill="{LIGHT["ink"]}">{escaped(label)}</text>'
        )
    return parts
