"""`typed`: errors of public functions that name the argument of the wrong type.

Arguments are compared with their annotations only after a failure: a call that succeeds costs
nothing, and what works without being of the annotated type keeps working. An option that a
function does not have is refused with the closest one.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial, wraps
from importlib import import_module
from itertools import islice
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from numpy import bool_
from numpy.typing import ArrayLike

from weft.arguments import shown
from weft.errors import InvalidInput, WeftError
from weft.registry import reject_unknown

__all__ = ["description", "fits", "typed", "typed_class", "typed_dataclass"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _is_real(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= 1024  # else it overflows
    return hasattr(value, "__float__") and not isinstance(value, type)


_TESTS: dict[Any, Callable[[Any], bool]] = {
    None: lambda value: value is None,
    NoneType: lambda value: value is None,
    bool: lambda value: isinstance(value, bool | bool_),
    int: lambda value: hasattr(value, "__index__") and not isinstance(value, bool | type),
    float: _is_real,
    Callable: callable,
}
_DESCRIPTIONS: set[type] = set()
"""Dataclasses that users fill in and hand to functions."""
_CONSTRUCTORS = ("__init__", "__new__")
_ELEMENTS = 1000
"""Elements of a list that are compared with its annotation."""


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Raise `InvalidInput` if the function fails and an argument has the wrong type.

    Types are those of the annotations. An unknown option raises `UnknownName`.

    Examples
    --------
    >>> @typed
    ... def double(times: float) -> float:
    ...     return 2 * times.__float__()
    >>> double("x")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: double: times is 'x'; it must be float
    >>> double(time=3.0)
    Traceback (most recent call last):
    ...
    weft.errors.UnknownName: double has no option 'time'; did you mean 'times'?
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except WeftError:
            raise
        except _FAILURES as error:
            _refuse_unknown_options(function, args, options)
            if wrong := _wrong_argument(function, args, options):
                raise InvalidInput(wrong) from error
            raise

    return call


def typed_class(cls: type[T]) -> type[T]:
    """Make the constructor of a class, or of a named tuple, a `typed` function.

    Examples
    --------
    >>> @typed_class
    ... class Door:
    ...     def __init__(self, width: float = 1.0) -> None:
    ...         self.width = width
    >>> Door(widht=2.0)
    Traceback (most recent call last):
    ...
    weft.errors.UnknownName: Door has no option 'widht'; did you mean 'width'?
    """
    constructor = "__new__" if issubclass(cls, tuple) else "__init__"
    setattr(cls, constructor, typed(getattr(cls, constructor)))
    return cls


if not TYPE_CHECKING:

    def typed_dataclass(cls: type[T] | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass whose constructor is a `typed` function.

        Examples
        --------
        >>> @typed_dataclass(frozen=True)
        ... class Door:
        ...     width: float = 1.0
        >>> Door(widht=2.0)
        Traceback (most recent call last):
        ...
        weft.errors.UnknownName: Door has no option 'widht'; did you mean 'width'?
        """
        if cls is None:
            return partial(typed_dataclass, **options)
        return typed_class(dataclass(cls, **options))

else:  # checkers know the parameters of `dataclasses.dataclass` only
    from dataclasses import dataclass as typed_dataclass


def description(cls: type[T]) -> type[T]:
    """Let `typed` look into the attributes of a dataclass (a decorator).

    It looks when a function that received such an object fails.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @description
    ... @dataclass
    ... class Door:
    ...     width: float
    >>> @typed
    ... def total(doors: list[Door]) -> float:
    ...     return sum(door.width for door in doors)
    >>> total([Door(0.9), Door("wide")])
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: total: doors[1].width is 'wide'; it must be float
    """
    _DESCRIPTIONS.add(cls)
    return typed_class(cls)


def _refuse_unknown_options(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    """Raise `UnknownName` for the first option that is no parameter of the function."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        known = [p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY]
        bound = function.__name__ in _CONSTRUCTORS or known[:1] in (["self"], ["cls"])
        own = known[1:] if bound else known
        reject_unknown(options, own, _called(function, args))


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the name of a function; of a constructor, that of its class."""
    if function.__name__ not in _CONSTRUCTORS:
        return function.__qualname__
    cls = args[0] if isinstance(args[0], type) else type(args[0])
    return cls.__name__


def _wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> str:
    """Describe the first argument that does not fit its annotation; "": all do."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **options).arguments
    except TypeError:  # an argument is missing, which Python's error says
        return ""
    hints = _hints(function)
    for name, value in given.items():
        kind = signature.parameters[name].kind
        single = kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        if single and name in hints and (wrong := _misfit(value, hints[name], name)):
            return f"{_called(function, args)}: {wrong}"
    return ""


def refuse_misfits(factory: Callable[..., Any], options: Mapping[str, object], what: str) -> None:
    """Raise `InvalidInput` for the first option that does not fit its annotation.

    `factory` is a class, a function or a partial of one; `what` names it in the error.

    Examples
    --------
    >>> def double(times: float) -> float:
    ...     return 2 * times
    >>> refuse_misfits(double, {"times": "x"}, "function 'double'")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: times of function 'double' is 'x'; it must be float
    """
    hints = _hints(factory.func if isinstance(factory, partial) else factory)
    for name, value in options.items():
        if wrong := _misfit(value, hints.get(name, object), f"{name} of {what}"):
            raise InvalidInput(wrong)


def _misfit(value: object, hint: Any, name: str) -> str:
    """Describe a value, or an attribute of a description in it, that does not fit.

    "": all fit.
    """
    if not fits(value, hint):
        return f"{name} is {shown(value)}; it must be {_spelled(hint)}"
    if isinstance(value, list | tuple):
        parts: Iterable[tuple[str, object]] = ((f"{name}[{i}]", x) for i, x in enumerate(value))
    elif isinstance(value, dict):
        parts = ((f"{name}[{shown(key)}]", x) for key, x in value.items())
    else:
        parts = ((name, value),)
    found = (_misfit_attribute(part, where) for where, part in islice(parts, _ELEMENTS))
    return next(filter(None, found), "")


def _misfit_attribute(value: object, name: str) -> str:
    if _DESCRIPTIONS.isdisjoint(type(value).__mro__):
        return ""
    hints = _hints(type(value))
    listed = fields(value)  # type: ignore[arg-type]  # those described here are dataclasses
    given = ((f, getattr(value, f.name)) for f in listed if f.init)
    found = (_misfit(x, hints[f.name], f"{name}.{f.name}") for f, x in given if x is not f.default)
    return next(filter(None, found), "")


def _hints(of: Callable[..., Any] | type) -> dict[str, Any]:
    """Return the annotations; a name that is imported for types only is imported now."""
    names: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(of, localns=names)
        except NameError as error:
            if error.name is None or error.name in names:
                return {}
            names[error.name] = _imported_for_types(of.__module__, error.name)


def _imported_for_types(module: str, name: str) -> Any:
    """Return what a module imports under a name.

    If that is not known, return object, which every value fits.
    """
    with suppress(ImportError, AttributeError, KeyError, OSError, TypeError):  # e.g. no source
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
                return getattr(import_module(str(node.module)), name)
    return object


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type, as far as visible from outside.

    Examples
    --------
    >>> fits(1, float), fits("1", float), fits(["a"], list[int] | None), fits(None, int | None)
    (True, False, False, True)
    """
    if hint in (Any, object, ArrayLike) or isinstance(hint, TypeVar):
        return True
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if kind is Literal:
        return any(value is part or (isinstance(value, str) and value == part) for part in parts)
    if kind is None:
        return _is_a(value, hint)
    return _is_a(value, kind) and _elements_fit(value, parts)


def _spelled(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(_spelled, get_args(hint)))
    if hint is NoneType:
        return "None"
    return hint.__name__ if get_origin(hint) is None and hasattr(hint, "__name__") else str(hint)


def _elements_fit(value: object, parts: tuple[Any, ...]) -> bool:
    if isinstance(value, Mapping) and len(parts) == 2:
        pairs = islice(value.items(), _ELEMENTS)
        return all(fits(key, parts[0]) and fits(entry, parts[1]) for key, entry in pairs)
    alike = len(parts) == 1 or parts[1:] == (...,)
    if alike and isinstance(value, list | tuple | str | bytes | dict):
        return all(fits(entry, parts[0]) for entry in islice(value, _ELEMENTS))
    if isinstance(value, tuple):
        return len(value) == len(parts) and all(map(fits, value, parts))
    return True


def _is_a(value: object, kind: Any) -> bool:
    if kind in _TESTS:
        return _TESTS[kind](value)
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be checked at run time
        return True
