"""Rules about the times of a trace: overlaps, inputs, queues, transfers and ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model.columns import BoolArray, FloatArray
from weft.model.machines.setup import seconds_before_groups
from weft.model.network.check import TransferCheck
from weft.model.oracle.consequences import (
    changes_of,
    run_ends,
    settled_times,
    slowdown_at,
    taken_edges,
)
from weft.model.oracle.trace_rows import TraceGroups, TraceRows
from weft.model.oracle.violation import (
    Executions,
    Violation,
    differs,
    exceeds,
    expand,
    inputs,
    overlaps,
)
from weft.model.trace import CANCELLED, DONE, LOST, STATUS


def check_overlaps(rows: TraceRows, groups: TraceGroups) -> Iterator[Violation]:
    """Check that a device runs one batch at a time."""
    # In a resumed run, a task whose device is gone takes no time, on another device.
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


def check_inputs(rows: TraceRows) -> Iterator[Violation]:
    """Check that a task starts after its parents are settled and their data arrived."""
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
        need = inputs(problem, executions, first, rows.task[here], rows.device[here], decided)
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


def check_queues(rows: TraceRows, groups: TraceGroups) -> Iterator[Violation]:
    """Check that a device runs its batches in the order of the decisions."""
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


def check_transfers(rows: TraceRows) -> Iterator[Violation]:
    """Compare the transfers of a network with its links, and rows with transfers."""
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


def check_ends(rows: TraceRows, groups: TraceGroups) -> Iterator[Violation]:
    """Compare each row with the end of its group: duration, failure, cancellation."""
    scenario = rows.trace.scenario
    down = np.isinf(slowdown_at(scenario, groups.device, groups.start))
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
    bad &= (rows.status != CANCELLED) | (status != CANCELLED)  # other checks report these
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


def _setup_seconds(rows: TraceRows, groups: TraceGroups) -> FloatArray:
    """Return (g,) seconds of set-up at slowdown 1; a failure empties a device's cache."""
    c, scenario = rows.workload.cluster, rows.trace.scenario
    seconds = np.zeros(len(groups.first))
    if not c.has_setup:
        return seconds
    failures = np.zeros(len(seconds), np.int64)
    for d in np.unique(scenario.change_device).tolist():
        times, slowdowns = changes_of(scenario, d)
        here = groups.device == d
        failures[here] = np.searchsorted(
            times[np.isinf(slowdowns)], groups.start[here], side="right"
        )
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


def check_outages(rows: TraceRows) -> Iterator[Violation]:
    """Find rows that overlap an outage of their device after the run noticed it."""
    scenario = rows.trace.scenario
    for d in np.unique(scenario.change_device).tolist():
        times, slowdowns = changes_of(scenario, d)
        until = np.append(times[1:], np.inf)
        here = np.flatnonzero(rows.device == d)
        for k in np.flatnonzero(np.isinf(slowdowns) & (until > times)).tolist():
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


def _true_seconds(rows: TraceRows) -> tuple[FloatArray, BoolArray]:
    """Return true seconds per row at slowdown 1, and whether the device can run it."""
    scenario = rows.trace.scenario
    seconds = np.zeros(len(rows))
    for here, problem in rows.by_problem():
        task, device = rows.task[here], rows.device[here]
        per_work = problem.per_work[problem.row[task], device]
        seconds[here] = problem.work[task] * np.where(np.isfinite(per_work), per_work, np.nan)
    can = np.isfinite(seconds)
    return np.where(can, seconds, 0.0) * scenario.factor[rows.instance] * scenario.bias[
        rows.kind, rows.device
    ], can
