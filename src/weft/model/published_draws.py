"""Draws of a stream as a published simulator makes them.

The simulator is that of Debner, Krahn and Hirvisalo (2024). The numbers are the same: numpy's
global generator draws the gaps, and Python's generator one number for every task that a job visits.
"""

from __future__ import annotations

import random

import numpy as np

from weft.errors import Unsupported
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, in_ticks
from weft.model.workflow import ALWAYS


def draw_as_published(stream: ConditionalStream, seed: int) -> tuple[FloatArray, IntArray]:
    """Draw (jobs,) arrivals in ticks, sorted, and (jobs, choices) branches taken."""
    arrivals = stream.arrivals
    if arrivals.process != "normal":
        raise Unsupported(
            f"the authors' draws have normal gaps; '{stream.name}' has arrivals of process "
            f"'{arrivals.process}'"
        )
    gap, deviation = (in_ticks(x, stream.tick) for x in (arrivals.gap, arrivals.deviation))
    gaps = np.random.RandomState(seed).normal(gap, deviation, stream.jobs)
    arrival = np.maximum(np.cumsum(gaps), 0.0)
    share = stream.probabilities(arrival * stream.tick, seed)
    after = _tasks_after_branches(stream)
    rng = random.Random(seed)
    outcome = np.zeros((stream.jobs, len(stream.drift)), np.int64)
    for j in range(stream.jobs):
        task = 0
        while task >= 0:
            choice, branches = after[task]
            # The last task draws, too: its one branch leads out of the workflow.
            weights = share[choice][j].tolist() if choice >= 0 else [1.0]
            taken = rng.choices(range(len(branches)), weights=weights)[0]
            if choice >= 0:
                outcome[j, choice] = taken
            task = branches[taken]
    order = np.argsort(arrival, kind="stable")
    return arrival[order], outcome[order]


def _tasks_after_branches(stream: ConditionalStream) -> list[tuple[int, list[int]]]:
    """Return per task its choice (or -1) and the task after each branch (-1: none)."""
    w = stream.problem.workflow
    after = []
    for t in range(w.n):
        edges = range(int(w.succ_ptr[t]), int(w.succ_ptr[t + 1]))
        owned = np.flatnonzero(w.choices.task == t).tolist()
        choice = owned[0] if owned else ALWAYS
        branches = [-1] * (len(w.choices.branches(choice)) if owned else 1)
        for e in edges:
            branches[int(w.choices.edge_branch[e])] = int(w.dst[e])
        if (
            len(edges) > len(branches)
            or len(owned) > 1
            or any(int(w.choices.edge_choice[e]) != choice for e in edges)
        ):
            raise Unsupported(
                f"the authors' draws need one task of a job at a time; task '{w.task_name(t)}' "
                f"of '{stream.name}' leads to several"
            )
        after.append((choice, branches))
    if (np.diff(w.pred_ptr)[1:] == 0).any() or (w.n and w.pred_ptr[1] > 0):
        raise Unsupported(
            f"the authors' draws begin with the first task alone; in '{stream.name}' another one "
            "begins too"
        )
    return after
