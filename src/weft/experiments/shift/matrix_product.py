"""Speed of matrix products on this machine's processor and accelerator, if any."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from weft.rng import generator

SIZES = (128, 256, 512, 1024)


def measure(sizes: Sequence[int] = SIZES, *, repeats: int = 3) -> list[dict[str, object]]:
    """Return best seconds and GFLOP/s of a float32 product, one row per size.

    Without an accelerator, its values are None.

    Examples
    --------
    >>> [row["size"] for row in measure([8], repeats=1)]
    [8]
    """
    rows: list[dict[str, object]] = []
    for size in sizes:
        a, b = (
            generator(size, name).standard_normal((size, size)).astype(np.float32)
            for name in ("left", "right")
        )
        cpu = _best(partial(np.matmul, a, b), repeats)
        there = _accelerated(a, b, repeats)
        rows.append(
            {
                "size": size,
                "cpu_seconds": cpu,
                "cpu_gflops": 2e-9 * size**3 / cpu,
                "accelerator_seconds": there,
                "accelerator_gflops": None if there is None else 2e-9 * size**3 / there,
            }
        )
    return rows


def _accelerated(a: np.ndarray, b: np.ndarray, repeats: int) -> float | None:
    """Return the seconds of the product alone, on a CUDA device if torch has one."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    left, right = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()

    def product() -> None:
        torch.matmul(left, right)
        torch.cuda.synchronize()

    return _best(product, repeats)


def _best(call: Callable[[], object], repeats: int) -> float:
    call()
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)
