"""The points of the GPU-cluster experiment: what is drawn at each, and played by everybody."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import contender
from weft.experiments.gpu_cluster.evaluator import FIGURES, Evaluator, Figures
from weft.generators import CONDITIONS, Instance, draw_instance, draw_scenario, heterogeneous_gpus
from weft.model import Cluster

CCRS = (0.1, 1.0, 5.0)
AT_ONCE = ("static", "noisy", "failing", "biased", "changing")
"""Conditions in which all jobs are there from the beginning."""
STRUCTURES = (
    "cholesky",
    "lu",
    "fft",
    "montage",
    "epigenomics",
    "wfinstances",
    "tpch_spark",
    "ml_dags",
)
"""Never seen in training: generators, and folders of measured graphs."""
FIRST_SEED = 1_000_000
"""Seeds of the evaluation begin here; no training or tuning draws these."""
JOB_TASKS = (15, 25)
"""Tasks of a job where the number of jobs is what varies: about 20."""


@dataclass(frozen=True)
class ExperimentPlan:
    """How much is done. Seeds are counted for each axis; with exact costs there are more of one job (`static_seeds`).

    The number of jobs varies at `job_ccrs` only: planning thousands of tasks anew at every event takes a baseline ten seconds a run.
    """

    tasks: tuple[int, ...]
    jobs: tuple[int, ...]
    loads: tuple[float, ...]
    devices: tuple[int, ...]
    seeds: int
    static_seeds: int
    job_seeds: int
    stream_seeds: int
    stream_jobs: int
    stream_tasks: tuple[int, int]
    transfer_seeds: int
    uniform: tuple[int, ...]
    ccrs: tuple[float, ...] = CCRS
    job_ccrs: tuple[float, ...] = (1.0,)
    conditions: tuple[str, ...] = AT_ONCE
    structures: tuple[str, ...] = STRUCTURES
    tuned: tuple[str, ...] = ("cholesky", "montage", "wfinstances")
    tuning_seconds: float = 60.0
    native_seconds: float = 120.0
    timing_rounds: int = 15
    processes: int = 2


FULL = ExperimentPlan(
    tasks=(20, 50, 80, 110, 150),
    jobs=(20, 60, 150),
    loads=(0.6, 0.8, 0.95),
    devices=(4, 8, 16),
    seeds=30,
    static_seeds=45,
    job_seeds=30,
    stream_seeds=30,
    stream_jobs=40,
    stream_tasks=(20, 150),
    transfer_seeds=10,
    uniform=(40, 100),
)
QUICK = ExperimentPlan(
    tasks=(20, 60, 150),
    jobs=(20, 40),
    loads=(0.8, 0.95),
    devices=(4, 16),
    seeds=20,
    static_seeds=60,
    job_seeds=3,
    stream_seeds=6,
    stream_jobs=40,
    stream_tasks=(20, 150),
    transfer_seeds=6,
    uniform=(60,),
    tuned=("cholesky",),
    tuning_seconds=20.0,
    native_seconds=60.0,
    timing_rounds=7,
)


@dataclass(frozen=True)
class Point:
    """One draw of one axis: everybody plays it, in every condition."""

    axis: str
    x: float
    ccr: float
    seed: int
    conditions: tuple[str, ...]
    names: tuple[str, ...]
    stream_jobs: int = 0
    stream_tasks: tuple[int, int] = (20, 150)

    @property
    def key(self) -> str:
        """What it is called in the record of progress."""
        return f"{self.axis} {self.x:g} ccr {self.ccr:g} seed {self.seed}"


Played = dict[str, dict[str, list[float] | None]]
"""Condition -> contender -> figures, in the order of `FIGURES`; None: did not get to the end."""


def points(plan: ExperimentPlan, names: Sequence[str]) -> list[Point]:
    """All points of a plan: seeds outermost, so that a run that is stopped has every point with fewer seeds."""

    def at(axis: str, x: float, ccr: float, seed: int, conditions: tuple[str, ...]) -> Point:
        own = tuple(n for n in names if axis in contender(n).axes)
        return Point(
            axis, x, ccr, FIRST_SEED + seed, conditions, own, plan.stream_jobs, plan.stream_tasks
        )

    made = []
    exact = tuple(name for name in plan.conditions if name == "static")
    for seed in range(max(plan.seeds, plan.static_seeds, plan.job_seeds, plan.stream_seeds)):
        for ccr in plan.ccrs:
            if seed < plan.seeds:
                made += [at("tasks", x, ccr, seed, plan.conditions) for x in plan.tasks]
                made += [at("uniform", x, ccr, seed, ("static",)) for x in plan.uniform]
            elif seed < plan.static_seeds and exact:
                made += [at("tasks", x, ccr, seed, exact) for x in plan.tasks]
            if seed < plan.stream_seeds:
                made += [at("stream", x, ccr, seed, ("stream",)) for x in plan.loads]
        if seed < plan.job_seeds:
            made += [
                at("jobs", x, ccr, seed, plan.conditions)
                for ccr in plan.job_ccrs
                for x in plan.jobs
            ]
            made += [at("devices", x, min(plan.ccrs), seed, ("static",)) for x in plan.devices]
    return made


def draw(point: Point) -> tuple[Evaluator, dict[str, Any]]:
    """The workload of a point, and its future in each condition; the workload does not depend on the condition."""
    case = _case(point)
    futures = {
        name: draw_scenario(case.workload, CONDITIONS[name], seed=point.seed)
        for name in point.conditions
    }
    return Evaluator(case.workload, stream=point.axis == "stream"), futures


def _case(point: Point) -> Instance:
    ccr, seed = point.ccr, point.seed
    if point.axis == "stream":
        return draw_instance(
            "stream",
            seed=seed,
            jobs=point.stream_jobs,
            tasks=point.stream_tasks,
            ccr=ccr,
            load=point.x,
        )
    if point.axis == "tasks":
        return draw_instance("static", seed=seed, tasks=int(point.x), ccr=ccr)
    if point.axis == "uniform":
        return draw_instance(
            "static",
            seed=seed,
            tasks=int(point.x),
            ccr=ccr,
            cluster=uniform_links(heterogeneous_gpus(seed)),
        )
    if point.axis == "devices":
        return draw_instance(
            "static",
            seed=seed,
            tasks=JOB_TASKS,
            jobs=40,
            ccr=ccr,
            cluster=heterogeneous_gpus(seed, kinds=4, most=int(point.x)),
        )
    return draw_instance("static", seed=seed, tasks=JOB_TASKS, jobs=int(point.x), ccr=ccr)


def uniform_links(cluster: Cluster) -> Cluster:
    """The same devices with one bandwidth between any two: the mean time of a byte stays, the nodes are gone.

    Examples
    --------
    >>> flat = uniform_links(heterogeneous_gpus(1))
    >>> np.unique(flat.bandwidth[~np.eye(flat.p, dtype=bool)]).size
    1
    """
    pairs = cluster.p * (cluster.p - 1)
    fields: dict[str, Any] = {
        "bandwidth": pairs / float(cluster.per_byte.sum()),
        "latency": float(cluster.latency.sum()) / pairs,
    }
    return dataclasses.replace(cluster, nodes=("node0",) * cluster.p, **fields)


def play_point(point: Point) -> Played:
    """Everybody on one draw."""
    arena, futures = draw(point)
    return {
        name: {
            who: _row(arena.play(contender(who), future))
            for who in point.names
            if name == "static"
            or contender(who).kind
            != "yardstick"  # the search knows exact costs: no yardstick where nobody does
        }
        for name, future in futures.items()
    }


def _row(figures: Figures | None) -> list[float] | None:
    return None if figures is None else [float(f"{figures[key]:.9g}") for key in FIGURES]


def as_arrays(
    results: Iterable[tuple[Point, Played]],
) -> dict[tuple[str, float, float, str], dict[str, np.ndarray]]:
    """(axis, x, ccr, condition) -> contender -> (seeds, figures); NaN where somebody did not get to the end."""
    rows: dict[tuple[str, float, float, str], dict[str, list[list[float]]]] = {}
    for point, played in results:
        for condition, by_name in played.items():
            group = rows.setdefault((point.axis, point.x, point.ccr, condition), {})
            for name, row in by_name.items():
                group.setdefault(name, []).append([np.nan] * len(FIGURES) if row is None else row)
    return {
        key: {name: np.array(column) for name, column in group.items()}
        for key, group in rows.items()
    }
