"""The slow twin of the kernel: `docs/simulator.md` in plain Python.

The compiled kernel must agree with it to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any

from weft.errors import InvalidInput, Stuck
from weft.model import Scenario, Schedule, Trace, Workload
from weft.sim.device_state import Group, Start, Wake
from weft.sim.kernel.tables import refuse_copies, replay_order
from weft.sim.lifecycle import Lifecycle
from weft.sim.rule import Rule
from weft.sim.story import OVER, State
from weft.sim.traffic import Traffic
from weft.sim.view import Block, Decision, Policy

Decide = Callable[[Lifecycle, float], Decision | Block | None]


def simulate_reference(
    workload: Workload,
    policy: Policy | Rule | Schedule | Sequence[Schedule],
    *,
    scenario: Scenario | None = None,
    eager: bool = True,
    seed: int = 0,
) -> Trace:
    """Simulate a policy, a rule, or the replay of schedules.

    There is one schedule for each problem of the workload. Without a scenario, durations are as
    estimated, no device fails, and outcomes are drawn.

    Examples
    --------
    >>> from weft.model import Problem
    >>> workload = Workload.of(Problem.from_arrays([[2.0], [3.0]], [[0, 1]]))
    >>> simulate_reference(workload, Rule("fifo", "first", [0.0, 0.0])).finish.tolist()
    [2.0, 5.0]
    """
    scenario = Scenario.draw(workload, seed=seed) if scenario is None else scenario
    traffic = Traffic(workload) if workload.cluster.network is not None else None
    options: dict[str, Any] = {"eager": eager and traffic is None, "traffic": traffic}
    if isinstance(policy, Rule):
        policy.check_fits(workload)
        life = Lifecycle(workload, keys=policy.keys.tolist(), **options)
        return Simulation(life, scenario, policy.name, decide=_follow_rule(policy)).run()
    if isinstance(policy, Schedule | Sequence):
        plans = _rows_by_problem(workload, [policy] if isinstance(policy, Schedule) else policy)
        if traffic is not None:
            refuse_copies(copies=any(copy for rows in plans for _, _, copy in rows))
        life = Lifecycle(workload, planned=True, **options)
        return Simulation(life, scenario, "replay", plans=plans).run()
    if traffic is not None:
        refuse_copies(copies=getattr(policy, "copies", False))
    policy.begin(workload, seed=seed)
    return Simulation(
        Lifecycle(workload, **options), scenario, policy.name, decide=_ask(policy)
    ).run()


@dataclass(eq=False)
class Simulation:
    """One workload in one scenario: the clock that drives a `Lifecycle`."""

    life: Lifecycle
    scenario: Scenario
    name: str
    _: KW_ONLY
    decide: Decide | None = None
    plans: list[list[tuple[int, int, bool]]] | None = None

    def __post_init__(self) -> None:
        """Set the clock to 0."""
        scenario = self.scenario
        self.workload = self.life.workload
        self.devices = range(self.workload.cluster.p)
        self.now = 0.0
        self.ends = [inf for _ in self.devices]
        """When the running group of each device finishes; inf: nothing runs."""
        self.wakes = [inf for _ in self.devices]
        columns = (scenario.change_time, scenario.change_device, scenario.change_slowdown)
        self.changes = list(zip(*(column.tolist() for column in columns), strict=True))
        self.cancels: list[float] = scenario.cancel.tolist()
        self.arrivals: list[float] = self.workload.arrival.tolist()
        self.arrived = [False] * self.workload.jobs

    def run(self) -> Trace:
        """Simulate moment after moment until every job is finished or cancelled."""
        while self.life.jobs_left:
            self.now = self._next_moment()
            self._finishes()
            self._changes()
            self._cancellations()
            self._arrivals()
            if self.life.traffic is not None:
                self.life.traffic.end_due(self.now)
            for device in self.devices:
                self._look(device)
            self._decisions()
        return self.life.trace(self.scenario, self.name)

    def _next_moment(self) -> float:
        change = self.changes[0][0] if self.changes else inf
        cancel = min((self.cancels[j] for j in self._jobs_left()), default=inf)
        arrival = min(
            (self.arrivals[j] for j in self._jobs_left() if not self.arrived[j]), default=inf
        )
        moved = inf if self.life.traffic is None else self.life.traffic.next_event(self.now)
        now = min(*self.ends, *self.wakes, change, cancel, arrival, moved)
        if now == inf:
            raise Stuck(self._why_stuck())
        return now

    def _jobs_left(self) -> list[int]:
        return [j for j in range(self.workload.jobs) if not self.life.ended(j)]

    # -- the six steps of a moment ------------------------------------------

    def _finishes(self) -> None:
        for device in self.devices:
            group = self.life.machines[device].running
            if group is not None and self.ends[device] == self.now:
                self.ends[device] = inf
                outcomes = {
                    c: int(self.scenario.outcome[c])
                    for i in group.members
                    for c in self.life.choices_of(i)
                }
                self.life.finish(device, self.now, outcomes)

    def _changes(self) -> None:
        while self.changes and self.changes[0][0] <= self.now:
            _, device, slowdown = self.changes.pop(0)
            old = self.life.machines[device].slowdown
            self.life.change_slowdown(device, slowdown, self.now)
            if slowdown == inf:
                self.ends[device] = inf
            elif self.ends[device] < inf:
                self.ends[device] = self.now + (self.ends[device] - self.now) * (slowdown / old)

    def _cancellations(self) -> None:
        for job in self._jobs_left():
            if self.cancels[job] <= self.now:
                for device in self.life.cancel(job, self.now):
                    self.ends[device] = inf

    def _arrivals(self) -> None:
        for job in self._jobs_left():
            if self.arrivals[job] <= self.now and not self.arrived[job]:
                self.arrived[job] = True
                self.life.arrive(job, self.now)
                if self.plans is not None:
                    first = int(self.workload.first_instance[job])
                    for task, device, copy in self.plans[int(self.workload.template[job])]:
                        self.life.commit([first + task], device, self.now, copy=copy)

    def _look(self, device: int) -> None:
        """Start the next group of a device, or note when to look at it again."""
        due = self.life.start_due(device, self.now)
        self.wakes[device] = due.at if isinstance(due, Wake) else inf
        if isinstance(due, Start):
            self.ends[device] = self.now + self._duration(due.group)

    def _decisions(self) -> None:
        while self.decide is not None and self.life.ready:
            said = self.decide(self.life, self.now)
            if said is None:
                return
            device = self._checked_device(said)
            if isinstance(said, Block):
                if not self.now < said.until < inf:
                    name = self.workload.cluster.names[device]
                    raise InvalidInput(
                        f"policy '{self.name}' blocks device '{name}' until {said.until}; "
                        f"it is {self.now:g} now"
                    )
                self.life.block(device, float(said.until))
            else:
                instance = self._checked_instance(said, device)
                group = self.life.batch(instance, device)
                if said.copy < 0:
                    self.life.commit(group, device, self.now)
                else:
                    self.life.commit_with_copy(group, device, self.now, int(said.copy))
            self._look(device)

    # -- durations and refusals ---------------------------------------------

    def _duration(self, group: Group) -> float:
        """Return true seconds of a group; the order of factors matters to the last bit."""
        d = group.device
        longest = 0.0
        for i in group.members:
            problem, task = self.life.problem(i), self.life.place[i][1]
            seconds = float(problem.work[task]) * float(problem.per_work[problem.row[task], d])
            seconds *= float(self.scenario.factor[i])
            seconds *= float(self.scenario.bias[self.life.kind[i], d])
            longest = max(longest, seconds * self.life.machines[d].slowdown)
        return longest * self.life.growth(group.members, d) + group.setup

    def _checked_device(self, said: Decision | Block) -> int:
        if not isinstance(said, Decision | Block):
            raise InvalidInput(
                f"policy '{self.name}' returned {said!r}; "
                "it must return a Decision, a Block or None"
            )
        device = int(said.device)
        if not 0 <= device < len(self.devices):
            what = (
                "blocks" if isinstance(said, Block) else f"commits {self._called(said.instance)} to"
            )
            raise InvalidInput(
                f"policy '{self.name}' {what} device {device}; "
                f"there are devices 0 to {len(self.devices) - 1}"
            )
        return device

    def _checked_instance(self, said: Decision, device: int) -> int:
        instance = int(said.instance)
        known = 0 <= instance < self.workload.instances
        why = (
            self.life.refusal(instance, device)
            if known
            else f"there are instances 0 to {self.workload.instances - 1}"
        )
        if not why and said.copy >= 0:
            why = self.life.copy_refusal(int(said.copy), instance, device)
        if why:
            name = self.workload.cluster.names[device]
            raise InvalidInput(
                f"policy '{self.name}' commits {self._called(instance)} to device '{name}' "
                f"at {self.now:g}: {why}"
            )
        return instance

    def _called(self, instance: int) -> str:
        names, number = self.life.stories.names, f"instance {instance}"
        return f"{names[instance]} ({number})" if 0 <= instance < len(names) else number

    # -- stuck --------------------------------------------------------------

    def _why_stuck(self) -> str:
        jobs = self._jobs_left()
        states = self.life.stories.state
        left = [i for j in jobs for i in self._open_instances(j)]
        # Instances that wait for parents are a consequence, not a cause.
        blame = min(left, key=lambda i: (states[i] is State.WAITING, i))
        return (
            f"'{self.name}' is stuck at {self.now:g}: {len(jobs)} jobs and {len(left)} tasks "
            f"are left; {self._blame(blame)}"
        )

    def _open_instances(self, job: int) -> list[int]:
        over = (*OVER, State.CANCELLED)
        first = self.workload.first_instance
        mine = range(int(first[job]), int(first[job + 1]))
        return [i for i in mine if self.life.stories.state[i] not in over]

    def _blame(self, instance: int) -> str:
        state, called = self.life.stories.state[instance], self.life.stories.names[instance]
        for device, machine in enumerate(self.life.machines):
            position = [instance in group.members for group in machine.queue]
            if any(position):
                name = self.workload.cluster.names[device]
                ahead = position.index(True)
                if machine.slowdown == inf:
                    return f"{called} is queued on device '{name}', which is down for good"
                head = self.life.stories.names[machine.queue[0].members[0]]
                return f"{called} is queued on device '{name}'" + (
                    f" behind {head}, which is not ready" if ahead else ""
                )
        if self.plans is not None:
            return f"{called} is {state}, and no row of the schedule runs it"
        names = self.workload.cluster.names
        down = [n for n, m in zip(names, self.life.machines, strict=True) if m.slowdown == inf]
        return f"{called} is {state} and the policy waits" + (
            f" (devices down for good: {', '.join(down)})" if down else ""
        )


# -- who decides ------------------------------------------------------------


def _ask(policy: Policy) -> Decide:
    return lambda life, now: policy.decide(life.view(now))


def _follow_rule(rule: Rule) -> Decide:
    def in_order(life: Lifecycle) -> list[int]:
        return sorted(life.ready, key=lambda i: (life.keys[i], i))

    def by_instance(life: Lifecycle, now: float) -> Decision | None:
        for i in in_order(life):
            device = _device_for(rule.placement, life, i, now)
            if device is not None:
                return Decision(i, device)
        return None

    def by_device(life: Lifecycle, now: float) -> Decision | None:
        kinds = len(life.workload.kinds)
        for device, machine in enumerate(life.machines):
            if not life.idle(device, now):
                continue
            able = [i for i in in_order(life) if life.can_run(i, device)]
            able = [i for i in able if life.room.fits([i], device)]
            if able:
                last = max(machine.last_kind, 0)  # `min` takes the first of equals
                return Decision(min(able, key=lambda i: (life.kind[i] - last) % kinds), device)
        return None

    return by_device if rule.placement == "mru" else by_instance


def _device_for(placement: str, life: Lifecycle, instance: int, now: float) -> int | None:
    """Return the device of a placement for an instance; ties: the lower number."""
    devices = [
        d
        for d in range(len(life.machines))
        if life.machines[d].slowdown < inf and life.can_run(instance, d)
    ]
    if placement != "eft":
        devices = [d for d in devices if life.idle(d, now) and life.room.fits([instance], d)]

    def finish(d: int) -> float:
        begin = max(life.free_at(d, now), life.arrival([instance], d, now), now)
        return begin + seconds(d)

    def seconds(d: int) -> float:
        return life.expected([instance], d) + life.setup(instance, d)

    if placement == "first":
        return devices[0] if devices else None
    if placement == "fastest":
        return min(devices, key=seconds, default=None)
    return min(devices, key=finish, default=None)


def _rows_by_problem(
    workload: Workload, schedules: Sequence[Schedule]
) -> list[list[tuple[int, int, bool]]]:
    """Return (task, device, copy) of each schedule in the order of commitment."""
    if len(schedules) != len(workload.problems):
        count = len(workload.problems)
        raise InvalidInput(
            f"{len(schedules)} schedules are given for the {count} problems of "
            f"'{workload.name}'; give one for each"
        )
    plans = []
    for problem, schedule in zip(workload.problems, schedules, strict=True):
        for task, device in zip(schedule.task.tolist(), schedule.device.tolist(), strict=True):
            if not (0 <= task < problem.n and 0 <= device < problem.p):
                raise InvalidInput(
                    f"the schedule of '{problem.name}' puts task {task} on device {device}; "
                    "one of them does not exist"
                )
            if not problem.duration(task, device) < inf:
                name = problem.workflow.task_name(task)
                raise InvalidInput(
                    f"the schedule of '{problem.name}' puts task '{name}' on device "
                    f"'{problem.cluster.names[device]}', which cannot run it"
                )
        order = replay_order(problem, schedule)
        columns = (schedule.task, schedule.device, schedule.copy)
        plans.append(list(zip(*(column[order].tolist() for column in columns), strict=True)))
    return plans
