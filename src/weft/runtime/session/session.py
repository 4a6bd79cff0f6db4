"""`weft.Session`: decisions of a policy in any program, without a simulator.

Future jobs need not be known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, isfinite, isnan
from os import PathLike
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.formats.native.stream_toml import load_stream
from weft.model import Cluster, Problem, Workflow, Workload
from weft.model.conditional_stream import ConditionalStream
from weft.policies.load import load_policy
from weft.registry import closest
from weft.runtime.deciders.fallback import decision_fault
from weft.runtime.deciders.policy import Decider, adaptive, batch_keys
from weft.runtime.deciders.shadow import ShadowedDecider, ShadowReport
from weft.runtime.engine.resumable import ResumableLifecycle
from weft.runtime.session.file import read_session, write_session
from weft.runtime.session.jobs import (
    FAR,
    Assignment,
    JobOutcome,
    SessionJobs,
    bound,
    read_outcomes,
    require_alike,
    template_of,
)
from weft.sim.device_state import Group, Wake
from weft.sim.renumbering import Renumbering
from weft.sim.view import Block, Decision, Policy, ResumablePolicy
from weft.typed import typed

SPARE = 64
"""Least number of jobs to make room for, and of ended jobs to drop, at a time."""
Where = ConditionalStream | Cluster | str | PathLike[str]


class Session:
    """A policy that decides for a real system, from the events the caller reports.

    A simulation of the same events makes the same decisions. For `mru` the workflows must come in
    the same order too: it takes kinds of tasks in order of first appearance among the workflows,
    and a session appends a workflow that is not in `workflows` when its first job arrives.

    Parameters
    ----------
    where : a conditional stream (by name, path or object), or a cluster
    policy : of `weft.list_policies()`, the path of a trained one, or an object
    workflows : that jobs of a cluster are known to run; others may come
    clock : gives the time in seconds where an event has none; by default seconds since the start
    shadow : a policy that decides too, without effect; see `compared`

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 1.0]], [[0, 1]])
    >>> session = Session(problem.cluster, "eft", workflows=[problem])
    >>> session.arrived(at=0.0)
    0
    >>> (first,) = session.decide(at=0.0)
    >>> first.device, first.tasks
    ('d1', ((0, 't0'),))
    >>> session.finished(first, at=1.5)
    >>> [a.tasks for a in session.decide(at=1.5)]
    [((0, 't1'),)]
    """

    @typed
    def __init__(
        self,
        where: Where,
        policy: str | PathLike[str] | Policy,
        *,
        workflows: Sequence[Workflow | Problem] = (),
        seed: int = 0,
        clock: Callable[[], float] | None = None,
        shadow: str | PathLike[str] | Policy | None = None,
    ) -> None:
        if isinstance(where, str | PathLike):
            where = load_stream(where)
        if isinstance(where, ConditionalStream):
            self.cluster, workflows = where.problem.cluster, (where.problem, *workflows)
        elif isinstance(where, Cluster):
            self.cluster = where
        else:
            raise InvalidInput(
                f"a session is for a stream or a cluster; got {type(where).__name__}"
            )
        self.policy = load_policy(policy)
        self._seed, start = seed, time.monotonic()
        self._clock = clock or (lambda: time.monotonic() - start)
        self.problems = [bound(workflow, self.cluster) for workflow in workflows]
        self._closed = False
        self._shadow = None
        if shadow is not None:
            decider = adaptive(self.policy, seed=seed)
            self._shadow = ShadowedDecider(decider, load_policy(shadow), seed=seed)
        self._unseen: set[int] = set()
        self._due: set[int] = set()
        self._wakes = [inf] * self.cluster.p
        self.now = 0.0
        self._jobs = SessionJobs.none(self._room(0))
        if self.problems:
            self._begin()

    # -- events -------------------------------------------------------------

    @typed
    def arrived(
        self,
        workflow: Workflow | Problem | None = None,
        *,
        at: float | None = None,
        deadline: float = inf,
        priority: float = 0.0,
    ) -> int:
        """Report a job; return its number. Without a workflow it runs the first one."""
        if self._closed:
            raise InvalidInput("the session is closed: no job may arrive")
        if workflow is None and not self.problems:
            raise InvalidInput("the session has no workflow; give the one the job runs")
        if isnan(deadline):
            raise InvalidInput(f"deadline of a job is {deadline}; it must be a time")
        if not isfinite(priority):
            raise InvalidInput(f"priority of a job is {priority}; it must be a finite number")
        now, problems = self._tick(at), list(self.problems)
        template = 0 if workflow is None else template_of(workflow, self.problems, self.cluster)
        job = {"template": template, "arrival": now, "deadline": deadline, "priority": priority}
        if (
            not self._begun
            or template >= len(self._life.workload.problems)
            or not self._jobs.fits(template)
        ):
            with self._or_as_before(problems):
                self._rebuild(job)
        number = self._jobs.enter(job)
        self._life.arrive(len(self._jobs) - 1, now)
        return number

    @typed
    def started(self, assignment: Assignment, *, at: float | None = None) -> None:
        """Correct the start of an assignment; without it, it starts as soon as it can."""
        now = self._tick(at)
        device, life = self._device(assignment.device), self._life
        machine = life.machines[device]
        if machine.running is None and machine.queue and self._is(machine.queue[0], assignment):
            life.begin(device, now)
            self._wakes[device] = inf
            return
        group = self._running(assignment)
        group.expected += now - group.start
        group.start = now

    @typed
    def finished(
        self, assignment: Assignment, outcome: JobOutcome = None, *, at: float | None = None
    ) -> None:
        """Report the end of an assignment, with the branch of each task that chooses.

        `outcome` is the branch (name or number) of a single task, a list with an entry per task,
        or a mapping from job to branch.
        """
        now = self._tick(at)
        group, device = self._running(assignment), self._device(assignment.device)
        tasks = self._tasks(group.members)
        if isinstance(outcome, list | tuple) and len(outcome) == len(assignment.tasks):
            rows = zip(assignment.tasks, outcome, strict=True)
            outcome = [branch for task, branch in rows if task in tasks]
        branches = read_outcomes(self._life, group.members, [job for job, _ in tasks], outcome)
        self._life.finish(device, now, branches)
        if group.copy:
            self._due.update(range(self.cluster.p))  # inputs may come from nearer
        self._ended(device, {self._life.place[i][0] for i in group.members})

    @typed
    def failed(self, assignment: Assignment, *, at: float | None = None) -> None:
        """Report that an assignment was lost; its tasks are ready again."""
        now = self._tick(at)
        self._running(assignment)
        device = self._device(assignment.device)
        self._life.lose(device, now)
        self._due.update(self._sharing(device))

    @typed
    def cancelled(self, job: int, *, at: float | None = None) -> None:
        """Report that a job is cancelled; its tasks are dropped, running or not."""
        now = self._tick(at)
        slot = self._jobs.slot(job)
        self._life.cancel(slot, now)
        self._due.update(range(self.cluster.p))  # the first of a queue may be gone
        self._unseen.add(slot)

    @typed
    def device_lost(self, device: str, *, at: float | None = None) -> None:
        """Report that a device is down; all that it runs and has queued is ready again."""
        self.slowed(device, inf, at=at)

    @typed
    def slowed(self, device: str, slowdown: float = 1.0, *, at: float | None = None) -> None:
        """Report that a device takes `slowdown` times as long from now on; 1: it is back."""
        if not float(slowdown) > 0:
            raise InvalidInput(f"slowdown of '{device}' is {slowdown}; it must be above zero")
        now, d = self._tick(at), self._device(device)
        self._life.change_slowdown(d, slowdown, now)
        self._due.update(self._sharing(d))

    def close(self) -> None:
        """Report that no more jobs come, so that no policy waits for one."""
        self._closed = True
        if self.problems:
            self._rebuild()

    # -- decisions ----------------------------------------------------------

    @property
    def wake(self) -> float:
        """When to call `decide` even if nothing happens; inf: never."""
        return min(self._wakes)

    @typed
    def decide(self, *, at: float | None = None) -> list[Assignment]:
        """Return what to run now; empty: wait for the next event."""
        now = self._tick(at)
        self._start_due()
        made: list[Assignment] = []
        if not self.problems or not self._life.ready:
            return made
        if self._some_idle(now):
            self._unseen.clear()
        idle_only = self._shadow is None and getattr(self.policy, "idle_units_only", False)
        while self._life.ready and (not idle_only or self._some_idle(now)):
            try:
                decision = self._ask(now)
            except Exception:
                if made:  # they are committed: the caller must run them; the next call raises
                    break
                raise
            if decision is None:
                break
            if isinstance(decision, Block):
                self._life.block(decision.device, decision.until)
            else:
                made += self._commit(decision, now)
            self._look(decision.device, now)
        return made

    @typed
    def replace_policy(
        self, policy: str | PathLike[str] | Policy, *, stream: ConditionalStream | None = None
    ) -> None:
        """Let another policy decide from now on; all jobs and assignments stay.

        `stream` has the same tasks and units as the stream of the session, with other times.
        """
        loaded = load_policy(policy)
        if stream is not None:
            require_alike(stream, self.problems, self.cluster)
        with self._or_as_before(list(self.problems)):
            if stream is not None:
                self.cluster, self.problems[0] = stream.problem.cluster, stream.problem
            self.policy = loaded
            if self._begun:
                self._rebuild(remember=False)

    def compared(self) -> ShadowReport | None:
        """Return how the decisions of the shadow differed; None without a shadow."""
        return None if self._shadow is None else self._shadow.report()

    # -- state --------------------------------------------------------------

    @typed
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the state of the session to a JSON file; return its path."""
        known = self.problems != []
        state = {
            "policy": self.policy.name,
            "seed": self._seed,
            "now": self.now,
            "following": self._jobs.following,
            "numbers": self._jobs.numbers,
            "closed": self._closed,
            "unseen": sorted(self._unseen),
            "due": sorted(self._due),
            "wakes": self._wakes,
            "columns": self._jobs.columns if known else {},
            "life": self._life.state() if known else {},
            "memory": self._memory() if known else None,
        }
        return write_session(Path(path), self.cluster, self.problems, state)

    @classmethod
    @typed
    def load(
        cls,
        path: str | PathLike[str],
        policy: str | PathLike[str] | Policy | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> Session:
        """Return a saved session; it goes on with the same decisions.

        A policy that is not of `weft.list_policies()` must be given. Another policy than the saved
        one begins without a memory. Without a clock, time goes on from the time of saving.
        """
        cluster, problems, state = read_session(Path(path))
        start = time.monotonic() - state["now"]
        session = cls(
            cluster,
            state["policy"] if policy is None else policy,
            workflows=problems,
            seed=state["seed"],
            clock=clock or (lambda: time.monotonic() - start),
        )
        try:
            session._restore(state)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InvalidInput(f"{path}: is damaged ({error!r})") from None
        return session

    def _restore(self, state: dict[str, Any]) -> None:
        self.now, self._closed, self._wakes = state["now"], state["closed"], state["wakes"]
        self._unseen, self._due = set(state["unseen"]), set(state["due"])
        if state["columns"]:
            self._jobs = SessionJobs(state["columns"], state["numbers"], state["following"])
            old = self._jobs.workload(self.problems)
            everything = Renumbering.keep(old, range(old.jobs), arrived=len(self._jobs))
            memory = state["memory"] if state["policy"] == self.policy.name else None
            self._begin((state["life"], old, everything), memory)

    # -- inside -------------------------------------------------------------

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_life")

    def _some_idle(self, now: float) -> bool:
        return any(self._life.idle(d, now) for d in range(len(self._life.machines)))

    def _room(self, jobs: int) -> int:
        """Return for how many jobs to make room ahead."""
        known = getattr(self.policy, "reads_arrivals", False) or hasattr(self.policy, "rule")
        return max(SPARE, jobs) if known and not self._closed else 0

    def _begin(
        self,
        resumed: tuple[dict[str, Any], Workload, Renumbering] | None = None,
        memory: dict[str, Any] | None = None,
    ) -> None:
        shown = self._jobs.workload(self.problems)
        life = ResumableLifecycle(shown, modelled=True, keys=batch_keys(self.policy, shown))
        if resumed is not None:
            life.resume(*resumed)
        self._life = life
        self._decider: Decider = adaptive(self.policy, seed=self._seed)
        if self._shadow is not None:
            self._shadow.decider, self._decider = self._decider, self._shadow
        self._decider.begin(life)
        if memory is not None and resumed is not None and isinstance(self.policy, ResumablePolicy):
            _, _, numbers = resumed
            self.policy.resume(memory, numbers)

    @contextmanager
    def _or_as_before(self, problems: list[Problem]) -> Iterator[None]:
        """Go on as before, with these problems, if the policy refuses a change."""
        policy, cluster, jobs, unseen = self.policy, self.cluster, self._jobs, self._unseen
        life, memory = (self._life, self._memory()) if self._begun else (None, None)
        try:
            yield
        except Exception:
            self.policy, self.cluster, self.problems = policy, cluster, problems
            self._jobs, self._unseen = jobs, unseen
            if life is None:
                self.__dict__.pop("_life", None)
            else:
                old = life.workload
                everything = Renumbering.keep(old, range(old.jobs), arrived=len(jobs))
                self._begin((life.state(), old, everything), memory)
            raise

    def _memory(self) -> dict[str, Any] | None:
        return self.policy.state() if isinstance(self.policy, ResumablePolicy) else None

    def _rebuild(self, job: dict[str, float] | None = None, *, remember: bool = True) -> None:
        """Drop ended jobs if there are many, add a job and room for more."""
        if not self._begun:
            self._jobs = self._jobs.kept([], job, self._room(0))
            self._begin()
            return
        old, life = self._life.workload, self._life
        slots = range(len(self._jobs))
        over = {j for j in slots[:-1] if life.ended(j) and j not in self._unseen}
        if len(over) < max(SPARE, len(slots) - len(over)):
            over = set()
        keep = [j for j in slots if j not in over]
        numbers = Renumbering.keep(old, keep, arrived=len(slots))
        memory, state = self._memory() if remember else None, life.state()
        self._jobs = self._jobs.kept(keep, job, self._room(len(keep)))
        self._begin((state, old, numbers), memory)
        new = {j: slot for slot, j in enumerate(keep)}
        self._unseen = {new[j] for j in self._unseen}

    def _tick(self, at: float | None) -> float:
        """Move the clock, which never runs back, and start what is due meanwhile."""
        now = self._clock() if at is None else float(at)
        if not now < FAR:
            raise InvalidInput(
                f"the time of the event is {now}; it must be a finite number below {FAR:g} s"
            )
        if now > self.now:
            self._start_due()
            while self.wake <= now:
                when = self.wake
                self._look(self._wakes.index(when), when)
            self.now = now
        return self.now

    def _start_due(self) -> None:
        for device in sorted(self._due):
            self._look(device, self.now)
        self._due.clear()

    def _look(self, device: int, now: float) -> None:
        due = self._life.start_due(device, now)
        self._wakes[device] = due.at if isinstance(due, Wake) else inf

    def _sharing(self, device: int) -> range:
        """Return the devices that may start something when a group ends on this one."""
        return range(self.cluster.p) if self._life.contended else range(device, device + 1)

    def _ended(self, device: int, slots: set[int]) -> None:
        self._due.update(self._sharing(device))
        self._unseen.update(slot for slot in slots if self._life.ended(slot))

    def _ask(self, now: float) -> Decision | Block | None:
        decision = self._decider.decide(self._life, now)
        if why := decision_fault(self._life, decision, now):
            raise InvalidInput(f"policy '{self.policy.name}': {why}")
        return decision

    def _commit(self, decision: Decision, now: float) -> list[Assignment]:
        group = self._life.batch(decision.instance, decision.device)
        made = [Assignment(self.cluster.names[decision.device], self._tasks(group))]
        if decision.copy < 0:
            self._life.commit(group, decision.device, now)
            return made
        self._life.commit_with_copy(group, decision.device, now, decision.copy)
        return [Assignment(made[0].device, self._tasks([decision.copy]), copy=True), *made]

    def _tasks(self, instances: Sequence[int]) -> tuple[tuple[int, str], ...]:
        places = [self._life.place[i] for i in instances]
        numbers, workload = self._jobs.numbers, self._life.workload
        return tuple((numbers[j], workload.problem_of(j).workflow.task_name(t)) for j, t in places)

    def _is(self, group: Group, assignment: Assignment) -> bool:
        tasks = self._tasks(group.members)
        left = tuple(task for task in assignment.tasks if not self._dropped(task))
        return group.copy == assignment.copy and tasks in (assignment.tasks, left)

    def _dropped(self, task: object) -> bool:
        """Return whether a job ended, so that a batch goes on without its task."""
        match task:
            case (int(job), str()) if job in self._jobs:
                return self._life.ended(self._jobs.slot(job))
            case (int(job), str()):
                return 0 <= job < self._jobs.following
        return False

    def _running(self, assignment: Assignment) -> Group:
        device = self._device(assignment.device)
        group = self._life.machines[device].running
        if group is None or not self._is(group, assignment):
            runs = "nothing" if group is None else str(self._tasks(group.members))
            raise InvalidInput(f"device '{assignment.device}' runs {runs}, not {assignment.tasks}")
        return group

    def _device(self, name: str) -> int:
        if name not in self.cluster.names:
            raise InvalidInput(f"unknown device '{name}'{closest(name, self.cluster.names)}")
        if not self._begun:
            raise InvalidInput(
                f"the session has no workflow yet; give workflows=, or report '{name}' after a job"
            )
        return self.cluster.names.index(name)
