"""Random layered DAGs: shape, density, regularity and jumps, in vectorised numpy.

The parameters are those of Topcuoglu, Hariri and Wu (2002, section 5.1: alpha, CCR) and of the
generator daggen (Suter: density, regularity, jump). The drawing is our own: whole columns at once.
"""

from __future__ import annotations

import math

import numpy as np

from weft.arguments import number, whole
from weft.generators.ccr import REFERENCE_BANDWIDTH
from weft.generators.generators import register_generator
from weft.generators.sketch import lognormal
from weft.model import Workflow
from weft.model.columns import FloatArray, IntArray
from weft.rng import generator


@register_generator("layered", size="tasks", estimate=lambda tasks, kinds: tasks + kinds)
def layered(
    *,
    tasks: int = 100,
    alpha: float = 1.0,
    density: float = 0.5,
    regularity: float = 0.5,
    jump: int = 1,
    max_parents: int = 8,
    ccr: float = 1.0,
    work: float = 1.0,
    sigma: float = 0.5,
    data_sigma: float = 0.5,
    kinds: int = 1,
    seed: int = 0,
) -> Workflow:
    """A random layered DAG.

    Parameters
    ----------
    tasks : number of tasks
    alpha : shape; a layer has alpha * sqrt(tasks) tasks on average: 0.5 is long, 2 is wide
    density : 0 to 1; a task has 1 to 1 + density * (width of the layer above) parents, each number
        equally likely
    regularity : 0 to 1; widths lie within the mean width times regularity to 2 - regularity: 1
        makes all layers equal
    jump : the first parent lies in the layer above, each further parent up to `jump` layers above,
        each distance as likely
    max_parents : the most parents of a task; it keeps the number of edges linear in the number of
        tasks
    ccr : mean transfer over mean duration, exactly, on devices of speed 1 and links of 1 GB/s (see
        `weft.generators.ccr`)
    work, sigma : mean of the log-normal work before drawing, and standard deviation of its
        logarithm; `data_sigma` that of the bytes
    kinds : number of task kinds, each as likely: "k0", "k1", ...

    Examples
    --------
    >>> w = layered(tasks=50, ccr=2.0, seed=1)
    >>> w.n, bool((w.src < w.dst).all()), round(float(w.data.mean() / w.work.mean()) / 1e9, 9)
    (50, True, 2.0)
    """
    tasks, kinds = whole(tasks, "tasks"), whole(kinds, "kinds")
    for option, value in {"sigma": sigma, "data_sigma": data_sigma, "ccr": ccr}.items():
        number(value, option)
    number(work, "work", above=True)
    widths = layer_widths(
        tasks, alpha=alpha, regularity=regularity, rng=generator(seed, "layered", "widths")
    )
    src, dst = _edges(
        widths,
        number(density, "density", high=1.0),
        whole(jump, "jump"),
        whole(max_parents, "max_parents"),
        seed,
    )
    units = work * lognormal(tasks, sigma, generator(seed, "layered", "work"))
    data = lognormal(len(src), data_sigma, generator(seed, "layered", "data"))
    return Workflow(
        name=f"layered-{tasks}",
        work=units,
        src=src,
        dst=dst,
        data=data * (ccr * units.mean() * REFERENCE_BANDWIDTH / data.mean()) if len(data) else data,
        kind=generator(seed, "layered", "kind").integers(0, kinds, tasks),
        kinds=tuple(f"k{k}" for k in range(kinds)),
    )


def layer_widths(
    tasks: int, *, alpha: float, regularity: float, rng: np.random.Generator
) -> IntArray:
    """Draw layers until they hold all tasks; the last one is cut.

    Examples
    --------
    >>> layer_widths(10, alpha=1.0, regularity=1.0, rng=generator(0))
    array([3, 3, 3, 1])
    """
    mean = number(alpha, "alpha", above=True) * math.sqrt(tasks)
    spread = 1.0 - number(regularity, "regularity", high=1.0)
    layers = np.zeros(0, np.int64)
    while layers.sum() < tasks:
        some = math.ceil(1.1 * tasks / max(mean, 1.0)) + 8
        factor = rng.uniform(1.0 - spread, 1.0 + spread, some)
        layers = np.concatenate((layers, np.maximum(1, np.rint(mean * factor)).astype(np.int64)))
    ends = np.cumsum(layers)
    last = int(np.searchsorted(ends, tasks))
    layers = layers[: last + 1]
    layers[last] -= ends[last] - tasks
    return layers


def _edges(
    widths: IntArray, density: float, jump: int, max_parents: int, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the edges to all tasks outside the first layer, each once, sorted."""
    n = int(widths.sum())
    begin = np.concatenate(([0], np.cumsum(widths)[:-1]))
    layer = np.repeat(np.arange(len(widths)), widths)
    child = np.arange(widths[0], n)
    above = widths[layer[child] - 1]
    parents = _parent_counts(above, density, max_parents, generator(seed, "layered", "parents"))
    dst = np.repeat(child, parents)
    rank = np.arange(len(dst)) - np.repeat(np.cumsum(parents) - parents, parents)
    up = np.ones(len(dst), np.int64)
    if jump > 1:
        reach = np.minimum(jump, layer[dst])
        up = np.where(rank == 0, 1, generator(seed, "layered", "jump").integers(1, reach + 1))
    from_layer = layer[dst] - up
    src = begin[from_layer] + _spread(rank, parents, widths[from_layer], child, seed)
    key = np.sort(src * np.int64(n) + dst)
    key = key[np.diff(key, prepend=-1) > 0]  # a parent in a narrow layer may be drawn twice
    return key // n, key % n


def _parent_counts(
    above: IntArray, density: float, max_parents: int, rng: np.random.Generator
) -> IntArray:
    most = np.minimum(
        1 + np.floor(density * above).astype(np.int64), np.minimum(above, max_parents)
    )
    drawn: IntArray = rng.integers(1, most + 1) if len(above) else most
    return drawn


def _spread(
    rank: IntArray, parents: IntArray, width: IntArray, child: IntArray, seed: int
) -> IntArray:
    """Return positions in a layer, one per equal strip.

    All strips of a task are rotated by one random angle. So its parents in one layer differ without
    repeated draws.
    """
    rng = generator(seed, "layered", "position")
    count = np.repeat(parents, parents)
    turn: FloatArray = np.repeat(rng.random(len(child)), parents)
    low, high = rank * width // count, (rank + 1) * width // count
    within = low + np.floor(rng.random(len(rank)) * np.maximum(high - low, 1)).astype(np.int64)
    return (within + np.floor(turn * width).astype(np.int64)) % width
