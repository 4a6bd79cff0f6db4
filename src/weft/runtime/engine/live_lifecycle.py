"""The life cycle of a real run, with failed attempts, back-off and new jobs.

Transfers are real, unless they are `modelled`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np

from weft.model import Problem, Workflow, Workload
from weft.model.columns import IntArray, frozen
from weft.sim.cache import KindCache
from weft.sim.device_state import Group, Machine
from weft.sim.instance_tables import OutgoingEdges, add_to, small_numbers
from weft.sim.lifecycle import Lifecycle
from weft.sim.story import OVER, POOL, State
from weft.sim.view import View


class LiveLifecycle(Lifecycle):
    """A `Lifecycle` for real runs; the cost of its views does not grow with the tasks.

    Parameters
    ----------
    modelled : devices wait for the estimated arrival of their inputs, as in the simulator

    Examples
    --------
    >>> from weft.model import Problem
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[2.0], [3.0]], [[0, 1]])))
    >>> life.arrive(0, 0.0)
    >>> life.commit([0], 0, 0.0)
    >>> life.begin(0, 0.1).members
    [0]
    >>> life.lose(0, 0.5).members, life.give_up(0, 0.5, "it raised")
    ([0], [0, 1])
    """

    def __init__(
        self,
        workload: Workload,
        *,
        modelled: bool = False,
        eager: bool = True,
        planned: bool = False,
        keys: Sequence[float] | None = None,
    ) -> None:
        super().__init__(workload, eager=eager, planned=planned, keys=keys)
        self.modelled = modelled
        self._problems = [workload.problem_of(job) for job in range(workload.jobs)]
        self._costs: dict[int, tuple[memoryview, memoryview, memoryview]] = {}
        """Template -> work, row and per_work of its problem, as Python reads them fastest."""
        self._parents = [_parents(problem.workflow) for problem in workload.problems]
        self._workflows = [problem.workflow for problem in workload.problems]
        """Template -> the workflow of its edges and parents."""
        self.failed = [False] * workload.jobs
        """Job -> whether one of its tasks failed for good; such a job has no finish."""
        self.fresh: list[int] | None = None
        """Instances that became ready since `RuleDecider` cleared it; None: no `RuleDecider`."""
        self.held: set[int] = set()
        """Ready instances that wait for the end of their back-off."""
        self._shown: IntArray | None = None
        """Column of the ready instances for views; None: out of date."""
        self._ran_on = np.full(workload.instances, -1, np.int64)
        self._finished_at = np.full(workload.instances, np.nan)
        self._copies: dict[int, list[tuple[int, float]]] = {}
        self._present: list[int] = []
        """Jobs that have arrived and not ended, in order."""
        self._choices: dict[tuple[int, int], list[int]] = {}
        """(template, task) -> the choices of a task."""
        self._kinds = {kind: k for k, kind in enumerate(workload.kinds)}
        """Kind -> its number, which stays when jobs are replaced."""
        self.contended = any(problem.contended for problem in workload.problems)
        """Whether tasks can wait for the capacities of their node."""
        self.conditional = any(w.conditional for w in self._workflows)
        """Whether some task has a choice."""
        self._queued: list[float | None] = [0.0] * workload.cluster.p
        """Device -> expected seconds of its queue; None: out of date."""
        self._frees: dict[int, tuple[float, float]] = {}
        """Device -> when its queue could begin and would end; an entry goes when the queue
        changes."""

    # -- events -------------------------------------------------------------

    def arrive(self, job: int, now: float) -> None:
        """Let a job arrive."""
        if not self._ended[job] and not self._here[job]:
            insort(self._present, job)
        super().arrive(job, now)

    def begin(self, device: int, now: float) -> Group:
        """Start the head of a device's queue, regardless of where its inputs are."""
        machine = self.machines[device]
        group = machine.queue.popleft()
        self._queued[device] = None if machine.queue else 0.0
        self._run(group, machine, now)
        return group

    def hold(self, instance: int) -> None:
        """Hide a ready instance from the policy until it is released."""
        self._out_of_pool(instance)
        self.held.add(instance)

    def release(self, instance: int) -> None:
        """Show a held instance to the policy again, unless it was cancelled."""
        self.held.discard(instance)
        if self.stories.state[instance] in POOL and instance not in self.ready:
            self._into_pool(instance)

    def give_up(self, instance: int, now: float, note: str) -> list[int]:
        """Cancel an instance and all that depend on it; return the cancelled ones."""
        self.failed[self.place[instance][0]] = True
        gone = [
            i
            for i in self.dependents(instance)
            if self.stories.state[i] not in (*OVER, State.CANCELLED)
        ]
        for i in gone:
            if i in self.ready:
                self._out_of_pool(i)
            self.stories.move(
                i,
                State.CANCELLED,
                now,
                note if i == instance else f"needs {self.stories.names[instance]}",
            )
        for device in range(len(self.machines)):
            self._purge(device, now)
        for i in gone:
            self._count_down(i, now)
        return gone

    def finish(self, device: int, now: float, outcomes: Mapping[int, int] | None = None) -> None:
        """Finish the running group; record device and time for views."""
        group = self.machines[device].running
        super().finish(device, now, outcomes)
        for i in group.members if group is not None else ():
            if self._ran_on[i] < 0:
                self._ran_on[i], self._finished_at[i] = device, now
            else:
                self._copies.setdefault(i, []).append((device, now))
                self._frees.clear()  # inputs may now come from a nearer device

    def commit(
        self, instances: Sequence[int], device: int, now: float, *, copy: bool = False
    ) -> None:
        """Commit, and add to the load of the device."""
        super().commit(instances, device, now, copy=copy)
        self._frees.pop(device, None)
        load = self._queued[device]
        if load is not None and self.machines[device].slowdown < inf:
            self._queued[device] = load + self.expected(instances, device)

    def lose(self, device: int, now: float, note: str = "failed") -> Group:
        """Lose the running group; with a plan it returns to the head of the queue."""
        self._queued[device] = None
        self._frees.pop(device, None)
        return super().lose(device, now, note)

    def change_slowdown(self, device: int, slowdown: float, now: float) -> Group | None:
        """Change the slowdown of a device; inf: it is down."""
        self._queued[device] = None
        self._frees.pop(device, None)
        return super().change_slowdown(device, slowdown, now)

    def cancel(self, job: int, now: float) -> list[int]:
        """Cancel a job; some of its instances may be cancelled already, or held."""
        if self._ended[job]:
            return []
        for i in self.instances(job):
            self.held.discard(i)
            if i in self.ready:
                self._out_of_pool(i)
            if self.stories.state[i] not in (*OVER, State.CANCELLED):
                self.stories.move(i, State.CANCELLED, now)
        self._end(job)
        return [device for device in range(len(self.machines)) if self._purge(device, now)]

    def estimate(self, workload: Workload) -> None:
        """Replace the workload by the same one with new estimates."""
        self.workload = workload
        self.contended = any(problem.contended for problem in workload.problems)
        self._problems = [workload.problem_of(job) for job in range(workload.jobs)]
        self._costs.clear()
        self._queued = [None] * len(self.machines)
        self._frees.clear()

    def grow(self, workload: Workload) -> None:
        """Replace the workload by the same one on more devices; new devices start as down."""
        for _ in range(len(self.machines), workload.cluster.p):
            self.machines.append(Machine(slowdown=inf))
            if self.caches:
                self.caches.append(KindCache(workload, len(self.caches)))
        self.room.grow(workload)
        self.estimate(workload)

    def extend(self, workload: Workload, jobs: Sequence[int]) -> None:
        """Replace the workload by one with more jobs: at its end, or for ended ones.

        A job in the place of an ended one has the same number of tasks and choices.
        """
        self.estimate(workload)
        self._first, self._template = workload.first_instance.tolist(), workload.template.tolist()
        self.conditional = any(problem.workflow.conditional for problem in workload.problems)
        self._make_room(workload)
        for job in jobs:
            self._set_job(job)
        self.jobs_left += len(jobs)

    def _make_room(self, workload: Workload) -> None:
        new = workload.instances - len(self.started)
        if new:
            self.started = np.append(self.started, np.full(new, np.nan))
            self._ran_on = np.append(self._ran_on, np.full(new, -1, np.int64))
            self._finished_at = np.append(self._finished_at, np.full(new, np.nan))
        choices = int(workload.first_choice[-1]) - len(self.outcome)
        if choices:
            self.outcome = np.append(self.outcome, np.full(choices, -1, np.int64))

    def _set_job(self, job: int) -> None:
        """Set the rows of a job; a row at the end of a list is added to it."""
        w, template = self.workload.problem_of(job).workflow, self._template[job]
        rows = slice(self._first[job], self._first[job + 1])
        if self._workflows[template : template + 1] != [w]:  # by identity
            self._workflows[template : template + 1] = [w]
            self._edges[template : template + 1] = [OutgoingEdges.of(w)]
            self._parents[template : template + 1] = [_parents(w)]
            self._choices.clear()
        self.place[rows] = [(job, task) for task in range(w.n)]
        numbers = [self._kinds.setdefault(kind, len(self._kinds)) for kind in w.kinds]
        self.kind[rows] = [numbers[k] for k in w.kind.tolist()]
        self.stories.reset(rows)
        begin = self._parents[template][1]
        self._undecided[rows] = [last - first for first, last in pairwise(begin)]
        self.keys[rows] = [0.0] * w.n
        self._reserved[rows] = [False] * w.n
        self.results[rows] = [()] * w.n
        self.inputs[rows] = [()] * w.n
        self.started[rows] = self._finished_at[rows] = np.nan
        self._ran_on[rows] = -1
        first, last = self.workload.first_choice[job : job + 2].tolist()
        self.outcome[first:last] = -1
        for i in range(rows.start, rows.stop) if self._copies else ():
            self._copies.pop(i, None)
        self._left[job : job + 1] = [w.n]
        self.job_finish[job : job + 1], self._latest[job : job + 1] = [np.nan], [-inf]
        for flags in (self.failed, self._here, self._ended):
            flags[job : job + 1] = [False]

    # -- views --------------------------------------------------------------

    def problem(self, instance: int) -> Problem:
        """Return the problem of an instance (from a list: several lookups per task)."""
        return self._problems[self.place[instance][0]]

    def sources(self, instance: int) -> tuple[int | None, ...]:
        """Return the source instance of each incoming edge; None: the edge is not taken."""
        job, task = self.place[instance]
        sources, begin = self._parents[self._template[job]]
        first, parents = self._first[job], sources[begin[task] : begin[task + 1]]
        if len(self.inputs[instance]) == len(parents):
            return tuple([first + p for p in parents])
        taken = {parent for parent, _ in self.inputs[instance]}
        return tuple([first + p if first + p in taken else None for p in parents])

    def jobs_here(self) -> list[int]:
        """Return the jobs that have arrived and not ended."""
        return list(self._present)

    def over(self, job: int) -> int:
        """Return how many instances of a job are done, skipped or cancelled."""
        return len(self.instances(job)) - (0 if self._ended[job] else self._left[job])

    def dependents(self, instance: int) -> list[int]:
        """Return an instance and all that depend on it, by number."""
        job, task = self.place[instance]
        w, first = self.problem(instance).workflow, int(self.workload.first_instance[job])
        seen = {task}
        stack = [task]
        while stack:
            u = stack.pop()
            for v in w.dst[w.succ_ptr[u] : w.succ_ptr[u + 1]].tolist():
                if v not in seen:
                    seen.add(v)
                    stack.append(v)
        return [first + t for t in sorted(seen)]

    def choices_of(self, instance: int) -> list[int]:
        """Return the choices of an instance; most workflows have none."""
        if not self.conditional:
            return []
        job, task = self.place[instance]
        owners = self._problems[job].workflow.choices.task
        known = self._choices.get((self._template[job], task))
        if known is None:
            known = self._choices[self._template[job], task] = np.flatnonzero(
                owners == task
            ).tolist()
        if not known:
            return known
        first = int(self.workload.first_choice[job])
        return [first + c for c in known]

    def batch(self, instance: int, device: int) -> list[int]:
        """Return the batch of an instance; quick for devices that do not batch."""
        return (
            [instance]
            if self.workload.cluster.batch[device] == 1
            else super().batch(instance, device)
        )

    def expected(self, members: Sequence[int], device: int) -> float:
        """Return the expected seconds of a group on a device that is up.

        It is quick for one task.
        """
        if len(members) > 1:
            return super().expected(members, device)
        return self._duration(members[0], device) * self.machines[device].slowdown

    def can_run(self, instance: int, device: int) -> bool:
        """Return whether a device is able to run an instance, up or down."""
        return self._duration(instance, device) < inf

    def _duration(self, instance: int, device: int) -> float:
        """Return the same as `Problem.duration`, in less time."""
        job, task = self.place[instance]
        known = self._costs.get(self._template[job])
        if known is None:
            x = self._problems[job]
            known = x.work.data, x.row.data, x.per_work.data
            self._costs[self._template[job]] = known
        work, row, per_work = known
        slowness: float = per_work[row[task], device]
        return float(work[task]) * slowness if slowness < inf else inf

    def growth(self, members: Sequence[int], device: int) -> float:
        """Return the growth of a batch; kinds of live jobs have numbers of their own."""
        if len(members) == 1 or not self.workload.cluster.batch_curve:
            return 1.0
        kind = self.workload.kinds.index(self.kind_name(members[0]))
        growth = self.workload.batch_growth[kind, device]
        return float(growth[min(len(members), len(growth)) - 1])

    def free_at(self, device: int, now: float) -> float:
        """Return when a device is free, from a cache.

        The cache holds the seconds of its queue or, with modelled transfers, the time itself.
        """
        machine = self.machines[device]
        if self.caches or machine.slowdown == inf or not machine.queue:
            return super().free_at(device, now)
        if self.modelled:
            return super().free_at(device, now) if self.planned else self._known_free(device, now)
        load = self._queued[device]
        if load is None:
            load = self._queued[device] = sum(
                self.expected(group.members, device) for group in machine.queue
            )
        begin = now if machine.running is None else max(now, machine.running.expected)
        return max(begin, machine.blocked_until) + load

    def _known_free(self, device: int, now: float) -> float:
        machine = self.machines[device]
        begin = now if machine.running is None else max(now, machine.running.expected)
        begin = max(begin, machine.blocked_until)
        known = self._frees.get(device)
        if known is None or known[0] != begin:
            known = self._frees[device] = begin, super().free_at(device, now)
        return known[1]

    def view(self, now: float, ready: Sequence[int] | None = None) -> View:
        """Return the view of a policy; the columns of instances are shared and read-only.

        With `ready`, the policy sees only these of the ready instances.
        """
        if self._shown is None:
            self._shown = frozen(np.array(self.ready, np.int64))
        return View(
            workload=self.workload,
            now=now,
            ready=self._shown if ready is None else frozen(np.array(ready, np.int64)),
            free_at=np.array(self._free_times(now)),
            idle=np.array(
                [
                    m.running is None
                    and not m.queue
                    and m.slowdown < inf
                    and now >= m.blocked_until
                    for m in self.machines
                ]
            ),
            slowdown=np.array([m.slowdown for m in self.machines]),
            ran_on=frozen(self._ran_on),
            finished_at=frozen(self._finished_at),
            started_at=self.started_at(),
            running=np.array(
                [-1 if m.running is None else m.running.members[0] for m in self.machines], np.int64
            ),
            jobs=np.array(self._present, np.int64),
            eager=self.eager,
            outcome=self.outcome.copy(),
            copies=self._copies,
            room=self.room.left(),
            **self.setup_view(),
        )

    # -- inside -------------------------------------------------------------

    def _free_times(self, now: float) -> list[float]:
        """Return when each device is free; quick for those without a queue."""
        times = []
        for device, m in enumerate(self.machines):
            if m.queue or m.slowdown == inf:
                times.append(self.free_at(device, now))
                continue
            free = now
            if m.running is not None and m.running.expected > free:
                free = m.running.expected
            times.append(max(free, m.blocked_until))
        return times

    def _into_pool(self, instance: int) -> None:
        super()._into_pool(instance)
        if self.fresh is not None:
            self.fresh.append(instance)
        self._shown = None

    def _out_of_pool(self, instance: int) -> None:
        at = bisect_left(self.ready, instance)
        del self.ready[at]
        if self._shown is not None:
            many = len(self.ready) > 64  # making a short list again is faster
            self._shown = frozen(np.delete(self._shown, at)) if many else None

    def _reveal(self, instance: int, outcomes: Mapping[int, int]) -> None:
        if self.conditional:
            super()._reveal(instance, outcomes)

    def _decide_edges(self, instance: int, now: float) -> None:
        """Decide the edges of a done instance; without choices all of them are taken."""
        if self.conditional:
            super()._decide_edges(instance, now)
            return
        job, task = self.place[instance]
        first, out, undecided = self._first[job], self._edges[self._template[job]], self._undecided
        for edge in range(out.begin[task], out.begin[task + 1]):
            child = first + out.child[edge]
            add_to(self.inputs, child, (instance, edge))
            undecided[child] -= 1
            if undecided[child] == 0:
                self._make_ready(child, now, "inputs decided")

    def _run(self, group: Group, machine: Machine, now: float) -> None:
        self._frees.pop(group.device, None)
        super()._run(group, machine, now)

    def _purge(self, device: int, now: float) -> bool:
        self._queued[device] = None
        self._frees.pop(device, None)
        return super()._purge(device, now)

    def _end_if_complete(self, job: int, now: float) -> None:
        if self.failed[job] and self._left[job] == 0 and not self._ended[job]:
            self._end(job)
        else:
            super()._end_if_complete(job, now)

    def _end(self, job: int) -> None:
        super()._end(job)
        if self._here[job]:
            del self._present[bisect_left(self._present, job)]


def _parents(workflow: Workflow) -> tuple[Sequence[int], Sequence[int]]:
    """Return the sources of incoming edges by task, and where each task's begin."""
    return small_numbers(workflow.src[workflow.pred_edge]), small_numbers(workflow.pred_ptr)
