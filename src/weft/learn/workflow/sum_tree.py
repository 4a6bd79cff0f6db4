"""Prioritized replay's memory of priorities: a sum tree, compiled (Schaul, Quan, Antonoglou and Silver 2016, appendix B.2.1)."""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit_noalloc


class SumTree:
    """Draws places in proportion to their priority.

    Examples
    --------
    >>> tree = SumTree(4)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.draw(np.array([0.1, 0.3, 0.9])).tolist()  # 0.4, 1.2 and 3.6 of 4
    (4.0, [0, 2, 2])
    """

    def __init__(self, size: int) -> None:
        self.leaves = 1 << max(size - 1, 0).bit_length()
        self._sum = np.zeros(2 * self.leaves)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._sum[1])

    def set(self, places: IntArray, priorities: FloatArray) -> None:
        """Give places new priorities."""
        _set(self._sum, self.leaves, places.astype(np.int64), priorities.astype(np.float64))

    def draw(self, shares: FloatArray) -> IntArray:
        """The place where each share (0 to 1) of the total falls."""
        places = np.empty(len(shares), np.int64)
        _draw(self._sum, self.leaves, shares.astype(np.float64), places)
        return places

    def priority(self, places: IntArray) -> FloatArray:
        """Of some places."""
        found: FloatArray = self._sum[places + self.leaves]
        return found


@njit_noalloc
def _set(tree: FloatArray, leaves: int, places: IntArray, priorities: FloatArray) -> None:
    for k in range(len(places)):
        node = places[k] + leaves
        tree[node] = priorities[k]
        node //= 2
        while node >= 1:  # anew from its children: differences would add up rounding errors
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2


@njit_noalloc
def _draw(tree: FloatArray, leaves: int, shares: FloatArray, places: IntArray) -> None:
    for k in range(len(shares)):
        left, node = shares[k] * tree[1], 1
        while node < leaves:
            node *= 2
            if left >= tree[node] and tree[node + 1] > 0.0:
                left -= tree[node]
                node += 1
        places[k] = node - leaves
