"""The job lists of DeepSched's repository, and workloads made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes
from weft.generators import scale_ccr
from weft.learn.imitation.deepsched.data import JobList, workflow_of
from weft.model import Cluster, Problem, Workload


def read_job_lists(path: str | Path) -> dict[str, JobList]:
    """Read lists in the format `job-lists-v1` (JSON, plain or gzip)."""
    with naming(str(path)):
        found = Record(parse_json(decode_text(read_bytes(Path(path)))), "job lists")
        if found.text("format") != "job-lists-v1":
            raise InvalidInput(
                f"the format of the job lists is {shown(found.raw('format'))}; "
                "expected 'job-lists-v1'"
            )
        lists = found.child("lists")
        return {name: _job_list(lists.child(name)) for name in lists.content}


def _job_list(columns: Record) -> JobList:
    arrival, burst = columns.floats("arrival_time"), columns.floats("burst_time")
    priority = columns.integers("priority")
    if not arrival.shape == burst.shape == priority.shape or arrival.ndim != 1:
        raise InvalidInput(f"the columns of {columns.where} differ in length")
    times = np.concatenate([arrival, burst])
    if not (np.isfinite(times).all() and (times >= 0.0).all()):
        raise InvalidInput(f"the times of {columns.where} must be finite and not negative")
    return JobList(arrival, burst, priority)


def list_workload(
    jobs: JobList, cluster: Cluster, *, ccr: float, seed: int, name: str = "list"
) -> Workload:
    """Make a workload with one workflow per arrival time of a list."""
    problems, times = [], []
    for k, time in enumerate(np.unique(jobs.arrival).tolist()):
        here = np.flatnonzero(jobs.arrival == time)
        part = JobList(jobs.arrival[here], jobs.burst[here], jobs.priority[here])
        workflow = workflow_of(part, seed=seed + k, name=f"{name}-{k}")
        problems.append(Problem.bind(scale_ccr(workflow, ccr, cluster), cluster))
        times.append(time)
    return Workload.of(
        problems, arrival=np.array(times) - times[0], template=np.arange(len(problems)), name=name
    )
