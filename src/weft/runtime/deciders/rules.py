"""Priority rules as deciders: decisions of `RulePolicy` from heaps of ready tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from weft.model import Problem
from weft.policies import RulePolicy
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.rule import Placement
from weft.sim.story import POOL
from weft.sim.view import Decision

KNOWN_PROBLEMS = 256
"""Problems whose order `RuleWithinJob` keeps."""


class RuleDecider:
    """A rule: the first ready instance in order for which placement finds a device.

    Ready instances wait on the heap of their kind; those committed or held since are dropped when
    they reach the top.
    """

    def __init__(self, policy: RulePolicy) -> None:
        self.policy = policy
        self.name = policy.name

    def begin(self, life: LiveLifecycle) -> None:
        """Compute the order."""
        self._keys: list[float] = self.policy.rule(life.workload).keys.tolist()
        self._by_kind = self.policy.placement == "mru"
        self._heaps: list[list[tuple[float, int]]] = [
            [] for _ in (life.workload.kinds if self._by_kind else (0,))
        ]
        life.fresh = list(life.ready)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Do nothing, as the life cycle shows the arrival."""

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Recompute the order if jobs were added or may have replaced ended ones."""
        if self.policy.by_job or len(self._keys) < life.workload.instances:
            self.begin(life)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | None:
        """Return the first ready task for which there is a device, or None."""
        for i in life.fresh or ():
            heappush(self._heaps[life.kind[i] if self._by_kind else 0], (self._keys[i], i))
        life.fresh = []
        return self._by_device(life, now) if self._by_kind else self._by_instance(life, now)

    def _by_instance(self, life: LiveLifecycle, now: float) -> Decision | None:
        placement = self.policy.placement
        devices = _devices(life, placement, now)
        heap = self._heaps[0]
        aside: list[tuple[float, int]] = []
        found = None
        while devices and found is None and (top := _top(life, heap)) is not None:
            device = _place(life, placement, top, devices, now)
            if device is None:
                aside.append(heappop(heap))
            else:
                found = Decision(top, device)
        for entry in aside:
            heappush(heap, entry)
        return found

    def _by_device(self, life: LiveLifecycle, now: float) -> Decision | None:
        """Decide by device: its last kind first, then kinds in cyclic order."""
        kinds = len(self._heaps)
        for device, machine in enumerate(life.machines):
            if not life.idle(device, now):
                continue
            last = max(machine.last_kind, 0)
            for step in range(kinds):
                instance = _first_runnable(life, self._heaps[(last + step) % kinds], device)
                if instance is not None:
                    return Decision(instance, device)
        return None


class RuleWithinJob:
    """Decisions of a rule within one job, for services: without view or order of jobs."""

    def __init__(self, policy: RulePolicy) -> None:
        self.policy = policy
        self._keys: dict[int, tuple[Problem, list[float]]] = {}
        """Identity of a problem -> itself and the key of each task."""

    def decisions(
        self, life: LiveLifecycle, ready: Sequence[int], now: float
    ) -> Iterator[Decision]:
        """Yield a decision for each ready instance of a job that has a device, in order."""
        placement, keys = self.policy.placement, self._of(life.problem(ready[0]))
        devices, place = _devices(life, placement, now), life.place
        for instance in sorted(ready, key=lambda i: (keys[place[i][1]], i)):
            device = _place(life, placement, instance, devices, now)
            if device is not None:
                yield Decision(instance, device)

    def _of(self, problem: Problem) -> list[float]:
        known = self._keys.get(id(problem))
        if known is None:
            if len(self._keys) >= KNOWN_PROBLEMS:
                self._keys.clear()
            known = self._keys[id(problem)] = problem, self.policy.key(problem).tolist()
        return known[1]


def _devices(life: LiveLifecycle, placement: Placement, now: float) -> list[int]:
    if placement == "eft":
        return [d for d, machine in enumerate(life.machines) if machine.slowdown < inf]
    return [d for d in range(len(life.machines)) if life.idle(d, now)]


def _place(
    life: LiveLifecycle, placement: Placement, instance: int, devices: list[int], now: float
) -> int | None:
    """Return the device of the placement; the lower number among equals."""
    members = [instance]
    best, least = None, inf
    for d in devices:
        seconds = life.expected(members, d)
        if seconds == inf:
            continue
        if placement != "eft" and not life.room.fits(members, d):
            continue
        if placement == "first":
            return d
        cost = seconds + life.setup(instance, d)
        if placement != "fastest":
            free = max(life.free_at(d, now), now)
            if best is not None and free + cost >= least:
                continue  # inputs can only delay the task further
            cost += max(free, life.arrival(members, d, now))
        if best is None or cost < least:
            best, least = d, cost
    return best


def _top(life: LiveLifecycle, heap: list[tuple[float, int]]) -> int | None:
    """Return the first instance of a heap that is still ready."""
    state = life.stories.state
    while heap:
        instance = heap[0][1]
        if state[instance] in POOL and instance not in life.held:
            return instance
        heappop(heap)
    return None


def _first_runnable(life: LiveLifecycle, heap: list[tuple[float, int]], device: int) -> int | None:
    aside = []
    found = None
    while (top := _top(life, heap)) is not None:
        if life.can_run(top, device) and life.room.fits([top], device):
            found = top
            break
        aside.append(heappop(heap))
    for entry in aside:
        heappush(heap, entry)
    return found
