"""Figures of the GPU-cluster report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import AXES as ALL_AXES
from weft.experiments.gpu_cluster.contenders import CONTENDERS, contender
from weft.experiments.harness import ExperimentResults, line
from weft.report.figures import Series, pareto_figure
from weft.report.page import Figure, Figures, PageBlock, Table, Text
from weft.report.tables import Column, Columns

PointRow = Mapping[str, Any]

SIZE = (5.4, 4.4)
MIDDLE = 1.0
"""CCR of Figure 3; makespans at all CCRs are drawn relative to the baseline."""
BASELINE = "heft-replanned"
PANELS = (
    ("makespan", "(a) makespan", "seconds"),
    ("speedup", "(b) speedup", "over the best device"),
    ("slr", "(c) SLR", "completion / path"),
)
AXES = {"tasks": "tasks of one job", "jobs": "jobs of about 20 tasks, all at time 0"}
TABLE_ONLY = {"fifo-deft-apart", "rank-eft"}
"""Contenders that appear in the tables only."""
BANDED = {"heft", "heft-replanned", "tuned-list", "replan-switch"}
"""Contenders drawn with intervals; results.json has all intervals."""


def world_figures(results: ExperimentResults, condition: str) -> list[PageBlock]:
    """Draw Figure 3 against tasks and jobs, and makespans relative to re-planned HEFT."""
    blocks: list[PageBlock] = []
    for axis, label in AXES.items():
        rows = [r for r in results["points"] if r["condition"] == condition and r["axis"] == axis]
        if not rows:
            continue
        ccrs = sorted({r["ccr"] for r in rows})
        middle = MIDDLE if MIDDLE in ccrs else ccrs[0]
        figures = [
            _panel(
                [r for r in rows if r["ccr"] == middle],
                key,
                f"{title}, CCR {middle:g}",
                label,
                unit,
            )
            for key, title, unit in PANELS
        ]
        blocks.append(Figures(figures))
        blocks.append(Figures(_all_relative(rows, "makespan", label, ccrs)))
        blocks.append(_numbers(rows, axis, "makespan", ccrs))
    return blocks or [Text("Not measured.")]


def stream_figures(results: ExperimentResults) -> list[PageBlock]:
    """Draw mean completion time, missed deadlines and fairness against the load."""
    rows = [r for r in results["points"] if r["axis"] == "stream"]
    if not rows:
        return [Text("Not measured.")]
    panels = (
        ("jct", "mean completion time", "seconds"),
        ("misses", "missed deadlines", "share of jobs"),
        ("fairness", "fairness of slowdowns", "Jain's index"),
    )
    figures = [
        _panel([r for r in rows if r["ccr"] == ccr], key, f"{title}, CCR {ccr:g}", "load", unit)
        for key, title, unit in panels
        for ccr in results["ccrs"]
    ]
    relative = _all_relative(rows, "jct", "load", results["ccrs"])
    return [Figures([*relative, *figures]), _numbers(rows, "stream", "jct", results["ccrs"])]


def _panel(rows: Sequence[PointRow], key: str, title: str, x_label: str, y_label: str) -> Figure:
    banded = key in {"makespan", "jct"}
    lines = _lines(rows, lambda r: r[key], lambda r: (r["low"], r["high"]) if banded else None)
    return line(lines, title, x_label, y_label, size=SIZE)


def _all_relative(
    rows: Sequence[PointRow], key: str, x_label: str, ccrs: Sequence[float]
) -> list[Figure]:
    made = [_relative([r for r in rows if r["ccr"] == ccr], key, ccr, x_label) for ccr in ccrs]
    return [figure for figure in made if figure is not None]


def _relative(rows: Sequence[PointRow], key: str, ccr: float, x_label: str) -> Figure | None:
    """Draw geometric means of the ratio to the baseline per seed."""
    base = {r["x"]: np.array(r["values"], float) for r in rows if r["contender"] == BASELINE}
    if not base:
        return None

    def share(r: PointRow) -> float:
        return float(np.exp(np.nanmean(np.log(np.array(r["values"], float) / base[r["x"]]))))

    lines = _lines(rows, share, lambda _: None)
    what = "completion time" if key == "jct" else key
    title = f"{what} / {BASELINE}, CCR {ccr:g}"
    return line(lines, title, x_label, f"over {BASELINE}", size=SIZE)


def _lines(
    rows: Sequence[PointRow],
    value: Callable[[PointRow], float | None],
    band: Callable[[PointRow], tuple[float | None, float | None] | None],
) -> dict[str, Series]:
    lines = {}
    names = dict.fromkeys(r["contender"] for r in rows if r["contender"] not in TABLE_ONLY)
    for name in sorted(names, key=_place):
        own = sorted((r for r in rows if r["contender"] == name), key=lambda r: float(r["x"]))
        x, y = [r["x"] for r in own], _column([value(r) for r in own])
        edges = [band(r) for r in own]
        if name in BANDED and all(e is not None for e in edges):
            low, high = (_column([e[k] for e in edges if e is not None]) for k in (0, 1))
            lines[name] = Series(x, y, low, high)
        else:
            lines[name] = Series(x, y)
    return lines


def _place(name: str) -> tuple[bool, int]:
    """Return the order of lines: stable colours need contenders of all axes first."""
    who = contender(name)
    return who.axes != ALL_AXES, CONTENDERS.index(who)


def _numbers(rows: Sequence[PointRow], axis: str, key: str, ccrs: Sequence[float]) -> Table:
    """Return means at the smallest and the largest x, at every CCR."""
    ends = sorted({min(r["x"] for r in rows), max(r["x"] for r in rows)})
    shown: dict[str, dict[str, Any]] = {}
    for r in rows:
        if r["x"] in ends:
            shown.setdefault(r["contender"], {"contender": r["contender"]})[
                f"{r['ccr']:g} {r['x']:g}"
            ] = r[key]
    what = {"tasks": "tasks", "jobs": "jobs", "stream": "load"}[axis]
    columns: Columns = [
        "contender",
        *(
            Column(f"{ccr:g} {x:g}", f"CCR {ccr:g}, {x:g} {what}", digits=4, best="min")
            for ccr in ccrs
            for x in ends
        ),
    ]
    unfinished = sum(r["unfinished"] for r in rows)
    note = f" {unfinished} unfinished runs are left out." if unfinished else ""
    name = "Mean completion time" if key == "jct" else "Makespan"
    return Table(
        list(shown.values()),
        columns,
        caption=f"{name} in seconds, mean over {rows[0]['seeds']} seeds.{note}",
    )


def training_figures(results: ExperimentResults) -> list[PageBlock]:
    """Draw learning curves from the model cards."""
    figures = [
        line(
            {row["policy"]: Series(*zip(*row["curve"], strict=True))},
            f"training of {row['policy']}",
            row["x"],
            row["y"],
            size=SIZE,
        )
        for row in results["training"]
        if row["curve"]
    ]
    return [Figures(figures)] if figures else []


def objective_figures(results: ExperimentResults) -> list[PageBlock]:
    """Draw time against energy, and time against fairness."""
    titles = {
        "energy": ("Makespan and energy", "makespan", "energy"),
        "fairness": (
            "Completion time and fairness",
            "mean completion time",
            "inequality of slowdowns",
        ),
    }
    figures = []
    for against, rows in results["objectives"].items():
        title, x_label, y_label = titles[against]
        spots = {r["label"]: (r["time"], r["other"]) for r in rows}
        figures.append(
            Figure(pareto_figure(spots, title=title, x_label=x_label, y_label=y_label, size=SIZE))
        )
    return [Figures(figures)]


def _column(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)
