"""Several applications on one backend: they submit to the wait queue; a thread takes what waits and runs it, round after round.

The clock goes on from round to round, and budgets with it: an overdraft of one round delays the next ones, whoever submitted them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Self

from weft.model import Workload
from weft.policies import POLICIES
from weft.run.backend import Backend
from weft.run.driver import Driver
from weft.run.estimates import Recorder, estimated_problem
from weft.run.failure import TaskFailed
from weft.run.functions import Application, application_of
from weft.run.guide import adaptive
from weft.run.history import History
from weft.run.live import LiveLifecycle
from weft.run.queue import Waiting, WaitQueue
from weft.run.reservations import Budget, Reservations
from weft.run.terms import Terms

Ticket = tuple[Application, "Future[dict[str, Any]]"]


class Service:
    """Runs what applications submit, `together` submissions at a time; use it in a ``with`` block.

    Parameters
    ----------
    policy : decides over all tasks of the submissions under way
    queue : where submissions wait: how many may, and the shares of applications
    budgets : application -> seconds of device time it may use in a period; periods count from the start of the service
    together : submissions of a round; the next round begins when all of them have ended
    """

    def __init__(
        self,
        backend: Backend,
        *,
        policy: str = "eft",
        queue: WaitQueue[Ticket] | None = None,
        budgets: Mapping[str, Budget] | None = None,
        together: int = 4,
        history: History | None = None,
        terms: Terms | None = None,
    ) -> None:
        self.backend = backend
        self.policy = policy
        self.queue: WaitQueue[Ticket] = queue if queue is not None else WaitQueue()
        self.reservations = Reservations([], budgets) if budgets else None
        self.together = together
        self.history = history
        self.terms = terms or Terms(on_error="continue")
        self._rounds = 0
        self._clock = 0.0
        """When the last round ended."""
        self._thread = threading.Thread(target=self._serve, name="weft-service", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Run what waits, then end."""
        self.queue.close()
        self._thread.join()

    def submit(
        self,
        application: str,
        what: Any,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        priority: float = 0.0,
        timeout: float | None = None,
    ) -> Future[dict[str, Any]]:
        """Submit a workflow (see `weft.run`); the future holds the results of its tasks, by name.

        When the queue is full this waits for room, at most `timeout` seconds.
        """
        app = application_of(what, functions)
        future: Future[dict[str, Any]] = Future()
        self.queue.put(application, (app, future), priority=priority, cost=max(app.workflow.n, 1), timeout=timeout)
        return future

    def _serve(self) -> None:
        while True:
            try:
                batch = [self.queue.take(None)]
                while len(batch) < self.together and len(self.queue):
                    batch.append(self.queue.take())
            except IndexError:
                return
            try:
                self._run(batch)
            except Exception as error:  # noqa: BLE001  # those who wait are told; the service goes on
                for waiting in batch:
                    if not waiting.item[1].done():
                        waiting.item[1].set_exception(error)

    def _since(self) -> float:
        """Where the clock of the next round begins: where the last one stopped and, where time is real, as much later as it is."""
        if self._rounds == 0:
            self._origin = time.perf_counter()
        self._rounds += 1
        return self._clock if self.backend.modelled else max(self._clock, time.perf_counter() - self._origin)

    def _run(self, batch: list[Waiting[Ticket]]) -> None:
        apps = [waiting.item[0] for waiting in batch]
        problems = [estimated_problem(app.workflow, self.backend.devices(), self.history) for app in apps]
        workload = Workload.of(problems, priority=[w.priority for w in batch], name="service")
        life = LiveLifecycle(workload, modelled=self.backend.modelled)
        first = workload.first_instance.tolist()
        driver = Driver(
            life,
            self.backend,
            adaptive(POLICIES.create(self.policy)),
            terms=self.terms,
            reservations=self.reservations,
            wanted=frozenset(first[j] + t for j, app in enumerate(apps) for t in app.wanted),
            observers=[Recorder(self.history)] if self.history is not None else (),
        )
        driver.prepare()
        if self.reservations is not None:
            self.reservations.begin([w.application for w in batch])
        try:
            self.backend.begin(workload, [call for app in apps for call in app.calls], since=self._since())
            driver.run()
            failures = {failure.job: failure for failure in driver.failures}
            for j, (app, waiting) in enumerate(zip(apps, batch, strict=True)):
                if j in failures:
                    waiting.item[1].set_exception(TaskFailed(failures[j]))
                    continue
                done = [t for t in app.wanted if life.results[first[j] + t]]
                waiting.item[1].set_result({app.workflow.task_name(t): self.backend.fetch(first[j] + t) for t in done})
        finally:
            self._clock = max(self._clock, self.backend.clock())
            self.backend.finish()
