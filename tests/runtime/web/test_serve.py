"""`weft serve`: entry, submissions, events, limits, answers, and going on after SIGKILL."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sqlite3
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import weft
from tests.support.waiting import WAIT_LIMIT, wait_until
from tests.support.web.server import FUNCTIONS, TOKEN, ended, limits, server_process, serving
from weft.runtime.web.documents import Documents, registered
from weft.runtime.web.limits import own_token
from weft.runtime.web.live.server import LiveServer
from weft.runtime.web.live.status import service_status
from weft.runtime.web.openapi import ROUTES
from weft.runtime.web.runs import ActiveRun
from weft.runtime.web.server import listening
from weft.runtime.web.store import RunStore

PAIR = {
    "workflow": {"names": ["a", "b"], "work": [1, 1], "src": [0], "dst": [1]},
    "tasks": {"a": {"function": "one"}, "b": {"function": "add", "args": [4]}},
}
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", name="server")
def _server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve"), commands=True) as parts:
        yield parts


@pytest.fixture(name="client")
def _client(server):
    return server[0]


# -- entry --------------------------------------------------------------------


def test_no_token_no_entry(client):
    paths = [(r.method, r.path.replace("{id}", "x")) for r in ROUTES] + [("GET", "/unknown")]
    for given in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN):
        for method, path in paths:
            answer = client.request(method, path, headers={"authorization": given})
            assert answer.status_code == 401, (given, path)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_is_made_once_and_only_its_digest_is_kept(tmp_path):
    token, text = own_token(tmp_path, None)
    again, nothing = own_token(tmp_path, None)
    assert (token, nothing) == (again, None)
    assert token.fits(f"Bearer {text}")
    assert not any(text in path.read_text() for path in tmp_path.iterdir())
    assert (tmp_path / "token.sha256").stat().st_mode & 0o077 == 0
    assert own_token(tmp_path, None, new=True)[0] != token
    assert own_token(tmp_path, "given")[0].fits("Bearer given")


@pytest.mark.parametrize("damaged", [b"", b"\xff\xfe", b"0" * 63])
def test_a_damaged_digest_of_a_token_is_one_line(tmp_path, damaged):
    (tmp_path / "token.sha256").write_bytes(damaged)
    with pytest.raises(weft.InvalidInput, match=r"token\.sha256: .* --new-token"):
        own_token(tmp_path, None)
    token, text = own_token(tmp_path, None, new=True)
    assert token.fits(f"Bearer {text}")


# -- submissions --------------------------------------------------------------


def test_functions_receive_inputs_then_arguments(client):
    made = client.post("/v1/runs?priority=2", json=PAIR)
    assert made.status_code == 202
    run = ended(client, made.json()["id"])
    assert (run["state"], run["results"], run["priority"]) == ("done", {"b": 5}, 2.0)
    assert run["id"] in [r["id"] for r in client.get("/v1/runs?state=done").json()["runs"]]


def test_an_id_submits_once(client):
    first = client.post("/v1/runs?id=once", json=PAIR).json()
    ended(client, "once")
    again = client.post("/v1/runs?id=once", json=PAIR).json()
    assert (again["id"], again["submitted"], again["state"]) == ("once", first["submitted"], "done")


def test_a_list_submits_many(client):
    made = client.post("/v1/runs", json=[PAIR] * 5).json()["runs"]
    assert [ended(client, run["id"])["results"] for run in made] == [{"b": 5}] * 5


def test_commands_and_wfformat(client):
    task = {"task": {"command": ["echo", "hello"]}}
    run = client.post("/v1/runs", json={"workflow": {"work": [1]}, "tasks": task}).json()
    assert ended(client, run["id"])["results"] == {"t0": {"code": 0, "output": "hello\n"}}
    tasks = [{"id": "x", "name": "x", "children": ["y"]}, {"id": "y", "name": "y"}]
    commands = [
        {"id": name, "runtimeInSeconds": 1, "command": {"program": "echo", "arguments": [name]}}
        for name in "xy"
    ]
    recorded = {
        "schemaVersion": "1.5",
        "workflow": {"specification": {"tasks": tasks}, "execution": {"tasks": commands}},
    }
    run = client.post("/v1/runs", json=recorded).json()
    run = ended(client, run["id"])
    assert run["error"] is None
    assert run["results"]["y"]["output"] == "y\n"


def test_failures_are_the_runs_own(client):
    for name, text in (("raises", "no result"), ("no_json", "what JSON can hold")):
        tasks = {"task": {"function": name}}
        run = client.post("/v1/runs", json={"workflow": {"work": [1]}, "tasks": tasks}).json()
        run = ended(client, run["id"])
        assert run["state"] == "failed"
        assert text in run["error"]


def test_branches(client):
    b = weft.WorkflowBuilder("choice")
    for name, kind in (("c", "branch"), ("left", "one"), ("right", "one")):
        b.task(name, work=1.0, kind=kind)
    b.choice("c", {"yes": 0.5, "no": 0.5})
    b.edge("c", "left", when="yes")
    b.edge("c", "right", when="no")
    document = json.loads(_text(b.build()))
    run = client.post("/v1/runs", json={"workflow": document}).json()
    assert ended(client, run["id"])["results"] == {"left": 1}


def _text(thing):
    from weft.formats.native.weft_json import write_json
    from weft.formats.native.weft_schema import encode

    return write_json(encode(thing))


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/v1/runs", b"", "the body is empty"),
        ("/v1/runs", b"{", "not valid JSON"),
        ("/v1/runs", b"[]", "0 documents"),
        ("/v1/runs", b'{"workflow": {"work": [1]}, "task": {}}', "unknown key 'task'"),
        ("/v1/runs", b'{"workflow": {"work": [1]}}', "no function 'task' is registered"),
        ("/v1/runs", b'{"workflow": {"work": []}}', "has 0 tasks"),
        ("/v1/runs", b'{"workflow": {"work": [1]}, "tasks": {"t9": {}}}', "no task or kind"),
        ("/v1/runs?application=x", b"{}", "unknown application 'x'"),
        ("/v1/runs?priority=nan", b"{}", "priority 'nan'"),
        ("/v1/runs?id=../x", b"{}", "id '../x' must be"),
        ("/v1/runs?colour=red", b"{}", "unknown parameter 'colour'"),
        ("/v1/plan", b'{"workflow": {"work": [1]}, "planner": "hefty"}', "did you mean 'heft'"),
        ("/v1/simulate", b'{"workflow": {"work": [1]}, "policy": "/etc/passwd"}', "unknown policy"),
        ("/v1/explain", b'{"workflow": {"work": [1]}, "seed": -1}', "seed must be a number"),
    ],
)
def test_bad_requests_get_one_line(client, path, body, text):
    answer = client.post(path, content=body)
    assert answer.status_code == 400
    assert text in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_commands_need_the_operator():
    document = json.dumps({"workflow": {"work": [1]}, "tasks": {"task": {"command": ["ls"]}}})
    with pytest.raises(weft.InvalidInput, match="commands are not allowed"):
        Documents({}).read(document.encode())
    assert set(registered([FUNCTIONS])) >= {"one", "add", "branch"}
    assert "Chosen" not in registered([FUNCTIONS])  # imported there, not defined
    with pytest.raises(weft.InvalidInput, match="cannot be imported"):
        registered(["no_such_module"])


@pytest.mark.parametrize("port", [-1, 65_536, 1.5, True])
def test_a_port_is_a_number_of_sixteen_bits(port):
    with pytest.raises(weft.InvalidInput, match=r"port is .*at most 65535"):
        listening("127.0.0.1", port)
    with pytest.raises(weft.InvalidInput, match=r"port is .*at most 65535"):
        LiveServer(None, b"", port=port)


@pytest.mark.parametrize("source", ["def f(:", "raise KeyError('a')", "import sys; sys.exit(0)"])
def test_functions_that_cannot_be_imported_are_one_line(source, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_functions.py").write_text(source)
    with pytest.raises(weft.InvalidInput, match="module 'failing_functions' of --functions failed"):
        registered([str(tmp_path / "failing_functions.py")])


# -- events, spans, metrics ---------------------------------------------------


def test_events_are_a_stream_that_resumes(client):
    run = client.post("/v1/runs", json=PAIR).json()
    text = client.get(f"/v1/runs/{run['id']}/events").text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if "event: " in line]
    assert kinds == ["begun", "finished", "finished", "ended"]
    later = client.get(f"/v1/runs/{run['id']}/events", headers={"last-event-id": "2"}).text
    assert text.endswith(later)
    data = [json.loads(line[6:]) for line in later.splitlines() if line.startswith("data: ")]
    assert [(e["seq"], e.get("task"), e.get("result")) for e in data] == [
        (3, "b", 5),
        (4, None, None),
    ]
    bad = client.get(f"/v1/runs/{run['id']}/events", headers={"last-event-id": "-1"})
    assert bad.status_code == 400


def test_a_stream_of_a_run_that_has_ended_ends(tmp_path):
    with serving(tmp_path) as (client, _):
        run = ended(client, client.post("/v1/runs", json=PAIR).json()["id"])
        assert _streamed(client, run["id"], after=4) == _streamed(client, run["id"], after=99) == []
        with contextlib.closing(sqlite3.connect(tmp_path / "runs.db")) as db:
            db.execute("DELETE FROM events WHERE kind='ended'")  # as if it had not been written
            db.commit()
        assert [event["seq"] for event in _streamed(client, run["id"])] == [1, 2, 3]


def _streamed(client, run, *, after=0):
    """Return the events of a run that has ended; its stream waits for no others."""
    headers, events = {"last-event-id": str(after)}, []
    with client.stream("GET", f"/v1/runs/{run}/events", headers=headers) as answer:
        for line in answer.iter_lines():
            assert line != ": waiting"
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
    return events


def test_spans_and_metrics(client):
    before = _metric(client, 'weft_tasks_total{application="default",outcome="finished"}')
    run = ended(client, client.post("/v1/runs", json=PAIR).json()["id"])
    found = client.get(f"/v1/runs/{run['id']}/spans").json()
    spans = found["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["workflow", "a", "b"]
    assert {len(span["spanId"]) for span in spans} == {16}
    assert all(span["parentSpanId"] == spans[0]["spanId"] for span in spans[1:])
    for span in spans:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    name = 'weft_tasks_total{application="default",outcome="finished"}'
    assert _metric(client, name) == before + 2
    assert _metric(client, 'weft_runs{application="default",state="running"}') == 0
    assert _metric(client, "process_resident_memory_bytes") > 0


def _metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return float(next((line.split()[-1] for line in lines if line.startswith(name)), 0))


def test_openapi_has_every_route(client):
    found = client.get("/v1/openapi.json").json()
    listed = {(m.upper(), path) for path, row in found["paths"].items() for m in row}
    assert listed == {(r.method, r.path) for r in ROUTES}
    for name in ("Submission", "Question", "Error", "Task"):
        assert name in found["components"]["schemas"]
    assert client.get("/v1/applications").json()["applications"]["default"]["share"] == 1.0
    assert client.get("/v1/history").json() == {"durations": []}


# -- answers ------------------------------------------------------------------


def test_answers_equal_those_of_the_library(client):
    made = weft.generate("cholesky", tiles=3)
    problem = weft.Problem.bind(made, weft.gpu_cluster("2xV100"))
    document = {"problem": json.loads(_text(problem))}
    plan = weft.plan(problem, "heft")
    answer = client.post("/v1/plan", json={**document, "planner": "heft"}).json()
    assert (answer["makespan"], answer["bound"]) == (plan.makespan, plan.bound)
    both = client.post("/v1/plan", json=[document, document]).json()["answers"]
    assert [one["makespan"] for one in both] == [plan.makespan] * 2
    assert client.post("/v1/plan", json=[]).status_code == 400
    assert answer["schedule"]["finish"] == plan.schedule.to_arrays()["finish"].tolist()
    why = client.post("/v1/explain", json=document).json()
    assert why["sentence"] == weft.explain(plan).sentence
    schedule = {**document, "schedule": json.loads(_text(plan.schedule))}
    assert client.post("/v1/explain", json=schedule).json()["makespan"] == plan.makespan
    schedule["schedule"]["start"][0] += 1e6
    assert client.post("/v1/explain", json=schedule).status_code == 400
    trace = weft.simulate(problem, "fifo", seed=3, noise=0.1)
    question = {**document, "policy": "fifo", "seed": 3, "noise": 0.1}
    assert client.post("/v1/simulate", json=question).json()["makespan"] == trace.makespan


# -- limits -------------------------------------------------------------------


def test_limits_of_size_rate_and_queue(tmp_path):
    gate = tmp_path / "gate"
    waits = {
        "workflow": {"work": [1]},
        "tasks": {"task": {"function": "wait_for", "kwargs": {"path": str(gate)}}},
    }
    with serving(tmp_path / "serve", applications=limits(queue=2), max_body=5000) as (
        client,
        state,
    ):
        large = client.post("/v1/runs", content=b" " * 5001)
        assert large.status_code == 413
        streamed = client.post("/v1/runs", content=iter([b" " * 3000] * 3))
        assert streamed.status_code == 413
        runs = [client.post("/v1/runs", json=waits).json()["id"] for _ in range(2)]
        full = client.post("/v1/runs", json=waits)
        assert full.status_code == 429
        assert "queue of 'default' is full" in full.json()["error"]
        assert int(full.headers["retry-after"]) >= 1
        assert _metric(client, 'weft_refused_total{reason="queue"}') == 1
        gate.touch()
        assert [ended(client, run)["state"] for run in runs] == ["done", "done"]
        while state.runs.active:
            time.sleep(0.01)
        assert client.post("/v1/runs", json=PAIR).status_code == 202
    with serving(tmp_path / "slow", rate=0.001) as (client, _):  # one, and one in 1,000 s
        answers = [client.get("/v1/applications") for _ in range(3)]
        assert [a.status_code for a in answers] == [200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 1000


def test_what_waits_can_be_cancelled(tmp_path):
    gate = tmp_path / "gate"
    waits = {
        "workflow": {"work": [1]},
        "tasks": {"task": {"function": "wait_for", "kwargs": {"path": str(gate)}}},
    }
    with serving(tmp_path / "serve") as (client, _):
        runs = [client.post("/v1/runs", json=waits).json()["id"] for _ in range(12)]
        assert client.delete(f"/v1/runs/{runs[-1]}").status_code == 200  # four run at once
        gate.touch()
        assert ended(client, runs[-1])["state"] == "cancelled"
        assert ended(client, runs[0])["state"] == "done"
        assert client.delete(f"/v1/runs/{runs[0]}").status_code == 409
        assert client.delete("/v1/runs/none").status_code == 404


def test_cancelled_runs_leave_their_places_to_others(tmp_path):
    gate = tmp_path / "gate"
    waits = {
        "workflow": {"work": [1]},
        "tasks": {"task": {"function": "wait_for", "kwargs": {"path": str(gate)}}},
    }
    with serving(tmp_path / "serve", applications=limits(queue=8)) as (client, _):
        long = [client.post("/v1/runs", json=waits).json()["id"] for _ in range(4)]
        for run in long:
            wait_until(lambda run=run: _state(client, run) == "running")  # four run at once
        for _ in range(3):
            runs = [client.post("/v1/runs", json=PAIR).json()["id"] for _ in range(4)]
            assert [client.delete(f"/v1/runs/{run}").status_code for run in runs] == [200] * 4
        runs = [client.post("/v1/runs", json=PAIR).json()["id"] for _ in range(4)]
        gate.touch()
        assert [ended(client, run)["state"] for run in (*long, *runs)] == ["done"] * 8


def _state(client, run):
    return client.get(f"/v1/runs/{run}").json()["state"]


def test_a_run_that_ends_while_it_is_cancelled(tmp_path):
    class EndsMeanwhile(Future):
        def cancel(self):
            run.future = None  # as the thread of the service does
            return False

    with serving(tmp_path) as (_, state):
        run = ActiveRun(1, {"id": "one"}, None, future=EndsMeanwhile())
        state.runs.active["one"] = run
        assert state.runs.cancel("one") == "cancelling"
        del state.runs.active["one"]


def test_the_writing_thread_outlives_a_loop_that_closes(tmp_path):
    class ClosesMeanwhile:
        def is_closed(self):
            return False

        def call_soon_threadsafe(self, *_):
            raise RuntimeError("Event loop is closed")

    with serving(tmp_path) as (_, state):
        state.runs._loop = ClosesMeanwhile()
        state.runs._written.append((None, None))
        state.runs._committed({1})
        assert not state.runs._written


def test_the_store_keeps_the_newest_and_one_server(tmp_path):
    store = RunStore(tmp_path, keep=20)
    with pytest.raises(weft.InvalidInput, match="in use by another server"):
        RunStore(tmp_path)
    facts = {"application": "a", "priority": 0.0, "name": "w", "tasks": 1, "state": "waiting"}
    for k in range(1, 101):
        run = {**facts, "id": f"r{k}", "submitted": float(k)}
        store.add([(k, run, b"{}")], lambda error: None)
        store.event(k, 1, 0.0, "begun", {})
        if k != 5:
            store.end(k, float(k), "done", None, {})
    store.close()
    store = RunStore(tmp_path, keep=20)
    try:
        left = [run["id"] for run in store.listed(application=None, state=None, limit=1000)]
        assert left[:20] == [f"r{k}" for k in range(100, 80, -1)]
        assert len(left) <= 23
        assert left[-1] == "r5"  # it has not ended
        assert store.events(100)
        assert not store.events(50)
        assert [number for number, *_ in store.open_runs()] == [5]
    finally:
        store.close()
    (tmp_path / "runs.db").write_bytes(b"no database" * 1000)
    with pytest.raises(weft.InvalidInput, match=r"runs\.db: cannot be used"):
        RunStore(tmp_path)


class _FullDisk:
    """A connection to a file on a disk with room for some transactions."""

    def __init__(self, db, room=0):
        self.db, self.room = db, room

    def __getattr__(self, name):
        return getattr(self.db, name)

    def execute(self, sql, *given):
        self.room -= sql == "COMMIT"
        return self.db.execute(sql, *given)

    def executemany(self, *given):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.db.executemany(*given)


def test_a_full_disk_loses_no_end_of_a_run(tmp_path):
    gate = tmp_path / "gate"
    call = {"function": "wait_for", "kwargs": {"path": str(gate)}}
    document = {"workflow": {"work": [1]}, "tasks": {"task": call}}
    with serving(tmp_path / "serve") as (client, state):
        store, run = state.runs.store, client.post("/v1/runs", json=document).json()["id"]
        store._db = disk = _FullDisk(store._db)
        gate.touch()
        found = ended(client, run)
        assert found["state"] == "done"
        assert set(found["results"]) == {"t0"}
        refused = client.post("/v1/runs?id=later", json=PAIR)
        assert refused.status_code == 503
        assert "No space left on device" in refused.json()["error"]
        assert client.get("/v1/runs/later").status_code == 404
        assert store.find(run)[1]["state"] != "done"
        assert found == ended(client, run)
        (shown,) = service_status(state.runs, state.applications)["runs"]
        assert (shown["state"], shown["error"]) == ("done", None)
        disk.room = 1_000_000
        _until(lambda: run not in state.runs.active)
        stored = store.find(run)[1]
        assert {key: stored[key] for key in found} == found
        assert [event["kind"] for event in store.events(1)] == ["begun", "finished", "ended"]
        client.post("/v1/runs?id=later", json=PAIR).raise_for_status()
        assert ended(client, "later")["results"] == {"b": 5}


def test_on_a_full_disk_both_submissions_of_one_run_are_refused(tmp_path):
    with serving(tmp_path / "serve") as (client, state), ThreadPoolExecutor(1) as other:
        store = state.runs.store
        store._db, store.full = _FullDisk(store._db), True
        first = other.submit(client.post, "/v1/runs?id=twice", json=PAIR)
        _until(lambda: "twice" in state.runs.active or first.done())
        assert client.post("/v1/runs?id=twice", json=PAIR).status_code == 503
        assert first.result().status_code == 503
        assert client.get("/v1/runs/twice").status_code == 404


def test_several_submissions_are_stored_all_or_none(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.runtime.web.store._GROUP", 2)
    with serving(tmp_path / "serve") as (client, state):
        store = state.runs.store
        for room, stored in ((1, 3), (0, 0)):  # one transaction is enough for all of them
            store._db = disk = _FullDisk(store._db, room)
            answer = client.post("/v1/runs", json=[PAIR] * 3)
            assert answer.is_success == bool(stored), answer.text
            disk.room = 1_000_000
        assert len(client.get("/v1/runs").json()["runs"]) == 3


def test_an_end_that_was_shown_is_not_taken_back():
    facts = {"id": "a", "state": "running", "begun": 1.0}
    run = ActiveRun(1, facts, None, end={"state": "done", "ended": 2.0})
    assert run.shown(full=False)["state"] == "running"
    assert run.shown(full=True)["state"] == "done"
    assert run.shown(full=False)["state"] == "done"


def test_a_server_that_starts_on_a_full_disk_does_not_tell_to_move_runs_away(tmp_path, monkeypatch):
    def full(path):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(RunStore, "_opened", staticmethod(full))
    with pytest.raises(weft.InvalidInput, match=r"make room, or give another --folder$"):
        RunStore(tmp_path)


# -- restart ------------------------------------------------------------------


def test_it_goes_on_after_sigkill(tmp_path):
    log, gate = tmp_path / "log", tmp_path / "gate"

    def call(name, **kwargs):
        return {"function": name, "kwargs": kwargs}

    first = {
        "workflow": {
            "names": ["before", "gate", "after"],
            "work": [1, 1, 1],
            "src": [0, 1],
            "dst": [1, 2],
        },
        "tasks": {
            "before": call("log", path=str(log), text="before"),
            "gate": call("wait_for", path=str(gate)),
            "after": call("log", path=str(log), text="after"),
        },
    }
    with server_process(tmp_path) as (process, client):
        client.post("/v1/runs?id=first", json=first).raise_for_status()
        for k in range(20):
            client.post(f"/v1/runs?id=later{k}", json=PAIR).raise_for_status()
        _until(lambda: log.exists() and "before" in log.read_text())
        _until(lambda: "finished" in _events(tmp_path))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(WAIT_LIMIT) == -signal.SIGKILL
    with server_process(tmp_path) as (process, client):
        gate.touch()
        assert ended(client, "first")["results"] == {"after": "after"}
        for k in range(20):
            assert ended(client, f"later{k}")["results"] == {"b": 5}
        events = client.get("/v1/runs/first/events").text
        process.terminate()
        assert process.wait(WAIT_LIMIT) == 0
    assert log.read_text().split() == ["before", "after"]  # nothing finished ran again
    assert events.count("event: finished") == 3


def test_a_run_that_cannot_go_on_has_an_event_of_its_end(tmp_path):
    facts = {"id": "lost", "application": "default", "priority": 0.0, "name": "w", "tasks": 1}
    facts |= {"state": "waiting", "submitted": 0.0}
    body = {"workflow": {"work": [1]}, "tasks": {"task": {"function": "removed"}}}
    store = RunStore(tmp_path)
    store.add([(1, facts, json.dumps(body).encode())], lambda _: None)
    store.event(1, 1, 0.0, "begun", {})
    store.close()
    with serving(tmp_path) as (client, _):
        run = ended(client, "lost")
        assert (run["state"], "removed" in run["error"]) == ("failed", True)
        events = _streamed(client, "lost")
    assert [(event["seq"], event["kind"]) for event in events] == [(1, "begun"), (2, "ended")]
    assert (events[1]["state"], events[1]["error"]) == ("failed", run["error"])


def _events(folder):
    import sqlite3

    db = sqlite3.connect(folder / "serve" / "runs.db")
    try:
        sql = "SELECT kind FROM events WHERE run=(SELECT number FROM runs WHERE id='first')"
        return {kind for (kind,) in db.execute(sql)}
    finally:
        db.close()


def _until(true, seconds=WAIT_LIMIT):
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)
