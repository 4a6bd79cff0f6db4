"""Random graphs like those with published best makespans.

The distributions were inferred from the published files and notes: layered graphs with one entry
and one exit on 4 or 8 devices, related or unrelated costs of heterogeneity 0.5; and Cholesky, FFT
and Gauss graphs with unrelated costs of heterogeneity 1. Work is uniform from 10 to 190,
bandwidth from 0.5 to 1.5, data from 1 to 19 and then scaled to the CCR. A task has 1 to 3
children in the next layer and, with probability 0.4, one child two or three layers below; tasks
without a parent get one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.generators import generate
from weft.model import Problem
from weft.model.columns import IntArray
from weft.rng import generator

LONG_SHARE, REACH = 0.4, (2, 3)
"""Share of tasks with a child in a later layer, and its distance in layers."""


@dataclass(frozen=True)
class GraphRecipe:
    """Parameters of a graph; `alpha` is the width of a layered one."""

    shape: str
    tasks: int
    devices: int
    ccr: float
    related: bool = False
    heterogeneity: float = 1.0
    alpha: float = 1.0

    @property
    def name(self) -> str:
        """Shape, costs, size and CCR."""
        costs = "related" if self.related else "unrelated"
        return f"{self.shape}-{costs}-n{self.tasks}-P{self.devices}-ccr{self.ccr:g}"


RECIPES = (
    *(
        GraphRecipe("layered", tasks, devices, ccr, related, 0.5, alpha)
        for ccr, alpha in ((0.1, 1.0), (1.0, 0.7), (5.0, 1.5))
        for related in (True, False)
        for tasks, devices in ((20, 4), (50, 4), (100, 8))
    ),
    GraphRecipe("cholesky", 56, 4, 0.1),
    GraphRecipe("fft", 40, 4, 0.1),
    GraphRecipe("gauss", 35, 4, 1.0),
    GraphRecipe("cholesky", 56, 4, 5.0),
    GraphRecipe("fft", 40, 4, 5.0),
)
"""The published graphs, except the one of ten tasks from a paper."""


def draw_graph(recipe: GraphRecipe, seed: int) -> Problem:
    """Draw a graph.

    Examples
    --------
    >>> problem = draw_graph(RECIPES[1], seed=5)
    >>> problem.n, problem.p, int(problem.workflow.level.max()) + 1
    (50, 4, 9)
    """
    rng = generator(seed, "twins", recipe.name)
    edges = (
        layered_edges(recipe.tasks, recipe.alpha, rng)
        if recipe.shape == "layered"
        else known_edges(recipe.shape)
    )
    n, p, h = recipe.tasks, recipe.devices, recipe.heterogeneity
    work = rng.uniform(10.0, 190.0, n)
    factor = rng.uniform(1 - h / 2, 1 + h / 2, (n, p))
    cost = (
        work[:, None] / rng.uniform(1 - h / 2, 1 + h / 2, p)
        if recipe.related
        else work[:, None] * factor
    )
    upper = np.triu(rng.uniform(0.5, 1.5, (p, p)), 1)
    bandwidth = upper + upper.T
    between = ~np.eye(p, dtype=bool)
    data = rng.uniform(1.0, 19.0, len(edges))
    data *= recipe.ccr * cost.mean() / (data.mean() * (1.0 / bandwidth[between]).mean())
    np.fill_diagonal(bandwidth, 1.0)
    return Problem.from_arrays(cost, edges, data, bandwidth=bandwidth, name=f"{recipe.name}-{seed}")


def layered_edges(tasks: int, alpha: float, rng: np.random.Generator) -> IntArray:
    """Return (m, 2) edges of a layered graph with one entry and one exit."""
    layers = _layers(tasks, alpha, rng)
    edges: set[tuple[int, int]] = set()
    for i, layer in enumerate(layers[:-1]):
        following = layers[i + 1]
        for task in layer:
            count = len(following) if i == 0 else min(int(rng.integers(1, 4)), len(following))
            edges |= {(task, int(child)) for child in rng.choice(following, count, replace=False)}
            further = i + int(rng.choice(REACH))
            if i > 0 and further < len(layers) and rng.random() < LONG_SHARE:
                edges.add((task, int(rng.choice(layers[further]))))
        for child in sorted(set(following) - {b for _, b in edges}):  # not drawn as a child
            edges.add((int(rng.choice(layer)), child))
    return np.array(sorted(edges), np.int64)


def _layers(tasks: int, alpha: float, rng: np.random.Generator) -> list[list[int]]:
    """Return task numbers by layer; widths are 0.5 to 1.5 times alpha x sqrt(tasks)."""
    layers, mean, begin = [[0]], alpha * math.sqrt(tasks), 1
    while begin < tasks - 1:
        end = min(tasks - 1, begin + max(1, round(mean * float(rng.uniform(0.5, 1.5)))))
        layers.append(list(range(begin, end)))
        begin = end
    return [*layers, [tasks - 1]]


def known_edges(shape: str) -> IntArray:
    """Return (m, 2) edges of the classic graphs; the FFT of 8 points gets an exit."""
    sizes: dict[str, dict[str, int]] = {
        "cholesky": {"tiles": 6},
        "fft": {"levels": 3},
        "gauss": {"size": 8},
    }
    workflow = generate(shape, **sizes[shape])
    edges = np.column_stack([workflow.src, workflow.dst])
    last = np.setdiff1d(np.arange(workflow.n), workflow.src)
    if len(last) > 1:
        edges = np.concatenate([edges, np.column_stack([last, np.full(len(last), workflow.n)])])
    return edges
