"""Messages to Dask workers, keys of Dask tasks, and events from workers' reports.

Messages hold functions and arguments as pickles.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence

from distributed.protocol.pickle import dumps

from weft.model import Workload
from weft.runtime.backends.calls import Calls, pickled_function
from weft.runtime.backends.dask.sites import DeviceThread, WorkerSite
from weft.runtime.backends.dask.tasks import Report, TaskMessage
from weft.runtime.backends.protocol import Call, Failed, Finished, Transfer

LARGE = 1 << 20
"""Bytes of arguments about which Dask warns."""


class TaskMessages:
    """The calls of a run as messages to workers; `run` is part of every key."""

    def __init__(self, run: str, workload: Workload, calls: Sequence[Call] | None) -> None:
        self.run = run
        self._kinds: list[str] = []
        self._calls: Calls[bytes] = Calls(
            workload,
            calls,
            pickle_function=pickled_function,
            pack=lambda value, _: bytes(dumps(value)),
        )
        self._set_kinds(workload, range(workload.instances))

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Set the calls of a job from instance `first` on."""
        self._calls.extend(workload, calls, first)
        self._set_kinds(workload, range(first, first + len(calls or ())))

    def _set_kinds(self, workload: Workload, instances: range) -> None:
        for instance in instances:
            job, task = workload.task_of(instance)
            w = workload.problem_of(job).workflow
            self._kinds[instance : instance + 1] = [w.kinds[w.kind[task]]]

    def functions(self) -> list[bytes]:
        """Return the functions that workers load before the clock starts."""
        return self._calls.preload()

    def kind(self, instance: int) -> str:
        """Return the kind of the task of an instance."""
        return self._kinds[instance]

    def key(self, instance: int, name: str) -> str:
        """Return the key of a Dask task; tasks of one kind are one group for Dask."""
        return f"{self._kinds[instance]}-{self.run}-{name}"

    def message_of(
        self,
        instance: int,
        number: int,
        thread: DeviceThread,
        inputs: tuple[str | None, ...],
        *,
        before: int = -1,
        chooses: bool = False,
    ) -> TaskMessage:
        """Return the message of an instance."""
        return TaskMessage(
            run=self.run,
            number=number,
            device=thread.name,
            home=thread.site.id,
            before=before,
            function=self._calls.functions[self._calls.function[instance]],
            arguments=self._calls.arguments(instance),
            inputs=inputs,
            chooses=chooses,
        )


@contextlib.contextmanager
def quietly(size: int) -> Iterator[None]:
    """Silence the warning about large arguments.

    They must be part of a task, so that Dask can repeat it.
    """
    if size < LARGE:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def event_of(
    number: int,
    device: int,
    report: Report,
    site: WorkerSite,
    sites: Sequence[WorkerSite],
    origin: float,
) -> Finished | Failed:
    """Return the end of an order on a device of `site`; the run began at `origin`."""
    start, finish = (report[k] - site.offset - origin for k in ("start", "finish"))
    if "fault" in report:
        words = report["fault"], report["text"], report.get("traceback", "")
        return Failed(number, device, start, finish, *words)
    near = {s.address: s.devices[0] for s in sites if report["transfers"]}
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
        site.id,
    )
