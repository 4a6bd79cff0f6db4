"""The plugin of a run in the Dask scheduler: takes orders, reports ends of tasks.

Dask imports this module on its scheduler; here only the Dask backend does.
"""

# ruff: noqa: S301  # pickles of this run's own processes
from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from dask._task_spec import Task, TaskRef
from distributed.diagnostics.plugin import SchedulerPlugin

from weft.runtime.backends.dask.tasks import perform_packed

PREFETCHED_FROM = 65536
"""Least bytes of a result that moves before all inputs of its reader exist."""

PLACED_BY_DASK = "own"
"""First part of the names of tasks that Dask places, and whose results the run holds."""

QUICK = 0.001
"""Seconds for which messages are batched during a run."""

WorkerFacts = dict[str, Any]


class PackedOrder(NamedTuple):
    """An order as it travels to the scheduler: plain values, and the task as bytes."""

    key: str
    worker: str
    priority: float
    inputs: Sequence[str]
    resources: dict[str, float]
    message_of: bytes


class Reporter(SchedulerPlugin):  # type: ignore[misc]  # Dask is not typed everywhere
    """Takes orders; reports ends of tasks and changes of workers to the client.

    Results of orders are held in the name of the run, as if the run were a client. During a run
    stealing is off, and messages to workers are batched for 1 ms instead of 5 ms.
    """

    def __init__(self, run: str, client: str) -> None:
        self.run = run
        self.name = run
        self.client = client
        self.stole = False
        self.intervals: dict[str, float] = {}
        """Worker -> original batching interval."""

    async def start(self, scheduler: Any) -> None:
        """Stop stealing, which would undo decisions."""
        self.scheduler = scheduler
        self.stole = "stealing" in scheduler.periodic_callbacks
        if self.stole:
            await scheduler.extensions["stealing"].stop()
        for worker in scheduler.workers:
            self._shorten_interval(worker)
        scheduler.client_desires_keys(keys=[], client=self.run)
        scheduler.stream_handlers[self.run] = self.take_message

    def take_message(self, client: str, data: bytes) -> None:
        """Take orders, and release results that are not needed any more."""
        orders, released = pickle.loads(data)
        if orders:
            self.take_orders(orders)
        if released:
            self.scheduler.client_releases_keys(keys=released, client=self.run)

    def take_orders(self, orders: Sequence[PackedOrder]) -> None:
        """Create the tasks of orders.

        A graph of one task would cost several times as much as the task: it is unpickled, converted
        and ordered in threads of the scheduler.
        """
        tasks, recommended, new = self.scheduler.tasks, {}, []
        for order in orders:
            if not all(key in tasks for key in order.inputs):
                self._report_error(order.key, "Dask has dropped one of its inputs")
                continue
            refs = [TaskRef(key) for key in order.inputs]
            spec = Task(order.key, perform_packed, order.message_of, *refs)
            task = self.scheduler.new_task(order.key, spec, "released")
            task.priority = (order.priority, self.scheduler.generation, 0)
            task.worker_restrictions = {order.worker}
            task.resource_restrictions = order.resources
            for key in order.inputs:
                task.add_dependency(tasks[key])
            recommended[order.key] = "waiting"
            if not task.group.span_id:
                new.append(task)
        spans = self.scheduler.extensions.get("spans")
        if new and spans is not None:  # workers measure by span: one span for all tasks of a kind
            spans.observe_tasks(new, code=(), span_metadata={"collections": []})
        self.scheduler.client_desires_keys(keys=list(recommended), client=self.run)
        self.scheduler.transitions(recommended, f"weft-orders-{time.time()}")

    def update_graph(
        self, scheduler: Any, *, keys: Collection[Any], tasks: Sequence[Any], **_: Any
    ) -> None:
        """Hold the results of a graph that Dask places.

        Its client asks for the last results only.
        """
        name = f"-{self.run}-{PLACED_BY_DASK}"
        held = [k for k in tasks if isinstance(k, str) and name in k and k not in keys]
        scheduler.client_desires_keys(keys=held, client=self.run)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **facts: Any) -> None:
        """Report a task that is done or failed."""
        if finish not in ("memory", "erred") or not isinstance(key, str) or self.run not in key:
            return
        if finish == "memory":
            # A lost result may be computed anywhere. A loose pin is not enough: if all workers were
            # lost at once, Dask does not try pinned tasks on new workers.
            self.scheduler.set_restrictions({key: None})
            message = {"word": "done", "key": key, "worker": facts.get("worker", "")}
            message["report"] = (facts.get("metadata") or {}).get("weft")
            self.scheduler.log_event(self.run, message)
            self._prefetch(key)
        else:
            text = str(facts.get("exception_text") or "its workers died repeatedly")
            self._report_error(key, text, str(facts.get("traceback_text") or ""))

    def _report_error(self, key: str, text: str, traceback: str = "") -> None:
        message = {"word": "erred", "key": key, "worker": "", "text": text}
        self.scheduler.log_event(self.run, {**message, "traceback": traceback})

    def _prefetch(self, key: str) -> None:
        """Let workers fetch a result that a task planned for them will read.

        Dask moves the inputs of a task once all of them exist; so a transfer would wait for the
        slowest of the others, and the worker for the transfer. Such a fetch has a low priority.
        """
        done = self.scheduler.tasks.get(key)
        if done is None or not done.who_has or done.nbytes < PREFETCHED_FROM:
            return
        here = {worker.address for worker in done.who_has}
        readers = {
            address: None
            for reader in done.dependents
            if reader.state == "waiting" and len(reader.worker_restrictions or ()) == 1
            for address in reader.worker_restrictions
            if address not in here and address in self.scheduler.stream_comms
        }
        for address in readers:
            self.scheduler.request_acquire_replicas(
                address, [key], stimulus_id=f"weft-prefetch-{time.time()}"
            )

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Report a new worker."""
        self._shorten_interval(worker)
        self.scheduler.log_event(self.run, {"word": "added", **_facts(scheduler.workers[worker])})

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Release all results of a run whose client is gone."""
        if client == self.client:
            release_all(scheduler, self.run)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Report a lost worker."""
        self.intervals.pop(worker, None)
        scheduler.log_event(self.run, {"word": "lost", "worker": worker})

    def _shorten_interval(self, worker: str) -> None:
        comm = self.scheduler.stream_comms.get(worker)
        if comm is not None:
            self.intervals.setdefault(worker, comm.interval)
            comm.interval = min(comm.interval, QUICK)


def list_workers(dask_scheduler: Any) -> list[WorkerFacts]:
    """Return the workers by name; the scheduler has newer information than a client."""
    return sorted(
        (_facts(worker) for worker in dask_scheduler.workers.values()),
        key=lambda facts: (len(facts["name"]), facts["name"]),
    )


def _facts(worker: Any) -> WorkerFacts:
    return {
        "name": str(worker.name),
        "worker": worker.address,
        "id": worker.server_id,
        "host": worker.host,
        "threads": worker.nthreads,
        "memory": worker.memory_limit,
        "resources": dict(worker.resources),
    }


async def leave(dask_scheduler: Any, run: str) -> None:
    """Remove the reporter of a run; the last one restores stealing and batching."""
    reporter = dask_scheduler.plugins.get(run)
    if reporter is None:
        return
    dask_scheduler.remove_plugin(run)
    dask_scheduler.stream_handlers.pop(run, None)
    release_all(dask_scheduler, run)
    dask_scheduler.clients.pop(run, None)
    others = [plugin for plugin in dask_scheduler.plugins.values() if isinstance(plugin, Reporter)]
    for other in others:
        other.stole |= reporter.stole
        other.intervals = {
            **other.intervals,
            **reporter.intervals,
        }  # the first reporter has the original intervals
    if reporter.stole and not others:
        await dask_scheduler.extensions["stealing"].start()
    for worker, interval in reporter.intervals.items() if not others else ():
        if worker in dask_scheduler.stream_comms:
            dask_scheduler.stream_comms[worker].interval = interval
    broker = getattr(dask_scheduler, "_broker", None)
    if broker is not None:
        broker.truncate(run)


def release_all(scheduler: Any, run: str) -> None:
    """Release all results that are held in the name of a run."""
    if run in scheduler.clients:
        keys = [task.key for task in scheduler.clients[run].wants_what]
        scheduler.client_releases_keys(keys=keys, client=run)


async def let_steal(dask_scheduler: Any, run: str, allowed: bool) -> None:
    """Allow or forbid stealing during a run, if Dask was stealing before it."""
    reporter = dask_scheduler.plugins.get(run)
    if reporter is None or not reporter.stole:
        return
    stealing = dask_scheduler.extensions["stealing"]
    await (stealing.start() if allowed else stealing.stop())
