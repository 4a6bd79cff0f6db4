"""Points of the GPU-cluster experiment, and the evaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weft.errors import WeftError
from weft.experiments.gpu_cluster.contenders import REFERENCE_MOVES, Contender, contender, policy
from weft.experiments.harness import Keyed
from weft.generators import (
    CONDITIONS,
    Instance,
    draw_instance,
    draw_scenario,
    heterogeneous_gpus,
    minimum_path,
)
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, Workload
from weft.model.columns import FloatArray, IntArray
from weft.model.metrics import sequential_time
from weft.model.trace import DONE
from weft.planners import PLANNERS, plan
from weft.planners.bounds import lower_bound
from weft.planners.objective import union
from weft.policies import simulate
from weft.policies.replanning.policy import ReplanningPolicy
from weft.progress import silent
from weft.sim.view import Policy

CCRS = (0.1, 1.0, 5.0)
WITHOUT_ARRIVALS = ("static", "noisy", "failing", "biased", "changing")
"""Conditions in which all jobs arrive at time 0."""
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
"""Structures without training data: generators, and folders of measured graphs."""
FIRST_SEED = 1_000_000
"""Seeds of the evaluation begin here; no training or tuning draws these."""
JOB_TASKS = (15, 25)
"""Tasks per job on the axis `jobs`: about 20."""


class Seeds(NamedTuple):
    """Number of draws: per point of an axis, of the static condition, and so on."""

    axis: int
    static: int
    jobs: int
    streams: int
    transfer: int


@dataclass(frozen=True)
class ExperimentPlan:
    """Amount of work: sizes, seeds per axis, and time limits.

    The number of jobs varies at `job_ccrs` only, because a baseline that re-plans thousands of
    tasks at every event takes ten seconds per run.
    """

    tasks: tuple[int, ...]
    jobs: tuple[int, ...]
    loads: tuple[float, ...]
    devices: tuple[int, ...]
    seeds: Seeds
    stream_jobs: int
    stream_tasks: tuple[int, int]
    uniform: tuple[int, ...]
    ccrs: tuple[float, ...] = CCRS
    job_ccrs: tuple[float, ...] = (1.0,)
    conditions: tuple[str, ...] = WITHOUT_ARRIVALS
    structures: tuple[str, ...] = STRUCTURES
    tuned: tuple[str, ...] = ("cholesky", "montage", "wfinstances")
    tuning_seconds: float = 60.0
    specialist_seconds: float = 120.0
    timing_rounds: int = 15
    processes: int = 2


FULL = ExperimentPlan(
    tasks=(20, 50, 80, 110, 150),
    jobs=(20, 60, 150),
    loads=(0.6, 0.8, 0.95),
    devices=(4, 8, 16),
    seeds=Seeds(axis=30, static=45, jobs=30, streams=30, transfer=10),
    stream_jobs=40,
    stream_tasks=(20, 150),
    uniform=(40, 100),
)
QUICK = replace(
    FULL,
    tasks=(20, 60, 150),
    jobs=(20, 40),
    loads=(0.8, 0.95),
    devices=(4, 16),
    seeds=Seeds(axis=20, static=60, jobs=3, streams=6, transfer=6),
    uniform=(60,),
    tuned=("cholesky",),
    tuning_seconds=20.0,
    specialist_seconds=60.0,
    timing_rounds=7,
)


@dataclass(frozen=True)
class Point(Keyed, key="{axis} {x:g} ccr {ccr:g} seed {seed}"):
    """One draw on one axis; all its contenders run on it in every condition."""

    axis: str
    x: float
    ccr: float
    seed: int
    conditions: tuple[str, ...]
    names: tuple[str, ...]
    stream_jobs: int = 0
    stream_tasks: tuple[int, int] = (20, 150)


PointResult = dict[str, dict[str, list[float] | None]]
"""Condition -> contender -> metrics, in the order of `FIGURES`; None: did not finish."""


def points(plan: ExperimentPlan, names: Sequence[str]) -> list[Point]:
    """Return all points of a plan; seeds are the outermost loop."""

    def at(axis: str, x: float, ccr: float, seed: int, conditions: tuple[str, ...]) -> Point:
        own = tuple(n for n in names if axis in contender(n).axes)
        return Point(
            axis, x, ccr, FIRST_SEED + seed, conditions, own, plan.stream_jobs, plan.stream_tasks
        )

    made = []
    exact = tuple(name for name in plan.conditions if name == "static")
    for seed in range(max(plan.seeds.axis, plan.seeds.static, plan.seeds.jobs, plan.seeds.streams)):
        for ccr in plan.ccrs:
            if seed < plan.seeds.axis:
                made += [at("tasks", x, ccr, seed, plan.conditions) for x in plan.tasks]
                made += [at("uniform", x, ccr, seed, ("static",)) for x in plan.uniform]
            elif seed < plan.seeds.static and exact:
                made += [at("tasks", x, ccr, seed, exact) for x in plan.tasks]
            if seed < plan.seeds.streams:
                made += [at("stream", x, ccr, seed, ("stream",)) for x in plan.loads]
        if seed < plan.seeds.jobs:
            made += [
                at("jobs", x, ccr, seed, plan.conditions)
                for ccr in plan.job_ccrs
                for x in plan.jobs
            ]
            made += [at("devices", x, min(plan.ccrs), seed, ("static",)) for x in plan.devices]
    return made


# -- evaluation -------------------------------------------------------------------------

FIGURES = (
    "makespan",
    "speedup",
    "slr",
    "jct",
    "misses",
    "fairness",
    "energy",
    "utilisation",
    "over_bound",
)
"""Metrics of every run, in this order; see `Evaluator.measure`."""

RunFigures = dict[str, float]


@dataclass(eq=False)
class Evaluator:
    """Runs contenders on a workload; plans and bounds are computed once."""

    workload: Workload
    stream: bool = False
    _plans: dict[str, list[Schedule]] = dataclasses.field(default_factory=dict)

    @cached_property
    def merged(self) -> Problem:
        """All jobs as one problem, so that a planner can plan them together."""
        work = self.workload
        if work.jobs == 1:
            return work.problems[int(work.template[0])]
        return union([work.problem_of(j) for j in range(work.jobs)])[0]

    @cached_property
    def together(self) -> Workload:
        """The merged problem as a workload of one job."""
        return Workload.of(self.merged)

    @cached_property
    def paths(self) -> FloatArray:
        """(jobs,) critical path of the shortest durations of each job."""
        each = np.array([minimum_path(p) for p in self.workload.problems])
        return each[self.workload.template]

    @cached_property
    def sequential(self) -> float:
        """Seconds of all jobs on the best single device."""
        counts = np.bincount(self.workload.template, minlength=len(self.workload.problems))
        return sequential_time(
            [
                (p, np.full(p.n, float(c)))
                for p, c in zip(self.workload.problems, counts, strict=True)
            ]
        )

    @cached_property
    def bound(self) -> float:
        """Lower bound on the makespan without copies, if costs equal the estimates."""
        return lower_bound(self.merged)

    def run(self, who: Contender, future: Scenario) -> RunFigures | None:
        """Return the metrics of a contender in a future; None if it does not finish."""
        try:
            if who.planned:
                return self._replay(who, future)
            return self.run_policy(policy(who.maker), future)
        except WeftError:
            return None

    def run_policy(self, decider: Policy, future: Scenario) -> RunFigures:
        """Return the metrics of a policy; without arrivals it minimises the makespan."""
        if self.workload.jobs > 1 and not self.stream and isinstance(decider, ReplanningPolicy):
            decider = decider.with_objective("makespan")
        return self.measure(
            simulate(self.workload, decider, scenario=future), self.workload.first_instance
        )

    def _replay(self, who: Contender, future: Scenario) -> RunFigures:
        alone = self.stream or who.apart or self.workload.jobs == 1
        if who.name not in self._plans:
            problems = self.workload.problems if alone else (self.merged,)
            self._plans[who.name] = [make_plan(p, who) for p in problems]
        if alone:
            trace = simulate(self.workload, self._plans[who.name], scenario=future)
            return self.measure(trace, self.workload.first_instance)
        trace = simulate(self.together, self._plans[who.name], scenario=_as_one_job(future))
        return self.measure(trace, np.array([0, self.workload.instances]))

    def measure(self, trace: Trace, first: IntArray) -> RunFigures:
        """Return the metrics of a trace; `first` has each job's first instance.

        makespan: end of the last job; an unused copy may run longer. speedup: over the best single
        device. slr: mean of completion time / critical path. jct: mean completion time. misses:
        share of missed deadlines. fairness: Jain's index of the slowdowns of jobs, 1 if all are
        equal (Jain, Chiu and Hawe 1984). energy: joules. utilisation: of the devices. over_bound:
        makespan / proven bound for the estimated costs.
        """
        work = self.workload
        ended = trace.status == DONE
        done = np.full(work.instances, np.inf)
        np.minimum.at(done, (first[trace.job] + trace.task)[ended], trace.finish[ended])
        finish = np.maximum.reduceat(done, work.first_instance[:-1])
        span = float(finish.max() - work.arrival.min())
        time = finish - work.arrival
        slowdown = time / self.paths
        cluster, due = work.cluster, np.isfinite(work.deadline)
        busy = trace.busy
        return {
            "makespan": span,
            "speedup": self.sequential / span,
            "slr": float(slowdown.mean()),
            "jct": float(time.mean()),
            "misses": float((finish > work.deadline)[due].mean()) if due.any() else 0.0,
            "fairness": float(slowdown.sum() ** 2 / (len(slowdown) * (slowdown**2).sum())),
            "energy": float(
                (cluster.power * busy + cluster.idle_power * np.maximum(span - busy, 0.0)).sum()
            ),
            "utilisation": float(busy.mean()) / span,
            "over_bound": np.nan if self.stream else span / self.bound,
        }


def make_plan(problem: Problem, who: Contender) -> Schedule:
    """Plan in advance; a fixed number of moves makes the reference repeatable."""
    if who.kind == "reference":
        return plan(
            problem,
            PLANNERS.create(who.maker, iterations=REFERENCE_MOVES, threads=1, progress=silent),
        ).schedule
    return plan(problem, who.maker).schedule


def _as_one_job(future: Scenario) -> Scenario:
    """Return the same future for all jobs as one."""
    return dataclasses.replace(future, cancel=np.full(1, np.inf))


# -- points -----------------------------------------------------------------------------


def draw(point: Point) -> tuple[Evaluator, dict[str, Any]]:
    """Return the evaluator of a point's workload, and its future in each condition."""
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
    """Return the same devices with one bandwidth and the same mean byte time.

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


def run_point(point: Point) -> PointResult:
    """Run all contenders on one draw; the reference only with exact costs."""
    evaluator, futures = draw(point)
    return {
        name: {
            who: _row(evaluator.run(contender(who), future))
            for who in point.names
            if name == "static" or contender(who).kind != "reference"
        }
        for name, future in futures.items()
    }


def _row(figures: RunFigures | None) -> list[float] | None:
    return None if figures is None else [float(f"{figures[key]:.9g}") for key in FIGURES]


def as_arrays(
    results: Iterable[tuple[Point, PointResult]],
) -> dict[tuple[str, float, float, str], dict[str, np.ndarray]]:
    """Return (seeds, metrics) per point and contender; NaN if unfinished."""
    rows: dict[tuple[str, float, float, str], dict[str, list[list[float]]]] = {}
    for point, simulated in results:
        for condition, by_name in simulated.items():
            group = rows.setdefault((point.axis, point.x, point.ccr, condition), {})
            for name, row in by_name.items():
                group.setdefault(name, []).append([np.nan] * len(FIGURES) if row is None else row)
    return {
        key: {name: np.array(column) for name, column in group.items()}
        for key, group in rows.items()
    }
