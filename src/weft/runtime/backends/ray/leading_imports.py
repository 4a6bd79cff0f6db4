"""Imports at the beginning of functions, which can be made ahead of a call.

If a function imports a module at its beginning, the first call in each process loads the module,
which may take longer than the call itself.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from weft.runtime.inputs.promises import Body

PARTS = frozenset(
    {
        *("RESUME", "NOP", "MAKE_CELL", "COPY_FREE_VARS"),  # the beginning of a function
        *("LOAD_CONST", "LOAD_SMALL_INT", "IMPORT_NAME", "IMPORT_FROM"),
        *("STORE_FAST", "STORE_DEREF", "SWAP", "POP_TOP"),  # the names that it gives
    }
)
"""Instructions of leading imports, in all versions of Python; any other one ends them."""


class LeadingImport(NamedTuple):
    """The arguments of `__import__`: module, names to import from it, and level."""

    module: str
    names: tuple[str, ...]
    level: int


def leading_imports(function: Any) -> list[LeadingImport]:
    """Return the imports that a call makes before anything else.

    Later imports may depend on the code before them, such as a condition or a variable of the
    environment that the function sets.

    Examples
    --------
    >>> def draw(data):
    ...     import json
    ...     from xml.dom import minidom
    ...     print(data)
    ...     import csv
    >>> leading_imports(draw)
    [LeadingImport(module='json', names=(), level=0), \
LeadingImport(module='xml.dom', names=('minidom',), level=0)]
    >>> leading_imports(len)
    []
    """
    found: list[LeadingImport] = []
    constants: list[Any] = []
    code = getattr(_plain(function), "__code__", None)
    for step in dis.get_instructions(code) if code is not None else ():
        if step.opname not in PARTS:
            break
        if step.opname.startswith("LOAD"):
            constants.append(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, names = constants[-2:]
            found.append(LeadingImport(step.argval, names or (), level))
    return found


def make_leading_imports(function: Any) -> None:
    """Import what a call of the function imports first; an error is left to the call."""
    for module, names, level in leading_imports(function):
        with contextlib.suppress(Exception):
            builtins.__import__(module, _plain(function).__globals__, None, names, level)


def _plain(function: Any) -> Any:
    """Return the function within `weft.task` and bound arguments; None without code."""
    while isinstance(function, partial | Body):
        function = function.func if isinstance(function, partial) else function.task.function
    return function if isinstance(function, FunctionType) else None
