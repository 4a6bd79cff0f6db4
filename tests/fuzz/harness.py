"""Read mutated files and collect what is neither an object nor one clear line."""

from __future__ import annotations

import random
import resource
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from tests.fuzz.corpus import seeds
from tests.fuzz.mutations import mutated
from tests.fuzz.seed import Seed
from weft.errors import WeftError

LONGEST = 600
MOST_SECONDS = 2.0
MOST_KILOBYTES = 500_000


def failures(name: str, seed: Seed, count: int, folder: Path, *, first: int = 0) -> list[str]:
    """Read `count` mutated files of a seed; return a line for each that fails."""
    path = folder / f"x{seed.suffix}"
    for suffix, content in seed.beside:
        path.with_suffix(suffix).write_bytes(content)
    found = []
    for number in range(first, first + max(1, round(seed.share * count))):
        path.write_bytes(made(name, seed, number))
        if trouble := attempt(seed, path):
            found.append(f"{name} {number}: {trouble}")
    return found


def piece_of_work(
    piece: tuple[str, int, int], *, keep: Path | None = None
) -> tuple[str, int, list[str]]:
    """Read (reader, first number, count) files; return reader, count and failures."""
    name, first, count = piece
    with tempfile.TemporaryDirectory() as place:
        seed = seeds(Path(place))[name]
        lines = failures(name, seed, count, Path(place), first=first)
    for line in lines if keep is not None else ():
        number = int(line.removeprefix(name).split(":")[0])
        keep.mkdir(parents=True, exist_ok=True)
        file = f"{name.replace(' ', '_')}--{number}{seed.suffix}"
        (keep / file).write_bytes(made(name, seed, number))
    return name, max(1, round(seed.share * count)), lines


def made(name: str, seed: Seed, number: int) -> bytes:
    """Return the mutated content of a number; the same for the same name and number."""
    return mutated(seed.content, seed.suffix, random.Random(f"{name} {number}"))


def attempt(seed: Seed, path: Path) -> str | None:
    """Read one file; return what went wrong, or None."""
    peak, begin = _peak(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # weft's own, for the user
        try:
            seed.read(path)
        except WeftError as error:
            message = str(error)
            if not message.isprintable() or len(message) > LONGEST:
                return f"a message that is no plain line: {message[:200]!r}"
        except Exception as error:  # noqa: BLE001  # the very thing that is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error!s:.200}"
    if (took := time.process_time() - begin) > MOST_SECONDS:
        return f"takes {took:.1f} s"
    if (more := _peak() - peak) > MOST_KILOBYTES:
        return f"takes {more // 1000} MB"
    return None


def _peak() -> int:
    """Return the largest memory of this process so far, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
