"""Lifecycle of instances and devices, without clock and I/O.

It takes events and returns commands. A simulation drives it with the times of a scenario, a real
run with a real clock. It defines which event may follow, but not how long an execution takes: the
caller reports when a group ended and which branches its choices took. `docs/simulator.md` is the
definition.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from weft.errors import InvalidInput
from weft.model import Scenario, Trace
from weft.model.trace import CANCELLED, DONE, LOST, beside_originals
from weft.sim.device_state import Group, Machine, Start, Wake
from weft.sim.instance_tables import add_to
from weft.sim.lifecycle_state import LifecycleState
from weft.sim.story import OVER, POOL, ImpossibleTransition, State


class Lifecycle(LifecycleState):
    """All instances of a workload and the devices they run on.

    Parameters
    ----------
    eager : data moves when it is produced, or (False) when its consumer is committed
    planned : replay a plan: rows are committed before they are ready and stay on a failed device
    keys : (instances,) order in which ready instances join a batch, ties by number
    traffic : the transfers between nodes, in a simulation on a network

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = Lifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]], [[0, 1]])))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> isinstance(life.start_due(0, 0.0), Start), life.free_at(0, 0.0)
    (True, 2.0)
    >>> life.finish(0, 2.5)
    >>> life.ready
    [1]
    """

    # -- events -------------------------------------------------------------

    def arrive(self, job: int, now: float) -> None:
        """Let a job arrive: its tasks without incoming edges become ready."""
        if self._ended[job]:
            return  # the job was cancelled before
        self._here[job] = True
        for i in self.instances(job):
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
        if machine.slowdown == inf or machine.running is not None:
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
            return None  # wait until something ends on the node
        machine.queue.popleft()
        self._run(group, machine, now)
        return Start(group)

    def finish(self, device: int, now: float, outcomes: Mapping[int, int] | None = None) -> None:
        """Finish the running group; `outcomes` has the branch of each of its choices."""
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
        """Lose the running group: it is ready again, or a plan keeps it at the head."""
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

    def change_slowdown(self, device: int, slowdown: float, now: float) -> Group | None:
        """Set the slowdown of a device (inf: it fails); return the lost group, if any."""
        machine = self.machines[device]
        old, machine.slowdown = machine.slowdown, slowdown
        if slowdown < inf:
            group = machine.running
            if group is not None and group.expected > now:
                group.expected = now + (group.expected - now) * (slowdown / old)
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
        for i in self.instances(job):
            if self.stories.state[i] in POOL:
                self._out_of_pool(i)
            if self.stories.state[i] not in OVER:
                self.stories.move(i, State.CANCELLED, now)
        self._end(job)
        return [device for device in range(len(self.machines)) if self._purge(device, now)]

    # -- views --------------------------------------------------------------

    def trace(self, scenario: Scenario, policy: str) -> Trace:
        """Return the executions so far, as a trace."""
        rows = self.executions
        instance = rows.column("instance").astype(np.int64)
        device = rows.column("device").astype(np.int64)
        finish = rows.column("finish")
        status = rows.column("status").astype(np.int64)
        copy = rows.column("copy").astype(bool)
        first = self.workload.first_instance
        job = np.searchsorted(first, instance, side="right") - 1
        return Trace(
            workload=self.workload,
            scenario=scenario,
            job=job,
            task=instance - first[job],
            device=device,
            decided=rows.column("decided"),
            start=rows.column("start"),
            finish=finish,
            status=status,
            batch=rows.column("batch").astype(np.int64),
            copy=beside_originals(instance, status, device, finish, copy),
            job_finish=np.array(self.job_finish, np.float64),
            eager=self.eager,
            policy=policy,
            transfers=None if self.traffic is None else self.traffic.transfers(self.workload),
        )

    def instances(self, job: int) -> range:
        """Return the instances of a job."""
        return range(
            int(self.workload.first_instance[job]), int(self.workload.first_instance[job + 1])
        )

    # -- inside -------------------------------------------------------------

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
            self.traffic.drop_inputs(instance)
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
        group.setup = cache.seconds(kind) * machine.slowdown
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
        device, decided, begin = group.device, group.decided, group.start
        self.executions.append(
            (instance, device, decided, begin, now, status, group.batch, group.copy)
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
        """Decide the edges of a done instance, then of skipped ones, depth first."""
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
        """Return (instance, edge, target, taken) of outgoing edges, last first: a stack."""
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
        self._latest[job] = max(self._latest[job], now)  # real devices may report ends out of order
        self._end_if_complete(job, self._latest[job])

    def _end_if_complete(self, job: int, now: float) -> None:
        if self._left[job] == 0 and not self._ended[job]:
            self.job_finish[job] = now
            self._end(job)

    def _end(self, job: int) -> None:
        self._ended[job] = True
        self.jobs_left -= 1
