"""Amounts in use over time by node, and the earliest time with room; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.planners.packing.pools import Pools
from weft.sim.kernel.jit import njit

INITIAL_STEPS = 8
"""Steps of a node's profile for which a new profile has memory."""


class Profile(NamedTuple):
    """Amounts in use by node and time; step i holds until step i + 1 begins."""

    begin: FloatArray
    used: FloatArray  # (size, capacities + slots)
    first: IntArray  # (nodes,)
    steps: IntArray  # (nodes,)
    capacity: IntArray  # (nodes,) steps for which the node has memory
    size: IntArray  # (1,) memory in use


@njit
def empty_profile(room: FloatArray, executions: int) -> Profile:
    """Make the profile of idle nodes, with memory for a number of executions."""
    nodes = len(room)
    # An execution adds two steps. Places of 8, 16, ... up to below 2 s add up to less than 4 s.
    size = 8 * executions + 4 * INITIAL_STEPS * nodes
    first = np.arange(nodes) * INITIAL_STEPS
    begin, used = np.zeros(size), np.zeros((size, room.shape[1]))
    return Profile(
        begin,
        used,
        first,
        np.full(nodes, 1),
        np.full(nodes, INITIAL_STEPS),
        np.full(1, nodes * INITIAL_STEPS),
    )


@njit
def _step_at(profile: Profile, node: int, time: float) -> int:
    """Return the last step of a node that begins at a time or before."""
    low = profile.first[node]
    high = low + profile.steps[node] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if profile.begin[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return int(low)


@njit
def clear_profile(profile: Profile) -> None:
    """Make all nodes idle again."""
    for node in range(len(profile.first)):
        at = node * INITIAL_STEPS
        profile.first[node], profile.steps[node] = at, 1
        profile.capacity[node] = INITIAL_STEPS
        profile.begin[at] = 0.0
        profile.used[at] = 0.0
    profile.size[0] = len(profile.first) * INITIAL_STEPS


@njit
def earliest_fit(
    profile: Profile,
    pools: Pools,
    pool: int,
    task: int,
    ready: float,
    duration: float,
    limit: float,
) -> float:
    """Return the earliest start with room for a task in a pool; inf if beyond `limit`."""
    node, slot, need = pools.node[pool], pools.slot[pool], pools.need[task]
    end = profile.first[node] + profile.steps[node]
    at, start = _step_at(profile, node, ready), ready
    while at < end and (profile.begin[at] < start + duration or profile.begin[at] <= start):
        full = profile.used[at, slot] + 1.0 > pools.room[node, slot]
        for c in range(len(need)):
            full = full or profile.used[at, c] + need[c] > pools.room[node, c]
        if full:
            start = profile.begin[at + 1]  # the last step is idle, so there is a next one
        if start + duration >= limit:
            return np.inf
        at += 1
    return start


@njit
def use(profile: Profile, pools: Pools, pool: int, task: int, start: float, finish: float) -> None:
    """Let a task run on a pool between two times; one of no length takes an instant."""
    node, slot, need = pools.node[pool], pools.slot[pool], pools.need[task]
    finish = max(finish, np.nextafter(start, np.inf))
    _split(profile, node, start)
    _split(profile, node, finish)
    at = _step_at(profile, node, start)
    while profile.begin[at] < finish:
        for c in range(len(need)):
            profile.used[at, c] += need[c]
        profile.used[at, slot] += 1.0
        at += 1


@njit
def _split(profile: Profile, node: int, time: float) -> None:
    """Let a step of a node begin at a time."""
    at = _step_at(profile, node, time)
    if profile.begin[at] == time:
        return
    old, count = profile.first[node], profile.steps[node]
    first = old
    if count == profile.capacity[node]:
        first = profile.size[0]
        profile.capacity[node] *= 2
        profile.size[0] += profile.capacity[node]
        profile.first[node] = first
        for i in range(at - old + 1):
            profile.begin[first + i] = profile.begin[old + i]
            profile.used[first + i] = profile.used[old + i]
    for i in range(count - 1, at - old, -1):
        profile.begin[first + i + 1] = profile.begin[old + i]
        profile.used[first + i + 1] = profile.used[old + i]
    new = first + at - old + 1
    profile.begin[new] = time
    profile.used[new] = profile.used[new - 1]
    profile.steps[node] = count + 1
