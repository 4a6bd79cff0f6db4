"""What a policy sees and says: `View` -> `Decision`. The same for simulations and for real runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.workflow import ALWAYS
from weft.sim.kernel.tables import Sim


@dataclass(frozen=True)
class Decision:
    """Commit a ready instance to a device.

    A device runs what was committed to it in that order. On a device with batch > 1, ready instances of the same kind join the
    batch, oldest job first, as far as they fit.

    `copy` is a parent, done elsewhere, that the device is to run once more first, so that its data is there: committed to the same queue
    just ahead. A policy that makes copies says so with an attribute ``copies = True``.
    """

    instance: int
    device: int
    copy: int = -1


@dataclass(frozen=True)
class Block:
    """Keep a device from starting anything until a time; then the policy is asked again. What runs there goes on."""

    device: int
    until: float


@dataclass(frozen=True, eq=False)
class View:
    """What is known at a moment: nothing of the scenario that has not been seen yet.

    Attributes
    ----------
    now : the time
    ready : (r,) instances whose inputs are finished and that are not committed yet, by number: oldest job first
    free_at : (p,) when each device is expected to have finished all that is committed to it; `now` when idle, inf when down
    idle : (p,) whether the device is up, not blocked, and has nothing running or committed
    pace : (p,) how many times as long a device takes now, compared with the estimate; inf: down
    ran_on : (instances,) the device that finished an instance first; -1 before
    finished_at : (instances,) when; NaN before
    started_at : (instances,) when what runs, or finished it first, was started; NaN before
    running : (p,) the first instance of what runs on each device, or -1
    jobs : (j,) the jobs in the system: arrived, not finished, not called off
    outcome : (choices over all jobs,) the branch taken, -1 while it is not known; None where every edge is taken
    copies : for instances run more than once, the other places and times: (device, finish) in order of finishing
    """

    workload: Workload
    now: float
    ready: IntArray
    free_at: FloatArray
    idle: BoolArray
    pace: FloatArray
    ran_on: IntArray
    finished_at: FloatArray
    started_at: FloatArray
    running: IntArray
    jobs: IntArray
    eager: bool
    outcome: IntArray | None = None
    copies: Mapping[int, list[tuple[int, float]]] = field(default_factory=dict)

    def duration(self, instance: int, device: int) -> float:
        """Expected seconds of an instance on a device, at its present pace; inf where it cannot run."""
        job, task = self.workload.task_of(instance)
        seconds = self.workload.problem_of(job).duration(task, device)
        return seconds * float(self.pace[device]) if seconds < np.inf else np.inf

    def arrival(self, instance: int, device: int) -> float:
        """When the inputs of a ready instance are all on a device, if it is committed there now."""
        job, task = self.workload.task_of(instance)
        problem, first = self.workload.problem_of(job), int(self.workload.first_instance[job])
        w = problem.workflow
        latest = 0.0
        for e in w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]].tolist():
            parent = first + int(w.src[e])
            done = float(self.finished_at[parent])
            if not np.isnan(done) and self._taken(
                job, e
            ):  # a parent on a branch not taken never finishes
                places = [(int(self.ran_on[parent]), done), *self.copies.get(parent, ())]
                sent = [
                    (origin, finish if self.eager else max(finish, self.now))
                    for origin, finish in places
                ]
                latest = max(
                    latest, min(when + problem.transfer(e, origin, device) for origin, when in sent)
                )
        return latest

    def _taken(self, job: int, edge: int) -> bool:
        choices = self.workload.problem_of(job).workflow.choices
        choice = int(choices.edge_choice[edge])
        if choice == ALWAYS or self.outcome is None:
            return True
        return bool(
            self.outcome[int(self.workload.first_choice[job]) + choice] == choices.edge_branch[edge]
        )

    def finish(self, instance: int, device: int) -> float:
        """Expected finish of an instance if it is committed to a device now."""
        return max(
            float(self.free_at[device]), self.arrival(instance, device), self.now
        ) + self.duration(instance, device)


class Policy(Protocol):
    """One decision at a time. A policy may keep state of its own, made anew by `begin`."""

    @property
    def name(self) -> str:
        """The name it is registered under, or a telling one."""
        ...

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Get ready for a new simulation or run of this workload."""
        ...

    def decide(self, view: View) -> Decision | Block | None:
        """Return one decision, a block, or None to wait for the next event. Called again until it waits or nothing is ready."""
        ...


@runtime_checkable
class CompiledPolicy(Policy, Protocol):
    """A policy that can make all decisions of a simulation by itself, the same ones as `decide` would, without a view for each."""

    def live(self, sim: Sim) -> int:
        """Live a simulation to its end, after `begin`; answer as `weft.sim.kernel.rules.run_to_end` does."""
        ...
