"""Forecasts: the followed plan is the simulated one, spreads are found, bands hold their share."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.forecast_coverage import coverage, followed
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.strategies import problems
from weft.learn.durations.end_time import Forecast, RunState, forecast_end, run_ends
from weft.learn.durations.spread import GUESS, Spread


def seconds_of(problem, state, factor):
    rows = zip(state.task.tolist(), state.device.tolist(), strict=True)
    return np.array([problem.duration(t, d) * factor[t] for t, d in rows]).reshape(-1, 1)


@given(problems(), st.integers(0, 99), st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_following_a_plan_is_simulating_it(problem, seed, share):
    # With the true durations, the end is that of the simulator, at any time of the run.
    plan = weft.plan(problem)
    factor = np.random.default_rng(seed).uniform(0.5, 2.0, problem.n)
    trace = followed(problem, plan, factor)
    before = RunState.before(plan)
    found = run_ends(problem, before, seconds_of(problem, before, factor))
    assert found[0] == pytest.approx(trace.makespan, rel=1e-12, abs=1e-12)
    state = RunState.during(plan, trace, share * trace.makespan)
    assert sorted(state.task.tolist()) == list(range(problem.n))
    found = run_ends(problem, state, seconds_of(problem, state, factor))
    assert found[0] == pytest.approx(trace.makespan, rel=1e-12, abs=1e-12)


def test_the_parts_of_a_spread_are_found():
    # Kind a is estimated a factor e too low, runs differ by 0.2, tasks by 0.1.
    rng = np.random.default_rng(0)
    rows = [
        (kind, run, shift + effect + 0.1 * rng.standard_normal())
        for run, effect in enumerate(0.2 * rng.standard_normal(200))
        for kind, shift in (("a", 1.0), ("b", 0.0))
        for _ in range(5)
    ]
    spread = Spread.of(rows)
    assert spread.runs == 200
    assert spread.centre["a"] == pytest.approx(1.0, abs=0.05)
    assert spread.centre["b"] == pytest.approx(0.0, abs=0.05)
    assert spread.run == pytest.approx(0.2, abs=0.03)
    assert spread.pool("a").std() == pytest.approx(0.1, abs=0.01)
    assert spread.pool("unknown") is spread.rest[""]
    assert Spread.of([]).run == GUESS


def test_a_slow_run_is_noticed_while_it_goes_on():
    problem = weft.Problem.from_arrays([[1.0]] * 20, [[i, i + 1] for i in range(19)])
    plan = weft.plan(problem)
    rng = np.random.default_rng(1)
    past = [
        followed(problem, plan, np.exp(0.2 * run + 0.05 * rng.standard_normal(20)))
        for run in rng.standard_normal(12)
    ]
    slow = followed(problem, plan, np.full(20, 1.4))  # ends after 28 s
    first = weft.forecast(plan, past=past)
    later = weft.forecast(plan, past=past, state=RunState.during(plan, slow, 14.0))
    assert first.median == pytest.approx(20.0, rel=0.15)
    assert later.median == pytest.approx(28.0, rel=0.03)
    width = [f.most[1] - f.most[0] for f in (first, later)]
    assert width[1] < width[0] / 2
    assert later.most[0] > 14.0
    over = weft.forecast(plan, past=past, state=RunState.during(plan, slow, 28.0))
    assert over.median == pytest.approx(28.0)


def test_a_task_that_runs_late_is_not_expected_in_the_past():
    problem = weft.Problem.from_arrays([[1.0]])
    plan = weft.plan(problem)
    past = [followed(problem, plan, np.array([f])) for f in np.linspace(0.9, 1.1, 40)]
    state = RunState.during(plan, followed(problem, plan, np.array([9.0])), 5.0)
    found = weft.forecast(plan, past=past, state=state)
    assert 5.0 < found.most[0] <= found.median < found.most[1] < 9.0


def test_past_scores_widen_bands_that_were_too_narrow():
    problem = weft.Problem.from_arrays([[1.0]] * 4, [[0, 1], [1, 2], [2, 3]])
    plan, spread = weft.plan(problem), Spread.of([])
    raw = forecast_end(problem, RunState.before(plan), spread)
    assert raw.basis == "guessed"
    few = forecast_end(problem, RunState.before(plan), spread, scores=[0.0] * 18)
    assert few == raw
    wide = forecast_end(problem, RunState.before(plan), spread, scores=np.linspace(-3, 3, 19))
    assert wide.basis == "calibrated"
    # The band of 90 % reaches over all 19 scores: three predicted widths on either side.
    assert wide.most[1] == pytest.approx(np.exp(raw.centre + 3 * raw.width))
    assert wide.most[0] == pytest.approx(np.exp(raw.centre - 3 * raw.width))
    assert raw.score(float(np.exp(raw.centre + 2 * raw.width))) == pytest.approx(2.0)
    assert isinstance(wide, Forecast)
    assert "90 % between" in wide.sentence


def test_bands_hold_their_share_of_held_back_runs():
    half, most, later_half, later_most = coverage(24, 16, seed=1).tolist()
    assert 0.85 <= most <= 0.95
    assert 0.85 <= later_most <= 0.95
    assert 0.4 <= half <= 0.65
    assert 0.4 <= later_half <= 0.65


def test_bad_questions():
    problem = weft.Problem.from_arrays([[1.0]])
    plan = weft.plan(problem)
    with pytest.raises(weft.InvalidInput, match="history and past are given"):
        weft.forecast(plan, history="h.sqlite", past=[followed(problem, plan, np.ones(1))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples is 0; it must be a whole number, 20 or more"),
        ({"scores": [0.0] * 20 + [float("nan")]}, "scores has a number that is not finite"),
    ],
)
def test_wrong_options_are_refused(options, message):
    plan = weft.plan(weft.Problem.from_arrays([[1.0], [2.0]]))
    with pytest.raises(weft.InvalidInput, match=message):
        weft.forecast(plan, **options)


def test_the_state_of_another_plan_is_refused():
    plan, other = (weft.plan(weft.Problem.from_arrays(np.ones((n, 1)))) for n in (2, 3))
    with pytest.raises(weft.InvalidInput, match="the state of the run has task 2, but"):
        weft.forecast(plan, state=RunState.before(other))


def test_the_state_is_that_of_one_run_of_the_plan_at_a_time():
    problem = weft.Problem.from_arrays([[1.0], [2.0]])
    plan, trace = weft.plan(problem), weft.simulate(problem, "fifo")
    for now in (float("nan"), -1.0, float("inf")):
        with pytest.raises(weft.InvalidInput, match=r"now is .*; it must be a number 0 or more"):
            RunState.during(plan, trace, now)
    stream = weft.simulate(weft.Workload.of(problem, arrival=[0.0, 1.0]), "fifo")
    other = weft.simulate(weft.Problem.from_arrays([[1.0]]), "fifo")
    for wrong in (stream, other):
        with pytest.raises(weft.InvalidInput, match="give that of one run of"):
            RunState.during(plan, wrong, 1.0)


def _fork(cluster: weft.Cluster) -> weft.Problem:
    work, data = [1.0, 1.0, 1.0], [10.0, 10.0]
    fork = weft.Workflow(work=work, src=[0, 0], dst=[1, 2], data=data)
    return weft.Problem.bind(fork, cluster)


def test_machines_that_a_forecast_does_not_model_are_refused():
    # Two transfers share the port of a: 20 s, not 10 s. Loading takes 9 s. One core for two tasks.
    network = weft.Topology.star("abc", up=1.0)
    shared = weft.Cluster.of([weft.Device(n, node=n) for n in "abc"], network=network)
    loading = weft.Cluster.of([weft.Device("a", setup={"task": 9.0})])
    narrow = weft.Cluster.of(
        [weft.Device("a"), weft.Device("b")], capacity={"cores": {"node0": 1.0}}
    )
    for cluster, words in ((shared, "a network"), (loading, "set-ups"), (narrow, "capacities")):
        plan = weft.plan(_fork(cluster))
        with pytest.raises(weft.Unsupported, match=f"does not model 'workflow': it has {words}"):
            weft.forecast(plan)
