"""Tables of the conditional experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.experiments.conditional.contenders import PAPER_RULES, StreamContender, Usage, number
from weft.experiments.conditional.runs import (
    BASELINE_POINTS,
    PROBABILITIES,
    ROLLOUT,
    WAITINGS,
    RunSetup,
    Step,
)
from weft.experiments.harness import describe_machine
from weft.model.columns import FloatArray
from weft.report.statistics import half_width
from weft.sim.vector.batch import Idle

PUBLISHED = (105.65, 99.95, 93.42, 87.22, 80.83, 74.58, 67.65, 60.89, 52.60, 43.23, 34.69)
"""Mean job completion time (ms) of the authors' pi4 at each p(c): from their repository."""
BASELINES = {
    0.0: (168.0, 138.5, 145.7),
    0.2: (142.3, 124.2, 127.3),
    0.5: (91.7, 95.4, 94.3),
    0.8: (53.8, 58.2, 55.1),
    1.0: (36.5, 37.8, 36.5),
}
"""p(c) -> ms of FIFO, MRU and Depth-First: the authors' code, 10,000 jobs, seeds 1 to 5."""
EXACT = (87.98, 93.80, 89.99)
"""The same at p(c) = 0.5 and seed 1: equal draws, so equal digits."""
EXACT_ARRIVALS = (14.4974, 20.0504, 25.9377, 29.6458, 41.1074, 39.9013)
"""Their first arrivals (ms) as drawn; a negative gap puts a job before an earlier one."""
EXACT_JOBS = {"ABC": 5080, "ABDE": 2471, "ABDF": 2449}
SLOW = "F"
"""The task that takes ten times as long as the others."""


@dataclass(eq=False)
class ConditionalResults:
    """Results of the steps so far; `document` becomes results.json."""

    setup: RunSetup
    regular: dict[str, FloatArray] = field(default_factory=dict)
    times: dict[Idle, dict[str, FloatArray]] = field(default_factory=dict)
    usage: dict[Idle, dict[str, list[Usage]]] = field(default_factory=dict)
    baselines: dict[float, FloatArray] = field(default_factory=dict)
    rollouts: list[dict[str, Any]] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create empty tables."""
        plan = self.setup.plan
        for waiting in WAITINGS:
            names = [c.name for c in self.setup.contenders(waiting)]
            self.times[waiting] = {
                name: np.full((len(PROBABILITIES), plan.seeds.point), np.nan) for name in names
            }
            self.usage[waiting] = {
                name: [self.setup.evaluator.usage() for _ in PROBABILITIES] for name in names
            }
        self.regular = {
            c.name: np.full((len(PROBABILITIES), plan.seeds.regular), np.nan)
            for c in self.setup.contenders("event")
        }

    @property
    def reference(self) -> str:
        """The contender that Figure 3 is relative to."""
        return "pi4" if "pi4" in self.setup.entered else "index"

    def add(self, step: Step, result: Any) -> None:
        """Add the result of a step."""
        kind, place, seed = step.kind, step.place, step.seed
        if kind == "point":
            self._add_point(int(place), seed, result)
        elif kind == "baseline":
            self.baselines[BASELINE_POINTS[int(place)]] = np.array(result)
        elif kind == "change":
            self.setup.adaptation.add(str(place), seed, result)
        elif kind == "regular":
            for name, mean in result.items():
                self.regular[name][int(place), seed - 1] = np.nan if mean is None else mean
        elif kind == ROLLOUT:
            self.rollouts.append({"probability": PROBABILITIES[int(place)], "seed": seed, **result})
        elif kind == "training":
            self.document["training"] = result
        else:
            self.setup.any_graph.add(kind.removeprefix("any "), result)

    def _add_point(self, point: int, seed: int, result: Any) -> None:
        for waiting in WAITINGS:
            for name, simulated in result[waiting].items():
                if simulated is not None:
                    self.times[waiting][name][point, seed - 1] = simulated[0]
                    self.usage[waiting][name][point].add_numbers(simulated[1])


def summarise(found: ConditionalResults, *, quick: bool) -> dict[str, Any]:
    """Return results.json as plain values."""
    return found.document | {
        "experiment": "conditional",
        "quick": quick,
        "machine": describe_machine(),
        "stream": found.setup.stream.name,
        "unit": "ms",
        "jobs": found.setup.plan.jobs,
        "seeds": found.setup.plan.seeds.point,
        "probabilities": list(PROBABILITIES),
        "published_pi4": list(PUBLISHED),
        "bound": [76.0 - 45.0 * p for p in PROBABILITIES],
        "reference": dict.fromkeys(WAITINGS, found.reference),
        "exact": _exact(found),
        "baselines": _baseline_rows(found),
        "grid": [
            row
            for w in WAITINGS
            for c in found.setup.contenders(w)
            for row in _grid_rows(found, w, c)
        ],
        "summary": [_summary_row(found, w, c) for w in WAITINGS for c in found.setup.contenders(w)],
        "units": [
            row
            for w in WAITINGS
            for c in found.setup.contenders(w)
            for row in _unit_rows(found, w, c)
        ],
        "adaptation": found.setup.adaptation.document(),
        "regular": _regular_rows(found),
        "rollouts": _rollout_rows(found),
        "any_graph": found.setup.any_graph.document(),
    }


def _exact(found: ConditionalResults) -> dict[str, Any]:
    stream = found.setup.stream.with_jobs(found.setup.plan.checked)
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
    found: ConditionalResults, waiting: Idle, contender: StreamContender
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
    found: ConditionalResults, waiting: Idle, contender: StreamContender
) -> dict[str, Any]:
    """Return mean ratio to the authors' pi4, its interval, and the worst."""
    ours, base = found.times[waiting][contender.name], found.times[waiting][found.reference]
    ratios = ours / np.array(PUBLISHED)[:, None]
    by_point = ratios.mean(axis=1)
    worst = int(np.argmax(by_point))  # NaN, for unfinished runs, counts as the largest
    return {
        "policy": contender.name,
        "group": contender.group,
        "waiting": waiting,
        "trained_waiting": contender.trained_waiting,
        "average": number(ratios.mean()),
        "half_width": number(half_width(ratios.mean(axis=0))),
        "worst": number(by_point[worst]),
        "worst_at": PROBABILITIES[worst],
        "unfinished": int(np.isnan(ours).sum()),
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
    """Return means of rollouts and their base policies per p(c), and costs."""
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
                    "ms_per_step": 1000
                    * sum(run["cpu_seconds"] for run in runs)
                    / sum(run["steps"] for run in runs),
                }
            )
    return rows


def _unit_rows(
    found: ConditionalResults, waiting: Idle, contender: StreamContender
) -> list[dict[str, Any]]:
    """Return concurrency and busy share of units, and where F runs."""
    slow, rows = found.setup.evaluator.kinds.index(SLOW), []
    for p, usage in zip(PROBABILITIES, found.usage[waiting][contender.name], strict=True):
        for unit, own in found.setup.evaluator.units.items():
            share = usage.span * len(own)
            rows.append(
                {
                    "waiting": waiting,
                    "policy": contender.name,
                    "probability": p,
                    "unit": unit,
                    "concurrency": _ratio(usage.task_ticks[own].sum(), share),
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
