"""Keys of measurements: the function of a call, and the sizes of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

Sizes = tuple[tuple[str, float], ...]
"""(argument, size) pairs: the position or the keyword of an argument, and its size."""

MOST_SIZES = 6
"""Arguments of a call whose sizes count; the first ones."""

TEXT = 256
"""Least length of texts and bytes that counts: shorter ones are names rather than data."""

GPU = "any gpu"
"""Need of a task for any device whose name or kind has "gpu" or "cuda" in it."""


class CostKey(NamedTuple):
    """Properties on which durations depend, besides work, input and device.

    Attributes
    ----------
    kind : kind of task; for functions without one, module and qualified name
    sizes : sizes of its arguments
    """

    kind: str
    sizes: Sizes = ()


def function_identity(function: Any) -> str:
    """Return module and qualified name of anything that can be called.

    A function of `__main__` gets the name of the script, which it also has when imported.

    Examples
    --------
    >>> import json
    >>> function_identity(json.dumps), function_identity(partial(json.dumps, indent=2))
    ('json.dumps', 'json.dumps')
    """
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None) or "builtins"
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(file).stem if file else module
    return f"{module}.{named.__qualname__}"


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names in the code of a function and of its nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def argument_sizes(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Sizes:
    """Return the sizes of the arguments that have one.

    Numbers count by value, arrays by bytes, lists and other containers by length.

    Examples
    --------
    >>> argument_sizes((1.5, "name", [1, 2, 3]), {"depth": 2})
    (('0', 1.5), ('2', 3.0), ('depth', 2.0))
    """
    named = [*((str(place), value) for place, value in enumerate(args)), *kwargs.items()]
    found = [(name, size) for name, value in named if (size := size_of(value)) is not None]
    return tuple(found[:MOST_SIZES])


def size_of(value: Any) -> float | None:
    """Return the size of an argument; None if it has none."""
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        size = _number(value)
    elif kind is str or kind is bytes:
        size = float(len(value)) if len(value) >= TEXT else None
    elif kind in (list, tuple, dict, set, frozenset):
        size = float(len(value))
    else:
        size = _of_object(value)
    return size


def _of_object(value: Any) -> float | None:
    try:
        if getattr(value, "ndim", None) == 0 or isinstance(value, int | float):
            return _number(value)
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            return float(size)
        return float(len(value)) if hasattr(type(value), "__len__") else None
    except Exception:  # noqa: BLE001  # code of the user
        return None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if isfinite(number) else None
