"""A saturated service for a long time: memory, descriptors, threads, shares and priorities."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from heapq import heappush, heappushpop, nlargest
from itertools import permutations
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

import weft
from tests.chaos.campaigns import LIMIT, Progress
from tests.chaos.work import pause, sums
from weft.runtime import LocalBackend
from weft.runtime.costs.history import History
from weft.runtime.options import RunOptions
from weft.runtime.service.fair_share import MOST_AHEAD
from weft.runtime.service.session import TaskEvent

SHARES = {"large": 4.0, "medium": 2.0, "small": 1.0}
DEVICES = 2
HELD = DEVICES * MOST_AHEAD
"""Tasks that the devices hold at once, at the most."""
CONCURRENT = HELD + 1
"""Submissions of an application that run at once. Each is a row of tasks; with more of them than
tasks that devices hold, one is always ready. With 4 rows, the large application has no ready task
at a fifth of all decisions: others get the devices then, and no bound holds for its share."""
OUTSTANDING = 40
"""Submissions of an application that wait or run: more than the service runs at once."""
CHAINS = 5
"""Tasks of the longest row."""
URGENT_EVERY = 100
"""Ordinary submissions that end between two urgent ones. Urgent work comes before shares, so what
is urgent must be little; by a clock it would be much on a machine that is slow for a while."""
WITHIN = 0.05
"""How far a share may be off, as a part of it; and the part of urgent submissions that may wait."""


@dataclass
class Sample:
    """A moment of the soak."""

    minute: float
    megabytes: float
    descriptors: int
    threads: int
    files: int
    used: dict[str, float]
    longest: dict[str, list[float]] = field(default_factory=dict)
    """Application -> seconds of its longest tasks so far, one more than devices held at once."""

    def lead(self, first: str, second: str) -> float:
        """Return how many seconds per share an application is ahead of another."""
        return self.used[first] / SHARES[first] - self.used[second] / SHARES[second]

    def most_lead(self, first: str, second: str) -> float:
        """Return how many seconds per share an application may be ahead of another.

        The service sends a task if its application has used no more per share than any other with
        ready tasks. What the first application used since then is this task and those of it that
        devices held; what the second used lacks those of it that devices held, which count with
        their estimates. (Estimates are medians: half of its tasks took longer.) So the lead is at
        most as many of the longest tasks of both as devices held, and one more; another one is
        urgent and did not wait for its turn. This holds at every moment, for devices of any speed:
        it needs no idle machine.

        For one task at a time it is the theorem on fairness in Goyal, Vin and Cheng, Start-time
        Fair Queuing, 1996; for several see Jin, Chase and Kaur, Interposed Proportional Sharing
        for a Storage Service Utility, 2004.
        """
        ahead, behind = (
            [seconds / SHARES[name] for seconds in self.longest[name]] for name in (first, second)
        )
        return sum(nlargest(max(len(ahead), len(behind)), ahead + behind)) + max(ahead)

    def tells(self) -> bool:
        """Return whether equal shares would be off by much more than they may be."""
        equal = sum(self.used.values()) / len(SHARES)
        lead = equal / SHARES["small"] - equal / SHARES["large"]
        return bool(self.longest) and lead > 1.5 * self.most_lead("small", "large")

    def __str__(self) -> str:
        total = sum(self.used.values()) or 1.0
        shares = ", ".join(f"{name} {used / total:.4f}" for name, used in self.used.items())
        return (
            f"minute {self.minute:.1f}: {self.megabytes:.1f} MB, {self.descriptors} descriptors, "
            f"{self.threads} threads, {self.files} files in memory; {shares}"
        )


@dataclass
class Soak:
    """Samples and counts of a soak; `wrong` says what must not happen."""

    samples: list[Sample] = field(default_factory=list)
    submissions: int = 0
    urgent: int = 0
    urgent_late: int = 0
    wrong: list[str] = field(default_factory=list)

    def growth(self, name: str) -> float:
        """Return the slope per minute of a figure over the second half."""
        late = self.samples[len(self.samples) // 2 :]
        if len(late) < 3:
            return 0.0
        minutes = [sample.minute for sample in late]
        return float(np.polyfit(minutes, [getattr(sample, name) for sample in late], 1)[0])

    def offsets(self) -> dict[str, float]:
        """Return how far the device time of each application is off, as a part of its share."""
        used = self.samples[-1].used
        total, shares = sum(used.values()), sum(SHARES.values())
        return {name: used[name] / total * shares / SHARES[name] - 1.0 for name in SHARES}

    def leads(self) -> list[str]:
        """Return which application was further ahead of another than it may be, and when."""
        return [
            f"soak: '{first}' is {sample.lead(first, second):.3f} s per share ahead of '{second}'; "
            f"{sample.most_lead(first, second):.3f} s are allowed"
            for sample in self.samples
            if sample.longest
            for first, second in permutations(SHARES, 2)
            if sample.lead(first, second) > sample.most_lead(first, second)
        ]

    def judge(self) -> None:
        """Add what is not flat, and shares and priorities that were not kept."""
        self.wrong += self.leads()[:1]
        for name, most in (("megabytes", 0.2), ("descriptors", 0.2), ("threads", 0.1)):
            if self.growth(name) > most:
                self.wrong.append(f"soak: {name} grow by {self.growth(name):.3f} per minute")
        for name, offset in self.offsets().items():
            if abs(offset) > WITHIN:
                self.wrong.append(f"soak: '{name}' is off its share by {100 * offset:.1f} %")
        if self.urgent_late > WITHIN * self.urgent:
            self.wrong.append(
                f"soak: {self.urgent_late} of {self.urgent} urgent submissions were not first"
            )

    def __str__(self) -> str:
        growth = ", ".join(
            f"{name} {self.growth(name):+.3f}" for name in ("megabytes", "descriptors", "threads")
        )
        offsets = ", ".join(f"{name} {100 * off:+.2f} %" for name, off in self.offsets().items())
        return (
            f"soak: {self.submissions} submissions; per minute of the second half: {growth}; "
            f"shares off by: {offsets}; urgent ones late: {self.urgent_late} of {self.urgent}"
        )


def soak_service(
    seconds: float, progress: Progress, *, every: float = 60.0, least: int = 1
) -> Soak:
    """Saturate a service on local processes; sample it, and count device time by application.

    It ends after some seconds, but not before `least` submissions did, nor before applications used
    so much that equal shares would be seen, or ten times as many submissions ended. Seconds in
    which this process was stopped (SIGSTOP, a machine asleep) do not count.
    """
    with tempfile.TemporaryDirectory() as folder, LocalBackend(DEVICES) as backend:
        history = History(Path(folder) / "history.sqlite")
        with weft.Service(backend, history=history) as service:
            _measure_tasks(service)
        load = _Load(
            weft.Service(
                backend,
                shares=SHARES,
                max_concurrent=CONCURRENT,
                history=history,
                options=RunOptions(on_error="continue"),
            )
        )
        with load.clients():
            soaked, tells = 0.0, False
            while not load.soak.wrong and (
                soaked < seconds
                or load.soak.submissions < least
                or not (tells or load.soak.submissions > 10 * least)
            ):
                soaked += _awake(every)
                load.soak.samples.append(load.sample(soaked / 60.0))
                progress(str(load.soak.samples[-1]))
                tells = load.soak.samples[-1].tells()
    load.soak.judge()
    progress(str(load.soak))
    return load.soak


def _measure_tasks(service: weft.Service) -> None:
    """Run every kind of task, so that the service has estimates of all."""
    workflow, functions = _chain(CHAINS)
    for _ in range(HELD):
        service.submit("first", workflow, functions=functions)
        service.submit("first", sums(0.002, sums(0.001, 1), 1))


def _awake(seconds: float, tick: float = 0.5) -> float:
    """Sleep in short ticks; return their sum, so that a stop counts as one tick at most."""
    ticks = max(1, round(seconds / tick))
    for _ in range(ticks):
        time.sleep(seconds / ticks)
    return seconds


class _Load:
    """Clients of a service; one thread each."""

    def __init__(self, service: weft.Service) -> None:
        self.service = service
        self.soak = Soak()
        self.over = threading.Event()
        self.used = Counter(dict.fromkeys(SHARES, 0.0))
        """Application -> seconds on devices; written by the thread of the service."""
        self.ordinary: Counter[str] = Counter()
        """Device -> tasks that finished, without urgent ones; written by the same thread."""
        self._chains = [_chain(k) for k in range(1, CHAINS + 1)]
        self._held = 1
        """Tasks that devices held at once, at the most."""
        self._longest: dict[str, list[float]] = {name: [] for name in SHARES}
        """Application -> seconds of its longest tasks: a heap of more than devices hold."""

    @contextlib.contextmanager
    def clients(self) -> Iterator[None]:
        """Start a client per application, the service, and a client that hurries; end them.

        All applications have submissions when the service starts: one that came later would get
        nothing for the time before.
        """
        clients = [threading.Thread(target=self.keep_busy, args=(name,)) for name in SHARES]
        for client in clients:
            client.start()
        while len(self.service.queue) < OUTSTANDING * len(SHARES):
            time.sleep(0.01)
        clients.append(threading.Thread(target=self.hurry))
        with self.service:
            clients[-1].start()
            try:
                yield
            finally:
                self.over.set()
                for client in clients:
                    client.join()

    def sample(self, minute: float) -> Sample:
        """Measure this process with its children, and what applications used so far."""
        used = dict(self.used)
        longest = {name: nlargest(self._held + 1, self._longest[name]) for name in SHARES}
        return _sample(minute, used, longest if all(longest.values()) else {})

    def keep_busy(self, name: str) -> None:
        """Keep more submissions waiting than may run: each that ends makes room for another.

        Results are collected as they come: in the order of submissions, hundreds that ended would
        wait for one that did not, and count as memory of the service.
        """
        rng = random.Random(name)
        ended: SimpleQueue[tuple[Future[dict[str, Any]], int]] = SimpleQueue()

        def begin() -> None:
            future, value = self._submit(name, rng)
            future.add_done_callback(lambda future: ended.put((future, value)))

        for _ in range(OUTSTANDING):
            begin()
        outstanding = OUTSTANDING
        while outstanding:
            try:
                self._collect(*ended.get(timeout=LIMIT))
            except Empty:
                self.soak.wrong.append(f"soak: no submission of '{name}' ended within {LIMIT} s")
                return
            if self.over.is_set():
                outstanding -= 1
            else:
                begin()

    def hurry(self) -> None:
        """Submit something urgent now and then, and count what it had to wait for."""
        begun = 0
        while not self.over.wait(0.01):
            if self.soak.submissions < begun + URGENT_EVERY:
                continue
            begun = self.soak.submissions
            watch = _Urgent(self)
            what, functions = self._chains[0]
            future = self.service.submit(
                "small", what, functions=functions, priority=1.0, watch=watch
            )
            self._collect(future, 1)
            self.soak.urgent += 1
            self.soak.urgent_late += watch.overtaken

    def count(self, name: str, event: TaskEvent) -> None:
        """Count the device time of a task that finished."""
        seconds = event.finish - event.start
        keep = heappush if len(self._longest[name]) <= HELD else heappushpop
        keep(self._longest[name], seconds)
        self._held = max(self._held, self.held().total() + 1)
        self.used[name] += seconds

    def held(self) -> Counter[str]:
        """Return device -> tasks that were sent to it and have not ended."""
        session = self.service.session
        driver = session.driver if session else None
        if driver is None:
            return Counter()
        names = driver.workload.cluster.names
        return Counter({names[d]: len(sent) for d, sent in enumerate(driver.dispatch.sent)})

    def _submit(self, name: str, rng: random.Random) -> tuple[Future[dict[str, Any]], int]:
        def watch(event: TaskEvent) -> None:
            if event.kind == "finished":
                self.count(name, event)
                self.ordinary[event.device] += 1

        if rng.random() < 0.1:  # a graph that the service never saw
            a, b = rng.randrange(100), rng.randrange(100)
            return self.service.submit(name, sums(0.002, sums(0.001, a), b), watch=watch), a + b
        what, functions = rng.choice(self._chains)
        return self.service.submit(name, what, functions=functions, watch=watch), what.n

    def _collect(self, future: Future[dict[str, Any]], value: int) -> None:
        try:
            found = future.result(LIMIT)
        except Exception as error:  # noqa: BLE001  # it counts as a violation
            self.soak.wrong.append(f"soak: {type(error).__name__}: {error}")
            return
        self.soak.submissions += 1
        if list(found.values()) != [value]:
            self.soak.wrong.append(f"soak: {found} instead of {value}")


class _Urgent:
    """Watches whether an urgent submission is overtaken.

    Its task is the next that its device gets, so the device ends no more ordinary tasks before it
    than it held when the submission began.
    """

    def __init__(self, load: _Load) -> None:
        self.load = load
        self.ahead: Counter[str] = Counter()
        """Device -> ordinary tasks it will have ended when it ends what it holds."""
        self.overtaken = False

    def __call__(self, event: TaskEvent) -> None:
        if event.kind == "begun":
            self.ahead = self.load.ordinary + self.load.held()
        elif event.kind == "finished":
            self.overtaken = self.load.ordinary[event.device] > self.ahead[event.device]
            self.load.count("small", event)


def _chain(n: int) -> tuple[weft.Workflow, Mapping[str, Callable[..., Any]]]:
    """Return tasks in a row that count themselves."""
    names = tuple(f"t{t}" for t in range(n))
    workflow = weft.Workflow(
        work=[1.0] * n, src=range(n - 1), dst=range(1, n), data=0.0, names=names
    )
    return workflow, {"task": pause}


def _sample(minute: float, used: dict[str, float], longest: dict[str, list[float]]) -> Sample:
    """Measure this process with its children."""
    own = os.getpid()
    pids = [own, *_children(own)]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return Sample(
        minute,
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len(list(Path("/proc/self/fd").iterdir())),
        len(list(Path("/proc/self/task").iterdir())),
        len(list(Path("/dev/shm").glob(f"*{own}-*"))),
        used,
        longest,
    )


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in threads for child in path.read_text().split()]
