"""Replanning: a plain twin, the oracle, and what stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.experiments.benchmarks.large import layered
from weft.model import Cluster, Problem
from weft.model.check import check
from weft.planners import Plan, plan, repair
from weft.planners.repair import DELAY_TOLERANCE, TAKEOVER, replan
from weft.planners.search.warm_start import order_by_start


def drawn(n: int, p: int, seed: int = 0) -> Problem:
    return Problem.from_arrays(
        **layered(n, p, seed=seed)  # type: ignore[arg-type]  # arrays by name
    )


def plain_replan(made: weft.Plan, changed: Problem) -> list[tuple[int, float, float]]:
    """Replan with lists and dictionaries; return device, start and finish of each task."""
    before, old = made.problem, made.schedule
    order = order_by_start(before, old).tolist()
    w, makespan = before.workflow, made.makespan
    heirs = plain_heirs(made, changed)
    edges = list(zip(w.src.tolist(), w.dst.tolist(), range(w.m), strict=True))
    tail: dict[int, float] = {}
    first_of: dict[int, int] = {}
    behind: dict[int, int | None] = {}
    for t in reversed(order):
        d = int(old.device[t])
        follower = behind[t] = first_of.get(d)
        rest = [0.0] if follower is None else [tail[follower]]
        rest += [before.transfer(e, d, int(old.device[v])) + tail[v] for u, v, e in edges if u == t]
        tail[t], first_of[d] = max(rest) + before.duration(t, d), t
    free = [0.0] * before.p
    upcoming = {heirs[d]: makespan - tail[t] for d, t in first_of.items()}
    made_rows: dict[int, tuple[int, float, float]] = {}
    worst = 0.0
    for t in order:
        mine, follower = heirs[int(old.device[t])], behind[t]
        upcoming[mine] = np.inf if follower is None else makespan - tail[follower]
        due = (makespan - tail[t]) + float(old.finish[t] - old.start[t])
        inputs = [(u, e) for u, v, e in edges if v == t]

        def placed(
            d: int, t: int = t, inputs: list[tuple[int, int]] = inputs, due: float = due
        ) -> tuple[float, int, float, float]:
            arrivals = [
                made_rows[u][2] + changed.transfer(e, made_rows[u][0], d) for u, e in inputs
            ]
            begin = max([free[d], *arrivals])
            done = begin + changed.duration(t, d)
            return done - min(due, upcoming.get(d, np.inf)), d, begin, done

        late, d, begin, done = placed(mine)
        if late > worst + DELAY_TOLERANCE * makespan:
            able = [placed(k) for k in range(before.p) if changed.duration(t, k) < np.inf]
            best = min(able, key=lambda x: x[0])
            if best[0] < late:
                late, d, begin, done = best
            worst = max(worst, late)
        made_rows[t], free[d] = (d, begin, done), done
    return [made_rows[t] for t in range(before.n)]


def plain_heirs(made: weft.Plan, changed: Problem) -> list[int]:
    """Return the device that takes the queue of each device; links are alike, costs one row."""
    per_work, p = made.problem.per_work[0].tolist(), made.problem.p
    lost = [d for d in range(p) if np.isinf(changed.per_work[0, d])]
    queues = sorted(range(p), key=lambda d: (per_work[d], d))
    left = [d for d in queues if d not in lost]
    heirs = dict(zip(queues, left + lost, strict=True))
    busy = made.schedule.busy(p).tolist()
    taken = queues[: len(left)]
    slower = sum(busy[q] * per_work[heirs[q]] / per_work[q] for q in taken)
    if slower > (1.0 + TAKEOVER) * sum(busy[q] for q in taken):
        return list(range(p))
    return [heirs[d] for d in range(p)]


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_plain_version_and_is_valid(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "AGAIN_CELLS", 0)
    problem = drawn(120, 6, seed)
    made = plan(problem, "heft")
    every: list[dict[str, Any]] = [
        {"lost": ["d1"]},
        {"longer": {7: 10.0}},
        {"lost": "d0", "longer": {"t50": 3.0}},
    ]
    for changes in every:
        again = replan(made, **changes)
        assert check(again.problem, again) == []
        rows = again.schedule
        found = list(zip(rows.device.tolist(), rows.start, rows.finish, strict=True))
        assert found == plain_replan(made, again.problem)


def test_devices_take_the_queues_of_faster_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "AGAIN_CELLS", 0)
    arrays = layered(400, 40, seed=1) | {"speed": np.linspace(2.0, 2.02, 40)}
    made = plan(Problem.from_arrays(**arrays), "heft")  # type: ignore[arg-type]  # arrays by name
    again = replan(made, lost="d39")  # the fastest
    assert check(again.problem, again) == []
    rows = again.schedule
    found = list(zip(rows.device.tolist(), rows.start, rows.finish, strict=True))
    assert found == plain_replan(made, again.problem)
    moved = made.schedule.device == 39
    assert (rows.device[moved] == 38).mean() > 0.9  # the next one has the queue
    assert again.makespan < 1.05 * made.makespan


def test_links_that_differ_and_tasks_of_several_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "AGAIN_CELLS", 0)
    rng = np.random.default_rng(3)
    arrays = layered(80, 5, seed=2, dense=True)
    arrays |= {"bandwidth": rng.uniform(1.0, 3.0, (5, 5)), "latency": 0.1}
    made = plan(Problem.from_arrays(**arrays), "heft")  # type: ignore[arg-type]  # arrays by name
    again = replan(made, longer={11: 4.0, 40: 0.5})
    assert check(again.problem, again) == []
    rows = again.schedule
    found = list(zip(rows.device.tolist(), rows.start, rows.finish, strict=True))
    assert found == plain_replan(made, again.problem)


def test_without_changes_nothing_changes() -> None:
    made = plan(drawn(500, 8), "heft")
    same = replan(made)
    for column, expected in made.schedule.to_arrays().items():
        np.testing.assert_array_equal(same.schedule.to_arrays()[column], expected)


def test_a_lost_device_runs_nothing() -> None:
    made = plan(drawn(500, 8), "heft")
    again = replan(made, lost="d3")
    assert (made.schedule.device == 3).any()
    assert not (again.schedule.device == 3).any()
    assert np.isinf(again.problem.per_work[:, 3]).all()
    assert np.isfinite(made.problem.per_work).all()  # the old problem stays
    assert again.makespan <= plan(again.problem, "heft").makespan


def test_a_longer_task_takes_longer() -> None:
    problem = drawn(500, 8)
    again = replan(plan(problem, "heft"), longer={"t9": 10.0})
    device = int(again.schedule.device[9])
    assert again.problem.duration(9, device) == pytest.approx(10.0 * problem.duration(9, device))
    assert again.makespan <= plan(again.problem, "heft").makespan


def test_changes_add_up() -> None:
    first = replan(plan(drawn(300, 6), "heft"), lost="d0")
    second = replan(first, lost="d1", longer={3: 2.0})
    assert check(second.problem, second) == []
    assert set(second.schedule.device.tolist()) <= {2, 3, 4, 5}


def test_refusals() -> None:
    made = plan(drawn(50, 3), "heft")
    with pytest.raises(UnknownName, match="no device is called 'd7'"):
        replan(made, lost="d7")
    with pytest.raises(InvalidInput, match="task t99 does not exist"):
        replan(made, longer={"t99": 2.0})
    with pytest.raises(InvalidInput, match="factor must be"):
        replan(made, longer={"t1": 0.0})
    with pytest.raises(InvalidInput, match="fits none of the devices that are left"):
        replan(made, lost=["d0", "d1", "d2"])
    named = plan(Problem.from_arrays([[1.0], [1.0]], names=["load", "train"]), "heft")
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        replan(named, longer={"trian": 2.0})
    builder = weft.WorkflowBuilder()
    for name in ("a", "b"):
        builder.task(name, work=1.0, cores=2)
    packed = plan(Problem.bind(builder.build(), Cluster.host(cores=2)), "heft")
    with pytest.raises(Unsupported, match="share capacities"):
        replan(packed, longer={0: 2.0})


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"device": [0, 9]}, "is of device 9, but"),
        ({"device": [0, -3]}, "is of device -3, but"),
        ({"task": [0, 0]}, "does not hold every task"),
        ({"task": [0, 5]}, "is of task 5, but"),
        ({"start": [5.0, 0.0], "finish": [6.0, 1.0]}, "starts task 't1' before 't0'"),
    ],
)
def test_plans_that_are_none_are_refused_before_compiled_code_reads_them(columns, why) -> None:
    problem = Problem.from_arrays(np.ones((2, 2)), [[0, 1]], [1.0], bandwidth=1.0)
    rows = {"task": [0, 1], "device": [0, 1], "start": [0.0, 5.0], "finish": [1.0, 6.0]}
    made = Plan(problem, weft.Schedule.of(**{**rows, **columns}), "mine", 0.0)
    with pytest.raises(InvalidInput, match=why):
        replan(made, lost="d0")
    if "start" not in columns:
        with pytest.raises(InvalidInput, match="start from a plan of the same structure"):
            plan(problem, "anytime", iterations=10, start=made)


def test_factors_that_overflow_are_refused() -> None:
    made = plan(Problem.from_arrays([[1e300]]), "heft")
    with pytest.raises(InvalidInput, match="too long to be computed with"):
        replan(made, longer={0: 1e300})
