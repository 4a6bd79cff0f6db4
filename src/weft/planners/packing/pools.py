"""Equal devices of a node as pools.

The number of free devices of a pool is one more capacity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Problem
from weft.model.columns import FloatArray, IntArray


class Pools(NamedTuple):
    """Equal devices of a node as pools, and their needs and capacities."""

    first: IntArray  # (pools,) one device of each pool
    node: IntArray  # (pools,)
    slot: IntArray  # (pools,) the capacity that counts its busy devices
    need: FloatArray  # (n, capacities) without the slots
    room: FloatArray  # (nodes, capacities + slots)
    latency: FloatArray  # (pools, pools)
    per_byte: FloatArray  # (pools, pools)


def pool_of_devices(problem: Problem) -> IntArray:
    """Return the pool (p,) of each device: equal costs, links and node.

    Examples
    --------
    >>> from weft.model import Cluster, Workflow
    >>> cluster = Cluster(speed=[1.0, 1.0, 2.0], nodes=("a", "a", "a"))
    >>> problem = Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[]), cluster)
    >>> pool_of_devices(problem).tolist()
    [0, 0, 1]
    """
    c = problem.cluster
    found: dict[tuple[int, bytes], list[int]] = {}
    for d in range(problem.p):
        found.setdefault((int(c.node[d]), problem.per_work[:, d].tobytes()), []).append(d)
    pool, count = np.zeros(problem.p, np.int64), 0
    for members in found.values():
        if _equal_links(c.latency, members) and _equal_links(c.per_byte, members):
            pool[members], count = count, count + 1
        else:
            pool[members] = count + np.arange(len(members))
            count += len(members)
    return pool


def _equal_links(table: FloatArray, members: list[int]) -> bool:
    """Return whether devices have the same links to and from all others.

    All links between them must be the same, too.
    """
    others = np.ones(len(table), bool)
    others[members] = False
    inside = table[np.ix_(members, members)][~np.eye(len(members), dtype=bool)]
    out, back = table[members][:, others], table[others][:, members]
    return bool(
        (inside == inside[:1]).all() and (out == out[:1]).all() and (back == back[:, :1]).all()
    )


def make_pools(problem: Problem, pool: IntArray) -> Pools:
    """Gather the pools of a problem."""
    c, count = problem.cluster, int(pool.max()) + 1
    first = np.array([int(np.flatnonzero(pool == k)[0]) for k in range(count)], np.int64)
    node, capacities = c.node[first], problem.needs.shape[1]
    slot = np.zeros(count, np.int64)
    for k in range(count):
        slot[k] = capacities + np.count_nonzero(node[:k] == node[k])
    room = np.full((len(c.node_names), int(slot.max()) + 1), np.inf)
    room[:, :capacities] = problem.room
    room[node, slot] = np.bincount(pool)
    return Pools(
        first=first,
        node=np.ascontiguousarray(node),
        slot=slot,
        need=np.ascontiguousarray(problem.needs),
        room=room,
        latency=_between_pools(c.latency, pool, first),
        per_byte=_between_pools(c.per_byte, pool, first),
    )


def _between_pools(table: FloatArray, pool: IntArray, first: IntArray) -> FloatArray:
    """Return the value between pools; within a pool, that between two of its devices."""
    made = np.ascontiguousarray(table[np.ix_(first, first)])
    for k in range(len(first)):
        members = np.flatnonzero(pool == k)
        if len(members) > 1:
            made[k, k] = table[members[0], members[1]]
    return made


def each_alone(problem: Problem, pool: IntArray) -> IntArray:
    """Return pools of one device each, unless data moves freely within the pools.

    A pool does not record which of its devices has the data of a task, so it counts the link
    between two of them.
    """
    c, same = problem.cluster, pool[:, None] == pool[None, :]
    free = not (c.latency[same].any() or c.per_byte[same].any())
    return pool if free else np.arange(problem.p)
