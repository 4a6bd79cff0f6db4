"""Streams of jobs: arrivals, load, deadlines and priorities.

Offered load is arrival rate / capacity. Capacity (jobs per second)
is one of:

- ``fluid``: the highest rate that any sharing of the devices can keep up with, without regard to
  dependencies, transfers and batches: a linear program over the time each device gives to each
  class of tasks (Al-Azzoni and Down 2008). Load 1 is then the true edge of stability.
- ``mean``: devices / E[seconds of a job when each task takes its mean over its devices].
- ``best``: devices / E[seconds of a job when each task runs on its fastest device].

Tasks of a conditional workflow count by how often they run.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import number, one_of, whole
from weft.errors import InvalidInput
from weft.generators.ccr import scale_ccr
from weft.generators.generators import generator_options, refuse_huge
from weft.generators.layered import layered
from weft.model import Cluster, Problem, Workload
from weft.model.columns import FloatArray, IntArray
from weft.model.machines.capacity import fluid_capacity, sampled_run_probability
from weft.model.metrics import critical_path
from weft.registry import reject_unknown
from weft.rng import generator
from weft.typed import typed

PROCESSES = ("batch", "poisson", "regular", "normal", "trace")
CAPACITIES = ("fluid", "mean", "best")


@typed
def arrivals(
    jobs: int,
    process: str = "poisson",
    *,
    rate: float = 1.0,
    deviation: float = 0.5,
    times: ArrayLike = (),
    seed: int = 0,
) -> FloatArray:
    """Draw when jobs arrive, in seconds.

    Parameters
    ----------
    process : `batch` (all at 0), `poisson`, `regular`, `normal` (gaps with mean 1 / rate) or
        `trace`
    rate : mean jobs per second
    deviation : standard deviation of normal gaps as a share of their mean; a negative gap moves a
        job before the one drawn earlier
    times : arrivals of a trace; its first jobs, moved and stretched so that the first one comes at
        0 and the mean rate is `rate`

    Examples
    --------
    >>> arrivals(3, "regular", rate=2.0)
    array([0.5, 1. , 1.5])
    >>> arrivals(3, "trace", times=[100.0, 101.0, 104.0, 900.0], rate=1.0)
    array([0. , 0.5, 2. ])
    """
    jobs, rate = whole(jobs, "jobs"), number(rate, "rate", above=True)
    one_of(process, "process", PROCESSES)
    rng = generator(seed, "arrivals", process)
    if process == "batch":
        return np.zeros(jobs)
    if process == "trace":
        return _trace(jobs, rate, times)
    if process == "poisson":
        return np.cumsum(rng.exponential(1.0 / rate, jobs))
    if process == "regular":
        return np.arange(1, jobs + 1) / rate
    return np.maximum(
        np.cumsum(rng.normal(1.0 / rate, number(deviation, "deviation") / rate, jobs)), 0.0
    )


@typed
def rate_for_load(
    problems: Sequence[Problem],
    load: float,
    *,
    capacity: str = "fluid",
    weights: ArrayLike | None = None,
) -> float:
    """Return the rate (jobs per second) at which a mix of problems offers `load`.

    Examples
    --------
    >>> p = Problem.from_arrays(work=[3.0, 3.0], speed=[1.0, 2.0])
    >>> rates = [rate_for_load([p], 0.5, capacity=c) for c in ("fluid", "mean", "best")]
    >>> [round(rate, 6) for rate in rates]  # 0.5 * (3 / 6, 2 / 4.5, 2 / 3)
    [0.25, 0.222222, 0.333333]
    """
    load = number(load, "load", above=True)
    one_of(capacity, "capacity", CAPACITIES)
    share = _shares(problems, weights)
    if capacity == "fluid":
        return load * _fluid_capacity(problems, share)
    demand = [
        (_expected_work(p) * (p.mean_per_work if capacity == "mean" else p.best_per_work)).sum()
        for p in problems
    ]
    return load * problems[0].p / _positive(float(share @ np.array(demand)))


@typed
def minimum_path(problem: Problem) -> float:
    """Return the seconds of the longest path on fastest devices, without transfers.

    Examples
    --------
    >>> minimum_path(Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [9.0], bandwidth=1.0))
    4.0
    """
    return critical_path(problem)


@typed
def deadlines(
    problems: Sequence[Problem], template: IntArray, arrival: FloatArray, *, slack: float
) -> FloatArray:
    """Return arrival + slack * the minimum path of each job's problem."""
    paths = np.array([minimum_path(p) for p in problems])
    return arrival + number(slack, "slack", above=True) * paths[template]


@typed
def priorities(jobs: int, *, levels: int = 3, seed: int = 0) -> FloatArray:
    """Draw priorities 0 to levels - 1, each as likely."""
    return (
        generator(seed, "priorities")
        .integers(0, whole(levels, "levels"), whole(jobs, "jobs"))
        .astype(float)
    )


@typed
def stream_of(
    problems: Problem | Sequence[Problem],
    *,
    jobs: int = 100,
    process: str = "poisson",
    load: float | None = None,
    rate: float | None = None,
    capacity: str = "fluid",
    weights: ArrayLike | None = None,
    deviation: float = 0.5,
    times: ArrayLike = (),
    slack: float | None = None,
    levels: int = 1,
    name: str | None = None,
    seed: int = 0,
) -> Workload:
    """Make a workload: each job is one of the problems, drawn by `weights`.

    Give `rate` (jobs per second) or `load` (share of capacity, see this module; 0.7 when neither is
    given); a batch needs neither. `slack` gives deadlines, `levels` above 1 priorities.

    Examples
    --------
    >>> p = Problem.from_arrays(work=[3.0, 3.0], speed=[1.0, 2.0])
    >>> w = stream_of(p, jobs=4, process="regular", load=0.5, slack=2.0)
    >>> w.arrival.tolist(), (w.deadline - w.arrival).tolist()
    ([4.0, 8.0, 12.0, 16.0], [3.0, 3.0, 3.0, 3.0])
    """
    problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
    share, jobs = _shares(problems, weights), whole(jobs, "jobs")
    least = max(1, min(problem.n for problem in problems))
    refuse_huge(jobs * least, f"a stream of {jobs} jobs")
    if load is not None and rate is not None:
        raise InvalidInput(f"give either load ({load}) or rate ({rate}), not both")
    if process == "batch":
        rate = 1.0
    elif rate is None:
        rate = rate_for_load(
            problems, 0.7 if load is None else load, capacity=capacity, weights=weights
        )
    arrival = np.sort(
        arrivals(jobs, process, rate=rate, deviation=deviation, times=times, seed=seed),
        kind="stable",
    )
    template = (
        generator(seed, "stream", "template")
        .choice(len(problems), size=jobs, p=share)
        .astype(np.int64)
    )
    return Workload.of(
        problems,
        arrival=arrival,
        template=template,
        deadline=np.inf if slack is None else deadlines(problems, template, arrival, slack=slack),
        priority=priorities(jobs, levels=levels, seed=seed),
        name=name,
    )


@typed
def dag_jobs(
    cluster: Cluster,
    *,
    jobs: int = 20,
    tasks: tuple[int, int] = (20, 150),
    templates: int | None = None,
    ccr: float = 1.0,
    process: str = "poisson",
    load: float | None = None,
    rate: float | None = None,
    slack: float | None = None,
    levels: int = 1,
    seed: int = 0,
    **shape: Any,
) -> Workload:
    """Make a stream of random layered DAGs.

    Each of the `templates` (one per job when not given) has a number of tasks drawn from the closed
    range `tasks`; `ccr` holds for each on this cluster (not on a single device, where nothing
    moves). Further options go to `layered`.

    Examples
    --------
    >>> w = dag_jobs(Cluster(speed=[1.0, 2.0], bandwidth=1e9), jobs=3, process="batch", seed=1)
    >>> w.jobs, all(20 <= p.n <= 150 for p in w.problems)
    (3, True)
    """
    own = [name for name in inspect.signature(dag_jobs).parameters if name != "shape"]
    reject_unknown(shape, (*generator_options("layered"), *own), "dag_jobs")
    low, high = whole(tasks[0], "tasks"), whole(tasks[1], "tasks", least=tasks[0])
    count = whole(jobs, "jobs") if templates is None else whole(templates, "templates")
    sizes = generator(seed, "dag_jobs", "tasks").integers(low, high + 1, count).tolist()
    seeds = generator(seed, "dag_jobs", "seeds").integers(0, 2**31, count).tolist()
    problems = [_job(cluster, n, ccr, s, shape) for n, s in zip(sizes, seeds, strict=True)]
    drawn = stream_of(
        problems,
        jobs=jobs,
        process=process,
        load=load,
        rate=rate,
        slack=slack,
        levels=levels,
        name="dag_jobs",
        seed=seed,
    )
    if templates is not None:
        return drawn
    each = np.arange(jobs)  # every problem once, not drawn with repetition
    deadline = (
        drawn.deadline if slack is None else deadlines(problems, each, drawn.arrival, slack=slack)
    )
    return dataclasses.replace(drawn, template=each, deadline=deadline)


def _job(cluster: Cluster, tasks: int, ccr: float, seed: int, shape: dict[str, Any]) -> Problem:
    workflow = layered(tasks=tasks, ccr=ccr, seed=seed, **shape)
    return Problem.bind(scale_ccr(workflow, ccr, cluster) if cluster.p > 1 else workflow, cluster)


def _trace(jobs: int, rate: float, times: ArrayLike) -> FloatArray:
    found = np.sort(np.asarray(times, float).reshape(-1), kind="stable")[:jobs]
    if len(found) < jobs:
        raise InvalidInput(
            f"a trace of {len(found)} times cannot give {jobs} arrivals; ask for fewer jobs"
        )
    if not np.isfinite(found).all():
        raise InvalidInput("the times of a trace must be finite numbers")
    moved: FloatArray = found - found[0]
    return moved * ((jobs - 1) / rate / moved[-1]) if moved[-1] > 0 else moved


def _shares(problems: Sequence[Problem], weights: ArrayLike | None) -> FloatArray:
    if not problems:
        raise InvalidInput("a stream needs at least one problem")
    share = np.ones(len(problems)) if weights is None else np.asarray(weights, float).reshape(-1)
    if len(share) != len(problems) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise InvalidInput(
            f"weights are {share.tolist()}; {len(problems)} problems need as many, zero or more, "
            "not all zero"
        )
    normed: FloatArray = share / share.sum()
    return normed


def _expected_work(problem: Problem) -> FloatArray:
    """Return (k,) units of work per job in each row of the per_work matrix."""
    choices = problem.workflow.choices
    share = [choices.probability[choices.branches(c)] for c in range(len(choices))]
    weights = problem.work * (sampled_run_probability(problem.workflow, share) if share else 1.0)
    return np.bincount(problem.row, weights=weights, minlength=len(problem.per_work)).astype(float)


def _fluid_capacity(problems: Sequence[Problem], share: FloatArray) -> float:
    """Return the fluid capacity of a mix of problems."""
    work = np.concatenate([s * _expected_work(p) for s, p in zip(share, problems, strict=True)])
    classes, member = np.unique(
        np.concatenate([p.per_work for p in problems]), axis=0, return_inverse=True
    )
    demand = np.bincount(member.reshape(-1), weights=work, minlength=len(classes)).astype(float)
    _positive(float(demand.sum()))
    classes, demand = classes[demand > 0], demand[demand > 0]
    if len(classes) == 1:
        return float((1.0 / classes[0]).sum() / demand[0])
    return fluid_capacity(classes, demand)


def _positive(demand: float) -> float:
    if not demand > 0:
        raise InvalidInput(
            "jobs that take no time ask for no capacity; give a rate instead of a load"
        )
    return demand
