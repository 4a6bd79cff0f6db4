"""The Dask backend: every thread of every worker of a Dask cluster is a device. Results stay on the workers, and move between them.

A task is one Dask task, its inputs are Dask's own dependencies: what a dead worker held, Dask computes again, anywhere. A strict pin waits
for ever for an address that is gone: so a task is pinned strictly until it is done, and taken back when its worker is lost; then its pin is
removed. Devices go by the names of workers, since a worker that is started again has another address. The order of the tasks of a device is
kept by `weft.run.dask_plugin.Turns`.
"""

# pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Self

from weft.errors import InvalidInput, MissingExtra, WeftError
from weft.model import Cluster, Workload
from weft.run.backend import Call, DeviceAdded, DeviceLost, Event, Failed, Finished, Order, Started, Transfer
from weft.run.local_device import LocalDevice, local_devices
from weft.run.parcel import load, pack, save, unpack
from weft.run.whole_plan import Row
from weft.run.worker_process import START_LIMIT, TAUGHT, cause_of

try:
    import dask
    from distributed import Client
    from distributed.protocol.pickle import dumps

    from weft.run import dask_plugin as remote
    from weft.run.dask_cluster import (
        Line,
        Site,
        device_names,
        kinds_of,
        packed_arguments,
        pickled_function,
        quietly,
        site_of,
    )
    from weft.run.dask_crew import Crew
except ImportError as error:
    raise MissingExtra("distributed", "dask") from error

TICK = 1.0
"""Seconds after which a look is taken whether the scheduler is still there."""


class DaskBackend:
    """Devices that are the threads of Dask workers. Use it in a ``with`` block to keep the workers for several runs.

    Parameters
    ----------
    where : a `distributed.Client`, the address of a scheduler, or, for workers on this machine that end with the backend, how many
        (or one `LocalDevice` each)
    kinds : name of a worker -> kind; workers of one kind share what was learned about them. By default all on one host are of one kind
    whole : give Dask a plan at once, as one annotated graph, where that is possible (see docs/running.md); by default, where the plan is
        not to be changed while it runs (``adapt=False``)
    patience : seconds to wait for a worker that is gone, when nothing else is left to do

    Tasks run at least once. A cluster that was there before is left as it was found; a task that runs too long costs its worker, though.
    """

    name = "dask"
    modelled = False
    _news: list[Event]
    _doomed: list[Site]
    _here: dict[int, Any]

    def __init__(
        self,
        where: Client | str | int | Sequence[LocalDevice] | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        whole: bool | None = None,
        patience: float = 60.0,
    ) -> None:
        self.whole = whole
        self.patience = patience
        self.recomputed = 0
        """Results that Dask computed again, or elsewhere than it was told, since a worker died."""
        self._crew: Crew | None = None
        """Workers of our own."""
        self._own_client = not isinstance(where, Client)
        self._client = self._connect(where)
        if self._client.asynchronous:
            raise InvalidInput("the Dask client is asynchronous; weft.run needs one that is not: Client(...) outside of a coroutine")
        specs = {spec.name: spec for spec in self._specs}
        self._sites = [site_of(facts, specs.get(facts["name"])) for facts in self._roll_call()]
        if not self._sites:
            raise InvalidInput(f"the Dask cluster at {self._client.scheduler.address} has no workers; start some first")
        self._lines = [Line(name, site) for site in self._sites for name in device_names(site)]
        for device, line in enumerate(self._lines):
            line.site.devices.append(device)
        kind_of = kinds_of(self._sites, {**{s.name: s.kind for s in self._specs}, **(kinds or {})})
        self._devices = Cluster(
            name="dask",
            speed=[specs[line.site.name].speed if line.site.name in specs else 1.0 for line in self._lines],  # type: ignore[arg-type]
            names=tuple(line.name for line in self._lines),
            kinds=tuple(kind_of[line.site.name] for line in self._lines),
            memory=[line.site.memory for line in self._lines],  # type: ignore[arg-type]
        )
        self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> Cluster:
        """The threads of the workers as a cluster; moving data between them is taken to cost nothing until it was measured."""
        return self._devices

    def pids(self) -> list[int]:
        """The processes of the workers that are up and were greeted."""
        return [site.pid for site in self._sites if site.up and site.pid]

    # -- a run --------------------------------------------------------------

    def begin(self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0) -> None:
        """Wait for the workers, and listen to the scheduler; then the clock starts."""
        if calls is None or len(calls) != workload.instances:
            count = 0 if calls is None else len(calls)
            raise InvalidInput(f"'{workload.name}' has {workload.instances} tasks, but functions are given for {count}")
        self._reset()
        self._calls = list(calls)
        self._kinds = [p.workflow.kinds[p.workflow.kind[t]] for p in map(workload.problem_of, range(workload.jobs)) for t in range(p.n)]
        self._functions = {id(call.function): call.function for call in self._calls}
        self._pickles = {key: pickled_function(function) for key, function in self._functions.items()}
        self._run = f"weft{uuid.uuid4().hex[:12]}"
        inbox = self._inbox
        self._client.subscribe_topic(self._run, lambda event: inbox.put(event[1]))
        self._client.register_plugin(remote.Reporter(self._run))
        self._hurry()
        self._muster()
        self._origin = time.perf_counter() - since
        self._bereft = time.perf_counter()
        for site in self._sites:
            if not site.up:
                self._news.extend(DeviceLost(device, since, "its worker is not there") for device in site.devices)

    def clock(self) -> float:
        """Seconds since `begin`, on this machine; the times of workers are brought to it."""
        return time.perf_counter() - self._origin

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Make it a Dask task."""
        line = self._lines[device]
        if not line.site.up:
            return  # that it is lost is among the next events
        instance = order.members[0]
        parents = [i for i in order.inputs[0] if i is not None]
        key = self._key(instance, str(order.number))
        keys = tuple(None if i is None else self._results[i].key for i in order.inputs[0])
        self._before[order.number] = line.last
        errand = self._errand(instance, order.number, line, keys, before=line.last, chooses=order.chooses[0])
        self._numbers[key] = order.number
        with quietly(len(errand.arguments)):
            self._pending[order.number] = self._client.submit(
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
        line = self._lines[self._where[number]]
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
            self._kill(site)
        self._doomed = []
        while not self._news:
            left = until - self.clock()
            if left <= 0 or (until == inf and not self._where and not self._hope()):
                break
            try:
                self._hear(self._inbox.get(timeout=min(left, TICK)))
            except queue.Empty:
                self._check()
        while not self._inbox.empty():
            self._hear(self._inbox.get())
        news, self._news = self._news, []
        return news

    def fetch(self, instance: int) -> Any:
        """Bring a result here; if it was lost, Dask computes it again. When nothing is under way, all that is left comes along."""
        if instance not in self._here:
            asked = [instance] if self._where else list(self._results)
            self._here = dict(zip(asked, self._gathered([self._results[i] for i in asked]), strict=True))
        return self._here[instance]

    def forget(self, instance: int) -> None:
        """Release it; Dask keeps how to compute it as long as something it made is needed."""
        if instance in self._results:
            self._results.pop(instance).release()

    def store(self, instance: int, path: Path) -> None:
        """Write a result to disk, here."""
        save(pack(self.fetch(instance), "never-written", shared_from=1 << 62), path)

    def restore(self, instance: int, path: Path) -> None:
        """Read a result from disk, here; one that is on a worker stays there."""
        if instance in self._results:
            return
        with tempfile.TemporaryDirectory() as folder:
            data = dumps(unpack(load(path, Path(folder, "buffers"))))
        with quietly(len(data)):
            self._results[instance] = self._client.submit(remote.given, data, key=self._key(instance, f"given{instance}"), pure=False)

    def finish(self) -> None:
        """Release all; what still runs on workers of our own ends with their processes."""
        for line in self._lines:
            if line.orders and self._crew is not None and line.site.up:
                self._kill(line.site)
                line.site.up, line.site.dead = False, line.site.id
        for future in [*self._pending.values(), *self._results.values()]:
            future.release()
        if self._run and self._client.status == "running":
            self._ask(remote.close, self._run)
            with contextlib.suppress(OSError, ValueError):
                self._client.unsubscribe_topic(self._run)
                self._client.run_on_scheduler(remote.leave, run=self._run)
        self._reset()

    def close(self) -> None:
        """End the workers if they are ours."""
        if self._own_client:
            self._client.close()
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    # -- a plan at once -----------------------------------------------------

    def run_plan(self, rows: Sequence[Row], wanted: Container[int]) -> list[tuple[int, Finished]]:
        """Run a whole plan as one graph: pinned, by priority, without a word from the driver.

        Returns what was finished, in the order it was reported. When something is not as planned (a task fails, a worker is lost), that is
        not all: the rest is for the driver, and what happened to workers is among the next events.
        """
        graph: dict[str, Any] = {}
        keys = {row.instance: self._key(row.instance, f"plan{row.instance}") for row in rows}
        size = 0
        for k, row in enumerate(rows):
            errand = self._errand(row.instance, k, self._lines[row.device], tuple(keys[i] for i in row.parents))
            graph[keys[row.instance]] = (remote.perform, replace(errand, home=""), *errand.inputs)
            size += len(errand.arguments)
        pins = remote.Table({keys[row.instance]: [self._lines[row.device].site.address] for row in rows})
        ranks = remote.Table({keys[row.instance]: -k for k, row in enumerate(rows)})
        with dask.annotate(workers=pins, priority=ranks, allow_other_workers=True), quietly(size):
            futures = dict(zip(keys, self._client.get(graph, list(keys.values()), sync=False), strict=True))
        return self._follow({keys[row.instance]: row for row in rows}, futures, wanted)

    def _follow(self, rows: dict[str, Row], futures: dict[int, Any], wanted: Container[int]) -> list[tuple[int, Finished]]:
        readers = Counter(parent for row in rows.values() for parent in row.parents)
        free = [0.0] * len(self._lines)
        ended: dict[int, Finished] = {}
        while len(ended) < len(rows) and not self._news:
            try:
                message = self._inbox.get(timeout=TICK)
            except queue.Empty:
                self._check()
                continue
            row = rows.get(message.get("key", ""))
            if row is None:
                self._hear(message)
                continue
            report = message.get("report")
            if report is None or "fault" in report:
                break
            since = max((ended[parent].finish for parent in row.parents), default=0.0)
            ended[row.instance] = event = self._placed(row, message["worker"], report, since, free)
            free[event.device] = event.finish
            self._results[row.instance] = futures[row.instance]
            for parent in row.parents:
                readers[parent] -= 1
                if readers[parent] == 0 and parent not in wanted:
                    self.forget(parent)
        for instance, future in futures.items():
            if instance not in ended:
                future.release()
        return list(ended.items())

    def _placed(self, row: Row, address: str, report: remote.Report, since: float, free: list[float]) -> Finished:
        """The end of a task of a plan, on a thread of its worker that was free then, as far as clocks can be believed."""
        site = next((site for site in self._sites if site.address == address), self._lines[row.device].site)
        event = self._end(0, site.devices[0], report)
        assert isinstance(event, Finished)
        begin = max(event.start, since)
        threads = sorted(site.devices, key=lambda device: (free[device] > begin, device != row.device, free[device]))
        start = max(begin, free[threads[0]])
        return replace(event, device=threads[0], start=start, finish=max(event.finish, start))

    # -- workers ------------------------------------------------------------

    def _connect(self, where: Any) -> Client:
        self._specs: list[LocalDevice] = []
        if isinstance(where, Client):
            return where
        if isinstance(where, str):
            try:
                return Client(where, set_as_default=False)
            except (OSError, ValueError) as error:
                raise InvalidInput(f"no Dask scheduler answers at '{where}': {error}") from None
        self._specs = local_devices(where)
        self._crew = Crew(self._specs)
        return Client(self._crew.address, set_as_default=False)

    def _roll_call(self) -> list[remote.Facts]:
        """The workers there are; those of our own as soon as all are there, in the order they were named in."""
        deadline = time.perf_counter() + START_LIMIT
        while True:
            found: list[remote.Facts] = self._client.run_on_scheduler(remote.census)
            if self._crew is None or len(found) == len(self._specs):
                order = [spec.name for spec in self._specs]
                return found if self._crew is None else sorted(found, key=lambda facts: order.index(facts["name"]))
            if time.perf_counter() > deadline:
                self.close()
                raise WeftError(f"only {len(found)} of {len(self._specs)} Dask workers started within {START_LIMIT:g} s")
            self._crew.check()
            time.sleep(0.05)

    def _muster(self) -> None:
        """Learn which workers are there, and greet them; those of our own are waited for."""
        deadline = time.perf_counter() + START_LIMIT
        dead = [site.dead for site in self._sites]
        for site in self._sites:
            site.up = False
        while True:
            for facts in self._client.run_on_scheduler(remote.census):
                if facts["id"] not in dead:
                    self._settle(facts)
            missing = [site for site in self._sites if site.id in dead]
            if not missing or self._crew is None:
                break
            self._crew.check()
            if time.perf_counter() > deadline:
                raise WeftError(f"the Dask worker '{missing[0].name}' did not start within {START_LIMIT:g} s")
            time.sleep(0.05)
        there = [site for site in self._sites if site not in missing]
        threads = [threading.Thread(target=self._welcome, args=(site, site.id), daemon=True) for site in there]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_LIMIT)
        while not self._inbox.empty():
            self._hear(self._inbox.get())
        self._news = [event for event in self._news if not isinstance(event, DeviceAdded)]  # they are there when the clock starts

    def _settle(self, facts: remote.Facts) -> Site | None:
        """The site of a worker: its own by name; one with a new name takes the place of one that is gone."""
        own = [site for site in self._sites if site.name == facts["name"]]
        free = [site for site in self._sites if not site.up and site.id != facts["id"] and site.threads <= facts["threads"]]
        near = [site for site in free if site.host == facts["host"]]
        site = next(iter(own or (near or free if not self._known(facts) else [])), None)
        if site is not None and site.id != facts["id"]:
            site.address, site.id, site.host = facts["worker"], facts["id"], facts["host"]
        return site

    def _known(self, facts: remote.Facts) -> bool:
        return any(site.id == facts["id"] for site in self._sites)

    def _welcome(self, site: Site, name: str) -> None:
        """Greet a worker and compare clocks; runs beside the driver, since a worker that was just started is slow."""
        lessons = list(self._pickles.values())
        try:
            address = [site.address]
            run = self._client.run
            (pid,) = run(remote.greet, lessons if len(lessons) <= TAUGHT else [], site.cores, workers=address).values()
            rounds = []
            for _ in range(3):
                sent = time.perf_counter()
                (shown,) = run(time.perf_counter, workers=address).values()
                came = time.perf_counter()
                rounds.append((came - sent, shown - (sent + came) / 2))
        except (OSError, ValueError, KeyError, TimeoutError):
            return  # gone again; the scheduler says so
        spread, offset = min(rounds)
        # Processes of one machine share a clock; a difference within what the round trip explains is none.
        clock = 0.0 if abs(offset) <= spread else offset
        self._inbox.put({"word": "ready", "site": site, "id": name, "pid": pid, "offset": clock})

    def _kill(self, site: Site) -> None:
        if self._crew is None:
            self._ask(remote.die, site=site)
        else:
            self._crew.kill(site.name)

    def _ask(self, function: Any, *args: Any, site: Site | None = None) -> None:
        """Have something done on workers, without waiting for it."""
        addresses = [s.address for s in self._sites if s.up] if site is None else [site.address]
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            self._client.run(function, *args, workers=addresses, wait=False, on_error="ignore")

    def _hurry(self) -> None:
        """Messages to the scheduler are gathered for 10 ms; a driver that waits for each answer is quicker with 1 ms."""
        comm: Any = getattr(self._client, "scheduler_comm", None)
        if hasattr(comm, "interval"):
            comm.interval = min(comm.interval, 0.001)

    def _check(self) -> None:
        """A look around when nothing is heard."""
        if self._crew is not None:
            self._crew.check()
        if self._client.status not in ("running", "connecting"):
            raise WeftError("the Dask scheduler is gone, and with it the results of this run")

    def _hope(self) -> bool:
        """Whether a worker that is gone may come back."""
        patience = self.patience if self._crew is None else START_LIMIT
        return not all(site.up for site in self._sites) and time.perf_counter() - self._bereft < patience

    # -- messages -----------------------------------------------------------

    def _hear(self, message: dict[str, Any]) -> None:
        word = message["word"]
        if word in ("done", "erred"):
            self._ended(message)
        elif word == "lost":
            for site in self._sites:
                if site.address == message["worker"] and site.up:
                    self._lose(site)
        elif word == "ready":
            self._ready(message)
        elif not self._known(message):
            new = self._settle(message)
            if new is not None:
                threading.Thread(target=self._welcome, args=(new, new.id), daemon=True).start()

    def _ready(self, message: dict[str, Any]) -> None:
        site = message["site"]
        if site.id != message["id"]:
            return
        site.pid, site.offset, site.up = message["pid"], message["offset"], True
        if self._crew is not None:
            self._crew.works(site.name)
        for device in site.devices:
            self._lines[device].last = -1
            self._news.append(DeviceAdded(device, self.clock()))

    def _lose(self, site: Site) -> None:
        site.up, site.dead = False, site.id
        self._bereft = time.perf_counter()
        text, fault = self._why(site)
        for device in site.devices:
            line = self._lines[device]
            for order in line.orders:
                del self._where[order.number]
                self._pending.pop(order.number).release()
            line.orders.clear()
            line.early.clear()
            self._news.append(DeviceLost(device, self.clock(), text, fault))  # type: ignore[arg-type]

    def _why(self, site: Site) -> tuple[str, str]:
        if self._crew is not None:
            return cause_of(self._crew.exit_code(site.name, site.pid))
        return f"Dask lost its worker '{site.name}'", "killed"

    def _ended(self, message: dict[str, Any]) -> None:
        number, report = self._numbers.get(message["key"], -1), message.get("report")
        if number not in self._where:
            self.recomputed += report is not None
            return
        device = self._where[number]
        line = self._lines[device]
        if message["word"] == "erred":
            text = f"Dask gave it up: {message['text']}"
            line.early[number] = Failed(number, device, self.clock(), self.clock(), "killed", text, message["traceback"])
            self._skip(line, number)
        else:
            line.early[number] = self._end(number, device, report or {"start": 0.0, "finish": 0.0, "fault": "killed", "text": "called off"})
        self._tell(line, device)

    def _end(self, number: int, device: int, report: remote.Report) -> Finished | Failed:
        start, finish = (report[k] - self._lines[device].site.offset - self._origin for k in ("start", "finish"))
        if "fault" in report:
            return Failed(number, device, start, finish, report["fault"], report["text"], report.get("traceback", ""))
        near = {site.address: site.devices[0] for site in self._sites}
        moved = tuple(Transfer(near.get(source, device), size, seconds) for source, size, seconds in report["transfers"])
        return Finished(number, device, start, finish, (float(report["size"]),), (tuple(report["branches"]),), moved)

    def _tell(self, line: Line, device: int) -> None:
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

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Bring results here. Waits in pieces: what was lost is computed again, if there is a worker for it."""
        gathered = self._client.gather(futures, asynchronous=True)
        done: threading.Event = threading.Event()
        found: list[Any] = []

        async def bring() -> None:
            try:
                found.append(await gathered)
            except Exception as error:  # noqa: BLE001  # raised below, where it is of use
                found.append(error)
            done.set()

        self._client.loop.add_callback(bring)
        begin = time.perf_counter()
        while not done.wait(TICK):
            self._check()
            if self._client.nthreads():
                begin = time.perf_counter()
            elif time.perf_counter() - begin > (self.patience if self._crew is None else START_LIMIT):
                raise WeftError("results were lost with their Dask workers, and no worker is left to compute them again")
        if isinstance(found[0], Exception):
            raise WeftError(f"results could not be brought here from Dask's workers: {found[0]}") from found[0]
        return list(found[0])

    def _reset(self) -> None:
        self._run = ""
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._news = []
        self._results: dict[int, Any] = {}
        self._here = {}
        """Results that were fetched last."""
        self._pending: dict[int, Any] = {}
        self._where: dict[int, int] = {}
        """Order -> device, of the orders that are under way."""
        self._before: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        """Key of a Dask task -> order."""
        self._doomed = []
        self._arguments: dict[int, bytes] = {}
        self._origin = self._bereft = time.perf_counter()
        for line in self._lines if hasattr(self, "_lines") else ():
            line.orders.clear()
            line.early.clear()
            line.last = -1

    def _key(self, instance: int, name: str) -> str:
        """Tasks of one kind are one group for Dask."""
        return f"{self._kinds[instance]}-{self._run}-{name}"

    def _errand(
        self, instance: int, number: int, line: Line, inputs: tuple[str | None, ...], *, before: int = -1, chooses: bool = False
    ) -> remote.Errand:
        call = self._calls[instance]
        return remote.Errand(
            run=self._run,
            number=number,
            device=line.name,
            home=line.site.id,
            before=before,
            function=self._pickles[id(call.function)],
            arguments=packed_arguments(call),
            inputs=inputs,
            chooses=chooses,
        )

    def _skip(self, line: Line, number: int) -> None:
        """What waits for an order waits no longer."""
        self._ask(remote.drop, self._run, number, self._before[number], site=line.site)
