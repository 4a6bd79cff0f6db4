"""Placement at the end of a device, task by task, compiled: MCT, MET and OLB (Maheswaran et al. 1999, section 3)."""

from __future__ import annotations

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import IntArray
from weft.planners.lists.insertion import Rows, arrivals, durations_of, empty_rows
from weft.sim.kernel.jit import njit

COMPLETION, EXECUTION, AVAILABLE = range(3)
"""What makes a device the best: the soonest finish, the shortest duration, being free soonest."""


@njit
def append_in_order(a: ProblemArrays, order: IntArray, aim: int) -> Rows:
    """Put each task in turn at the end of the device that is best for it; the lower number among equals."""
    n, p = len(a.work), a.pace.shape[1]
    rows, free_from = empty_rows(n), np.zeros(p)
    ready, seconds = np.empty(p), np.empty(p)
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        best, device = np.inf, -1
        for d in range(p):
            if seconds[d] < np.inf:
                value = max(ready[d], free_from[d]) + seconds[d]
                if aim == EXECUTION:
                    value = seconds[d]
                elif aim == AVAILABLE:
                    value = free_from[d]
                if value < best:
                    best, device = value, d
        rows.device[task], rows.start[task] = device, max(ready[device], free_from[device])
        rows.finish[task] = rows.start[task] + seconds[device]
        free_from[device] = rows.finish[task]
    return rows
