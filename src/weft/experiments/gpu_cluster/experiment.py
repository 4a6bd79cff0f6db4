"""GPU-cluster experiment: policies, rivals, and a verdict on every claim.

Behind `weft reproduce gpu-cluster`: Figure 3 for every condition, paired statistics, the possible
gain, transfer and fine-tuning, decision times, training records, energy and fairness. All
contenders run on the same draws in the same simulator; data moves as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster import report
from weft.experiments.gpu_cluster.contenders import CONTENDERS, FAIR, Contender, contenders
from weft.experiments.gpu_cluster.environment import decisions_per_second
from weft.experiments.gpu_cluster.measurements import (
    decision_rows,
    trade_off,
    training_rows,
    weighted_policies,
)
from weft.experiments.gpu_cluster.runs import (
    FIRST_SEED,
    FULL,
    QUICK,
    ExperimentPlan,
    Point,
    as_arrays,
    points,
    run_point,
)
from weft.experiments.gpu_cluster.statistics import (
    Arrays,
    comparisons,
    point_rows,
    ranking,
    reference_rows,
)
from weft.experiments.gpu_cluster.transfer import transfer
from weft.experiments.gpu_cluster.verdict import JUDGED, verdicts
from weft.experiments.harness import Checkpoint, Stopwatch, describe_machine, finish, page_table
from weft.generators import heterogeneous_gpus
from weft.progress import Track
from weft.report.tables import Columns, table_text

BASELINE = FAIR[0]
"""Makespans of the documentation page are relative to those of this contender."""


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    track: Track = iter,
    plan: ExperimentPlan | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run all points; write and return the results.

    An interrupted experiment resumes from `progress.jsonl` in the folder, unless the program has
    changed since.
    """
    watch = Stopwatch()
    plan = plan or (QUICK if quick else FULL)
    folder, who = Path(folder), contenders(names)
    own = [c.name for c in who]
    units = points(plan, own)
    checkpoint = Checkpoint.of(folder, plan, own)
    simulated = checkpoint.run(run_point, units, processes=plan.processes, track=track)
    results = _describe(plan, who, units, quick=quick) | _statistics(as_arrays(simulated))
    results["transfer"] = transfer(plan, own, track=track)
    results["decision"] = decision_rows(own, rounds=plan.timing_rounds)
    results["environment"] = decisions_per_second(3.0)
    results["training"] = training_rows(own)
    results["objectives"] = {
        against: trade_off(policies, against=against, plan=plan)
        for against, policies in weighted_policies().items()
    }
    results |= watch.spent()
    results["judged"] = JUDGED
    results["verdicts"] = verdicts(results)
    return finish(folder, results, report.write, checkpoint, page_tables(results))


def table(results: dict[str, Any]) -> str:
    """Return the verdicts as text."""
    columns: Columns = ["part", "claim", "verdict", "by", "measured"]
    notes = [f"judged: {results['judged']}"]
    if absent := results["transfer"]["absent"]:
        notes.append(f"no data, so no transfer to: {', '.join(absent)} (set WEFT_DATA)")
    return "\n".join([table_text(results["verdicts"], columns), "", *notes])


def _describe(
    plan: ExperimentPlan, who: Sequence[Contender], units: Sequence[Point], *, quick: bool
) -> dict[str, Any]:
    seeds = sorted({unit.seed for unit in units})
    few = seeds[: plan.seeds.jobs]
    axes = dict.fromkeys(u.axis for u in units)
    devices = {"usual": float(np.mean([heterogeneous_gpus(seed).p for seed in seeds]))}
    for x in plan.devices:
        counts = [heterogeneous_gpus(seed, kinds=4, most=x).p for seed in few]
        devices[format(x, "g")] = float(np.mean(counts))
    return {
        "experiment": "gpu-cluster",
        "quick": quick,
        "machine": describe_machine(),
        "contenders": {c.name: {"kind": c.kind, "about": c.about} for c in who},
        "first_seed": FIRST_SEED,
        "seeds": {axis: len({u.seed for u in units if u.axis == axis}) for axis in axes},
        "stream": {"jobs": plan.stream_jobs, "tasks": list(plan.stream_tasks)},
        "ccrs": list(plan.ccrs),
        "conditions": list(plan.conditions),
        "devices": devices,
    }


def _statistics(arrays: Arrays) -> dict[str, Any]:
    groups = dict.fromkeys((axis, condition) for axis, _, _, condition in arrays)
    ccrs = sorted({ccr for _, _, ccr, _ in arrays})
    rankings = {}
    for axis, condition in groups:
        for chosen in [*([c] for c in ccrs), ccrs]:
            label = "all" if len(chosen) > 1 else format(chosen[0])
            rankings[f"{axis} {condition} {label}"] = ranking(arrays, axis, condition, chosen)
    return {
        "points": point_rows(arrays),
        "comparisons": comparisons(arrays),
        "rankings": {key: order for key, order in rankings.items() if order},
        "reference": reference_rows(arrays),
    }


# -- tables of the documentation ---------------------------------------------------


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documentation's tables: verdicts, and makespans over the baseline."""
    return {"verdict": _verdict_table(results), "makespan": _makespan_table(results)}


def _verdict_table(results: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("part", "claim", "measured", "verdict")
    columns = dict.fromkeys(("of the", "claim or aim", "measured", "verdict"))
    return page_table(columns, [[row[key] for key in keys] for row in results["verdicts"]])


def _makespan_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios of geometric means of one job, with a column per condition."""
    conditions, rows = results["conditions"], []
    for ccr in results["ccrs"]:
        means = [
            dict(results["rankings"].get(f"tasks {condition} {ccr}", ()))
            for condition in conditions
        ]
        for name in (c.name for c in CONTENDERS if c.name != BASELINE):
            ratios = [
                mean[name] / mean[BASELINE] if {name, BASELINE} <= set(mean) else None
                for mean in means
            ]
            if any(ratio is not None for ratio in ratios):
                rows.append([f"{ccr:g}", name, *ratios])
    columns = {"CCR": None, "contender": None, **dict.fromkeys(conditions, 3)}
    return page_table(columns, rows)
