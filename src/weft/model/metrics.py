"""Figures of schedules and traces: makespan, SLR, speedup, waiting, energy, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.oracle.consequences import active_instances, settled_times, taken_edges, templates
from weft.model.oracle.violation import Executions, inputs
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.trace import DONE, LOST, Trace


@dataclass(frozen=True)
class Metrics:
    """Figures that schedules and traces share.

    Attributes
    ----------
    makespan : seconds from the beginning (of a trace: the first arrival) to the last finish
    slr : makespan / critical path of the shortest durations without communication (Topcuoglu et al.
        2002, section 5.1); of a trace: the mean over finished jobs of job completion time /
        critical path of the tasks that ran
    speedup : seconds on the best single device, one task after another / makespan; the sum of each
        task's best when no device runs all
    efficiency : speedup / number of devices
    utilisation : mean share of the makespan that a device is busy
    capacity_use : capacity -> sum over tasks of amount x seconds, over amount of all nodes x
        makespan
    load_imbalance : busiest device / mean device - 1
    mean_waiting : mean seconds from when a task is ready (its last parent finished, or its job
        arrived) to its start
    mean_turnaround : mean seconds from the arrival of the job to the finish of a task
    energy : joules over the makespan, power while busy and idle power otherwise
    cost : money for the rent of all devices over the makespan, at their prices per hour
    bytes_moved : data that tasks read from other devices
    """

    makespan: float
    slr: float
    speedup: float
    efficiency: float
    utilisation: float
    load_imbalance: float
    mean_waiting: float
    mean_turnaround: float
    energy: float
    cost: float
    bytes_moved: float
    capacity_use: Mapping[str, float]

    def as_dict(self) -> dict[str, float]:
        """Return the figures by name, each capacity under "utilisation of ..."."""
        figures = asdict(self)
        used = figures.pop("capacity_use")
        return {**figures, **{f"utilisation of {name}": share for name, share in used.items()}}


@dataclass(frozen=True)
class ScheduleMetrics(Metrics):
    """Figures of a schedule.

    Attributes
    ----------
    critical_path : the longest path of shortest durations, without communication: no schedule is
        shorter
    copies : number of duplicated tasks
    """

    critical_path: float
    copies: int


@dataclass(frozen=True)
class TraceMetrics(Metrics):
    """Figures of a trace.

    Attributes
    ----------
    jobs, finished, cancelled : numbers of all jobs, of finished jobs, and of cancelled jobs
    jct, jct_median, jct_p95, jct_p99 : job completion time of the finished jobs: mean, median, 95th
        and 99th percentile
    deadline_misses, deadline_miss_share : finished jobs that ended after their deadline; their
        share of the finished jobs with a deadline
    in_time_share : share of the jobs with a deadline that finished by it; a cancelled job did not;
        1 without deadlines
    lost, lost_seconds : executions cut off by failures, and the device time that they took
    """

    jobs: int
    finished: int
    cancelled: int
    jct: float
    jct_median: float
    jct_p95: float
    jct_p99: float
    deadline_misses: int
    deadline_miss_share: float
    in_time_share: float
    lost: int
    lost_seconds: float


def schedule_metrics(problem: Problem, schedule: Schedule) -> ScheduleMetrics:
    """Return the figures of a valid schedule.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> schedule = Schedule.of(device=[1, 1], start=[0.0, 1.0], finish=[1.0, 5.0])
    >>> figures = schedule_metrics(problem, schedule)
    >>> figures.makespan, figures.slr, figures.speedup  # 1 + 4; 5 / (1 + 3); 5 / 5
    (5.0, 1.25, 1.0)
    """
    span, path = schedule.makespan, critical_path(problem)
    busy = schedule.busy(problem.p)
    speedup = ratio(sequential_time([(problem, np.ones(problem.n))]), span)
    done = Executions.of(schedule.task, schedule.device, schedule.finish, instances=problem.n)
    need = inputs(
        problem,
        done,
        first=np.zeros(len(schedule), np.int64),
        task=schedule.task,
        device=schedule.device,
    )
    ready = np.zeros(len(schedule))
    np.maximum.at(ready, need.row, need.finished)
    return ScheduleMetrics(
        makespan=span,
        slr=ratio(span, path),
        speedup=speedup,
        efficiency=speedup / problem.p,
        utilisation=_utilisation(busy, span),
        load_imbalance=load_imbalance(busy),
        mean_waiting=_mean((schedule.start - ready)[~schedule.copy]),
        mean_turnaround=_mean(schedule.finish[~schedule.copy]),
        energy=problem.cluster.energy(busy, span),
        cost=problem.cluster.rent(span),
        bytes_moved=float(problem.workflow.data[need.edge[~need.local]].sum()),
        capacity_use=capacity_use(
            problem, problem.needs[schedule.task], schedule.finish - schedule.start, span
        ),
        critical_path=path,
        copies=schedule.copies,
    )


def trace_metrics(trace: Trace) -> TraceMetrics:
    """Return the figures of a valid trace."""
    workload, span = trace.workload, trace.makespan
    active = active_instances(workload, trace.scenario)
    instance = workload.first_instance[trace.job] + trace.task
    done = trace.status == DONE
    first = np.full(workload.instances, np.inf)
    np.minimum.at(first, instance[done], trace.finish[done])
    count = np.isfinite(first).astype(float)
    speedup = ratio(
        sequential_time(
            [(p, count[f[:, None] + np.arange(p.n)].sum(axis=0)) for p, f, _ in templates(workload)]
        ),
        span,
    )
    ready, moved = _trace_inputs(trace, instance, active, first)
    original = done & ~trace.copy
    jct, ended = trace.job_completion[trace.completed], trace.completed
    due = ended & np.isfinite(workload.deadline)
    missed = int((trace.job_finish[due] > workload.deadline[due]).sum())
    lost = trace.status == LOST
    return TraceMetrics(
        makespan=span,
        slr=_mean_slr(trace, active),
        speedup=speedup,
        efficiency=speedup / workload.cluster.p,
        utilisation=_utilisation(trace.busy, span),
        load_imbalance=load_imbalance(trace.busy),
        mean_waiting=_mean((trace.start - ready)[original]),
        mean_turnaround=_mean((trace.finish - workload.arrival[trace.job])[original]),
        energy=trace.energy,
        cost=trace.cost,
        bytes_moved=moved,
        capacity_use=trace_capacity_use(trace),
        jobs=workload.jobs,
        finished=int(ended.sum()),
        cancelled=int((~ended & np.isfinite(trace.scenario.cancel)).sum()),
        jct=float(trace.jct),
        jct_median=float(np.median(jct)) if len(jct) else np.nan,
        jct_p95=float(np.percentile(jct, 95)) if len(jct) else np.nan,
        jct_p99=float(np.percentile(jct, 99)) if len(jct) else np.nan,
        deadline_misses=missed,
        deadline_miss_share=missed / int(due.sum()) if due.any() else 0.0,
        in_time_share=in_time_share(trace),
        lost=int(lost.sum()),
        lost_seconds=_group_seconds(trace, lost),
    )


def capacity_use(
    problem: Problem, need: FloatArray, seconds: FloatArray, makespan: float
) -> dict[str, float]:
    """Return, for each limited capacity, the share that executions took.

        It is the sum of amount x seconds over the executions, divided by the amount of all nodes x
        the makespan.

    Examples
    --------
    >>> from weft.model import Cluster, Workflow
    >>> workflow = Workflow(work=[2.0, 2.0], src=[], dst=[], data=[], cores=[1, 3])
    >>> problem = Problem.bind(workflow, Cluster.host(cores=4))
    >>> capacity_use(problem, problem.needs, np.array([2.0, 2.0]), 4.0)
    {'cores': 0.5}
    """
    amounts = {k: float(v.sum()) for k, v in problem.cluster.capacity.items()}
    taken = (need * seconds[:, None]).sum(axis=0) if len(seconds) else np.zeros(need.shape[1])
    return {
        name: float(used) / (amount * makespan) if makespan > 0 and amount > 0 else 0.0
        for (name, amount), used in zip(amounts.items(), taken, strict=True)
        if np.isfinite(amount)
    }


def trace_capacity_use(trace: Trace) -> dict[str, float]:
    """Return `capacity_use` of the executions of a trace."""
    problems = trace.workload.problems
    need = np.zeros((len(trace), problems[0].needs.shape[1]))
    for here, problem in trace.workload.by_problem(trace.job):
        need[here] = problem.needs[trace.task[here]]
    return capacity_use(problems[0], need, trace.finish - trace.start, trace.makespan)


def in_time_share(trace: Trace) -> float:
    """Return the share of the jobs with a deadline that finished by it; 1 without any.

    Examples
    --------
    >>> from weft.model import Workload
    >>> from weft.sim.simulate import simulate
    >>> from weft.sim.rule import Rule
    >>> jobs = Workload.of(Problem.from_arrays([[2.0]]), arrival=[0.0, 0.0], deadline=[3.0, 3.0])
    >>> in_time_share(simulate(jobs, Rule("fifo", "first", np.zeros(2))))
    0.5
    """
    due = np.isfinite(trace.workload.deadline)
    kept = trace.completed & (trace.job_finish <= trace.workload.deadline)
    return float(kept[due].mean()) if due.any() else 1.0


def critical_path(
    problem: Problem, *, active: BoolArray | None = None, taken: BoolArray | None = None
) -> float:
    """Return the longest path of shortest durations, without communication.

    This is CP_MIN of Topcuoglu et al. (2002). `active` (n,) and `taken` (m,) restrict it to the
    tasks and edges of taken branches.

    Examples
    --------
    >>> critical_path(Problem.from_arrays([[2.0, 1.0], [3.0, 4.0], [9.0, 5.0]], [[0, 1]]))
    5.0
    """
    w = problem.workflow
    shortest = problem.work * problem.best_per_work[problem.row]
    if active is not None:
        shortest = np.where(active, shortest, 0.0)
    cost, ptr, dst = shortest.tolist(), w.succ_ptr.tolist(), w.dst.tolist()
    counts = [True] * w.m if taken is None else taken.tolist()
    begin, longest = [0.0] * w.n, 0.0
    for u in w.order.tolist():
        end = begin[u] + cost[u]
        longest = max(longest, end)
        for e in range(ptr[u], ptr[u + 1]):
            if counts[e] and begin[dst[e]] < end:
                begin[dst[e]] = end
    return longest


def sequential_time(parts: list[tuple[Problem, FloatArray]]) -> float:
    """Return the seconds of all tasks in sequence on the best device.

    If no device can run all tasks, each task counts on its own best device. Each part is a problem
    and the number of times that each of its tasks is done.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 5.0]])
    >>> sequential_time([(problem, np.ones(2))])  # 2 + 3 on the first, 1 + 5 on the second
    5.0
    """
    total, each = np.zeros(parts[0][0].p), 0.0
    for problem, times in parts:
        rows = len(problem.per_work)
        work = np.bincount(problem.row, weights=times * problem.work, minlength=rows)
        used = np.bincount(problem.row, weights=times, minlength=rows) > 0
        per_work = problem.per_work[used]
        can = np.isfinite(per_work)
        total += np.where(
            can.all(axis=0), (work[used, None] * np.where(can, per_work, 0.0)).sum(axis=0), np.inf
        )
        each += float((work[used] * problem.best_per_work[used]).sum())
    best = float(total.min())
    return best if np.isfinite(best) else each


def load_imbalance(busy: FloatArray) -> float:
    """Return busy seconds of the busiest device over their mean - 1; 0 if nothing ran."""
    mean = float(busy.mean())
    return float(busy.max()) / mean - 1.0 if mean > 0 else 0.0


def ratio(one: float, other: float) -> float:
    """Divide; 0 / 0 is 1."""
    if other > 0:
        return one / other
    return 1.0 if one == other else np.inf


def _utilisation(busy: FloatArray, makespan: float) -> float:
    return float(busy.mean()) / makespan if makespan > 0 else 0.0


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _group_seconds(trace: Trace, chosen: BoolArray) -> float:
    """Return the device time of the chosen rows; a batch counts once."""
    batch, group = np.unique(trace.batch[chosen], return_inverse=True)
    longest = np.zeros(len(batch))
    np.maximum.at(longest, group.reshape(-1), (trace.finish - trace.start)[chosen])
    return float(longest.sum())


def _trace_inputs(
    trace: Trace, instance: IntArray, active: BoolArray, first_done: FloatArray
) -> tuple[FloatArray, float]:
    """Return when each row's task became ready, and the bytes from other devices."""
    workload, done = trace.workload, trace.status == DONE
    executions = Executions.of(
        instance[done], trace.device[done], trace.finish[done], instances=workload.instances
    )
    settled = settled_times(workload, active, first_done)
    ready, moved = workload.arrival[trace.job].copy(), 0.0
    for here, problem in workload.by_problem(trace.job):
        w, job = problem.workflow, trace.job[here]
        decided = None if trace.eager else trace.decided[here]
        first = workload.first_instance[job]
        need = inputs(problem, executions, first, trace.task[here], trace.device[here], decided)
        parent = first[need.row] + w.src[need.edge]
        np.maximum.at(ready, here[need.row], settled[parent])
        taken = active[parent] & taken_edges(
            workload, trace.scenario, problem, job[need.row], need.edge
        )
        moved += float(w.data[need.edge[taken & ~need.local]].sum())
    return ready, moved


def _mean_slr(trace: Trace, active: BoolArray) -> float:
    """Return the mean SLR of finished jobs; equal branches share one path."""
    workload, share = trace.workload, []
    for problem, first, jobs in templates(workload):
        ended = trace.completed[jobs]
        w = problem.workflow
        first, jobs = first[ended], jobs[ended]  # noqa: PLW2901  # the ended jobs alone
        outcomes = trace.scenario.outcome[
            workload.first_choice[jobs][:, None] + np.arange(len(w.choices))
        ]
        sample, alike = np.arange(min(len(jobs), 1)), np.zeros(len(jobs), np.int64)
        if w.conditional:
            _, sample, alike = np.unique(outcomes, axis=0, return_index=True, return_inverse=True)
        edges = np.arange(w.m)
        for k, j in enumerate(sample.tolist()):
            runs = active[first[j] : first[j] + w.n]
            taken = runs[w.src] & taken_edges(
                workload, trace.scenario, problem, np.full(w.m, jobs[j]), edges
            )
            path = critical_path(problem, active=runs, taken=taken)
            share += [
                ratio(x, path) for x in trace.job_completion[jobs[alike.reshape(-1) == k]].tolist()
            ]
    return float(np.mean(share)) if share else np.nan
