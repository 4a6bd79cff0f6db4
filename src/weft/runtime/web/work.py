"""The functions that workers call: registered functions, kept results.

They are apart from `documents`, so that workers do not import the readers of formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from weft.runtime.backends.calls import name_of
from weft.runtime.backends.local.worker import Chosen

MAX_RESULT = 1 << 20
"""Bytes of JSON that the result of a task may have."""


class JsonFunction:
    """A registered function whose result is stored and sent to clients as JSON.

    Examples
    --------
    >>> JsonFunction(max)(1, 2)
    2
    >>> JsonFunction(set)()
    Traceback (most recent call last):
    TypeError: set returned a set; a task must return what JSON can hold
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = name_of(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and check its result."""
        result = self.function(*args, **kwargs)
        value = result.value if isinstance(result, Chosen) else result
        try:
            size = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise TypeError(
                f"{self.__name__} returned a {type(value).__name__}; a task must return what JSON "
                "can hold"
            ) from None
        if size > MAX_RESULT:
            raise ValueError(
                f"{self.__name__} returned {size} bytes of JSON; at most {MAX_RESULT} are kept: "
                "write large data to a file and return its name"
            )
        return result


def kept(*_: Any, value: Any, branches: Sequence[str | int] = ()) -> Any:
    """Return the result that a task had before the server was started again."""
    return Chosen(tuple(branches), value) if branches else value
