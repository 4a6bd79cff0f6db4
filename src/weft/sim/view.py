"""The interface of policies, simulated or in real runs: `View` -> `Decision`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.workflow import ALWAYS
from weft.sim.kernel.tables import Sim
from weft.sim.renumbering import Renumbering


@dataclass(frozen=True)
class Decision:
    """Commit a ready instance to a device.

    A device runs its commitments in order. On a device with batch > 1, ready instances of the same
    kind join the batch, oldest job first, as far as they fit.

    `copy` is a parent, done elsewhere, that the device runs again first, so that its data is local.
    It joins the same queue just ahead. A policy that makes copies has the attribute
    ``copies = True``.
    """

    instance: int
    device: int
    copy: int = -1


@dataclass(frozen=True)
class Block:
    """A decision to start no group on a device until a time, which is an event.

    The running group goes on.
    """

    device: int
    until: float


@dataclass(frozen=True, eq=False)
class View:
    """The state that a policy may observe; it contains nothing of the future.

    Attributes
    ----------
    now : the time
    ready : (r,) instances that can be committed, by number: oldest job first
    free_at : (p,) expected end of all commitments of a device; `now` when idle, inf when down
    idle : (p,) whether the device is up, not blocked, and has nothing running or committed
    slowdown : (p,) how many times as long as estimated a device takes now; inf: down
    ran_on : (instances,) the device that finished an instance first; -1 before
    finished_at : (instances,) when; NaN before
    started_at : (instances,) start of the running or first finished execution; NaN before
    running : (p,) the first instance of the running group of each device, or -1
    jobs : (j,) the jobs in the system: arrived, not finished, not cancelled
    outcome : (choices over all jobs,) the branch taken, -1 while unknown; None without choices
    copies : instances with several executions: the other (device, finish), by finish
    room : (nodes, capacities) what is left of the capacities of nodes; None without capacities
    loaded : (p, kinds + 1) when a device last used each kind, counted from 1, 0 where the kind is
        not loaded; in the last column the kind of its last group, or -1. None without set-up
    setup : (kinds, p) seconds of set-up before a group of a kind that is committed now, behind the
        commitments of the device, at its present slowdown; None without set-up
    """

    workload: Workload
    now: float
    ready: IntArray
    free_at: FloatArray
    idle: BoolArray
    slowdown: FloatArray
    ran_on: IntArray
    finished_at: FloatArray
    started_at: FloatArray
    running: IntArray
    jobs: IntArray
    eager: bool
    outcome: IntArray | None = None
    copies: Mapping[int, list[tuple[int, float]]] = field(default_factory=dict)
    room: FloatArray | None = None
    loaded: IntArray | None = None
    setup: FloatArray | None = None

    def moment(self) -> tuple[object, ...]:
        """Return a value that changes with ended tasks, jobs and speeds, not decisions.

        The time alone is not enough, since a task may take no time.
        """
        ended = int(np.count_nonzero(~np.isnan(self.finished_at)))
        ended += sum(map(len, self.copies.values()))
        return self.now, ended, self.jobs.tobytes(), self.slowdown.tobytes()

    def duration(self, instance: int, device: int) -> float:
        """Return expected seconds at the present slowdown; inf where it cannot run."""
        job, task = self.workload.task_of(instance)
        seconds = self.workload.problem_of(job).duration(task, device)
        return seconds * float(self.slowdown[device]) if seconds < np.inf else np.inf

    def seconds(self, instance: int, device: int) -> float:
        """Return expected seconds of set-up and duration, if committed to a device now."""
        run = self.duration(instance, device)
        if self.setup is None or run == np.inf:
            return run
        job, task = self.workload.task_of(instance)
        workflow = self.workload.problem_of(job).workflow
        kind = self.workload.kinds.index(workflow.kinds[int(workflow.kind[task])])
        return run + float(self.setup[kind, device])

    def has_room(self, instance: int, device: int) -> bool:
        """Return whether the node of a device has room for an instance.

        The needs of the instance must be left of its capacities.
        """
        if self.room is None:
            return True
        job, task = self.workload.task_of(instance)
        left = self.room[self.workload.cluster.node[device]]
        return bool((left - self.workload.problem_of(job).needs[task] >= 0.0).all())

    def arrival(self, instance: int, device: int) -> float:
        """Return when all inputs of a ready instance are on a device, if committed now."""
        problem = self.workload.problem_of(self.workload.task_of(instance)[0])
        latest = 0.0
        for edge, sent in self._inputs(instance):
            came = min(when + problem.transfer(edge, origin, device) for origin, when in sent)
            latest = max(latest, came)
        return latest

    def arrivals(self, instance: int) -> FloatArray:
        """Return `arrival` on each device: (p,)."""
        problem = self.workload.problem_of(self.workload.task_of(instance)[0])
        data, links = problem.workflow.data, problem.cluster
        latest = np.zeros(len(self.slowdown))
        for edge, sent in self._inputs(instance):
            came = np.full(len(latest), np.inf)
            for origin, when in sent:
                move = links.latency[origin] + float(data[edge]) * links.per_byte[origin]
                came = np.minimum(came, when + move)
            latest = np.maximum(latest, came)
        return latest

    def _inputs(self, instance: int) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield each taken edge to a ready instance, with (device, time) of its data."""
        job, task = self.workload.task_of(instance)
        w, first = self.workload.problem_of(job).workflow, int(self.workload.first_instance[job])
        for e in w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]].tolist():
            parent = first + int(w.src[e])
            done = float(self.finished_at[parent])
            # A parent on a branch that is not taken never finishes.
            if not np.isnan(done) and self._taken(job, e):
                places = [(int(self.ran_on[parent]), done), *self.copies.get(parent, ())]
                yield e, [(d, when if self.eager else max(when, self.now)) for d, when in places]

    def _taken(self, job: int, edge: int) -> bool:
        choices = self.workload.problem_of(job).workflow.choices
        choice = int(choices.edge_choice[edge])
        if choice == ALWAYS or self.outcome is None:
            return True
        return bool(
            self.outcome[int(self.workload.first_choice[job]) + choice] == choices.edge_branch[edge]
        )

    def finish(self, instance: int, device: int) -> float:
        """Return the expected finish of an instance if it is committed to a device now."""
        return max(
            float(self.free_at[device]), self.arrival(instance, device), self.now
        ) + self.seconds(instance, device)


class Policy(Protocol):
    """A source of decisions, one at a time. `begin` resets its state."""

    @property
    def name(self) -> str:
        """The registered name, or a descriptive one."""
        ...

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Prepare for a new simulation or run of this workload."""
        ...

    def decide(self, view: View) -> Decision | Block | None:
        """Return a decision, a block, or None to wait for the next event.

        The simulator asks again until the policy waits or no instance is ready.
        """
        ...


@runtime_checkable
class CompiledPolicy(Policy, Protocol):
    """A policy whose decisions, equal to `decide`'s, are made in compiled code."""

    def live(self, sim: Sim) -> int:
        """Run a simulation to its end, after `begin`; return ENDED or STUCK."""
        ...


@runtime_checkable
class ResumablePolicy(Policy, Protocol):
    """A policy whose memory can outlive a workload, for sessions without an end."""

    def state(self) -> dict[str, Any]:
        """Return its state beyond the view, as lists, numbers and arrays."""
        ...

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin` with a workload that continues the old one."""
        ...
