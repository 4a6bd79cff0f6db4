"""Causes, critical chain and sentences of a chart, for its script."""

from __future__ import annotations

import math

import numpy as np

from weft.model.explain import KINDS, PARTS
from weft.report.gantt.chart import Chart

SENTENCES_UP_TO = 1_500
"""Rows of a chart that has a sentence for each task; larger ones have them for the chain."""

FINISHES_UP_TO = 20_000
"""Rows times devices for which the page holds the finish on each other device."""


def cause_data(chart: Chart) -> dict[str, object] | None:
    """Return causes and the chain, rows numbered as in the chart; None without rows."""
    if not len(chart):
        return None
    found, t = chart.explanation, chart.explanation.table
    place = np.full(len(chart) + 1, -1)
    place[chart.order] = np.arange(len(chart))  # the last entry stays: row -1 is no row
    group = t.group[chart.order]
    segments = [
        [
            PARTS.index(s.part),
            s.start,
            s.finish,
            int(place[s.row]),
            float(found.causes.moved[t.group[s.row]]),
            int(place[found.causes.source[t.group[s.row]]]),
        ]
        for s in found.segments
    ]
    return {
        "sentence": found.sentence,
        "parts": list(PARTS),
        "kinds": list(KINDS),
        "segments": segments,
        "chain": [int(place[r]) for r in found.chain],
        "kind": found.kind[chart.order].tolist(),
        "source": place[found.causes.source[group]].tolist(),
        "tasks": _tasks(chart, place),
    }


def _tasks(chart: Chart, place: np.ndarray) -> dict[str, list[object]]:
    """Sentence, slack and the finish on each device, by row of the chart."""
    found = chart.explanation
    rows = range(len(chart)) if len(chart) <= SENTENCES_UP_TO else found.chain
    slack = found.slack if len(chart) <= SENTENCES_UP_TO else None
    others = len(rows) * len(chart.lanes) <= FINISHES_UP_TO
    return {
        str(int(place[r])): [
            found.task_sentence(r),
            None if slack is None else float(slack[r]),
            [f if math.isfinite(f) else None for f in found.alternatives(r).values()]
            if others
            else None,
        ]
        for r in rows
    }
