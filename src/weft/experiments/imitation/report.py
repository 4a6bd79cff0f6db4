"""The page of the DeepSched experiment: turnaround, the time table with the document's own beside it, and the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.experiments.imitation import amortised_report
from weft.model import Problem, Schedule
from weft.report.figures import Series, bar_figure, line_figure
from weft.report.page import Facts, Figure, Figures, Gantts, Section, Table, Text, write_report
from weft.report.quantities import format_seconds
from weft.report.tables import Column, Columns

GOAL = 1.03
UNSEEN = "paper's unseen"
ONE = "one generation"

SETS = """\
"seen" and "unseen": generated problems of 10 to 2,000 tasks on 2 to 188 devices, from the very batches the shipped network was \
trained on, and from a seed it never met. "paper's seen" and "paper's unseen": one set of 16 machines and at most 500 tasks, \
which is what the document's network needs; it was trained on the first of them, and deepsched on neither. "other structures": \
Cholesky, LU, FFT, Gauss, Montage, Epigenomics, CyberShake and map-reduce on 4 to 32 machines; both networks have only met \
layered graphs. "job lists": workflows that arrive one by one and queue for 16 machines.

Turnaround is the mean over tasks of their finish minus the arrival of their workflow, after replaying the schedule in the \
simulator. It is given over that of HEFT on the same problem; the geometric mean, with a 95 % bootstrap interval."""

HOW = """\
The document's network reads all tasks at once and gives each two numbers, from which machine and times follow. Which of two \
equal machines is free depends on what was placed before, so no network of this form can balance; what it learns is which \
machines HEFT likes. "deepsched" orders the tasks at once, and then names a machine for one task after the other, told when \
inputs arrive and from when on each machine has room. It imitates HEFT closely because it is told what HEFT looks at, and must \
only learn to add and to compare. "HEFT without gaps" shows what is lost when gaps between tasks are not looked at.

Every schedule is decoded: machine and order from the network, times worked out exactly. All of them pass the checker."""

TIMES = """\
Seconds of processor time on one thread, from the problem to the schedule, 188 processors. The document's network is made anew \
for each size here; padded to 84,654 tasks, as in the document, every size costs what the largest does. Its weights do not \
matter for the time and are untrained. The GA is given a few generations (see the note below the table); its time grows in \
proportion."""


def sizes(document: Mapping[str, Any]) -> list[int]:
    """Numbers of tasks that were timed."""
    return list(dict.fromkeys(row["tasks"] for row in document["speed"]))


def time_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a contender and runtime, one column a size, and the document's table below."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in document["speed"]:
        name = f"GA, {ONE}" if row["contender"] == "GA" else row["contender"]
        seconds = row["generation_seconds"] if row["contender"] == "GA" else row["seconds"]
        rows.setdefault((name, row["runtime"]), {"contender": name, "runtime": row["runtime"]})[
            str(row["tasks"])
        ] = seconds
    for name, times in document["table_one"].items():
        rows["document", name] = {"contender": name, "runtime": "document, Table I", **times}
    return list(rows.values())


def best_row(
    document: Mapping[str, Any], part: str, group: str, contender: str, size: str = "all"
) -> dict[str, Any]:
    """The row of the turnaround tables with these keys."""
    rows = document["turnaround"][part]
    return dict(
        next(r for r in rows if (r["group"], r["contender"], r["size"]) == (group, contender, size))
    )


def _seconds(document: Mapping[str, Any], contender: str, runtime: str) -> dict[int, float]:
    return {
        row["tasks"]: row["seconds"]
        for row in document["speed"]
        if (row["contender"], row["runtime"]) == (contender, runtime)
    }


def verdict(document: Mapping[str, Any]) -> list[str]:
    """What the numbers say."""
    ours, ga = (
        best_row(document, "stream", "unseen", name) for name in ("deepsched", "GA (waiting)")
    )
    other, paper = (
        best_row(document, "shapes", "other structures", "deepsched"),
        best_row(document, "paper", "paper's unseen", "paper"),
    )
    known = best_row(document, "paper", "paper's seen", "paper")
    met = "met" if ours["over_heft"] <= GOAL else "missed"
    beaten = "beaten" if ours["over_heft"] < ga["over_heft"] else "not beaten"
    rows = [
        r
        for group in ("seen", "unseen")
        for r in document["turnaround"]["stream"]
        if r["group"] == group and r["size"] != "all"
    ]
    lists = best_row(document, "lists", "job lists", "GA (waiting)")
    waiting = [r for r in [*rows, lists] if r["contender"] == "GA (waiting)" and r["over_heft"] < 1]
    where = "; ".join(
        f"{r['group']}, {r['size']}{' tasks' * (r['size'] != 'all')}: {r['over_heft']:.2f}"
        for r in waiting
    )
    small = (
        f" In places it is better than HEFT and its imitation ({where}): HEFT does not aim at turnaround."
        if waiting
        else ""
    )
    quality = (
        f"On unseen problems of up to 2,000 tasks the mean turnaround of deepsched is {ours['over_heft']:.3f} times HEFT's (goal: at most "
        f"{GOAL}, {met}); on structures it was never trained on {other['over_heft']:.3f}. The GA with the document's fitness is at "
        f"{ga['over_heft']:.2f}, with {document['effort']['seconds']:g} s on the clock for each problem: {beaten}.{small} The document's "
        "own "
        f"network is at {known['over_heft']:.2f} on the problems it was trained on and at {paper['over_heft']:.2f} on others, where the "
        "document reports almost the same as HEFT and slightly worse."
    )
    heft, compiled = (
        _seconds(document, "HEFT", "compiled"),
        _seconds(document, "deepsched", "compiled"),
    )
    onnx, paper_time = (
        _seconds(document, "deepsched", "onnxruntime"),
        _seconds(document, "paper", "onnxruntime"),
    )
    last = max(heft)
    each = ", ".join(f"{compiled[n] / heft[n]:.1f} times at {n:,} tasks" for n in heft)
    speed = (
        f"Imitating a compiled HEFT saves nothing. HEFT schedules {last:,} tasks on 188 processors in {format_seconds(heft[last])}, "
        f"where the document gives it 670 s. A network that imitates it well, compiled too, takes {each} as long: it must look at all "
        f"that HEFT looks at, and then multiply. Through onnxruntime it takes {onnx[last] / heft[last]:.0f} times as long at the "
        f"largest size. The document's network, in one go, takes {format_seconds(paper_time[last])} there, "
        f"{paper_time[last] / heft[last]:.1f} times HEFT, for schedules that are worse; it is not constant either, unless every input "
        "is padded to the largest. What is worth imitating is a planner that is slow and better: see below."
    )
    return [quality, speed]


def write(
    path: Path, document: Mapping[str, Any], problem: Problem, schedules: Mapping[str, Schedule]
) -> Path:
    """Write the page."""
    charts = Gantts(
        schedules,
        problem,
        caption=f"One unseen problem of {problem.n} tasks on {problem.p} machines.",
    )
    sections = [
        Section("Result", [_facts(document), *(Text(part) for part in verdict(document))]),
        Section("Turnaround", [Text(SETS), *_turnaround(document)]),
        Section("By size", [Figures(_size_figures(document)), _size_table(document)]),
        Section("Time to schedule", [Text(TIMES), *_times(document)]),
        Section("Why", [Text(HOW), charts]),
        Section(
            "Imitating what is slow and better",
            list(amortised_report.blocks(document["amortised"])),
        ),
        Section("Training", _training(document)),
    ]
    mode = "quick" if document["quick"] else "full"
    return write_report(
        path,
        title="DeepSched: networks that imitate HEFT",
        lead="What is a network that imitates a planner worth, once the planner itself is fast?",
        sections=sections,
        footer=f"weft reproduce deepsched ({mode}), {document['seconds']:.0f} s on {document['machine']['processor']}.",
    )


def _facts(document: Mapping[str, Any]) -> Facts:
    heft, ours = _seconds(document, "HEFT", "compiled"), _seconds(document, "deepsched", "compiled")
    last = max(heft)
    return Facts(
        {
            "deepsched over HEFT, unseen": f"{best_row(document, 'stream', 'unseen', 'deepsched')['over_heft']:.3f}",
            "document's network, unseen": f"{best_row(document, 'paper', UNSEEN, 'paper')['over_heft']:.2f}",
            "GA (waiting), unseen": f"{best_row(document, 'stream', 'unseen', 'GA (waiting)')['over_heft']:.2f}",
            f"HEFT, {last:,} tasks": format_seconds(heft[last]),
            f"deepsched, {last:,} tasks": format_seconds(ours[last]),
        }
    )


def _rows(document: Mapping[str, Any], parts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        row for part in parts for row in document["turnaround"][part] if row["contender"] != "HEFT"
    ]


def _turnaround(document: Mapping[str, Any]) -> list[Any]:
    rows = [row for row in _rows(document, list(document["turnaround"])) if row["size"] == "all"]
    source = (
        "of the document's repository"
        if document["lists_from_repository"]
        else "drawn with the statistics of the document's"
    )
    caption = f"Over all sizes. The job lists are {source}. Worst: the problem on which the contender did worst."
    groups: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, float]] = {}
    for row in rows:
        groups.setdefault(row["contender"], {})[row["group"]] = row["over_heft"]
        errors.setdefault(row["contender"], {})[row["group"]] = (row["high"] - row["low"]) / 2
    picture = bar_figure(
        groups,
        title="Mean turnaround over HEFT's",
        y_label="times HEFT",
        errors=errors,
        baseline=1.0,
        size=(11.0, 4.2),
    )
    return [Figure(picture), Table(rows, _columns(size=False), caption=caption)]


def _columns(*, size: bool) -> Columns:
    shown: list[str | Column] = [
        Column("group", "set"),
        "contender",
        "problems",
        Column("over_heft", "turnaround over HEFT", digits=4),
    ]
    shown += [
        Column("low", "from"),
        Column("high", "to"),
        Column("ratio_of_means", "of means"),
        Column("worst", "worst"),
    ]
    return [*shown[:1], "size", *shown[1:]] if size else shown


def _size_figures(document: Mapping[str, Any]) -> list[Figure]:
    figures = []
    for part, group in (
        ("stream", "seen"),
        ("stream", "unseen"),
        ("paper", "paper's seen"),
        ("paper", UNSEEN),
    ):
        bars: dict[str, dict[str, float]] = {}
        for row in document["turnaround"][part]:
            if row["group"] == group and row["size"] != "all" and row["contender"] != "HEFT":
                bars.setdefault(row["contender"], {})[row["size"]] = row["over_heft"]
        title = f"{group[0].upper()}{group[1:]}, by number of tasks"
        figures.append(
            Figure(bar_figure(bars, title=title, y_label="turnaround over HEFT's", baseline=1.0))
        )
    return figures


def _size_table(document: Mapping[str, Any]) -> Table:
    return Table(
        [row for row in _rows(document, ["stream", "paper"]) if row["size"] != "all"],
        _columns(size=True),
    )


def _times(document: Mapping[str, Any]) -> list[Any]:
    columns: Columns = [
        "contender",
        "runtime",
        *(Column(str(n), f"{n:,} tasks", unit="s") for n in sizes(document)),
    ]
    rows = time_rows(document)
    ran = [row for row in document["speed"] if row["contender"] == "GA"]
    told = "; ".join(
        f"{row['generations']} at {row['tasks']:,} tasks: {format_seconds(row['seconds'])}"
        for row in ran
    )
    lines = {f"{row['contender']}, {row['runtime']}": _line(row) for row in rows}
    picture = line_figure(
        lines,
        title="Time to schedule",
        x_label="tasks",
        y_label="seconds",
        log_x=True,
        log_y=True,
        size=(11.0, 5.2),
    )
    caption = f"A generation of the GA is 60 schedules. Generations that were run, and all of their time: {told}."
    return [Table(rows, columns, caption=caption), Figure(picture)]


def _line(row: Mapping[str, Any]) -> Series:
    points = [(int(key), value) for key, value in row.items() if key.isdigit()]
    return Series([x for x, _ in points], [y for _, y in points])


def _training(document: Mapping[str, Any]) -> list[Any]:
    ours, paper = document["training"], document["paper"]
    told = (
        f"deepsched: {ours['batches']:,} batches of new problems, {ours['cpu_seconds']:.0f} s of processor time on one core, seed "
        f"{ours['seed']}. "
        f"The document's network: {paper['samples']} problems, {paper['epochs']} epochs, {paper['parameters']:,} parameters, "
        f"{paper['cpu_seconds']:.0f} s. In its favour its targets are normalised, padding is masked and its learning rate is 1e-3."
    )
    curve = [point for point in ours["curve"] if "score" in point]
    score = {"deepsched": Series([p["batches"] for p in curve], [p["score"] for p in curve])}
    loss = {
        "paper": Series([p["epoch"] for p in paper["curve"]], [p["loss"] for p in paper["curve"]])
    }
    return [
        Text(told),
        Figures(
            [
                Figure(
                    line_figure(
                        score,
                        title="deepsched",
                        x_label="batches",
                        y_label="validation: turnaround over HEFT's",
                    )
                ),
                Figure(
                    line_figure(
                        loss,
                        title="The document's network",
                        x_label="epochs",
                        y_label="loss on its training problems",
                    )
                ),
            ]
        ),
    ]
