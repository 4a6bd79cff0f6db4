"""The calls of a run, ready to travel to another process: functions numbered and pickled once, arguments packed when first needed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from weft.errors import InvalidInput
from weft.runtime.backends.local.worker import Slot
from weft.runtime.backends.payload import Payload, drop, pack
from weft.runtime.backends.protocol import Call, Input


class Calls:
    """What every instance of a run calls.

    Parameters
    ----------
    where : begins the names of files that large arguments go to
    """

    def __init__(self, calls: Sequence[Call], where: str) -> None:
        self._calls: list[Call] = []
        self._where = where
        self._arguments: dict[int, Payload] = {}
        self.functions: list[bytes] = []
        """Pickled, by number."""
        self.function: list[int] = []
        """The number of each instance's function."""
        self._numbers: dict[int, int] = {}
        self.extend(calls)

    def extend(self, calls: Sequence[Call]) -> None:
        """Take the calls of more instances; a function that cannot be sent is told before anything is changed."""
        new = {
            id(call.function): call.function
            for call in calls
            if id(call.function) not in self._numbers
        }
        for key, data in [(key, pickled_function(function)) for key, function in new.items()]:
            self._numbers[key] = len(self.functions)
            self.functions.append(data)
        self._calls.extend(calls)
        self.function.extend(self._numbers[id(call.function)] for call in calls)

    def arguments(self, instance: int) -> Payload:
        """Arguments with slots for the results of others; packed once, however often the instance runs."""
        call = self._calls[instance]
        if not call.kwargs and all(
            type(arg) is Input for arg in call.args
        ):  # nothing but results: the same for many tasks
            return _slots_only(call.args)
        if instance not in self._arguments:
            self._arguments[instance] = pack(
                with_slots((call.args, dict(call.kwargs))), f"{self._where}-a{instance}"
            )
        return self._arguments[instance]

    def packed(self, instance: int) -> bool:
        """Whether an instance has arguments of its own that are kept."""
        return instance in self._arguments

    def done(self, instance: int) -> None:
        """An instance will not run again."""
        drop(self._arguments.pop(instance))


def with_slots(value: Any) -> Any:
    """Put a slot, which is small to pickle, wherever the result of another task goes.

    Examples
    --------
    >>> with_slots((Input(0), [Input(1), 3]))
    (Slot(edge=0), [Slot(edge=1), 3])
    """
    if isinstance(value, Input):
        return Slot(value.edge)
    if type(value) in (list, tuple):
        return type(value)(with_slots(v) for v in value)
    if type(value) is dict:
        return {k: with_slots(v) for k, v in value.items()}
    return value


def pickled_function(function: Any, *, richer: str = "cloudpickle") -> bytes:
    """A function for other processes: by name, or by value with the richer module, where it is installed."""
    try:
        return pickle.dumps(function)
    except Exception as error:  # noqa: BLE001  # pickling runs code of the user
        name = getattr(function, "__qualname__", repr(function))
        try:
            data: bytes = import_module(richer).dumps(function)
        except Exception:  # noqa: BLE001  # not installed, or no better
            raise InvalidInput(
                f"function '{name}' cannot be sent to another process ({error}); define it at the top of a module, or install cloudpickle"
            ) from None
        return data


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> Payload:
    return pack((with_slots(args), {}), "never-written", shared_from=sys.maxsize)
