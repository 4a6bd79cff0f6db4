"""Read mutated files and collect what is neither an object nor one clear line."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.seeds.corpus import seeds
from tests.fuzz.seeds.seed import Seed
from tests.fuzz.soundness import refuse_unsound
from weft.errors import WeftError

SHARED = Path("/dev/shm")
LONGEST = 600
MOST_SECONDS = 2.0
MOST_KILOBYTES = 500_000
HANGS = 60.0
"""Seconds of processor time after which a reader is interrupted."""
DEEP_EVERY = 5
FILES = 2000
"""Mutated files of a reader in the tests; fewer where reading one takes long (`Seed.share`)."""


def failures_of_mutations(name: str, seed: Seed, count: int = FILES) -> list[str]:
    """Read the sound file, which must be accepted, then mutated ones; return their failures."""
    with in_memory() as folder:
        path = folder / f"sound{seed.suffix}"
        for suffix, content in seed.beside:
            path.with_suffix(suffix).write_bytes(content)
        path.write_bytes(seed.content)
        seed.read(path)
        return failures(name, seed, count, folder, deep_every=4 * DEEP_EVERY)


def failures(
    name: str, seed: Seed, count: int, folder: Path, *, first: int = 0, deep_every: int = DEEP_EVERY
) -> list[str]:
    """Read `count` mutated files of a seed; return a line for each that fails.

    One in `deep_every` of the accepted objects is written, read again, planned and simulated.
    """
    path = folder / f"x{seed.suffix}"
    for suffix, content in seed.beside:
        path.with_suffix(suffix).write_bytes(content)
    found = []
    for number in range(first, first + max(1, round(seed.share * count))):
        path.write_bytes(made(name, seed, number))
        deep = number % deep_every == 0
        if trouble := verdict(seed, path, deep=deep):
            found.append(f"{name} {number}: {trouble}")
    return found


def verdict(seed: Seed, path: Path, *, deep: bool = True) -> str | None:
    """Return what `attempt` says; what takes long once more: it may have compiled kernels."""
    trouble = attempt(seed, path, deep=deep)
    return attempt(seed, path, deep=deep) if trouble and "takes" in trouble else trouble


def piece_of_work(
    piece: tuple[str, int, int], *, keep: Path | None = None
) -> tuple[tuple[str, int, int], int, list[str]]:
    """Read (reader, first number, count) files; return the piece, the files read and failures."""
    name, first, count = piece
    seed = corpus()[name]
    with in_memory() as place:
        lines = failures(name, seed, count, place, first=first)
    for line in lines if keep is not None else ():
        number = int(line.removeprefix(name).split(":")[0])
        keep.mkdir(parents=True, exist_ok=True)
        file = f"{name.replace(' ', '_')}--{number}{seed.suffix}"
        (keep / file).write_bytes(made(name, seed, number))
    return piece, max(1, round(seed.share * count)), lines


@contextmanager
def in_memory() -> Iterator[Path]:
    """Give a temporary folder in memory: a file on disk takes longer to write than to read."""
    with tempfile.TemporaryDirectory(dir=SHARED if os.access(SHARED, os.W_OK) else None) as place:
        yield Path(place)


@cache
def corpus() -> dict[str, Seed]:
    """Return the seeds; making them takes as long as reading some hundred files."""
    with tempfile.TemporaryDirectory() as place:
        return seeds(Path(place))


def made(name: str, seed: Seed, number: int) -> bytes:
    """Return the mutated content of a number; the same for the same name and number."""
    return mutated(seed.content, seed.suffix, random.Random(f"{name} {number}"))


def attempt(seed: Seed, path: Path, *, deep: bool = True) -> str | None:
    """Read one file; return what went wrong, or None. `deep`: also use what was read."""
    before, begin = _memory("VmRSS"), time.process_time()
    _RESET.write_text("5")
    with warnings.catch_warnings(), _time_limit():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # weft's own, for the user
        try:
            longest = LONGEST
            read = seed.read(path)
            longest = 10**9  # what is used later may have names of any length
            if deep:
                refuse_unsound(read, path.parent)
        except WeftError as error:
            message = str(error)
            if not message.isprintable() or len(message) > longest:
                return f"a message that is no plain line: {message[:200]!r}"
        except Exception as error:  # noqa: BLE001  # the very thing that is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error!s:.200}"
    if (took := time.process_time() - begin) > MOST_SECONDS:
        return f"takes {took:.1f} s"
    if (more := _memory("VmHWM") - before) > MOST_KILOBYTES:
        return f"takes {more // 1000} MB"
    return None


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise a TimeoutError in what does not end by itself."""
    old = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, old)


def _give_up(*_: object) -> None:
    raise TimeoutError(f"takes more than {HANGS:g} s of processor time")


def _memory(key: str) -> int:
    """Return the memory of this process in kilobytes; VmHWM: the most since the last reset."""
    found = _STATUS.read_text().partition(f"{key}:")[2]
    return int(found.split(maxsplit=1)[0])


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
