"""The one door to numba: every compiled function of weft is decorated here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _say_once() -> None:
    """Tell the user, on a first run, why nothing seems to happen."""
    package = Path(__file__).parents[1]
    if next(package.rglob("*.nbi"), None) is None:
        print("weft: compiling kernels (once; later starts read the cache)", file=sys.stderr)


_say_once()

# The GIL is released, so that threads can share the cores; fastmath stays off, so that results can be compared.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_LEAN = {**_OPTIONS, "_nrt": False}


def njit(function: F) -> F:
    """Compile on first use and keep the result on disk.

    Examples
    --------
    >>> @njit
    ... def twice(x: float) -> float:
    ...     return x + x
    >>> twice(2.0)
    4.0
    """
    return cast("F", numba.njit(function, **_OPTIONS))


def lean(function: F) -> F:
    """Like `njit`, for functions that allocate nothing: without reference counting, calls that hand over many arrays cost a tenth."""
    return cast("F", numba.njit(function, **_LEAN))


def inline(function: F) -> F:
    """Like `lean`, compiled into every caller: for small functions of hot loops."""
    return cast("F", numba.njit(function, forceinline=True, **_LEAN))
