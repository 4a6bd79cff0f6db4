"""The Dask backend: every thread of every worker of a Dask cluster is a device.

Results stay on the workers and move between them. A task is one Dask task with its inputs as Dask
dependencies, so Dask recomputes results that a dead worker held. A task with a strict pin waits
forever for an address that no longer exists, so a pinned task is retracted when its worker is lost.
`weft.runtime.backends.dask.tasks.OrderSequencer` keeps the order per device, `worker_registry`
registers the workers, and `plan` submits a whole plan as one graph.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import time
import uuid
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from weft.errors import MissingExtra
from weft.model import Cluster, Workload
from weft.runtime.backends import protocol
from weft.runtime.backends.local.device import LocalDevices
from weft.runtime.backends.protocol import Call, Event, Order
from weft.runtime.backends.real import RealBackend
from weft.runtime.backends.result_file import save_value
from weft.runtime.deciders.whole_plan import OnFinish, PlanRow
from weft.typed import typed_class

try:
    from distributed import Client

    from weft.runtime.backends.dask import plugin, tasks
    from weft.runtime.backends.dask.messages import TaskMessages, event_of
    from weft.runtime.backends.dask.outbox import ClientPace, HeldResult, Outbox
    from weft.runtime.backends.dask.plan import WholeGraph
    from weft.runtime.backends.dask.results import Results
    from weft.runtime.backends.dask.sites import DeviceThread, WorkerSite, resources_of
    from weft.runtime.backends.dask.worker_registry import TICK, Inbox, WorkerRegistry
except ImportError as error:
    raise MissingExtra("distributed", "dask") from error


@typed_class
class DaskBackend(RealBackend):
    """Devices that are threads of Dask workers.

    A ``with`` block keeps them for several runs. A worker that joins during a run is a new device.
    Tasks run at least once. An existing cluster is left as it was found, except that a task that
    exceeds its timeout ends its worker.

    Parameters
    ----------
    where : a `distributed.Client`, the address of a scheduler or, for own workers on this machine,
        their number, one `LocalDevice` each, or a `Cluster` with a worker per device. In an
        existing cluster, the threads, memory and resources of a worker are capacities that its
        tasks share
    kinds : name of a worker -> kind; workers of one kind share their measurements. By default all
        workers of one host are of one kind
    whole : submit a plan as one annotated graph, if possible (see docs/running.md); False: by task
    grace_seconds : seconds to wait for a lost worker when nothing else is left to do
    """

    name = "dask"
    _to_kill: list[WorkerSite]
    _graph: WholeGraph | None
    """The replaced plan, with its tasks that still run."""

    def __init__(
        self,
        where: Client | str | LocalDevices = None,
        *,
        kinds: Mapping[str, str] | None = None,
        whole: bool | None = None,
        grace_seconds: float = 60.0,
    ) -> None:
        self.whole = whole
        self.recomputed = 0
        """Results that Dask computed again, or on another worker, because a worker died."""
        self.registry = WorkerRegistry(where, kinds=kinds, grace_seconds=grace_seconds)
        self.client = self.registry.client
        self._run = ""
        self._pace = ClientPace(self.client)
        self._reset()

    def devices(self) -> Cluster:
        """Return the cluster of threads."""
        return self.registry.cluster

    def pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [site.pid for site in self.registry.sites if site.up and site.pid]

    # -- a run --------------------------------------------------------------

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Wait for the workers and subscribe to the scheduler; then start the clock."""
        self._reset()
        run = f"weft{uuid.uuid4().hex[:12]}"
        self._messages = TaskMessages(run, workload, calls)
        self._known, self._workload = workload.cluster.p, workload
        inbox = self._inbox
        self.registry.begin_run(inbox, self._messages.functions)
        self._run = run
        self.client.subscribe_topic(run, lambda event: inbox.put(event[1]))
        self.client.register_plugin(plugin.Reporter(run, self.client.id))
        self._outbox = Outbox(self.client, run)
        self._pace.shorten_interval()
        new = self.registry.wait_for_workers()
        self._receive_all()
        self._events = [
            event for event in self._events if not isinstance(event, protocol.DeviceAdded)
        ]  # they are up before the clock starts
        self._origin = time.perf_counter() - since
        for site in self.registry.sites:
            if site in new:
                self.registry.handshake(site)
            elif not site.up:
                self._events.extend(
                    protocol.DeviceLost(device, since, "its worker is not there")
                    for device in site.devices
                )

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Add the calls of new instances; functions travel with their tasks."""
        self._workload = workload
        self._messages.extend(workload, calls, first)

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Make an order a Dask task; all orders of a moment are sent together."""
        thread = self.registry.threads[device]
        if not thread.site.up:
            return  # its loss is among the next events
        instance = order.members[0]
        key = self._messages.key(instance, str(order.number))
        keys = tuple(None if i is None else self._results[i].key for i in order.inputs[0])
        self._before[order.number] = thread.last
        message_of = self._messages.message_of(
            instance, order.number, thread, keys, before=thread.last, chooses=order.chooses[0]
        )
        self._numbers[key] = order.number
        self._pending[order.number] = self._outbox.submit(
            plugin.PackedOrder(
                key,
                thread.site.address,  # only there: it must not kill one worker after another
                priority,
                [key for key in keys if key is not None],
                resources_of(self._workload, instance, thread.site),
                pickle.dumps(message_of),
            )
        )
        thread.last = order.number
        thread.orders.append(order)
        self._where[order.number] = device
        if len(thread.orders) == 1:
            self._events.append(protocol.Started(order.number, device, self.clock()))

    def cancel(self, number: int) -> None:
        """Cancel an order that waits; if it runs, end its worker, which is replaced."""
        if number not in self._where:
            return
        thread = self.registry.threads[self._where[number]]
        if thread.orders[0].number == number:
            self._to_kill.append(thread.site)
            return
        order = next(order for order in thread.orders if order.number == number)
        thread.orders.remove(order)
        del self._where[number]
        self._pending.pop(number).release()
        self._outbox.send()
        self._skip(thread, number)

    def wait(self, until: float) -> list[Event]:
        """Send the orders of this moment; return the next events of the scheduler."""
        self._outbox.send()
        for site in self._to_kill:
            self.registry.kill(site)
        self._to_kill = []
        while not self._events:
            left = until - self.clock()
            if left <= 0 or (until == inf and not self._where and not self.registry.may_recover()):
                break
            try:
                self._receive(self._inbox.get(timeout=min(left, TICK)))
            except queue.Empty:
                self.registry.check()
        self._receive_all()
        news, self._events = self._events, []
        return news

    def fetch(self, instance: int) -> Any:
        """Return a result; Dask recomputes a lost one. If nothing runs, fetch all of them."""
        return self._results.fetch(instance, alone=bool(self._where))

    def release(self, instance: int) -> None:
        """Release a result; Dask keeps its recipe while another result needs it."""
        self._results.release(instance)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to a file."""
        save_value(self.fetch(instance), path)

    def restore(self, instance: int, path: Path) -> None:
        """Load a result from a file, unless a worker has it."""
        self._results.restore(instance, path, self._messages.key(instance, f"given{instance}"))

    def finish(self) -> None:
        """Release all results; end own workers that are busy."""
        for thread in self.registry.threads:
            if thread.orders and self.registry.local is not None and thread.site.up:
                self.registry.kill(thread.site)
                thread.site.up, thread.site.dead = False, thread.site.id
        if self._graph is not None:
            self._graph.leave()
        self._results.clear()
        if self._run and self.client.status == "running":
            self.registry.ask(tasks.close, self._run)
            with contextlib.suppress(OSError, ValueError):
                self.client.unsubscribe_topic(self._run)
                self.client.run_on_scheduler(plugin.leave, run=self._run)
        self._pace.restore()
        self._reset()

    def close(self) -> None:
        """End own workers."""
        self.registry.close()

    def run_plan(self, rows: Sequence[PlanRow], on_finish: OnFinish, *, fixed: bool) -> None:
        """Run a whole plan as one graph.

        The driver does the rest if a task fails, a worker is lost or, unless `fixed`, a worker
        joins; changes of workers are among the next events.
        """
        self._follow(rows, on_finish, fixed=fixed)

    def run_graph(self, rows: Sequence[PlanRow], on_finish: OnFinish) -> bool:
        """Run all tasks as one graph that Dask places, with stealing as in its own graphs."""
        self.client.run_on_scheduler(plugin.let_steal, run=self._run, allowed=True)
        try:
            self._follow(rows, on_finish, fixed=False, pinned=False)
        finally:
            if self.client.status == "running":
                self.client.run_on_scheduler(plugin.let_steal, run=self._run, allowed=False)
        return True

    def _follow(
        self, rows: Sequence[PlanRow], on_finish: OnFinish, *, fixed: bool, pinned: bool = True
    ) -> None:
        """Send a graph and forward its reports until it is done or something deviates."""
        if self._announces(protocol.DeviceLost):
            return
        threads = self.registry.threads[: self._known]
        graph = self._graph or WholeGraph(
            self.client, self._messages, threads, self._results, self._outbox, pinned=pinned
        )
        self._graph = None
        graph.submit(rows)
        while not graph.done and not self._announces(protocol.DeviceLost):
            self._outbox.send()
            try:
                message = self._inbox.get(timeout=TICK)
            except queue.Empty:
                self.registry.check()
                continue
            row = graph.row(message)
            if row is None:
                self._receive(message)
                if not fixed and self._announces(protocol.DeviceAdded):
                    graph.wind_up()
                continue
            report = tasks.unpacked_report(message)
            if report is None or "fault" in report:
                break
            site = next(
                (site for site in self.registry.sites if site.address == message["worker"]), None
            )
            event = self._event(0, site.devices[0] if site is not None else row.device, report)
            assert isinstance(event, protocol.Finished)
            if not on_finish(row.instance, graph.record_end(row, message["key"], site, event)):
                graph.wind_up()
                self._graph = graph  # no device waits for the tasks that still run
                return
        graph.leave()
        self._outbox.send()

    # -- messages -----------------------------------------------------------

    def _receive_all(self) -> None:
        while not self._inbox.empty():
            self._receive(self._inbox.get())

    def _receive(self, message: dict[str, Any]) -> None:
        word = message["word"]
        if word in ("done", "erred"):
            self._ended(message)
        elif word == "lost":
            for site in self.registry.sites:
                if site.address == message["worker"] and site.up:
                    self._lose(site)
        elif word == "ready":
            self._ready(message)
        elif not self.registry.known(message):
            self.registry.handshake(
                self.registry.match_worker(message) or self.registry.join(message)
            )

    def _ready(self, message: dict[str, Any]) -> None:
        for device in self.registry.ready(message):
            self.registry.threads[device].last = -1
            self._events.append(protocol.DeviceAdded(device, self.clock()))

    def _lose(self, site: WorkerSite) -> None:
        text, fault = self.registry.lose(site)
        for device in site.devices:
            thread = self.registry.threads[device]
            for order in thread.orders:
                del self._where[order.number]
                self._pending.pop(order.number).release()
            thread.orders.clear()
            thread.early.clear()
            lost = protocol.DeviceLost(device, self.clock(), text, fault)
            self._events.append(lost)

    def _ended(self, message: dict[str, Any]) -> None:
        number, report = self._numbers.get(message["key"], -1), tasks.unpacked_report(message)
        if number not in self._where:
            self.recomputed += report is not None
            return
        device = self._where[number]
        thread = self.registry.threads[device]
        if message["word"] == "erred":
            text = f"Dask gave it up: {message['text']}"
            thread.early[number] = protocol.Failed(
                number, device, self.clock(), self.clock(), "killed", text, message["traceback"]
            )
            self._skip(thread, number)
        else:
            thread.early[number] = self._event(
                number,
                device,
                report or {"start": 0.0, "finish": 0.0, "fault": "killed", "text": "cancelled"},
            )
        self._report_ends(thread, device)

    def _event(
        self, number: int, device: int, report: tasks.Report
    ) -> protocol.Finished | protocol.Failed:
        site = self.registry.threads[device].site
        return event_of(number, device, report, site, self.registry.sites, self._origin)

    def _report_ends(self, thread: DeviceThread, device: int) -> None:
        """Report the ends on a device in the order of its orders."""
        while thread.orders and thread.orders[0].number in thread.early:
            order = thread.orders.popleft()
            event = thread.early.pop(order.number)
            del self._where[order.number]
            result = self._pending.pop(order.number)
            if isinstance(event, protocol.Finished):
                result.size = event.data[0]
                self._results[order.members[0]] = result
            else:
                result.release()
            self._events.append(event)
            if thread.orders:
                self._events.append(
                    protocol.Started(thread.orders[0].number, device, max(event.finish, 0.0))
                )

    # -- small things -------------------------------------------------------

    def _skip(self, thread: DeviceThread, number: int) -> None:
        """Let the orders behind a removed one proceed."""
        self.registry.ask(tasks.drop, self._run, number, self._before[number], site=thread.site)

    def _reset(self) -> None:
        self._run = ""
        self._inbox: Inbox = queue.SimpleQueue()
        self._events = []
        self._results = Results(self.registry)
        self._pending: dict[int, HeldResult] = {}
        self._where: dict[int, int] = {}
        """Order -> device, for orders under way."""
        self._before: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        """Key of a Dask task -> order."""
        self._outbox = Outbox(self.client, "")
        self._graph = None
        self._to_kill = []
        self._origin = time.perf_counter()
        self.registry.begin_run(self._inbox, list)
