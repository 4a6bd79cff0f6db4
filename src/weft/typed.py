"""`typed`: a public function explains its failure by the argument that is of the wrong type.

Arguments are compared with their annotations only after a failure: a call that succeeds costs
nothing, and what works without being of the annotated type keeps working.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from numpy import bool_
from numpy.typing import ArrayLike

from weft.arguments import shown
from weft.errors import InvalidInput, WeftError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_FAILURES = (AttributeError, OverflowError, TypeError, ValueError)
_TESTS: dict[Any, Callable[[Any], bool]] = {
    None: lambda value: value is None,
    NoneType: lambda value: value is None,
    bool: lambda value: isinstance(value, bool | bool_),
    int: lambda value: hasattr(value, "__index__") and not isinstance(value, bool | type),
    float: lambda value: hasattr(value, "__float__") and not isinstance(value, bool | type),
    Callable: callable,
}
_ELEMENTS = 1000
"""Elements of a list that are compared with its annotation."""


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Raise `InvalidInput` where the function fails and an argument is not of its annotated type.

    Examples
    --------
    >>> @typed
    ... def double(times: float) -> float:
    ...     return 2 * times.__float__()
    >>> double("x")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: double: times is 'x'; it must be float
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except WeftError:
            raise
        except _FAILURES as error:
            if wrong := _wrong_argument(function, args, options):
                raise InvalidInput(wrong) from error
            raise

    return call


def typed_class(cls: type[T]) -> type[T]:
    """Make the constructor of a class a `typed` function."""
    cls.__init__ = typed(cls.__init__)  # type: ignore[method-assign]
    return cls


def _wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> str:
    """Describe the first argument that does not fit its annotation; "": all do."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **options).arguments
        hints = get_type_hints(function)
    except (NameError, TypeError):  # an argument is missing or unknown, which Python's error says
        return ""
    for name, value in given.items():
        parameter = signature.parameters[name]
        single = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if single and name in hints and not fits(value, hints[name]):
            what = f"{function.__qualname__.removesuffix('.__init__')}: {name} is {shown(value)}"
            return f"{what}; it must be {_spelled(hints[name])}"
    return ""


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type, as far as can be seen from outside.

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
