"""`PlanCache`: plans by the content of their problem.

Plans of problems of the same shape start a search.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.planners.planner import PLANNERS, Plan, plan, planner_options
from weft.typed import typed


@dataclass(frozen=True)
class CachedPlan:
    """A stored plan: its schedule and what proves it, without the problem."""

    schedule: Schedule
    planner: str
    proved: float
    shape: str

    @property
    def size(self) -> int:
        """Bytes of the schedule."""
        return sum(column.nbytes for column in self.schedule.to_arrays().values())


class PlanCache:
    """Plans by content, the least recently used dropped first.

    A problem with the same content, planned with the same planner, options, time limit and seed,
    gets the stored schedule. A problem of the same shape (the same edges, and the same number of
    devices with the same links) starts its search at the last plan of that shape, if the planner
    has the option `start`.

    Parameters
    ----------
    plans : most plans that are stored
    size : most bytes of their schedules together

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> cache = PlanCache()
    >>> cache.plan(problem, "heft").makespan, cache.plan(problem, "heft").makespan
    (5.0, 5.0)
    >>> cache.hits, cache.starts, cache.misses
    (1, 0, 1)
    """

    @typed
    def __init__(self, plans: int = 256, size: float = 256e6) -> None:
        if plans < 1 or not size > 0:
            raise InvalidInput(f"plans is {plans} and size {size}; both must be above zero")
        self.plans, self.size = plans, size
        self.hits = self.starts = self.misses = 0
        """Numbers of stored plans returned, of searches from a stored plan, and of new plans."""
        self._stored: OrderedDict[str, CachedPlan] = OrderedDict()
        self._latest: dict[str, str] = {}  # shape -> key of its last plan
        self._used = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._stored)

    @typed
    def plan(
        self,
        problem: Problem,
        planner: str = "heft",
        *,
        seconds: float | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Plan:
        """Plan a problem as `weft.plan` does, or return the stored plan of its content."""
        if problem.workflow.variants:
            raise InvalidInput(
                f"'{problem.name}' has variants, which a cache does not store; use weft.plan"
            )
        shape = shape_of(problem)
        key = _digest([shape, problem, planner, seconds, seed, sorted(options.items())])
        with self._lock:
            found = self._get(key)
            last = self._stored.get(self._latest.get(shape, ""))
            self.hits += found is not None
        if found is not None:
            return Plan(problem, found.schedule, found.planner, 0.0, found.proved)
        takes_start = planner in PLANNERS.names() and "start" in planner_options(planner)
        if last is not None and takes_start and "start" not in options:
            options = {**options, "start": last.schedule}
            self.starts += 1
        else:
            self.misses += 1
        made = plan(problem, planner, seconds=seconds, seed=seed, **options)
        with self._lock:
            self._put(key, CachedPlan(made.schedule, made.planner, made.proved, shape))
        return made

    def _get(self, key: str) -> CachedPlan | None:
        if key in self._stored:
            self._stored.move_to_end(key)
        return self._stored.get(key)

    def _put(self, key: str, made: CachedPlan) -> None:
        if made.size > self.size:
            return
        self._drop(key)
        self._stored[key], self._latest[made.shape] = made, key
        self._used += made.size
        while len(self._stored) > self.plans or self._used > self.size:
            self._drop(next(iter(self._stored)))

    def _drop(self, key: str) -> None:
        if key in self._stored:
            made = self._stored.pop(key)
            self._used -= made.size
            if self._latest.get(made.shape) == key:
                del self._latest[made.shape]


def shape_of(problem: Problem) -> str:
    """Return a key of the shape: tasks, edges, number of devices and their links.

    Examples
    --------
    >>> one = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    >>> other = Problem.from_arrays([[5.0], [1.0]], [[0, 1]])
    >>> shape_of(one) == shape_of(other), shape_of(one) == shape_of(Problem.from_arrays([[2.0]]))
    (True, False)
    """
    w, c = problem.workflow, problem.cluster
    return _digest([w.n, w.src, w.dst, c.p, c.bandwidth, c.latency])


def _digest(value: object) -> str:
    state = sha256()
    _feed(state, value)
    return state.hexdigest()


def _feed(state: Any, value: object) -> None:
    """Add type, length and value to a hash, so that different values differ there."""
    if isinstance(value, np.ndarray):
        state.update(f"array {value.dtype.str} {value.shape} ".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        state.update(f"{type(value).__name__} ".encode())
        for field in fields(value):
            _feed(state, getattr(value, field.name))
    elif isinstance(value, Mapping):
        _feed(state, list(value.items()))
    elif isinstance(value, list | tuple):
        state.update(f"list {len(value)} ".encode())
        for item in value:
            _feed(state, item)
    else:
        state.update(f"{type(value).__name__} {value!r} ".encode())
