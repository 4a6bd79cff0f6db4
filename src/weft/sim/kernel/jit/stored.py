"""Files of compiled kernels: in the user's cache and in the installation.

A wheel holds kernels compiled for x86-64-v3: the instructions of nearly every x86 processor since
2013 (psABI, section 3.1.1). Numba stores kernels under the name of the exact processor and would
not find these. Here they are looked up under the level, if this processor has all instructions of
the level.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import FunctionCache, IndexDataCacheFile

try:
    import fcntl
except ImportError:  # Windows: without locks, each of several processes compiles
    fcntl = None  # type: ignore[assignment]  # no such module there

# mypy: disable-error-code="no-untyped-call, misc, no-any-return"

LEVEL = "x86-64-v3"
FEATURES = ",".join(
    f"+{name}"
    for name in (
        *("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"),
        *("sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
    )
)
FOLDER = Path(__file__).with_name("compiled")
"""The kernels of the installation; absent in a clone."""

INTO = "WEFT_COMPILE_INTO"
"""Environment variable with the folder that receives new kernels; `weft compile --into` sets it."""


def level_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that compiles for the level, into a folder."""
    return {INTO: str(folder), "NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": FEATURES}


@cache
def has_level() -> bool:
    """Return whether this processor has all instructions of the level."""
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on some processors
        return False
    return all(features.get(name.removeprefix("+"), False) for name in FEATURES.split(","))


class KernelFile(IndexDataCacheFile):
    """The stored forms of one kernel."""

    def _load_index(self) -> dict[Any, str]:
        """Return the stored forms.

        There are none if the file names classes of another version of weft. Numba unpickles the
        index before it compares stamps, so a renamed class would raise.
        """
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}


class _Level:
    """Stands for numba's code generator in keys of stored kernels."""

    @staticmethod
    def magic_tuple() -> tuple[str, str, str]:
        """Return the target as numba writes it into keys."""
        return llvm.get_process_triple(), LEVEL, FEATURES


class KernelCache(FunctionCache):
    """The stored forms of a kernel: this user's first, then those of the installation."""

    def __init__(self, function: Callable[..., Any], stamp: str | None) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._lock_file = Path(self._cache_path, f"{base}.lock")
        self._installed: KernelFile | None = None
        if stamp is None:  # a function without a file follows numba's own rules
            return
        self._cache_file = KernelFile(self._cache_path, base, stamp)
        if INTO in os.environ:
            folder = Path(os.environ[INTO], function.__module__)
            folder.mkdir(parents=True, exist_ok=True)
            self._cache_file = KernelFile(str(folder), base, stamp)
        elif FOLDER.is_dir() and has_level():
            self._installed = KernelFile(str(FOLDER / function.__module__), base, stamp)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is not None or self._installed is None:
            return found
        data = self._installed.load(self._index_key(sig, _Level))
        return None if data is None else self._impl.rebuild(target_context, data)

    @contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Keep other processes from this kernel.

        They wait, then load the forms that this process stores. There is no lock if the folder
        cannot be written, if the file system has no locks, or if the folder becomes part of a
        wheel.
        """
        with ExitStack() as stack:
            if fcntl and INTO not in os.environ:
                with suppress(OSError):
                    file = stack.enter_context(self._lock_file.open("ab"))
                    try:
                        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        on_wait()
                        fcntl.lockf(file, fcntl.LOCK_EX)
            yield
