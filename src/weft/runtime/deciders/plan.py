"""Plan mode: a static plan, dispatched in order and revised when a run deviates."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import inf
from time import perf_counter
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule, Topology
from weft.model.columns import IntArray
from weft.planners import Planner
from weft.planners.contention import independent
from weft.planners.lists.placements import ListPlanner
from weft.planners.lists.ranks import rank_order
from weft.planners.packing import pool_of_devices
from weft.planners.planner import solve
from weft.planners.replays import Replays, moved_tasks, replayed
from weft.runtime.deciders.backfill import next_start
from weft.runtime.deciders.remaining import remaining_problem
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.story import POOL, State
from weft.sim.view import Decision

OPEN = (State.WAITING, *POOL)
"""States of uncommitted instances, which a new plan may move."""

MOST_REPLAYED = 5_000
"""Most tasks for which plans are compared on shared links."""

REPLAN_SECONDS = 1.0
"""Time limit of a search during a run, while devices may wait."""

PLANNING_SHARE = 0.05
"""Largest share of a run spent on new plans for better estimates or more devices."""

REFINED_SHARE = 0.02
"""Time for improving a plan on shared links, as a share of its makespan."""

LINK_SLOWDOWNS = (4.0, 16.0, 64.0)
"""Factors by which links are assumed slower; larger ones give plans that move less data."""

TRANSFER_WEIGHT = 0.3
"""Seconds of the makespan that a second of transfers is worth.

Hosts that send and receive compute more slowly, and a plan that moves little stays good where
links are slower than measured."""


class RemainingWork(NamedTuple):
    """The uncommitted instances of a run, and a problem of these and of stubs."""

    instances: list[int]
    problem: Problem

    def seconds(self, plan: Sequence[tuple[int, int]]) -> float:
        """Return the makespan of instances on devices, in this order, by replay."""
        number = {i: k for k, i in enumerate(self.instances)}
        able = np.isfinite(self.problem.per_work).argmax(axis=1)[self.problem.row]
        place = np.zeros(self.problem.n)  # stubs come first
        for k, (i, device) in enumerate(plan):
            able[number[i]], place[number[i]] = device, k + 1.0
        given = Schedule.of(device=able, start=place, finish=place)
        return replayed(self.problem, given).makespan


class LastDecision(NamedTuple):
    """Time and executions at the last decision, and its device.

    Devices with lower numbers have no room at that moment, and a decision does not change that.
    """

    time: float
    executions: int
    device: int


NO_DECISION = LastDecision(-inf, -1, 0)
"""Before the first decision of a moment."""


@dataclass(eq=False)
class PlanDecider:
    """The plan of a planner: each device gets its tasks in planned order, a few ahead.

    Jobs are planned as they arrive, after the jobs before. Copies of a plan are left out. On nodes
    whose tasks wait for capacities, tasks start in the planned order, on any device like theirs.

    Parameters
    ----------
    ahead : groups a device may hold, including the running one; a new plan can move the others
    replan : plan again when devices come and go, tasks are lost or estimates change
    network : the links that transfers share, as far as they were measured
    """

    planner: Planner
    _: KW_ONLY
    ahead: int = 3
    replan: bool = True
    seconds: float | None = None
    seed: int = 0
    network: Topology | None = None
    plans: int = field(default=0, init=False)
    """Number of plans made."""

    @property
    def name(self) -> str:
        """The name of the planner."""
        return self.planner.name

    def begin(self, life: LiveLifecycle) -> None:
        """Plan every problem once, before the clock starts."""
        self._problems = life.workload.problems
        self._first = [self._solve(problem) for problem in self._problems]
        self._pool = pool_of_devices(life.workload.problems[0])
        self._queues: list[deque[int]] = [deque() for _ in life.machines]
        self._device: dict[int, int] = {}
        """Planned instance -> its device."""
        self._turn: dict[int, tuple[int, int]] = {}
        """Instance -> its place in the plan and its device, where tasks wait for capacities."""
        self._new: list[int] = []
        self._stale = False
        self._unseen = False
        """Whether something changed since the last decision."""
        self._again = -inf
        """Time from which a new plan may be made that is not urgent."""
        self._last = NO_DECISION
        if self.replan and isinstance(self.planner, ListPlanner):
            _compile_order_of_ties()

    @property
    def predicted(self) -> float:
        """Return the makespan of the first plan."""
        return max((schedule.makespan for schedule in self._first), default=0.0)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Plan the job at the next decision."""
        self._new.append(job)

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Plan again, at once or when planning has taken a small share of the run."""
        self._stale = self._unseen = True

    def decide(self, life: LiveLifecycle, now: float) -> Decision | None:
        """Return the next planned task of a device that has room, if the task is ready."""
        time, executions, first = self._last
        if self._unseen or self._new or (time, executions) != (now, life.executions.total):
            first = 0
        if self._stale and self._due(life, now):
            begin, first = perf_counter(), 0
            self._plan_the_rest(life, now)
            self._stale = False
            if not life.modelled:
                self._again = now + (perf_counter() - begin) / PLANNING_SHARE
        elif self._new:
            self._plan_new_jobs(life)
        if life.contended:
            return next_start(life, self._turn, self._pool, now)
        queues, machines, state, ahead = self._queues, life.machines, life.stories.state, self.ahead
        for device in self._candidates(life, first):
            queue = queues[device]
            while queue and state[queue[0]] not in OPEN:
                queue.popleft()
            if not queue or state[queue[0]] not in POOL or queue[0] in life.held:
                continue
            machine = machines[device]
            held = len(machine.queue) + (machine.running is not None)
            if machine.slowdown < inf and held < ahead:
                self._last = LastDecision(now, life.executions.total, device)
                del self._device[queue[0]]
                return Decision(queue.popleft(), device)
        self._last = NO_DECISION
        return None

    def _candidates(self, life: LiveLifecycle, first: int) -> Sequence[int]:
        """Return the devices from `first` on whose next task may be ready, by number."""
        ready, planned = life.ready, self._device
        if len(ready) >= len(self._queues):
            return range(first, len(self._queues))
        found = {planned[i] for i in ready if i in planned}
        return sorted(found) if first == 0 else sorted([d for d in found if d >= first])

    @property
    def first_schedule(self) -> Schedule:
        """Return the first job's plan."""
        return self._first[0]

    def first_plan(self) -> list[tuple[int, int]]:
        """Return (instance, device) of the first job in planned order, without copies."""
        problem = self._problems[0]
        return _in_order(self._first[0], problem, range(problem.n))

    def rest(self, life: LiveLifecycle, now: float) -> RemainingWork | None:
        """Return all uncommitted instances as a problem; None: there are none."""
        left = [
            i
            for job in life.jobs_here()
            for i in life.instances(job)
            if life.stories.state[i] in OPEN and i not in life.held
        ]
        if not left:
            return None
        return RemainingWork(left, self._on_network(remaining_problem(life, left, now)))

    def plan_of(self, rest: RemainingWork) -> tuple[list[tuple[int, int]], float]:
        """Return (instance, device) of a new plan, and its seconds."""
        schedule = self._solve(rest.problem)
        return _in_order(schedule, rest.problem, rest.instances), schedule.makespan

    # -- planning -----------------------------------------------------------

    def _due(self, life: LiveLifecycle, now: float) -> bool:
        """Return whether to plan now: a task has no device that is up, or a plan is due."""
        unseen, self._unseen = self._unseen, False
        if unseen and (self._strays(life) or (self.replan and self._waiting_for_lost(life))):
            return True
        self._stale = self.replan
        return self.replan and now >= self._again

    def _waiting_for_lost(self, life: LiveLifecycle) -> bool:
        return any(
            machine.slowdown == inf and bool(queue)
            for queue, machine in zip(self._queues, life.machines, strict=False)
        )

    def _plan_new_jobs(self, life: LiveLifecycle) -> None:
        jobs, self._new = self._new, []
        for job in jobs:
            problem = life.workload.problem_of(job)
            first, template = (
                int(life.workload.first_instance[job]),
                int(life.workload.template[job]),
            )
            self._first.extend(
                self._solve(p) for p in life.workload.problems[len(self._first) : template + 1]
            )
            rows = range(first, first + problem.n)
            self._enqueue(life, _in_order(self._first[template], problem, rows))

    def _plan_the_rest(self, life: LiveLifecycle, now: float) -> None:
        self._new = []
        self._queues = [deque() for _ in life.machines]
        self._device, self._turn = {}, {}
        self._pool = pool_of_devices(life.workload.problems[0])
        if (rest := self.rest(life, now)) is not None:
            self._enqueue(life, self.plan_of(rest)[0])

    def _solve(self, problem: Problem) -> Schedule:
        limit = (
            self.seconds
            if not self.plans or self.seconds is None
            else min(self.seconds, REPLAN_SECONDS)
        )
        self.plans += 1
        shared = self._on_network(problem)
        schedule = solve(self.planner, shared, limit, self.seed).schedule
        if shared.cluster.network is None or problem.n < 2:
            return schedule
        return self._with_few_moves(shared, schedule, limit)

    def _with_few_moves(self, problem: Problem, first: Schedule, limit: float | None) -> Schedule:
        """Return a plan on shared links that is short and moves little data."""
        others = [
            replayed(
                problem, solve(self.planner, independent(problem, k), limit, self.seed).schedule
            )
            for k in LINK_SLOWDOWNS
        ]
        replays = Replays(problem)
        best = min(
            [first, *others],
            key=lambda s: s.makespan + TRANSFER_WEIGHT * replays.moving(_devices(s)),
        )
        spent = min(REFINED_SHARE * best.makespan, REPLAN_SECONDS)
        return moved_tasks(problem, best, seconds=spent, seed=self.seed, moving=TRANSFER_WEIGHT)

    def _on_network(self, problem: Problem) -> Problem:
        """Return the problem with shared links if all nodes have ports and it is small."""
        cluster = problem.cluster
        if (
            self.network is None
            or cluster.network is not None
            or problem.n > MOST_REPLAYED
            or not set(cluster.node_names) <= set(self.network.ports)
        ):
            return problem
        return replace(problem, cluster=replace(cluster, network=self.network))

    def _enqueue(self, life: LiveLifecycle, plan: list[tuple[int, int]]) -> None:
        for instance, device in plan:
            self._queues[device].append(instance)
        self._device.update(plan)
        if life.contended:
            for instance, device in plan:
                self._turn[instance] = (len(self._turn), device)

    def _strays(self, life: LiveLifecycle) -> bool:
        """Return whether a ready instance is in no queue: lost, or after back-off."""
        return any(i not in self._device for i in life.ready)


class ReplayDecider:
    """A schedule per problem, executed as it is: devices, order and copies.

    A run waits for a lost device.
    """

    name = "replay"

    def __init__(self, schedules: Schedule | Sequence[Schedule]) -> None:
        self.schedules = [schedules] if isinstance(schedules, Schedule) else list(schedules)

    def begin(self, life: LiveLifecycle) -> None:
        """Order the rows of each schedule; refuse schedules that do not fit."""
        count = len(life.workload.problems)
        if len(self.schedules) != count:
            raise InvalidInput(
                f"{len(self.schedules)} schedules are given for the {count} problems "
                f"of '{life.workload.name}'"
            )
        self._rows = [
            _rows(schedule, problem)
            for schedule, problem in zip(self.schedules, life.workload.problems, strict=True)
        ]

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Commit every row."""
        first = int(life.workload.first_instance[job])
        for task, device, copy in self._rows[int(life.workload.template[job])]:
            life.commit([first + task], device, now, copy=copy)

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Do nothing: a schedule is fixed."""

    def decide(self, life: LiveLifecycle, now: float) -> None:
        """Return nothing: all tasks are committed on arrival."""
        return


def _devices(schedule: Schedule) -> IntArray:
    """Return the device of each task."""
    device = np.zeros(int(schedule.task.max()) + 1, np.int64)
    device[schedule.task] = schedule.device
    return device


def _rows(schedule: Schedule, problem: Problem) -> list[tuple[int, int, bool]]:
    """Return (task, device, copy) by start, finish, topological order and row number."""
    order = _order(schedule, problem)
    columns = schedule.task[order], schedule.device[order], schedule.copy[order]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _order(schedule: Schedule, problem: Problem) -> IntArray:
    """Return the rows by start, finish, topological order and row number."""
    task, device = schedule.task, schedule.device
    wrong = (task < 0) | (task >= problem.n) | (device < 0) | (device >= problem.p)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInput(
            f"the schedule of '{problem.name}' puts task {task[row]} on device {device[row]}; "
            "one of them does not exist"
        )
    place = np.full(problem.n, -1)
    place[problem.workflow.order] = np.arange(problem.n)
    return np.lexsort((place[task], schedule.finish, schedule.start))


def _in_order(
    schedule: Schedule, problem: Problem, instances: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (instance, device) as planned, without copies and stubs."""
    order = _order(schedule, problem)
    order = order[~schedule.copy[order] & (schedule.task[order] < len(instances))]
    planned = np.array(instances, np.int64)[schedule.task[order]]
    return list(zip(planned.tolist(), schedule.device[order].tolist(), strict=True))


def _compile_order_of_ties() -> None:
    """Compile, before the clock starts, the kernels that only a new plan needs.

    A new plan has stubs, which take no time, so that ranks tie.
    """
    rank_order(Problem.from_arrays([[0.0], [0.0]], [[1, 0]]), np.zeros(2))
