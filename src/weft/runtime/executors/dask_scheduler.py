"""`weft.get`: Dask's collections computed by weft, on its local processes."""

from __future__ import annotations

from typing import Any


def get(graph: Any, keys: Any, *, num_workers: int | None = None, **options: Any) -> Any:
    """Compute keys of a Dask graph: ``dask.config.set(scheduler=weft.get)``.

    The graph is planned as a whole, with the durations of earlier computations.

    Parameters
    ----------
    graph : a Dask graph
    keys : a key, or nested lists of keys
    num_workers : number of processes; default: one per processor core and per GPU
    options : options of `weft.run`, e.g. `devices`, `policy`, `history`

    Examples
    --------
    >>> get({"x": 1, "y": (max, "x", 2)}, ["y", ["x"]], num_workers=1, history=False)
    (2, (1,))
    """
    from weft.runtime.api import run
    from weft.runtime.inputs.dask_graph import from_graph

    if num_workers is not None:
        options.setdefault("devices", num_workers)
    return run(from_graph(graph, keys), **options).results["result"]
