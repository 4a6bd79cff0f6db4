"""A service under attack: killed workers, failing applications, bursts, clients that go away."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import weft
from tests.chaos.campaigns import LIMIT, Progress, Tally
from tests.chaos.processes import MARK, Killer, memory
from tests.chaos.work import leaves_a_process, pause, raises
from weft.model import Problem, Scenario, Trace, Workload
from weft.model.trace import DONE
from weft.runtime import LocalBackend
from weft.runtime.backends.local.pool import end_idle_processes
from weft.runtime.backends.local.worker import environment
from weft.runtime.engine.failure import TaskFailed
from weft.runtime.options import RunOptions
from weft.runtime.service.queue import QueueFull
from weft.runtime.service.session import TaskEvent

ROUND = 60.0
"""Seconds that one service lives."""
DEVICES = 3
CAPACITY = 60
KILL_SECONDS = (5.0, 2.0, 0.5)
"""Mean seconds between two kills, one service after the other."""


@dataclass(eq=False)
class Case:
    """A submission: its graph, the value or error it must give, its events."""

    workflow: weft.Workflow
    value: Any = None
    error: type[Exception] | None = None
    cancelled: bool = False
    events: list[TaskEvent] = field(default_factory=list)
    future: Future[dict[str, Any]] | None = None

    def outcome(self) -> str:
        """Return "right", "clear error", or what must not happen."""
        assert self.future is not None
        try:
            found = list(self.future.result(LIMIT).values())
        except CancelledError:
            return "right" if self.cancelled else "cancelled without a request"
        except weft.WeftError as error:
            wanted = self.error is not None and isinstance(error, self.error)
            return "right" if wanted else f"clear error ({str(error).splitlines()[0][:150]})"
        except BaseException as error:  # noqa: BLE001  # it counts as a violation
            return f"{type(error).__name__}: {error}"
        if self.error is not None:
            return f"no {self.error.__name__}"
        return "right" if found == [self.value] else f"{found} instead of {self.value}"


def attack_service(
    seconds: float, progress: Progress, *, kills: int = 10**9, least: int = 0
) -> Tally:
    """Run services for some seconds in all, each for a minute; judge every submission.

    At most so many `kills` in each: a service whose workers die before they work has no device.
    Further services follow until `least` processes are killed: a busy machine starts them slowly.
    """
    tally = Tally()
    begin, number = time.monotonic(), 0
    while (left := begin + seconds - time.monotonic()) > 0 or tally.kills < least:
        number += 1
        left = left if left > 0 else seconds
        killer = Killer("local", KILL_SECONDS[number % 3], number, secrets.token_hex(8), most=kills)
        _one_round(f"service {number}", min(left, ROUND), killer, tally, progress)
    return tally


def _one_round(
    about: str, seconds: float, killer: Killer, tally: Tally, progress: Progress
) -> None:
    before, threads = memory(os.getpid()), set(threading.enumerate())
    with environment({MARK: killer.token}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # devices that are left out
        killer.start()
        try:
            clients, cluster = _serve(seconds, about)
        finally:
            killer.over.set()
            killer.join()
            end_idle_processes()
    tally.kills += killer.kills
    tally.left(about, killer.token, os.getpid(), before)
    if running := set(threading.enumerate()) - threads:
        tally.wrong.append(f"{about}: threads left: {running}")
    cases = [case for client in clients for case in client.cases]
    outcomes = [case.outcome() for case in cases]
    tally.runs += len(cases)
    tally.right += outcomes.count("right")
    errors = [text for text in outcomes if text.startswith("clear error")]
    tally.clear_error += len(errors)
    wrong = [text for text in outcomes if text != "right" and not text.startswith("clear error")]
    tally.wrong += [f"{about}: {text}" for text in wrong]
    trace = trace_of(cases, cluster)
    violations = weft.check(trace.workload, trace)
    tally.traces_valid += len(cases) * (not violations)
    tally.wrong += [f"{about}: {violation}" for violation in violations[:3]]
    refused = sum(client.refused for client in clients)
    tally.refused += refused
    progress(
        f"{about}: {len(cases)} submissions, {outcomes.count('right')} right, {len(errors)} clear "
        f"errors, {refused} refused by a full queue, {killer.kills} kills, {len(trace)} tasks"
        + "".join(f"\n  {text}" for text in dict.fromkeys(errors))
    )


def _serve(seconds: float, seed: str) -> tuple[list[_Client], weft.Cluster]:
    over = threading.Event()
    options = RunOptions(on_error="continue", crashes=20)
    with (
        LocalBackend(DEVICES) as backend,
        weft.Service(backend, capacity=CAPACITY, options=options) as service,
    ):
        attacks = (steady, steady, failing, bursting, cancelling, leaving)
        clients = [
            _Client(service, f"app{k}", attack, over, random.Random(f"{seed} {k}"))
            for k, attack in enumerate(attacks)
        ]
        for client in clients:
            client.start()
        time.sleep(seconds)
        over.set()
        for client in clients:
            client.join()
        cluster = backend.devices()
    return clients, cluster


class _Client(threading.Thread):
    """A client of the service, with its submissions."""

    def __init__(
        self,
        service: weft.Service,
        name: str,
        attack: Callable[[_Client], None],
        over: threading.Event,
        rng: random.Random,
    ) -> None:
        super().__init__(name=f"client {name}")
        self.service, self.application, self.attack = service, name, attack
        self.over, self.rng = over, rng
        self.cases: list[Case] = []
        self.refused = 0

    def run(self) -> None:
        """Attack until the time is over."""
        while not self.over.wait(self.rng.uniform(0.0, 0.05)):
            self.attack(self)

    def submit(
        self, case: Case, what: Any, functions: Any = None, timeout: float | None = None
    ) -> Case:
        """Submit a case; what a full queue refuses is no case."""
        try:
            case.future = self.service.submit(
                self.application,
                what,
                functions=functions,
                priority=self.rng.choice([0.0, 0.0, 1.0]),
                timeout=timeout,
                watch=case.events.append,
            )
        except QueueFull:
            self.refused += 1
            time.sleep(0.02)
        else:
            self.cases.append(case)
        return case


def chain(n: int) -> weft.Workflow:
    """Return tasks in a row."""
    names = tuple(f"t{t}" for t in range(n))
    return weft.Workflow(work=[1.0] * n, src=range(n - 1), dst=range(1, n), data=0.0, names=names)


def steady(client: _Client) -> None:
    """Submit, wait, compare."""
    n = client.rng.randrange(1, 8)
    case = client.submit(Case(workflow := chain(n), value=n), workflow, {"task": pause})
    if case.future is not None:
        case.outcome()


def failing(client: _Client) -> None:
    """Submit functions that raise, and one that cannot be sent."""
    n = client.rng.randrange(1, 5)
    workflow = chain(n)
    if client.rng.random() < 0.2:
        case = Case(workflow, error=weft.InvalidInput)
        client.submit(case, workflow, {"task": threading.Lock().acquire})
    else:
        case = Case(workflow, error=TaskFailed)
        client.submit(case, workflow, {"t0": raises, "task": pause})
    if case.future is not None:
        case.outcome()


def bursting(client: _Client) -> None:
    """Submit more than the queue takes, without waiting."""
    for _ in range(2 * CAPACITY):
        workflow = chain(1)
        client.submit(Case(workflow, value=1), workflow, {"task": pause}, timeout=0.0)
    client.over.wait(3.0)


def cancelling(client: _Client) -> None:
    """Cancel a submission that waits, runs, or has ended."""
    n = client.rng.randrange(1, 8)
    workflow = chain(n)
    case = Case(workflow, value=n, cancelled=True)
    client.submit(case, workflow, {"task": partial(pause, 0)})
    if case.future is not None:
        time.sleep(client.rng.choice([0.0, 0.01, 0.1]))
        client.service.cancel(case.future)


def leaving(client: _Client) -> None:
    """Submit a graph whose task may leave a process behind, then go away without a look."""
    workflow = chain(2)
    first = leaves_a_process if client.rng.random() < 0.05 else pause
    client.submit(Case(workflow, value=2), workflow, {"t0": first, "task": pause})


def trace_of(cases: list[Case], cluster: weft.Cluster) -> Trace:
    """Return the trace of all submissions that began, as jobs of one workload."""
    ends = [[event for event in case.events if event.kind == "finished"] for case in cases]
    jobs = [(case, found) for case, found in zip(cases, ends, strict=True) if found]
    jobs.sort(key=lambda job: min(event.start for event in job[1]))
    place = {name: d for d, name in enumerate(cluster.names)}
    rows = [
        (job, int(event.task[1:]), place[event.device], event.start, event.finish)
        for job, (_, found) in enumerate(jobs)
        for event in found
    ]
    job, task, device = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    start, finish = (np.array([row[k] for row in rows], float) for k in (3, 4))
    whole = [len(found) == case.workflow.n for case, found in jobs]
    last = [max(event.finish for event in found) for _, found in jobs]
    arrival = np.array([min(event.start for event in found) for _, found in jobs])
    workload = Workload.of(
        [Problem.bind(case.workflow, cluster) for case, _ in jobs], arrival=arrival
    )
    end = max(last, default=0.0) + 1.0
    return Trace(
        workload,
        Scenario.of(workload, cancel=np.where(whole, np.inf, end)),
        job=job,
        task=task,
        device=device,
        decided=arrival[job],
        start=start,
        finish=finish,
        status=np.full(len(rows), DONE),
        batch=np.arange(len(rows)),
        copy=np.zeros(len(rows), bool),
        job_finish=np.where(whole, last, np.nan),
        measured=True,
    )
