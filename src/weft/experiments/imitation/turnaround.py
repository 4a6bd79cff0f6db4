"""Mean turnaround of schedules, through the simulator: the problems of the comparison, the contenders, and the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from weft.generators import generate_problem, scale_ccr
from weft.learn.imitation.deepsched.data import (
    JobList,
    draw_cluster,
    draw_job_list,
    list_workload,
    problem_stream,
    read_job_lists,
    workflow_of,
)
from weft.learn.imitation.deepsched.examples import batch_problems
from weft.model import Cluster, Problem, Schedule, Workload
from weft.model.check import check
from weft.planners import plan
from weft.planners.lists.placements import ListPlanner
from weft.planners.search.genetic import Genetic
from weft.report.statistics import geometric_mean_ratio
from weft.rng import generator
from weft.sim.simulate import simulate

Contender = Callable[[Problem], Schedule]

SIZES = ((10, 100), (100, 500), (500, 2000))
"""Tasks of a problem, from and below; the last one including its end."""

FRESH = 77
"""Seed of what nobody has seen."""

SHAPES = ("cholesky", "lu", "fft", "gauss", "montage", "epigenomics", "cybershake", "map_reduce")
"""Structures that no network was trained on."""


@dataclass(frozen=True, eq=False)
class TurnaroundCase:
    """One workload (mostly a single workflow at 0) of a set of the comparison."""

    group: str
    size: str
    workload: Workload

    @classmethod
    def of(cls, group: str, problem: Problem) -> TurnaroundCase:
        """A single workflow, arriving at 0."""
        return cls(group, size_of(problem.n), Workload.of(problem))


def size_of(tasks: int) -> str:
    """The class of a number of tasks.

    Examples
    --------
    >>> size_of(99), size_of(100), size_of(2000)
    ('10 to 99', '100 to 499', '500 to 2000')
    """
    for low, high in SIZES[:-1]:
        if tasks < high:
            return f"{low} to {high - 1}"
    return f"{SIZES[-1][0]} to {SIZES[-1][1]}"


def turnaround(workload: Workload, planner: Contender) -> float:
    """Mean over all tasks of their finish minus the arrival of their workflow, plans replayed in the simulator.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> turnaround(Workload.of(problem), heft)  # 1 s and 5 s
    3.0
    """
    plans = [planner(problem) for problem in workload.problems]
    for problem, schedule in zip(workload.problems, plans, strict=True):
        violations = check(problem, schedule)
        assert not violations, f"{problem.name}: {violations[0]}"
    trace = simulate(workload, plans)
    return float((trace.finish - workload.arrival[trace.job]).mean())


# -- contenders --------------------------------------------------------------------------


def heft(problem: Problem) -> Schedule:
    """The teacher."""
    return plan(problem, "heft").schedule


def deepsched(problem: Problem) -> Schedule:
    """Ours."""
    return plan(problem, "deepsched").schedule


def no_gaps(problem: Problem) -> Schedule:
    """HEFT without insertion: what remains when a planner is not told of gaps."""
    return plan(problem, ListPlanner(rank="upward", placement="mct")).schedule


def genetic(problem: Problem, *, objective: str, seconds: float) -> Schedule:
    """A GA from random beginnings, as in the document."""
    return plan(problem, Genetic(objective=objective, seeded=False), seconds=seconds).schedule


def contenders(*, seconds: float) -> dict[str, Contender]:
    """All that take any problem; a GA has so many seconds for each."""
    return {
        "HEFT": heft,
        "deepsched": deepsched,
        "HEFT without gaps": no_gaps,
        "GA (waiting)": partial(genetic, objective="waiting", seconds=seconds),
        "GA (makespan)": partial(genetic, objective="makespan", seconds=seconds),
    }


# -- problems ----------------------------------------------------------------------------


def stream_cases(count: int, *, training_seed: int) -> Iterator[TurnaroundCase]:
    """`count` problems of each size that the shipped network was trained on, and as many it has never seen; 2 to 188 devices."""
    seen = (
        p
        for batch in range(8, 10_000)
        if batch % 50 != 49
        for p in batch_problems(training_seed, batch)
    )
    yield from _by_size("seen", seen, count)
    yield from _by_size("unseen", problem_stream(FRESH, largest=SIZES[-1][1]), count)


def _by_size(group: str, problems: Iterable[Problem], count: int) -> Iterator[TurnaroundCase]:
    left = {size_of(low): count for low, _ in SIZES}
    for problem in problems:
        case = TurnaroundCase.of(group, problem)
        if left[case.size]:
            left[case.size] -= 1
            yield case
        if not any(left.values()):
            return


def shape_cases(count: int) -> Iterator[TurnaroundCase]:
    """Structures of linear algebra and science on 4 to 32 machines, whole workflows of up to 2,000 tasks."""
    for k in range(count):
        rng = generator(FRESH, "deepsched", "shapes", k)
        tasks = int(np.exp(rng.uniform(np.log(30), np.log(2001))))
        ccr = float(np.exp(rng.uniform(np.log(0.1), np.log(5.0))))
        name = SHAPES[k % len(SHAPES)]
        yield TurnaroundCase.of(
            "other structures",
            generate_problem(
                name, draw_cluster(k, int(rng.integers(4, 33))), seed=k, tasks=tasks, ccr=ccr
            ),
        )


def list_cases(count: int) -> tuple[list[TurnaroundCase], bool]:
    """Job lists on 16 machines, their workflows arriving one by one; whether the lists are the document's (else drawn like them)."""
    lists, real = job_lists(count)
    made = []
    for k, jobs in enumerate(lists):
        cluster = draw_cluster(k, 16)
        made.append(
            TurnaroundCase(
                "job lists",
                "all",
                list_workload(jobs, cluster, ccr=(0.1, 1.0)[k % 2], seed=1000 * k, name=f"list{k}"),
            )
        )
    return made, real


def job_lists(count: int) -> tuple[list[JobList], bool]:
    """The lists in $WEFT_DATA where it has them, else lists with the same statistics."""
    place = (
        Path(os.environ.get("WEFT_DATA") or "no-data")
        / "deepsched_jobs"
        / "dev"
        / "job_lists.json.gz"
    )
    if place.is_file():
        return list(islice(read_job_lists(place).values(), count)), True
    return [draw_job_list(FRESH + k) for k in range(count)], False


def document_cluster(machines: int = 16) -> Cluster:
    """One set of machines for all problems, as the document's network needs it."""
    return draw_cluster(5, machines)


def document_problems(seed: int, count: int, *, tasks: int, machines: int = 16) -> list[Problem]:
    """Problems of 20 to `tasks` tasks on the machines of `document_cluster`."""
    cluster, made = document_cluster(machines), []
    for k in range(count):
        rng = generator(seed, "deepsched", "document", k)
        n = int(np.exp(rng.uniform(np.log(20), np.log(tasks + 1))))
        workflow = workflow_of(
            draw_job_list(int(rng.integers(2**31)), n), seed=int(rng.integers(2**31))
        )
        made.append(Problem.bind(scale_ccr(workflow, float(np.exp(rng.uniform(-2, 1)))), cluster))
    return made


# -- the table ---------------------------------------------------------------------------


def score_cases(
    cases: Iterable[TurnaroundCase], planners: Mapping[str, Contender]
) -> list[dict[str, Any]]:
    """Mean turnaround of every contender on every case."""
    return [
        {
            "group": case.group,
            "size": case.size,
            "tasks": case.workload.instances,
            "devices": case.workload.cluster.p,
        }
        | {name: turnaround(case.workload, planner) for name, planner in planners.items()}
        for case in cases
    ]


def summary(
    scores: Sequence[Mapping[str, Any]], names: Sequence[str], *, by_size: bool = True
) -> list[dict[str, Any]]:
    """Turnaround over HEFT's: geometric mean with its interval, by group, size and contender; and over all sizes."""
    rows = []
    for group in dict.fromkeys(score["group"] for score in scores):
        inside = [score for score in scores if score["group"] == group]
        sizes = [size_of(low) for low, _ in SIZES] if by_size else []
        for size in [*(s for s in sizes if any(score["size"] == s for score in inside)), "all"]:
            chosen = [score for score in inside if size in ("all", score["size"])]
            rows += [_row(chosen, name) | {"group": group, "size": size} for name in names]
    return rows


def _row(scores: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    own, teacher = [score[name] for score in scores], [score["HEFT"] for score in scores]
    ratio = geometric_mean_ratio(own, teacher)
    return {
        "contender": name,
        "problems": len(scores),
        "over_heft": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "ratio_of_means": float(np.mean(own) / np.mean(teacher)),
        "worst": float(np.max(np.array(own) / np.array(teacher))),
    }


def draw_large(tasks: int, devices: int = 188) -> Problem:
    """A problem of the document's size, durations as work over speed."""
    cluster = draw_cluster(1, devices)
    return Problem.bind(
        scale_ccr(workflow_of(draw_job_list(1, tasks), seed=1), 1.0, cluster), cluster
    )
