"""The page of the GPU-cluster experiment: verdicts first, then Figure 3 for every condition, statistics, transfer, speed, objectives."""

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
from weft.report.page import Facts, PageBlock, Section, Table, Text, write_report
from weft.report.tables import Column, Columns, Row

Results = Mapping[str, Any]

CONDITIONS = {
    "static": "Static: costs are what they were said to be",
    "noisy": "Noisy: durations are drawn around the estimate",
    "failing": "Failing: devices slow down, fail and recover",
    "biased": "Biased: estimates are wrong by task kind and device kind",
    "changing": "Changing: noise, bias, slowdowns and failures together",
}


def write(path: Path, results: Results) -> Path:
    """Write the page; all it says comes from the results."""
    sections = [
        Section("Verdict", _verdict(results)),
        Section("Who takes part", _roster(results)),
        *(
            Section(title, world_figures(results, name))
            for name, title in CONDITIONS.items()
            if name in results["conditions"]
        ),
        Section("Stream: jobs arrive", stream_figures(results)),
        Section("Statistics", _statistics(results)),
        Section("What can be gained at all", _yardstick(results)),
        Section("Transfer to structures never seen", _transfer(results)),
        Section("Decisions and training", _speed(results)),
        Section("Energy and fairness", _objectives(results)),
        Section(
            "How it was done",
            [Text(METHOD.format(first=results["first_seed"], **results["stream"]))],
        ),
    ]
    seeds = ", ".join(f"{axis} {count}" for axis, count in results["seeds"].items())
    return write_report(
        path,
        title="Workflows on a heterogeneous GPU cluster",
        lead="A deep Q-network is said to finish workflows a quarter to a third sooner than HEFT. Everybody on the same draws, in the same "
        "simulator: what holds?",
        sections=sections,
        footer=f"weft reproduce gpu-cluster ({'quick' if results['quick'] else 'full'}): seeds: {seeds}; {results['seconds']:.0f} s on "
        f"{results['machine']['processor']}.",
    )


METHOD = """\
Clusters are drawn from the catalogue: 2 to 4 GPU types, 1 to 4 devices of each on a node of their own, every task kind with a throughput \
of its own on every type; fast links within a node, Ethernet between nodes. Workflows are random layered graphs with log-normal work; \
CCR, the mean transfer over the mean duration, is exact for each. Data moves as soon as it exists, for everybody.

All conditions share their workloads, and everybody plays the same draws, so differences are paired. Seeds begin at {first}; no training \
or tuning draws these. Tests are on one number a seed, the mean logarithm of the ratio over the sizes: sizes of one seed share their \
cluster. Intervals are bootstraps over seeds, effects Cohen's d of the differences, p-values corrected after Holm over the whole table.

Makespan ends with the last job. Speedup is over the best single device. SLR is completion time over the critical path of shortest \
durations, averaged over the jobs. Plans (heft, fifo-deft, tdca) are made from the estimates for all jobs together and replayed; in the \
stream, of {jobs} jobs of {tasks[0]} to {tasks[1]} tasks, each job is planned when it arrives. Load is the share of the most the devices \
could do, transfers aside."""


# -- verdict ---------------------------------------------------------------------------


def _verdict(results: Results) -> list[PageBlock]:
    blocks: list[PageBlock] = []
    if results["missing"]:
        gone = "; ".join(f"{name} ({about})" for name, about in results["missing_about"].items())
        blocks.append(
            Text(f"Not registered in this version, and so left out everywhere below: {gone}.")
        )
    rows = results["verdicts"]
    if not rows:
        return [
            *blocks,
            Text(
                "No learned policy is registered, so there is no claim to judge. The rivals are below."
            ),
        ]
    words = [row["verdict"] for row in rows]
    blocks.append(
        Facts(
            {word: str(words.count(word)) for word in (CONFIRMED, NOT_CONFIRMED, NOT_MEASURED)}
            | {"judged": results["judged"]}
        )
    )
    if results["quick"]:
        blocks.append(
            Text(
                "A quick run: few seeds, wide intervals. The verdicts are indications; a full run has 30 seeds at every point."
            )
        )
    columns: Columns = ["claim", "verdict", Column("by", "by how much"), "measured"]
    for part, caption in (
        ("document", "What the document claims."),
        ("aim", "What we aim for, judged by the fairest rival."),
    ):
        own = [row for row in rows if row["part"] == part]
        more: Columns = (
            [*columns, Column("best", "best found, where missed")] if part == "aim" else columns
        )
        blocks.append(Table(own, more, caption=caption))
    return blocks


def _roster(results: Results) -> list[PageBlock]:
    rows = [{"name": name, **told} for name, told in results["contenders"].items()]
    return [
        Table(
            rows,
            ["name", "kind", "about"],
            caption="Fair rivals are those given the same information: heft-replanned, heft-observed.",
        )
    ]


# -- statistics ------------------------------------------------------------------------


AXES = {
    "tasks": "One job of 20 to 150 tasks: makespan",
    "jobs": "Many jobs at once: makespan",
    "stream": "Stream, load 0.8 and more: mean completion time",
}


def _statistics(results: Results) -> list[PageBlock]:
    """For each axis the ratios to everybody, and the tests against the better of the fair rivals."""
    blocks: list[PageBlock] = []
    for axis, title in AXES.items():
        own = [r for r in results["comparisons"] if r["axis"] == axis and r["who"] in LEARNED]
        straw = [r for r in results["comparisons"] if r["axis"] == axis and r["who"] not in LEARNED]
        blocks += [_ratios(own, title), _tests(own, title)] if own else []
        blocks += [_straw(straw, title)] if straw else []
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
        caption=f"{title} of who is named on the left over that of each rival; geometric means. A star: p < 0.05 after Holm's correction.",
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
    told = [
        {**r, "ccr": str(r["ccr"]), "interval": f"{r['low']:.3f} to {r['high']:.3f}"}
        for r in found
        if r is not None
    ]
    return Table(
        told,
        columns,
        caption=f"{title}: paired t-tests, 95 % bootstrap intervals and effect sizes; results.json has all pairs.",
    )


def _straw(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Why a replayed plan is no rival once the world changes."""
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
        caption=f"{title}: what planning anew at every event takes off HEFT's plan, by itself.",
    )


def _fair(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """In a stream also those who order the jobs."""
    return (*FAIR, "heft-arrival", "srpt-replanned") if rows[0]["axis"] == "stream" else FAIR


def _yardstick(results: Results) -> list[PageBlock]:
    names = list(dict.fromkeys(name for row in results["yardstick"] for name in row["gains"]))
    rows: list[Row] = [
        {
            "links": row["links"],
            "ccr": f"{row['ccr']:g}",
            "heft_bound": row["over_bound"]["heft"],
            "search_bound": row["over_bound"]["anytime"],
            **row["gains"],
        }
        for row in results["yardstick"]
    ]
    columns: Columns = [
        "links",
        Column("ccr", "CCR"),
        Column("heft_bound", "HEFT above the bound", unit="%", digits=3),
        Column("search_bound", "search above the bound", unit="%", digits=3),
        *(Column(name, unit="%", digits=3) for name in names),
    ]
    told = (
        "With exact costs, one job. The bound is proven; the search (anytime) makes 15,000 moves. The columns to the right say how much "
        "below HEFT's plan everybody is. HEFT ranks by means over all pairs of devices, and so does not see nodes; the same devices with "
        "links all alike, of the same mean, leave this out and show what else there is to gain. A gain above the search's would point "
        "to a bug in the baseline."
    )
    return (
        [Text(told), Table(rows, columns, caption="Gain over HEFT, by kind of link and CCR.")]
        if rows
        else [Text("Not measured.")]
    )


# -- transfer --------------------------------------------------------------------------


def _transfer(results: Results) -> list[PageBlock]:
    found = results["transfer"]
    notes = []
    if found["absent"]:
        notes.append(
            f"No data for {', '.join(found['absent'])}: set WEFT_DATA to the folder that has it."
        )
    if not found["rows"]:
        return [Text("\n\n".join([*notes, f"Left out: {found['note']}."]))]
    if not found["tuner"]:
        notes.append("Fine-tuning is not part of this version, so its columns are left out.")
    tuned: Columns = [
        Column("tuned_advantage", "after fine-tuning", unit="%", digits=3),
        Column("tuned_kept", "kept after it", unit="%", digits=3),
        Column("tuned_from_home", "makespan from home", unit="%", digits=2),
        Column("native_advantage", "a native", unit="%", digits=3),
        Column("kept_of_native", "kept of that", unit="%", digits=3),
        Column("tuned_from_native", "fine-tuned from native", unit="%", digits=2),
    ]
    columns: Columns = [
        "policy",
        "structure",
        Column("advantage", "below re-planned HEFT", unit="%", digits=3),
        Column("home_advantage", "on layered graphs", unit="%", digits=3),
        Column("kept", "share kept", unit="%", digits=3),
        Column("kept_alone", "single jobs", unit="%", digits=3),
        Column("kept_stream", "streams", unit="%", digits=3),
        Column("captured", "of what a search wins", unit="%", digits=3),
        *(tuned if found["tuner"] else []),
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
        f"Mean over conditions (static, changing, stream) and CCRs (1, 5), {found['seeds']} draws each. In streams it is the completion "
        "time below HEFT planned anew in arrival order. No share where there is nothing to keep. "
        "How much can be won over HEFT differs by structure; the search knows exact costs, so that column is for the static condition. "
        "A native is the same policy fitted to the structure, with five times the samples of fine-tuning and more time; "
        "fine-tuning and natives are for single jobs."
    )
    return [
        *([Text("\n\n".join(notes))] if notes else []),
        Table(found["overall"], columns, caption=caption),
        Table(rows, detail, caption="In detail."),
    ]


# -- speed -----------------------------------------------------------------------------


def _speed(results: Results) -> list[PageBlock]:
    columns: Columns = [
        "policy",
        "compiled",
        Column("microseconds", "a decision (µs)", digits=3, best="min"),
        Column("begin_microseconds", "once for a workload (µs)", digits=3),
    ]
    told = (
        "Median over runs of the processor time of a simulation over its decisions, at 32 ready tasks on 16 devices and up to 432 tasks "
        "behind them; the simulator's own time is in it. The document gives 8,500 µs."
    )
    blocks: list[PageBlock] = (
        [Text(told), Table(results["decision"], columns, sort="microseconds")]
        if results["decision"]
        else []
    )
    rate = results["environment"]
    blocks.append(
        Text(
            "There is no learning environment in this version to time."
            if rate is None
            else f"The environment makes {rate:,.0f} decisions a second on one core, observations included."
        )
    )
    rows = [
        {key: row[key] for key in ("policy", "algorithm", "minutes", "seed")}
        for row in results["training"]
    ]
    if rows:
        blocks.append(
            Table(
                rows,
                ["policy", "algorithm", Column("minutes", digits=3), "seed"],
                caption="Trainings, from the cards beside the weights.",
            )
        )
    return [*blocks, *training_figures(results)]


def _objectives(results: Results) -> list[PageBlock]:
    if not results["objectives"]:
        return [Text("No policy with weights for energy and fairness is registered.")]
    told = (
        "One rule, its weights varied. Energy: a device's power counts against it where a task is placed; jobs all there from the "
        "beginning, noisy. Fairness: the age of a job counts for it; a stream at load 0.9. Means over the first variant's."
    )
    return [Text(told), *objective_figures(results), *_objective_tables(results["objectives"])]


def _objective_tables(found: Mapping[str, Sequence[Row]]) -> list[PageBlock]:
    names = {
        "energy": ("makespan", "energy"),
        "fairness": ("mean completion time", "inequality of slowdowns"),
    }
    return [
        Table(
            rows,
            [
                "label",
                Column("time", names[against][0], digits=4, best="min"),
                Column("other", names[against][1], digits=4, best="min"),
                Column("front", "undominated"),
            ],
            caption=f"{against.capitalize()}, relative to the first row.",
        )
        for against, rows in found.items()
    ]
