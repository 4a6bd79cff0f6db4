"""The Ray backend on this machine: its own behaviour beyond the conformance suite."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.instances import chain, fan
from tests.support.waiting import wait_until
from weft.model.trace import LOST
from weft.runtime import LocalDevice, RayBackend, RayDevice, TaskFailed
from weft.runtime.backends.leftover_processes import children
from weft.runtime.backends.protocol import Call, Finished, Transfer
from weft.runtime.backends.ray import backend as backend_module
from weft.runtime.backends.ray import session as ray_session
from weft.runtime.backends.ray.own_tasks import OwnTasks
from weft.runtime.backends.ray.slots import TransferEstimator
from weft.runtime.costs.history import History
from weft.runtime.deciders.whole_plan import PlanRow

pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft-scheduling[ray]'")
psutil = pytest.importorskip("psutil", reason="psutil is not installed")

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # Ray leaves files and processes to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture
def two(ray_backend):
    return ray_backend


@pytest.fixture
def run(two):
    return partial(weft.run, backend=two, history=False)


def test_it_listens_on_loopback_only(two):
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    heard = [
        c.laddr.ip
        for p in processes
        for c in p.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN
    ]
    assert heard
    assert all("127.0.0.1" in ip or ip == "::1" for ip in heard)


# -- what comes out -----------------------------------------------------------


def test_results_outlive_the_connection_to_ray(run):
    shapes = {
        "ones": np.ones((3, 50_000)),
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "none": None,
    }
    trace = run(chain("a"), functions={"a": lambda: shapes})  # a lambda travels too
    for name, value in trace.results["a"].items():
        np.testing.assert_array_equal(value, shapes[name])


SCRIPT = """
import weft
from weft.runtime import RayBackend

class Point:
    def __init__(self, x):
        self.x = x

@weft.task
def half(point):
    return Point(point.x // 2)

@weft.task
def add(*points):
    return half(Point(2 * sum(p.x for p in points)))  # inside a task, the plain function

trace = weft.run(add(half(Point(8)), half(Point(6))), backend="ray", devices=1, history=False)
assert type(trace.results["add-0"]) is Point
print("x =", trace.results["add-0"].x)
"""


def test_a_script_needs_no_guard_and_its_classes_travel(two, tmp_path):
    """On a Ray that the script starts and ends itself, beside the one of these tests."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert "x = 7" in done.stdout, done.stderr[-2000:]


def test_cholesky_is_right(run, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import cholesky

    trace = run(cholesky.build())
    assert len(trace) == 165
    assert cholesky.error_of(trace) < 1e-9
    assert weft.check(trace.workload, trace) == []
    assert set(trace.device.tolist()) == {0, 1}


def test_a_plan_reads_what_it_calls_itself():
    """A retracted call ran all the same; its result is ignored, and the call is made again."""
    backend, called = object.__new__(RayBackend), []
    backend._plan_calls, backend._results, backend._slots, backend._events = (
        0,
        {0: "stale", 7: "from before"},
        [],
        [],
    )

    def call(order, device, inputs):
        called.append((order.members[0], device, inputs))
        return SimpleNamespace(order=order, value=f"value of {order.members[0]}")

    def wait(_until):
        return [
            Finished(-k - 1, device, float(k), k + 1.0, (1.0,), (None,), ())
            for k, (_, device, _) in enumerate(called)
        ]

    backend._call, backend.wait, backend._retract = call, wait, list
    ended = []
    rows = [PlanRow(0, 0, (7,)), PlanRow(1, 1, (0,))]
    backend.run_plan(rows, lambda instance, _event: ended.append(instance) or True, fixed=True)
    assert called == [(0, 0, ["from before"]), (1, 1, ["value of 0"])]
    assert ended == [0, 1]


# -- what goes wrong ----------------------------------------------------------


def test_an_order_that_waits_can_be_taken_back(two, tmp_path):
    """The second of three waiting orders is cancelled: it does not run, and the third does."""
    gate, marks = tmp_path / "gate", tmp_path / "marks"
    marks.mkdir()
    b = weft.WorkflowBuilder()
    for k in range(3):
        b.task(f"t{k}", kind="mark", work=1.0)
    workload = weft.Workload.of(weft.Problem.bind(b.build(), two.devices()))
    calls = [
        weft.runtime.backends.protocol.Call(f.count_calls, (str(marks), str(k))) for k in range(3)
    ]
    calls[0] = weft.runtime.backends.protocol.Call(f.waits_for, (str(gate),))
    two.begin(workload, calls)
    try:
        for k in range(3):
            two.submit(weft.runtime.backends.protocol.Order(k, (k,), ((),), (False,)), 0, k)
        two.cancel(1)
        control = two._slots[0].actor.drop.options(concurrency_group="control")
        sys.modules["ray"].get(control.remote([]))  # calls of a group run in order
        gate.touch()
        finished = []
        while len(finished) < 2:
            finished += [
                event.number
                for event in two.wait(30.0)
                if isinstance(event, weft.runtime.backends.protocol.Finished)
            ]
        assert finished == [0, 2]
        assert [path.name.split(".")[0] for path in marks.iterdir()] == ["2"]
    finally:
        two.finish()


@pytest.mark.parametrize("policy", ["heft", "eft"])
def test_actors_killed_in_the_middle(two, policy, tmp_path):
    rng = random.Random(3)
    promises, values = [], []
    for k in range(40):
        parents = rng.sample(range(k), min(k, rng.randrange(4)))
        promises.append(f.marked(str(tmp_path), k, *(promises[p] for p in parents)))
        values.append(sum(values[p] for p in parents) + 1)

    def kill_twice():
        for goal in (5, 20):
            while len(list(tmp_path.iterdir())) < goal:
                time.sleep(0.005)
            slot = two._slots[goal % 2]
            if slot.ready:
                os.kill(slot.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_twice)
    killer.start()
    trace = weft.run(promises, policy=policy, backend=two, history=False, crashes=6)
    killer.join()
    assert list(trace.results.values()) == values
    assert weft.check(trace.workload, trace) == []


def test_results_survive_the_actor_that_made_them(two):
    """An actor is killed after it made a large result, which another actor then reads."""

    def late(array):
        os.kill(pids[0], signal.SIGKILL)
        os.kill(pids[1], 0)
        time.sleep(0.3)
        return float(array.sum())

    weft.run(chain("one"), functions={"one": f.one}, backend=two, history=False)  # both are up
    pids = [slot.pid for slot in two._slots]
    schedule = weft.Schedule.of(task=[0, 1], device=[0, 1], start=[0, 1], finish=[1, 2])
    trace = weft.run(
        chain("make", "late"),
        functions={"make": f.ones, "late": late},
        policy=schedule,
        backend=two,
        history=False,
    )
    assert trace.results == {"late": 50_000.0}
    assert LOST not in trace.status


def test_all_actors_import_ahead_what_a_function_imports_first(two, run, tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(
        "import os\nfrom pathlib import Path\nPath(__file__).with_name(str(os.getpid())).touch()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def one():
        import slow_to_import

        return slow_to_import.__name__

    assert run(chain("one"), functions={"one": one}).results == {"one": "slow_to_import"}
    imported = {int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()}
    assert imported == set(two.pids())  # also by the one that ran nothing
    assert len(imported) == 2


def test_actors_of_an_earlier_run_are_warm(two, tmp_path):
    history = History(tmp_path / "history.sqlite")
    graph = [weft.task(os.getpid)() for _ in range(6)]
    used: set[int] = set()
    for _ in range(2):
        used |= {*weft.run(graph, backend=two, history=history).value}
    assert len(history.tasks) == 12
    assert sum(row.cold for row in history.tasks) == len(used)  # each actor once, not once per run


# -- plans at once ------------------------------------------------------------


def test_all_calls_of_a_plan_are_made_at_once(two, run, monkeypatch):
    monkeypatch.setattr(two, "submit", None)
    trace = run(fan(10), functions={"one": f.one, "add": f.add, "total": f.add}, adapt=False)
    assert weft.check(trace.workload, trace) == []
    assert trace.results == {"total": 10 * 2 + 1}
    assert set(trace.device.tolist()) == {0, 1}
    assert trace.plans == 1


def test_nothing_of_a_plan_runs_without_what_it_needs(run, tmp_path):
    b = weft.WorkflowBuilder()
    for name in ("bad", "child"):
        b.task(name, work=1.0, kind=name)
    b.edge("bad", "child")
    with pytest.raises(TaskFailed, match="no 3"):
        run(
            b.build(),
            functions={"bad": f.raises, "child": partial(called, str(tmp_path / "child"))},
        )
    assert not list(tmp_path.iterdir())


# -- a graph that Ray places --------------------------------------------------


@pytest.fixture
def beside(two):
    """Devices that leave the processors to Ray's own tasks."""
    with RayBackend([RayDevice(name, cpus=0.0) for name in ("x", "y")]) as backend:
        yield backend


def test_ray_places_what_nobody_has_measured(beside, monkeypatch):
    placed, submit = [], OwnTasks.submit

    def noted(self, rows, call_of):
        placed.extend(row.instance for row in rows)
        submit(self, rows, call_of)

    monkeypatch.setattr(OwnTasks, "submit", noted)
    one, add = weft.task(f.one), weft.task(f.add)
    trace = weft.run(add(add(one(), one()), add(one())), backend=beside, history=False)
    assert trace.value == 6  # 1 + 1 + 1, then 1 + 1, and 3 + 2 + 1
    assert sorted(placed) == sorted(trace.task.tolist()) == list(range(6))
    assert weft.check(trace.workload, trace) == []


def own_name(*_):
    import ray

    return ray.get_runtime_context().get_task_function_name()


def own_name_too(*names):
    return *names, own_name()


def test_ray_sees_the_functions_of_the_user_there(beside, monkeypatch):
    """Ray queues tasks and leases workers by function, so one for all would not be the same."""
    graphs, follow = [], OwnTasks.follow
    monkeypatch.setattr(
        OwnTasks, "follow", lambda self, *a: graphs.append(self) or follow(self, *a)
    )
    first, second = weft.task(own_name), weft.task(own_name_too)
    trace = weft.run(second(first(), first()), backend=beside, history=False)
    assert [name.rpartition(".")[2] for name in trace.value] == ["own_name"] * 2 + ["own_name_too"]
    (graph,) = graphs
    assert not graph._values  # Ray drops results when their readers have ended


def test_a_task_that_fails_there_is_named(beside):
    one, fails, add = weft.task(f.one), weft.task(f.raises), weft.task(f.add)
    with pytest.raises(TaskFailed, match=r"'raises-0' failed on device '[xy]': ValueError: no 3"):
        weft.run(add(one(), fails(one())), backend=beside, history=False)


def called(path, *_):
    Path(path).touch()


def test_what_moves_is_measured_by_how_late_it_starts():
    estimator = TransferEstimator()
    assert (
        estimator.started((7,), 1, since=0.0, free_at=0.0, start=1.0) == ()
    )  # nothing is known of it
    for k in range(3):
        estimator.made(k, 0, 100.0, 1.0)
        assert estimator.started((k,), 0, since=1.0, free_at=0.5, start=1.002) == ()
    assert estimator.started((0, 1), 1, since=1.0, free_at=0.5, start=1.012) == (
        Transfer(0, 200.0, 0.01),
    )
    assert (
        estimator.started((0,), 1, since=1.0, free_at=1.1, start=1.2) == ()
    )  # it was busy meanwhile
    assert (
        estimator.started((0,), 1, since=1.0, free_at=0.5, start=1.001) == ()
    )  # sooner than usual


# -- asking Ray for what it has -----------------------------------------------


def test_what_no_node_has_is_refused_at_once(two):
    with pytest.raises(
        weft.InvalidInput, match=r"device 'odd' asks for 1 CPU, 2 unicorn, which no node of Ray has"
    ):
        RayBackend([RayDevice("odd", resources={"unicorn": 2.0})])
    with pytest.raises(weft.InvalidInput, match="5 devices ask for 5 CPU, Ray has 4"):
        RayBackend(5)
    with pytest.raises(weft.InvalidInput, match="at least one"):
        RayBackend([])
    with pytest.raises(weft.Unsupported, match="memory limit"):
        RayBackend([LocalDevice("small", memory=1 << 30)])


def test_a_ray_that_was_there_before_stays(two):
    with RayBackend([RayDevice("extra", cpus=0.0)]) as second:
        assert weft.run(
            chain("where"), functions={"where": f.where}, backend=second, history=False
        ).results == {"where": "extra"}
    assert sys.modules["ray"].is_initialized()


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(weft.errors.MissingExtra, match=r"weft-scheduling\[ray\]"):
        RayBackend(1)


HEADLESS = """
import os, signal, sys
sys.path.insert(0, {root!r})
import weft
from tests.support import run_functions as f
from weft.runtime import RayBackend
from weft.runtime.backends.leftover_processes import descendants

backend = RayBackend(1)
token = backend._session._token
heads = [pid for pid in descendants(token) if "gcs_server" in open(f"/proc/{{pid}}/comm").read()]
try:
    weft.run(f.kills_and_hangs(heads[0]), backend=backend, policy="eft", history=False)
except weft.WeftError as error:
    print(error)
backend.close()
print(len(heads), descendants(token))
"""


def test_a_ray_whose_head_was_killed_is_reported_and_leaves_nothing():
    script = HEADLESS.format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=True
    )
    assert "Ray's gcs_server is gone, and with it the results of this run" in done.stdout
    assert done.stdout.endswith("1 {}\n")


def replace_ray(monkeypatch, start):
    """Let sessions call `start` instead of starting Ray."""
    nothing = SimpleNamespace(is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_session, "import_ray", lambda: nothing)
    monkeypatch.setattr(ray_session, "_start", start)
    monkeypatch.setattr(ray_session.RaySession, "_check", lambda _: None)


def test_a_start_that_fails_is_tried_again(monkeypatch):
    starts = []

    def start(*_):
        starts.append(1)
        if len(starts) < 3:
            raise RuntimeError("The current node timed out during startup")

    replace_ray(monkeypatch, start)
    ray_session.RaySession(1, None)
    assert len(starts) == 3
    starts[:] = []
    monkeypatch.setattr(ray_session, "START_TRIES", 2)
    with pytest.raises(weft.WeftError, match="did not start on this machine: The current node"):
        ray_session.RaySession(1, None)


def test_processes_of_a_failed_start_are_dropped_without_warnings(monkeypatch):
    starts = []

    def start(*_):
        starts.append(1)
        if len(starts) == 1:
            node = SimpleNamespace(process=subprocess.Popen([sys.executable, "-c", "input()"]))
            node.itself = node  # as Ray's nodes, it lives until the next collection
            node.process.kill()
            raise RuntimeError("The current node timed out during startup")

    replace_ray(monkeypatch, start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        ray_session.RaySession(1, None)
        gc.collect()
    assert len(starts) == 2
    assert [str(warning.message) for warning in caught] == []


def test_a_device_that_does_not_start_is_left_out_unless_it_is_the_last():
    slot, closed = SimpleNamespace(device=0), []
    backend = SimpleNamespace(
        specs=[RayDevice("cpu0"), RayDevice("cpu1")],
        _session=SimpleNamespace(free=lambda: "1 CPU", start_limit=120.0),
        _slots=[slot, SimpleNamespace(device=1)],
        _end=lambda _: None,
        close=lambda: closed.append(1),
    )
    with pytest.warns(UserWarning, match=r"'cpu0' did not start: .* the run goes on without"):
        RayBackend._not_started(backend, slot)
    assert backend._slots[0] is None
    assert not closed
    with pytest.raises(weft.WeftError, match="'cpu1' did not start: Ray found no place for it"):
        RayBackend._not_started(backend, backend._slots[1])
    assert closed


def test_an_actor_whose_only_node_died_is_not_waited_for():
    """Ray keeps such an actor waiting; the limits are for nodes that are full or slow."""

    class Late(Exception):
        pass

    nodes = [{"Alive": True, "Resources": {"a": 1.0}}, {"Alive": False, "Resources": {"b": 1.0}}]
    session = ray_session.RaySession.__new__(ray_session.RaySession)
    session.ray = SimpleNamespace(nodes=lambda: nodes)
    session._had_room, session.own = True, False
    assert session.has({"a": 1.0})
    assert not session.has({"b": 1.0})
    backend = SimpleNamespace(
        specs=[RayDevice("cpu0", cpus=0.0, resources={"b": 1.0})],
        _session=session,
        _ray=SimpleNamespace(
            wait=lambda refs, timeout: ([], refs), exceptions=SimpleNamespace(GetTimeoutError=Late)
        ),
    )
    with pytest.raises(Late):
        RayBackend._handshake(backend, SimpleNamespace(device=0, preloaded="ref"))


@pytest.mark.parametrize(
    ("started", "free", "limit"), [(True, 0, 600.0), (False, 1, 120.0), (False, 2, 600.0)]
)
def test_a_ray_with_room_may_be_slow_and_one_of_others_full(started, free, limit):
    session = ray_session.RaySession.__new__(ray_session.RaySession)
    session.started, session.bundles, session._had_room = started, [], False
    session.specs = [RayDevice("a"), RayDevice("b")]  # one processor each
    amounts = {"CPU": float(free)}
    session.ray = SimpleNamespace(available_resources=lambda: amounts)
    assert session.start_limit == limit
    amounts.clear()  # the actors hold it
    assert session.start_limit == limit


def test_a_head_that_dies_ends_the_wait_for_its_actors():
    asked = []
    backend = SimpleNamespace(
        _session=SimpleNamespace(gone=lambda: "raylet", start_limit=600.0),
        _ray=SimpleNamespace(wait=lambda refs, timeout: asked.append(refs) or ([], refs)),
    )
    with pytest.raises(weft.WeftError, match="Ray's raylet is gone"):
        RayBackend._handshake(backend, SimpleNamespace(preloaded="reference"))
    assert len(asked) == 1


def test_a_head_that_dies_before_anything_ran_is_started_again():
    restarts = []
    backend = RayBackend.__new__(RayBackend)
    backend.specs, backend._slots = [RayDevice("cpu0")], [SimpleNamespace()]
    backend._session = SimpleNamespace(started=True, restart=lambda: restarts.append(1))

    def start():
        if len(restarts) < 2:
            raise ray_session.HeadGone("Ray's raylet is gone before its actors were up")
        assert backend._slots == [None]
        return {}

    backend._start_actors = start
    workload = weft.Workload.of([weft.Problem.from_arrays([[1.0]])])
    backend.begin(workload, [Call(f.one, (), {})])
    assert len(restarts) == 2
    backend._session.started = False  # another program started it
    restarts.clear()
    with pytest.raises(weft.WeftError, match="raylet is gone"):
        backend.begin(workload, [Call(f.one, (), {})])
    assert not restarts


def test_an_actor_whose_process_died_before_it_reached_ray_is_replaced(monkeypatch):
    now, replaced = [0.0], []
    monkeypatch.setattr(backend_module.time, "perf_counter", lambda: now[0])
    slots = [SimpleNamespace(device=d, ready=d == 0, born=float(d)) for d in range(3)]
    workers = [3]
    backend = SimpleNamespace(
        _slots=slots,
        _starts=[0, 0, 0],
        _looked_at=0.0,
        _complete_at=0.0,
        _session=SimpleNamespace(workers=lambda: workers[0]),
        _replace_dead=lambda slot, _: replaced.append(slot.device),
    )

    def look(at):
        now[0] = at
        RayBackend._replace_unstarted(backend)
        found, replaced[:] = list(replaced), []
        return found

    assert look(10.0) == []
    workers[0] = 2  # one died; which one is not known: the newest is asked for again
    assert look(14.0) == []
    assert look(16.0) == [2]
    assert look(16.1) == []  # it was looked at a moment ago
    backend._starts[2] = 1
    assert look(19.0) == []  # more patience after each attempt
    assert look(20.5) == [2]
    workers[0] = 1
    assert look(30.0) == [2, 1]
    workers[0] = float("inf")  # a Ray that another program started
    assert look(50.0) == []


def test_workers_of_an_own_ray_are_counted(two):
    wait_until(lambda: two._session.workers() >= len(two.pids()))
    assert ray_session.RaySession.workers(SimpleNamespace(started=False)) == float("inf")


def test_children_are_the_living_ones():
    sleeps = [subprocess.Popen(["sleep", "900"]) for _ in range(2)]
    assert children(os.getpid()).count("sleep") == 2
    sleeps[0].kill()
    wait_until(lambda: children(os.getpid()).count("sleep") == 1)  # a zombie is none
    for sleep in sleeps:
        sleep.kill()
        sleep.wait()
