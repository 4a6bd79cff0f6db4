"""Functions that worker processes keep, so that calls do not carry them.

A function of an importable module is sent by name, once. Another one is sent by value, and again
as soon as a name that it uses, or a function that it calls, is bound to another object. A callable
whose state may change in place (a method, a partial, a function that uses a list) travels with
every call: a call never sees an old state.
"""

# ruff: noqa: S301  # round trip of an exception in the process that raised it
from __future__ import annotations

import contextlib
import pickle
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from weft.errors import WeftError
from weft.runtime.backends.calls import pickled_function
from weft.runtime.backends.error_text import error_line, traceback_text
from weft.runtime.backends.payload import pickled
from weft.runtime.costs.keys import function_identity, names_in

SLOTS = 256
"""Functions that workers hold at once."""

WITH_CALL = 0
"""Slot of `apply`, which receives the function as its first argument."""

_FIXED = (type(None), bool, int, float, complex, str, bytes, ModuleType)


class Raised(NamedTuple):
    """The exception of a call, and its traceback as text."""

    error: BaseException
    trace: str


class ArgumentRows(tuple[tuple[Any, ...], ...]):
    """Arguments of several calls that run as one."""

    __slots__ = ()


class ExceptionCapture:
    """A function whose call returns its exception, with type and arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, once per row if it gets `ArgumentRows`."""
        try:
            if args and type(args[0]) is ArgumentRows:
                return [self.function(*row) for row in args[0]]
            return self.function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001  # SystemExit too goes to the future
            text = traceback_text(error, error.__traceback__)
            return Raised(_portable(error), text)


def apply(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that came with its arguments."""
    return function(*args, **kwargs)


def _portable(error: BaseException) -> BaseException:
    """Return an exception that survives pickling.

    It is the exception itself, its type with its arguments, or its text.
    """
    if _survives(error):
        return error
    with contextlib.suppress(Exception):  # its type may take other arguments
        plain = type(error)(*error.args)
        if _survives(plain):
            return plain
    return WeftError(error_line(error))


def _survives(error: BaseException) -> bool:
    try:
        pickle.loads(pickled(error)[0])
    except BaseException:  # noqa: BLE001  # code of the user
        return False
    error.__traceback__ = None
    return True


Binding = tuple[Callable[[], Any], Any]
"""A part of a pickled function: how to read it, and its value when it was pickled."""


class FunctionRef(NamedTuple):
    """A function for a call.

    Attributes
    ----------
    slot : its number for workers
    kind : its name in the history
    bindings : all parts of its pickle
    """

    function: Any
    slot: int
    kind: str
    bindings: tuple[Binding, ...] = ()

    def current(self) -> bool:
        """Return whether the pickle is still right."""
        return all(read() is value for read, value in self.bindings)


class FunctionTable:
    """The functions of an executor, by slot.

    Examples
    --------
    >>> table = FunctionTable()
    >>> first = table.find(len)
    >>> first.slot, table.find(len) is first, table.find([].append).slot
    (1, True, 0)
    """

    def __init__(self) -> None:
        self.functions: dict[int, bytes] = {WITH_CALL: pickled_function(ExceptionCapture(apply))}
        """Slot -> pickle."""
        self.replaced: list[int] = []
        """Slots with another function than before, which workers must receive again."""
        self._held: OrderedDict[int, FunctionRef] = OrderedDict()

    def kind_of(self, function: Any) -> str:
        """Return the name of a function in the history."""
        known = self._held.get(id(function))
        return function_identity(function) if known is None else known.kind

    def find(self, function: Any) -> FunctionRef:
        """Return the entry of a function; new and changed ones get a slot."""
        known = self._held.get(id(function))
        if known is not None:
            if known.current():
                return known
            del self._held[id(function)]
        bindings = bindings_of(function)
        if bindings is None:
            return FunctionRef(function, WITH_CALL, function_identity(function))
        slot = len(self.functions)
        if known is not None:
            slot = known.slot
        elif slot > SLOTS:
            slot = self._held.popitem(last=False)[1].slot
        self.functions[slot] = pickled_function(ExceptionCapture(function))
        self.replaced.append(slot)
        held = self._held[id(function)] = FunctionRef(
            function, slot, function_identity(function), bindings
        )
        return held


def bindings_of(function: Any) -> tuple[Binding, ...] | None:
    """Return all parts of a pickled function; None if some of it may change in place.

    Examples
    --------
    >>> bindings_of(bindings_of), bindings_of([].append)
    ((), None)
    """
    if _importable(function):
        return ()
    found: list[Binding] = []
    seen: set[int] = set()
    fixed = isinstance(function, FunctionType) and _add_bindings(function, found, seen)
    return tuple(found) if fixed else None


def _add_bindings(function: FunctionType, found: list[Binding], seen: set[int]) -> bool:
    """Add the parts of a function pickled by value; return whether all are immutable."""
    if id(function) in seen:
        return True
    seen.add(id(function))
    used = function.__globals__
    reads: list[Callable[[], Any]] = [
        partial(getattr, cell, "cell_contents", None) for cell in function.__closure__ or ()
    ]
    reads += [partial(used.get, name) for name in names_in(function.__code__) if name in used]
    reads.append(partial(getattr, function, "__defaults__"))
    found.append((partial(getattr, function, "__code__"), function.__code__))
    new = [(read, read()) for read in reads]
    found += new
    if function.__kwdefaults__ or vars(function):
        return False
    return all(_fixed(value, found, seen) for _, value in new)


def _fixed(value: Any, found: list[Binding], seen: set[int]) -> bool:
    """Return whether a value cannot change in place; add the parts of a function."""
    if type(value) in _FIXED or _importable(value):
        return True
    if type(value) is tuple:
        return all(_fixed(part, found, seen) for part in value)
    return isinstance(value, FunctionType) and _add_bindings(value, found, seen)


def _importable(value: Any) -> bool:
    """Return whether workers find a function or a class by its name."""
    if not isinstance(value, FunctionType | BuiltinFunctionType | type):
        return False
    owner = getattr(value, "__self__", None)  # of builtin functions: their module
    if value.__module__ in (None, "__main__") or not isinstance(owner, ModuleType | None):
        return False
    try:
        return b"__main__" not in pickle.dumps(value)
    except Exception:  # noqa: BLE001  # no such name
        return False
