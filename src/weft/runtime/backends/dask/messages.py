"""What is sent to Dask's workers: functions and arguments, pickled, and the key each Dask task goes by."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from distributed.protocol.pickle import dumps

from weft.errors import InvalidInput
from weft.model import Workload
from weft.runtime.backends.calls import with_slots
from weft.runtime.backends.dask import plugin as remote
from weft.runtime.backends.dask.cluster import DeviceThread
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.inputs.functions import Body

LARGE = 1 << 20
"""Bytes of arguments about which Dask may want to warn."""


class TaskMessages:
    """The calls of a run as errands for workers.

    Parameters
    ----------
    run : the name of the run, part of every key
    """

    def __init__(self, run: str, workload: Workload, calls: Sequence[Call] | None) -> None:
        self.run = run
        self._calls: list[Call] = []
        self._kinds: list[str] = []
        self._functions: dict[int, Any] = {}
        """By id: kept, so that an id means the same function throughout."""
        self._pickles: dict[int, bytes] = {}
        self.extend(workload, calls)

    def extend(self, workload: Workload, calls: Sequence[Call] | None) -> None:
        """Take the calls of the instances that are not known yet; a function that cannot be sent is told before anything runs."""
        count = len(self._calls) + (0 if calls is None else len(calls))
        if calls is None or count != workload.instances:
            raise InvalidInput(
                f"'{workload.name}' has {workload.instances} tasks, but functions are given for {count}"
            )
        new = {
            id(call.function): call.function
            for call in calls
            if id(call.function) not in self._functions
        }
        pickles = {key: pickled_function(function) for key, function in new.items()}
        self._pickles.update(pickles)
        self._functions.update(new)
        for instance in range(len(self._calls), count):
            job, task = workload.task_of(instance)
            w = workload.problem_of(job).workflow
            self._kinds.append(w.kinds[w.kind[task]])
        self._calls.extend(calls)

    def lessons(self) -> list[bytes]:
        """Every function, pickled."""
        return list(self._pickles.values())

    def key(self, instance: int, name: str) -> str:
        """Tasks of one kind are one group for Dask."""
        return f"{self._kinds[instance]}-{self.run}-{name}"

    def errand(
        self,
        instance: int,
        number: int,
        line: DeviceThread,
        inputs: tuple[str | None, ...],
        *,
        before: int = -1,
        chooses: bool = False,
    ) -> remote.TaskMessage:
        """What the Dask task of an instance is told."""
        call = self._calls[instance]
        return remote.TaskMessage(
            run=self.run,
            number=number,
            device=line.name,
            home=line.site.id,
            before=before,
            function=self._pickles[id(call.function)],
            arguments=packed_arguments(call),
            inputs=inputs,
            chooses=chooses,
        )


def pickled_function(function: Any) -> bytes:
    """What stands in the user's script goes by value: a worker elsewhere has another one."""
    if isinstance(function, Body) and function.task.function.__module__ == "__main__":
        function = function.task.function
    try:
        return bytes(dumps(function))
    except Exception as error:  # noqa: BLE001  # pickling runs code of the user
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(f"function '{name}' cannot be sent to Dask's workers: {error}") from None


def packed_arguments(call: Call) -> bytes:
    """Arguments with slots for the results of others, pickled."""
    if not call.kwargs and all(
        type(arg) is Input for arg in call.args
    ):  # nothing but results: the same for many tasks
        return _slots_only(call.args)
    return bytes(dumps(with_slots((call.args, dict(call.kwargs)))))


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> bytes:
    return pickle.dumps((with_slots(args), {}))


@contextlib.contextmanager
def quietly(size: int) -> Iterator[None]:
    """Arguments are part of the task: then it can run again. Dask thinks that large ones are an oversight."""
    if size < LARGE:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield
