"""The data of live pages: waiting tasks over time, and forecasts of runs of a service."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import weft
from tests.support.streams import two_stages
from tests.support.waiting import WAIT_LIMIT, wait_until
from tests.support.web.server import serving
from weft.formats.native.stream_toml import read_stream_toml
from weft.generators import stream_of
from weft.model import Problem, Workload
from weft.report.pages.live import draw_live, live_page
from weft.runtime.cascade.work import CascadeUnit
from weft.runtime.costs.forecast import live_state
from weft.runtime.costs.history import History
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.web.live.cascade import CascadeWatch
from weft.runtime.web.live.status import crowding
from weft.runtime.web.live.waiting import SAMPLES, WaitingHistory
from weft.runtime.web.state import PageSource


def test_the_history_of_what_waits_is_bounded_and_spans_the_run():
    history = WaitingHistory(gap=1.0)
    for now in range(10_000):
        history.look(float(now), lambda now=now: {"for inputs": now, "in queues": 1})
    found = history.as_dict()
    assert SAMPLES / 3 < len(found["time"]) <= SAMPLES
    assert found["time"][0] == 0.0
    assert found["time"][-1] > 9_000
    assert found["counts"]["for inputs"] == found["time"]
    assert set(found["counts"]["in queues"]) == {1}
    assert np.diff(found["time"]).max() <= 10_000 / SAMPLES * 4


def test_a_costly_sample_is_taken_rarely():
    clock = [0.0]
    history = WaitingHistory(gap=0.1, clock=lambda: clock[0], later=lambda *_: None)

    def count():
        clock[0] += 0.5  # a sample of half a second is worth taking every 25 s
        return {"for inputs": 1}

    for tenth in range(1000):
        history.look(tenth / 10, count)
    assert history.as_dict()["time"] == [0.0, 25.0, 50.0, 75.0]


def test_the_state_of_a_job_among_others_counts_from_its_own_start():
    problem = Problem.from_arrays([[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]], [[0, 1], [0, 2]])
    rows = [(0, 0), (1, 0), (2, 1)]

    def simulated(workload, job, begun):
        life = LiveLifecycle(workload)
        first = life.instances(job).start
        for k in range(workload.jobs):
            life.arrive(k, begun)
        life.commit([first], 0, begun)
        life.begin(0, begun)
        life.finish(0, begun + 2.0, {})
        life.commit([first + 1], 0, begun + 2.0)
        life.begin(0, begun + 2.0)
        return live_state(life, rows, 3.0, job=job, begun=begun)

    both = stream_of(problem, jobs=2, load=1.0, seed=0)
    alone, second = simulated(Workload.of(problem), 0, 0.0), simulated(both, 1, 7.0)
    assert alone.now == second.now == 3.0
    for name in ("task", "device", "start", "finish"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(second, name))
    assert alone.start.tolist()[:2] == [0.0, 2.0]
    assert alone.finish[0] == 2.0


def statuses(client, run):
    """Yield the statuses of a run as its page receives them."""
    with client.stream("GET", f"/v1/runs/{run}/events?status=1") as answer:
        kind = ""
        for line in answer.iter_lines():
            kind = line.removeprefix("event: ") if line.startswith("event: ") else kind
            if line.startswith("data: ") and kind in ("status", "ended"):
                yield kind, json.loads(line.removeprefix("data: "))


def test_a_run_of_a_service_has_a_band_and_its_waiting_tasks(tmp_path):
    """Three tasks after one, on one device: b waits for the test, c and d for b.

    While tasks are left, no band reaches back to the moment it was made.
    """
    call = {"function": "wait_for", "kwargs": {"path": str(tmp_path / "gate")}}
    document = {
        "workflow": {"names": list("abcd"), "work": [1] * 4, "src": [0] * 3, "dst": [1, 2, 3]},
        "tasks": {key: {"function": "one"} for key in "acd"} | {"b": call},
    }
    known = History(tmp_path / "history.db")
    page = PageSource(live_page(), draw_live)
    with serving(tmp_path / "serve", page=page, history=known) as (client, state):
        run = client.post("/v1/runs", json=document).json()["id"]
        assert client.get(f"/v1/runs/{run}/chart").status_code == 200
        seen = []
        for kind, content in statuses(client, run):
            seen.append(content)
            if kind == "ended":
                break
            if content.get("forecast"):
                (tmp_path / "gate").touch()
        first, bands = seen[0], [s["forecast"] for s in seen[:-1] if s.get("forecast")]
        assert set(first["history"]) == {"time", "counts"}
        assert all("history" not in later for later in seen[1:])
        assert bands
        for band in bands:
            (low, high), (least, most) = band["half"], band["most"]
            assert least <= low <= band["median"] <= high <= most
            assert 0.0 <= band["at"] < least
        name = f"served {client.get(f'/v1/runs/{run}').json()['name']}"
        wait_until(lambda: known.scores(name))
        assert len(known.scores(name)) == 1  # how far off it was, for later bands
        assert state.runs.waiting.as_dict()["time"]


def test_a_run_beside_others_is_expected_to_take_longer(tmp_path):
    call = {"function": "wait_for", "kwargs": {"path": str(tmp_path / "gate")}}
    document = {"workflow": {"work": [1, 1]}, "tasks": {"task": call}}
    with serving(tmp_path / "serve") as (client, state):

        def begun():
            run = client.post("/v1/runs", json=document).json()["id"]
            while client.get(f"/v1/runs/{run}").json()["state"] != "running":
                time.sleep(0.01)
            return state.runs.active[run]

        first = begun()
        assert crowding(state.runs.service, first) == 1.0  # no other task waits for its device
        for _ in range(3):
            begun()
        assert crowding(state.runs.service, first) == 4.0  # four runs of one application share it
        (tmp_path / "gate").touch()


def test_the_state_after_a_burst_is_sampled_though_nothing_follows():
    later, waiting = [], [3]
    history = WaitingHistory(gap=1.0, later=lambda seconds, call: later.append((seconds, call)))
    for now in (0.0, 0.25, 0.5):  # the last two within the gap: one sample makes up for both
        history.look(now, lambda: {"for inputs": waiting[0]})
        waiting[0] -= 1
    ((seconds, call),) = later
    assert seconds == 0.75
    call()
    assert history.as_dict() == {"time": [0.0, 1.0], "counts": {"for inputs": [3, 0]}}
    history.look(1.5, lambda: {"for inputs": 7})  # the next burst is made up for as well
    assert len(later) == 2


def test_a_run_of_a_service_that_nobody_watches_samples_what_waits(tmp_path):
    """Task a ends at once, b goes on: c waits for inputs, and a sample tells so."""
    call = {"function": "wait_for", "kwargs": {"path": str(tmp_path / "gate")}}
    document = {
        "workflow": {"names": list("abc"), "work": [1] * 3, "src": [0, 1], "dst": [1, 2]},
        "tasks": {"a": {"function": "one"}, "b": call, "c": {"function": "one"}},
    }
    with serving(tmp_path / "serve") as (client, state):
        run = client.post("/v1/runs", json=document).json()["id"]
        active = state.runs.active[run]
        for history in (active.waiting, state.runs.waiting):
            found = wait_until(lambda history=history: _last_sample(history, "for inputs") == 1)
            assert found
        (tmp_path / "gate").touch()


def _last_sample(history, reason):
    counts = history.as_dict()["counts"].get(reason, [None])
    return counts[-1]


@pytest.mark.parametrize("now", [[1.0, 0.5], [1.0, 1.0]])
def test_samples_are_in_order_of_time(now):
    history = WaitingHistory(gap=0.0, clock=lambda: 0.0, later=lambda seconds, call: call())
    for at in now:
        history.look(at, lambda: {"for inputs": 1})
    assert history.as_dict()["time"] == [1.0]


def test_the_status_of_a_cascade_counts_requests_by_stage(tmp_path):
    """Six requests: 1, 2, 4 and 5 go on to the large stage, 0 and 3 do not.

    The first one holds the unit until the others are there, so that they are one batch.
    """

    def small(batch):
        _wait_for(tmp_path / "all")
        return [(x, "unsure" if x % 3 else "sure") for x in batch]

    def large(batch):
        _wait_for(tmp_path / "gate")
        return [(x, None) for x in batch]

    stages = {"small": weft.Stage(small), "large": weft.Stage(large)}
    stream = read_stream_toml(two_stages(), name="stream")
    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        watch = CascadeWatch(cascade)
        futures = [cascade.submit(0, timeout=600)]
        wait_until(lambda: watch.status()["stages"]["small"]["running"])
        futures += [cascade.submit(x, timeout=600) for x in range(1, 6)]
        for future in futures:
            watch.watch(future, 600.0)
        (tmp_path / "all").touch()

        def all_there():
            status = watch.status()
            large = status["stages"]["large"]
            held = large["waiting"] + large["queued"] + large["running"]
            there = held == 4 and large["running"] and status["times"]["count"] == 2
            return status if there else None

        found = wait_until(all_there)
        assert found["requests"] == 4
        assert found["stages"]["small"]["requests"] == 6
        assert [unit["task"] for unit in found["units"]] == ["large"]
        assert found["times"]["count"] == 2
        (tmp_path / "gate").touch()
        for future in futures:
            future.result(WAIT_LIMIT)
        found = watch.status()
    assert found["stages"]["large"]["requests"] == 4
    assert (found["policy"], found["counts"]["answered"]) == ("fifo", 6)
    assert found["times"]["in_time"] == 1.0
    assert found["times"]["mean"] <= found["times"]["p95"] <= found["times"]["p99"]


def test_units_and_stages_of_a_cascade_are_of_one_moment(tmp_path, monkeypatch):
    """The unit goes on to its next batch right after its state was read."""

    def small(batch):
        _wait_for(tmp_path / "small")
        return [(x, "unsure") for x in batch]

    def large(batch):
        _wait_for(tmp_path / "large")
        return [(x, None) for x in batch]

    def read_then_go_on(unit):
        shown = read(unit)
        if shown.task == "small" and shown.batch:
            (tmp_path / "small").touch()
            wait_until(lambda: read(unit).task == "large")
        return shown

    read = CascadeUnit.state
    stages = {"small": weft.Stage(small), "large": weft.Stage(large)}
    stream = read_stream_toml(two_stages(), name="stream")
    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        future = cascade.submit(0)
        wait_until(lambda: cascade.state().stages["small"].running)
        monkeypatch.setattr(CascadeUnit, "state", read_then_go_on)
        found = cascade.state()
        monkeypatch.undo()
        assert [(unit.task, unit.batch) for unit in found.units] == [("small", 1)]
        assert {task: stage.running for task, stage in found.stages.items()} == {
            "small": 1,
            "large": 0,
        }
        (tmp_path / "large").touch()
        assert future.result(WAIT_LIMIT) == 0


def _wait_for(path):
    while not path.exists():
        time.sleep(0.005)
