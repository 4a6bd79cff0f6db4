"""A tiled Cholesky factorisation by numpy and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def tile(i: int, j: int, size: int, tiles: int) -> Matrix:
    """Make a tile of a symmetric matrix with a dominant diagonal."""
    made = np.random.default_rng([i, j]).random((size, size))
    return (made + made.T) / 2 + size * tiles * np.eye(size) if i == j else made


def potrf(a: Matrix) -> Matrix:
    return np.linalg.cholesky(a)


def trsm(factor: Matrix, a: Matrix) -> Matrix:
    return np.ascontiguousarray(solve_triangular(factor, a.T, lower=True).T)


def syrk(a: Matrix, x: Matrix) -> Matrix:
    return a - x @ x.T


def gemm(a: Matrix, x: Matrix, y: Matrix) -> Matrix:
    return a - x @ y.T


def digest(a: Matrix) -> tuple[float, float]:
    return float(a.sum()), float(np.linalg.norm(a))


def collect(*digests: tuple[float, float]) -> list[tuple[float, float]]:
    return list(digests)


def cholesky(call: Any, scale: float = 1.0) -> Any:
    """Factorise a matrix of 6 x 6 tiles of 6.5 MB; its result has two numbers per tile."""
    tiles, size = (6, 900) if scale >= 1 else (4, max(8, round(1000 * scale)))
    a = {(i, j): call(tile, i, j, size, tiles) for i in range(tiles) for j in range(i + 1)}
    for k in range(tiles):
        a[k, k] = call(potrf, a[k, k])
        for i in range(k + 1, tiles):
            a[i, k] = call(trsm, a[k, k], a[i, k])
        for i in range(k + 1, tiles):
            a[i, i] = call(syrk, a[i, i], a[i, k])
            for j in range(k + 1, i):
                a[i, j] = call(gemm, a[i, j], a[i, k], a[j, k])
    return call(collect, *(call(digest, a[place]) for place in a))
