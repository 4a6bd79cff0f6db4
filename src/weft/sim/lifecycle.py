"""Lifecycle of instances and devices: events in, commands out; no clock and no I/O.

A simulation drives it with the times of a scenario, a real run with a real clock. It defines which
event may follow, never how long an execution takes: the caller reports when a group ended and which
branches its choices took. `docs/simulator.md` is the definition.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Trace, Workload
from weft.model.columns import FloatArray
from weft.model.trace import CANCELLED, DONE, LOST, beside_originals
from weft.sim.cache import KindCache
from weft.sim.device_state import Execution, Group, Machine, Start, Wake
from weft.sim.instance_tables import InstanceNames, OutgoingEdges, add_to
from weft.sim.room import Room
from weft.sim.story import OVER, POOL, ImpossibleTransition, State, Stories
from weft.sim.traffic import Traffic
from weft.sim.view import View


class Lifecycle:
    """All instances of a workload and the devices they run on.

    Parameters
    ----------
    eager : data moves when it is produced, or (False) when its consumer is committed
    planned : replay a plan: rows are committed before they are ready and stay on a failed device
    keys : (instances,) order in which ready instances join a batch, ties by number
    traffic : the transfers between nodes, in a simulation on a network

    Examples
    --------
    >>> life = Lifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]], [[0, 1]])))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> isinstance(life.start_due(0, 0.0), Start), life.free_at(0, 0.0)
    (True, 2.0)
    >>> life.finish(0, 2.5)
    >>> life.ready
    [1]
    """

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
        self.executions: list[Execution] = []
        self.results: list[Sequence[tuple[int, float]]] = [()] * len(self.place)
        """Where and when an instance was finished: the places its data can be read from."""
        self.started = np.full(len(self.place), nan)
        """Return when the execution that finished an instance first was started."""
        self.inputs: list[Sequence[tuple[int, int]]] = [()] * len(self.place)
        """(parent, edge) over the incoming edges that were taken."""
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

    # -- events -------------------------------------------------------------

    def arrive(self, job: int, now: float) -> None:
        """A job arrives: its tasks without incoming edges become ready."""
        if self._ended[job]:
            return  # cancelled before
        self._here[job] = True
        for i in self._instances(job):
            if self._undecided[i] == 0:
                self._make_ready(i, now, "arrived")
        self._end_if_complete(job, now)

    def commit(
        self, instances: Sequence[int], device: int, now: float, *, copy: bool = False
    ) -> None:
        """Append a group to a device's queue; only a plan may do so before it is ready."""
        for i in instances:
            why = self.refusal(i, device)
            if why:
                raise ImpossibleTransition(
                    f"{self.stories.names[i]} cannot be committed at {now:g}: {why}",
                    self.stories.of(i),
                )
        where = f"to device '{self.workload.cluster.names[device]}'"
        for i in instances:
            self._reserved[i] = True
            if self.stories.state[i] in POOL:
                self._out_of_pool(i)
                self.stories.move(i, State.COMMITTED, now, where)
            else:
                self.stories.note(i, now, f"{'copy ' if copy else ''}planned {where}")
        self.machines[device].queue.append(Group(list(instances), device, now, copy))
        for i in instances if self.traffic is not None else ():
            self._target[i] = device
            for parent, edge in sorted(self.inputs[i]):
                self._send(i, parent, edge, now)

    def commit_with_copy(
        self, instances: Sequence[int], device: int, now: float, parent: int
    ) -> None:
        """Append a copy of a done parent, and a group behind it, to a device's queue."""
        self.machines[device].queue.append(Group([parent], device, now, copy=True))
        self.stories.note(
            parent, now, f"copy committed to device '{self.workload.cluster.names[device]}'"
        )
        self.commit(instances, device, now)
        self.machines[device].queue[-1].copied = parent

    def block(self, device: int, until: float) -> None:
        """Start no group on a device until a time."""
        self.machines[device].blocked_until = until

    def start_due(self, device: int, now: float) -> Start | Wake | None:
        """Start the head of a device's queue if possible, else return when to look again."""
        machine = self.machines[device]
        if machine.pace == inf or machine.running is not None:
            return None
        if now < machine.blocked_until:
            return Wake(device, machine.blocked_until)
        if not machine.queue or any(
            self.stories.state[i] is State.WAITING for i in machine.queue[0].members
        ):
            return None
        group = machine.queue[0]
        if self.traffic is None:
            there = self.arrival(group.members, device, group.decided)
        else:
            there = self.traffic.arrival(group.members)
        if there > now:
            self._transfer(group, now)
            return Wake(device, there)
        if not self.room.fits(group.members, device):
            return None  # until something ends on the node
        machine.queue.popleft()
        self._run(group, machine, now)
        return Start(group)

    def finish(self, device: int, now: float, outcomes: Mapping[int, int] | None = None) -> None:
        """Finish the running group; `outcomes` has the branch of each choice of its members."""
        group = self._take_running(device, now)
        for i in group.members:
            self._record(group, i, now, DONE)
            add_to(self.results, i, (device, now))
            if self.stories.state[i] is State.DONE:
                self.stories.note(
                    i, now, f"a copy ended on '{self.workload.cluster.names[device]}'"
                )
                continue
            self.started[i] = group.start
            self.stories.move(i, State.DONE, now)
            self._reveal(i, outcomes or {})
            self._decide_edges(i, now)
            self._count_down(i, now)

    def lose(self, device: int, now: float, note: str = "failed") -> Group:
        """Lose the running group: its members are ready again, or a plan keeps it at the head."""
        group = self._take_running(device, now)
        for i in group.members:
            self._record(group, i, now, LOST)
            if self.stories.state[i] is State.DONE or self._runs(i):
                self.stories.note(i, now, f"a copy was lost: {note}")
                continue
            self.stories.move(i, State.LOST, now, note)
            if self.planned:
                self.stories.move(i, State.COMMITTED, now, "again")
            else:
                self.stories.move(i, State.RETRIED, now)
                self._into_pool(i)
        if self.planned:
            self.machines[device].queue.appendleft(
                Group(group.members, device, group.decided, group.copy)
            )
        return group

    def change_pace(self, device: int, pace: float, now: float) -> Group | None:
        """Set the slowdown of a device (inf: it fails); return the group that was lost, if any."""
        machine = self.machines[device]
        old, machine.pace = machine.pace, pace
        if pace < inf:
            group = machine.running
            if group is not None and group.expected > now:
                group.expected = now + (group.expected - now) * (pace / old)
            return None
        note = f"device '{self.workload.cluster.names[device]}' failed"
        if self.caches:
            self.caches[device].empty()
        lost = self.lose(device, now, note) if machine.running is not None else None
        if not self.planned:
            for i in (i for group in machine.queue if not group.copy for i in group.members):
                self.stories.move(i, State.RETRIED, now, note)
                self._into_pool(i)
            machine.queue.clear()
        return lost

    def cancel(self, job: int, now: float) -> list[int]:
        """Cancel a job; return the devices whose running group ended because of it."""
        if self._ended[job]:
            return []
        for i in self._instances(job):
            if self.stories.state[i] in POOL:
                self._out_of_pool(i)
            if self.stories.state[i] not in OVER:
                self.stories.move(i, State.CANCELLED, now)
        self._end(job)
        return [device for device in range(len(self.machines)) if self._purge(device, now)]

    # -- views --------------------------------------------------------------

    def ended(self, job: int) -> bool:
        """Whether a job is finished or cancelled."""
        return self._ended[job]

    def choices_of(self, instance: int) -> list[int]:
        """Numbers, over all jobs, of the choices that an instance's end decides."""
        job, task = self.place[instance]
        first = int(self.workload.first_choice[job])
        return [
            first + c
            for c in np.flatnonzero(self.problem(instance).workflow.choices.task == task).tolist()
        ]

    def problem(self, instance: int) -> Problem:
        """The problem an instance is part of."""
        return self.workload.problem_of(self.place[instance][0])

    def can_run(self, instance: int, device: int) -> bool:
        """Whether a device is able to run an instance, up or down."""
        return self.problem(instance).duration(self.place[instance][1], device) < inf

    def refusal(self, instance: int, device: int) -> str | None:
        """Return why an instance must not be committed to a device now, or None."""
        name = self.workload.cluster.names[device]
        if not self.can_run(instance, device):
            return f"device '{name}' cannot run it"
        if self.planned:
            return None
        if self.stories.state[instance] not in POOL:
            return f"it is {self.stories.state[instance]}, not ready"
        return f"device '{name}' is down" if self.machines[device].pace == inf else None

    def copy_refusal(self, parent: int, instance: int, device: int) -> str | None:
        """Return why a parent must not be copied ahead of an instance to a device, or None."""
        (job, task), w = self.place[instance], self.problem(instance).workflow
        if (
            parent - int(self.workload.first_instance[job])
            not in w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
        ):
            return f"instance {parent} is not one of its parents"
        if self.stories.state[parent] is not State.DONE:
            return f"{self.stories.names[parent]} is {self.stories.state[parent]}, not done"
        able = self.can_run(parent, device)
        return (
            None
            if able
            else f"device '{self.workload.cluster.names[device]}' cannot run "
            f"{self.stories.names[parent]}"
        )

    def batch(self, instance: int, device: int) -> list[int]:
        """Return the instance and the ready ones of its kind that fit beside it on the device."""
        cluster = self.workload.cluster
        group, most = [instance], int(self.workload.batch_limit[self.kind[instance], device])
        memory = self._memory(instance)
        others = [
            i
            for i in self.ready
            if i != instance and self.kind[i] == self.kind[instance] and self.can_run(i, device)
        ]
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
        """Return when the inputs of a group are all on a device, each from its nearest source.

        Inputs from the parent `copied` are left out.
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
        """Expected seconds of a group on a device that is up, at its present pace."""
        pace = self.machines[device].pace
        longest = 0.0
        for i in members:
            longest = max(longest, self.problem(i).duration(self.place[i][1], device) * pace)
        return longest * self.growth(members, device)

    def setup(self, instance: int, device: int) -> float:
        """Expected seconds of set-up of an instance behind the queue of a device that is up."""
        if not self.caches:
            return 0.0
        cache = self._cache_after_queue(device)
        return cache.seconds(self.kind_name(instance)) * self.machines[device].pace

    def kind_name(self, instance: int) -> str:
        """The name of the kind of an instance."""
        workflow = self.problem(instance).workflow
        return workflow.kinds[int(workflow.kind[self.place[instance][1]])]

    def growth(self, members: Sequence[int], device: int) -> float:
        """Seconds of a batch over those of its longest member alone."""
        growth = self.workload.batch_growth[self.kind[members[0]], device]
        return float(growth[min(len(members), len(growth)) - 1])

    def idle(self, device: int, now: float) -> bool:
        """Whether a device is up, not blocked, and has nothing running or queued."""
        m = self.machines[device]
        return m.pace < inf and now >= m.blocked_until and m.running is None and not m.queue

    def free_at(self, device: int, now: float) -> float:
        """Return when a device is expected to have finished its commitments; inf when down."""
        machine = self.machines[device]
        if machine.pace == inf:
            return inf
        t = now if machine.running is None else max(now, machine.running.expected)
        t = max(t, machine.blocked_until)
        cache = self.caches[device].after([]) if self.caches else None
        for group in machine.queue:
            there = self.arrival(group.members, device, group.decided, copied=group.copied)
            seconds = self.expected(group.members, device)
            if cache is not None:
                kind = self.kind_name(group.members[0])
                seconds += cache.seconds(kind) * machine.pace
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
            up = machine.pace < inf
            seconds[:, d] = [cache.seconds(k) * machine.pace if up else inf for k in kinds]
        used = [[c.used.get(k, 0) for k in kinds] for c in self.caches]
        last = [kinds.index(c.last) if c.last in kinds else -1 for c in self.caches]
        return {"loaded": np.column_stack((np.array(used, np.int64), last)), "setup": seconds}

    def _cache_after_queue(self, device: int) -> KindCache:
        queue = self.machines[device].queue
        return self.caches[device].after(self.kind_name(group.members[0]) for group in queue)

    def started_at(self) -> FloatArray:
        """(instances,) start of the running or first finished execution; NaN before."""
        started = self.started.copy()
        for machine in self.machines:
            if machine.running is not None and not machine.running.copy:
                started[machine.running.members] = machine.running.start
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
            pace=np.array([m.pace for m in self.machines]),
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

    def trace(self, scenario: Scenario, policy: str) -> Trace:
        """The executions so far, as a trace."""
        rows = self.executions
        instance = np.array([x.instance for x in rows], np.int64)
        device = np.array([x.device for x in rows], np.int64)
        finish = np.array([x.finish for x in rows], np.float64)
        status = np.array([x.status for x in rows], np.int64)
        copy = np.array([x.copy for x in rows], bool)
        return Trace(
            workload=self.workload,
            scenario=scenario,
            job=np.array([self.place[x.instance][0] for x in rows], np.int64),
            task=np.array([self.place[x.instance][1] for x in rows], np.int64),
            device=device,
            decided=np.array([x.decided for x in rows], np.float64),
            start=np.array([x.start for x in rows], np.float64),
            finish=finish,
            status=status,
            batch=np.array([x.batch for x in rows], np.int64),
            copy=beside_originals(instance, status, device, finish, copy),
            job_finish=np.array(self.job_finish, np.float64),
            eager=self.eager,
            policy=policy,
            transfers=None if self.traffic is None else self.traffic.transfers(self.workload),
        )

    # -- inside -------------------------------------------------------------

    def _instances(self, job: int) -> range:
        return range(
            int(self.workload.first_instance[job]), int(self.workload.first_instance[job + 1])
        )

    def _memory(self, instance: int) -> float:
        return float(self.problem(instance).workflow.memory[self.place[instance][1]])

    def _make_ready(self, instance: int, now: float, note: str) -> None:
        self.stories.move(instance, State.READY, now, note)
        if self._reserved[instance]:
            self.stories.move(instance, State.COMMITTED, now, "as planned")
        else:
            self._into_pool(instance)

    def _send(self, instance: int, parent: int, edge: int, now: float) -> None:
        """Begin the transfer of an input to the device of a committed instance."""
        if self.traffic is not None and self._target[instance] >= 0:
            source = self.results[parent][0][0]
            problem, target = self.problem(instance), self._target[instance]
            self.traffic.begin(instance, problem, edge, source, target, now)

    def _into_pool(self, instance: int) -> None:
        if self.traffic is not None:
            self.traffic.forget(instance)
        insort(self.ready, instance)

    def _out_of_pool(self, instance: int) -> None:
        del self.ready[bisect_left(self.ready, instance)]

    def _transfer(self, group: Group, now: float) -> None:
        for i in group.members:
            if self.stories.state[i] is State.COMMITTED:
                self.stories.move(
                    i, State.TRANSFERRING, now, f"to '{self.workload.cluster.names[group.device]}'"
                )

    def _run(self, group: Group, machine: Machine, now: float) -> None:
        group.start, group.batch = now, self._batches
        group.expected = now + self.expected(group.members, group.device)
        if self.caches:
            self._set_up(group, machine, now)
        self._batches += 1
        machine.running, machine.last_kind = group, self.kind[group.members[0]]
        where = f"on '{self.workload.cluster.names[group.device]}'"
        for i in group.members:
            self.room.occupy(i, group.device, -1.0)
            if self.stories.state[i] in (State.RUNNING, State.DONE):
                self.stories.note(i, now, f"a copy runs {where}")
            else:
                self.stories.move(i, State.RUNNING, now, where)

    def _set_up(self, group: Group, machine: Machine, now: float) -> None:
        cache, kind = self.caches[group.device], self.kind_name(group.members[0])
        group.setup = cache.seconds(kind) * machine.pace
        cache.load(kind)
        group.expected = now + (self.expected(group.members, group.device) + group.setup)

    def _runs(self, instance: int) -> bool:
        return any(m.running is not None and instance in m.running.members for m in self.machines)

    def _take_running(self, device: int, now: float) -> Group:
        group = self.machines[device].running
        if group is None:
            name = self.workload.cluster.names[device]
            raise ImpossibleTransition(
                f"something ended on device '{name}' at {now:g}, but nothing runs there"
            )
        self.machines[device].running = None
        return group

    def _record(self, group: Group, instance: int, now: float, status: int) -> None:
        self.room.occupy(instance, group.device, 1.0)
        self.executions.append(
            Execution(
                instance,
                group.device,
                group.decided,
                group.start,
                now,
                status,
                group.batch,
                group.copy,
            )
        )

    def _reveal(self, instance: int, outcomes: Mapping[int, int]) -> None:
        choices = self.problem(instance).workflow.choices
        first = int(self.workload.first_choice[self.place[instance][0]])
        for c in self.choices_of(instance):
            count = len(choices.branches(c - first))
            if not 0 <= outcomes.get(c, -1) < count:
                found = f"branch {outcomes[c]}" if c in outcomes else "no branch"
                raise InvalidInput(
                    f"{self.stories.names[instance]} ended with {found} for choice {c}; "
                    f"it has branches 0 to {count - 1}"
                )
            self.outcome[c] = outcomes[c]

    def _decide_edges(self, instance: int, now: float) -> None:
        """Decide the edges of a done instance, and of all that become skipped, depth first."""
        stack = self._outgoing(instance)
        while stack:
            parent, edge, child, taken = stack.pop()
            self._undecided[child] -= 1
            if taken:
                add_to(self.inputs, child, (parent, edge))
                self._send(child, parent, edge, now)
            if self._undecided[child] > 0:
                continue
            if self.inputs[child]:
                self._make_ready(child, now, "inputs decided")
            else:
                self._skip(child, now)
                stack.extend(self._outgoing(child))

    def _outgoing(self, instance: int) -> list[tuple[int, int, int, bool]]:
        """(instance, edge, target, taken) of the outgoing edges, last first: a stack."""
        job, task = self.place[instance]
        first, choices = self._first[job], int(self.workload.first_choice[job])
        ran = self.stories.state[instance] is State.DONE
        out = self._edges[self._template[job]]
        return [
            (
                instance,
                edge,
                first + out.child[edge],
                ran and out.taken(edge, self.outcome, choices),
            )
            for edge in range(out.begin[task + 1] - 1, out.begin[task] - 1, -1)
        ]

    def _skip(self, instance: int, now: float) -> None:
        self.stories.move(instance, State.SKIPPED, now, "no incoming edge was taken")
        if self._reserved[instance]:
            for device in range(len(self.machines)):
                self._purge(device, now)
        self._count_down(instance, now)

    def _purge(self, device: int, now: float) -> bool:
        """Drop skipped and cancelled instances; return whether the running group ended."""
        gone = (State.SKIPPED, State.CANCELLED)
        machine = self.machines[device]
        for group in machine.queue:
            group.members = [i for i in group.members if self.stories.state[i] not in gone]
        machine.queue = deque(group for group in machine.queue if group.members)
        running = machine.running
        if running is None:
            return False
        for i in [i for i in running.members if self.stories.state[i] in gone]:
            self._record(running, i, now, CANCELLED)
            running.members.remove(i)
        if running.members:
            return False
        machine.running = None
        return True

    def _count_down(self, instance: int, now: float) -> None:
        job = self.place[instance][0]
        self._left[job] -= 1
        self._latest[job] = max(
            self._latest[job], now
        )  # reports from real devices need not come in order of time
        self._end_if_complete(job, self._latest[job])

    def _end_if_complete(self, job: int, now: float) -> None:
        if self._left[job] == 0 and not self._ended[job]:
            self.job_finish[job] = now
            self._end(job)

    def _end(self, job: int) -> None:
        self._ended[job] = True
        self.jobs_left -= 1
