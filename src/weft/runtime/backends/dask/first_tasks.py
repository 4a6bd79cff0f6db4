"""Workers for the first tasks of a graph, by the measured speed of the workers.

Dask gives tasks without inputs to idle workers in turn, whatever their speed. (If there are many
tasks of a kind, each worker takes the next one when it is free.) A task that reads the result of a
slow worker waits for it, and runs near it. Here each worker gets one task, too, but the fastest
worker gets the task on which most others depend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from weft.runtime.backends.dask.sites import DeviceThread
from weft.runtime.deciders.whole_plan import PlanRow

UNLIKE = 1.5
"""Least ratio of the slowest to the fastest worker's seconds at which tasks are placed here."""

MANY_PER_THREAD = 2
"""Tasks of a kind per thread, beyond which Dask lets workers take tasks when they are free."""

MOST = 100
"""Most tasks without inputs that are placed here; Dask places a larger number itself."""


def place_first_tasks(
    rows: Mapping[str, PlanRow], kinds: Mapping[str, str], threads: Sequence[DeviceThread]
) -> dict[str, str]:
    """Return key -> address for tasks without inputs; empty: Dask places all of them.

    Parameters
    ----------
    rows : the graph by key
    kinds : key -> kind of the task
    threads : the devices, with the measured seconds of their workers
    """
    seconds = [thread.site.seconds for thread in threads]
    if not min(seconds, default=0.0) or max(seconds) < UNLIKE * min(seconds):
        return {}
    count = Counter(kinds.values())
    many = MANY_PER_THREAD * len(threads)
    sources = [key for key, row in rows.items() if not row.parents and count[kinds[key]] <= many]
    if len(sources) > min(len(threads), MOST):
        return {}
    below = dependents(rows.values())
    sources.sort(key=lambda key: -count_descendants(rows[key].instance, below))
    fastest = sorted(threads, key=lambda thread: thread.site.seconds)
    return {
        key: thread.site.address
        for key, thread in zip(sources, fastest, strict=False)
        if thread.site.up
    }


def dependents(rows: Iterable[PlanRow]) -> dict[int, list[int]]:
    """Return instance -> the instances that read its result."""
    found: dict[int, list[int]] = {}
    for row in rows:
        for parent in row.parents:
            found.setdefault(parent, []).append(row.instance)
    return found


def count_descendants(instance: int, below: Mapping[int, Sequence[int]]) -> int:
    """Return the number of tasks that depend on an instance.

    Examples
    --------
    >>> count_descendants(0, {0: [1, 2], 1: [3], 2: [3]})
    3
    """
    seen: set[int] = set()
    left = [instance]
    while left:
        new = [i for i in below.get(left.pop(), ()) if i not in seen]
        seen.update(new)
        left += new
    return len(seen)
