"""Fewer garbage collections during a run, most of whose objects stay alive."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000
"""New objects after which Python collects garbage; Python's default is 700."""

_lock, _inside, _before = threading.Lock(), [0], [gc.get_threshold()]


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect garbage rarely; the last run that ends restores the threshold.

    Examples
    --------
    >>> before = gc.get_threshold()
    >>> with fewer_collections():
    ...     during = gc.get_threshold()
    >>> during[0] >= before[0], gc.get_threshold() == before
    (True, True)
    """
    with _lock:
        _inside[0] += 1
        if _inside[0] == 1:
            _before[0] = gc.get_threshold()
            first, *rest = _before[0]
            gc.set_threshold(max(first, OBJECTS) if first else 0, *rest)  # 0: switched off
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if _inside[0] == 0:
                gc.set_threshold(*_before[0])
