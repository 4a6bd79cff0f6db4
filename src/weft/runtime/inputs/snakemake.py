"""Rules of Snakemake: how long their jobs took, from Snakemake's own records, and which job has the longest way still to go.

Nothing here imports Snakemake; its scheduler plugin, `snakemake_scheduler_plugin_weft`, does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from weft.runtime.costs.history import History, Measurement

DEVICE = "snakemake"
"""Rules are kept in the history as kinds of tasks on this kind of device."""

MARK = "weft-learned"
"""File beside Snakemake's records: the end of the newest job that is in the history."""

Job = TypeVar("Job", bound=Hashable)


@dataclass(frozen=True, order=True)
class Finish:
    """A job that Snakemake has finished, by its records."""

    end: float
    start: float
    rule: str
    job: int


def finished_jobs(folder: Path, *, after: float = 0.0) -> list[Finish]:
    """Jobs in the metadata of a `.snakemake` folder that ended after a moment, by their ends; each once, for all its outputs."""
    found = set()
    for path in (folder / "metadata").rglob("*"):
        if path.is_file() and path.stat().st_mtime > after:
            found |= _read(path)
    return sorted(job for job in found if job.end > after)


def learn(folder: Path, history: History) -> int:
    """Add to the history what Snakemake finished in a folder since the last time; how many jobs that were."""
    mark = folder / MARK
    jobs = finished_jobs(folder, after=float(mark.read_text()) if mark.exists() else 0.0)
    if jobs:
        history.add(Measurement(job.rule, DEVICE, job.end - job.start) for job in jobs)
        draft = mark.with_suffix(".draft")
        draft.write_text(repr(jobs[-1].end))
        draft.replace(mark)
    return len(jobs)


def seconds_by_rule(history: History) -> dict[str, float]:
    """Rule -> median seconds of its jobs."""
    return {
        known.kind: known.quartiles[1] for known in history.durations() if known.device == DEVICE
    }


def upward_ranks(
    jobs: Iterable[Job], parents: Callable[[Job], Iterable[Job]], seconds: Callable[[Job], float]
) -> dict[Job, float]:
    """Seconds from the start of each job to the end of the last one that needs it, were there processors for all.

    HEFT's upward rank without transfers (Topcuoglu, Hariri and Wu 2002, section 4.1).

    Examples
    --------
    >>> parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b"]}
    >>> upward_ranks(parents, parents.__getitem__, {"a": 1.0, "b": 2.0, "c": 9.0, "d": 4.0}.__getitem__)
    {'a': 10.0, 'b': 6.0, 'c': 9.0, 'd': 4.0}
    """
    known = dict.fromkeys(jobs, 0.0)
    before = {job: [p for p in dict.fromkeys(parents(job)) if p in known] for job in known}
    readers = Counter(p for ps in before.values() for p in ps)
    done = [job for job in known if not readers[job]]
    for job in done:  # grows while it is read: readers before what they read
        known[job] += seconds(job)
        for p in before[job]:
            known[p] = max(known[p], known[job])
            readers[p] -= 1
            if not readers[p]:
                done.append(p)
    return known


def estimate(rule: str | None, known: Mapping[str, float]) -> float:
    """Seconds of a rule; of one that never ran, the median of the others."""
    return known[rule] if rule is not None and rule in known else median(known.values())


def fitting(
    jobs: Sequence[Job], wants: Callable[[Job], Mapping[str, Any]], free: Mapping[str, Any]
) -> list[Job]:
    """The jobs in their order, each if what is left of every resource is enough for it.

    Examples
    --------
    >>> fitting(["big", "small"], {"big": {"mem": 9}, "small": {"mem": 3}}.__getitem__, {"mem": 8})
    ['small']
    """
    left = {name: amount for name, amount in free.items() if not isinstance(amount, str)}
    chosen = []
    for job in jobs:
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


def _read(path: Path) -> set[Finish]:
    """One record; none if it is not whole, or has no times."""
    try:
        record = json.loads(path.read_text())
        finish = Finish(
            float(record["endtime"]),
            float(record["starttime"]),
            str(record["rule"]),
            int(record["job_hash"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {finish} if finish.end >= finish.start else set()
