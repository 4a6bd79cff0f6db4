"""The history: quantiles, drift, links, several writers at once, and estimates made of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.waiting import WAIT_LIMIT
from weft.model import Cluster, Problem, Workflow, Workload
from weft.planners import PLANNERS
from weft.planners.replays import replayed
from weft.runtime import History
from weft.runtime.backends.protocol import Finished
from weft.runtime.costs.estimates import estimated_problem, measured_network, with_measured_links
from weft.runtime.costs.history import KEPT, VERSION
from weft.runtime.costs.imputation import impute_kinds
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.recorder import Recorder
from weft.runtime.costs.summaries import drift_of, fit_link
from weft.runtime.deciders.plan import PlanDecider
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.sqlite")


def test_quartiles_by_kind_device_and_size(history):
    history.add(
        [Measurement("gemm", "cpu", s, work=8.0, output=100.0) for s in (1.0, 2.0, 3.0, 4.0, 5.0)]
    )
    history.add([Measurement("gemm", "gpu", 0.5, work=8.0), Measurement("trsm", "cpu", 7.0)])
    rows = {(d.kind, d.device): d for d in history.durations()}
    assert rows["gemm", "cpu"].quartiles == (2.0, 3.0, 4.0)
    assert rows["gemm", "cpu"].output == 100.0
    assert history.predict("gemm", "gpu", work=8.0) == 0.5
    assert history.predict("gemm", "cpu", work=16.0) == 6.0  # twice the work of the nearest size
    assert history.predict("potrf", "cpu") is None


def test_only_the_newest_are_kept(history):
    history.add([Measurement("a", "cpu", 1.0)] * KEPT)
    history.add([Measurement("a", "cpu", 3.0)] * (KEPT - 10))
    (known,) = history.durations()
    assert known.count == KEPT
    assert known.quartiles[1] == 3.0


def test_drift_is_seen_and_noise_is_not():
    rng = np.random.default_rng(0)
    noise = rng.lognormal(0.0, 0.3, 100)
    assert drift_of(noise.tolist()) == 1.0
    assert drift_of(
        [*noise.tolist(), *(3.0 * rng.lognormal(0.0, 0.3, 10)).tolist()]
    ) == pytest.approx(3.0, rel=0.5)
    assert drift_of([1.0] * 15) == 1.0  # too few to say


def test_links_are_fitted(history):
    # 2 ms and 1 GB/s
    history.add([], [("cpu", "gpu", size, 0.002 + size / 1e9) for size in (1e4, 1e6, 1e7, 1e8)])
    (link,) = history.links()
    assert link.bandwidth == pytest.approx(1e9, rel=1e-3)
    assert link.latency == pytest.approx(0.002, rel=1e-3)


@given(st.lists(st.tuples(st.floats(1.0, 1e9), st.floats(1e-9, 10.0)), min_size=1, max_size=20))
def test_links_are_never_negative(rows):
    bandwidth, latency = fit_link(np.array(rows))
    assert bandwidth > 0
    assert latency >= 0


WRITER = """
import sys
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement
history = History(sys.argv[1], wait=float(sys.argv[3]))  # a busy machine
for k in range(20):
    history.add([Measurement(sys.argv[2], "cpu", 1.0 + k)] * 3)
"""


def test_several_processes_may_write_at_once(tmp_path):
    path = tmp_path / "shared.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"kind{i}", str(WAIT_LIMIT)])
        for i in range(4)
    ]
    assert [w.wait(WAIT_LIMIT) for w in writers] == [0, 0, 0, 0]
    assert {d.kind: d.count for d in History(path).durations()} == {
        f"kind{i}": 60 for i in range(4)
    }
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    db.close()


def test_files_that_are_no_history_are_refused(tmp_path):
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"not a database, whatever its name says" * 40)
    with pytest.raises(weft.InvalidInput, match="is no history of weft"):
        History(bad)
    newer = tmp_path / "newer.sqlite"
    db = sqlite3.connect(newer)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(weft.InvalidInput, match="newer weft"):
        History(newer)


# -- estimates ----------------------------------------------------------------

CLUSTER = Cluster(speed=[1.0, 1.0], kinds=("cpu", "gpu"))


def two_kinds():
    return Workflow(work=[1.0, 1.0, 1.0], src=[], dst=[], data=[], kind=[0, 0, 1], kinds=("a", "b"))


def test_without_measurements_the_workflow_counts(history):
    assert estimated_problem(two_kinds(), CLUSTER, None).durations().tolist() == [[1.0, 1.0]] * 3
    assert estimated_problem(two_kinds(), CLUSTER, history).durations().tolist() == [[1.0, 1.0]] * 3
    bare = Workflow(work=[0.0, 0.0], src=[], dst=[], data=[])
    assert estimated_problem(bare, CLUSTER, None).durations().tolist() == [[1.0, 1.0]] * 2


def test_measurements_count_and_the_rest_follows_their_scale(history):
    history.add([Measurement("a", "cpu", 0.01, work=1.0)])
    # a on cpu is known: 0.01. On gpu it is taken to be off by the same factor; b by that of all
    # that is known.
    assert (
        estimated_problem(two_kinds(), CLUSTER, history).durations().round(12).tolist()
        == [[0.01, 0.01]] * 3
    )
    history.add([Measurement("a", "gpu", 0.04, work=1.0), Measurement("b", "cpu", 0.5, work=1.0)])
    np.testing.assert_allclose(
        estimated_problem(two_kinds(), CLUSTER, history).durations(),
        [[0.01, 0.04]] * 2 + [[0.5, 2.0]],  # the second device is four times as slow
    )


def test_edges_that_say_nothing_carry_what_was_returned_before(history):
    # make returned 100 bytes at work 1 and 900 at work 9; what the user gave stays; a kind
    # without measured results carries nothing.
    samples = [Measurement("make", "cpu", 1.0, work=w, output=100.0 * w) for w in (1.0, 9.0)]
    history.add([*samples, Measurement("none", "cpu", 1.0)])
    b = weft.WorkflowBuilder()
    for name, kind, work in (
        ("a", "make", 1.0),
        ("b", "make", 8.0),
        ("c", "none", 1.0),
        ("d", "new", 1.0),
        ("z", "none", 1.0),
    ):
        b.task(name, kind=kind, work=work)
    for name in "abcd":
        b.edge(name, "z")
    b.edge("a", "b", data=7.0)
    workflow = b.build()
    problem = estimated_problem(workflow, CLUSTER, history)
    found = {
        (workflow.task_name(u), workflow.task_name(v)): d
        for u, v, d in zip(workflow.src, workflow.dst, problem.workflow.data, strict=True)
    }
    assert found == {
        ("a", "b"): 7.0,
        ("a", "z"): 100.0,
        ("b", "z"): 900.0,
        ("c", "z"): 0.0,
        ("d", "z"): 0.0,
    }
    assert estimated_problem(workflow, CLUSTER, None).workflow.data.sum() == 7.0


def test_measured_links_are_the_links_of_the_cluster(history):
    history.add([], [("cpu", "gpu", size, 0.5 + size / 10.0) for size in (10.0, 10.0, 30.0, 30.0)])
    history.add([], [("gpu", "cpu", 10.0, 1.0)] * 2)  # too few for a line with a latency
    workflow = Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[20.0])
    problem = estimated_problem(workflow, CLUSTER, history)
    assert problem.transfer(0, 0, 1) == pytest.approx(0.5 + 20.0 / 10.0)
    assert problem.transfer(0, 1, 0) == pytest.approx(2.0)  # 20 bytes at 10 bytes per second
    assert problem.transfer(0, 0, 0) == 0.0
    # On unlike devices, 1 s and 0.1 s: the second task stays where the first is only because moving
    # takes 2.5 s.
    slow = Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[20.0], kind=[0, 1], kinds=("a", "b"))
    history.add(
        [
            Measurement(kind, device, seconds, work=1.0, data=data)
            for kind, device, seconds, data in LINKED
            for _ in range(3)
        ]
    )
    schedule = weft.plan(estimated_problem(slow, CLUSTER, history), "heft").schedule
    assert schedule.device.tolist() == [0, 0]
    assert weft.plan(estimated_problem(slow, CLUSTER, None), "heft").makespan == 2.0


def test_an_unmeasured_link_is_as_quick_as_the_ports_at_its_ends(history):
    # a sends at 100 B/s, c receives at 100 B/s, b at 10 B/s; b's port is as quick both ways.
    history.add([], [("a", "b", 100.0, 10.0)] * 3 + [("a", "c", 100.0, 1.0)] * 3)
    cluster = Cluster(speed=[1.0] * 4, names=tuple("abcd"), kinds=tuple("abcd"))
    found = with_measured_links(cluster, history).bandwidth
    assert found[1, 2] == found[2, 1] == pytest.approx(10.0)
    assert found[2, 0] == pytest.approx(100.0)
    assert found[3, 0] == pytest.approx(100.0)  # nothing is known of d: the median port
    assert np.isinf(np.diag(found)).all()


def test_sizes_of_results_follow_the_bytes_that_tasks_read(history):
    # Each `half` returns a quarter of what it reads; all of them are of one kind.
    w = Workflow(
        work=[1.0] * 4, src=[0, 1, 2], dst=[1, 2, 3], data=[0.0] * 3, kind=[0, 1, 1, 1],
        kinds=("image", "half"),
    )  # fmt: skip
    sizes, seconds = [8e6, 2e6, 5e5, 1.2e5], [0.1, 8.0, 2.0, 0.5]
    life = LiveLifecycle(Workload.of(Problem.bind(w, CLUSTER)))
    recorder = Recorder(history, [w])
    for task, size, took in [*zip(range(4), sizes, seconds, strict=True)] * 2:  # cold, then warm
        event = Finished(task, 0, 0.0, took, (size,))
        recorder.finished(life, Group([task], 0, 0.0), event, {})
    recorder.ended(life, 9.0)
    assert [row.data for row in history.tasks] == [0.0, 8e6, 2e6, 5e5] * 2
    problem = estimated_problem(w, CLUSTER, history)
    assert problem.workflow.data.tolist() == sizes[:3]
    assert [problem.duration(task, 0) for task in range(4)] == pytest.approx(seconds)


LINKED = [
    ("a", "cpu", 1.0, 0.0),
    ("a", "gpu", 9.0, 0.0),
    ("b", "cpu", 1.0, 20.0),
    ("b", "gpu", 0.1, 20.0),
]


@settings(max_examples=40)
@given(st.lists(st.one_of(st.just(np.nan), st.floats(-5, 5)), min_size=6, max_size=6))
def test_gaps_are_filled_and_nothing_else_changes(values):
    given_ = np.array(values).reshape(2, 3)
    full = impute_kinds(given_)
    assert np.isfinite(full).all()
    known = ~np.isnan(given_)
    np.testing.assert_array_equal(full[known], given_[known])


def test_a_size_never_seen_is_predicted_by_a_model_through_the_others(history):
    # seconds = 2 * work ** 1.5, at four sizes; the nearest size, scaled by the work, would say 2 *
    # 8 ** 1.5 * 8 = 362.
    history.add(
        [
            Measurement("a", "cpu", 2.0 * work**1.5, work=work)
            for work in (1.0, 2.0, 4.0, 8.0)
            for _ in range(5)
        ]
    )
    workflow = Workflow(work=[4.0, 64.0], src=[], dst=[], data=[], kinds=("a",))
    estimate = estimated_problem(workflow, CLUSTER, history).durations()
    assert estimate[0, 0] == 16.0  # measured
    assert estimate[1, 0] == pytest.approx(2.0 * 64.0**1.5, rel=0.1)


def test_ports_that_transfers_showed_are_shared_in_plans(history):
    nodes = Cluster(speed=[1.0] * 3, names=tuple("abc"), kinds=tuple("abc"), nodes=tuple("abc"))
    assert measured_network(nodes, history) is None
    # Most transfers shared a port; the quickest show its rate.
    history.add([], [("a", "b", 1e6, 1.0)] * 9 + [("a", "b", 1e6, 0.1)] * 2)
    network = measured_network(nodes, history)
    assert network is not None
    assert network.ports["a"].up == pytest.approx(1e7)
    assert network.ports["b"].up == network.ports["b"].down == pytest.approx(1e7)
    fork = Workflow(work=[1.0, 9.0, 9.0], src=[0, 0], dst=[1, 2], data=[1e7, 1e7])
    apart = Problem.bind(fork, nodes)
    on = PlanDecider(PLANNERS.create("heft"), network=network)._on_network(apart)
    assert on.cluster.network is network
    assert PlanDecider(PLANNERS.create("heft"))._on_network(apart) is apart
    # The readers elsewhere get 10 MB each over the one port of a: 2 s, not 1 s.
    plan = weft.Schedule.of(device=[0, 1, 2], start=[0, 3, 3], finish=[1, 12, 12])
    assert replayed(on, plan).makespan == pytest.approx(12.0)
