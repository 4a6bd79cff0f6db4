"""Runs on Dask: what comes out, what goes wrong, and that nothing stays behind."""

from __future__ import annotations

import multiprocessing
import operator
import os
import pickle
import signal
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.instances import chain, fan
from tests.support.waiting import WAIT_LIMIT, wait_until
from weft.model.trace import LOST
from weft.planners.planner import Solution
from weft.runtime import History, LocalBackend, LocalDevice, TaskFailed

pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'weft-scheduling[dask]'"
)

import dask
import dask.array as da
import dask.bag as db
from distributed import Client, LocalCluster, get_worker

from weft.runtime.backends.dask import plugin as dask_plugin
from weft.runtime.backends.dask import tasks as dask_tasks
from weft.runtime.backends.dask.backend import DaskBackend
from weft.runtime.backends.dask.outbox import RELEASED_BYTES, RELEASED_TOGETHER, Outbox
from weft.runtime.inputs.dask_graph import from_collections

QUIET = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",  # any port: other tests may have the usual one
    "silence_logs": 60,
}
FAN = {"one": f.one, "add": f.add, "total": f.add}


@pytest.fixture(scope="module")
def two():
    with DaskBackend([LocalDevice("left", kind="a"), LocalDevice("right", kind="b")]) as backend:
        yield backend
    assert multiprocessing.active_children() == []


@pytest.fixture
def run(two):
    two.whole = False
    return partial(weft.run, backend=two, history=False)


@pytest.fixture(scope="module")
def client(two):
    """A second client of the same workers."""
    with Client(two.client.scheduler.address, set_as_default=False) as client:
        yield client


def right(trace):
    assert weft.check(trace.workload, trace) == []
    return trace


# -- what comes out -----------------------------------------------------------


def test_tasks_run_where_they_were_sent(run):
    schedule = weft.Schedule.of(task=[0, 1, 2], device=[1, 0, 1], start=[0, 1, 2], finish=[1, 2, 3])
    trace = right(
        run(
            chain("where", "also", "again"),
            functions=dict.fromkeys(("where", "also", "again"), f.where),
            policy=schedule,
        )
    )
    assert trace.results == {"again": "right"}
    assert trace.device[np.argsort(trace.start)].tolist() == [1, 0, 1]


def test_large_results_move_between_workers_and_are_measured(two, tmp_path):
    history = History(tmp_path / "h.sqlite")
    schedule = weft.Schedule.of(task=[0, 1], device=[0, 1], start=[0, 1], finish=[1, 2])
    functions = {"ones": f.ones, "sum": f.total}
    trace = right(
        weft.run(
            chain("ones", "sum"), functions=functions, policy=schedule, backend=two, history=history
        )
    )
    assert trace.results == {"sum": 50_000.0}
    (link,) = history.links()
    assert (link.source, link.target, link.count) == ("a", "b", 1)
    assert {(d.kind, d.device) for d in history.durations()} == {("ones", "a"), ("sum", "b")}


def test_the_order_of_a_device_is_kept_though_dask_would_not(run):
    # `late` waits for 4 MB from the other worker; what was sent after it needs nothing, and must
    # not overtake it.
    b = weft.WorkflowBuilder("overtaking")
    for name in ("big", "late", "x0", "x1", "x2"):
        b.task(name, work=1.0, kind=name)
    b.edge("big", "late")
    functions = {
        "big": partial(np.ones, 500_000),
        "late": f.total,
        **dict.fromkeys(("x0", "x1", "x2"), f.one),
    }

    class InOrder:
        name = "in-order"

        def begin(self, workload, *, seed=0):
            """Nothing to prepare."""

        def decide(self, view):
            instance = int(view.ready[0]) if len(view.ready) else None
            if instance is None or (instance > 1 and view.ran_on[0] < 0):
                return None  # big first, alone
            return weft.sim.view.Decision(instance, 0 if instance == 0 else 1)

    trace = right(run(b.build(), functions=functions, policy=InOrder(), window=4))
    assert not trace.replaced
    assert trace.results == {"late": 500_000.0, "x0": 1, "x1": 1, "x2": 1}
    assert [int(i) for i in trace.task[np.argsort(trace.start)]] == [0, 1, 2, 3, 4]


def test_a_run_that_comes_early_waits_for_its_turn(monkeypatch):
    turns, left = dask_tasks.OrderSequencer(), []
    monkeypatch.setattr(dask_tasks, "secede", lambda: left.append(1))
    message_of = partial(
        dask_tasks.TaskMessage,
        "r",
        device="d",
        home="h",
        function=b"",
        arguments=b"",
        inputs=(),
        chooses=False,
    )
    first, second, third = (
        message_of(0, before=-1),
        message_of(1, before=0),
        message_of(2, before=1),
    )
    assert turns.take(first)
    answers = {}
    waiting = threading.Thread(target=lambda: answers.update(third=turns.take(third)))
    waiting.start()
    while not left:
        time.sleep(0.001)
    turns.drop("r", 1, 0)  # the third waits for the first now
    assert not answers
    turns.end(first)
    waiting.join(WAIT_LIMIT)
    assert answers == {"third": True}
    assert not turns.take(second)
    turns.close("r")
    assert not turns.take(message_of(9, before=8))


def test_a_plan_is_one_graph(two, run, monkeypatch):
    graphs = []
    get = two.client.get
    monkeypatch.setattr(
        two.client,
        "get",
        lambda graph, *args, **options: graphs.append(graph) or get(graph, *args, **options),
    )
    monkeypatch.setattr(two.client, "submit", None)
    two.whole = True
    trace = right(run(fan(10), functions=FAN, policy="heft", adapt=False))
    assert trace.results == {"total": 10 * 2 + 1}
    assert [len(graph) for graph in graphs] == [12]
    assert set(trace.device.tolist()) == {0, 1}
    assert trace.plans == 1


def test_a_plan_that_fails_is_taken_over_by_the_driver(two, run, tmp_path):
    two.whole = True
    functions = {
        "one": f.one,
        "flaky": partial(f.fails_twice, str(tmp_path / "tries")),
        "add": f.add,
    }
    b = weft.WorkflowBuilder()
    for name in ("one", "flaky", "other"):
        b.task(name, work=1.0, kind="add" if name == "other" else name)
    b.edge("one", "other")
    trace = right(run(b.build(), functions=functions, retries=1, backoff=0.01))
    assert trace.results == {"flaky": 2, "other": 2}


def test_nothing_of_a_plan_runs_without_what_it_needs(two, run, tmp_path):
    two.whole = True
    b = weft.WorkflowBuilder()
    for name in ("bad", "child"):
        b.task(name, work=1.0, kind=name)
    b.edge("bad", "child")
    functions = {"bad": f.raises, "child": partial(called, str(tmp_path / "child"))}
    with pytest.raises(TaskFailed, match="no 3"):
        run(b.build(), functions=functions)
    assert not list(tmp_path.iterdir())


def called(path, *_):
    Path(path).touch()


# -- ways in ------------------------------------------------------------------


def test_a_client_is_a_backend_and_is_left_as_it_was(client):
    def stealing(dask_scheduler):
        intervals = [comm.interval for comm in dask_scheduler.stream_comms.values()]
        return (
            "stealing" in dask_scheduler.periodic_callbacks,
            sorted(dask_scheduler.plugins),
            intervals,
        )

    async def steal(dask_scheduler):
        await dask_scheduler.extensions["stealing"].start()

    client.run_on_scheduler(steal) if "stealing" in client.run_on_scheduler(extensions) else None
    before = client.run_on_scheduler(stealing)
    interval = client.scheduler_comm.interval
    trace = right(weft.run(fan(), functions=FAN, backend=client, history=False))
    assert trace.results == {"total": 9}
    assert set(trace.workload.cluster.names) == {"left", "right"}
    assert client.run_on_scheduler(stealing) == before
    assert client.scheduler_comm.interval == interval
    assert client.submit(operator.add, 1, 2).result() == 3
    assert not client.run_on_scheduler(
        lambda dask_scheduler: [k for k in dask_scheduler.tasks if "weft" in str(k)]
    )


def extensions(dask_scheduler):
    return list(dask_scheduler.extensions)


def delayed_sum():
    double = dask.delayed(lambda x: 2 * x)
    return dask.delayed(sum)([double(1), double(double(2)), 5])


def array_product():
    a = da.from_array(np.arange(36.0).reshape(6, 6), chunks=3)
    return (a @ a.T + 1).sum(axis=0)


def bag_of_numbers():
    return (
        db.from_sequence(range(20), npartitions=3).map(lambda x: 3 * x).filter(lambda x: x % 2 == 0)
    )


@pytest.mark.parametrize(
    "make",
    [delayed_sum, array_product, bag_of_numbers, lambda: bag_of_numbers().sum()],
    ids=["delayed", "array", "bag", "item"],
)
@pytest.mark.parametrize("where", ["client", "local"])
def test_collections_give_what_compute_gives(client, make, where, request):
    expected = make().compute(scheduler="sync")
    if where == "client":
        trace = weft.run(make(), backend=client, history=False)
    else:
        trace = weft.run(make(), backend=request.getfixturevalue("local"), history=False)
    np.testing.assert_array_equal(right(trace).results["result"], expected)


@pytest.fixture(scope="module")
def local():
    with LocalBackend(2) as backend:
        yield backend


def test_several_collections_are_one_graph(run):
    total = dask.delayed(sum, pure=True)([1, 2], dask_key_name="total")
    trace = run([total + 1, total * 2])
    assert trace.results == {"result-0": 4, "result-1": 6}
    assert len(trace) == 3
    assert trace.workload.kinds == ("total", "add", "mul")


def test_data_that_one_task_reads_is_part_of_it():
    a = da.from_array(np.ones(6), chunks=3)
    app = from_collections([a + 1])
    assert app.workflow.n == 2


def test_what_was_persisted_is_refused(client):
    kept = dask.delayed(max)(1, 2)
    with client.as_current():
        kept = kept.persist()
    with pytest.raises(weft.Unsupported, match="persisted"):
        weft.run(dask.delayed(abs)(kept), backend=client, history=False)


# -- what goes wrong ----------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
def test_what_a_dead_worker_held_is_computed_again(two, run, tmp_path, whole):
    # The results of the first layer live on both workers when one of them is killed under a task of
    # the second.
    two.whole = whole
    before = two.recomputed
    b = weft.WorkflowBuilder()
    for k in range(6):
        b.task(f"first{k}", work=1.0, kind="one")
    b.task("killer", work=1.0, kind="killer")
    b.task("sum", work=1.0, kind="add")
    for k in range(6):
        b.edge(f"first{k}", "killer")
        b.edge(f"first{k}", "sum")
    b.edge("killer", "sum")
    functions = {"one": f.one, "killer": partial(kills_once, str(tmp_path / "mark")), "add": f.add}
    trace = right(run(b.build(), functions=functions))
    assert trace.results == {"sum": 6 + 1 + 1}  # six ones, the killer's one, and add's
    assert two.recomputed > before
    if not whole:
        assert LOST in trace.status


def kills_once(path, *_):
    """Ends its worker, the first time."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def test_a_worker_killed_from_outside(two, run, tmp_path):
    def kill():
        f.waits_for(tmp_path / "2")  # the third call; later ones wait for the file `go`
        os.kill(two.registry.sites[0].pid, signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    b = weft.WorkflowBuilder()
    for k in range(40):
        b.task(f"t{k}", work=1.0)
    trace = right(run(b.build(), functions={"task": partial(f.first_three, str(tmp_path))}))
    killer.join()
    assert list(trace.results.values()) == [1] * 40
    assert len(trace.scenario.change_time) >= 1


@pytest.mark.parametrize("policy", ["heft", "heft-replanned"])
def test_a_worker_that_joins_becomes_a_device(policy, tmp_path):
    """The first task waits until the backend has the new worker."""
    gate = tmp_path / "gate"
    with (
        LocalCluster(n_workers=1, **QUIET) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        backend = DaskBackend(client)

        def join():
            f.waits_for(tmp_path / "begun")
            cluster.scale(2)
            while len(backend.registry.sites) < 2 or not backend.registry.sites[1].up:
                time.sleep(0.005)
            gate.touch()

        joining = threading.Thread(target=join)
        joining.start()
        first = f.begun_then_gated(str(tmp_path / "begun"), str(gate))
        tasks = [first, *(f.slowly(k) for k in range(100))]
        trace = right(weft.run(tasks, policy=policy, backend=backend, history=False))
        joining.join()
        assert list(trace.results.values()) == [None, *range(100)]
        assert len(trace.workload.cluster.names) == 2
        assert set(trace.device.tolist()) == {0, 1}
        assert not trace.replaced
        # It was down until it joined: its work begins after that.
        changes = trace.scenario
        up = (changes.change_device == 1) & np.isfinite(changes.change_slowdown)
        assert trace.start[trace.device == 1].min() >= changes.change_time[up].min()
        # Both are there from the start of the next run.
        assert (
            len(
                right(
                    weft.run(fan(), functions=FAN, backend=client, history=False)
                ).workload.cluster.names
            )
            == 2
        )


def test_a_worker_that_comes_between_two_runs_of_a_backend():
    with (
        LocalCluster(n_workers=1, **QUIET) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        backend = DaskBackend(client)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=WAIT_LIMIT)
        trace = right(
            weft.run(
                [f.slowly(k) for k in range(40)], policy="fifo", backend=backend, history=False
            )
        )
        assert list(trace.results.values()) == list(range(40))
        assert backend.devices().p == 2
        assert [site.name for site in backend.registry.sites] == ["0", "1"]


def test_nothing_to_talk_to_is_said(two):
    with (
        pytest.raises(weft.InvalidInput, match="no Dask scheduler answers"),
        dask.config.set({"distributed.comm.timeouts.connect": "0.3s"}),
    ):
        DaskBackend("tcp://127.0.0.1:9")


def test_a_cholesky_factor_is_right(run):
    tiles, size = 3, 8
    rng = np.random.default_rng(0)
    a = rng.standard_normal((tiles * size, tiles * size))
    a = a @ a.T + len(a) * np.eye(len(a))
    t = {
        (i, j): a[i * size : (i + 1) * size, j * size : (j + 1) * size]
        for i in range(tiles)
        for j in range(i + 1)
    }
    for k in range(tiles):
        t[k, k] = f.potrf(t[k, k])
        for i in range(k + 1, tiles):
            t[i, k] = f.trsm(t[k, k], t[i, k])
        for i in range(k + 1, tiles):
            for j in range(k + 1, i + 1):
                t[i, j] = f.gemm(t[i, j], t[i, k], t[j, k])
    trace = right(run(list(t.values())))
    factor = np.zeros_like(a)
    for (i, j), tile in zip(t, trace.results.values(), strict=True):
        factor[i * size : (i + 1) * size, j * size : (j + 1) * size] = tile
    np.testing.assert_allclose(factor @ factor.T, a, atol=1e-9)


# -- transfers beside tasks ---------------------------------------------------


def receives(kind, *_):
    """Run until this worker has a result of that kind; return whether it came."""
    data, limit = get_worker().data, time.monotonic() + WAIT_LIMIT
    while not any(key.startswith(f"{kind}-weft") for key in list(data)):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


def test_inputs_of_the_next_order_arrive_while_the_one_before_it_runs(run):
    b = weft.WorkflowBuilder("ahead")
    for name in ("big", "meanwhile", "reads"):
        b.task(name, work=1.0, kind=name)
    b.edge("big", "reads")
    functions = {
        "big": partial(np.ones, 500_000),
        "meanwhile": partial(receives, "big"),
        "reads": f.total,
    }

    class Fixed:
        name = "fixed"

        def begin(self, workload, *, seed=0):
            """Nothing to prepare."""

        def decide(self, view):
            place = {0: 0, 1: 1, 2: 1}  # it reads from the other worker, behind `meanwhile`
            instance = next((int(i) for i in view.ready if i != 2 or view.ran_on[1] < 0), None)
            return None if instance is None else weft.sim.view.Decision(instance, place[instance])

    trace = right(run(b.build(), functions=functions, policy=Fixed()))
    assert not trace.replaced
    assert trace.results == {"meanwhile": True, "reads": 500_000.0}
    assert trace.device[np.argsort(trace.task)].tolist() == [0, 1, 1]


def test_an_input_moves_before_the_other_inputs_of_its_reader_exist(two, run):
    two.whole = True
    b = weft.WorkflowBuilder("early")
    for name in ("big", "other", "reads"):
        b.task(name, work=1.0, kind=name)
    b.edge("big", "reads")
    b.edge("other", "reads")
    functions = {
        "big": partial(np.ones, 500_000),
        "other": partial(receives, "big"),
        "reads": lambda array, came: (float(array.sum()), came),
    }

    class Given:
        name, supports = "given", frozenset()

        def solve(self, problem, *, seconds=None, seed=0):
            rows = {"task": [0, 1, 2], "device": [0, 1, 1], "start": [0, 0, 1]}
            return Solution(weft.Schedule.of(**rows, finish=[1, 1, 2]))

    trace = right(run(b.build(), functions=functions, policy=Given(), adapt=False))
    assert trace.results == {"reads": (500_000.0, True)}
    assert trace.device[np.argsort(trace.task)].tolist() == [0, 1, 1]


# -- a graph that Dask places -------------------------------------------------


def tasks_of_runs(dask_scheduler):
    return [key for key in dask_scheduler.tasks if "-weft" in str(key)]


def test_dask_gets_a_graph_that_nobody_measured_as_its_user_would_send_it(two, run, monkeypatch):
    sent, get = [], two.client.get
    monkeypatch.setattr(
        two.client,
        "get",
        lambda graph, keys, **options: sent.append((graph, keys)) or get(graph, keys, **options),
    )
    two.whole = None
    one, add = weft.task(f.one), weft.task(f.add)
    trace = right(run(add(add(one(), one()), add(one()))))
    assert trace.value == 6  # 1 + 1 + 1, then 1 + 1, and 3 + 2 + 1
    ((graph, keys),) = sent
    assert len(graph) == 6
    last = next(iter(trace.task[trace.finish == trace.finish.max()]))
    assert [key.rsplit("-", 1)[1] for key in keys] == [str(last)]  # Dask assigns from these on
    assert two.client.run_on_scheduler(tasks_of_runs) == []


def test_what_is_done_of_such_a_graph_is_there_if_a_task_fails(two, run, tmp_path):
    two.whole = None
    counted = weft.task(partial(f.count_calls, str(tmp_path)))
    tries = tmp_path.parent / f"{tmp_path.name}-tries"
    flaky = weft.task(lambda _, path=str(tries): f.fails_twice(path))
    first = counted("first")
    promise = weft.task(f.add)(first, flaky(counted("second", first)))
    assert right(run(promise, retries=1, backoff=0.01)).value == 1 + 2 + 1
    assert sorted(path.name.split(".")[0] for path in tmp_path.iterdir()) == ["first", "second"]


# -- orders -------------------------------------------------------------------


def test_the_orders_of_a_moment_are_one_message(two, run, monkeypatch):
    sent, send = [], two.client._send_to_scheduler

    def counting(message):
        sent.append(message)
        send(message)

    monkeypatch.setattr(two.client, "_send_to_scheduler", counting)
    trace = right(run(fan(6), functions=FAN, policy="rank-eft"))
    orders = [pickle.loads(message["data"])[0] for message in sent if "data" in message]
    assert sum(map(len, orders)) == len(trace.task)
    assert max(map(len, orders)) > 1  # the adds become ready together


def test_an_order_whose_input_is_gone_is_an_error():
    reporter, reported = dask_plugin.Reporter("run", "client"), []
    reporter.scheduler = SimpleNamespace(
        tasks={},
        extensions={},
        log_event=lambda topic, message: reported.append((topic, message)),
        client_desires_keys=lambda keys, client: reported.extend(keys),
        transitions=lambda recommended, _: reported.extend(recommended),
    )
    order = dask_plugin.PackedOrder("f-run-1", "tcp://nowhere", 0.0, ["g-run-0"], {}, b"")
    reporter.take_message("client", pickle.dumps(([order], [])))
    ((topic, message),) = reported
    assert (topic, message["word"], message["key"]) == ("run", "erred", "f-run-1")
    assert "inputs" in message["text"]


def test_small_results_are_released_together_and_large_ones_at_once():
    sent = []
    outbox = Outbox(SimpleNamespace(_send_to_scheduler=sent.append), "run")

    def result(name, size):
        held = outbox.submit(dask_plugin.PackedOrder(name, "tcp://here", 0.0, [], {}, b""))
        held.size = size
        return held

    small = [result(f"small-{k}", 10.0) for k in range(RELEASED_TOGETHER)]
    large = result("large", RELEASED_BYTES)
    waits = outbox.submit(dask_plugin.PackedOrder("waits", "tcp://here", 0.0, [], {}, b""))
    outbox.send()
    for held in small[:-1]:
        held.release()
        outbox.send()
    assert len(sent) == 1  # the orders
    for held in (small[-1], large, waits):
        held.release()
        outbox.send()
    messages = [pickle.loads(message["data"]) for message in sent]
    assert [len(orders) for orders, _ in messages] == [RELEASED_TOGETHER + 2, 0, 0, 0]
    assert messages[1][1] == [held.key for held in small]
    assert [released for _, released in messages[2:]] == [["large"], ["waits"]]


def test_results_are_held_for_the_run_and_not_beyond_it(two, run, monkeypatch):
    held, fetch = [], two.fetch

    def look(dask_scheduler):
        return {key for key in dask_scheduler.tasks if "-weft" in key}, len(dask_scheduler.clients)

    def fetch_after_a_look(instance):
        held.append(two.client.run_on_scheduler(look))
        return fetch(instance)

    _, before = two.client.run_on_scheduler(look)
    monkeypatch.setattr(two, "fetch", fetch_after_a_look)
    assert right(run(fan(), functions=FAN, policy="rank-eft")).results == {"total": 9}
    ((keys, clients),) = held
    assert any(key.startswith("total-weft") for key in keys)
    assert clients == before + 1  # the run itself
    wait_until(lambda: two.client.run_on_scheduler(look) == (set(), before))


def test_a_run_whose_client_is_gone_holds_nothing():
    released = []
    scheduler = SimpleNamespace(
        clients={"run": SimpleNamespace(wants_what=[SimpleNamespace(key="f-run-1")])},
        client_releases_keys=lambda keys, client: released.append((keys, client)),
    )
    reporter = dask_plugin.Reporter("run", "its client")
    reporter.remove_client(scheduler, "another client")
    assert not released
    reporter.remove_client(scheduler, "its client")
    assert released == [(["f-run-1"], "run")]


def test_workers_of_an_earlier_run_are_warm(two, tmp_path):
    history = History(tmp_path / "history.sqlite")
    graph = [weft.task(os.getpid)() for _ in range(6)]
    used: set[int] = set()
    for policy in ("rank-eft", "heft"):
        used |= {*weft.run(graph, backend=two, history=history, policy=policy).value}
    assert len(history.tasks) == 12
    assert sum(row.cold for row in history.tasks) == len(used)
