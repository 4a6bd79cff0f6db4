"""Report of the GPU-cluster experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.experiments.gpu_cluster.contenders import FAIR, LEARNED
from weft.experiments.gpu_cluster.figures import (
    objective_figures,
    stream_figures,
    training_figures,
    world_figures,
)
from weft.experiments.gpu_cluster.statistics import hardest_comparison
from weft.experiments.gpu_cluster.verdict import CONFIRMED, NOT_CONFIRMED, NOT_MEASURED
from weft.experiments.harness import ExperimentResults, write_experiment_page
from weft.report.page import Facts, PageBlock, Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns, TableRow

CONDITIONS = {
    "static": "Static: costs equal the estimates",
    "noisy": "Noisy: durations vary around the estimates",
    "failing": "Failing: devices slow down, fail and recover",
    "biased": "Biased: estimates are wrong by task kind and device kind",
    "changing": "Changing: noise, bias, slowdowns and failures together",
}


@colors_by_name()
def write(path: Path, results: ExperimentResults) -> Path:
    """Write the report from the results."""
    sections = [
        Section("Verdict", _verdict(results)),
        Section("Contenders", _contenders(results)),
        *(
            Section(title, world_figures(results, name))
            for name, title in CONDITIONS.items()
            if name in results["conditions"]
        ),
        Section("Stream: jobs arrive over time", stream_figures(results)),
        Section("Statistics", _statistics(results)),
        Section("Possible gain", _reference(results)),
        Section("Transfer to unseen structures", _transfer(results)),
        Section("Decisions and training", _speed(results)),
        Section("Energy and fairness", _objectives(results)),
        Section("Method", [Text(METHOD.format(first=results["first_seed"], **results["stream"]))]),
    ]
    seeds = ", ".join(f"{axis} {count}" for axis, count in results["seeds"].items())
    return write_experiment_page("gpu-cluster", path, results, sections, f"seeds: {seeds}; ")


METHOD = """\
Clusters have 2 to 4 GPU types with 1 to 4 devices each, one node per type; every task kind has \
its own throughput on every type; links are fast within a node and Ethernet between nodes. \
Workflows are random layered graphs with log-normal work. CCR is mean transfer time over mean \
duration. Data moves as soon as it exists.

All conditions share their workloads and all contenders run on the same draws, so differences are \
paired. Seeds begin at {first}; no training or tuning uses them. Tests use one number per seed, \
the mean logarithm of the ratio over the sizes, because sizes of one seed share their cluster. \
Intervals are bootstraps over seeds, effects are Cohen's d of the differences, p-values are \
corrected after Holm over the whole table.

Makespan ends with the last job. Speedup is over the best single device. SLR is completion time \
over the critical path of shortest durations, averaged over jobs. Plans (heft, fifo-deft, tdca) \
are made from the estimates for all jobs together and replayed; in the stream, with {jobs} jobs \
of {tasks[0]} to {tasks[1]} tasks, each job is planned at its arrival. Load is the share of the \
devices' maximal throughput without transfers."""


def _verdict(results: ExperimentResults) -> list[PageBlock]:
    rows = results["verdicts"]
    words = [row["verdict"] for row in rows]
    counts = {word: str(words.count(word)) for word in (CONFIRMED, NOT_CONFIRMED, NOT_MEASURED)}
    blocks: list[PageBlock] = [Facts(counts | {"judged": results["judged"]})]
    if results["quick"]:
        blocks.append(
            Text(
                "This is a quick run with few seeds and wide intervals, so the verdicts are "
                "indications; a full run has 30 seeds at every point."
            )
        )
    columns: Columns = ["claim", "verdict", Column("by", "margin"), "measured"]
    best = Column("best", "best contender, if not confirmed")
    parts: list[tuple[str, str, Columns]] = [
        ("document", "Claims of the document.", columns),
        ("aim", "Aims of weft, measured against the fairest rival.", [*columns, best]),
    ]
    for part, caption, shown in parts:
        own = [row for row in rows if row["part"] == part]
        blocks.append(Table(own, shown, caption=caption))
    return blocks


def _contenders(results: ExperimentResults) -> list[PageBlock]:
    rows = [{"name": name, **about} for name, about in results["contenders"].items()]
    caption = "Fair rivals have the same information: heft-replanned, heft-observed."
    return [Table(rows, ["name", "kind", "about"], caption=caption)]


# -- statistics ------------------------------------------------------------------------


AXES = {
    "tasks": "One job of 20 to 150 tasks: makespan",
    "jobs": "Many jobs at time 0: makespan",
    "stream": "Stream, load of 0.8 or more: mean completion time",
}


def _statistics(results: ExperimentResults) -> list[PageBlock]:
    """Show ratios to all rivals, and tests against the better fair rival."""
    blocks: list[PageBlock] = []
    for axis, title in AXES.items():
        own = [r for r in results["comparisons"] if r["axis"] == axis and r["who"] in LEARNED]
        replanned = [
            r for r in results["comparisons"] if r["axis"] == axis and r["who"] not in LEARNED
        ]
        blocks += [_ratios(own, title), _tests(own, title)] if own else []
        blocks += [_replanning(replanned, title)] if replanned else []
    return blocks or [Text("There are no pairs to compare.")]


def _ratios(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    shown: dict[tuple[str, str, str], dict[str, Any]] = {}
    for r in rows:
        key = (r["who"], r["condition"], str(r["ccr"]))
        row = shown.setdefault(key, {"who": key[0], "condition": key[1], "ccr": key[2]})
        row[r["rival"]] = f"{r['ratio']:.3f}" + ("*" if r["p_holm"] < 0.05 else "")
    columns: Columns = [
        "who",
        "condition",
        Column("ccr", "CCR"),
        *dict.fromkeys(r["rival"] for r in rows),
    ]
    return Table(
        [shown[key] for key in sorted(shown, key=lambda key: LEARNED.index(key[0]))],
        columns,
        caption=f"{title}: contender on the left over each rival, geometric means. "
        "A star marks p < 0.05 after Holm's correction.",
    )


def _tests(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    columns: Columns = [
        "who",
        "condition",
        Column("ccr", "CCR"),
        Column("rival", "hardest fair rival"),
        Column("ratio", "ratio", digits=4),
        "interval",
        Column("t", digits=3),
        Column("effect", "d", digits=3),
        Column("p", digits=2),
        Column("p_holm", "p, Holm", digits=2),
        "seeds",
    ]
    keys = sorted(
        dict.fromkeys((r["who"], r["condition"], r["ccr"]) for r in rows),
        key=lambda key: LEARNED.index(key[0]),
    )
    found = [
        hardest_comparison(rows, _fair(rows), axis=rows[0]["axis"], condition=c, ccr=k, who=w)
        for w, c, k in keys
    ]
    shown = [
        {**r, "ccr": str(r["ccr"]), "interval": f"{r['low']:.3f} to {r['high']:.3f}"}
        for r in found
        if r is not None
    ]
    return Table(
        shown,
        columns,
        caption=f"{title}: paired t-tests, 95 % bootstrap intervals, effect sizes. "
        "results.json has all pairs.",
    )


def _replanning(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Show the gain of re-planning alone over a replayed plan."""
    shown: dict[str, dict[str, Any]] = {}
    for r in rows:
        shown.setdefault(r["condition"], {"condition": r["condition"]})[str(r["ccr"])] = (
            1 - r["ratio"]
        )
    columns: Columns = [
        "condition",
        *(
            Column(str(c), f"CCR {c}", unit="%", digits=3)
            for c in dict.fromkeys(r["ccr"] for r in rows)
        ),
    ]
    return Table(
        list(shown.values()),
        columns,
        caption=f"{title}: reduction by re-planning alone, against HEFT's replayed plan.",
    )


def _fair(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Add rivals that order jobs in a stream."""
    return (*FAIR, "heft-arrival", "srpt-replanned") if rows[0]["axis"] == "stream" else FAIR


def _reference(results: ExperimentResults) -> list[PageBlock]:
    names = list(dict.fromkeys(name for row in results["reference"] for name in row["gains"]))
    rows: list[TableRow] = [
        {
            "links": row["links"],
            "ccr": f"{row['ccr']:g}",
            "heft_bound": row["over_bound"]["heft"],
            "search_bound": row["over_bound"]["anytime"],
            **row["gains"],
        }
        for row in results["reference"]
    ]
    columns: Columns = [
        "links",
        Column("ccr", "CCR"),
        Column("heft_bound", "HEFT above the bound", unit="%", digits=3),
        Column("search_bound", "search above the bound", unit="%", digits=3),
        *(Column(name, unit="%", digits=3) for name in names),
    ]
    text = (
        "One job with exact costs. The bound is proven; the search (anytime) makes 15,000 moves. "
        "The columns on the right show the gain over HEFT's plan. HEFT ranks by means over all "
        "pairs of devices and so ignores nodes; rows with uniform links of the same mean exclude "
        "this effect. A gain above that of the search would indicate a bug in the baseline."
    )
    return (
        [Text(text), Table(rows, columns, caption="Gain over HEFT by links and CCR.")]
        if rows
        else [Text("Not measured.")]
    )


# -- transfer --------------------------------------------------------------------------


TRANSFER_SHARES = {
    "advantage": "below re-planned HEFT",
    "layered_advantage": "on layered graphs",
    "kept": "share kept",
    "kept_alone": "single jobs",
    "kept_stream": "streams",
    "captured": "of the search's gain",
    "tuned_advantage": "after fine-tuning",
    "tuned_kept": "kept after fine-tuning",
    "tuned_from_layered": "over layered, in makespan",
    "specialist_advantage": "specialist",
    "kept_of_specialist": "kept of specialist",
    "tuned_from_specialist": "over specialist, fine-tuned",
}
"""Shares in the table of unseen structures, with their titles."""


def _transfer(results: ExperimentResults) -> list[PageBlock]:
    found = results["transfer"]
    notes = []
    if found["absent"]:
        absent = ", ".join(found["absent"])
        notes.append(f"No data for {absent}: set WEFT_DATA to the folder with these graphs.")
    if not found["rows"]:
        return [Text("\n\n".join([*notes, f"Left out: {found['note']}."]))]
    columns: Columns = [
        "policy",
        "structure",
        *(
            Column(key, title, unit="%", digits=2 if title.startswith("over") else 3)
            for key, title in TRANSFER_SHARES.items()
        ),
    ]
    detail: Columns = [
        "policy",
        "structure",
        "condition",
        Column("ccr", "CCR"),
        Column("ratio", "over re-planned HEFT"),
        "interval",
    ]
    rows = [
        {**r, "ccr": f"{r['ccr']:g}", "interval": f"{r['low']:.3f} to {r['high']:.3f}"}
        for r in found["rows"]
    ]
    caption = (
        f"Mean over conditions (static, changing, stream) and CCRs (1, 5), {found['seeds']} draws "
        "each. In streams the value is completion time below HEFT re-planned in order of arrival. "
        "The share is empty if there is no advantage to keep. The search has exact costs, so its "
        "column is for the static condition. A specialist is the same policy fitted to the "
        "structure with five times the samples of fine-tuning and more time; both are for single "
        "jobs."
    )
    return [
        *([Text("\n\n".join(notes))] if notes else []),
        Table(found["overall"], columns, caption=caption),
        Table(rows, detail, caption="In detail."),
    ]


# -- measurements ----------------------------------------------------------------------


def _speed(results: ExperimentResults) -> list[PageBlock]:
    columns: Columns = [
        "policy",
        "compiled",
        Column("microseconds", "per decision (µs)", digits=3, best="min"),
        Column("begin_microseconds", "once per workload (µs)", digits=3),
    ]
    text = (
        "Median over runs of processor time per decision, the simulator included, with 32 ready "
        "tasks on 16 devices and up to 432 tasks behind them. The document gives 8,500 µs. The "
        f"environment makes {results['environment']:,.0f} decisions per second on one core, "
        "observations included."
    )
    training: Columns = ["policy", "algorithm", Column("minutes", digits=3), "seed"]
    return [
        Text(text),
        Table(results["decision"], columns, sort="microseconds"),
        Table(results["training"], training, caption="Training, from the model cards."),
        *training_figures(results),
    ]


def _objectives(results: ExperimentResults) -> list[PageBlock]:
    names = {
        "energy": ("makespan", "energy"),
        "fairness": ("mean completion time", "inequality of slowdowns"),
    }
    text = (
        "Variants of tuned-list with other weights. Energy: placement penalises a device's power; "
        "noisy, all jobs arrive at time 0. Fairness: priority grows with the age of a job; stream "
        "at load 0.9. Means relative to the first variant."
    )
    tables = [
        Table(
            rows,
            [
                "label",
                Column("time", names[against][0], digits=4, best="min"),
                Column("other", names[against][1], digits=4, best="min"),
                Column("front", "Pareto-optimal"),
            ],
            caption=f"{against.capitalize()}, relative to the first row.",
        )
        for against, rows in results["objectives"].items()
    ]
    return [Text(text), *objective_figures(results), *tables]
