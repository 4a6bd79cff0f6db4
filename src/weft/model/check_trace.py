"""Whether a trace is possible: every rule written from docs/simulator.md, no kernel code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.machines.setup import seconds_before_groups
from weft.model.network.check import TransferCheck
from weft.model.problem import Problem
from weft.model.scenario import (
    active_instances,
    changes_of,
    pace_at,
    run_ends,
    settled_times,
    taken_edges,
)
from weft.model.trace import CANCELLED, DONE, LOST, STATUS, Trace
from weft.model.violation import (
    Executions,
    Violation,
    differs,
    exceeds,
    excesses,
    expand,
    inputs,
    misfits,
    overlaps,
)
from weft.model.workload import Workload


def trace_violations(workload: Workload, trace: Trace) -> Iterator[Violation]:
    """Yield the violations of a trace; times of a measured one are not compared to the model."""
    yield from _strangers(workload, trace)
    if trace.job_finish.shape != (workload.jobs,):
        yield Violation(
            "job finish",
            f"there are {workload.jobs} jobs, but the column has shape {trace.job_finish.shape}",
        )
        return
    rows = _Rows(workload, trace)
    groups = _Groups.of(rows)
    yield from _fits(rows)
    yield from _branches(rows)
    yield from _counts(rows)
    yield from _begins(rows)
    yield from _after_cancellation(rows)
    yield from _batches(rows, groups)
    yield from _excesses(rows)
    yield from _overlaps(rows, groups)
    yield from _inputs(rows)
    if workload.cluster.network is not None and not trace.measured:
        yield from _transfers(rows)
    yield from _job_finishes(rows)
    if trace.measured:
        yield from _outages(rows)
    else:
        yield from _queues(rows, groups)
        yield from _ends(rows, groups)


class _Rows:
    """The rows of a trace with known numbers, and columns derived from them."""

    def __init__(self, workload: Workload, trace: Trace) -> None:
        known = ~(
            _unknown_job(workload, trace)
            | _unknown_task(workload, trace)
            | _unknown_device(workload, trace)
        )
        self.workload, self.trace = workload, trace
        self.job, self.task, self.device = trace.job[known], trace.task[known], trace.device[known]
        self.decided, self.start = trace.decided[known], trace.start[known]
        self.finish, self.status = trace.finish[known], trace.status[known]
        self.batch, self.copy = trace.batch[known], trace.copy[known]

    def __len__(self) -> int:
        return len(self.task)

    @cached_property
    def instance(self) -> IntArray:
        return self.workload.first_instance[self.job] + self.task

    @cached_property
    def active(self) -> BoolArray:
        return active_instances(self.workload, self.trace.scenario)

    @cached_property
    def done_at(self) -> FloatArray:
        """(instances,) first finish; inf: never."""
        first = np.full(self.workload.instances, np.inf)
        done = self.status == DONE
        np.minimum.at(first, self.instance[done], self.finish[done])
        return first

    @cached_property
    def job_of(self) -> IntArray:
        """(instances,) the job of each instance."""
        return np.repeat(np.arange(self.workload.jobs), np.diff(self.workload.first_instance))

    @cached_property
    def cancel_at(self) -> FloatArray:
        """(instances,) when an instance is cancelled with its job; inf: never or done by then."""
        cancel = np.where(np.isnan(self.trace.job_finish), self.trace.scenario.cancel, np.inf)[
            self.job_of
        ]
        return np.where(self.done_at <= cancel, np.inf, cancel)

    @cached_property
    def kind(self) -> IntArray:
        """Number of each row's kind among the kinds of the workload."""
        names = self.workload.kinds
        kind = np.zeros(len(self), np.int64)
        for rows, problem in self.by_problem():
            number = np.array([names.index(k) for k in problem.workflow.kinds], np.int64)
            kind[rows] = number[problem.workflow.kind[self.task[rows]]]
        return kind

    def by_problem(self) -> Iterator[tuple[IntArray, Problem]]:
        template = self.workload.template[self.job]
        for t, problem in enumerate(self.workload.problems):
            yield np.flatnonzero(template == t), problem

    def name(self, r: int) -> str:
        return self.instance_name(int(self.instance[r]))

    def instance_name(self, i: int) -> str:
        job, task = self.workload.task_of(i)
        return f"task '{self.workload.problem_of(job).workflow.task_name(task)}' of job {job}"

    def place(self, r: int) -> str:
        return f"'{self.workload.cluster.names[int(self.device[r])]}'"


@dataclass(frozen=True, eq=False)
class _Groups:
    """Executions that ran together: the rows of one batch number."""

    first: IntArray  # (g,) the first row of each group
    of_row: IntArray  # (rows,) the group of each row
    device: IntArray
    decided: FloatArray
    start: FloatArray
    finish: FloatArray  # of the last member
    batch: IntArray

    @classmethod
    def of(cls, rows: _Rows) -> _Groups:
        batch, first, of_row = np.unique(rows.batch, return_index=True, return_inverse=True)
        of_row = of_row.reshape(-1)
        finish = np.full(len(first), -np.inf)
        np.maximum.at(finish, of_row, rows.finish)
        return cls(
            first, of_row, rows.device[first], rows.decided[first], rows.start[first], finish, batch
        )


def _unknown_job(workload: Workload, trace: Trace) -> BoolArray:
    return (trace.job < 0) | (trace.job >= workload.jobs)


def _unknown_task(workload: Workload, trace: Trace) -> BoolArray:
    sizes = np.diff(workload.first_instance)
    size = sizes[np.where(_unknown_job(workload, trace), 0, trace.job)]
    return (trace.task < 0) | (trace.task >= size)


def _unknown_device(workload: Workload, trace: Trace) -> BoolArray:
    return (trace.device < 0) | (trace.device >= workload.cluster.p)


def _strangers(workload: Workload, trace: Trace) -> Iterator[Violation]:
    bad_job = _unknown_job(workload, trace)
    for r in np.flatnonzero(bad_job).tolist():
        yield Violation(
            "unknown job", f"row {r} is of job {trace.job[r]}, but there are {workload.jobs} jobs"
        )
    for r in np.flatnonzero(_unknown_task(workload, trace) & ~bad_job).tolist():
        yield Violation(
            "unknown task",
            f"row {r} is of task {trace.task[r]} of job {trace.job[r]}, which has no such task",
        )
    for r in np.flatnonzero(_unknown_device(workload, trace)).tolist():
        yield Violation(
            "unknown device",
            f"row {r} is on device {trace.device[r]}, but there are {workload.cluster.p} devices",
        )
    for r in np.flatnonzero((trace.status < 0) | (trace.status >= len(STATUS))).tolist():
        yield Violation(
            "status",
            f"row {r} has the status {trace.status[r]}; it must be 0 (done), 1 (lost) or 2 "
            "(cancelled)",
        )


def _fits(rows: _Rows) -> Iterator[Violation]:
    for here, problem in rows.by_problem():
        yield from misfits(problem, rows.task[here], rows.device[here])


def _branches(rows: _Rows) -> Iterator[Violation]:
    for r in np.flatnonzero(~rows.active[rows.instance]).tolist():
        yield Violation(
            "branch",
            f"{rows.name(r)} runs on {rows.place(r)} at {rows.start[r]:.9g}, but no branch that is "
            "taken leads to it",
        )


def _counts(rows: _Rows) -> Iterator[Violation]:
    originals = (rows.status == DONE) & ~rows.copy
    times = np.bincount(rows.instance[originals], minlength=rows.workload.instances)
    for i in np.flatnonzero(times > 1).tolist():
        yield Violation(
            "duplicate",
            f"{rows.instance_name(i)} is done {times[i]} times without being marked as a copy",
        )
    for i in np.flatnonzero((times == 0) & np.isfinite(rows.done_at)).tolist():
        yield Violation("missing", f"{rows.instance_name(i)} is done by copies only")
    ended = np.isfinite(rows.trace.job_finish)[rows.job_of]
    for i in np.flatnonzero(rows.active & np.isinf(rows.done_at) & ended).tolist():
        finish = rows.trace.job_finish[rows.job_of[i]]
        yield Violation(
            "missing",
            f"{rows.instance_name(i)} was never done, but the job is said to have finished at "
            f"{finish:.9g}",
        )


def _begins(rows: _Rows) -> Iterator[Violation]:
    arrival = rows.workload.arrival[rows.job]
    for r in np.flatnonzero(exceeds(arrival, rows.start) | exceeds(arrival, rows.decided)).tolist():
        when = f"was decided at {rows.decided[r]:.9g} and started at {rows.start[r]:.9g}"
        yield Violation(
            "too early", f"{rows.name(r)} {when}, before its job arrived at {arrival[r]:.9g}"
        )
    for r in np.flatnonzero(exceeds(rows.decided, rows.start)).tolist():
        yield Violation(
            "too early",
            f"{rows.name(r)} started at {rows.start[r]:.9g}, before it was decided at "
            f"{rows.decided[r]:.9g}",
        )
    for r in np.flatnonzero(exceeds(rows.start, rows.finish)).tolist():
        yield Violation(
            "wrong duration",
            f"{rows.name(r)} ended at {rows.finish[r]:.9g}, before it started at "
            f"{rows.start[r]:.9g}",
        )


def _after_cancellation(rows: _Rows) -> Iterator[Violation]:
    cancel = rows.cancel_at[rows.instance]
    # Cancellations come before starts at the same time, so no tolerance here.
    for r in np.flatnonzero(rows.start >= cancel).tolist():
        yield Violation(
            "cancelled",
            f"{rows.name(r)} started at {rows.start[r]:.9g}, but its job was cancelled at "
            f"{cancel[r]:.9g}",
        )
    called_off = rows.status == CANCELLED
    for r in np.flatnonzero(called_off & differs(rows.finish, cancel)).tolist():
        when = (
            f"its job was cancelled at {cancel[r]:.9g}"
            if np.isfinite(cancel[r])
            else "its job was not cancelled before it was done"
        )
        yield Violation(
            "cancelled", f"{rows.name(r)} was cancelled at {rows.finish[r]:.9g}, but {when}"
        )


def _batches(rows: _Rows, groups: _Groups) -> Iterator[Violation]:
    lead = groups.first[groups.of_row]
    for column, noun in (
        (rows.device, "device"),
        (rows.start, "start"),
        (rows.decided, "decision"),
        (rows.kind, "kind"),
    ):
        for r in np.flatnonzero(column != column[lead]).tolist():
            text = (
                f"{rows.name(r)} is in batch {rows.batch[r]} with {rows.name(lead[r])}, but their "
                f"{noun} differs"
            )
            yield Violation("batch", f"{text}: {column[r]:.9g} and {column[lead[r]]:.9g}")
    order = np.lexsort((rows.instance, rows.batch))
    again = (np.diff(rows.batch[order]) == 0) & (np.diff(rows.instance[order]) == 0)
    for r in order[1:][again].tolist():
        yield Violation("batch", f"{rows.name(r)} is in batch {rows.batch[r]} twice")
    c = rows.workload.cluster
    size = np.bincount(groups.of_row, minlength=len(groups.first))
    most_tasks = rows.workload.batch_limit[rows.kind[groups.first], groups.device]
    for g in np.flatnonzero(size > most_tasks).tolist():
        most = f"{rows.place(groups.first[g])} takes at most {most_tasks[g]}"
        yield Violation("capacity", f"batch {groups.batch[g]} holds {size[g]} tasks, but {most}")
    need = np.bincount(groups.of_row, weights=_memory(rows), minlength=len(groups.first)).astype(
        float
    )
    room = c.memory[groups.device]
    for g in np.flatnonzero((size > 1) & exceeds(need, room)).tolist():
        yield Violation(
            "memory",
            f"batch {groups.batch[g]} needs {need[g]:g} bytes, {rows.place(groups.first[g])} has "
            f"{room[g]:g}",
        )


def _excesses(rows: _Rows) -> Iterator[Violation]:
    c = rows.workload.cluster
    if not c.capacity:
        return
    need = np.zeros((len(rows), len(c.capacity)))
    for here, problem in rows.by_problem():
        need[here] = problem.needs[rows.task[here]]
    room = np.array(list(c.capacity.values())).T
    for r, k, used in excesses(c.node[rows.device], rows.start, rows.finish, need, room):
        name, node = list(c.capacity)[k], int(c.node[rows.device[r]])
        yield Violation(
            "capacity",
            f"{rows.name(r)} starts at {rows.start[r]:.9g} on node '{c.node_names[node]}', where "
            f"tasks then use {used:g} {name} of {room[node, k]:g}",
        )


def _memory(rows: _Rows) -> FloatArray:
    memory = np.zeros(len(rows))
    for here, problem in rows.by_problem():
        memory[here] = problem.workflow.memory[rows.task[here]]
    return memory


def _overlaps(rows: _Rows, groups: _Groups) -> Iterator[Violation]:
    # In a resumed run, a task whose device is gone takes no time on the one that stands in.
    long = np.flatnonzero((groups.finish > groups.start) | (not rows.trace.measured))
    pairs = overlaps(groups.device[long], groups.start[long], groups.finish[long])
    for a, b in ((long[a], long[b]) for a, b in pairs):
        late = (
            f"{rows.name(groups.first[b])} starts on {rows.place(groups.first[b])} at "
            f"{groups.start[b]:.9g}"
        )
        yield Violation(
            "overlap",
            f"{late} while {rows.name(groups.first[a])} runs until {groups.finish[a]:.9g}",
        )


def _inputs(rows: _Rows) -> Iterator[Violation]:
    workload, scenario = rows.workload, rows.trace.scenario
    done = rows.status == DONE
    executions = Executions.of(
        rows.instance[done], rows.device[done], rows.finish[done], instances=workload.instances
    )
    settled = settled_times(workload, rows.active, rows.done_at)
    for here, problem in rows.by_problem():
        w, job = problem.workflow, rows.job[here]
        first = workload.first_instance[job]
        decided = None if rows.trace.eager else rows.decided[here]
        need = inputs(
            problem,
            executions,
            first=first,
            task=rows.task[here],
            device=rows.device[here],
            decided=decided,
        )
        parent = first[need.row] + w.src[need.edge]
        start = rows.start[here][need.row]
        unsettled = exceeds(settled[parent], start)
        taken = rows.active[parent] & taken_edges(
            workload, scenario, problem, job[need.row], need.edge
        )
        late = taken & exceeds(need.arrived, start) & (not rows.trace.measured)
        for i in np.flatnonzero(unsettled | late).tolist():
            r = here[need.row[i]]
            begins = f"{rows.name(r)} starts on {rows.place(r)} at {start[i]:.9g}"
            if unsettled[i]:
                yield Violation(
                    "order",
                    f"{begins} before {rows.instance_name(parent[i])} is settled at "
                    f"{settled[parent[i]]:.9g}",
                )
            else:
                text = (
                    f"{begins} before the data of {rows.instance_name(parent[i])} arrives at "
                    f"{need.arrived[i]:.9g}"
                )
                yield Violation("transfer", text)


def _job_finishes(rows: _Rows) -> Iterator[Violation]:
    workload, finish = rows.workload, rows.trace.job_finish
    last = workload.arrival.copy()  # a job whose tasks are all skipped ends when it arrives
    np.maximum.at(last, rows.job_of[rows.active], rows.done_at[rows.active])
    cancel = rows.trace.scenario.cancel
    ended = np.isfinite(finish)
    for j in np.flatnonzero(~ended & np.isinf(cancel)).tolist():
        yield Violation("unfinished", f"job {j} never finished and was not cancelled")
    for j in np.flatnonzero(
        ~ended & np.isfinite(cancel) & (last <= cancel) & (cancel > workload.arrival)
    ).tolist():
        text = f"the finish of job {j} is NaN, but its last task ended at {last[j]:.9g}"
        yield Violation("job finish", f"{text}, before it was cancelled at {cancel[j]:.9g}")
    for j in np.flatnonzero(ended & np.isfinite(last) & differs(finish, last)).tolist():
        yield Violation(
            "job finish",
            f"job {j} is said to have finished at {finish[j]:.9g}; its last task ended at "
            f"{last[j]:.9g}",
        )
    for j in np.flatnonzero(
        ended & (exceeds(finish, cancel) | (cancel <= workload.arrival))
    ).tolist():
        yield Violation(
            "cancelled",
            f"job {j} is said to have finished at {finish[j]:.9g}; it was cancelled at "
            f"{cancel[j]:.9g}",
        )


def _queues(rows: _Rows, groups: _Groups) -> Iterator[Violation]:
    order = np.lexsort((groups.batch, groups.start, groups.device))
    before, after = order[:-1], order[1:]
    bad = (groups.device[before] == groups.device[after]) & exceeds(
        groups.decided[before], groups.decided[after]
    )
    bad &= groups.start[after] > groups.start[before]
    for b, a in zip(before[bad].tolist(), after[bad].tolist(), strict=True):
        early = f"{rows.name(groups.first[b])} (decided at {groups.decided[b]:.9g})"
        late = f"{rows.name(groups.first[a])} (decided at {groups.decided[a]:.9g})"
        yield Violation("queue", f"on {rows.place(groups.first[b])} {early} runs before {late}")


def _transfers(rows: _Rows) -> Iterator[Violation]:
    """Compare the transfers of a network with its links, and each row with its transfers."""
    workload, trace = rows.workload, rows.trace
    if trace.transfers is None or trace.eager or rows.copy.any():
        yield Violation(
            "transfer", "on a network, a trace has transfers, is lazy and has no copies"
        )
        return
    ran_on = np.full(workload.instances, -1)
    done = rows.status == DONE
    ran_on[rows.instance[done]] = rows.device[done]
    moved = TransferCheck(workload, trace.transfers, rows.done_at, ran_on)
    yield from moved.violations(float(rows.finish.max(initial=0.0)))
    node = workload.cluster.node
    for here, problem in rows.by_problem():
        w, job = problem.workflow, rows.job[here]
        row, position = expand(w.pred_ptr, rows.task[here])
        edge = w.pred_edge[position]
        parent = workload.first_instance[job[row]] + w.src[edge]
        device = rows.device[here][row]
        needed = rows.active[parent] & (ran_on[parent] >= 0)
        needed &= taken_edges(workload, trace.scenario, problem, job[row], edge)
        needed &= node[ran_on[parent]] != node[device]
        row, edge, parent, device = row[needed], edge[needed], parent[needed], device[needed]
        sent = np.maximum(rows.done_at[parent], rows.decided[here][row])
        came = trace.transfers.arrivals(job[row], edge, device, sent)
        for i in np.flatnonzero(exceeds(came, rows.start[here][row])).tolist():
            r = here[row[i]]
            begins = f"{rows.name(r)} starts on {rows.place(r)} at {rows.start[r]:.9g}"
            when = "is sent" if np.isnan(came[i]) else f"arrives at {came[i]:.9g}"
            yield Violation(
                "transfer", f"{begins} before the data of {rows.instance_name(parent[i])} {when}"
            )


def _ends(rows: _Rows, groups: _Groups) -> Iterator[Violation]:
    """Compare each row with the end of its group: true duration, failure or cancellation."""
    scenario = rows.trace.scenario
    down = np.isinf(pace_at(scenario, groups.device, groups.start))
    for r in groups.first[down].tolist():
        yield Violation(
            "down",
            f"{rows.name(r)} starts at {rows.start[r]:.9g} on {rows.place(r)}, which is down",
        )
    seconds, can = _true_seconds(rows)
    longest = np.zeros(len(groups.first))
    np.maximum.at(longest, groups.of_row, seconds)
    size = np.bincount(groups.of_row, minlength=len(groups.first))
    growth = rows.workload.batch_growth
    longest *= growth[rows.kind[groups.first], groups.device, np.minimum(size, growth.shape[2]) - 1]
    longest += _setup_seconds(rows, groups)
    end, lost = run_ends(scenario, groups.device, groups.start, longest)
    cancel = rows.cancel_at[rows.instance]
    called_off = cancel < end[groups.of_row]
    expected = np.where(called_off, cancel, end[groups.of_row])
    status = np.where(called_off, CANCELLED, np.where(lost[groups.of_row], LOST, DONE))
    bad = can & ~down[groups.of_row] & ((rows.status != status) | differs(rows.finish, expected))
    bad &= (rows.status != CANCELLED) | (status != CANCELLED)  # reported with its cancellation
    for r in np.flatnonzero(bad).tolist():
        was = STATUS[rows.status[r]] if 0 <= rows.status[r] < len(STATUS) else "?"
        text = (
            f"{rows.name(r)} on {rows.place(r)} runs from {rows.start[r]:.9g} to "
            f"{rows.finish[r]:.9g} ({was})"
        )
        yield Violation(
            _end_rule(was, STATUS[status[r]]),
            f"{text}; it must end at {expected[r]:.9g} ({STATUS[status[r]]})",
        )


def _setup_seconds(rows: _Rows, groups: _Groups) -> FloatArray:
    """(g,) seconds of set-up at pace 1; a failure of a device empties its cache."""
    c, scenario = rows.workload.cluster, rows.trace.scenario
    seconds = np.zeros(len(groups.first))
    if not c.has_setup:
        return seconds
    failures = np.zeros(len(seconds), np.int64)
    for d in np.unique(scenario.change_device).tolist():
        times, paces = changes_of(scenario, d)
        here = groups.device == d
        failures[here] = np.searchsorted(times[np.isinf(paces)], groups.start[here], side="right")
    order = np.lexsort((groups.batch, groups.start))
    seconds[order] = seconds_before_groups(
        rows.workload.setup,
        c.cache,
        c.switch,
        device=groups.device[order],
        kind=rows.kind[groups.first][order],
        restart=failures[order],
    )
    return seconds


def _outages(rows: _Rows) -> Iterator[Violation]:
    """Find rows that reach into a time when their device was down, as the run noticed it."""
    scenario = rows.trace.scenario
    for d in np.unique(scenario.change_device).tolist():
        times, paces = changes_of(scenario, d)
        until = np.append(times[1:], np.inf)
        here = np.flatnonzero(rows.device == d)
        for k in np.flatnonzero(np.isinf(paces) & (until > times)).tolist():
            inside = exceeds(rows.finish[here], times[k : k + 1])
            inside &= exceeds(until[k : k + 1], rows.start[here])
            for r in here[inside].tolist():
                text = f"{rows.name(r)} runs from {rows.start[r]:.9g} to {rows.finish[r]:.9g}"
                yield Violation(
                    "down", f"{text} on {rows.place(r)}, which is down from {times[k]:.9g}"
                )


def _end_rule(was: str, must: str) -> str:
    if "cancelled" in {was, must}:
        return "cancelled"
    if "lost" in {was, must}:
        return "down" if was == "done" else "lost"
    return "wrong duration"


def _true_seconds(rows: _Rows) -> tuple[FloatArray, BoolArray]:
    """Return true seconds of each row at pace 1, and whether the device can run it."""
    scenario = rows.trace.scenario
    seconds = np.zeros(len(rows))
    for here, problem in rows.by_problem():
        task, device = rows.task[here], rows.device[here]
        pace = problem.pace[problem.row[task], device]
        seconds[here] = problem.work[task] * np.where(np.isfinite(pace), pace, np.nan)
    can = np.isfinite(seconds)
    return np.where(can, seconds, 0.0) * scenario.factor[rows.instance] * scenario.bias[
        rows.kind, rows.device
    ], can
