"""Checks of what a reader accepted: it can be written, read again, planned and simulated."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import weft
from tests.support.instances import READERS
from weft import formats
from weft.errors import Unsupported
from weft.formats.table import Savable
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload
from weft.model.conditional_stream import ConditionalStream, SharedStreams
from weft.model.variants import resolve, variants_by_task

JOBS = 3


def refuse_unsound(thing: object, folder: Path) -> None:
    """Raise an AssertionError for an accepted object that fails later; a `WeftError` is fine."""
    if isinstance(thing, Problem | Workflow | Cluster | Workload | Schedule | Trace):
        _write_and_read(thing, folder)
    if isinstance(thing, Workflow):
        _plan(Problem.bind(thing, _cluster()))
    elif isinstance(thing, Cluster):
        _plan(Problem.bind(_workflow(), thing))
    elif isinstance(thing, Problem):
        _plan(thing)
    elif isinstance(thing, Workload):
        _simulate(thing)
    elif isinstance(thing, Trace):
        weft.check(thing.workload, thing)
    elif isinstance(thing, ConditionalStream):
        _simulate(*thing.with_jobs(JOBS).draw(1))
    elif isinstance(thing, SharedStreams):
        _simulate(*SharedStreams(tuple(s.with_jobs(JOBS) for s in thing.streams)).draw(1))


def _write_and_read(thing: Savable, folder: Path) -> None:
    path = folder / "again.json"
    formats.save(thing, path)
    again = READERS[type(thing)](path)
    assert formats.to_text(again) == path.read_text(), "is another object when read again"


def _plan(problem: Problem) -> None:
    """Plan a problem; one with variants, set-ups or a network would be planned many times."""
    ways = variants_by_task(problem.workflow)
    names = problem.workflow.task_names
    problem = resolve(problem, {names[task]: found[0] for task, found in ways.items()})
    if problem.cluster.network is not None or problem.cluster.has_setup:
        return
    try:
        made = weft.plan(problem, "heft")
    except Unsupported:
        return
    violations = weft.check(made.problem, made)
    assert not violations, f"heft: {violations[0]}"


def _simulate(workload: Workload, *scenario: weft.Scenario) -> None:
    trace = weft.simulate(workload, "eft", **({"scenario": scenario[0]} if scenario else {}))
    violations = weft.check(workload, trace)
    assert not violations, f"eft: {violations[0]}"


@cache
def _cluster() -> Cluster:
    return Cluster(speed=[1.0, 2.0], bandwidth=1e9)


@cache
def _workflow() -> Workflow:
    return Workflow(work=[1.0, 2.0, 1.0], src=[0, 0], dst=[1, 2], data=[1e6, 0.0])
