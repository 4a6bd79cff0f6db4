"""Problems of the DeepSched comparison, and mean turnaround in the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np

from weft.experiments.harness import data_folder
from weft.experiments.imitation.contenders import PlanFunction
from weft.experiments.imitation.job_lists import list_workload, read_job_lists
from weft.generators import generate_problem, scale_ccr
from weft.learn.imitation.deepsched.data import (
    JobList,
    draw_cluster,
    draw_job_list,
    problem_stream,
    workflow_of,
)
from weft.learn.imitation.deepsched.examples import batch_problems
from weft.model import Cluster, Problem, Workload
from weft.model.check import check
from weft.rng import generator
from weft.sim.simulate import simulate

SIZES = ((10, 100), (100, 500), (500, 2000))
"""Numbers of tasks: lower limits, and upper limits that only the last range includes."""

FRESH = 77
"""Seed of unseen problems."""

SHAPES = ("cholesky", "lu", "fft", "gauss", "montage", "epigenomics", "cybershake", "map_reduce")
"""Structures that no network was trained on."""


@dataclass(frozen=True, eq=False)
class TurnaroundCase:
    """A workload of the comparison, usually a single workflow at time 0."""

    group: str
    size: str
    workload: Workload

    @classmethod
    def of(cls, group: str, problem: Problem) -> TurnaroundCase:
        """Return a case with a single workflow at time 0."""
        return cls(group, size_of(problem.n), Workload.of(problem))


def size_of(tasks: int) -> str:
    """Return the size range of a number of tasks.

    Examples
    --------
    >>> size_of(99), size_of(100), size_of(2000)
    ('10 to 99', '100 to 499', '500 to 2000')
    """
    for low, high in SIZES[:-1]:
        if tasks < high:
            return f"{low} to {high - 1}"
    return f"{SIZES[-1][0]} to {SIZES[-1][1]}"


def turnaround(workload: Workload, planner: PlanFunction) -> float:
    """Return the mean of finish minus arrival over all tasks, simulated.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> from weft.experiments.imitation.contenders import heft
    >>> turnaround(Workload.of(problem), heft)  # 1 s and 5 s
    3.0
    """
    plans = [planner(problem) for problem in workload.problems]
    for problem, schedule in zip(workload.problems, plans, strict=True):
        violations = check(problem, schedule)
        assert not violations, f"{problem.name}: {violations[0]}"
    trace = simulate(workload, plans)
    return float((trace.finish - workload.arrival[trace.job]).mean())


# -- problems --------------------------------------------------------------------------


def stream_cases(number: int, *, training_seed: int) -> Iterator[TurnaroundCase]:
    """Yield `number` training problems per size, and the same number of unseen ones."""
    seen = (
        p
        for batch in range(8, 10_000)
        if batch % 50 != 49
        for p in batch_problems(training_seed, batch)
    )
    yield from _by_size("seen", seen, number)
    yield from _by_size("unseen", problem_stream(FRESH, largest=SIZES[-1][1]), number)


def _by_size(group: str, problems: Iterable[Problem], number: int) -> Iterator[TurnaroundCase]:
    left = {size_of(low): number for low, _ in SIZES}
    for problem in problems:
        case = TurnaroundCase.of(group, problem)
        if left[case.size]:
            left[case.size] -= 1
            yield case
        if not any(left.values()):
            return


def shape_cases(number: int) -> Iterator[TurnaroundCase]:
    """Yield workflows of linear algebra and science, 30 to 2,000 tasks."""
    for k in range(number):
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


def list_cases(number: int) -> tuple[list[TurnaroundCase], bool]:
    """Return cases of job lists, and whether the lists are the document's."""
    lists, real = job_lists(number)
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


def job_lists(number: int) -> tuple[list[JobList], bool]:
    """Return the lists in $WEFT_DATA, or else drawn lists with the same statistics."""
    folder = data_folder("deepsched_jobs/dev")
    if folder is not None:
        lists = read_job_lists(folder / "job_lists.json.gz")
        return list(islice(lists.values(), number)), True
    return [draw_job_list(FRESH + k) for k in range(number)], False


def document_cluster(machines: int = 16) -> Cluster:
    """Return the machines of all problems: the document's network needs one set."""
    return draw_cluster(5, machines)


def document_problems(seed: int, *, tasks: int, machines: int = 16) -> Iterator[Problem]:
    """Yield problems of 20 to `tasks` tasks on the machines of `document_cluster`."""
    cluster = document_cluster(machines)
    for k in count():
        rng = generator(seed, "deepsched", "document", k)
        n = int(np.exp(rng.uniform(np.log(20), np.log(tasks + 1))))
        workflow = workflow_of(
            draw_job_list(int(rng.integers(2**31)), n), seed=int(rng.integers(2**31))
        )
        yield Problem.bind(scale_ccr(workflow, float(np.exp(rng.uniform(-2, 1)))), cluster)


def draw_large(tasks: int, devices: int = 188, *, seed: int = 1) -> Problem:
    """Return a problem of the document's size; durations are work over speed."""
    cluster = draw_cluster(1, devices)
    return Problem.bind(
        scale_ccr(workflow_of(draw_job_list(seed, tasks), seed=seed), 1.0, cluster), cluster
    )


def score_cases(
    cases: Iterable[TurnaroundCase], planners: Mapping[str, PlanFunction]
) -> list[dict[str, Any]]:
    """Return the mean turnaround of every contender on every case."""
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
