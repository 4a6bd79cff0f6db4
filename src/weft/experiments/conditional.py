"""Conditional task graphs (Debner, Krahn and Hirvisalo 2024): mean job completion time over the probability p(c), theirs and ours.

Behind `weft reproduce conditional`: the authors' baselines draw by draw, rules and learned policies at every p(c) in both semantics of
waiting, learning curves, what the units do, and probabilities that change at run time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments import conditional_report, machine
from weft.experiments.conditional_adaptation import Adaptation
from weft.experiments.conditional_any import ANY, AnyGraph
from weft.experiments.conditional_contenders import PAPER_RULES, Arena, Contender, Field, Usage, gather, half_width, number
from weft.formats.stream_toml import load_stream
from weft.model.columns import FloatArray
from weft.model.stream import Arrivals, Stream
from weft.policies.conditional_rules import ConditionalRule
from weft.policies.files import Learned
from weft.report.tables import Column, Columns, table_text
from weft.sim.fleet import StepFleet, StepOptions, Waiting

SUMMARY = "rules and learned policies for conditional task graphs, beside the authors' numbers"
PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
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
WAITINGS: tuple[Waiting, ...] = ("event", "paper")


@dataclass(frozen=True)
class Plan:
    """How much is done: jobs and seeds of a draw at each p(c), and seeds of each change at run time."""

    jobs: int
    seeds: int
    changes: int
    regular: int = 1
    """Seeds at each p(c) with jobs every 8 ms."""
    streams: int = 2
    """Random streams for the policy that plays on any graph, and call graphs at most."""
    checked: int = 10_000
    """Jobs of the comparison with the authors' baselines: their number, or the digits differ."""


FULL = Plan(jobs=10_000, seeds=40, changes=20, regular=10, streams=60)
QUICK = Plan(jobs=4000, seeds=4, changes=3, regular=2, streams=16)


def mean_times(
    stream: Stream,
    rule: ConditionalRule,
    *,
    task: str = "D",
    probabilities: Sequence[float] = PROBABILITIES,
    seeds: Sequence[int] = range(1, 41),
    options: StepOptions | None = None,
    authors: bool = True,
) -> FloatArray:
    """(probabilities, seeds) mean job completion time in seconds; the branches of `task` are taken with p and 1 - p.

    Examples
    --------
    >>> from weft.formats.stream_toml import load_stream
    >>> stream = load_stream("conditional-paper").with_jobs(500)
    >>> mean_times(stream, ConditionalRule("fifo"), probabilities=[0.0, 1.0], seeds=[1]).round(3).tolist()
    [[0.135], [0.036]]
    """
    fleet = StepFleet(stream, 1, options, authors=authors)
    times = np.zeros((len(probabilities), len(seeds)))
    for i, p in enumerate(probabilities):
        variant = stream.with_probability(task, [p, 1.0 - p])
        for j, seed in enumerate(seeds):
            fleet.place(0, *variant.draw_ticks(seed, authors=authors))
            rule.play(fleet)
            times[i, j] = fleet.jct(0).mean()
    return times


@dataclass(eq=False)
class Findings:
    """What the steps find, one after the other."""

    stream: Stream
    plan: Plan
    entered: Field
    arena: Arena
    adaptation: Adaptation
    any_graph: AnyGraph
    regular: dict[str, FloatArray] = field(default_factory=dict)
    times: dict[Waiting, dict[str, FloatArray]] = field(default_factory=dict)
    usage: dict[Waiting, dict[str, list[Usage]]] = field(default_factory=dict)
    baselines: dict[float, FloatArray] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Whose time is 1 in Figure 3: our pi4, or the tuned index where it is not shipped."""
        return "pi4" if self.entered.find("pi4") is not None else "index"

    def players(self, waiting: Waiting) -> list[Contender]:
        """Who plays with a way of waiting: all but those trained for the paper's, which have siblings trained for the other."""
        return [c for c in self.entered.contenders if waiting == "paper" or c.trained_waiting != "paper"]


def reproduce(
    folder: str | Path, *, quick: bool = False, plan: Plan | None = None, watch: Callable[[list[Any]], Iterable[Any]] = iter
) -> dict[str, Any]:
    """Do everything, write results.json and report.html into the folder, and return the results."""
    begin = time.perf_counter()
    plan = plan or (QUICK if quick else FULL)
    stream = load_stream("conditional-paper").with_jobs(plan.jobs)
    entered = gather(stream)
    universal = entered.find(ANY)
    any_graph = AnyGraph(universal.who if universal is not None else None, plan.streams, min(plan.jobs, 1000))  # type: ignore[arg-type]
    found = Findings(stream, plan, entered, Arena(stream), Adaptation.of(stream, entered, seeds=plan.changes), any_graph)
    for waiting in WAITINGS:
        found.times[waiting] = {c.name: np.full((len(PROBABILITIES), plan.seeds), np.nan) for c in found.players(waiting)}
        found.usage[waiting] = {c.name: [found.arena.usage() for _ in PROBABILITIES] for c in found.players(waiting)}
    found.regular = {c.name: np.full((len(PROBABILITIES), plan.regular), np.nan) for c in found.players("event")}
    steps: list[Callable[[Findings], None]] = [partial(_check_baselines, p=p) for p in BASELINES]
    steps += [partial(_play_point, point=i, seed=seed) for seed in range(1, plan.seeds + 1) for i in range(len(PROBABILITIES))]
    steps += [partial(_play_change, kind=kind, seed=seed) for kind in found.adaptation.kinds for seed in range(1, plan.changes + 1)]
    steps += [partial(_play_regular, point=i, seed=seed) for seed in range(1, plan.regular + 1) for i in range(len(PROBABILITIES))]
    steps += [partial(_play_any, kind=kind, at=at) for kind, at in any_graph.steps]
    steps.append(_learning_curves)
    for step in watch(steps):
        step(found)
    _tell(found, quick=quick)
    found.document["seconds"] = time.perf_counter() - begin
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found.document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    conditional_report.write(folder / "report.html", found.document)
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
    exact = ", ".join(f"{row['rule']} {row['ours']:.2f} (theirs {row['authors']:.2f})" for row in document["exact"]["rows"])
    own = ", ".join(f"{name} ({waiting} waiting)" for waiting, name in document["reference"].items())
    notes = [f"reference: {own}", f"seed 1, p(c) = 0.5, ms: {exact}"]
    if document["missing"]:
        notes.append(f"not shipped, so not here: {', '.join(document['missing'])}")
    return "\n".join([text, "", *notes])


# -- steps -----------------------------------------------------------------------------


def _check_baselines(found: Findings, *, p: float) -> None:
    """The authors' rules in the authors' semantics on the authors' draws."""
    stream = found.stream.with_jobs(found.plan.checked)
    times = [mean_times(stream, ConditionalRule(name), probabilities=[p], seeds=range(1, 6))[0] for name in PAPER_RULES]
    found.baselines[p] = np.stack(times) * 1000


def _play_point(found: Findings, *, point: int, seed: int) -> None:
    """All contenders on one draw."""
    p = PROBABILITIES[point]
    draw = found.stream.with_probability("D", [p, 1.0 - p]).draw_ticks(seed, authors=True)
    for waiting in WAITINGS:
        for contender in found.players(waiting):
            fleet = found.arena.play(contender, waiting, draw)
            if fleet is not None:
                found.times[waiting][contender.name][point, seed - 1] = fleet.jct(0).mean() * 1000
                found.usage[waiting][contender.name][point].add(fleet)


def _play_change(found: Findings, *, kind: str, seed: int) -> None:
    found.adaptation.play(kind, seed)


def _play_regular(found: Findings, *, point: int, seed: int) -> None:
    """All contenders on one draw with a job every 8 ms, as the paper's text has it."""
    p = PROBABILITIES[point]
    even = replace(found.stream, arrivals=Arrivals("regular", gap=found.stream.arrivals.gap))
    draw = even.with_probability("D", [p, 1.0 - p]).draw_ticks(seed)
    for contender in found.players("event"):
        fleet = found.arena.play(contender, "event", draw)
        if fleet is not None:
            found.regular[contender.name][point, seed - 1] = fleet.jct(0).mean() * 1000


def _play_any(found: Findings, *, kind: str, at: int) -> None:
    found.any_graph.play(kind, at)


def _learning_curves(found: Findings) -> None:
    """From the records of the trainings; scores over the best of the paper's rules on draws of the same length."""
    rows = []
    for contender in found.entered.contenders:
        if isinstance(contender.who, Learned):
            best = _best_rule_score(found.stream, contender)
            record = contender.who.training
            points = [
                {
                    "samples": entry["samples"],
                    "reward_rate": entry.get("reward_rate"),
                    "entropy": entry.get("entropy"),
                    "relative": number(np.exp(entry["score"] - best)) if "score" in entry else None,
                }
                for entry in record.get("curve", [])
                if "samples" in entry
            ]
            kept = {key: record.get(key) for key in ("algorithm", "seed", "seeds", "samples", "cpu_seconds", "score")}
            kept["imitation"] = record.get("settings", {}).get("imitation")
            rows.append({"policy": contender.name, "about": contender.who.about, **kept, "curve": points})
    found.document["training"] = rows


def _best_rule_score(stream: Stream, contender: Contender) -> float:
    """Mean log of seconds a job takes under the best of the paper's rules, at the p(c) a policy was trained for."""
    assert isinstance(contender.who, Learned)
    world = contender.who.environment
    fixed = isinstance(world.get("probability"), int | float)
    points = [float(world["probability"])] if fixed else list(PROBABILITIES)
    short, options = stream.with_jobs(int(world.get("jobs", 2000))), StepOptions(waiting=world.get("waiting", "event"))
    times = [
        mean_times(short, ConditionalRule(name), probabilities=points, seeds=range(1, 4), options=options, authors=False).mean(axis=1)
        for name in PAPER_RULES
    ]
    return float(np.log(np.min(times, axis=0)).mean())


# -- what was found, as plain values ---------------------------------------------------


def _tell(found: Findings, *, quick: bool) -> None:
    found.document |= {
        "experiment": "conditional",
        "quick": quick,
        "machine": machine.describe(),
        "stream": found.stream.name,
        "unit": "ms",
        "jobs": found.plan.jobs,
        "seeds": found.plan.seeds,
        "probabilities": list(PROBABILITIES),
        "published_pi4": list(PUBLISHED),
        "bound": [76.0 - 45.0 * p for p in PROBABILITIES],
        "reference": dict.fromkeys(WAITINGS, found.reference),
        "missing": found.entered.missing,
        "left_out": found.entered.left_out,
        "exact": _exact(found),
        "baselines": _baseline_rows(found),
        "grid": [row for w in WAITINGS for c in found.players(w) for row in _grid_rows(found, w, c)],
        "summary": [_summary_row(found, w, c) for w in WAITINGS for c in found.players(w)],
        "units": [row for w in WAITINGS for c in found.players(w) for row in _unit_rows(found, w, c)],
        "adaptation": found.adaptation.document(),
        "regular": _regular_rows(found),
        "any_graph": found.any_graph.document(),
    }


def _exact(found: Findings) -> dict[str, Any]:
    stream = found.stream.with_jobs(found.plan.checked)
    arrival, outcome = stream.with_probability("D", [0.5, 0.5]).draw_ticks(1, authors=True)
    to_d = outcome[:, 0] == 1
    jobs = {"ABC": int((~to_d).sum()), "ABDE": int((to_d & (outcome[:, 1] == 0)).sum()), "ABDF": int((to_d & (outcome[:, 1] == 1)).sum())}
    ours = found.baselines[0.5][:, 0]
    return {
        "arrivals": {"authors": sorted(EXACT_ARRIVALS), "ours": [round(float(a), 4) for a in arrival[:6]]},
        "jobs": {"authors": EXACT_JOBS, "ours": jobs},
        "rows": [
            {"rule": rule, "authors": theirs, "ours": float(mine), "same": f"{mine:.2f}" == f"{theirs:.2f}"}
            for rule, theirs, mine in zip(PAPER_RULES, EXACT, ours, strict=True)
        ],
    }


def _baseline_rows(found: Findings) -> list[dict[str, Any]]:
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


def _grid_rows(found: Findings, waiting: Waiting, contender: Contender) -> list[dict[str, Any]]:
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


def _summary_row(found: Findings, waiting: Waiting, contender: Contender) -> dict[str, Any]:
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


def _regular_rows(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "policy": name,
            "mean": [number(x) for x in times.mean(axis=1)],
            "half_width": [number(half_width(row)) for row in times],
            "over_normal": number((times.mean(axis=1) / found.times["event"][name].mean(axis=1)).mean()),
        }
        for name, times in found.regular.items()
    ]


def _unit_rows(found: Findings, waiting: Waiting, contender: Contender) -> list[dict[str, Any]]:
    """Tasks at a time and share of the time busy, like units together; and where the slow task F runs, in what batches."""
    slow, rows = found.arena.kinds.index(SLOW), []
    for p, usage in zip(PROBABILITIES, found.usage[waiting][contender.name], strict=True):
        for unit, own in found.arena.units.items():
            share = usage.span * len(own)
            rows.append(
                {
                    "waiting": waiting,
                    "policy": contender.name,
                    "probability": p,
                    "unit": unit,
                    "tasks_at_a_time": _ratio(usage.task_ticks[own].sum(), share),
                    "busy": _ratio(usage.busy_ticks[own].sum(), share),
                    "share_of_slow": _ratio(usage.tasks[own, slow].sum(), usage.tasks[:, slow].sum()),
                    "slow_batch": _ratio(usage.tasks[own, slow].sum(), usage.batches[own, slow].sum()),
                }
            )
    return rows


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below > 0 else None
