"""`check`: the one oracle. It shares no code with planners or simulation kernels, and everything they make must pass it."""

from __future__ import annotations

from dataclasses import replace

from weft.errors import InvalidInput
from weft.model.check_schedule import schedule_violations
from weft.model.check_trace import trace_violations
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.trace import Trace
from weft.model.violation import Violation
from weft.model.workload import Workload

__all__ = ["Violation", "check"]


def check(
    target: Problem | Workload, result: Schedule | Trace, *, timing: bool = True
) -> list[Violation]:
    """Return what is violated; an empty list means valid.

    Parameters
    ----------
    target : what was to be done
    result : the schedule of a problem, or the trace of a workload or of a problem
    timing : of a trace, hold durations and transfers against the model; False for real runs, whose seconds are their own

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> check(problem, Schedule.of(device=[1, 1], start=[0.0, 1.0], finish=[1.0, 5.0]))
    []
    >>> for violation in check(problem, Schedule.of(device=[1, 0], start=[0.0, 2.0], finish=[1.0, 5.0])):
    ...     print(violation)
    transfer: task 't1' starts on 'd0' at 2 before the data of task 't0' arrives at 3
    """
    if isinstance(result, Schedule):
        if not isinstance(target, Problem):
            raise InvalidInput(
                "a schedule is checked against a problem; give workload.problems[i], not the workload"
            )
        return list(schedule_violations(target, result))
    return list(trace_violations(_workload(target, result), result, timing=timing))


def _workload(target: Problem | Workload, trace: Trace) -> Workload:
    """What the trace is held against: the target, not what the trace says of itself."""
    if isinstance(target, Problem):
        if len(trace.workload.problems) != 1:
            raise InvalidInput(
                f"the trace has {len(trace.workload.problems)} problems, not only '{target.name}'; check it against its workload"
            )
        target = replace(trace.workload, problems=(target,))
    found, expected = (
        (trace.workload.jobs, trace.workload.instances),
        (target.jobs, target.instances),
    )
    if found != expected:
        raise InvalidInput(
            f"the trace is of {found[0]} jobs with {found[1]} tasks, but '{target.name}' has {expected[0]} jobs with {expected[1]} tasks"
        )
    return target
