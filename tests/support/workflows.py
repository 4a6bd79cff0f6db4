"""Small workflows for tests of runs."""

from __future__ import annotations

from itertools import pairwise

import weft


def fan(width=4, kind="add"):
    """Return one -> width x add -> total."""
    b = weft.WorkflowBuilder("fan")
    b.task("one", work=1.0, kind="one")
    b.task("total", work=1.0, kind="total")
    for k in range(width):
        b.task(f"a{k}", work=1.0, kind=kind)
        b.edge("one", f"a{k}")
        b.edge(f"a{k}", "total")
    return b.build()


def chain(*names):
    """Return the tasks in a row, each of its own kind."""
    b = weft.WorkflowBuilder("chain")
    for name in names:
        b.task(name, work=1.0, kind=name)
    for u, v in pairwise(names):
        b.edge(u, v)
    return b.build()
