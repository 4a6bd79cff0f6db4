"""The planner `anytime`: quality, repeatability, copies, limits and other objectives."""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.instances import drawn_problem
from tests.support.slow_twins.brute_force import shortest
from tests.support.strategies import problems
from tests.support.waiting import WAIT_LIMIT
from weft.errors import InvalidInput, UnknownName, Unsupported, WeftError
from weft.formats import load
from weft.model import Cluster, Problem, Workflow
from weft.model.check import check
from weft.planners import PLANNERS, plan
from weft.planners.bounds import chain_tails
from weft.planners.objective import Objective, union
from weft.planners.search import team
from weft.planners.search.anytime import Anytime
from weft.planners.search.clock import Clock
from weft.planners.search.enumeration import best_assignment
from weft.planners.search.warm_start import FRONTS, LISTS, REST, start_at

SEARCHES = {"anytime", "genetic", "genetic-waiting", "exact"}
LEARNED = ("deepsched",)
"""Planners that learned from others: they lean on the searches, not the other way round."""


def without_copies(name: str) -> bool:
    # The search begins with each planner of list-portfolio.
    others = {*SEARCHES, *LEARNED, "tdca", "list-portfolio", "partitioned"}
    return name not in others and "deft" not in name


def test_begins_with_every_quick_planner():
    """A new quick planner must be entered where the search begins."""
    assert set(LISTS) | set(FRONTS) | set(REST) == {
        name for name in PLANNERS.names() if without_copies(name)
    }


@pytest.mark.parametrize(
    ("limit", "names"), [({"seconds": 0.001}, ("heft",)), ({"iterations": 1}, LISTS)]
)
def test_never_worse_than_the_quick_planners(limit, names):
    """HEFT always runs; the others run if there is time, on a busy machine too."""
    for seed in range(4):
        problem = drawn_problem(ccr=5.0, seed=seed)
        quick = min(plan(problem, name).makespan for name in names)
        found = plan(problem, "anytime", seed=seed, **limit)
        assert found.makespan <= quick
        assert check(problem, found.schedule) == []


@pytest.mark.parametrize("duplicate", [False, True])
def test_same_seed_and_iterations_same_plan(duplicate):
    problem = drawn_problem(70, ccr=3.0)
    one, two, other = (
        plan(
            problem, "anytime", iterations=4000, duplicate=duplicate, seed=seed
        ).schedule.to_arrays()
        for seed in (5, 5, 6)
    )
    assert all(np.array_equal(one[c], two[c]) for c in one)
    assert not all(np.array_equal(one[c], other[c]) for c in one)


def test_iterations_do_not_depend_on_the_machine(monkeypatch):
    problem = drawn_problem()
    one = plan(problem, "anytime", iterations=3000).schedule.to_arrays()
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    two = plan(problem, "anytime", iterations=3000).schedule.to_arrays()
    assert all(np.array_equal(one[c], two[c]) for c in one)


@given(problems(min_tasks=1, max_tasks=5, max_devices=3))
@settings(max_examples=25)
def test_finds_the_optimum_of_tiny_problems(problem):
    found = plan(problem, "anytime", iterations=4000)
    assert check(problem, found.schedule) == []
    assert found.makespan == pytest.approx(shortest(problem), rel=1e-12)


@given(problems(max_tasks=9))
@settings(max_examples=30)
def test_copies_are_valid_and_no_worse(problem):
    found = plan(problem, "anytime", iterations=800, duplicate=True)
    assert check(problem, found.schedule) == []
    assert found.bound <= found.makespan * (1 + 1e-12)
    assert found.makespan <= plan(problem, "heft-deft").makespan


def test_copies_help_where_transfers_are_long():
    # One parent of 1 s, four children of 4 s, transfers of 50 s, four devices. Without copies all
    # on one device: 1 + 4 x 4.
    # With a copy of the parent on each device: 1 + 4.
    p = Problem.from_arrays(
        np.array([[1.0] * 4] + [[4.0] * 4] * 4), [[0, t] for t in range(1, 5)], 50.0, bandwidth=1.0
    )
    assert plan(p, "anytime", iterations=1000).makespan == 17.0
    copied = plan(p, "anytime", iterations=1000, duplicate=True)
    assert copied.makespan == 5.0
    assert copied.schedule.copies == 3
    assert copied.status == "optimal"


def test_no_copy_that_nobody_reads():
    problem = drawn_problem(40, ccr=5.0)
    found = plan(problem, "anytime", iterations=3000, duplicate=True).schedule
    w = problem.workflow
    assert found.copies > 0
    for row in np.flatnonzero(found.copy).tolist():
        t, d, finish = int(found.task[row]), int(found.device[row]), float(found.finish[row])
        readers = [
            (e, r)
            for e in range(problem.m)
            if w.src[e] == t
            for r in np.flatnonzero(found.task == w.dst[e]).tolist()
        ]
        assert any(
            finish + problem.transfer(e, d, int(found.device[r])) <= found.start[r] + 1e-9
            for e, r in readers
        )


def test_stops_when_the_bound_is_met():
    seen: list[float] = []
    p = Problem.from_arrays(np.ones((8, 2)))
    found = plan(p, "anytime", seconds=1e6, progress=lambda state: seen.append(state.value))
    assert found.makespan == 4.0
    assert found.status == "optimal"


def test_progress_is_told():
    seen: list[tuple[float, float]] = []
    problem = drawn_problem(40, ccr=5.0)
    found = plan(problem, "anytime", seconds=5.0, progress=seen.append)
    shares, values = zip(*seen, strict=True)
    assert list(shares) == sorted(shares)
    assert shares[-1] > 0.5
    assert values[-1] >= found.makespan
    assert list(values) == sorted(values, reverse=True)


def test_memory_limits_hold():
    problem = Problem.from_arrays(
        work=np.arange(1.0, 21.0),
        speed=[4.0, 1.0, 2.0],
        edges=[[t, t + 2] for t in range(18)],
        data=1.0,
        memory=[8.0 if t % 4 < 2 else 1.0 for t in range(20)],
        device_memory=[2.0, 8.0, 4.0],
        bandwidth=1.0,
    )
    for duplicate in (False, True):
        assert (
            check(problem, plan(problem, "anytime", iterations=3000, duplicate=duplicate).schedule)
            == []
        )


def powered(busy: tuple[float, float], idle: float) -> Problem:
    """Ten tasks of one second on two devices of one speed."""
    return Problem.bind(
        Workflow(work=np.ones(10), src=[], dst=[], data=[]),
        Cluster(speed=[1.0, 1.0], power=list(busy), idle_power=idle),
    )


def test_energy():
    problem = powered((100.0, 10.0), 0.0)
    # All on the frugal device: 10 s x 10 W. The makespan alone: 5 s, 5 x 100 + 5 x 10 J.
    frugal = plan(problem, "anytime", iterations=4000, objective="energy")
    assert frugal.makespan == 10.0
    assert Objective.of("energy").value(problem, frugal.schedule) == pytest.approx(100.0)
    quick = plan(problem, "anytime", iterations=4000)
    assert quick.makespan == 5.0
    assert Objective.of("energy").value(problem, quick.schedule) == pytest.approx(550.0)
    # With 200 J per second: k tasks on the frugal device cost
    # 200 max(k, 10 - k) + 10 k + 100 (10 - k), least at k = 5.
    mixed = plan(problem, "anytime", iterations=4000, objective={"makespan": 200.0, "energy": 1.0})
    assert mixed.makespan == 5.0


def test_idle_power_counts():
    # Both idle at 50 W: x seconds of makespan cost 100 x, plus 10 tasks at 0 W more: the shortest
    # schedule saves most.
    problem = powered((50.0, 50.0), 50.0)
    found = plan(problem, "anytime", iterations=2000, objective="energy")
    assert Objective.of("energy").value(problem, found.schedule) == pytest.approx(500.0)


def test_cost():
    problem = powered((0.0, 0.0), 0.0)
    found = plan(problem, "anytime", iterations=4000, objective="cost", price=(3.0, 1.0))
    assert Objective.of("cost", price=(3.0, 1.0)).value(problem, found.schedule) == pytest.approx(
        10.0
    )
    with pytest.raises(InvalidInput, match="price for each of 2 devices; got 0"):
        plan(problem, "anytime", iterations=10, objective="cost")


def test_prices_by_name():
    tasks = Workflow(work=np.ones(10), src=[], dst=[], data=[])
    machines = Cluster(speed=[1.0, 1.0], names=("big", "small"), kinds=("gpu", "cpu"))
    problem = Problem.bind(tasks, machines)
    for price in ({"gpu": 3.0, "small": 1.0}, {"big": 3.0, "gpu": 9.0, "cpu": 1.0}):
        found = plan(problem, "anytime", iterations=4000, objective="cost", price=price)
        assert found.schedule.device.tolist() == [1] * 10  # the name counts before the kind
    for price, complaint in (
        ({"gpu": 1.0}, "price has nothing for device 'small'"),
        ({"gpo": 1.0}, "price has 'gpo', no device or kind; did you mean 'gpu'"),
        ({"gpu": -1.0, "cpu": 1.0}, "price of 'gpu' is -1"),
    ):
        with pytest.raises(WeftError, match=complaint):
            plan(problem, "anytime", iterations=10, objective="cost", price=price)


def test_rent_is_in_proportion_to_the_makespan():
    problem = Problem.bind(
        Workflow(work=np.ones(10), src=[], dst=[], data=[]),
        Cluster(speed=[1.0, 1.0], price=[7200.0, 3600.0]),
    )
    found = plan(problem, "anytime", iterations=4000, objective="cost")
    assert (found.makespan, found.cost) == (5.0, 15.0)  # 3 per second for 5 seconds
    assert Objective.of("cost").value(problem, found.schedule) == pytest.approx(15.0)


def test_energy_needs_power():
    with pytest.raises(InvalidInput, match="no device of cluster 'cluster' has any; give power"):
        plan(powered((0.0, 0.0), 0.0), "anytime", iterations=10, objective="energy")


def test_mean_completion_of_a_batch():
    # A job of one second and one of three tasks of three seconds, on one device: short job first.
    short, long = Problem.from_arrays([[1.0]]), Problem.from_arrays([[3.0], [3.0], [3.0]])
    both, jobs = union([long, short])
    found = plan(both, "anytime", iterations=2000, objective="completion", jobs=jobs)
    assert check(both, found.schedule) == []
    value = Objective.of("completion", jobs=jobs).value(both, found.schedule)
    assert value == pytest.approx((1 + 10) / 2)


def test_union_keeps_costs_and_limits():
    a, b = drawn_problem(6, seed=1), drawn_problem(5, seed=2)
    b = Problem(b.workflow, a.cluster, b.work, b.row, b.per_work)
    both, jobs = union([a, b])
    assert np.array_equal(both.durations(), np.concatenate([a.durations(), b.durations()]))
    assert both.m == a.m + b.m
    assert jobs == (0,) * 6 + (1,) * 5
    with pytest.raises(InvalidInput, match="is bound to cluster"):
        union([a, drawn_problem(4, p=3)])


def test_options_are_checked():
    problem = drawn_problem(5)
    with pytest.raises(UnknownName, match="unknown objective 'makspan'; did you mean 'makespan'"):
        plan(problem, "anytime", objective="makspan")
    with pytest.raises(InvalidInput, match="iterations is 0; it must be a whole number, 1 or more"):
        Anytime(iterations=0)
    with pytest.raises(InvalidInput, match="all weights of the objective are zero"):
        plan(problem, "anytime", objective={"makespan": 0.0})
    with pytest.raises(InvalidInput, match="weight of objective 'energy' is -1"):
        plan(problem, "anytime", objective={"energy": -1.0})
    with pytest.raises(InvalidInput, match="jobs labels 2 tasks, but 'problem' has 5"):
        plan(problem, "anytime", objective="completion", jobs=(0, 1))
    with pytest.raises(Unsupported, match="duplicate=True handles the objective 'makespan' only"):
        plan(problem, "anytime", objective="waiting", duplicate=True)


def test_best_known_of_small_graphs(data):
    """Proven optima of 20 tasks are found with a few hundred thousand moves."""
    folder = data / "static_graphs"
    known = json.loads((folder / "results.json").read_text())
    for name in (
        "topcuoglu10",
        "s01_related_n20_P4_ccr0.1_het0.5",
        "s03_related_n20_P4_ccr1_het0.5",
        "s19_unrelated_n20_P4_ccr0.1_het0.5",
    ):
        problem = load(folder / f"{name}.json")
        found = plan(problem, "anytime", iterations=400_000)
        assert found.makespan == pytest.approx(known[name]["best"], rel=1e-9), name
        assert check(problem, found.schedule) == []


SCRIPT = """
import gc
from numba.core.dispatcher import Dispatcher
from weft.model import Cluster, Problem, Workflow
from weft.planners.search.anytime import Anytime, search_clock, warm_up
from weft.planners.search.warm_start import quick_names

def kernels():
    found = [o for o in gc.get_objects() if isinstance(o, Dispatcher)]
    return {(k.py_func.__qualname__, str(s)) for k in found for s in k.signatures}

tasks = range(12)
workflow = Workflow(
    work=[1 + t % 3 for t in tasks], src=list(tasks[:-2]), dst=list(tasks[2:]), data=[1e6] * 10,
    memory=[1.5 * (t % 4 == 0) for t in tasks],
)
cluster = Cluster(
    speed=[1, 2, 3, 1], nodes=("a", "a", "b", "b"), bandwidth=1e6, latency=0.01,
    memory=[1, 2, 1, 1], power=[10, 20, 30, 10],
)
problem = Problem.bind(workflow, cluster)
made = []
for seconds, options in (
    (0.1, {}), (1.0, {"iterations": 100}), (None, {"iterations": 100, "objective": "energy"}),
    (0.1, {"duplicate": True}), (None, {"iterations": 100, "duplicate": True, "threads": 2}),
):
    names = quick_names(search_clock(seconds, options.get("iterations")))
    warm_up(names, duplicate="duplicate" in options)
    before = kernels()
    Anytime(**options).solve(problem, seconds=seconds)
    made += sorted(name for name, _ in kernels() - before)
print(made)
"""


def test_no_kernel_is_compiled_on_the_clock():
    command = [sys.executable, "-c", SCRIPT]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made.stdout == "[]\n"


@pytest.mark.parametrize(
    "objective", [{"makespan": 1.0, "energy": 0.01}, {"makespan": 1.0, "waiting": 1.0}, "waiting"]
)
def test_other_objectives_are_no_worse_than_the_short_plan(objective):
    for seed in range(3):
        drawn = drawn_problem(40, ccr=2.0, seed=seed)
        power = Cluster(speed=drawn.cluster.speed, power=[90.0, 10.0, 40.0, 20.0])
        problem = Problem(drawn.workflow, power, drawn.work, drawn.row, drawn.per_work)
        value = Objective.of(objective).value
        options = {"iterations": 3000, "threads": 1, "seed": seed}
        short = plan(problem, "anytime", **options)
        found = plan(problem, "anytime", objective=objective, **options)
        assert check(problem, found.schedule) == []
        assert value(problem, found.schedule) <= value(problem, short.schedule)


def test_a_plan_of_the_same_structure_is_a_start():
    problem = drawn_problem(40, ccr=5.0)
    good = plan(problem, "anytime", iterations=40_000)
    again = plan(problem, "anytime", iterations=1, start=good)
    assert again.makespan <= good.makespan
    scratch = plan(problem, "anytime", iterations=1)
    assert again.makespan < scratch.makespan
    slower = Problem(
        problem.workflow, problem.cluster, problem.work * 1.1, problem.row, problem.per_work
    )
    found = plan(slower, "anytime", iterations=1, start=good.schedule)
    assert check(slower, found.schedule) == []
    assert found.makespan <= plan(slower, "heft").makespan


def test_a_start_of_another_structure_is_refused():
    good = plan(drawn_problem(6), "heft")
    with pytest.raises(
        InvalidInput, match=r"has 6 tasks .* but 'problem' has 5 tasks on 4 devices"
    ):
        plan(drawn_problem(5), "anytime", start=good, iterations=1)
    with pytest.raises(InvalidInput, match=r"start of planner .* is .heft.; it must be Plan"):
        plan(drawn_problem(5), "anytime", start="heft", iterations=1)


def test_every_assignment_of_a_small_problem_is_tried():
    """A chain whose optimum needs all tasks on the device that is slowest for each but one."""
    # Tasks of 10 s on device 0 and 11 s on device 1; only the last one can run on device 1 alone,
    # and transfers take 100 s: all on device 1, 4 x 11 + 1.
    durations = [[10.0, 11.0, 30.0]] * 4 + [[np.inf, 1.0, np.inf]]
    problem = Problem.from_arrays(durations, [[t, t + 1] for t in range(4)], 100.0, bandwidth=1.0)
    made = best_assignment(problem, Objective.of("makespan"), Clock(None))
    assert made is not None
    assert made.makespan == 45.0
    assert check(problem, made) == []
    assert best_assignment(drawn_problem(17), Objective.of("makespan"), Clock(None)) is None


def test_an_interrupt_ends_all_threads_at_their_next_step(monkeypatch):
    stopped, steps = Event(), []

    class Noted(Event):
        def set(self):
            super().set()
            stopped.set()

    def anneal(worker, count, share, target):
        if worker is not found.workers[0]:
            steps.append(share)
            stopped.wait(WAIT_LIMIT)

    def interrupted(state):
        raise KeyboardInterrupt

    problem = drawn_problem(20)
    heft = plan(problem, "heft")
    start = start_at(problem, heft.schedule, heft.makespan, 0.0)
    objective = Objective.of("makespan")
    found = team.Team.of(problem, objective, start, chain_tails(problem), chains=3, seed=0)
    monkeypatch.setattr(team, "Event", Noted)
    monkeypatch.setattr(team.Worker, "anneal", anneal)
    with pytest.raises(KeyboardInterrupt):
        found.search(Clock(None), 10_000, 0.0, interrupted)
    assert len(steps) <= 2
