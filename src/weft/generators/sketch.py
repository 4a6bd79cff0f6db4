"""`Sketch`: a workflow of known shape, task by task; sizes are drawn at the end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.arguments import number
from weft.model import Workflow
from weft.model.columns import FloatArray
from weft.rng import generator


def lognormal(size: int, sigma: float, rng: np.random.Generator) -> FloatArray:
    """Return log-normal factors with mean 1; their logarithms deviate by `sigma`."""
    return np.exp(sigma * rng.standard_normal(size) - sigma * sigma / 2)


class Sketch:
    """Tasks and edges under construction; `finish` draws their sizes and freezes them.

    Examples
    --------
    >>> s = Sketch("pair")
    >>> first, second = s.task("load", "load", 1.0), s.task("use", "use", 2.0)
    >>> s.edge(first, second, 8.0)
    >>> s.finish().kinds
    ('load', 'use')
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._names: list[str] = []
        self._kinds: dict[str, int] = {}
        self._kind: list[int] = []
        self._work: list[float] = []
        self._output: list[float] = []
        self._edges: dict[tuple[int, int], float] = {}

    def task(
        self, name: str, kind: str, work: float, *, after: Iterable[int] = (), output: float = 0.0
    ) -> int:
        """Add a task behind others and return its number.

        `output`: bytes to each task behind it. Edges that `edge` adds have bytes of their own.
        """
        self._names.append(name)
        self._kind.append(self._kinds.setdefault(kind, len(self._kinds)))
        self._work.append(work)
        self._output.append(output)
        number = len(self._work) - 1
        for parent in after:
            self.edge(parent, number, self._output[parent])
        return number

    def edge(self, src: int, dst: int, data: float) -> None:
        """Add an edge; a second one between the same tasks adds to its bytes."""
        self._edges[src, dst] = self._edges.get((src, dst), 0.0) + data

    def drawn(self, *, sigma: float, seed: int) -> Workflow:
        """Return the workflow of a generator, with the work of tasks drawn."""
        return self.finish(sigma=sigma, seed=seed)

    def finish(self, *, sigma: float = 0.0, data_sigma: float = 0.0, seed: int = 0) -> Workflow:
        """Multiply work and data by log-normal factors with mean 1, and freeze."""
        n, m = len(self._work), len(self._edges)
        pairs = np.array(list(self._edges), np.int64).reshape(m, 2)
        by_pair = np.lexsort((pairs[:, 1], pairs[:, 0]))
        draw_work, draw_data = (
            generator(seed, self.name, "work"),
            generator(seed, self.name, "data"),
        )
        return Workflow(
            name=self.name,
            names=tuple(self._names),
            kinds=tuple(self._kinds) or ("task",),
            kind=np.array(self._kind, np.int64),
            work=np.array(self._work, float) * lognormal(n, number(sigma, "sigma"), draw_work),
            src=pairs[by_pair, 0],
            dst=pairs[by_pair, 1],
            data=np.array(list(self._edges.values()), float)[by_pair]
            * lognormal(m, number(data_sigma, "data_sigma"), draw_data),
        )
