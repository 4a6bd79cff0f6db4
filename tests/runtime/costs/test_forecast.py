"""Forecasts of real runs: from the history, during a run, on the display, and kept for later."""

from __future__ import annotations

import io
import sqlite3
from math import log

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.instances import chain
from weft.learn.durations.spread import Spread
from weft.model import Problem, Workload
from weft.runtime import Forecaster, History
from weft.runtime.costs.forecast import live_state
from weft.runtime.costs.measurements import Measurement
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.progress import ProgressDisplay


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.sqlite")


def test_residuals_by_kind_and_run(history):
    history.add([Measurement("a", "cpu", 1.0), Measurement("b", "cpu", 3.0)])
    history.add([Measurement("a", "cpu", 4.0), Measurement("a", "gpu", 7.0)])
    history.add([Measurement("a", "cpu", 2.0)])
    # The median of a on cpu is 2; b, and a on gpu, were measured once.
    assert sorted(history.residuals(), key=lambda row: row[1]) == [
        ("a", 0, pytest.approx(log(0.5))),
        ("a", 1, pytest.approx(log(2.0))),
        ("a", 2, 0.0),
    ]


def test_the_newest_scores_are_kept_by_workflow(history, monkeypatch):
    monkeypatch.setattr("weft.runtime.costs.history.KEPT", 4)
    for k in range(6):
        history.add_score("w", float(k))
    history.add_score("other", -1.0)
    assert history.scores("w") == [2.0, 3.0, 4.0, 5.0]
    history.clear()
    assert history.scores("w") == []


def test_a_history_of_the_first_version_is_extended(tmp_path):
    path = tmp_path / "old.sqlite"
    History(path).add([Measurement("a", "cpu", 1.0)])
    db = sqlite3.connect(path)
    db.execute("DROP TABLE forecast")
    db.execute("PRAGMA user_version = 1")
    db.close()
    again = History(path)
    assert again.predict("a", "cpu") == 1.0
    again.add_score("w", 1.0)
    assert again.scores("w") == [1.0]


def test_runs_are_forecast_once_their_tasks_were_measured(history, capsys):
    workflow = chain("a", "b", "c")
    functions = {"a": f.one, "b": f.add, "c": f.add}
    traces = [weft.run(workflow, functions=functions, devices=1, history=history) for _ in range(4)]
    # After one run each kind was measured once: its scatter is not known.
    assert [trace.forecast is None for trace in traces] == [True, True, False, False]
    trace = traces[-1]
    assert trace.forecast.basis == "measured"
    low, high = trace.forecast.most
    assert 0 < low < trace.forecast.median < high
    assert len(history.scores(workflow.name)) == 2
    weft.run(workflow, functions=functions, devices=1, history=history, progress=True)
    assert "weft: chain ends after about" in capsys.readouterr().err
    plan = weft.plan(trace.workload.problems[0])
    again = weft.forecast(plan, history=history)
    assert again.basis == "measured"


def running_life():
    """Three chains of two tasks on two devices: one done, one runs, one waits."""
    problem = Problem.from_arrays([[1.0, 1.0]] * 6, [[0, 1], [2, 3], [4, 5]])
    life = LiveLifecycle(Workload.of(problem))
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.0)
    life.commit([2], 1, 0.0)
    life.begin(0, 0.0)
    life.begin(1, 0.5)
    life.finish(0, 1.5)
    life.commit([4], 1, 1.5)  # planned on device 0
    return problem, life


PLAN = [(0, 0), (2, 1), (4, 0), (1, 0), (3, 1), (5, 0)]


def test_the_state_of_a_run():
    _, life = running_life()
    state = live_state(life, PLAN, 2.0)
    nan = float("nan")
    np.testing.assert_array_equal(state.task, [0, 2, 4, 1, 3, 5])
    np.testing.assert_array_equal(state.device, [0, 1, 1, 0, 1, 0])  # task 4 is on device 1 now
    np.testing.assert_array_equal(state.start, [0.0, 0.5, nan, nan, nan, nan])
    np.testing.assert_array_equal(state.finish, [1.5, nan, nan, nan, nan, nan])


def test_a_forecaster_follows_the_run():
    problem, life = running_life()
    sharp = [("task", run, x) for run in range(50) for x in (-0.01, 0.01)]
    forecaster = Forecaster(problem, PLAN, Spread.of(sharp))
    assert forecaster.first.median == pytest.approx(4.0, rel=0.1)  # 0, 4, 1, 5 on device 0
    # Slower by half: device 1 still runs task 2, then 4 and 3; the one task that ended says little.
    later = forecaster.current(life, 2.0)
    assert later.now == 2.0
    assert later.median > forecaster.first.median
    stream = io.StringIO()
    display = ProgressDisplay(stream, force=True, width=80)
    display.forecaster = forecaster
    display.draw(life, 2.0)
    low, high = later.most
    assert f", {low - 2.0:.1f} to {high - 2.0:.1f} s left (90 %)" in stream.getvalue()
