"""Decorators that compile the functions of weft, and the stamp of their code.

Compiled code is cached on disk. Numba reuses it as long as the file of the function is unchanged,
even if a function or constant that was compiled into it changed in another file. So the stamp
covers all files of weft that a module imports, also for functions of a user.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, register

from weft.sim.kernel.jit.kernel import Kernel

F = TypeVar("F", bound=Callable[..., Any])

EVERY = 5.0
"""Seconds between two lines about the progress of compiling."""


class Notice(Listener):
    """Notices that kernels are being compiled: at the start, then one per 5 seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.made, self.due = clock, 0, 0.0

    def on_start(self, event: Event | None) -> None:
        """Report the start before the first function of this process."""
        if not self.due:
            self._say("compiling kernels (once; later starts read the cache)")

    def on_end(self, event: Event | None) -> None:
        """Report how many functions are compiled, if the last line is old."""
        self.made += 1
        if self.clock() >= self.due:
            self._say(f"compiled {self.made} functions")

    def on_wait(self) -> None:
        """Report that another process compiles, if the last line is old."""
        if self.clock() >= self.due:
            self._say("waiting for another process that compiles the same kernel")

    def _say(self, text: str) -> None:
        print(f"weft: {text}", file=sys.stderr, flush=True)
        self.due = self.clock() + EVERY


_NOTICE = Notice()
register("numba:compile", _NOTICE)  # type: ignore[no-untyped-call]  # numba is not typed
Kernel.on_wait = _NOTICE.on_wait


def compiled() -> int:
    """Return the number of functions that this process has compiled."""
    return _NOTICE.made


# nogil: threads share the cores. No fastmath: results of twins are compared bit for bit.
_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "no_cfunc_wrapper": True,
}
_NOALLOC_OPTIONS = {**_OPTIONS, "_nrt": False}


def njit(function: F) -> F:
    """Compile on first use and keep the result on disk."""
    return _compiled(function, _OPTIONS)


def njit_noalloc(function: F) -> F:
    """Compile as `njit` does, for functions that allocate nothing.

    Without reference counting, calls with many arrays take a tenth of the time.
    """
    return _compiled(function, _NOALLOC_OPTIONS)


def njit_inline(function: F) -> F:
    """Compile as `njit_noalloc` does, into every caller: for small hot functions."""
    return _compiled(function, {"forceinline": True, **_NOALLOC_OPTIONS})


def _compiled(function: F, options: dict[str, Any]) -> F:
    if getattr(numba.config, "DISABLE_JIT", 0):
        return function
    return cast("F", Kernel(function, options, _stamp_of(function)))


# -- when the cache is out of date ----------------------------------------------

_IMPORT = re.compile(r"^\s*(?:from|import) +(weft[\w.]*)(?: +import +(\w+))?", re.MULTILINE)
_ROOT = Path(__file__).parents[4]


def _stamp_of(function: Callable[..., Any]) -> str | None:
    """Return the stamp of a function; None if it was typed in, so that no file has it."""
    if function.__module__.startswith("weft."):
        return stamp(function.__module__)
    file = Path(function.__code__.co_filename)
    if not file.is_file():
        return None
    own, imported = _contents(file)
    return _short_hash([own, *map(stamp, imported)])


@cache
def stamp(module: str) -> str:
    """Return a hash of the module and of every module of weft that it imports."""
    seen: dict[str, str] = {}
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen[name], imported = _read(name)
            ahead += imported
    return _short_hash(f"{name} {seen[name]}" for name in sorted(seen))


def _short_hash(lines: Iterable[str]) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """Return the hash and the weft imports of a module; nothing if it does not exist."""
    place = _ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return _contents(file) if file.is_file() else ("", ())


def _contents(file: Path) -> tuple[str, tuple[str, ...]]:
    """Return the hash and the weft imports of a file."""
    text = file.read_text(encoding="utf-8")
    found = _IMPORT.findall(text)
    return sha256(text.encode()).hexdigest(), tuple(
        name for first, second in found for name in (first, f"{first}.{second}")
    )
