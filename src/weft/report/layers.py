"""Layout of a layered graph: order in layers against crossings, then positions.

The layered method of Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical
System Structures", IEEE Trans. SMC 11(2), 1981): edges that pass a layer get a bend there, layers
are sorted by the mean place of their neighbours (barycentre), up and down in turn, and the order
with the fewest crossings is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

SWEEPS = 12
BENDS_UP_TO = 3000
"""With more bends than this, long edges are drawn straight, to save time."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions: `place[v]` across the layers, and the nodes and bends of each edge."""

    layers: list[list[int]]
    layer_of: list[int]
    place: np.ndarray
    paths: list[list[int]]
    nodes: int

    @property
    def height(self) -> float:
        """Extent across the layers."""
        return float(self.place.max() - self.place.min()) + 1.0 if len(self.place) else 1.0


def lay_out(levels: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layout:
    """Order and place nodes on their levels; edges go from lower to higher levels.

    Examples
    --------
    >>> crossed = lay_out([0, 0, 1, 1], [(0, 3), (1, 2)])
    >>> crossings(crossed.layers, crossed.paths)
    0
    """
    layer_of = list(levels)
    paths, links = _with_bends(layer_of, edges)
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for v, layer in enumerate(layer_of):
        layers[layer].append(v)
    before: list[list[int]] = [[] for _ in layer_of]
    after: list[list[int]] = [[] for _ in layer_of]
    for u, v in links:
        after[u].append(v)
        before[v].append(u)
    layers = _ordered(layers, before, after, paths)
    place = _placed(layers, before, after, bends_from=len(levels))
    return Layout(layers, layer_of, place, paths, len(levels))


def in_rows(rows: Sequence[int], levels: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes in given rows; edges go straight, since nothing may be reordered.

    Examples
    --------
    >>> in_rows([1, 0], [0, 1], [(0, 1)]).place.tolist()
    [1.0, 0.0]
    """
    layers: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for v, layer in enumerate(levels):
        layers[layer].append(v)
    place = np.asarray(rows, np.float64)
    return Layout(layers, list(levels), place, [[u, v] for u, v in edges], len(levels))


def crossings(layers: list[list[int]], paths: list[list[int]]) -> int:
    """Count the pairs of edges between neighbouring layers that cross."""
    position = {v: i for layer in layers for i, v in enumerate(layer)}
    layer_of = {v: k for k, layer in enumerate(layers) for v in layer}
    between: dict[int, list[tuple[int, int]]] = {}
    for path in paths:
        for u, v in pairwise(path):
            between.setdefault(layer_of[u], []).append((position[u], position[v]))
    return sum(_inversions(pairs) for pairs in between.values())


def _inversions(pairs: list[tuple[int, int]]) -> int:
    """Count pairs out of order, with a Fenwick tree (Barth, Mutzel and Juenger 2004)."""
    ends = [v for _, v in sorted(pairs)]
    size = max(ends, default=-1) + 1
    tree, crossed = [0] * (size + 1), 0
    for seen, end in enumerate(ends):
        at, upto = end + 1, 0
        while at > 0:
            upto += tree[at]
            at -= at & -at
        crossed += seen - upto
        at = end + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return crossed


def _with_bends(
    layer_of: list[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    needed = sum(layer_of[v] - layer_of[u] - 1 for u, v in edges)
    paths, links = [], []
    for u, v in edges:
        path = [u]
        if needed <= BENDS_UP_TO:
            for layer in range(layer_of[u] + 1, layer_of[v]):
                layer_of.append(layer)
                path.append(len(layer_of) - 1)
        path.append(v)
        paths.append(path)
        links += list(pairwise(path))
    return paths, links


def _ordered(
    layers: list[list[int]], before: list[list[int]], after: list[list[int]], paths: list[list[int]]
) -> list[list[int]]:
    now = [list(layer) for layer in layers]
    best, fewest = now, crossings(now, paths)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        now = _swept(now, before if sweep % 2 == 0 else after, down=sweep % 2 == 0)
        count = crossings(now, paths)
        if count < fewest:
            best, fewest = now, count
    return best


def _swept(layers: list[list[int]], neighbours: list[list[int]], *, down: bool) -> list[list[int]]:
    made = [list(layer) for layer in layers]
    position = {v: float(i) for layer in made for i, v in enumerate(layer)}
    for k in range(len(made)) if down else reversed(range(len(made))):
        mean = {v: _mean([position[u] for u in neighbours[v]], position[v]) for v in made[k]}
        made[k] = [v for _, _, v in sorted((mean[v], position[v], v) for v in made[k])]
        position |= {v: float(i) for i, v in enumerate(made[k])}
    return made


def _placed(
    layers: list[list[int]], before: list[list[int]], after: list[list[int]], *, bends_from: int
) -> np.ndarray:
    """Pull every node towards the mean of its neighbours, keeping order and distance."""
    place = np.zeros(len(before))
    for layer in layers:
        place[layer] = np.arange(len(layer)) - (len(layer) - 1) / 2
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wish = np.array(
                [
                    _mean([float(place[u]) for u in (*before[v], *after[v])], float(place[v]))
                    for v in layer
                ]
            )
            size = np.array([0.45 if v >= bends_from else 1.0 for v in layer])
            offset = np.concatenate(([0.0], np.cumsum((size[1:] + size[:-1]) / 2)))
            place[layer] = _monotone(wish - offset) + offset
    return place


def _monotone(wish: np.ndarray) -> np.ndarray:
    """Return the closest non-decreasing numbers, by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in wish.tolist():
        mean, count = float(value), 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    return np.repeat([mean for mean, _ in pools], [count for _, count in pools])


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
