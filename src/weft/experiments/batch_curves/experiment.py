"""Policies chosen with and without the knowledge that full batches take longer.

Behind `weft reproduce batch-curves`: the graph and units of the stream `conditional-paper`, with
the batch curves of published measurements on its two GPUs. Under the constant curve of the paper a
policy is chosen by simulation, as by a user who has no measured curve; another one is chosen
under the true curve; both then run under the true curve, on draws that chose neither.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import describe_machine, write_results
from weft.formats.native.stream_toml import load_stream
from weft.learn.conditional.index import IndexSettings, tune_index
from weft.learn.conditional.scores import completions, service_figures
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.model.machines.capacity import offered_load
from weft.policies.conditional.evaluate import WINDOW, watched_task, with_first
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.view_policy import RuleViewPolicy
from weft.policies.load import load_policy
from weft.progress import Track
from weft.report.page import Section, Table, Text, write_report
from weft.report.tables import Column, table_text
from weft.sim.vector.batch import StepOptions

COMMAND = "weft reproduce batch-curves"

CURVES: dict[str, dict[str, float]] = {
    "RoBERTa": {"*": 0.09 / 3},
    "EfficientNet": {"*": 2.65 / 7},
    "YOLOv5": {"*": 6.95 / 7},
    "mixed": {
        **dict.fromkeys(("A", "B"), 0.09 / 3),
        **dict.fromkeys(("C", "D"), 2.65 / 7),
        **dict.fromkeys(("E", "F"), 6.95 / 7),
    },
}
"""Share of one task's time that each further task adds. Published: RoBERTa on onnxruntime takes
1.09 times as long for 4 tasks as for 1; EfficientNet on a GTX 1080 Ti 3.3 to 4.0 times for 8, here
3.65; YOLOv5 on it 6.7 to 9.2 times for 8, here 7.95."""

RULES = (
    *("unit-fifo", "unit-mru", "unit-depth-first", "longest-queue"),
    *("batch-aware", "shortest-remaining", "reservation"),
)
LEARNED = ("index", "conditional-any", "conditional-best")
TUNED_CONSTANT, TUNED_TRUE = "index, tuned, constant curve", "index, tuned, true curve"
LOADS = (None, 0.9)
"""Offered loads under the true curve; None: that of the stream with the constant curve."""
GOAL = 0.10
"""How much better the policy chosen under the true curve should be."""

COLUMNS = (
    Column("curve", "batch curve"),
    Column("load", places=2),
    Column("gap", "gap (ms)", places=1),
    Column("blind", "chosen under the constant curve"),
    Column("blind_ms", "mean (ms)", places=1),
    Column("blind_p99", "p99 (ms)", places=1),
    Column("aware", "chosen under the true curve"),
    Column("aware_ms", "mean (ms)", places=1),
    Column("aware_p99", "p99 (ms)", places=1),
    Column("gain", "better by", unit="%", digits=3),
)


@dataclasses.dataclass(frozen=True)
class ExperimentSizes:
    """Sizes of the experiment."""

    jobs: int = 1000
    probabilities: tuple[float, ...] = (0.2, 0.5, 0.8)
    choosing: tuple[int, ...] = (1, 2)
    testing: tuple[int, ...] = (101, 102, 103, 104)
    generations: int = 20
    population: int = 12


QUICK = ExperimentSizes(jobs=400, choosing=(1,), testing=(101, 102), generations=6, population=8)


def curved(
    stream: ConditionalStream, curve: dict[str, float], load: float | None = None
) -> ConditionalStream:
    """Return the stream with a batch curve on units that batch, at an offered load.

    Without one, at that of the stream.

    Examples
    --------
    >>> paper = load_stream("conditional-paper")
    >>> slow = curved(paper, CURVES["YOLOv5"])
    >>> round(slow.arrivals.gap, 4) > paper.arrivals.gap, paper.arrivals.gap
    (True, 0.008)
    """
    cluster = stream.problem.cluster
    sizes = np.arange(float(cluster.batch.max()))
    rows = {kind: np.tile(1.0 + share * sizes, (cluster.p, 1)) for kind, share in curve.items()}
    made = _on(stream, dataclasses.replace(cluster, batch_curve=rows))
    return _at_gap(made, offered_load(made) / (load or offered_load(stream)))


def _on(stream: ConditionalStream, cluster: Any) -> ConditionalStream:
    problem = dataclasses.replace(stream.problem, cluster=cluster)
    return dataclasses.replace(stream, problem=problem)


def _at_gap(stream: ConditionalStream, times: float) -> ConditionalStream:
    arrivals = dataclasses.replace(
        stream.arrivals,
        gap=stream.arrivals.gap * times,
        deviation=stream.arrivals.deviation * times,
    )
    return dataclasses.replace(stream, arrivals=arrivals)


def constant(stream: ConditionalStream) -> ConditionalStream:
    """Return the stream without batch curves, as if they had not been measured."""
    return _on(stream, dataclasses.replace(stream.problem.cluster, batch_curve={}))


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Choose and compare under every curve; write and return the results."""
    begin, used = time.perf_counter(), time.process_time()
    sizes = QUICK if quick else ExperimentSizes()
    base = load_stream("conditional-paper").with_jobs(sizes.jobs)
    cases = [(name, load) for load in LOADS for name in CURVES]
    found = [compare_choices(base, name, load, sizes) for name, load in track(cases)]
    results: dict[str, Any] = {
        "experiment": "batch-curves",
        "quick": quick,
        "machine": describe_machine(),
        "sizes": dataclasses.asdict(sizes),
        "measured_with": COMMAND,
        "provenance": "written by that command",
        "verdict": verdict([row for row, _ in found]),
        "choices": [row for row, _ in found],
        "times": {f"{row['curve']}, {row['load']:.2f}": times for row, times in found},
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - used,
    }
    results["tables"] = _tables(results)
    write_results(Path(folder), results)
    write_report(
        Path(folder) / "report.html",
        title="Batch curves",
        lead=results["verdict"],
        sections=[Section("Choices", [Table(results["choices"], COLUMNS), Text(_explained())])],
    )
    return results


def compare_choices(
    base: ConditionalStream, name: str, load: float | None, sizes: ExperimentSizes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of one case, and the mean times of all policies in milliseconds."""
    true = curved(base, CURVES[name], load)
    blind = constant(true)
    who: dict[str, Any] = {policy: load_policy(policy) for policy in (*RULES, *LEARNED)}
    who[TUNED_CONSTANT], who[TUNED_TRUE] = _tuned(blind, sizes), _tuned(true, sizes)
    known = [policy for policy in who if policy != TUNED_TRUE]
    seen = {policy: _score(who[policy], blind, sizes, sizes.choosing) for policy in known}
    right = {policy: _score(who[policy], true, sizes, sizes.choosing) for policy in who}
    test = {policy: _figures(who[policy], true, sizes) for policy in who}
    first, best = min(seen, key=lambda p: seen[p]), min(right, key=lambda p: right[p])
    row = {
        "curve": name,
        "load": offered_load(true),
        "gap": 1000 * true.arrivals.gap,
        "blind": first,
        "blind_ms": test[first]["mean"],
        "blind_p99": test[first]["p99"],
        "aware": best,
        "aware_ms": test[best]["mean"],
        "aware_p99": test[best]["p99"],
        "gain": 1.0 - test[best]["mean"] / test[first]["mean"],
    }
    times = {policy: {"constant": seen.get(policy), "true": test[policy]["mean"]} for policy in who}
    return row, times


def _tuned(stream: ConditionalStream, sizes: ExperimentSizes) -> RuleViewPolicy:
    settings = IndexSettings(
        probabilities=sizes.probabilities,
        generations=sizes.generations,
        population=sizes.population,
        draws=1,
        jobs=min(sizes.jobs, 600),
        validation=2,
    )
    options = StepOptions(idle="event", window=WINDOW)
    return RuleViewPolicy(
        ConditionalRule("index", tune_index(stream, settings, options=options).weights)
    )


def _jobs(
    policy: Any, stream: ConditionalStream, sizes: ExperimentSizes, seeds: tuple[int, ...]
) -> list[FloatArray]:
    task = watched_task(stream)
    variants = [with_first(stream, task, p) for p in sizes.probabilities]
    return [jobs for row in completions(policy, variants, seeds, idle="event") for jobs in row]


def _score(
    policy: Any, stream: ConditionalStream, sizes: ExperimentSizes, seeds: tuple[int, ...]
) -> float:
    """Return the geometric mean, over probabilities and draws, of the mean in ms."""
    means = [float(jobs.mean()) for jobs in _jobs(policy, stream, sizes, seeds)]
    return 1000 * float(np.exp(np.mean(np.log(means))))


def _figures(policy: Any, stream: ConditionalStream, sizes: ExperimentSizes) -> dict[str, float]:
    found = [service_figures(jobs) for jobs in _jobs(policy, stream, sizes, sizes.testing)]
    return {
        key: 1000 * float(np.exp(np.mean(np.log([f[key] for f in found]))))
        for key in ("mean", "p95", "p99")
    }


def verdict(rows: list[dict[str, Any]]) -> str:
    """Say in how many cases the knowledge is worth the goal."""
    reached = [f"{row['curve']} at {row['load']:.2f}" for row in rows if row["gain"] >= GOAL]
    names = f": {', '.join(reached)}" if reached else ""
    return (
        f"The policy chosen under the true curve is at least {GOAL:.0%} better than the one chosen "
        f"under the constant curve in {len(reached)} of {len(rows)} cases{names}."
    )


def _explained() -> str:
    return (
        "The first load is that of the stream with the constant curve. Means are geometric, over "
        "probabilities of the watched choice and draws."
    )


def _tables(results: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of the page."""
    keys = [column.key for column in COLUMNS[:-1]]
    titles = [column.heading for column in COLUMNS]
    rows = [[*(row[key] for key in keys), 100 * row["gain"]] for row in results["choices"]]
    curves = list(results["times"])
    every = [
        [policy, *(results["times"][curve][policy]["true"] for curve in curves)]
        for policy in results["times"][curves[0]]
    ]
    return {
        "choices": {
            "columns": titles,
            "align": "lrrlrrlrrr",
            "decimals": [None, 2, 1, None, 1, 1, None, 1, 1, 1],
            "suffix": [*[""] * 9, " %"],
            "rows": rows,
        },
        "times": {
            "columns": ["policy", *curves],
            "align": "l" + "r" * len(curves),
            "decimals": [None, *[1] * len(curves)],
            "rows": every,
        },
    }


def table(results: dict[str, Any]) -> str:
    """Return the choices and the verdict as text."""
    return f"{table_text(results['choices'], COLUMNS)}\n\n{results['verdict']}"
