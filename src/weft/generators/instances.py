"""Instances of the GPU-cluster experiments, by condition.

An instance is a workflow on several GPU types, in a condition. `static`: costs are as estimated.
`noisy`: durations are drawn around the estimate. `failing`: devices slow down, fail and recover.
`biased`: estimates are wrong by task kind and device kind. `changing`: all of these. `stream`: jobs
arrive, with deadlines and priorities, and their durations are noisy.

The amounts are our own choice; none are published.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.arguments import number, one_of, whole
from weft.generators.ccr import scale_ccr
from weft.generators.generators import generate
from weft.generators.layered import layered
from weft.generators.machines.catalogue import catalogue
from weft.generators.machines.clusters import gpu_cluster
from weft.generators.workloads import minimum_path, stream_of
from weft.model import Cluster, Problem, Scenario, Workflow, Workload
from weft.rng import generator
from weft.typed import typed, typed_class, typed_dataclass

TASK_KINDS = 4


@typed_dataclass(frozen=True)
class Condition:
    """How scenarios differ from estimates (`Scenario.draw`), and if jobs are a stream."""

    noise: float = 0.0
    bias: float = 0.0
    slowdowns: float = 0.0
    failures: float = 0.0
    stream: bool = False


CONDITIONS = {
    "static": Condition(),
    "noisy": Condition(noise=0.3),
    "failing": Condition(slowdowns=1.0, failures=0.5),
    "biased": Condition(bias=0.4),
    "changing": Condition(noise=0.2, bias=0.3, slowdowns=1.0, failures=0.5),
    "stream": Condition(noise=0.2, stream=True),
}


@typed_class
class Instance(NamedTuple):
    """A workload and one future of it."""

    workload: Workload
    scenario: Scenario


@typed
def draw_instance(
    condition: str | Condition = "static",
    *,
    seed: int = 0,
    tasks: int | tuple[int, int] = (20, 150),
    jobs: int = 1,
    ccr: float = 1.0,
    load: float = 0.8,
    structure: str = "layered",
    cluster: Cluster | None = None,
) -> Instance:
    """Draw a workload and its future.

    Parameters
    ----------
    condition : a name of `CONDITIONS`, or amounts of your own
    tasks : number of tasks of each job, or the closed range from which it is drawn; for structures
        other than `layered`, an upper limit
    jobs : all arrive at once; in a stream one after the other, at `load` times the rate that the
        cluster can sustain
    structure : a generator's name
    cluster : by default one drawn from the catalogue: see `heterogeneous_gpus`

    Examples
    --------
    >>> case = draw_instance("noisy", seed=1, tasks=30)
    >>> case.workload.instances, len(set(case.workload.cluster.kinds)) > 1
    (30, True)
    """
    machines = cluster or heterogeneous_gpus(seed)
    problems = [
        draw_problem(machines, seed=_seed(seed, j), tasks=tasks, ccr=ccr, structure=structure)
        for j in range(whole(jobs, "jobs"))
    ]
    return instance_of(problems, condition, seed=seed, load=load)


@typed
def instance_of(
    problems: Sequence[Problem],
    condition: str | Condition = "static",
    *,
    seed: int = 0,
    load: float = 0.8,
) -> Instance:
    """Make a workload with one job per problem, and draw its scenario.

    Examples
    --------
    >>> cluster = heterogeneous_gpus(1)
    >>> problems = [draw_problem(cluster, seed=seed, tasks=10, ccr=1.0) for seed in range(3)]
    >>> case = instance_of(problems, "stream")
    >>> case.workload.jobs, bool((case.workload.arrival[1:] > 0).all())
    (3, True)
    """
    kind = _condition(condition) if isinstance(condition, str) else condition
    workload = _stream(problems, load, seed) if kind.stream else Workload.of(problems)
    return Instance(workload, draw_scenario(workload, kind, seed=seed))


def _condition(name: str) -> Condition:
    return CONDITIONS[one_of(name, "condition", tuple(CONDITIONS))]


@typed
def draw_scenario(workload: Workload, condition: Condition, *, seed: int = 0) -> Scenario:
    """Draw a scenario; changes of slowdown last up to 1.5 times the expected makespan."""
    span = float(workload.arrival.max(initial=0.0)) + 1.5 * _busy_seconds(workload)
    amounts = dataclasses.asdict(condition)
    del amounts["stream"]
    return Scenario.draw(workload, seed=seed, horizon=span, **amounts)


@typed
def draw_problem(
    cluster: Cluster,
    *,
    seed: int,
    tasks: int | tuple[int, int],
    ccr: float,
    structure: str = "layered",
) -> Problem:
    """Draw one workflow of random shape on a cluster, with exactly the given CCR."""
    rng = generator(seed, "conditions", "problem")
    low, high = _range(tasks)
    size = int(rng.integers(low, high + 1))
    if structure == "layered":
        workflow = layered(
            tasks=size,
            alpha=float(rng.choice([0.5, 1.0, 2.0])),
            density=float(rng.choice([0.2, 0.5, 0.8])),
            regularity=float(rng.choice([0.2, 0.8])),
            jump=int(rng.choice([1, 2])),
            sigma=float(rng.choice([0.5, 1.0])),
            kinds=TASK_KINDS,
            seed=seed,
        )
    else:
        workflow = fit_workflow(generate(structure, tasks=size, seed=seed), cluster)
    return Problem.bind(
        scale_ccr(workflow, number(ccr, "ccr"), cluster) if cluster.p > 1 else workflow, cluster
    )


@typed
def fit_workflow(workflow: Workflow, cluster: Cluster) -> Workflow:
    """Rescale a workflow to the units of the drawn ones; its proportions stay.

    Work has mean 1 (so that latencies weigh the same everywhere), and kinds are those of the
    cluster. Needs of memory and cores, made for other machines, are dropped. Durations measured by
    device become work by their mean.

    Examples
    --------
    >>> workflow = Workflow(work=[2.0, 6.0], src=[0], dst=[1], data=[5.0])
    >>> fit_workflow(workflow, heterogeneous_gpus(1)).work.tolist()
    [0.5, 1.5]
    """
    columns = [np.asarray(column, float) for column in workflow.durations.values()]
    work = np.nanmean(columns, axis=0) if columns else workflow.work
    mean = float(work.mean()) if workflow.n else 0.0
    fields: dict[str, Any] = {
        "work": work / mean if mean > 0 else work,
        "durations": {},
        "memory": 0.0,
        "cores": 1,
    }
    return with_kinds(dataclasses.replace(workflow, **fields), cluster)


@typed
def heterogeneous_gpus(
    seed: int = 0, *, kinds: int | None = None, most: int = 4, spread: float = 0.3
) -> Cluster:
    """Draw a cluster of 2 to 4 GPU types, 1 to `most` of each, a node for each type.

    Types differ in speed, and by `spread` (a standard deviation of logarithms) in what they are
    good at: each task kind has its own throughput on each type, as measured for deep learning jobs
    (Narayanan et al. 2020, figure 1).
    """
    rng = generator(seed, "conditions", "cluster")
    names = [name for name, model in catalogue().items() if model.cores == 1]
    chosen = sorted(
        rng.choice(len(names), size=kinds or int(rng.integers(2, 5)), replace=False).tolist()
    )
    plain = gpu_cluster("+".join(f"{int(rng.integers(1, most + 1))}x{names[g]}" for g in chosen))
    types = list(dict.fromkeys(plain.kinds))
    factor = np.exp(spread * rng.standard_normal((TASK_KINDS, len(types))))
    column = [types.index(kind) for kind in plain.kinds]
    return dataclasses.replace(
        plain, throughput={f"k{k}": plain.speed * factor[k, column] for k in range(TASK_KINDS)}
    )


def with_kinds(workflow: Workflow, cluster: Cluster) -> Workflow:
    """Rename task kinds, in turn, to the kinds that the cluster distinguishes."""
    known = list(cluster.throughput)
    if not known or set(workflow.kinds) <= set(known):
        return workflow
    fields: dict[str, Any] = {"kinds": tuple(known), "kind": workflow.kind % len(known)}
    return dataclasses.replace(workflow, **fields)


def _stream(problems: Sequence[Problem], load: float, seed: int) -> Workload:
    drawn = stream_of(
        problems, jobs=len(problems), load=number(load, "load", above=True), levels=3, seed=seed
    )
    each = np.arange(len(problems))
    paths = np.array([minimum_path(p) for p in problems])
    slack = generator(seed, "conditions", "slack").uniform(2.0, 6.0, len(problems))
    return dataclasses.replace(drawn, template=each, deadline=drawn.arrival + slack * paths)


def _busy_seconds(workload: Workload) -> float:
    """Return the rough seconds of concurrent jobs: their area, and their longest path."""
    area = (
        sum(float((p.work * p.mean_per_work[p.row]).sum()) for p in workload.problems)
        / workload.cluster.p
    )
    return area + max(minimum_path(p) for p in workload.problems)


def _range(tasks: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(tasks, tuple):
        low = whole(tasks[0], "tasks")
        return low, whole(tasks[1], "tasks", least=low)
    return whole(tasks, "tasks"), tasks


def _seed(seed: int, job: int) -> int:
    return int(generator(seed, "conditions", "job", job).integers(0, 2**31))
