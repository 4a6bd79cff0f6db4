"""One driver session: submissions join it until the queue is empty."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from math import inf
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np

from weft.errors import WeftError
from weft.model import Cluster, Problem, Workflow, Workload
from weft.policies import Policy
from weft.policies.load import load_policy
from weft.runtime.backends.protocol import Backend, Finished, Started
from weft.runtime.costs.estimates import estimated_problem, with_measured_links
from weft.runtime.costs.history import History
from weft.runtime.costs.recorder import Recorder
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.events import Observer
from weft.runtime.engine.failure import TaskFailed, fetched
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.inputs.functions import Application
from weft.runtime.options import RunOptions
from weft.runtime.service.budgets import Reservations
from weft.runtime.service.fair_share import MOST_AHEAD, FairShareDecider, Shares
from weft.runtime.service.queue import Allowed, Waiting
from weft.sim.device_state import Group

UNUSED = 50_000
"""Instances of ended submissions that no later one replaced; with more, a new session begins."""

LINGER = 0.5
"""Seconds that a session on a real backend waits for the next submission before it ends."""

KNOWN_WORKFLOWS = 256
"""Workflows whose problems a session keeps, for submissions of the same workflow."""

WRITE_SECONDS = 1.0
"""Seconds between two writes to the history, on a real clock."""


class TaskEvent(NamedTuple):
    """An event of a submission; times are seconds of the service's clock.

    Attributes
    ----------
    kind : "begun" (the submission), "finished" or "failed" (an attempt of a task), "started" (an
        attempt that still runs when the service receives it)
    result : the value of a finished task, with the branches it named
    text : why an attempt failed, or why the result of a finished task cannot be loaded here
    """

    kind: Literal["begun", "started", "finished", "failed"]
    task: str = ""
    device: str = ""
    start: float = 0.0
    finish: float = 0.0
    result: Any = None
    branches: tuple[str | int, ...] = ()
    text: str = ""


@dataclass(frozen=True, eq=False)
class Submission:
    """An application, the future of its results, and any receiver of its events."""

    app: Application
    future: Future[dict[str, Any]]
    watch: Callable[[TaskEvent], None] | None = None

    def deliver(self, event: TaskEvent) -> None:
        """Give an event to the receiver.

        Its errors must not end the session of all others.
        """
        if self.watch is not None:
            with contextlib.suppress(Exception):
                self.watch(event)


@dataclass(frozen=True)
class ServiceConfig:
    """Configuration of a session: see `weft.runtime.service.service.Service`."""

    policy: str | PathLike[str] | Policy
    options: RunOptions
    shares: Shares
    reservations: Reservations | None
    history: History | None
    cancelled: set[Future[dict[str, Any]]] = field(default_factory=set)
    """Futures of running submissions that are to end."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when all submissions are to end."""


class ServiceSession(Observer):
    """Submissions that run on a backend; others join while they run.

    Parameters
    ----------
    next_submission : takes the next submission of an allowed application, and waits for it for the
        given number of seconds; None: there is none
    max_concurrent : submissions of one application and priority that may run at once
    """

    def __init__(
        self,
        backend: Backend,
        config: ServiceConfig,
        next_submission: Callable[[Allowed, float], Waiting[Submission] | None],
        *,
        max_concurrent: int,
    ) -> None:
        self.backend = backend
        self.config = config
        self.max_concurrent = max_concurrent
        self._next_submission = next_submission
        self._jobs: list[Waiting[Submission]] = []
        """Job -> submission."""
        self._running: list[int] = []
        self._busy: set[str] = set()
        """Applications that ran something before the last look for ended submissions: one whose
        submissions all end at once is not idle if others of it wait."""
        self._priorities: dict[str, list[float]] = {}
        """Application -> the priorities of its submissions that run."""
        self._free: dict[tuple[int, int], list[int]] = {}
        """(tasks, choices) -> ended jobs in whose place a submission may start."""
        self._unused = 0
        """Instances of ended jobs."""
        self._problems: dict[int, tuple[Workflow, object, Problem]] = {}
        """Identity of a workflow -> itself and its problem, with the present estimates."""
        self._written = 0.0
        """Time of the last write to the history."""
        self._decider = self._make_decider(config.policy)
        self._recorder = Recorder(config.history, []) if config.history is not None else None

    def run(self, first: Waiting[Submission], since: float) -> None:
        """Run until no submission is left."""
        self._join(first, 0)
        try:
            workload = Workload.of(
                self._problem(first, self._measured(self.backend.devices())),
                arrival=since,
                priority=first.priority,
                name="service",
            )
            driver = self._make_driver(workload, first.item.app.wanted)
            # Whoever submits did not choose the policy: its refusal must not lose the submission.
            driver.prepare(refuses=False)
            self.backend.begin(workload, first.item.app.calls, since=since)
            driver.run()
        except Exception as error:  # noqa: BLE001  # futures get it; the service goes on
            for job in self._running:
                self._jobs[job].item.future.set_exception(error)
        finally:
            self.backend.finish()

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Forward the end to the current decider and to the receivers of events."""
        self._decider.finished(life, group, event, outcomes)
        for k, i in enumerate(group.members):
            job, task = life.place[i]
            item = self._jobs[job].item
            if item.watch is not None:
                name, value, text = item.app.workflow.task_name(task), None, ""
                try:
                    value = fetched(self.backend, i, name)
                except WeftError as error:  # the future gets it, if the task is asked for
                    text = str(error)
                item.deliver(
                    TaskEvent(
                        "finished",
                        name,
                        life.workload.cluster.names[event.device],
                        group.start,
                        max(event.finish, group.start),
                        value,
                        event.branches[k] if k < len(event.branches) else (),
                        text,
                    )
                )

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """Forward the start of a task to the receiver of events."""
        group = life.machines[event.device].running
        if group is not None and group.members:
            job, task = life.place[group.members[0]]
            item, where = self._jobs[job].item, life.workload.cluster.names[event.device]
            name = item.app.workflow.task_name(task)
            item.deliver(TaskEvent("started", name, where, event.time, event.time))

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """Forward a failed attempt to the receiver of events."""
        job, task = life.place[instance]
        item, now = self._jobs[job].item, self._driver.now
        name, where = item.app.workflow.task_name(task), life.workload.cluster.names[device]
        item.deliver(TaskEvent("failed", name, where, now, now, text=text))

    # -- for the page of a service, in other threads --------------------------

    @property
    def driver(self) -> Driver | None:
        """The driver; None before it is made."""
        return getattr(self, "_driver", None)

    def running(self) -> list[tuple[str, int]]:
        """Return application and job of the submissions that run."""
        return [(self._jobs[job].application, job) for job in list(self._running)]

    def job_of(self, future: Future[dict[str, Any]]) -> int | None:
        """Return the job of a submission that runs."""
        found = (job for job in list(self._running) if self._jobs[job].item.future is future)
        return next(found, None)

    # -- the intake of the driver -------------------------------------------

    def take(self, driver: Driver) -> bool:
        """Deliver ended submissions and start others."""
        if self.config.ending.is_set():
            self.config.cancelled.update(self._jobs[job].item.future for job in self._running)
        for job in self._running if self.config.cancelled else ():
            if self._jobs[job].item.future in self.config.cancelled and not driver.life.ended(job):
                driver.cancel(job)
        self._busy = {self._jobs[job].application for job in self._running}
        for job in [job for job in self._running if driver.life.ended(job)]:
            self._deliver(driver, job)
        new = False
        while self._unused < UNUSED:
            idle = not (self._running or self.backend.modelled)
            waiting = self._next_submission(self._may_begin, LINGER if idle else 0.0)
            if waiting is None:
                break
            new |= self._add(driver, waiting)
        return new

    def due(self) -> float:
        """Return the next budget replenishment."""
        return self._decider.wake

    # -- inside -------------------------------------------------------------

    def _make_driver(self, workload: Workload, wanted: Iterable[int]) -> Driver:
        options = self.config.options
        self._driver = Driver(
            LiveLifecycle(workload, modelled=self.backend.modelled),
            self.backend,
            self._decider,
            # How many groups of these a device may hold, the decider says.
            options=replace(options, window=max(options.window, MOST_AHEAD)),
            reservations=self.config.reservations,
            wanted=frozenset(wanted),
            observers=[self, *([self._recorder] if self._recorder else [])],
            grown=None if self.backend.modelled else self._on,
            intake=self,
            fallback=lambda: self._make_decider("eft"),
        )
        return self._driver

    def _may_begin(self, application: str, priority: float) -> bool:
        """Return whether an application may have one more; lower priorities do not count."""
        running = self._priorities.get(application, ())
        if len(running) < self.max_concurrent:
            return True
        return sum(other >= priority for other in running) < self.max_concurrent

    def _backlogged(self) -> list[str]:
        """Return the applications that run their largest number of submissions."""
        return [
            name
            for name, running in self._priorities.items()
            if len(running) >= self.max_concurrent
        ]

    def _make_decider(self, policy: str | PathLike[str] | Policy) -> FairShareDecider:
        decider = FairShareDecider(
            load_policy(policy),
            self.config.shares,
            ahead=1 if self.backend.modelled else self.config.options.window,
            reservations=self.config.reservations,
            backlogged=self._backlogged,
        )
        for job, waiting in enumerate(self._jobs):
            decider.join(job, waiting.application, waiting.number, ())
        self._decider = decider
        return decider

    def _problem(self, waiting: Waiting[Submission], cluster: Cluster) -> Problem:
        """Return the estimated problem.

        A workflow that is submitted again is not bound again.
        """
        app = waiting.item.app
        known = self._problems.get(id(app.workflow))
        if (
            known is not None
            and known[0] is app.workflow
            and known[1] == app.devices
            and known[2].cluster is cluster
        ):
            return known[2]
        # With the links as they were when the session began: all jobs are on the same cluster.
        found = estimated_problem(app.workflow, cluster, self.config.history, devices=app.devices)
        problem = replace(found, cluster=cluster)
        if len(self._problems) >= KNOWN_WORKFLOWS:
            self._problems.clear()
        self._problems[id(app.workflow)] = (app.workflow, app.devices, problem)
        return problem

    def _measured(self, cluster: Cluster) -> Cluster:
        known = self.config.history
        return cluster if known is None else with_measured_links(cluster, known)

    def _join(self, waiting: Waiting[Submission], job: int, instances: Iterable[int] = ()) -> None:
        """Register a submission as a job: a new one, or in the place of an ended one."""
        name = waiting.application
        running = self._priorities.setdefault(name, [])
        if not running and name not in self._busy:
            self.config.shares.join(name)
        running.append(waiting.priority)
        if self.config.reservations is not None:
            self.config.reservations.join(name, job)
        self._running.append(job)
        self._jobs[job : job + 1] = [waiting]
        waiting.item.deliver(TaskEvent("begun"))
        if self._recorder is not None:
            self._recorder.replace(job, waiting.item.app.workflow)
        self._decider.join(job, name, waiting.number, instances)

    def _add(self, driver: Driver, waiting: Waiting[Submission]) -> bool:
        """Start a submission; its future gets the error if that fails."""
        app, known = waiting.item.app, driver.workload
        size = (app.workflow.n, len(app.workflow.choices))
        places = self._free.get(size, [])
        job = places[-1] if places else known.jobs
        try:
            problem = self._problem(waiting, known.cluster)
            workload = self._with_job(driver, problem, job, waiting.priority)
            driver.add(
                workload,
                app.calls,
                job,
                wanted=[int(workload.first_instance[job]) + t for t in app.wanted],
            )
        except Exception as error:  # noqa: BLE001  # its future gets any error
            waiting.item.future.set_exception(error)
            return False
        if places:
            places.pop()
            self._unused -= app.workflow.n
        self._join(waiting, job, driver.life.instances(job))
        return True

    @staticmethod
    def _with_job(driver: Driver, problem: Problem, job: int, priority: float) -> Workload:
        """Return the workload with a problem as a job, at the end or replacing another."""
        known = driver.workload
        if job < known.jobs:
            return known.with_problem(job, problem, priority)
        return replace(
            known,
            problems=(*known.problems, problem),
            template=np.append(known.template, job),
            arrival=np.append(known.arrival, max(driver.now, float(known.arrival[-1]))),
            deadline=np.append(known.deadline, np.inf),
            priority=np.append(known.priority, priority),
        )

    def _deliver(self, driver: Driver, job: int) -> None:
        self._running.remove(job)
        self._priorities[self._jobs[job].application].remove(self._jobs[job].priority)
        app, future = self._jobs[job].item.app, self._jobs[job].item.future
        first = int(driver.workload.first_instance[job])
        failure = next((failure for failure in driver.failures if failure.job == job), None)
        if failure is not None:
            driver.failures = [other for other in driver.failures if other.job != job]
        if future in self.config.cancelled and driver.instances.cancels[job] < inf:
            future.set_exception(CancelledError())
        elif failure is not None:
            future.set_exception(TaskFailed(failure))
        else:
            wanted = [t for t in app.wanted if driver.life.results[first + t]]
            try:
                results = {}
                for t in wanted:
                    name = app.workflow.task_name(t)
                    results[name] = fetched(self.backend, first + t, name)
                future.set_result(
                    dict(app.collect(results)) if app.collect is not None else results
                )
            except Exception as error:  # noqa: BLE001  # the future gets it
                future.set_exception(error)
        for i in driver.life.instances(job):
            self.backend.release(i)
        self._unused += app.workflow.n
        if driver.instances.cancels[job] == inf:  # the backend may still end a cancelled order
            self._free.setdefault((app.workflow.n, len(app.workflow.choices)), []).append(job)
        driver.life.executions.clear()
        if self._recorder is not None and (
            self.backend.modelled or driver.now >= self._written + WRITE_SECONDS
        ):
            self._recorder.ended(driver.life, driver.now)  # for the estimates of the next
            self._written = driver.now
            self._problems.clear()

    def _on(self, cluster: Cluster) -> Workload:
        """Return the workload on more devices."""
        cluster = self._measured(cluster)
        problems = tuple(self._problem(waiting, cluster) for waiting in self._jobs)
        return replace(self._driver.workload, problems=problems)
