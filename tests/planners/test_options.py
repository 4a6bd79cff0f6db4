"""Options of planners: values that make no sense are refused, even where they do not count."""

from __future__ import annotations

from itertools import count
from math import nan
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.formats.model_file import BUNDLED
from weft.planners import planner as planning
from weft.planners.objective import Objective
from weft.planners.planner import PLANNERS, load_planner, planner_options, timed_plan
from weft.planners.search.anytime import Anytime
from weft.planners.search.exact import Exact
from weft.runtime import FakeBackend
from weft.runtime.deciders.contender import load_contender
from weft.sim.kernel.jit.clock import PausedClock

PROBLEM = weft.Problem.from_arrays(
    [[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]], [[0, 1], [0, 2]], [1.0, 2.0], bandwidth=1.0
)


@pytest.mark.parametrize("planner", PLANNERS.names())
def test_no_option_of_any_planner_takes_any_object(planner):
    for option in planner_options(planner):
        with pytest.raises(
            weft.InvalidInput, match=rf"^{option} (of planner '{planner}' is|must|is)"
        ):
            weft.plan(PROBLEM, planner, **{option: object()})


@pytest.mark.parametrize(
    ("planner", "options", "text"),
    [
        ("anytime", {"iterations": 1.5}, "iterations of planner 'anytime' is 1.5; it must be int"),
        ("anytime", {"iterations": nan}, "iterations of planner 'anytime' is nan; it must be int"),
        ("anytime", {"iterations": 0}, "iterations is 0; it must be a whole number, 1 or more"),
        ("anytime", {"threads": 10**9}, "threads is 1000000000; it must be a whole number, 1 or m"),
        ("anytime", {"duplicate": "yes"}, "duplicate of planner 'anytime' is 'yes'; it must be bo"),
        ("exact", {"threads": 1.5}, "threads of planner 'exact' is 1.5; it must be int"),
        ("exact", {"threads": 0}, "threads is 0; it must be a whole number, 1 or more"),
        ("genetic", {"seeded": nan}, "seeded of planner 'genetic' is nan; it must be bool"),
        ("genetic", {"population": 10**9}, "population is 1000000000; it must be a whole number"),
        ("genetic", {"objective": 5}, "objective of planner 'genetic' is 5; it must be str"),
        ("cpop", {"rank": []}, "rank of planner 'cpop' is a list of 0 entries; it must be str"),
        ("deepsched", {"weights": []}, "weights of planner 'deepsched' is a list of 0 entries"),
        ("list-portfolio", {"members": []}, "members is a list of 0 entries; give names of other"),
        ("list-portfolio", {"members": "heft"}, "members is 'heft'; give names of other planners"),
        ("list-portfolio", {"members": ["list-portfolio"]}, "give names of other planners"),
    ],
)
def test_options_that_make_no_sense_are_refused(planner, options, text):
    with pytest.raises(weft.InvalidInput) as caught:
        weft.plan(PROBLEM, planner, **options)
    assert text in str(caught.value)
    with pytest.raises(weft.InvalidInput):
        timed_plan(PROBLEM, planner, **options)


@pytest.mark.parametrize("planner", ["anytime", "genetic"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"jobs": [0, 1]}, "jobs labels 2 tasks, but 'problem' has 3"),
        ({"jobs": [0.5, 0, 0]}, "jobs must hold whole numbers; found 0.5"),
        ({"jobs": "x"}, "jobs must hold numbers"),
        ({"deadlines": [nan]}, "the deadline of job 0 is nan; it must be a time"),
        ({"deadlines": 5.0}, "deadlines is 5.0; give a list of numbers"),
        ({"deadlines": [1.0, 2.0]}, "need deadlines of 1 jobs; got 2"),
        ({"priorities": [nan]}, "priority of job 0 is nan; it must be a number above -1"),
        ({"price": [1.0]}, "needs a price for each of 2 devices; got 1"),
        ({"price": [nan, 1.0]}, "price of device 0 is nan; it must be a number 0 or more"),
        ({"price": 1.5}, "price of planner '{planner}' is 1.5"),
        ({"price": {"d0": 1.0}}, "price has nothing for device 'd1'"),
        ({"objective": Objective.of("makespan"), "jobs": [0, 0, 0]}, "has its own jobs; leave out"),
    ],
)
def test_parts_of_objectives_are_checked_even_if_they_do_not_count(planner, options, text):
    with pytest.raises(weft.InvalidInput) as caught:
        weft.plan(PROBLEM, planner, **options)
    assert text.format(planner=planner) in str(caught.value)


def test_planners_check_the_options_of_their_own_objects():
    for made in (Anytime, Exact):
        with pytest.raises(weft.InvalidInput, match=r"threads is 'x'; it must be a whole number"):
            made(threads="x")


def test_sound_options_of_other_types_stay_sound():
    lists = {"jobs": np.array([0, 0, 1]), "deadlines": [9, np.inf], "price": np.ones(2)}
    made = weft.plan(PROBLEM, "genetic", generations=np.int64(2), objective="late", **lists)
    assert weft.check(PROBLEM, made) == []
    assert weft.plan(PROBLEM, "list-portfolio", members=["heft", "cpop"]).makespan == 3.0
    with pytest.raises(weft.WeftError, match="gone"):
        weft.plan(PROBLEM, "deepsched", weights=Path("gone.safetensors"))


def test_limits_on_variants_are_numbers():
    ways = {"t0": (weft.Variant("a"), weft.Variant("b", factor=0.5))}
    flow = weft.Workflow(work=[1.0], src=[], dst=[], data=[], variants=ways)
    problem = weft.Problem.bind(flow, weft.Cluster(speed=[1.0]))
    for option in ("min_accuracy", "budget"):
        for value in ("x", nan, [], object()):
            with pytest.raises(weft.InvalidInput, match=rf"^{option} is .*; it must be a number$"):
                weft.plan(problem, "heft", **{option: value})


@pytest.mark.parametrize("make", [weft.plan, timed_plan, weft.PlanCache().plan])
def test_moves_and_a_time_limit_exclude_each_other(make):
    with pytest.raises(weft.InvalidInput, match="seconds and iterations both limit the search"):
        make(PROBLEM, "anytime", seconds=5.0, iterations=10)


@pytest.mark.parametrize("make", [weft.plan, timed_plan])
def test_a_time_limit_excludes_the_moves_of_an_object(make):
    with pytest.raises(weft.InvalidInput, match="seconds and iterations both limit the search"):
        make(PROBLEM, Anytime(iterations=10), seconds=5.0)
    with pytest.raises(weft.UnknownName, match="planner object 'heft' has no option 'rank'"):
        make(PROBLEM, PLANNERS.create("heft"), rank="upward")


def test_a_run_refuses_both_limits():
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    backend = FakeBackend(weft.Cluster(speed=[1.0]))
    options = {"functions": {"task": dict}, "backend": backend, "history": False}
    with pytest.raises(weft.InvalidInput, match="seconds and iterations both limit the search"):
        weft.run(workflow, policy=Anytime(iterations=10), seconds=5.0, **options)


def test_a_history_counts_for_functions_only(tmp_path):
    flow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    for what, options in ((PROBLEM, {}), (flow, {"cluster": weft.Cluster(speed=[1.0])})):
        with pytest.raises(weft.InvalidInput, match="history counts for functions only"):
            weft.plan(what, "heft", history=tmp_path / "history.sqlite", **options)
        assert weft.plan(what, "heft", history=False, **options).makespan > 0


def test_a_class_is_no_planner():
    with pytest.raises(weft.InvalidInput, match=r"planner is .*; give a name"):
        weft.plan(PROBLEM, Anytime)


def test_a_trained_network_is_a_planner_by_its_path():
    path = BUNDLED / "deepsched"
    assert load_planner(path) == PLANNERS.create("deepsched", weights=str(path))
    assert load_contender(path) == load_planner(path)
    with pytest.raises(
        weft.InvalidInput, match="'conditional-index', which is no planner but a pol"
    ):
        weft.plan(PROBLEM, str(BUNDLED / "index"))
    with pytest.raises(weft.InvalidInput, match="kind 'deepsched', which is no policy"):
        weft.load_policy(path)
    assert load_contender(BUNDLED / "index").name == "index"


def test_planning_time_holds_no_compilation(monkeypatch):
    ticks = count()
    clock = PausedClock(lambda: float(next(ticks)))

    class Compiling:
        name, supports = "compiling", frozenset()

        def solve(self, problem, *, seconds=None, seed=0):
            with clock.paused():  # at 1 s, for 100 s
                for _ in range(99):
                    next(ticks)
            return PLANNERS.create("heft").solve(problem)

    monkeypatch.setattr(planning, "planning_clock", clock)
    assert weft.plan(PROBLEM, Compiling()).seconds == 2.0  # from 0 to 102 s


@pytest.mark.parametrize("searches", [False, True])
def test_a_timed_plan_leaves_the_overhead_of_a_first_call_out(monkeypatch, searches):
    ticks, calls = count(), []

    class Warming:
        name, supports = "warming", frozenset({"links", "seconds"} if searches else {"links"})

        def solve(self, problem, *, seconds=None, seed=0):
            if not calls:  # for 20 s
                for _ in range(20):
                    next(ticks)
            calls.append(problem)
            return PLANNERS.create("heft").solve(problem)

    monkeypatch.setattr(planning, "planning_clock", lambda: float(next(ticks)))
    made = timed_plan(PROBLEM, Warming())
    assert made.seconds == 1.0  # of the second call, by a clock that gains 1 s per reading
    assert made.makespan == weft.plan(PROBLEM, "heft").makespan
    assert len(calls) == 2
    assert calls[1] is PROBLEM
    assert (calls[0] is PROBLEM) is not searches  # a search warms up on a small problem
