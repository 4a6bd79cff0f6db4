"""Workers for the few tasks with which a graph begins, by the measured speed of the workers.

Dask gives tasks without inputs to idle workers in turn, unless there are many of a kind: then each
worker takes the next one when it is free. Whatever reads the result of a task that it gave to a
slow worker waits for that worker, and starts near it. Here the same workers get one task each, but
the fastest worker gets the task on which most others depend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from weft.runtime.backends.dask.sites import DeviceThread
from weft.runtime.deciders.whole_plan import PlanRow

UNLIKE = 1.5
"""How many times as quick as the slowest worker the fastest one is, where it matters."""

MANY_PER_THREAD = 2
"""Tasks of a kind per thread; Dask lets workers take more than these when they are free."""

MOST = 100
"""Tasks at the beginning that are placed; Dask places more of them."""


def lone_sources(
    rows: Mapping[str, PlanRow], kinds: Mapping[str, str], lines: Sequence[DeviceThread]
) -> dict[str, str]:
    """Return key -> address for tasks without inputs; empty: Dask may place them as well.

    Parameters
    ----------
    rows : the graph by key
    kinds : key -> kind of the task
    lines : the devices, with the measured seconds of their workers
    """
    seconds = [line.site.seconds for line in lines]
    if not min(seconds, default=0.0) or max(seconds) < UNLIKE * min(seconds):
        return {}
    count = Counter(kinds.values())
    many = MANY_PER_THREAD * len(lines)
    sources = [key for key, row in rows.items() if not row.parents and count[kinds[key]] <= many]
    if len(sources) > min(len(lines), MOST):
        return {}
    below = dependents(rows.values())
    sources.sort(key=lambda key: -descendants(rows[key].instance, below))
    fastest = sorted(lines, key=lambda line: line.site.seconds)
    return {
        key: line.site.address for key, line in zip(sources, fastest, strict=False) if line.site.up
    }


def dependents(rows: Iterable[PlanRow]) -> dict[int, list[int]]:
    """Return instance -> the instances that read its result."""
    found: dict[int, list[int]] = {}
    for row in rows:
        for parent in row.parents:
            found.setdefault(parent, []).append(row.instance)
    return found


def descendants(instance: int, below: Mapping[int, Sequence[int]]) -> int:
    """Return the number of tasks that depend on an instance.

    Examples
    --------
    >>> descendants(0, {0: [1, 2], 1: [3], 2: [3]})
    3
    """
    seen: set[int] = set()
    left = [instance]
    while left:
        new = [i for i in below.get(left.pop(), ()) if i not in seen]
        seen.update(new)
        left += new
    return len(seen)
