"""Workflows on a heterogeneous GPU cluster: the DQN scheduler of the document, its rivals, and a verdict on every claim.

Behind `weft reproduce gpu-cluster`: Figure 3 for every condition, paired statistics, what a search could gain, transfer and fine-tuning,
decision times, trainings, energy and fairness. Everybody plays the same draws in the same simulator; data moves as soon as it exists.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import describe_machine
from weft.experiments.gpu_cluster import report as gpu_cluster_report
from weft.experiments.gpu_cluster.contenders import Entrants, contender, gather
from weft.experiments.gpu_cluster.objectives import trade_off, weighted_policies
from weft.experiments.gpu_cluster.runs import (
    FIRST_SEED,
    FULL,
    QUICK,
    ExperimentPlan,
    Point,
    as_arrays,
    play_point,
    points,
)
from weft.experiments.gpu_cluster.speed import decision_rows, environment_rate, training_rows
from weft.experiments.gpu_cluster.statistics import (
    Arrays,
    comparisons,
    point_rows,
    ranking,
    yardstick_rows,
)
from weft.experiments.gpu_cluster.transfer import transfer
from weft.experiments.gpu_cluster.verdict import judged, verdicts
from weft.experiments.harness import Checkpoint, Progress, fingerprint
from weft.generators import heterogeneous_gpus
from weft.report.tables import Column, Columns, table_text

SUMMARY = "the DQN scheduler for workflows on unlike GPUs, its rivals, and a verdict on every claim"


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    plan: ExperimentPlan | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = iter,
) -> dict[str, Any]:
    """Do everything, write results.json and report.html into the folder, and return the results.

    A run that was stopped is taken up again from `progress.jsonl` in the folder, unless the program has changed since.
    """
    begin = time.perf_counter()
    plan = plan or (QUICK if quick else FULL)
    folder, field = Path(folder), gather(names)
    units = points(plan, field.names)
    progress = Checkpoint(folder / "progress.jsonl", fingerprint(plan, field.names))
    arrays = as_arrays(progress.run(play_point, units, processes=plan.processes, progress=progress))
    results = _describe(plan, field, units, quick=quick) | _findings(arrays)
    results["transfer"] = transfer(plan, field.names, progress=progress)
    results["decision"] = decision_rows(field.names, rounds=plan.timing_rounds)
    results["environment"] = environment_rate()
    results["training"] = training_rows(field.names)
    results["objectives"] = _objectives(plan, field)
    results["seconds"] = time.perf_counter() - begin
    results["judged"] = judged(results)
    results["verdicts"] = verdicts(results)
    (folder / "results.json").write_text(
        json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    gpu_cluster_report.write(folder / "report.html", results)
    progress.forget()
    return results


def table(results: dict[str, Any]) -> str:
    """The verdicts, as text; while no learned policy is there, the means against re-planned HEFT."""
    notes = []
    if results["missing"]:
        notes.append(f"not registered, so not here: {', '.join(results['missing'])}")
    if results["transfer"]["absent"]:
        notes.append(
            f"no data, so no transfer to: {', '.join(results['transfer']['absent'])} (set WEFT_DATA)"
        )
    if results["verdicts"]:
        columns: Columns = ["part", "claim", "verdict", "by", "measured"]
        text = table_text(results["verdicts"], columns)
        notes.insert(0, f"judged: {results['judged']}")
    else:
        text = table_text(
            _standings(results),
            ["condition", "contender", Column("mean", "over heft-replanned", digits=4, best="min")],
        )
    return "\n".join([text, "", *notes])


def _standings(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Geometric mean over that of re-planned HEFT, one job, over all sizes and CCRs."""
    rows = []
    for key, order in results["rankings"].items():
        axis, condition, ccr = key.split()
        base = dict(order).get("heft-replanned")
        if axis in {"tasks", "stream"} and ccr == "all" and base is not None:
            rows += [
                {"condition": condition, "contender": name, "mean": value / base}
                for name, value in order
            ]
    return rows


def _describe(
    plan: ExperimentPlan, field: Entrants, units: Sequence[Point], *, quick: bool
) -> dict[str, Any]:
    seeds = sorted({unit.seed for unit in units})
    return {
        "experiment": "gpu-cluster",
        "quick": quick,
        "machine": describe_machine(),
        "contenders": {c.name: {"kind": c.kind, "about": c.about} for c in field.contenders},
        "missing": list(field.missing),
        "missing_about": {name: contender(name).about for name in field.missing},
        "first_seed": FIRST_SEED,
        "seeds": {
            axis: len({u.seed for u in units if u.axis == axis})
            for axis in dict.fromkeys(u.axis for u in units)
        },
        "stream": {"jobs": plan.stream_jobs, "tasks": list(plan.stream_tasks)},
        "ccrs": list(plan.ccrs),
        "conditions": list(plan.conditions),
        "devices": {
            "usual": float(np.mean([heterogeneous_gpus(seed).p for seed in seeds])),
            **{
                format(x, "g"): float(
                    np.mean(
                        [heterogeneous_gpus(s, kinds=4, most=x).p for s in seeds[: plan.job_seeds]]
                    )
                )
                for x in plan.devices
            },
        },
    }


def _findings(arrays: Arrays) -> dict[str, Any]:
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
        "yardstick": yardstick_rows(arrays),
    }


def _objectives(plan: ExperimentPlan, field: Entrants) -> dict[str, list[dict[str, Any]]]:
    return {
        against: trade_off(
            policies,
            against=against,
            seeds=plan.stream_seeds,
            jobs=plan.stream_jobs,
            tasks=plan.stream_tasks,
        )
        for against, policies in weighted_policies(field.names).items()
    }
