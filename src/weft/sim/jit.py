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


def njit(function: F) -> F:
    """Compile on first use, keep the result on disk, release the GIL; fastmath stays off, so that results can be compared.

    Examples
    --------
    >>> @njit
    ... def twice(x: float) -> float:
    ...     return x + x
    >>> twice(2.0)
    4.0
    """
    return cast("F", numba.njit(function, cache=True, nogil=True, error_model="numpy"))
