"""Read mutated files and collect what is neither an object nor one clear line."""

from __future__ import annotations

import random
import traceback
import warnings
from pathlib import Path

from tests.fuzz.corpus import Seed
from tests.fuzz.mutations import mutated
from weft.errors import WeftError
from weft.formats.native.stream_toml import UnstableLoad

LONGEST = 600


def failures(name: str, seed: Seed, count: int, folder: Path, *, first: int = 0) -> list[str]:
    """Read `count` mutated files of a seed; return a line for each that fails."""
    path = folder / f"x{seed.suffix}"
    for suffix, content in seed.beside:
        path.with_suffix(suffix).write_bytes(content)
    found = []
    for number in range(first, first + count):
        content = mutated(seed.content, seed.suffix, random.Random(f"{name} {number}"))
        path.write_bytes(content)
        if trouble := attempt(seed, path):
            found.append(f"{name} {number}: {trouble}")
    return found


def attempt(seed: Seed, path: Path) -> str | None:
    """Read one file; return what went wrong, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnstableLoad)
        try:
            seed.read(path)
        except WeftError as error:
            message = str(error)
            if not message.isprintable() or len(message) > LONGEST:
                return f"a message that is no plain line: {message[:200]!r}"
        except Exception as error:  # noqa: BLE001  # the very thing that is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error!s:.200}"
    return None
