"""The calls of a run, ready for other processes; all real backends use this table.

Functions are numbered and pickled once; arguments are packed when an order needs them, with a slot
for each result of another task. Each backend supplies its own way of pickling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from weft.errors import InvalidInput
from weft.model import Workload
from weft.runtime.backends.local.worker import Slot, replaced
from weft.runtime.backends.payload import pickled
from weft.runtime.backends.protocol import Call, Input

START_LIMIT = 600.0
"""Seconds in which a worker process of weft must connect. A worker that dies is noticed at once; a
living one may take minutes on a busy machine."""

OTHERS_START_LIMIT = 120.0
"""The same for workers of a cluster that weft did not start, which may be full."""

MAX_STARTS = 3
"""Starts in a row at which a worker may end itself before its device is left out."""

MAX_KILLED_STARTS = 10
"""Starts in a row at which a worker may be killed before its device is left out."""

PRELOAD_LIMIT = 100
"""Most functions sent before the clock starts; if there are more, each goes with its first call."""

KNOWN_FUNCTIONS = 1000
"""Functions beyond two per task that the table keeps before it drops unused ones."""

NOT_A_SLOT = -1
"""Stands in place of an edge for an argument that is no `Input`."""

P = TypeVar("P")


class CallTable(Protocol):
    """Functions and packed arguments by the number of an instance."""

    @property
    def functions(self) -> Sequence[bytes] | Mapping[int, bytes]:
        """Return the pickles by number of a function."""
        ...

    @property
    def function(self) -> Sequence[int] | Mapping[int, int]:
        """Return the number of the function of each instance."""
        ...

    def preload(self) -> list[bytes]:
        """Return the functions to load before the clock starts."""
        ...

    def arguments(self, instance: int) -> Any:
        """Return the packed arguments of an instance."""
        ...


class Calls(Generic[P]):
    """The function and the arguments of every instance of a run.

    Parameters
    ----------
    pickle_function : makes the bytes of a function
    pack : makes the packed form of (args, kwargs) of an instance; the instance is None if the
        arguments are slots only, so that many instances share the packed form
    """

    def __init__(
        self,
        workload: Workload,
        calls: Sequence[Call] | None,
        *,
        pickle_function: Callable[[Any], bytes],
        pack: Callable[[Any, int | None], P],
    ) -> None:
        self._calls: list[Call] = []
        self._pickle, self._pack = pickle_function, pack
        self._numbers: dict[int, tuple[int, Any]] = {}
        """Identity of a function -> its number, and the function, which keeps its identity
        unique."""
        self._by_pickle: dict[bytes, int] = {}
        self._slots_only: dict[tuple[int, ...], P] = {}
        self.functions: list[bytes] = []
        """Number of a function -> its pickle."""
        self.function: list[int] = []
        """Instance -> number of its function."""
        self.extend(workload, calls, 0)

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Set the calls from instance `first` on; refuse functions that cannot be pickled."""
        count = max(len(self._calls), first + len(calls or ()))
        if calls is None or count != workload.instances:
            raise InvalidInput(
                f"'{workload.name}' has {workload.instances} tasks, "
                f"but functions are given for {count}"
            )
        new = {
            id(call.function): call.function
            for call in calls
            if id(call.function) not in self._numbers
        }
        for key, data in [(key, self._pickled(function)) for key, function in new.items()]:
            number = self._by_pickle.setdefault(data, len(self.functions))
            if number == len(self.functions):
                self.functions.append(data)
            self._numbers[key] = (number, new[key])
        rows = slice(first, first + len(calls))
        self._calls[rows] = calls
        self.function[rows] = [self._numbers[id(call.function)][0] for call in calls]
        if len(self._numbers) > 2 * len(self._calls) + KNOWN_FUNCTIONS:
            used = {id(call.function) for call in self._calls}
            self._numbers = {key: known for key, known in self._numbers.items() if key in used}

    def preload(self) -> list[bytes]:
        """Return the functions to load before the clock starts; none if they are too many."""
        return self.functions if len(self.functions) <= PRELOAD_LIMIT else []

    def name(self, instance: int) -> str:
        """Return the name of the function of an instance."""
        return name_of(self._calls[instance].function)

    def arguments(self, instance: int) -> P:
        """Return the packed arguments of an instance."""
        call = self._calls[instance]
        edges = tuple([arg.edge if type(arg) is Input else NOT_A_SLOT for arg in call.args])
        if call.kwargs or NOT_A_SLOT in edges:
            return self._pack(with_slots((call.args, dict(call.kwargs))), instance)
        known = self._slots_only.get(edges)
        if known is None:
            known = self._slots_only[edges] = self._pack((with_slots(call.args), {}), None)
        return known

    def _pickled(self, function: Any) -> bytes:
        try:
            return self._pickle(function)
        except Exception as error:  # noqa: BLE001  # pickling runs code of the user
            raise InvalidInput(
                f"function '{name_of(function)}' cannot be sent to another process "
                f"({first_line(error)}); its closure and the globals it uses must be picklable, "
                "or it must be at the top of a module that workers can import"
            ) from None


def with_slots(value: Any) -> Any:
    """Replace each `Input` by a slot, which is small to pickle.

    Examples
    --------
    >>> with_slots((Input(0), [Input(1), 3]))
    (Slot(edge=0), [Slot(edge=1), 3])
    """
    return replaced(value, lambda leaf: Slot(leaf.edge) if type(leaf) is Input else leaf)


def pickled_function(function: Any) -> bytes:
    """Pickle a function by name if workers can import it, by value if not."""
    return pickled(function)[0]


def name_of(function: Any) -> str:
    """Return a short name of anything that can be called.

    Examples
    --------
    >>> from functools import partial
    >>> name_of(len), name_of(partial(max, 3)), name_of(lambda: 1), name_of("abc".upper)
    ('len', 'max', 'lambda', 'upper')
    """
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name.strip("<>") if isinstance(name, str) else type(function).__name__


def first_line(error: BaseException) -> str:
    """Return an error as one line."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
