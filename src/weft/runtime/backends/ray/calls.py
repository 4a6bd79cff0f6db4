"""The calls of a run as Ray's actors get them: functions numbered and pickled once, arguments packed as Ray does it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from weft.errors import InvalidInput
from weft.runtime.backends.calls import with_slots
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.backends.ray.actor import Packed, packed, pickling


class Functions:
    """What every instance of a run calls."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.dumps = pickling()
        self._calls: list[Call] = []
        self._known: dict[int, tuple[int, bytes]] = {}
        self.extend(calls)

    def extend(self, calls: Iterable[Call]) -> None:
        """Take the calls of more instances; a function that cannot be sent is told before anything is changed."""
        calls = list(calls)
        new = {
            id(call.function): call.function
            for call in calls
            if id(call.function) not in self._known
        }
        for key, data in [(key, self._pickled(function)) for key, function in new.items()]:
            self._known[key] = (len(self._known), data)
        self._calls.extend(calls)

    def all(self) -> dict[int, bytes]:
        """Number -> pickle."""
        return dict(self._known.values())

    def of(self, instance: int) -> tuple[int, bytes]:
        """Number and pickle of the function of an instance."""
        return self._known[id(self._calls[instance].function)]

    def arguments(self, instance: int) -> Packed:
        """Arguments with slots for the results of others."""
        call = self._calls[instance]
        if not call.kwargs and all(
            type(arg) is Input for arg in call.args
        ):  # nothing but results: the same for many tasks
            return _slots_only(call.args)
        return packed(with_slots((call.args, dict(call.kwargs))), self.dumps)

    def _pickled(self, function: Any) -> bytes:
        try:
            return self.dumps(function)
        except Exception as error:  # noqa: BLE001  # pickling runs code of the user
            name = getattr(function, "__qualname__", repr(function))
            raise InvalidInput(
                f"function '{name}' cannot be sent to another process: {first_line(error)}"
            ) from None


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> Packed:
    return packed((with_slots(args), {}), pickle.dumps)


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
