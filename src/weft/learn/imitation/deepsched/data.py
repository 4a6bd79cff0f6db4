"""Problems of DeepSched: generated ones, drawn on demand, and job lists.

The document has 100,000 samples of 486 to 84,654 tasks on 188 processors. Its public repository
has lists of up to 485 independent jobs only, with arrival, burst and priority; lists like those are
drawn. Problem number i of a seed is the same problem in every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.generators import layered, scale_ccr, unrelated_problem, with_affinity
from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray, IntArray
from weft.rng import generator

LARGEST, MOST_DEVICES = 84_654, 188
"""Largest numbers of tasks and processors in the document."""

DENSE = 200_000
"""Largest tasks x devices of a problem with an independent duration for every pair."""

PRIORITIES = {0: 0.48, 2: 0.078, 4: 0.030, 6: 0.007, 8: 0.005, 10: 0.40}
"""Share of every priority in the job lists."""


@dataclass(frozen=True, eq=False)
class JobList:
    """Jobs of a list: seconds of arrival and burst, and priority (0 to 10)."""

    arrival: FloatArray
    burst: FloatArray
    priority: IntArray

    def __len__(self) -> int:
        return len(self.burst)


def draw_job_list(seed: int, jobs: int | None = None) -> JobList:
    """Draw a list like those of the document's repository.

    Measured there: 110 to 485 jobs; the logarithm of the burst has a mean of 6.0 +- 2.3 over lists
    and a deviation of 2.7 +- 1.2 within a list; one arrival in 25 jobs is new, and the logarithm of
    the gap is 3.3 +- 3.4; neighbours often share burst (22 %) and priority (75 %).

    Examples
    --------
    >>> jobs = draw_job_list(1)
    >>> 110 <= len(jobs) <= 485, float(jobs.burst.min()) >= 1.0
    (True, True)
    """
    rng = generator(seed, "deepsched", "jobs")
    n = int(rng.integers(110, 486)) if jobs is None else jobs
    burst = np.exp(
        rng.normal(6.0, 2.3) + np.clip(rng.normal(2.65, 1.25), 0.0, 6.0) * rng.standard_normal(n)
    )
    priority = rng.choice(
        list(PRIORITIES), size=n, p=np.array(list(PRIORITIES.values())) / sum(PRIORITIES.values())
    )
    gaps = np.where(
        rng.random(n) < 1 / 25, np.exp(np.clip(rng.normal(3.3, 3.4, n), 0.0, 10.0)), 0.0
    )
    return JobList(
        np.floor(np.cumsum(gaps)),
        np.clip(np.rint(_repeated(burst, rng.random(n) < 0.22)), 1.0, 6e6),
        _repeated(priority, rng.random(n) < 0.65).astype(np.int64),
    )


def _repeated(values: Any, again: Any) -> Any:
    """Replace the values at `again` by the value before."""
    source = np.maximum.accumulate(np.where(again, 0, np.arange(len(values))))
    return values[source]


# -- machines and graphs ---------------------------------------------------------------


def draw_cluster(seed: int, devices: int) -> Cluster:
    """Draw machines with cores, frequency (their speed) and memory, and their links.

    Examples
    --------
    >>> draw_cluster(0, 188).p
    188
    """
    rng = generator(seed, "deepsched", "cluster")
    spread = rng.uniform(0.0, 1.6)
    speed = rng.uniform(1.0 - spread / 2, 1.0 + spread / 2, devices)
    memory = rng.choice([8e9, 16e9, 32e9, 64e9], devices)
    memory[rng.integers(devices)] = 64e9  # at least one device can run every task
    links = rng.uniform(1.0, 1.0 + rng.choice([0.0, 3.0]), (devices, devices))
    return Cluster(
        name=f"deepsched-{devices}",
        speed=speed,
        cores=rng.choice([1, 2, 4, 8], devices),
        memory=memory,
        bandwidth=1e9 * np.minimum(links, links.T),
        latency=0.0,  # type: ignore[arg-type]  # a scalar fills the matrix
    )


def workflow_of(jobs: JobList, *, seed: int, name: str = "jobs") -> Workflow:
    """Add what job lists lack: data, memory and layered edges in order of arrival."""
    rng = generator(seed, "deepsched", "graph")
    n = len(jobs)
    shape = layered(
        tasks=n,
        alpha=float(np.exp(rng.uniform(-1.2, 1.4))),
        density=float(rng.uniform(0.05, 0.8)),
        regularity=float(rng.uniform(0.0, 1.0)),
        jump=int(rng.integers(1, 4)),
        seed=int(rng.integers(2**31)),
    )
    order = np.argsort(jobs.arrival, kind="stable")
    return Workflow(
        name=name,
        work=jobs.burst,
        src=order[shape.src],
        dst=order[shape.dst],
        data=shape.data,
        memory=rng.choice([1e9, 4e9, 12e9], n, p=[0.6, 0.35, 0.05]),
    )


def draw_problem(seed: int, *, tasks: int, devices: int, jobs: JobList | None = None) -> Problem:
    """Draw a layered problem, with durations of one of three kinds of heterogeneity.

    Examples
    --------
    >>> a, b = (draw_problem(7, tasks=60, devices=5) for _ in range(2))
    >>> a.n, a.p, bool((a.workflow.data == b.workflow.data).all())
    (60, 5, True)
    """
    rng = generator(seed, "deepsched", "problem")
    cluster = draw_cluster(int(rng.integers(2**31)), devices)
    graph, costs = int(rng.integers(2**31)), int(rng.integers(2**31))
    if jobs is None:
        burst = np.exp(rng.choice([0.3, 0.7, 1.2, 2.5]) * rng.standard_normal(tasks))
        jobs = JobList(np.zeros(tasks), burst, np.zeros(tasks, np.int64))
    workflow = workflow_of(jobs, seed=graph)
    ccr = float(np.exp(rng.uniform(np.log(0.05), np.log(10.0))))
    if devices > 1:
        workflow = scale_ccr(workflow, ccr, cluster)
    return _bind(workflow, cluster, int(rng.integers(3)), float(rng.uniform(0.1, 1.8)), costs)


def _bind(
    workflow: Workflow, cluster: Cluster, way: int, heterogeneity: float, seed: int
) -> Problem:
    """Bind to related devices (0), affinities of kinds (1), unrelated durations (2)."""
    if way == 0 or (way == 2 and workflow.n * cluster.p > DENSE):
        return Problem.bind(workflow, cluster)
    if way == 2:
        return unrelated_problem(workflow, cluster, heterogeneity=heterogeneity, seed=seed)
    kinds = tuple(f"k{k}" for k in range(4))
    models = replace(cluster, kinds=tuple(f"m{d % 5}" for d in range(cluster.p)))
    kind = generator(seed, "deepsched", "kinds").integers(0, len(kinds), workflow.n)
    typed = replace(workflow, kinds=kinds, kind=kind)
    return Problem.bind(typed, with_affinity(models, kinds, heterogeneity=heterogeneity, seed=seed))


def problem_stream(
    seed: int, *, first: int = 0, largest: int = 2000, devices: tuple[int, int] = (2, MOST_DEVICES)
) -> Iterator[Problem]:
    """Yield problems without end; sizes are log-uniform from 10 tasks, 2 devices on.

    Every fourth problem has the bursts of a job list.

    Examples
    --------
    >>> one = [p.n for p, _ in zip(problem_stream(3), range(4))]
    >>> two = [p.n for p, _ in zip(problem_stream(3, first=2), range(2))]
    >>> one[2:] == two
    True
    """
    i = first
    while True:
        rng = generator(seed, "deepsched", "stream", i)
        tasks = int(np.exp(rng.uniform(np.log(10), np.log(largest + 1))))
        count = int(np.exp(rng.uniform(np.log(devices[0]), np.log(devices[1] + 1))))
        jobs = draw_job_list(int(rng.integers(2**31)), tasks) if i % 4 == 3 else None
        yield draw_problem(int(rng.integers(2**31)), tasks=tasks, devices=count, jobs=jobs)
        i += 1
