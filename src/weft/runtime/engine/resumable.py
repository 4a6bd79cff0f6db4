"""A life cycle that can be saved and resumed after jobs left and new ones joined."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from typing import Any

import numpy as np

from weft.model import Workload
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group, Machine
from weft.sim.renumbering import Renumbering
from weft.sim.story import POOL, State

_OF_JOBS = ("job_finish", "failed", "_latest", "_left", "_here", "_ended")
_OF_INSTANCES = ("_undecided", "_reserved")


class ResumableLifecycle(LiveLifecycle):
    """A `LiveLifecycle` that returns its state as plain data, and resumes from it."""

    def state(self) -> dict[str, Any]:
        """Return the state; jobs and instances have the numbers of the workload."""
        return {
            **{name: list(getattr(self, name)) for name in (*_OF_JOBS, *_OF_INSTANCES)},
            "state": [state.value for state in self.stories.state],
            "started": self.started.tolist(),
            "results": [[list(place) for place in places] for places in self.results],
            "inputs": [[list(each) for each in inputs] for inputs in self.inputs],
            "outcome": self.outcome.tolist(),
            "batches": self._batches,
            "room": self.room.amounts(),
            "loaded": [[list(cache.used.items()), cache.last] for cache in self.caches],
            "machines": [_state_of(machine) for machine in self.machines],
        }

    def resume(self, state: dict[str, Any], old: Workload, numbers: Renumbering) -> None:
        """Resume from the state of a life cycle with the workload `old`."""
        jobs, stay = numbers.jobs.tolist(), np.flatnonzero(numbers.instances >= 0).tolist()
        for names, kept in ((_OF_JOBS, jobs), (_OF_INSTANCES, stay)):
            for name in names:
                getattr(self, name)[: len(kept)] = [state[name][k] for k in kept]
        self.stories.state[: len(stay)] = [State(state["state"][i]) for i in stay]
        self.started[: len(stay)] = [state["started"][i] for i in stay]
        for new, i in enumerate(stay):
            self.inputs[new] = [(int(numbers.instances[p]), e) for p, e in state["inputs"][i]]
            self._place_results(new, [(d, finish) for d, finish in state["results"][i]])
            if self.stories.state[new] in POOL:
                self._into_pool(new)
        spans = [slice(*old.first_choice[j : j + 2].tolist()) for j in jobs]
        known = [branch for span in spans for branch in state["outcome"][span]]
        self.outcome[: len(known)] = known
        self._present = [j for j, here in enumerate(self._here) if here and not self._ended[j]]
        self._batches, self.jobs_left = state["batches"], self._ended.count(False)
        self.machines = [_machine_of(machine, numbers) for machine in state["machines"]]
        self.room.resume(state.get("room", []))
        for cache, (used, last) in zip(self.caches, state.get("loaded", []), strict=False):
            cache.used, cache.last = {kind: int(when) for kind, when in used}, last

    def _place_results(self, instance: int, places: list[tuple[int, float]]) -> None:
        self.results[instance] = places
        if places:
            self._ran_on[instance], self._finished_at[instance] = places[0]
        if len(places) > 1:
            self._copies[instance] = places[1:]


def _state_of(machine: Machine) -> dict[str, Any]:
    running = None if machine.running is None else asdict(machine.running)
    queue = [asdict(group) for group in machine.queue]
    return {**vars(machine), "queue": queue, "running": running}


def _machine_of(state: dict[str, Any], numbers: Renumbering) -> Machine:
    running = None if state["running"] is None else _group_of(state["running"], numbers)
    queue = deque(_group_of(group, numbers) for group in state["queue"])
    return Machine(**{**state, "queue": queue, "running": running})


def _group_of(state: dict[str, Any], numbers: Renumbering) -> Group:
    copied = int(numbers.instances[state["copied"]]) if state["copied"] >= 0 else -1
    return Group(**{**state, "members": numbers.of(state["members"]), "copied": copied})
