"""The uncommitted instances of a run as a problem, for a new plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf

import numpy as np

from weft.model import Problem, Workflow
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group


def remaining_problem(life: LiveLifecycle, instances: list[int], now: float) -> Problem:
    """Return the uncommitted instances as a problem, with stubs for commitments and results.

    The commitments of a device are a chain of stubs pinned to it, each with its expected seconds
    and what it takes of the capacities of its node; the stub of a result takes no time. Devices
    that are down run nothing, except tasks that only they can run.
    """
    cluster = life.workload.cluster
    number = {i: k for k, i in enumerate(instances)}
    stubs: list[np.ndarray] = []
    needs = [_amounts(life, [i]) for i in instances] if cluster.capacity else []
    src, dst, data = [], [], []

    def pinned(device: int, seconds: float, members: Sequence[int] = ()) -> int:
        stubs.append(np.full(cluster.p, np.nan))
        if cluster.capacity:
            needs.append(_amounts(life, members))
        stubs[-1][device] = seconds
        return len(instances) + len(stubs) - 1

    for device in range(cluster.p):
        for k, (group, seconds) in enumerate(_committed(life, device, now)):
            number.update(dict.fromkeys(group.members, pinned(device, seconds, group.members)))
            if k:
                src.append(len(instances) + len(stubs) - 2)
                dst.append(len(instances) + len(stubs) - 1)
                data.append(0.0)
    for i in instances:
        job, task = life.place[i]
        w, first = life.problem(i).workflow, int(life.workload.first_instance[job])
        for e in w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]].tolist():
            parent = first + int(w.src[e])
            if parent not in number:
                if not life.results[parent]:
                    continue  # held or skipped: it has no result
                number[parent] = pinned(life.results[parent][0][0], 0.0)
            src.append(number[parent])
            dst.append(number[i])
            data.append(float(w.data[e]))
    matrix = np.vstack([_durations(life, instances), *stubs])
    columns = {name: matrix[:, d] for d, name in enumerate(cluster.names)}
    left = Workflow(
        name="what is left",
        work=np.zeros(len(matrix)),
        src=np.array(src, np.int64),
        dst=np.array(dst, np.int64),
        data=np.array(data, float),
        durations=columns,
        needs={name: np.array(needs)[:, c] for c, name in enumerate(cluster.capacity)},
    )
    return Problem.bind(left, cluster)


def _committed(life: LiveLifecycle, device: int, now: float) -> list[tuple[Group, float]]:
    """Return the committed groups of a device and their expected seconds from now."""
    machine = life.machines[device]
    if machine.pace == inf:
        return []
    running = (
        [(machine.running, max(machine.running.expected - now, 0.0))]
        if machine.running is not None
        else []
    )
    return [*running, *((group, life.expected(group.members, device)) for group in machine.queue)]


def _amounts(life: LiveLifecycle, members: Sequence[int]) -> np.ndarray:
    """Return what a group takes of each capacity of its node."""
    total = np.zeros(len(life.workload.cluster.capacity))
    for i in members:
        total = total + life.problem(i).needs[life.place[i][1]]
    return total


def _durations(life: LiveLifecycle, instances: Sequence[int]) -> np.ndarray:
    """Return seconds per device, NaN where it cannot run; if nowhere, as if all were up."""
    pace = np.array([m.pace for m in life.machines])
    rows = [np.zeros((0, len(pace)))]
    for job, members in groupby(instances, key=lambda i: life.place[i][0]):
        problem = life.problem(int(life.workload.first_instance[job]))
        tasks = np.array([life.place[i][1] for i in members])
        costs = problem.pace[problem.row[tasks]]
        seconds = problem.work[tasks, None] * np.where(np.isfinite(costs), costs, np.nan)
        up = np.where(np.isfinite(pace), seconds * np.where(np.isfinite(pace), pace, 1.0), np.nan)
        rows.append(np.where(np.isnan(up).all(axis=1, keepdims=True), seconds, up))
    return np.concatenate(rows)
