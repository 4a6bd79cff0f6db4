"""The best variants and the best plan at once, by constraint programming.

Every device appears once per variant: an optional interval for each task, device and variant. The
intervals of one device exclude each other, and each takes the needs of its variant.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan

import numpy as np

from weft.model import Cluster, Problem, Schedule
from weft.model.columns import FloatArray, frozen
from weft.model.variants import Variant
from weft.planners.packing import pack
from weft.planners.search.clock import Clock
from weft.planners.search.exact import (
    CELL_SECONDS,
    MODEL_CELLS,
    ConstraintModel,
    Lanes,
    load_solver,
)
from weft.planners.variants.selection import EvaluatedChoice, Pick, VariantChoices

FINE = 10**9
"""Units of accuracy per 1."""

MONEY = 2.0**52
"""Units of money per budget."""


def prove_variants(
    choices: VariantChoices,
    warm: EvaluatedChoice,
    bound: float,
    clock: Clock,
    *,
    threads: int | None,
    seed: int,
) -> tuple[Pick, Problem, Schedule, float]:
    """Return the best choice found, and a lower bound for all choices.

    The choice comes with its problem and schedule.
    """
    kept = (warm.pick, warm.problem, warm.schedule)
    spread, lanes = spread_out(choices)
    cells = spread.m * spread.p**2 + spread.n * spread.p
    if cells > MODEL_CELLS or cells * CELL_SECONDS > clock.left():
        return *kept, bound
    many = lanes.copies
    of_task = dict(zip(choices.ways, warm.pick, strict=True))
    columns = [
        int(d) * many + of_task.get(int(t), 0)
        for t, d in sorted(zip(warm.schedule.task, warm.schedule.device, strict=True))
    ]
    order = np.argsort(warm.schedule.task, kind="stable")
    start = Schedule.of(
        device=columns, start=warm.schedule.start[order], finish=warm.schedule.finish[order]
    )
    model = ConstraintModel.of(load_solver(), spread, start, bound, lanes=lanes)
    _add_limits(model, choices, many)
    ticks, device, proved = model.search(clock, threads=threads, seed=seed)
    if device is None or ticks is None:
        return *kept, min(max(bound, proved), warm.makespan)
    pick = tuple(int(device[t]) % many for t in choices.ways)
    found = choices.plan(pick) if choices.accurate(pick) else None
    if found is not None:
        seconds = ticks / model.scale
        placed = Schedule.of(device=device // many, start=seconds, finish=seconds)
        schedule = pack(found.problem, placed)
        rent = found.cost + choices.problem.cluster.rent(schedule.makespan - found.makespan)
        if schedule.makespan < warm.makespan and rent <= choices.budget * (1 + 1e-12):
            kept = (pick, found.problem, schedule)
    return *kept, max(bound, proved)


def spread_out(choices: VariantChoices) -> tuple[Problem, Lanes]:
    """Return the problem with a column per device and variant, and its lanes.

    The problem has no capacities.
    """
    problem, c = choices.problem, choices.problem.cluster
    many = max(len(ways) for ways in choices.ways.values())
    seconds = np.full((problem.n, problem.p, many), inf)
    seconds[:, :, 0] = problem.durations()
    need = np.repeat(problem.needs[:, None, :], many, axis=1)
    names = list(c.capacity)
    for t, ways in choices.ways.items():
        seconds[t] = inf
        for k, way in enumerate(ways):
            seconds[t, :, k] = way.on(problem, t)
            need[t, k] = _needs(way, problem.needs[t], names)
    fits = (need[:, None, :, :] <= problem.room[c.node][None, :, None, :]).all(axis=3)
    seconds[~fits] = inf
    cores = np.array(
        [[_cores(problem, t, choices, k) for k in range(many)] for t in range(problem.n)]
    )
    if "cores" not in c.capacity:
        seconds[cores[:, None, :] > c.cores[None, :, None]] = inf
    wide = Cluster(  # durations hold the other properties of devices
        speed=np.repeat(c.speed, many),
        names=tuple(f"{name}#{k}" for name in c.names for k in range(many)),
        nodes=tuple(np.repeat(c.nodes, many).tolist()),
        bandwidth=np.repeat(np.repeat(c.bandwidth, many, axis=0), many, axis=1),
        latency=np.repeat(np.repeat(c.latency, many, axis=0), many, axis=1),
    )
    plain = replace(problem.workflow, variants={}, needs={}, durations={})
    n = problem.n
    spread = Problem(
        plain,
        wide,
        frozen(np.ones(n)),
        frozen(np.arange(n)),
        frozen(np.ascontiguousarray(seconds.reshape(n, -1))),
    )
    return spread, Lanes(many, c.node, need, problem.room)


def _needs(way: Variant, own: FloatArray, names: list[str]) -> FloatArray:
    """Return what a variant takes of each capacity."""
    given = {"cores": way.cores, "memory": way.memory, **way.needs}
    amounts = [given.get(name) for name in names]
    return np.array([old if new is None else new for new, old in zip(amounts, own, strict=True)])


def _cores(problem: Problem, task: int, choices: VariantChoices, k: int) -> int:
    ways = choices.ways.get(task, ())
    own = int(problem.workflow.cores[task])
    return own if k >= len(ways) else int(ways[k].cores or own)


def _add_limits(model: ConstraintModel, choices: VariantChoices, many: int) -> None:
    """Add the least mean accuracy and the budget."""
    accuracy, money = [], []
    for t, ways in choices.ways.items():
        for column, here in model.on[t].items():
            way = ways[column % many]
            if not isnan(way.accuracy) and choices.min_accuracy > -inf:
                accuracy.append(round((way.accuracy - choices.min_accuracy) * FINE) * here)
            if way.cost and choices.budget < inf:
                money.append(int(way.cost / choices.budget * MONEY) * here)
    if accuracy:
        model.model.add(sum(accuracy) >= -len(accuracy))
    if choices.budget < inf:
        tick = choices.problem.cluster.rent(1.0 / model.scale) / choices.budget * MONEY
        model.model.add(sum(money) + int(tick) * model.makespan <= int(MONEY))
