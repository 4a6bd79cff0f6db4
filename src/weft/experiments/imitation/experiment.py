"""Imitation experiment: networks that imitate HEFT, beside HEFT and a GA.

Behind `weft reproduce imitation`: train the document's network on HEFT's schedules, compare mean
turnaround in the simulator on seen and unseen data, and time to schedule the document's sizes. Its
public code has no HEFT, GA or graph, and random labels, so only Table I can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import MissingExtra
from weft.experiments.harness import Stopwatch, describe_machine, write_results
from weft.experiments.imitation import report
from weft.experiments.imitation.contenders import (
    PlanFunction,
    contenders,
    fixed_device,
    heft,
    warm_up,
)
from weft.experiments.imitation.runs import (
    TurnaroundCase,
    document_problems,
    list_cases,
    score_cases,
    shape_cases,
    stream_cases,
)
from weft.experiments.imitation.statistics import page_tables, summary
from weft.formats.model_file import find_model, read_model
from weft.model import Problem, Schedule
from weft.progress import Track
from weft.report.tables import Column, Columns, interval_columns, table_text

TASKS = 100
"""Maximal number of tasks of the document's network, which has a fixed input size."""

FEW = ("HEFT", "deepsched", "GA (waiting)", "anytime (waiting)", "random", "round robin")
"""Contenders of the job lists, which need thousands of plans."""


@dataclass(frozen=True)
class ImitationPlan:
    """Amount of work."""

    problems: int  # per size and set
    steps: int  # of training of the document's network, 16 new problems each
    large_seconds: float  # of processor time to train it for each of the document's sizes
    shapes: int
    lists: int
    seconds: float  # of processor time per problem for a search


QUICK = ImitationPlan(problems=4, steps=300, large_seconds=5.0, shapes=8, lists=2, seconds=0.1)
FULL = ImitationPlan(problems=16, steps=6000, large_seconds=60.0, shapes=24, lists=12, seconds=0.5)


@dataclass(eq=False)
class ImitationResults:
    """Results of the steps so far; `document` becomes results.json."""

    effort: ImitationPlan
    document: dict[str, Any]
    example: tuple[Problem, dict[str, Schedule]] | None = None
    scores: list[dict[str, Any]] = field(default_factory=list)


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Run all steps; write and return the results."""
    _need_torch()
    from weft.experiments.imitation import speed

    clock = Stopwatch()
    training = dict(read_model(find_model("deepsched")).training)
    effort = QUICK if quick else FULL
    found = ImitationResults(
        effort,
        {
            "experiment": "imitation",
            "quick": quick,
            "machine": describe_machine(),
            "training": training,
            "speed": [],
        },
    )
    found.document["effort"] = asdict(effort)

    def time_of(tasks: int, found: ImitationResults) -> None:
        speed.warm_up()
        found.document["speed"] += list(speed.measure(tasks, training=effort.large_seconds))

    warm_up(next(document_problems(2, tasks=40)))
    steps = [_paper, _streams, _shapes, _lists, *(partial(time_of, tasks) for tasks in speed.SIZES)]
    for step in track(steps):
        step(found)
    found.document["table_one"] = {
        name: dict(zip(map(str, speed.SIZES), row, strict=True))
        for name, row in speed.DOCUMENT.items()
    }
    found.document |= clock.spent()
    write_results(Path(folder), found.document, page_tables(found.document))
    assert found.example is not None
    report.write(Path(folder) / "report.html", found.document, *found.example)
    return found.document


def table(document: Mapping[str, Any]) -> str:
    """Return both tables and the verdicts as text."""
    quality: Columns = [
        "set",
        "size",
        "contender",
        "problems",
        *interval_columns(Column("over_heft", "turnaround over HEFT", digits=4)),
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
        *(Column(str(n), f"{n} tasks", unit="s") for n in report.sizes(document)),
    ]
    tables = [table_text(rows, quality), table_text(report.time_rows(document), times)]
    return "\n\n".join([*tables, *report.verdict(document)])


def _add(
    found: ImitationResults,
    name: str,
    cases: Iterable[TurnaroundCase],
    planners: Mapping[str, PlanFunction],
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
    """Train and evaluate the document's network."""
    from weft.experiments.imitation.paper import paper_schedule, sample_of, train_paper

    effort = found.effort
    number = 3 * effort.problems
    seen, unseen = (list(islice(document_problems(seed, tasks=TASKS), number)) for seed in (0, 1))
    curve: list[dict[str, float]] = []
    begin = time.process_time()
    net = train_paper(
        (sample_of(problem, TASKS) for problem in document_problems(0, tasks=TASKS)),
        steps=effort.steps,
        progress=curve.append,
    )
    favourite = int(np.bincount(np.concatenate([heft(p).device for p in seen])).argmax())
    found.document["paper"] = {
        "tasks": TASKS,
        "machines": net.machines,
        "steps": effort.steps,
        "favourite": favourite,
        "parameters": sum(p.numel() for p in net.parameters()),
        "cpu_seconds": time.process_time() - begin,
        "curve": curve,
    }
    planners: dict[str, PlanFunction] = {
        **contenders(seconds=effort.seconds),
        "HEFT's favourite": partial(fixed_device, device=favourite),
        "paper": partial(paper_schedule, net=net),
    }
    cases = [
        TurnaroundCase.of(name, p)
        for name, problems in (("paper's seen", seen), ("paper's unseen", unseen))
        for p in problems
    ]
    _add(found, "paper", cases, planners)
    problem = next(p for p in unseen if p.n >= 40)
    shown = ("HEFT", "deepsched", "paper", "GA (waiting)")
    found.example = problem, {name: planners[name](problem) for name in shown}


def _streams(found: ImitationResults) -> None:
    seed = int(found.document["training"]["seed"])
    _add(
        found,
        "stream",
        stream_cases(found.effort.problems, training_seed=seed),
        contenders(seconds=found.effort.seconds),
    )


def _shapes(found: ImitationResults) -> None:
    _add(
        found,
        "shapes",
        shape_cases(found.effort.shapes),
        contenders(seconds=found.effort.seconds),
        by_size=False,
    )


def _lists(found: ImitationResults) -> None:
    cases, real = list_cases(found.effort.lists)
    every = contenders(seconds=found.effort.seconds / 4)
    _add(found, "lists", cases, {name: every[name] for name in FEW}, by_size=False)
    found.document["lists_from_repository"] = real


def _need_torch() -> None:
    from importlib.util import find_spec

    for package in ("torch", "onnxruntime"):
        if find_spec(package) is None:
            raise MissingExtra(package, "learn")
