"""The Dask backend: every thread of every worker of a Dask cluster is a device. Results stay on the workers, and move between them.

A task is one Dask task, its inputs are Dask's own dependencies: what a dead worker held, Dask computes again, anywhere. A strict pin waits
for ever for an address that is gone: so a task is pinned strictly until it is done, and taken back when its worker is lost; then its pin is
removed. The order of the tasks of a device is kept by `weft.runtime.backends.dask.plugin.Turns`. Who the workers are is the business of
`weft.runtime.backends.dask.workers`, a plan as one graph that of `weft.runtime.backends.dask.plan`.
"""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Self

from weft.errors import MissingExtra
from weft.model import Cluster, Workload
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.payload import pack, save
from weft.runtime.backends.protocol import (
    Call,
    DeviceAdded,
    DeviceLost,
    Event,
    Failed,
    Finished,
    Order,
    Started,
    Transfer,
)
from weft.runtime.deciders.whole_plan import PlanRow, Tell

try:
    from distributed import Client

    from weft.runtime.backends.dask import plugin as remote
    from weft.runtime.backends.dask.cluster import DeviceThread, WorkerSite
    from weft.runtime.backends.dask.messages import TaskMessages, quietly
    from weft.runtime.backends.dask.plan import WholeGraph
    from weft.runtime.backends.dask.results import Results
    from weft.runtime.backends.dask.workers import TICK, Inbox, WorkerRegistry
except ImportError as error:
    raise MissingExtra("distributed", "dask") from error


class DaskBackend:
    """Devices that are the threads of Dask workers. Use it in a ``with`` block to keep the workers for several runs.

    Parameters
    ----------
    where : a `distributed.Client`, the address of a scheduler, or, for workers on this machine that end with the backend, how many
        (or one `LocalDevice` each)
    kinds : name of a worker -> kind; workers of one kind share what was learned about them. By default all on one host are of one kind
    whole : give Dask a plan at once, as one annotated graph, where that is possible (see docs/running.md); False: task by task
    patience : seconds to wait for a worker that is gone, when nothing else is left to do

    A worker that joins the cluster during a run is a new device. Tasks run at least once. A cluster that was there before is left as it was
    found; a task that runs too long costs its worker, though.
    """

    name = "dask"
    modelled = False
    _news: list[Event]
    _doomed: list[WorkerSite]

    def __init__(
        self,
        where: Client | str | int | Sequence[LocalDevice] | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        whole: bool | None = None,
        patience: float = 60.0,
    ) -> None:
        self.whole = whole
        self.recomputed = 0
        """Results that Dask computed again, or elsewhere than it was told, since a worker died."""
        self.roster = WorkerRegistry(where, kinds=kinds, patience=patience)
        self.client = self.roster.client
        self._run = ""
        self._pace: float | None = None
        self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> Cluster:
        """The threads of the workers as a cluster; moving data between them is taken to cost nothing until it was measured."""
        return self.roster.cluster

    def pids(self) -> list[int]:
        """The processes of the workers that are up and were greeted."""
        return [site.pid for site in self.roster.sites if site.up and site.pid]

    # -- a run --------------------------------------------------------------

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Wait for the workers, and listen to the scheduler; then the clock starts."""
        self._reset()
        run = f"weft{uuid.uuid4().hex[:12]}"
        self._errands = TaskMessages(run, workload, calls)
        self._known = workload.cluster.p
        inbox = self._inbox
        self.roster.attend(inbox, self._errands.lessons)
        self._run = run
        self.client.subscribe_topic(run, lambda event: inbox.put(event[1]))
        self.client.register_plugin(remote.Reporter(run))
        self._hurry()
        new = self.roster.muster()
        self._listen()
        self._news = [
            event for event in self._news if not isinstance(event, DeviceAdded)
        ]  # they are there when the clock starts
        self._origin = time.perf_counter() - since
        for site in self.roster.sites:
            if site in new:
                self.roster.greet(site)
            elif not site.up:
                self._news.extend(
                    DeviceLost(device, since, "its worker is not there") for device in site.devices
                )

    def extend(self, workload: Workload, calls: Sequence[Call] | None) -> None:
        """Know the functions of more instances; they travel with their tasks."""
        self._errands.extend(workload, calls)

    def clock(self) -> float:
        """Seconds since `begin`, on this machine; the times of workers are brought to it."""
        return time.perf_counter() - self._origin

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Make it a Dask task."""
        line = self.roster.lines[device]
        if not line.site.up:
            return  # that it is lost is among the next events
        instance = order.members[0]
        parents = [i for i in order.inputs[0] if i is not None]
        key = self._errands.key(instance, str(order.number))
        keys = tuple(None if i is None else self._results[i].key for i in order.inputs[0])
        self._before[order.number] = line.last
        errand = self._errands.errand(
            instance, order.number, line, keys, before=line.last, chooses=order.chooses[0]
        )
        self._numbers[key] = order.number
        with quietly(len(errand.arguments)):
            self._pending[order.number] = self.client.submit(
                remote.perform,
                errand,
                *(self._results[i] for i in parents),
                key=key,
                workers=[line.site.address],
                allow_other_workers=False,  # a task that ends its worker must not go on to the next one
                priority=-priority,
                pure=False,
            )
        line.last = order.number
        line.orders.append(order)
        self._where[order.number] = device
        if len(line.orders) == 1:
            self._news.append(Started(order.number, device, self.clock()))

    def cancel(self, number: int) -> None:
        """Take an order back that waits. If it runs and the run goes on, its worker must end, and comes back."""
        if number not in self._where:
            return
        line = self.roster.lines[self._where[number]]
        if line.orders[0].number == number:
            self._doomed.append(line.site)
            return
        order = next(order for order in line.orders if order.number == number)
        line.orders.remove(order)
        del self._where[number]
        self._pending.pop(number).release()
        self._skip(line, number)

    def wait(self, until: float) -> list[Event]:
        """Listen to the scheduler."""
        for site in self._doomed:
            self.roster.kill(site)
        self._doomed = []
        while not self._news:
            left = until - self.clock()
            if left <= 0 or (until == inf and not self._where and not self.roster.hope()):
                break
            try:
                self._hear(self._inbox.get(timeout=min(left, TICK)))
            except queue.Empty:
                self.roster.check()
        self._listen()
        news, self._news = self._news, []
        return news

    def fetch(self, instance: int) -> Any:
        """Bring a result here; if it was lost, Dask computes it again. When nothing is under way, all that is left comes along."""
        return self._results.fetch(instance, alone=bool(self._where))

    def forget(self, instance: int) -> None:
        """Release it; Dask keeps how to compute it as long as something it made is needed."""
        self._results.forget(instance)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to disk, here."""
        save(pack(self.fetch(instance), "never-written", shared_from=1 << 62), path)

    def restore(self, instance: int, path: Path) -> None:
        """Read a result from disk, here; one that is on a worker stays there."""
        self._results.restore(instance, path, self._errands.key(instance, f"given{instance}"))

    def finish(self) -> None:
        """Release all; what still runs on workers of our own ends with their processes."""
        for line in self.roster.lines:
            if line.orders and self.roster.crew is not None and line.site.up:
                self.roster.kill(line.site)
                line.site.up, line.site.dead = False, line.site.id
        for future in self._pending.values():
            future.release()
        self._results.clear()
        if self._run and self.client.status == "running":
            self.roster.ask(remote.close, self._run)
            with contextlib.suppress(OSError, ValueError):
                self.client.unsubscribe_topic(self._run)
                self.client.run_on_scheduler(remote.leave, run=self._run)
        self._calm_down()
        self._reset()

    def close(self) -> None:
        """End the workers if they are ours."""
        self.roster.close()

    def run_plan(self, rows: Sequence[PlanRow], tell: Tell, *, fixed: bool) -> None:
        """Run a whole plan as one graph.

        When something is not as planned (a task fails, a worker is lost or, unless it is `fixed`, joins), the rest is for the driver, and
        what happened to workers is among the next events.
        """
        if any(isinstance(event, DeviceLost) for event in self._news):
            return
        self._plans += 1
        graph = WholeGraph(
            self.client,
            self._errands,
            self.roster.lines[: self._known],
            rows,
            self._results,
            number=self._plans,
        )
        while not graph.done and not any(isinstance(event, DeviceLost) for event in self._news):
            try:
                message = self._inbox.get(timeout=TICK)
            except queue.Empty:
                self.roster.check()
                continue
            row = graph.row(message)
            if row is None:
                self._hear(message)
                if not fixed and any(isinstance(event, DeviceAdded) for event in self._news):
                    graph.wind_up()
                continue
            report = message.get("report")
            if report is None or "fault" in report:
                break
            site = next(
                (site for site in self.roster.sites if site.address == message["worker"]), None
            )
            event = self._end(0, site.devices[0] if site is not None else row.device, report)
            assert isinstance(event, Finished)
            if not tell(row.instance, graph.took(row, message["key"], site, event)):
                graph.wind_up()
        graph.leave()

    # -- messages -----------------------------------------------------------

    def _listen(self) -> None:
        while not self._inbox.empty():
            self._hear(self._inbox.get())

    def _hear(self, message: dict[str, Any]) -> None:
        word = message["word"]
        if word in ("done", "erred"):
            self._ended(message)
        elif word == "lost":
            for site in self.roster.sites:
                if site.address == message["worker"] and site.up:
                    self._lose(site)
        elif word == "ready":
            self._ready(message)
        elif not self.roster.known(message):
            self.roster.greet(self.roster.settle(message) or self.roster.join(message))

    def _ready(self, message: dict[str, Any]) -> None:
        site = message["site"]
        if site.id != message["id"]:
            return
        site.pid, site.offset, site.up = message["pid"], message["offset"], True
        if self.roster.crew is not None:
            self.roster.crew.works(site.name)
        for device in site.devices:
            self.roster.lines[device].last = -1
            self._news.append(DeviceAdded(device, self.clock()))

    def _lose(self, site: WorkerSite) -> None:
        text, fault = self.roster.lose(site)
        for device in site.devices:
            line = self.roster.lines[device]
            for order in line.orders:
                del self._where[order.number]
                self._pending.pop(order.number).release()
            line.orders.clear()
            line.early.clear()
            self._news.append(DeviceLost(device, self.clock(), text, fault))  # type: ignore[arg-type]

    def _ended(self, message: dict[str, Any]) -> None:
        number, report = self._numbers.get(message["key"], -1), message.get("report")
        if number not in self._where:
            self.recomputed += report is not None
            return
        device = self._where[number]
        line = self.roster.lines[device]
        if message["word"] == "erred":
            text = f"Dask gave it up: {message['text']}"
            line.early[number] = Failed(
                number, device, self.clock(), self.clock(), "killed", text, message["traceback"]
            )
            self._skip(line, number)
        else:
            line.early[number] = self._end(
                number,
                device,
                report or {"start": 0.0, "finish": 0.0, "fault": "killed", "text": "called off"},
            )
        self._tell(line, device)

    def _end(self, number: int, device: int, report: remote.Report) -> Finished | Failed:
        start, finish = (
            report[k] - self.roster.lines[device].site.offset - self._origin
            for k in ("start", "finish")
        )
        if "fault" in report:
            return Failed(
                number,
                device,
                start,
                finish,
                report["fault"],
                report["text"],
                report.get("traceback", ""),
            )
        near = {site.address: site.devices[0] for site in self.roster.sites}
        moved = tuple(
            Transfer(near.get(source, device), size, seconds)
            for source, size, seconds in report["transfers"]
        )
        return Finished(
            number,
            device,
            start,
            finish,
            (float(report["size"]),),
            (tuple(report["branches"]),),
            moved,
        )

    def _tell(self, line: DeviceThread, device: int) -> None:
        """Report the ends of a device in the order of its orders."""
        while line.orders and line.orders[0].number in line.early:
            order = line.orders.popleft()
            event = line.early.pop(order.number)
            del self._where[order.number]
            future = self._pending.pop(order.number)
            if isinstance(event, Finished):
                self._results[order.members[0]] = future
            else:
                future.release()
            self._news.append(event)
            if line.orders:
                self._news.append(Started(line.orders[0].number, device, max(event.finish, 0.0)))

    # -- small things -------------------------------------------------------

    def _hurry(self) -> None:
        """Messages to the scheduler are gathered for 10 ms; a driver that waits for each answer is quicker with 1 ms."""
        comm: Any = getattr(self.client, "scheduler_comm", None)
        if hasattr(comm, "interval") and self._pace is None:
            self._pace, comm.interval = comm.interval, min(comm.interval, remote.QUICK)

    def _calm_down(self) -> None:
        comm: Any = getattr(self.client, "scheduler_comm", None)
        if hasattr(comm, "interval") and self._pace is not None:
            comm.interval = self._pace
        self._pace = None

    def _skip(self, line: DeviceThread, number: int) -> None:
        """What waits for an order waits no longer."""
        self.roster.ask(remote.drop, self._run, number, self._before[number], site=line.site)

    def _reset(self) -> None:
        self._run = ""
        self._inbox: Inbox = queue.SimpleQueue()
        self._news = []
        self._results = Results(self.roster)
        self._pending: dict[int, Any] = {}
        self._where: dict[int, int] = {}
        """Order -> device, of the orders that are under way."""
        self._before: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        """Key of a Dask task -> order."""
        self._plans = 0
        self._doomed = []
        self._origin = time.perf_counter()
        self.roster.attend(self._inbox, list)
