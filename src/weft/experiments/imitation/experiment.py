"""The DeepSched document: networks that imitate HEFT, their schedules and their speed, beside HEFT and a genetic algorithm.

Behind `weft reproduce deepsched`: train the document's network on HEFT's schedules, compare mean turnaround through the simulator on
data seen and unseen, and the time to schedule the document's sizes. Its public code has no HEFT, no GA, no graph and random
labels, so there are no numbers of its own to match but Table I.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from weft.errors import MissingExtra
from weft.experiments.harness import describe_machine
from weft.experiments.imitation import amortised, amortised_report
from weft.experiments.imitation import report as deepsched_report
from weft.experiments.imitation.turnaround import (
    Contender,
    TurnaroundCase,
    contenders,
    document_problems,
    list_cases,
    score_cases,
    shape_cases,
    stream_cases,
    summary,
)
from weft.model import Problem, Schedule
from weft.planners.imitation.deepsched.network import SHIPPED
from weft.report.tables import Column, Columns, table_text

SUMMARY = "networks that imitate HEFT: turnaround and time to schedule"
TASKS = 500
"""The largest problem the document's network is made for here; it needs such a number."""

LEAN = ("HEFT", "deepsched", "GA (waiting)")
"""Contenders where thousands of plans are made."""


@dataclass(frozen=True)
class ImitationPlan:
    """How much of everything."""

    problems: int  # of each size and set
    samples: int  # to train the document's network
    epochs: int
    shapes: int
    lists: int
    seconds: float  # for a GA
    draws: int  # of each kind of graph for `amortised`
    wide: int
    seeds: int
    long: tuple[float, ...]  # seconds of searches that show what there is to gain


QUICK = ImitationPlan(
    problems=4,
    samples=48,
    epochs=20,
    shapes=8,
    lists=4,
    seconds=0.3,
    draws=1,
    wide=2,
    seeds=1,
    long=(1.0,),
)
FULL = ImitationPlan(
    problems=24,
    samples=240,
    epochs=50,
    shapes=32,
    lists=24,
    seconds=2.0,
    draws=2,
    wide=12,
    seeds=2,
    long=(1.0, 10.0),
)


@dataclass(eq=False)
class ImitationResults:
    """What the steps find, one after the other."""

    effort: ImitationPlan
    document: dict[str, Any]
    example: tuple[Problem, dict[str, Schedule]] | None = None
    scores: list[dict[str, Any]] = field(default_factory=list)


def reproduce(
    folder: str | Path, *, quick: bool = False, progress: Progress = iter
) -> dict[str, Any]:
    """Do everything, write results.json and report.html into the folder, and return the results."""
    _need_torch()
    from weft.experiments.imitation import speed

    begin, used = time.perf_counter(), time.process_time()
    training = json.loads(SHIPPED.with_suffix(".json").read_text(encoding="utf-8"))["training"]
    effort = QUICK if quick else FULL
    found = ImitationResults(
        effort,
        {
            "experiment": "deepsched",
            "quick": quick,
            "machine": describe_machine(),
            "training": training,
            "speed": [],
        },
    )
    found.document["effort"] = asdict(effort)

    def time_of(tasks: int, found: ImitationResults) -> None:
        speed.warm_up()
        found.document["speed"] += list(speed.measure(tasks))

    steps = [
        _paper,
        _streams,
        _shapes,
        _lists,
        _amortised,
        *(partial(time_of, tasks) for tasks in speed.SIZES),
    ]
    for step in progress(steps):
        step(found)
    found.document["table_one"] = {
        name: dict(zip(map(str, speed.SIZES), row, strict=True))
        for name, row in speed.DOCUMENT.items()
    }
    found.document["seconds"] = time.perf_counter() - begin
    found.document["cpu_seconds"] = time.process_time() - used
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(
        json.dumps(found.document, indent=2, allow_nan=False) + "\n", encoding="utf-8"
    )
    assert found.example is not None
    deepsched_report.write(folder / "report.html", found.document, *found.example)
    return found.document


def table(document: Mapping[str, Any]) -> str:
    """Both tables and the verdict, as text."""
    quality: Columns = [
        "set",
        "size",
        "contender",
        "problems",
        Column("over_heft", "turnaround over HEFT", digits=4),
        Column("low", digits=4),
        Column("high", digits=4),
    ]
    rows = [
        {"set": name} | row
        for name, part in document["turnaround"].items()
        for row in part
        if row["contender"] != "HEFT"
    ]
    rows = [row | {"set": row["group"]} for row in rows if row["size"] == "all"]
    times: Columns = [
        "contender",
        "runtime",
        *(Column(str(n), f"{n} tasks", unit="s") for n in deepsched_report.sizes(document)),
    ]
    tables = [table_text(rows, quality), table_text(deepsched_report.time_rows(document), times)]
    return "\n\n".join(
        [
            *tables,
            *deepsched_report.verdict(document),
            *amortised_report.verdict(document["amortised"]),
        ]
    )


def _enter(
    found: ImitationResults,
    name: str,
    cases: Iterable[TurnaroundCase],
    planners: Mapping[str, Contender],
    *,
    by_size: bool = True,
) -> None:
    scores = score_cases(cases, planners)
    found.document.setdefault("turnaround", {})[name] = summary(
        scores, list(planners), by_size=by_size
    )
    found.document.setdefault("problems", {})[name] = scores


# -- the steps ---------------------------------------------------------------------------


def _paper(found: ImitationResults) -> None:
    """The document's network on its own ground: one set of machines, a fixed maximum, the same problems again and again."""
    from weft.learn.imitation.deepsched.paper import paper_schedule, sample_of, train_paper

    effort = found.effort
    seen, unseen = (
        document_problems(0, effort.samples, tasks=TASKS),
        document_problems(1, effort.samples, tasks=TASKS),
    )
    curve: list[dict[str, float]] = []
    begin = time.process_time()
    net = train_paper(
        [sample_of(problem, TASKS) for problem in seen],
        epochs=effort.epochs,
        watch=lambda epoch, loss: curve.append({"epoch": epoch, "loss": loss}),
    )
    found.document["paper"] = {
        "tasks": TASKS,
        "machines": net.machines,
        "samples": effort.samples,
        "epochs": effort.epochs,
        "parameters": sum(p.numel() for p in net.parameters()),
        "cpu_seconds": time.process_time() - begin,
        "curve": curve,
    }
    planners: dict[str, Contender] = {
        **contenders(seconds=effort.seconds),
        "paper": partial(paper_schedule, net=net),
    }
    count = 2 * effort.problems
    cases = [
        TurnaroundCase.of(name, p)
        for name, problems in (("paper's seen", seen), ("paper's unseen", unseen))
        for p in problems[:count]
    ]
    _enter(found, "paper", cases, planners)
    problem = next(p for p in unseen if 40 <= p.n <= 120)
    shown = ("HEFT", "deepsched", "paper", "GA (waiting)")
    found.example = problem, {name: planners[name](problem) for name in shown}


def _streams(found: ImitationResults) -> None:
    seed = int(found.document["training"]["seed"])
    _enter(
        found,
        "stream",
        stream_cases(found.effort.problems, training_seed=seed),
        contenders(seconds=found.effort.seconds),
    )


def _shapes(found: ImitationResults) -> None:
    _enter(
        found,
        "shapes",
        shape_cases(found.effort.shapes),
        contenders(seconds=found.effort.seconds),
        by_size=False,
    )


def _lists(found: ImitationResults) -> None:
    cases, real = list_cases(found.effort.lists)
    every = contenders(seconds=found.effort.seconds / 4)
    _enter(found, "lists", cases, {name: every[name] for name in LEAN}, by_size=False)
    found.document["lists_from_repository"] = real


def _amortised(found: ImitationResults) -> None:
    """The question behind it: a network that learned from a planner that is slow and better."""
    effort, folder = found.effort, Path(os.environ.get("WEFT_DATA") or "no-data") / "static_graphs"
    found.document["amortised"] = amortised.findings(
        folder if folder.is_dir() else None,
        draws=effort.draws,
        wide=effort.wide,
        seeds=effort.seeds,
        long=effort.long,
    )


def _need_torch() -> None:
    from importlib.util import find_spec

    for package in ("torch", "onnxruntime"):
        if find_spec(package) is None:
            raise MissingExtra(package, "learn")
