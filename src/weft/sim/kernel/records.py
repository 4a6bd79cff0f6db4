"""Record dtypes of the tables that compiled code reads and writes."""

from __future__ import annotations

import numpy as np


def record(floats: str, integers: str) -> np.dtype[np.void]:
    """Make a record dtype of named floats, then of named integers, 64 bits each.

    Examples
    --------
    >>> record("start finish", "device").names
    ('start', 'finish', 'device')
    """
    return np.dtype(
        [
            *((name, np.float64) for name in floats.split()),
            *((name, np.int64) for name in integers.split()),
        ]
    )
