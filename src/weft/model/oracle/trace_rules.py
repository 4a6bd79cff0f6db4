"""Whether a trace is possible, by rules written from docs/simulator.md.

They use no code of kernels. `trace_violations` names all rules; here are those about which rows
there may be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model.columns import FloatArray
from weft.model.oracle.trace_rows import (
    TraceGroups,
    TraceRows,
    unknown_device,
    unknown_job,
    unknown_task,
)
from weft.model.oracle.trace_times import (
    check_ends,
    check_inputs,
    check_outages,
    check_overlaps,
    check_queues,
    check_transfers,
)
from weft.model.oracle.violation import Violation, differs, exceeds, excesses, misfits
from weft.model.trace import CANCELLED, DONE, STATUS, Trace
from weft.model.workload import Workload


def trace_violations(workload: Workload, trace: Trace) -> Iterator[Violation]:
    """Yield the violations of a trace; a measured one has times of its own."""
    yield from _strangers(workload, trace)
    if trace.job_finish.shape != (workload.jobs,):
        yield Violation(
            "job finish",
            f"there are {workload.jobs} jobs, but the column has shape {trace.job_finish.shape}",
        )
        return
    rows = TraceRows(workload, trace)
    groups = TraceGroups.of(rows)
    yield from _fits(rows)
    yield from _branches(rows)
    yield from _counts(rows)
    yield from _begins(rows)
    yield from _after_cancellation(rows)
    yield from _batches(rows, groups)
    yield from _excesses(rows)
    yield from check_overlaps(rows, groups)
    yield from check_inputs(rows)
    if workload.cluster.network is not None and not trace.measured:
        yield from check_transfers(rows)
    yield from _job_finishes(rows)
    if trace.measured:
        yield from check_outages(rows)
    else:
        yield from check_queues(rows, groups)
        yield from check_ends(rows, groups)


def _strangers(workload: Workload, trace: Trace) -> Iterator[Violation]:
    bad_job = unknown_job(workload, trace)
    for r in np.flatnonzero(bad_job).tolist():
        yield Violation(
            "unknown job", f"row {r} is of job {trace.job[r]}, but there are {workload.jobs} jobs"
        )
    for r in np.flatnonzero(unknown_task(workload, trace) & ~bad_job).tolist():
        yield Violation(
            "unknown task",
            f"row {r} is of task {trace.task[r]} of job {trace.job[r]}, which has no such task",
        )
    for r in np.flatnonzero(unknown_device(workload, trace)).tolist():
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


def _fits(rows: TraceRows) -> Iterator[Violation]:
    for here, problem in rows.by_problem():
        yield from misfits(problem, rows.task[here], rows.device[here])


def _branches(rows: TraceRows) -> Iterator[Violation]:
    for r in np.flatnonzero(~rows.active[rows.instance]).tolist():
        yield Violation(
            "branch",
            f"{rows.name(r)} runs on {rows.place(r)} at {rows.start[r]:.9g}, but no branch that is "
            "taken leads to it",
        )


def _counts(rows: TraceRows) -> Iterator[Violation]:
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


def _begins(rows: TraceRows) -> Iterator[Violation]:
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


def _after_cancellation(rows: TraceRows) -> Iterator[Violation]:
    cancel = rows.cancel_at[rows.instance]
    # Cancellations come before starts at the same time, so there is no tolerance.
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


def _batches(rows: TraceRows, groups: TraceGroups) -> Iterator[Violation]:
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


def _excesses(rows: TraceRows) -> Iterator[Violation]:
    c = rows.workload.cluster
    need = np.zeros((len(rows), len(c.capacity)))
    for here, problem in rows.by_problem():
        need[here] = problem.needs[rows.task[here]]
    yield from excesses(c, rows.device, rows.start, rows.finish, need, rows.name)


def _memory(rows: TraceRows) -> FloatArray:
    memory = np.zeros(len(rows))
    for here, problem in rows.by_problem():
        memory[here] = problem.workflow.memory[rows.task[here]]
    return memory


def _job_finishes(rows: TraceRows) -> Iterator[Violation]:
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
