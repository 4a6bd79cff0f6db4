"""Waits for capacities of nodes: the execution whose end made room for another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.explain.causes import CAPACITY, CauseTable, ExecutionTable, events


class NodeUse(NamedTuple):
    """The executions of one node with what they take of its capacities."""

    rows: IntArray
    start: FloatArray
    finish: FloatArray
    need: FloatArray  # (rows, capacities)
    group: IntArray
    room: FloatArray  # (capacities,)

    def short(self, group: int, time: float) -> BoolArray:
        """Return (capacities,) whether a group lacked each capacity just before a time.

        It lacked a capacity if the other executions left too little of it.
        """
        own = self.group == group
        before = ~own & (self.start < time) & (self.finish >= time)
        need = self.need[own].sum(axis=0)
        found: BoolArray = (need > 0) & (self.need[before].sum(axis=0) + need > self.room)
        return found


def node_uses(table: ExecutionTable) -> list[NodeUse]:
    """Return the executions of every node whose tasks can wait for its capacities."""
    problems = table.workload.problems
    if not any(problem.contended for problem in problems):
        return []
    need = np.zeros((len(table), problems[0].needs.shape[1]))
    for here, problem in table.by_problem():
        need[here] = problem.needs[table.task[here]]
    node = table.workload.cluster.node[table.device]
    return [
        NodeUse(rows, table.start[rows], table.finish[rows], need[rows], table.group[rows], amounts)
        for k, amounts in enumerate(problems[0].room)
        if len(rows := np.flatnonzero(node == k))
    ]


def capacity_waits(table: ExecutionTable) -> CauseTable:
    """List, for each group, the last end on its node that gave it room."""
    row: list[int] = []
    source: list[int] = []
    for use in node_uses(table):
        ends = np.unique(use.finish)
        for group in np.unique(use.group).tolist():
            first = int(np.flatnonzero(use.group == group)[0])
            before = ends[ends <= use.start[first]]
            for time in before[::-1].tolist():
                short = use.short(group, time)
                if short.any():
                    ended = (use.finish == time) & (use.group != group)
                    freed = ended & (use.need[:, short] > 0).any(axis=1)
                    row += [int(use.rows[first])] * int(freed.sum())
                    source += use.rows[freed].tolist()
                    break
    rows, sources = np.array(row, np.int64), np.array(source, np.int64)
    return events(table, CAPACITY, rows, sources, table.finish[sources])


def short_names(table: ExecutionTable, group: int, time: float) -> str:
    """Name the capacities that a group waited for until a time, and their node."""
    cluster = table.workload.cluster
    for use in node_uses(table):
        if group in use.group:
            short = use.short(group, time)
            names = " and ".join(k for k, s in zip(cluster.capacity, short, strict=True) if s)
            return f"{names} of {cluster.nodes[int(table.device[use.rows[0]])]}"
    return ""
