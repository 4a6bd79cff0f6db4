"""Workflows of textbook shape.

Bags, trees, fork-join, pipelines, map-reduce, fast Fourier transform, Gaussian elimination.
"""

from __future__ import annotations

from weft.arguments import number, whole
from weft.generators.generators import register_sketch, tree_size
from weft.generators.sketch import Sketch


@register_sketch("bag", size="tasks", estimate=lambda tasks: tasks)
def bag(s: Sketch, *, tasks: int = 100, work: float = 1.0) -> None:
    """Independent tasks.

    Examples
    --------
    >>> bag(tasks=3).m
    0
    """
    for i in range(whole(tasks, "tasks")):
        s.task(f"task_{i}", "task", _work(work))


@register_sketch("fork_join", size="width", estimate=lambda width, stages: stages * (width + 1))
def fork_join(
    s: Sketch, *, width: int = 8, stages: int = 1, work: float = 1.0, data: float = 1e6
) -> None:
    """Parallel stages between synchronising tasks: stages * (width + 1) + 1 tasks.

    Examples
    --------
    >>> w = fork_join(width=3, stages=2)
    >>> w.n, w.m
    (9, 12)
    """
    stages, data = whole(stages, "stages"), number(data, "data")
    joint = s.task("sync_0", "sync", _work(work))
    for stage in range(stages):
        middle = [s.task(f"work_{stage}_{i}", "work", work) for i in range(whole(width, "width"))]
        after = s.task(f"sync_{stage + 1}", "sync", work)
        for task in middle:
            s.edge(joint, task, data)
            s.edge(task, after, data)
        joint = after


@register_sketch("pipeline", size="items", estimate=lambda items, stages: items * stages)
def pipeline(
    s: Sketch,
    *,
    items: int = 10,
    stages: int = 5,
    ordered: bool = True,
    work: float = 1.0,
    data: float = 1e6,
) -> None:
    """Items that pass through stages; an `ordered` stage takes one item at a time.

    Examples
    --------
    >>> w = pipeline(items=3, stages=2)
    >>> w.n, w.m, pipeline(items=3, stages=2, ordered=False).m
    (6, 7, 3)
    """
    stages, data = whole(stages, "stages"), number(data, "data")
    above: list[int] = []
    for i in range(whole(items, "items")):
        row = [s.task(f"stage{k}_{i}", f"stage{k}", _work(work)) for k in range(stages)]
        for k in range(1, stages):
            s.edge(row[k - 1], row[k], data)
        if ordered:
            for before, after in zip(above, row, strict=False):
                s.edge(before, after, data)
        above = row


@register_sketch("map_reduce", size="maps", estimate=lambda maps, reduces: maps * reduces)
def map_reduce(
    s: Sketch, *, maps: int = 20, reduces: int = 5, work: float = 1.0, data: float = 1e6
) -> None:
    """Split, map, shuffle to every reducer, merge: maps + reduces + 2 tasks.

    Examples
    --------
    >>> w = map_reduce(maps=3, reduces=2)
    >>> w.n, w.m  # 3 + 3 * 2 + 2 edges
    (7, 11)
    """
    data = number(data, "data")
    split = s.task("split", "split", _work(work))
    mappers = [s.task(f"map_{i}", "map", work) for i in range(whole(maps, "maps"))]
    reducers = [s.task(f"reduce_{j}", "reduce", work) for j in range(whole(reduces, "reduces"))]
    merge = s.task("merge", "merge", work)
    for mapper in mappers:
        s.edge(split, mapper, data)
        for reducer in reducers:
            s.edge(mapper, reducer, data / len(reducers))
    for reducer in reducers:
        s.edge(reducer, merge, data)


@register_sketch("out_tree", size="depth", estimate=tree_size)
def out_tree(
    s: Sketch, *, depth: int = 4, arity: int = 2, work: float = 1.0, data: float = 1e6
) -> None:
    """A tree that spreads from its root, `depth` levels of tasks.

    Examples
    --------
    >>> out_tree(depth=3, arity=2).n
    7
    """
    _tree(s, depth, arity, work, data, inward=False)


@register_sketch("in_tree", size="depth", estimate=tree_size)
def in_tree(
    s: Sketch, *, depth: int = 4, arity: int = 2, work: float = 1.0, data: float = 1e6
) -> None:
    """A tree that gathers into its root (a reduction), `depth` levels of tasks.

    Examples
    --------
    >>> w = in_tree(depth=3, arity=3)
    >>> w.n, int(w.level.max())
    (13, 2)
    """
    _tree(s, depth, arity, work, data, inward=True)


@register_sketch(
    "fft", size="levels", estimate=lambda levels: tree_size(levels, 2) * (levels + 2), sigma=0.0
)
def fft(s: Sketch, *, levels: int = 4, work: float = 1.0, data: float = 1e6) -> None:
    """The fast Fourier transform of 2**levels points.

    See Topcuoglu et al. (2002), section 5.3.2. With m points: a binary tree of 2m - 1 recursive
    calls, then m * log2(m) butterfly tasks.

    Examples
    --------
    >>> w = fft(levels=2)  # 2 * 4 - 1 + 4 * 2
    >>> w.n
    15
    """
    levels, work, data = whole(levels, "levels"), _work(work), number(data, "data")
    row = _tree(s, levels + 1, 2, work, data, inward=False, kind="call")
    for level in range(levels):
        span = 1 << level
        below = [s.task(f"butterfly_{level}_{i}", "butterfly", work) for i in range(len(row))]
        for i, task in enumerate(below):
            s.edge(row[i], task, data)
            s.edge(row[i ^ span], task, data)
        row = below


@register_sketch("gauss", size="size", estimate=lambda size: size * (size + 1) // 2, sigma=0.0)
def gauss(s: Sketch, *, size: int = 5, block: int = 256) -> None:
    """Gaussian elimination by columns: (size**2 + size - 2) / 2 tasks.

    Step k prepares the pivot column and updates the size - k columns to its right. Columns are
    `block` wide; work counts operations (in 10**12), data bytes of the rest of a column in double
    precision. See Cosnard et al. (1988) and Topcuoglu et al. (2002), section 5.3.1.

    Examples
    --------
    >>> w = gauss(size=5)
    >>> w.n, int(w.level.max()) + 1
    (14, 8)
    """
    size, block = whole(size, "size", least=2), whole(block, "block")
    owner: dict[int, int] = {}
    for k in range(1, size):
        rows = (size - k + 1) * block
        pivot = s.task(f"pivot_{k}", "pivot", rows * block**2 / 1e12)
        if k > 1:
            s.edge(owner[k], pivot, rows * block * 8.0)
        for j in range(k + 1, size + 1):
            update = s.task(f"update_{k}_{j}", "update", 2 * rows * block**2 / 1e12)
            s.edge(pivot, update, rows * block * 8.0)
            if k > 1:
                s.edge(owner[j], update, rows * block * 8.0)
            owner[j] = update


def _work(work: float) -> float:
    return number(work, "work", above=True)


def _tree(
    s: Sketch, depth: int, arity: int, work: float, data: float, *, inward: bool, kind: str = "node"
) -> list[int]:
    """Add a full tree, level by level from the root; return its leaves."""
    depth, arity = whole(depth, "depth"), whole(arity, "arity")
    work, data = _work(work), number(data, "data")
    row = [s.task(f"{kind}_0_0", kind, work)]
    for level in range(1, depth):
        below = []
        for i, parent in enumerate(row):
            for c in range(arity):
                child = s.task(f"{kind}_{level}_{i * arity + c}", kind, work)
                s.edge(*((child, parent) if inward else (parent, child)), data)
                below.append(child)
        row = below
    return row
