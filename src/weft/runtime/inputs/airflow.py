"""Priority weights of Airflow tasks: upward ranks in median seconds.

This module does not import Airflow; its plugin `airflow_plugin_weft` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement
from weft.runtime.inputs.snakemake import upward_ranks

DEVICE = "airflow"
"""Kind of device under which the history keeps tasks."""

PER_SECOND = 10
"""Weights are whole numbers: tenths of a second."""

MOST = 2**31 - 1
"""Largest weight that every database of Airflow stores."""


def kind_of(dag: str, task: str) -> str:
    """Return the name of a task's measurements."""
    return f"{dag}.{task}"


def learn_task(history: History, dag: str, task: str, seconds: float) -> None:
    """Add the duration of a task to the history."""
    if math.isfinite(seconds) and seconds >= 0.0:
        history.add([Measurement(kind_of(dag, task), DEVICE, seconds)])


def seconds_by_task(history: History, dag: str) -> dict[str, float]:
    """Return the median seconds of each task of a DAG that was measured."""
    head = kind_of(dag, "")
    return {
        known.kind.removeprefix(head): known.quartiles[1]
        for known in history.durations()
        if known.device == DEVICE and known.kind.startswith(head)
    }


def priority_weights(
    upstream: Mapping[str, Iterable[str]], seconds: Mapping[str, float]
) -> dict[str, int]:
    """Return each task's weight: tenths of a second to its last dependent's end.

    A task without seconds counts as the median of the others of the DAG, as 1 s if there are none.

    Examples
    --------
    >>> upstream = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    >>> priority_weights(upstream, {"a": 1.0, "b": 9.0, "c": 2.0, "d": 0.5})
    {'a': 105, 'b': 95, 'c': 25, 'd': 5}
    >>> priority_weights(upstream, {})
    {'a': 30, 'b': 20, 'c': 20, 'd': 10}
    """
    known = [seconds[task] for task in upstream if task in seconds]
    unknown = median(known) if known else 1.0
    ranks = upward_ranks(upstream, upstream.__getitem__, lambda task: seconds.get(task, unknown))
    return {task: min(max(1, round(PER_SECOND * rank)), MOST) for task, rank in ranks.items()}
