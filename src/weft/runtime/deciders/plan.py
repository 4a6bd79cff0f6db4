"""Plan mode: a static plan, dispatched in order, and planned anew from where the run stands when the world is not as planned."""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np

from weft.model import Problem, Schedule, Workflow
from weft.planners import Planner
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group
from weft.sim.story import POOL, State
from weft.sim.view import Decision

OPEN = (State.WAITING, *POOL)
"""States of instances that are not committed yet: what a new plan may move."""

REPLAN_SECONDS = 1.0
"""Time limit of planners that search, when they plan while others wait."""


class PlanDecider:
    """The plan of a planner: every device gets its tasks in the planned order, a few ahead of time.

    Jobs are planned as they arrive, behind what was planned before. Copies of a plan are left out: data is where it is needed soon enough.

    Parameters
    ----------
    ahead : groups a device may have, with the one that runs; a new plan can move all others
    replan : plan anew when devices come and go, tasks are lost or estimates change
    """

    def __init__(
        self,
        planner: Planner,
        *,
        ahead: int = 3,
        replan: bool = True,
        seconds: float | None = None,
        seed: int = 0,
    ) -> None:
        self.planner = planner
        self.ahead = ahead
        self.replan = replan
        self.seconds = seconds
        self.seed = seed
        self.name = planner.name
        self.plans = 0
        """How many plans were made."""

    def begin(self, life: LiveLifecycle) -> None:
        """Plan every problem once, before the clock runs."""
        self._problems = life.workload.problems
        self._first = [self._solve(problem) for problem in self._problems]
        self._lines: list[deque[int]] = [deque() for _ in life.machines]
        self._new: list[int] = []
        self._stale = False

    @property
    def predicted(self) -> float:
        """Seconds the first plan takes."""
        return max((schedule.makespan for schedule in self._first), default=0.0)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:  # noqa: ARG002
        """To be planned at the next decision."""
        self._new.append(job)

    def changed(self, life: LiveLifecycle, now: float) -> None:  # noqa: ARG002
        """To be planned anew at the next decision."""
        self._stale = True

    def decide(self, life: LiveLifecycle, now: float) -> Decision | None:
        """The next task of a device with room for it, if that task is ready."""
        if self._stale and (self.replan or self._strays(life)):
            self._plan_the_rest(life, now)
        elif self._new:
            self._plan_new_jobs(life)
        self._stale = False
        for device, line in enumerate(self._lines):
            machine = life.machines[device]
            while line and life.stories.state[line[0]] not in OPEN:
                line.popleft()
            room = (
                machine.pace < inf
                and len(machine.queue) + (machine.running is not None) < self.ahead
            )
            if room and line and life.stories.state[line[0]] in POOL and line[0] not in life.held:
                return Decision(line.popleft(), device)
        return None

    def first_plan(self) -> list[tuple[int, int]]:
        """(instance, device) of the plan of the first job, in planned order, without copies."""
        problem = self._problems[0]
        return _in_order(self._first[0], problem, list(range(problem.n)))

    def plan_of_the_rest(self, life: LiveLifecycle, now: float) -> list[tuple[int, int]]:
        """(instance, device) of a new plan for what is not committed yet, in planned order."""
        rest = [
            i
            for job in life.jobs_here()
            for i in life.instances(job)
            if life.stories.state[i] in OPEN and i not in life.held
        ]
        if not rest:
            return []
        problem = remaining_problem(life, rest, now)
        return _in_order(self._solve(problem), problem, rest)

    # -- planning -----------------------------------------------------------

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
            self._line_up(
                _in_order(self._first[template], problem, [first + t for t in range(problem.n)])
            )

    def _plan_the_rest(self, life: LiveLifecycle, now: float) -> None:
        self._new = []
        self._lines = [deque() for _ in life.machines]
        self._line_up(self.plan_of_the_rest(life, now))

    def _solve(self, problem: Problem) -> Schedule:
        limit = (
            self.seconds
            if not self.plans or self.seconds is None
            else min(self.seconds, REPLAN_SECONDS)
        )
        self.plans += 1
        return self.planner.solve(problem, seconds=limit, seed=self.seed).schedule

    def _line_up(self, plan: list[tuple[int, int]]) -> None:
        for instance, device in plan:
            self._lines[device].append(instance)

    def _strays(self, life: LiveLifecycle) -> bool:
        """Whether something is ready that no line holds: lost, or let out after a back-off."""
        return any(not any(i in line for line in self._lines) for i in life.ready)


def _in_order(schedule: Schedule, problem: Problem, instances: list[int]) -> list[tuple[int, int]]:
    """(instance, device) as planned. Tasks beyond the instances are the stubs of `remaining_problem`."""
    place = np.argsort(problem.workflow.order)
    return [
        (instances[int(schedule.task[r])], int(schedule.device[r]))
        for r in np.lexsort((place[schedule.task], schedule.finish, schedule.start)).tolist()
        if not schedule.copy[r] and schedule.task[r] < len(instances)
    ]


def remaining_problem(life: LiveLifecycle, instances: list[int], now: float) -> Problem:
    """What is left, as a problem: the instances, then stubs, pinned to where they are, for what is committed and for results.

    What a device has to do before it is free is a chain of stubs with the time each should take; the stub of a result takes none. Devices
    that are down can run nothing, except where only they could.
    """
    cluster = life.workload.cluster
    number = {i: k for k, i in enumerate(instances)}
    pace = np.array([m.pace for m in life.machines])
    rows = [_durations(life, i, pace) for i in instances]
    src, dst, data = [], [], []

    def pinned(device: int, seconds: float) -> int:
        rows.append(np.full(cluster.p, np.nan))
        rows[-1][device] = seconds
        return len(rows) - 1

    for device in range(cluster.p):
        for k, (group, seconds) in enumerate(_committed(life, device, now)):
            number.update(dict.fromkeys(group.members, pinned(device, seconds)))
            if k:
                src.append(len(rows) - 2)
                dst.append(len(rows) - 1)
                data.append(0.0)
    for i in instances:
        job, task = life.place[i]
        w, first = life.problem(i).workflow, int(life.workload.first_instance[job])
        for e in w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]].tolist():
            parent = first + int(w.src[e])
            if parent not in number:
                if not life.results[parent]:
                    continue  # held back or skipped: nothing is known of it
                number[parent] = pinned(life.results[parent][0][0], 0.0)
            src.append(number[parent])
            dst.append(number[i])
            data.append(float(w.data[e]))
    matrix = np.array(rows)
    columns = {name: matrix[:, d] for d, name in enumerate(cluster.names)}
    left = Workflow(
        name="what is left",
        work=np.zeros(len(rows)),
        src=src,
        dst=dst,
        data=data,
        durations=columns,
    )  # type: ignore[arg-type]
    return Problem.bind(left, cluster)


def _committed(life: LiveLifecycle, device: int, now: float) -> list[tuple[Group, float]]:
    """What a device has to do, in order, and the seconds that should take from now."""
    machine = life.machines[device]
    if machine.pace == inf:
        return []
    running = (
        [(machine.running, max(machine.running.expected - now, 0.0))]
        if machine.running is not None
        else []
    )
    return [*running, *((group, life.expected(group.members, device)) for group in machine.queue)]


def _durations(life: LiveLifecycle, instance: int, pace: np.ndarray) -> np.ndarray:
    """Seconds on each device, NaN where it cannot run now; if it can run nowhere now, as if all devices were up."""
    task = life.place[instance][1]
    seconds = np.array([life.problem(instance).duration(task, d) for d in range(len(pace))])
    seconds[np.isinf(seconds)] = np.nan
    up = np.where(np.isfinite(pace), seconds * np.where(np.isfinite(pace), pace, 1.0), np.nan)
    return seconds if bool(np.isnan(up).all()) else up
