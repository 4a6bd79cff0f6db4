"""Fingerprints of tasks: code, arguments and ancestors.

Changed tasks run again.

Part of the fingerprint of a task are the code of its function (bytecode, constants, names, default
and closure values, nested code), the code of functions and classes that it uses by name, in all
modules of the user, plain values and arrays among the globals that it uses, the content of its
arguments, and the fingerprints of its parents. Modules of Python and of installed packages count by
their names only.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
import sys
import sysconfig
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from weft.model import Workflow
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.costs.keys import names_in
from weft.runtime.inputs.promises import Body, Task

LIMIT = 1 << 30
"""Bytes of arguments of one task that are read; a task with more has a new fingerprint each run."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)

Names = tuple[str, ...]
"""Names that a function uses."""


def task_fingerprints(workflow: Workflow, calls: Sequence[Call]) -> tuple[str, ...]:
    """Return the fingerprint of each task; it changes with those of the parents.

    Examples
    --------
    >>> w = Workflow(work=[1, 1], src=[0], dst=[1], data=[0])
    >>> one, two = ([Call(max, (1, k)), Call(abs, (Input(0),))] for k in (2, 3))
    >>> task_fingerprints(w, one) == task_fingerprints(w, one)
    True
    >>> [a == b for a, b in zip(task_fingerprints(w, one), task_fingerprints(w, two))]
    [False, False]
    """
    functions: dict[int, str] = {}
    marks = [""] * workflow.n
    for task in workflow.order.tolist():
        call = calls[task]
        if id(call.function) not in functions:
            functions[id(call.function)] = _mark(call.function, (), {})
        edges = workflow.pred_edge[workflow.pred_ptr[task] : workflow.pred_ptr[task + 1]]
        parents = [marks[p] for p in workflow.src[edges].tolist()]
        parts = (functions[id(call.function)], _mark(None, call.args, dict(call.kwargs)), parents)
        marks[task] = hashlib.sha256(repr(parts).encode()).hexdigest()
    return tuple(marks)


def _mark(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        content = _Content(function)
        content.add(args)
        content.add(kwargs)
        content.add_used_code()
        return content.digest.hexdigest()
    except Exception:  # noqa: BLE001  # code of the user; too large: it counts as changed
        return uuid.uuid4().hex


class _Content:
    """The hash of a function and of values.

    It is equal in all processes of one Python version.
    """

    def __init__(self, function: Any) -> None:
        self.digest = hashlib.sha256()
        self._size = 0
        self._seen: dict[int, tuple[int, Any]] = {}
        """Identity of an object -> its number, and the object, which keeps the identity unique."""
        self._used: deque[Any] = deque()
        """Functions and classes still to be added: a queue, as chains of calls may be long."""
        self._modules: set[tuple[str, Names]] = set()
        function = _bare(function)
        inner = function
        while isinstance(inner, partial):
            inner = _bare(inner.func)
        self._module = getattr(inner, "__module__", None)
        self.add(function)

    def add(self, value: Any) -> None:
        """Add a value."""
        value = _bare(value)
        if type(value) in _PLAIN:
            self._write(type(value).__name__, value if type(value) is bytes else repr(value))
        elif type(value) in (tuple, frozenset, CodeType):  # not by identity: constants are merged
            self._add_parts(value)
        elif id(value) in self._seen:
            self._write("seen", str(self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = (len(self._seen), value)
            self._add_parts(value)

    def add_used_code(self) -> None:
        """Add the functions and classes that the functions use, directly or indirectly."""
        while self._used:
            self.add(self._used.popleft())

    def _add_parts(self, value: Any) -> None:
        if isinstance(value, Input):
            self._write("input", str(value.edge))
        elif isinstance(value, ModuleType):
            self._write("module", value.__name__)
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, CodeType):
            self._add_all("code", _parts_of_code(value))
        elif type(value) is np.ndarray and not value.dtype.hasobject:
            self._write("array", f"{value.dtype.descr} {value.shape}")
            self._write("", np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        elif type(value) in (list, tuple) and {type(v) for v in value} <= {int, float}:
            self._write(type(value).__name__, pickle.dumps(value, protocol=4))
        elif type(value) in (list, tuple):
            self._add_all(type(value).__name__, value)
        elif type(value) is dict:
            self._add_all("dict", (x for item in value.items() for x in item))
        elif type(value) in (set, frozenset):
            self._add_all("set", sorted(_mark(None, (v,), {}) for v in value))
        elif isinstance(value, MethodType):
            self._add_all("method", (value.__func__, value.__self__))
        elif isinstance(value, partial):
            self._add_all("partial", (value.func, value.args, value.keywords))
        else:
            self._add_object(value)

    def _add_all(self, word: str, values: Any) -> None:
        self._write(word, "(")
        for value in values:
            self.add(value)
        self._write(word, ")")

    def _add_function(self, function: FunctionType) -> None:
        name = f"{function.__module__}.{function.__qualname__}"
        self._write("function", name)
        if not self._own(function) and "<" not in function.__qualname__:
            return  # of another module: by name
        self.add(function.__code__)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            self.add(_cell_value(cell))
        names = tuple(sorted(dict.fromkeys(names_in(function.__code__))))
        for name in names:
            if name in function.__globals__:
                self._write("global", name)
                self._add_global(function.__globals__[name], names)

    def _add_global(self, value: Any, names: Names) -> None:
        """Add code and plain values; of connections, caches and the like, their types."""
        value = _bare(value)
        if isinstance(value, FunctionType | type):
            self._write("uses", f"{value.__module__}.{value.__qualname__}")
            self._used.append(value)
        elif isinstance(value, ModuleType):
            self._add_module(value, names)
        elif isinstance(value, np.ndarray) or _is_plain(value):
            self.add(value)
        else:
            self._write("type", type(value).__qualname__)

    def _add_module(self, module: ModuleType, names: Names) -> None:
        """Add the members of a module of the user that a function may use, by their names."""
        self._write("module", module.__name__)
        if (module.__name__, names) in self._modules or not _is_users(module.__name__):
            return
        self._modules.add((module.__name__, names))
        for name in names:
            if name in vars(module):
                self._write("member", name)
                self._add_global(vars(module)[name], names)

    def _add_class(self, kind: type) -> None:
        self._write("class", f"{kind.__module__}.{kind.__qualname__}")
        if not self._own(kind):
            return
        self._add_all("bases", kind.__bases__)
        for name, value in sorted(vars(kind).items()):
            inner = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(inner, FunctionType) or _is_plain(inner):
                self._write("member", name)
                self.add(inner)

    def _add_object(self, value: Any) -> None:
        """Add the parts that pickle would store."""
        reduce = copyreg.dispatch_table.get(type(value))
        parts: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(parts, str):
            self._write("name", f"{getattr(value, '__module__', '')}.{parts}")
            return
        make, args, state, items, pairs = (*parts, None, None, None, None)[:5]
        self._write("object", f"{make.__module__}.{make.__qualname__}")
        self.add(args)
        self.add(state)
        self.add(None if items is None else list(items))
        self.add(None if pairs is None else list(pairs))

    def _own(self, value: Any) -> bool:
        return value.__module__ == self._module or _is_users(value.__module__)

    def _write(self, word: str, data: Any) -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self._size += len(raw)
        if self._size > LIMIT:
            raise OverflowError(f"arguments of more than {LIMIT} bytes")
        self.digest.update(f"{word} {len(raw)}:".encode())
        self.digest.update(raw)


def _bare(value: Any) -> Any:
    """Return the function inside a task, a `functools.cache` or a compiled function."""
    value = value.task if isinstance(value, Body) else value
    value = value.function if isinstance(value, Task) else value
    inner = None if isinstance(value, FunctionType) else getattr(value, "__wrapped__", None)
    return inner if isinstance(inner, FunctionType) else value


@cache
def _is_users(module: str | None) -> bool:
    """Return whether a module is neither Python's own nor of an installed package."""
    if module == "__main__":
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None or module is None or module.split(".")[0] == "weft":
        return False
    path = Path(file).resolve()
    own = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not installed and not any(path.is_relative_to(folder) for folder in own)


def _parts_of_code(code: CodeType) -> Iterator[Any]:
    yield from (code.co_name, code.co_flags, code.co_argcount, code.co_kwonlyargcount)
    yield from (code.co_posonlyargcount, code.co_code, code.co_exceptiontable)
    yield from (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield code.co_consts


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _is_plain(value: Any, depth: int = 4) -> bool:
    if type(value) in _PLAIN:
        return True
    if depth == 0 or type(value) not in (list, tuple, dict, set, frozenset):
        return False
    parts = [*value, *value.values()] if type(value) is dict else value
    return all(_is_plain(part, depth - 1) for part in parts)
