"""Conditional task graphs (Debner, Krahn and Hirvisalo 2024): mean job completion time over the probability p(c), theirs and ours.

Behind `weft reproduce conditional`: the authors' baselines draw by draw, rules and learned policies at every p(c) in both semantics of
waiting, learning curves, what the units do, and probabilities that change at run time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import describe_machine
from weft.experiments.conditional import report as conditional_report
from weft.experiments.conditional.contenders import (
    PAPER_RULES,
    StreamContender,
    Usage,
    half_width,
    number,
)
from weft.experiments.conditional.runs import (
    BASELINE_POINTS,
    PROBABILITIES,
    ROLLOUT,
    WAITINGS,
    ConditionalPlan,
    Stage,
    Step,
    carry_out,
    mean_times,
)
from weft.experiments.harness import Checkpoint, fingerprint
from weft.model.columns import FloatArray
from weft.report.tables import Column, Columns, table_text
from weft.sim.vector.batch import Waiting

__all__ = [
    "FULL",
    "PROBABILITIES",
    "PUBLISHED",
    "QUICK",
    "ConditionalPlan",
    "mean_times",
    "reproduce",
    "table",
]

SUMMARY = "rules and learned policies for conditional task graphs, beside the authors' numbers"
PUBLISHED = (105.65, 99.95, 93.42, 87.22, 80.83, 74.58, 67.65, 60.89, 52.60, 43.23, 34.69)
"""Mean job completion time in ms of the authors' best policy, pi4, at these p(c): constants in their repository."""
BASELINES = {
    0.0: (168.0, 138.5, 145.7),
    0.2: (142.3, 124.2, 127.3),
    0.5: (91.7, 95.4, 94.3),
    0.8: (53.8, 58.2, 55.1),
    1.0: (36.5, 37.8, 36.5),
}
"""p(c) -> ms of FIFO, MRU and Depth-First: the authors' code on 10,000 jobs, seeds 1 to 5."""
EXACT = (87.98, 93.80, 89.99)
"""The same at p(c) = 0.5 and seed 1 alone: draw by draw, so equal to the digit."""
EXACT_ARRIVALS = (14.4974, 20.0504, 25.9377, 29.6458, 41.1074, 39.9013)
"""Arrivals in ms that belong to it, as drawn (a negative gap puts a job before an earlier one)."""
EXACT_JOBS = {"ABC": 5080, "ABDE": 2471, "ABDF": 2449}
SLOW = "F"
"""The task that takes ten times as long as the others."""
FULL = ConditionalPlan(
    jobs=10_000, seeds=40, changes=6, regular=5, streams=60, rollouts=1, processes=2
)
QUICK = ConditionalPlan(jobs=4000, seeds=4, changes=3, regular=2, streams=16, processes=2)


@dataclass(eq=False)
class ConditionalResults:
    """What the steps find, one after the other."""

    stage: Stage
    regular: dict[str, FloatArray] = field(default_factory=dict)
    times: dict[Waiting, dict[str, FloatArray]] = field(default_factory=dict)
    usage: dict[Waiting, dict[str, list[Usage]]] = field(default_factory=dict)
    baselines: dict[float, FloatArray] = field(default_factory=dict)
    rollouts: list[dict[str, Any]] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        plan = self.stage.plan
        for waiting in WAITINGS:
            names = [c.name for c in self.stage.players(waiting)]
            self.times[waiting] = {
                name: np.full((len(PROBABILITIES), plan.seeds), np.nan) for name in names
            }
            self.usage[waiting] = {
                name: [self.stage.arena.usage() for _ in PROBABILITIES] for name in names
            }
        self.regular = {
            c.name: np.full((len(PROBABILITIES), plan.regular), np.nan)
            for c in self.stage.players("event")
        }

    @property
    def reference(self) -> str:
        """Whose time is 1 in Figure 3: our pi4, or the tuned index where it is not shipped."""
        return "pi4" if self.stage.entered.find("pi4") is not None else "index"

    def take(self, step: Step, result: Any) -> None:
        """Take in what a step found."""
        kind, place, seed = step
        if kind == "point":
            self._take_point(int(place), seed, result)
        elif kind == "baseline":
            self.baselines[BASELINE_POINTS[int(place)]] = np.array(result)
        elif kind == "change":
            self.stage.adaptation.take(str(place), seed, result)
        elif kind == "regular":
            for name, mean in result.items():
                self.regular[name][int(place), seed - 1] = np.nan if mean is None else mean
        elif kind == ROLLOUT:
            self.rollouts.append({"probability": PROBABILITIES[int(place)], "seed": seed, **result})
        elif kind == "training":
            self.document["training"] = result
        else:
            self.stage.any_graph.take(kind.removeprefix("any "), result)

    def _take_point(self, point: int, seed: int, result: Any) -> None:
        for waiting in WAITINGS:
            for name, played in result[waiting].items():
                if played is not None:
                    self.times[waiting][name][point, seed - 1] = played[0]
                    self.usage[waiting][name][point].add_numbers(played[1])


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    plan: ConditionalPlan | None = None,
    progress: Progress = iter,
) -> dict[str, Any]:
    """Do everything, write results.json and report.html into the folder, and return the results; a run that was stopped goes on."""
    begin = time.perf_counter()
    plan, folder = plan or (QUICK if quick else FULL), Path(folder)
    stage = Stage(plan)
    found = ConditionalResults(stage)
    progress = Checkpoint(
        folder / "progress.jsonl", fingerprint(plan, [c.name for c in stage.entered.contenders])
    )
    for step, result in carry_out(stage, progress, watch):
        found.take(step, result)
    _tell(found, quick=quick)
    found.document["seconds"] = time.perf_counter() - begin
    (folder / "results.json").write_text(
        json.dumps(found.document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    conditional_report.write(folder / "report.html", found.document)
    progress.forget()
    return found.document


def table(document: dict[str, Any]) -> str:
    """Everybody beside the authors' pi4, as text."""
    columns: Columns = [
        "policy",
        "waiting",
        Column("average", "over the authors' pi4", digits=4),
        Column("half_width", "+-", digits=2),
        Column("worst", "worst", digits=4),
        Column("worst_at", "at p(c)"),
        Column("over_reference", "over the reference", digits=4),
    ]
    text = table_text(document["summary"], columns, sort="average")
    exact = ", ".join(
        f"{row['rule']} {row['ours']:.2f} (theirs {row['authors']:.2f})"
        for row in document["exact"]["rows"]
    )
    own = ", ".join(
        f"{name} ({waiting} waiting)" for waiting, name in document["reference"].items()
    )
    notes = [f"reference: {own}", f"seed 1, p(c) = 0.5, ms: {exact}"]
    if document["missing"]:
        notes.append(f"not shipped, so not here: {', '.join(document['missing'])}")
    return "\n".join([text, "", *notes])


# -- what was found, as plain values ---------------------------------------------------


def _tell(found: ConditionalResults, *, quick: bool) -> None:
    found.document |= {
        "experiment": "conditional",
        "quick": quick,
        "machine": describe_machine(),
        "stream": found.stage.stream.name,
        "unit": "ms",
        "jobs": found.stage.plan.jobs,
        "seeds": found.stage.plan.seeds,
        "probabilities": list(PROBABILITIES),
        "published_pi4": list(PUBLISHED),
        "bound": [76.0 - 45.0 * p for p in PROBABILITIES],
        "reference": dict.fromkeys(WAITINGS, found.reference),
        "missing": found.stage.entered.missing,
        "left_out": found.stage.entered.left_out,
        "exact": _exact(found),
        "baselines": _baseline_rows(found),
        "grid": [
            row for w in WAITINGS for c in found.stage.players(w) for row in _grid_rows(found, w, c)
        ],
        "summary": [_summary_row(found, w, c) for w in WAITINGS for c in found.stage.players(w)],
        "units": [
            row for w in WAITINGS for c in found.stage.players(w) for row in _unit_rows(found, w, c)
        ],
        "adaptation": found.stage.adaptation.document(),
        "regular": _regular_rows(found),
        "rollouts": _rollout_rows(found),
        "any_graph": found.stage.any_graph.document(),
    }


def _exact(found: ConditionalResults) -> dict[str, Any]:
    stream = found.stage.stream.with_jobs(found.stage.plan.checked)
    arrival, outcome = stream.with_probability("D", [0.5, 0.5]).draw_ticks(1, authors=True)
    to_d = outcome[:, 0] == 1
    jobs = {
        "ABC": int((~to_d).sum()),
        "ABDE": int((to_d & (outcome[:, 1] == 0)).sum()),
        "ABDF": int((to_d & (outcome[:, 1] == 1)).sum()),
    }
    ours = found.baselines[0.5][:, 0]
    return {
        "arrivals": {
            "authors": sorted(EXACT_ARRIVALS),
            "ours": [round(float(a), 4) for a in arrival[:6]],
        },
        "jobs": {"authors": EXACT_JOBS, "ours": jobs},
        "rows": [
            {
                "rule": rule,
                "authors": theirs,
                "ours": float(mine),
                "same": f"{mine:.2f}" == f"{theirs:.2f}",
            }
            for rule, theirs, mine in zip(PAPER_RULES, EXACT, ours, strict=True)
        ],
    }


def _baseline_rows(found: ConditionalResults) -> list[dict[str, Any]]:
    return [
        {
            "probability": p,
            "rule": rule,
            "authors": BASELINES[p][k],
            "ours": float(times[k].mean()),
            "half_width": number(half_width(times[k])),
        }
        for p, times in found.baselines.items()
        for k, rule in enumerate(PAPER_RULES)
    ]


def _grid_rows(
    found: ConditionalResults, waiting: Waiting, contender: StreamContender
) -> list[dict[str, Any]]:
    ours, base = found.times[waiting][contender.name], found.times[waiting][found.reference]
    rows = []
    for i, p in enumerate(PROBABILITIES):
        ratio = ours[i] / base[i]
        rows.append(
            {
                "waiting": waiting,
                "policy": contender.name,
                "group": contender.group,
                "probability": p,
                "mean": number(ours[i].mean()),
                "half_width": number(half_width(ours[i])),
                "relative": number(ours[i].mean() / base[i].mean()),
                "relative_half_width": number(half_width(ratio)),
                "over_authors": number(ours[i].mean() / PUBLISHED[i]),
                "seeds": [number(x) for x in ours[i]],
            }
        )
    return rows


def _summary_row(
    found: ConditionalResults, waiting: Waiting, contender: StreamContender
) -> dict[str, Any]:
    """Over the authors' pi4: the mean of the ratios at all p(c), its interval over seeds, and the worst of them."""
    ours, base = found.times[waiting][contender.name], found.times[waiting][found.reference]
    ratios = ours / np.array(PUBLISHED)[:, None]
    by_point = ratios.mean(axis=1)
    worst = int(np.argmax(by_point))  # NaN, where a run never ends, counts as the largest
    return {
        "policy": contender.name,
        "group": contender.group,
        "waiting": waiting,
        "trained_waiting": contender.trained_waiting,
        "average": number(ratios.mean()),
        "half_width": number(half_width(ratios.mean(axis=0))),
        "worst": number(by_point[worst]),
        "worst_at": PROBABILITIES[worst],
        "never_ended": int(np.isnan(ours).sum()),
        "over_reference": number((ours.mean(axis=1) / base.mean(axis=1)).mean()),
    }


def _regular_rows(found: ConditionalResults) -> list[dict[str, Any]]:
    return [
        {
            "policy": name,
            "mean": [number(x) for x in times.mean(axis=1)],
            "half_width": [number(half_width(row)) for row in times],
            "over_normal": number(
                (times.mean(axis=1) / found.times["event"][name].mean(axis=1)).mean()
            ),
        }
        for name, times in found.regular.items()
    ]


def _rollout_rows(found: ConditionalResults) -> list[dict[str, Any]]:
    """Means over seeds at each p(c): rollouts and those they are built on, over the authors' pi4; and what a decision costs."""
    rows = []
    for p, theirs in zip(PROBABILITIES, PUBLISHED, strict=True):
        runs = [run for run in found.rollouts if run["probability"] == p and ROLLOUT in run]
        if runs:
            mean = {
                name: float(np.mean([run[name] for run in runs]))
                for name in ("index", "best", ROLLOUT)
                if name in runs[0]
            }
            rows.append(
                {
                    "probability": p,
                    "authors": theirs,
                    "seeds": len(runs),
                    "mean": mean,
                    "over_authors": {name: x / theirs for name, x in mean.items()},
                    "changed": sum(run["changed"] for run in runs)
                    / sum(run["steps"] for run in runs),
                    "futures": sum(run["futures"] for run in runs)
                    / sum(run["steps"] for run in runs),
                    "ms_a_step": 1000
                    * sum(run["cpu_seconds"] for run in runs)
                    / sum(run["steps"] for run in runs),
                }
            )
    return rows


def _unit_rows(
    found: ConditionalResults, waiting: Waiting, contender: StreamContender
) -> list[dict[str, Any]]:
    """Tasks at a time and share of the time busy, like units together; and where the slow task F runs, in what batches."""
    slow, rows = found.stage.arena.kinds.index(SLOW), []
    for p, usage in zip(PROBABILITIES, found.usage[waiting][contender.name], strict=True):
        for unit, own in found.stage.arena.units.items():
            share = usage.span * len(own)
            rows.append(
                {
                    "waiting": waiting,
                    "policy": contender.name,
                    "probability": p,
                    "unit": unit,
                    "tasks_at_a_time": _ratio(usage.task_ticks[own].sum(), share),
                    "busy": _ratio(usage.busy_ticks[own].sum(), share),
                    "share_of_slow": _ratio(
                        usage.tasks[own, slow].sum(), usage.tasks[:, slow].sum()
                    ),
                    "slow_batch": _ratio(
                        usage.tasks[own, slow].sum(), usage.batches[own, slow].sum()
                    ),
                }
            )
    return rows


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below > 0 else None
