"""The state of instances and devices, with a method for every question about it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np

from weft.model import Problem, Workload
from weft.model.columns import FloatArray
from weft.sim.cache import KindCache
from weft.sim.device_state import ExecutionColumns, Machine
from weft.sim.instance_tables import InstanceNames, OutgoingEdges
from weft.sim.room import Room
from weft.sim.story import POOL, State, Stories
from weft.sim.traffic import Traffic
from weft.sim.view import View


class LifecycleState:
    """The state of all instances and devices; `Lifecycle` changes it."""

    def __init__(
        self,
        workload: Workload,
        *,
        eager: bool = True,
        planned: bool = False,
        keys: Sequence[float] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.workload = workload
        self.traffic = traffic
        self.eager = eager
        self.planned = planned
        self.keys = [0.0] * workload.instances if keys is None else [float(k) for k in keys]
        self.place = [
            (job, task)
            for job in range(workload.jobs)
            for task in range(workload.problem_of(job).n)
        ]
        numbers = {kind: k for k, kind in enumerate(workload.kinds)}
        self.kind = [
            numbers[w.kinds[w.kind[t]]]
            for w, t in ((workload.problem_of(j).workflow, t) for j, t in self.place)
        ]
        self.stories = Stories(InstanceNames(self.place, self.problem))
        self.machines = [Machine() for _ in range(workload.cluster.p)]
        self._first: list[int] = workload.first_instance.tolist()
        self._template: list[int] = workload.template.tolist()
        self._edges = [OutgoingEdges.of(problem.workflow) for problem in workload.problems]
        self.ready: list[int] = []
        """Instances that may be committed, by number."""
        self.executions = ExecutionColumns()
        self.results: list[Sequence[tuple[int, float]]] = [()] * len(self.place)
        """Instance -> where and when it was finished: the places to read its data from."""
        self.started = np.full(len(self.place), nan)
        """When the execution that finished an instance first was started."""
        self.inputs: list[Sequence[tuple[int, int]]] = [()] * len(self.place)
        """Instance -> (parent, edge) of the incoming edges that were taken."""
        self.outcome = np.full(int(workload.first_choice[-1]), -1, np.int64)
        self.job_finish = [nan] * workload.jobs
        self._latest = [-inf] * workload.jobs
        self.jobs_left = workload.jobs
        self._left = [workload.problem_of(j).n for j in range(workload.jobs)]
        self._here = [False] * workload.jobs
        self._ended = [False] * workload.jobs
        indegree = {
            t: np.diff(p.workflow.pred_ptr).tolist() for t, p in enumerate(workload.problems)
        }
        self._undecided = [indegree[int(workload.template[j])][t] for j, t in self.place]
        self._reserved = [False] * workload.instances
        self._target = [-1] * workload.instances
        self.room = Room(workload, lambda i: self.problem(i).needs[self.place[i][1]])
        self.caches = [
            KindCache(workload, d) for d in range(workload.cluster.p) if workload.cluster.has_setup
        ]
        """What each device has loaded; empty without set-up."""
        self._batches = 0

    def ended(self, job: int) -> bool:
        """Return whether a job is finished or cancelled."""
        return self._ended[job]

    def choices_of(self, instance: int) -> list[int]:
        """Return the choices, numbered over all jobs, that an instance's end decides."""
        job, task = self.place[instance]
        first = int(self.workload.first_choice[job])
        return [
            first + c
            for c in np.flatnonzero(self.problem(instance).workflow.choices.task == task).tolist()
        ]

    def problem(self, instance: int) -> Problem:
        """Return the problem that an instance is part of."""
        return self.workload.problem_of(self.place[instance][0])

    def can_run(self, instance: int, device: int) -> bool:
        """Return whether a device is able to run an instance, up or down."""
        return self.problem(instance).duration(self.place[instance][1], device) < inf

    def refusal(self, instance: int, device: int) -> str | None:
        """Return why an instance must not be committed to a device now, or None."""
        if not self.can_run(instance, device):
            return f"device '{self.workload.cluster.names[device]}' cannot run it"
        if self.planned:
            return None
        if self.stories.state[instance] not in POOL:
            return f"it is {self.stories.state[instance]}, not ready"
        if self.machines[device].slowdown < inf:
            return None
        return f"device '{self.workload.cluster.names[device]}' is down"

    def copy_refusal(self, parent: int, instance: int, device: int) -> str | None:
        """Return why a device must not copy a parent ahead of an instance, or None."""
        (job, task), w = self.place[instance], self.problem(instance).workflow
        if parent - int(self.workload.first_instance[job]) not in w.parents(task):
            return f"instance {parent} is not one of its parents"
        if self.stories.state[parent] is not State.DONE:
            return f"{self.stories.names[parent]} is {self.stories.state[parent]}, not done"
        if self.can_run(parent, device):
            return None
        name = self.workload.cluster.names[device]
        return f"device '{name}' cannot run {self.stories.names[parent]}"

    def batch(self, instance: int, device: int) -> list[int]:
        """Return an instance and the ready ones of its kind that fit on the device."""
        cluster = self.workload.cluster
        group, most = [instance], int(self.workload.batch_limit[self.kind[instance], device])
        memory = self._memory(instance)
        alike = (i for i in self.ready if i != instance and self.kind[i] == self.kind[instance])
        others = [i for i in alike if self.can_run(i, device)]
        for i in sorted(others, key=lambda i: (self.keys[i], i)):
            if len(group) == most or memory + self._memory(i) > float(cluster.memory[device]):
                break
            if not self.room.holds([*group, i], device):
                break
            group.append(i)
            memory += self._memory(i)
        return group

    def arrival(
        self, members: Sequence[int], device: int, decided: float, *, copied: int = -1
    ) -> float:
        """Return when all inputs of a group are on a device.

        Each comes from its nearest source. Inputs from the parent `copied` are left out.
        """
        latest = 0.0
        for i in members:
            problem = self.problem(i)
            for parent, edge in self.inputs[i]:
                if parent == copied:
                    continue
                came = inf
                for source, finish in self.results[parent]:
                    sent = finish if self.eager else max(finish, decided)
                    came = min(came, sent + problem.transfer(edge, source, device))
                latest = max(latest, came)
        return latest

    def expected(self, members: Sequence[int], device: int) -> float:
        """Return the expected seconds of a group on a device, at its present slowdown."""
        slowdown = self.machines[device].slowdown
        longest = 0.0
        for i in members:
            longest = max(longest, self.problem(i).duration(self.place[i][1], device) * slowdown)
        return longest * self.growth(members, device)

    def setup(self, instance: int, device: int) -> float:
        """Return the expected set-up of an instance behind the queue of a device.

        It is in seconds; the device is up.
        """
        if not self.caches:
            return 0.0
        cache = self._cache_after_queue(device)
        return cache.seconds(self.kind_name(instance)) * self.machines[device].slowdown

    def kind_name(self, instance: int) -> str:
        """Return the name of the kind of an instance."""
        workflow = self.problem(instance).workflow
        return workflow.kinds[int(workflow.kind[self.place[instance][1]])]

    def growth(self, members: Sequence[int], device: int) -> float:
        """Return the seconds of a batch over those of its longest member alone."""
        growth = self.workload.batch_growth[self.kind[members[0]], device]
        return float(growth[min(len(members), len(growth)) - 1])

    def idle(self, device: int, now: float) -> bool:
        """Return whether a device is up, not blocked, and has nothing running or queued."""
        m = self.machines[device]
        return m.slowdown < inf and now >= m.blocked_until and m.running is None and not m.queue

    def free_at(self, device: int, now: float) -> float:
        """Return when a device is expected to finish its commitments; inf when down."""
        machine = self.machines[device]
        if machine.slowdown == inf:
            return inf
        t = now if machine.running is None else max(now, machine.running.expected)
        t = max(t, machine.blocked_until)
        cache = self.caches[device].after([]) if self.caches else None
        for group in machine.queue:
            there = self.arrival(group.members, device, group.decided, copied=group.copied)
            seconds = self.expected(group.members, device)
            if cache is not None:
                kind = self.kind_name(group.members[0])
                seconds += cache.seconds(kind) * machine.slowdown
                cache.load(kind)
            t = max(t, there) + seconds
        return t

    def setup_view(self) -> dict[str, Any]:
        """Return the columns of a view that show the set-up; none without it."""
        if not self.caches:
            return {}
        kinds = self.workload.kinds
        seconds = np.zeros((len(kinds), len(self.machines)))
        for d, machine in enumerate(self.machines):
            cache = self._cache_after_queue(d)
            up = machine.slowdown < inf
            seconds[:, d] = [cache.seconds(k) * machine.slowdown if up else inf for k in kinds]
        used = [[c.used.get(k, 0) for k in kinds] for c in self.caches]
        last = [kinds.index(c.last) if c.last in kinds else -1 for c in self.caches]
        return {"loaded": np.column_stack((np.array(used, np.int64), last)), "setup": seconds}

    def _cache_after_queue(self, device: int) -> KindCache:
        queue = self.machines[device].queue
        return self.caches[device].after(self.kind_name(group.members[0]) for group in queue)

    def started_at(self) -> FloatArray:
        """Return the start (instances,) of the running or first finished run, or NaN."""
        started = self.started.copy()
        running = [m.running for m in self.machines if m.running is not None and not m.running.copy]
        members = [i for group in running for i in group.members]
        started[members] = [group.start for group in running for _ in group.members]
        return started

    def view(self, now: float) -> View:
        """Return the view of a policy."""
        devices = range(len(self.machines))
        first = [results[0] if results else (-1, nan) for results in self.results]
        return View(
            workload=self.workload,
            now=now,
            ready=np.array(self.ready, np.int64),
            free_at=np.array([self.free_at(d, now) for d in devices]),
            idle=np.array([self.idle(d, now) for d in devices]),
            slowdown=np.array([m.slowdown for m in self.machines]),
            ran_on=np.array([device for device, _ in first], np.int64),
            finished_at=np.array([finish for _, finish in first], np.float64),
            started_at=self.started_at(),
            running=np.array(
                [-1 if m.running is None else m.running.members[0] for m in self.machines], np.int64
            ),
            jobs=np.array(
                [j for j, here in enumerate(self._here) if here and not self._ended[j]], np.int64
            ),
            eager=self.eager,
            outcome=self.outcome.copy(),
            copies={i: list(r[1:]) for i, r in enumerate(self.results) if len(r) > 1},
            room=self.room.left(),
            **self.setup_view(),
        )

    def _memory(self, instance: int) -> float:
        return float(self.problem(instance).workflow.memory[self.place[instance][1]])
