"""The uncommitted instances of a run as a problem, for a new plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf

import numpy as np

from weft.model import Problem, Workflow
from weft.model.columns import FloatArray, IntArray, frozen
from weft.model.costs import distinct_pairs
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

ABSENT = -1
"""Number of an instance that has no row in the problem."""


def remaining_problem(life: LiveLifecycle, instances: list[int], now: float) -> Problem:
    """Return the uncommitted instances as a problem, with stubs for the other ones.

    The commitments of a device are a chain of stubs pinned to it, each with its expected seconds
    and what it takes of the capacities of its node; the stub of a result takes no time. Devices
    that are down run nothing, except tasks that only they can run.
    """
    cluster, count = life.workload.cluster, len(instances)
    number = np.full(life.workload.instances, ABSENT)
    number[instances] = np.arange(count)
    stubs: list[tuple[int, float]] = []
    needs = [life.room.needs([i]) for i in instances] if cluster.capacity else []
    chain: list[int] = []

    def pinned(device: int, seconds: float, members: Sequence[int] = ()) -> int:
        stubs.append((device, seconds))
        if cluster.capacity:
            needs.append(life.room.needs(members))
        return count + len(stubs) - 1

    for device in range(cluster.p):
        for k, (group, seconds) in enumerate(_committed(life, device, now)):
            stub = pinned(device, seconds, group.members)
            number[group.members] = stub
            if k:
                chain.append(stub)
    parent, child, data = _incoming(life, instances)
    for i in dict.fromkeys(parent[number[parent] == ABSENT].tolist()):
        if life.results[i]:  # else held or skipped
            number[i] = pinned(life.results[i][0][0], 0.0)
    known, after = number[parent] != ABSENT, np.array(chain, np.int64)
    row, seconds_of_row = _rows_of_costs(life, instances, stubs)
    left = Workflow(
        name="remaining",
        work=np.zeros(len(row)),
        src=np.concatenate([after - 1, number[parent[known]]]),
        dst=np.concatenate([after, number[child[known]]]),
        data=np.concatenate([np.zeros(len(after)), data[known]]),
        needs={name: np.array(needs)[:, c] for c, name in enumerate(cluster.capacity)},
    )
    work = frozen(np.ones(len(row)))
    return Problem(left, cluster, work, frozen(row), frozen(seconds_of_row))


def _incoming(life: LiveLifecycle, instances: list[int]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return parent, child and bytes of the incoming edges of instances, by instance."""
    parents, children = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    data = [np.zeros(0)]
    for first, tasks in _by_job(life, instances):
        w = life.problem(first).workflow
        begin, many = w.pred_ptr[tasks], w.pred_ptr[tasks + 1] - w.pred_ptr[tasks]
        skipped = np.repeat(begin - (np.cumsum(many) - many), many)
        edges = w.pred_edge[skipped + np.arange(len(skipped))]
        parents.append(first + w.src[edges])
        children.append(first + w.dst[edges])
        data.append(w.data[edges])
    return np.concatenate(parents), np.concatenate(children), np.concatenate(data)


def _by_job(life: LiveLifecycle, instances: list[int]) -> Iterator[tuple[int, IntArray]]:
    """Yield the first instance of each job, and its tasks that are among instances."""
    for job, members in groupby(instances, key=lambda i: life.place[i][0]):
        first = int(life.workload.first_instance[job])
        yield first, np.array(list(members), np.int64) - first


def _committed(life: LiveLifecycle, device: int, now: float) -> list[tuple[Group, float]]:
    """Return the committed groups of a device and their expected seconds from now."""
    machine = life.machines[device]
    if machine.slowdown == inf:
        return []
    running = (
        [(machine.running, max(machine.running.expected - now, 0.0))]
        if machine.running is not None
        else []
    )
    return [*running, *((group, life.expected(group.members, device)) for group in machine.queue)]


def _rows_of_costs(
    life: LiveLifecycle, instances: list[int], stubs: Sequence[tuple[int, float]]
) -> tuple[IntArray, FloatArray]:
    """Return the row of each instance and stub, and seconds by row and device.

    Tasks that cost the same have one row.
    """
    rows, tables, count = [np.zeros(0, np.int64)], [np.zeros((0, len(life.machines)))], 0
    for first, tasks in _by_job(life, instances):
        problem = life.problem(first)
        amounts, amount = np.unique(problem.work[tasks], return_inverse=True)
        of_pair, amount_of_pair, pair = distinct_pairs(
            problem.row[tasks], amount.reshape(-1), len(amounts)
        )
        tables.append(_seconds(life, amounts[amount_of_pair], problem.per_work[of_pair]))
        rows.append(count + pair)
        count += len(of_pair)
    distinct = {stub: count + k for k, stub in enumerate(dict.fromkeys(stubs))}
    pinned = np.full((len(distinct), len(life.machines)), inf)
    for k, (device, seconds) in enumerate(distinct):
        pinned[k, device] = seconds
    rows.append(np.array([distinct[stub] for stub in stubs], np.int64))
    return np.concatenate(rows), np.concatenate([*tables, pinned])


def _seconds(life: LiveLifecycle, work: FloatArray, costs: FloatArray) -> FloatArray:
    """Return seconds per device, inf where down.

    If no device that is up can run a task, it gets its seconds as if all devices were up.
    """
    slowdown = np.array([m.slowdown for m in life.machines])
    usual = work[:, None] * np.where(np.isfinite(costs), costs, np.nan)
    up = np.where(
        np.isfinite(slowdown), usual * np.where(np.isfinite(slowdown), slowdown, 1.0), np.nan
    )
    found = np.where(np.isnan(up).all(axis=1, keepdims=True), usual, up)
    return np.where(np.isnan(found), inf, found)
