"""Named generators of one seed: adding one never changes the numbers of another."""

from __future__ import annotations

import zlib

import numpy as np

from weft.arguments import valid_seed


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of a seed and names.

    Examples
    --------
    >>> generator(1, "noise").random() == generator(1, "noise").random()
    True
    >>> generator(1, "noise").random() == generator(1, "arrivals").random()
    False
    """
    key = [zlib.crc32(str(name).encode()) for name in names]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([valid_seed(seed), *key])))
