"""Plans for devices that load kinds of tasks: times of the set-ups, by replay."""

from __future__ import annotations

from dataclasses import replace

from weft.model import Choices, Problem, Schedule, Workload
from weft.sim.simulate import simulate


def with_setups(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule whose tasks start when inputs, device and set-up allow.

    Devices and order are those of a schedule that was made without set-ups. With choices, all
    branches are run.
    """
    if problem.n == 0:
        return schedule
    every = replace(problem, workflow=replace(problem.workflow, choices=Choices.none(problem.m)))
    trace = simulate(Workload.of(every), schedule)
    return Schedule.of(
        task=trace.task,
        device=trace.device,
        start=trace.start,
        finish=trace.finish,
        copy=trace.copy,
    )
