"""The one door to numba: every compiled function of weft is decorated here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, register

F = TypeVar("F", bound=Callable[..., Any])


class _Notice(Listener):
    """Tells the user, once, why nothing seems to happen: a kernel that is not in the cache is being compiled."""

    said = False

    def on_start(self, event: Event) -> None:  # noqa: ARG002
        """Say it on the first compilation of this process."""
        if not _Notice.said:
            print("weft: compiling kernels (once; later starts read the cache)", file=sys.stderr)
        _Notice.said = True

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _Notice())  # type: ignore[no-untyped-call]

# The GIL is released, so that threads can share the cores; fastmath stays off, so that results can be compared.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_LEAN = {**_OPTIONS, "_nrt": False}


def njit(function: F) -> F:
    """Compile on first use and keep the result on disk."""
    return cast("F", numba.njit(function, **_OPTIONS))


def lean(function: F) -> F:
    """Like `njit`, for functions that allocate nothing: without reference counting, calls that hand over many arrays cost a tenth."""
    return cast("F", numba.njit(function, **_LEAN))


def inline(function: F) -> F:
    """Like `lean`, compiled into every caller: for small functions of hot loops."""
    return cast("F", numba.njit(function, forceinline=True, **_LEAN))
