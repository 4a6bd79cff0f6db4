"""Durations of Snakemake rules from Snakemake's records, and upward ranks of jobs.

This module does not import Snakemake; its plugin `snakemake_scheduler_plugin_weft` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from weft.formats.parsing.source import decode_text, parse_json, read_bytes, write_file
from weft.formats.traces.recording import distinct
from weft.model import Cluster, Problem, WorkflowBuilder
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement

DEVICE = "snakemake"
"""Kind of device under which the history keeps rules."""

UNITS = {"_cores": ("cores", 1.0), "mem_mb": ("memory", 1e6)}
"""Snakemake's resource -> capacity of a node, and the factor from one unit to the other."""

UNCOUNTED = frozenset({"_nodes", "mem_mib", "disk_mib", "runtime"})
"""Resources that are not capacities, or that repeat another one in other units."""

MOST = 2**31 - 1
"""Amounts from this on mean, in Snakemake, that there is no limit."""

MARK = "weft-learned"
"""File beside Snakemake's records; it holds the end of the newest job in the history."""

MISFITS = 10_000
"""Number of jobs that do not fit after which a round looks at no further ones."""

Job = TypeVar("Job", bound=Hashable)


@dataclass(frozen=True, order=True)
class Finish:
    """A finished job of Snakemake's records."""

    end: float
    start: float
    rule: str
    job: int


def finished_jobs(folder: Path, *, after: float = 0.0) -> list[Finish]:
    """Return the jobs in a `.snakemake` folder that ended after a time, by end.

    Each job is there once.
    """
    found = set()
    for path in (folder / "metadata").rglob("*"):
        if path.is_file() and path.stat().st_mtime > after:
            found |= _read(path)
    return sorted(job for job in found if job.end > after)


def learn(folder: Path, history: History) -> int:
    """Add newly finished jobs of a folder to the history; return their number."""
    mark = folder / MARK
    jobs = finished_jobs(folder, after=_learned_until(mark))
    if jobs:
        history.add(Measurement(job.rule, DEVICE, job.end - job.start) for job in jobs)
        draft = mark.with_suffix(".draft")
        write_file(draft, repr(jobs[-1].end))
        draft.replace(mark)
    return len(jobs)


def _learned_until(mark: Path) -> float:
    """Return the end of the newest job in the history; 0 if none can be read."""
    try:
        return float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


def seconds_by_rule(history: History) -> dict[str, float]:
    """Return the median seconds of each rule."""
    return {
        known.kind: known.quartiles[1] for known in history.durations() if known.device == DEVICE
    }


def upward_ranks(
    jobs: Iterable[Job], parents: Callable[[Job], Iterable[Job]], seconds: Callable[[Job], float]
) -> dict[Job, float]:
    """Return the seconds from the start of each job to the end of its last dependent.

    HEFT's upward rank without transfers (Topcuoglu, Hariri and Wu 2002, section 4.1).

    Examples
    --------
    >>> parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b"]}
    >>> seconds = {"a": 1.0, "b": 2.0, "c": 9.0, "d": 4.0}
    >>> upward_ranks(parents, parents.__getitem__, seconds.__getitem__)
    {'a': 10.0, 'b': 6.0, 'c': 9.0, 'd': 4.0}
    """
    known = dict.fromkeys(jobs, 0.0)
    readers = dict.fromkeys(known, 0)
    for job in known:
        for p in parents(job):  # called twice: storing lists for a million jobs costs more
            if p in readers:
                readers[p] += 1
    done = [job for job, count in readers.items() if not count]
    for job in done:  # `done` grows during the loop; readers come before their inputs
        rank = known[job] = known[job] + seconds(job)
        for p in parents(job):
            if p in readers:
                known[p] = max(known[p], rank)
                readers[p] -= 1
                if not readers[p]:
                    done.append(p)
    return known


def places(
    jobs: Iterable[Job], urgency: Callable[[Job], Hashable], label: Callable[[Job], str]
) -> dict[Job, int]:
    """Return the place of each job in the order of urgency, equal ones by label.

    Examples
    --------
    >>> places(["b", "a", "c"], {"a": 2, "b": 2, "c": 1}.__getitem__, str)
    {'c': 0, 'a': 1, 'b': 2}
    """
    alike: dict[Any, list[Job]] = {}
    for job in jobs:
        alike.setdefault(urgency(job), []).append(job)
    order = [job for key in sorted(alike) for job in sorted(alike[key], key=label)]
    return {job: place for place, job in enumerate(order)}


def fitting(
    jobs: Sequence[Job], wants: Callable[[Job], Mapping[str, Any]], free: Mapping[str, Any]
) -> list[Job]:
    """Return the jobs, in order, whose resources fit into the free ones.

    The search ends when cores or job slots are used up, which every job needs, or after
    `MISFITS` jobs that did not fit.

    Examples
    --------
    >>> fitting(["big", "small"], {"big": {"mem": 9}, "small": {"mem": 3}}.__getitem__, {"mem": 8})
    ['small']
    """
    left = {name: amount for name, amount in free.items() if not isinstance(amount, str)}
    scarce = [name for name in ("_cores", "_nodes") if name in left]
    chosen: list[Job] = []
    for tried, job in enumerate(jobs):
        if tried - len(chosen) > MISFITS or any(left[name] <= 0 for name in scarce):
            break
        asked = {
            name: amount
            for name, amount in wants(job).items()
            if name in left and not isinstance(amount, str)
        }
        if all(amount <= left[name] for name, amount in asked.items()):
            chosen.append(job)
            for name, amount in asked.items():
                left[name] -= amount
    return chosen


def problem_of(
    jobs: Iterable[Job],
    parents: Callable[[Job], Iterable[Job]],
    rule: Callable[[Job], str],
    seconds: Callable[[Job], float],
    wants: Callable[[Job], Mapping[str, Any]],
    limits: Mapping[str, Any],
) -> Problem:
    """Return jobs on this machine, with their needs of resources that have a limit.

    Threads are cores and mem_mb is memory; all others keep their names.

    Examples
    --------
    >>> made = problem_of("ab", {"a": "", "b": "a"}.__getitem__, str, lambda job: 2.0,
    ...                   lambda job: {"_cores": 2, "mem_mb": 500}, {"_cores": 4, "mem_mb": 800})
    >>> made.workflow.cores.tolist(), made.needs[0].tolist(), made.room.round().tolist()
    ([2, 2], [2.0, 500000000.0], [[4.0, 800000000.0]])
    """
    amounts = _capacities(limits)
    names = dict(zip(jobs, distinct(rule(job) for job in jobs), strict=True))
    builder = WorkflowBuilder("snakemake")
    for job, name in names.items():
        needs = {key: need for key, need in _capacities(wants(job)).items() if key in amounts}
        cores = int(needs.pop("cores", 1.0))
        builder.task(name, kind=rule(job), work=seconds(job), cores=max(cores, 1), needs=needs)
    for job, name in names.items():
        for parent in dict.fromkeys(parents(job)):
            if parent in names:
                builder.edge(names[parent], name)
    cores, memory = int(amounts.pop("cores", 1.0)), amounts.pop("memory", None)
    others: Any = amounts  # the names of capacities are keywords
    return Problem.bind(builder.build(), Cluster.host(cores=cores, memory=memory, **others))


def _capacities(resources: Mapping[str, Any]) -> dict[str, float]:
    """Return amounts by weft's names of capacities.

    Texts and numbers of nodes are left out.
    """
    found = {}
    for name, amount in resources.items():
        if isinstance(amount, int | float) and 0 <= amount < MOST and name not in UNCOUNTED:
            known, unit = UNITS.get(name, (name, 1.0))
            found[known] = unit * float(amount)
    return found


def _read(path: Path) -> set[Finish]:
    """Read a record; return none if it is incomplete."""
    try:
        record = parse_json(decode_text(read_bytes(path)))
        finish = Finish(
            float(record["endtime"]),
            float(record["starttime"]),
            str(record["rule"]),
            int(record["job_hash"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        return set()
    return {finish} if 0.0 <= finish.start <= finish.end < inf else set()
