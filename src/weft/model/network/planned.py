"""Transfers that a schedule implies, with the oracle's arithmetic."""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.model.network.rates import transfer_ends
from weft.model.network.transfers import Transfers
from weft.model.problem import Problem


def planned_transfers(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Transfers:
    """Return the transfers of a schedule without copies, all of it decided beforehand.

    A transfer begins when its parent ends. Transfers that begin at one time are in the order of
    devices and edges; those of tasks that take no time come last.
    """
    w, c = problem.workflow, problem.cluster
    row = np.full(problem.n, -1)
    row[task] = np.arange(len(task))
    sender, reader = row[w.src], row[w.dst]
    across = (sender >= 0) & (reader >= 0)
    across[across] = c.node[device[sender[across]]] != c.node[device[reader[across]]]
    edge = np.flatnonzero(across)
    sender, reader = sender[edge], reader[edge]
    order = np.lexsort((edge, device[sender], start[sender], finish[sender]))
    edge, sender, reader = edge[order], sender[order], reader[order]
    source, target, begin = device[sender], device[reader], finish[sender]
    return Transfers(
        job=np.zeros(len(edge), np.int64),
        edge=edge,
        source=source,
        target=target,
        begin=begin,
        end=transfer_ends(c, source, target, w.data[edge], begin),
    )
