"""Cold and warm executions are learned apart, and so are batches of several sizes."""

from __future__ import annotations

import os
import sqlite3
import time

import numpy as np
import pytest

import weft
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import History
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.measurements import Measurement

COLD, WARM = 0.25, 0.02
_loaded: list[bool] = []


def slow_at_first(item: int) -> int:
    """Load a model once per worker, then use it."""
    time.sleep(WARM if _loaded else WARM + COLD)
    _loaded.append(True)
    return os.getpid()


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.sqlite")


def workflow(tasks: int = 8, kind: str = "f") -> weft.Workflow:
    return weft.Workflow(work=np.ones(tasks), src=[], dst=[], data=[], kinds=(kind,))


def test_estimates_are_of_warm_executions_and_cold_ones_become_the_set_up(history):
    history.add([Measurement("f", "cpu", WARM, work=1.0)] * 4)
    history.add([Measurement("f", "cpu", WARM + COLD, work=1.0, cold=True)] * 3)
    cluster = weft.Cluster(speed=[1.0, 1.0], kinds=("cpu", "cpu"))
    problem = estimated_problem(workflow(), cluster, history, learned=True)
    assert problem.durations().max() == pytest.approx(WARM)
    assert problem.cluster.setup_of(["f"])[0, :, 0].tolist() == pytest.approx([COLD, COLD])
    plain = estimated_problem(workflow(), cluster, history)
    assert not plain.cluster.has_setup
    assert history.predict("f", "cpu", work=1.0) == WARM
    assert weft.simulate(plain, "eft").makespan == pytest.approx(4 * WARM)
    assert weft.simulate(problem, "eft").makespan == pytest.approx(COLD + 4 * WARM)


def test_only_cold_measurements_are_better_than_none(history):
    history.add([Measurement("f", "cpu", 3.0, cold=True)])
    assert history.predict("f", "cpu") == 3.0


def test_a_run_measures_the_first_execution_on_each_worker_as_cold(history):
    graph = [weft.task(slow_at_first)(k) for k in range(8)]
    workers: set[int] = set()
    for _ in range(2):
        workers |= {*weft.run(graph, devices=2, history=history, progress=False).value}
    cold = [row.seconds for row in history.tasks if row.cold]
    assert len(cold) == len(workers)  # workers outlive a run: they are warm in the second one
    assert len(history.tasks) == 16
    assert min(cold) >= WARM + COLD  # all others may be as slow on a busy machine


def test_batches_of_several_sizes_give_a_curve(history):
    for size, seconds in ((1, 1.0), (2, 1.2), (4, 1.6)):
        history.add([Measurement("f", "gpu", seconds, work=1.0, batch=size)] * size)
    cluster = weft.Cluster(speed=[1.0], kinds=("gpu",), batch=[6])
    problem = estimated_problem(workflow(), cluster, history, learned=True)
    assert problem.durations().max() == 1.0  # of a task alone
    growth = problem.cluster.batch_growth(["f"])[0, 0]
    assert growth.tolist() == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8, 2.0])


def test_older_histories_are_upgraded_and_files_keep_the_marks(history, tmp_path):
    history.add([Measurement("f", "cpu", 1.0, cold=True, batch=3)])
    for name in ("h.csv", "h.json"):
        history.export_to(tmp_path / name)
        other = History(tmp_path / f"{name}.sqlite")
        other.import_from(tmp_path / name)
        assert [(row.cold, row.batch) for row in other.tasks] == [(1.0, 3.0)]
    old = tmp_path / "old.sqlite"
    with sqlite3.connect(old) as db:
        db.execute(
            "CREATE TABLE task (id INTEGER PRIMARY KEY, kind TEXT, device TEXT, work REAL,"
            " data REAL, seconds REAL, output REAL, at REAL, sizes TEXT DEFAULT '')"
        )
        db.execute("INSERT INTO task VALUES (1, 'f', 'cpu', 0, 0, 2.0, 0, 0, '')")
        db.execute("PRAGMA user_version = 3")
    assert [(row.cold, row.batch) for row in History(old).tasks] == [(0.0, 1.0)]


def test_a_cold_execution_alone_is_an_upper_limit(history):
    # g takes three times as long on the slow device as on the fast one, warm. f was measured warm
    # on the slow device only: 3 s, so about 1 s on the fast one, whatever its cold start took.
    history.add([Measurement("g", "slow", 6.0), Measurement("g", "fast", 2.0)])
    history.add([Measurement("f", "slow", 3.0), Measurement("f", "fast", 9.0, cold=True)])
    cluster = weft.Cluster(speed=[1.0, 1.0], kinds=("slow", "fast"))
    two = weft.Workflow(
        work=np.zeros(2), src=[], dst=[], data=[], kinds=("f", "g"), kind=np.arange(2)
    )
    found = estimated_problem(two, cluster, history).durations()
    assert found[0].tolist() == pytest.approx([3.0, 1.0])
    assert found[1].tolist() == pytest.approx([6.0, 2.0])
    history.add([Measurement("f", "fast", 0.5, cold=True)] * 9)  # shorter than expected: it counts
    assert estimated_problem(two, cluster, history).durations()[0, 1] == pytest.approx(0.5)


def test_a_size_measured_elsewhere_says_more_than_another_size_here(history):
    # The slow device takes four times as long for small inputs; large ones it has never seen.
    big = (("0", 100.0),)
    history.add([Measurement("f", "fast", 1.0, 1.0), Measurement("f", "fast", 9.0, 1.0, sizes=big)])
    history.add([Measurement("f", "slow", 4.0, 1.0)])
    cluster = weft.Cluster(speed=[1.0, 1.0], kinds=("fast", "slow"))
    two = weft.Workflow(work=np.ones(2), src=[], dst=[], data=[], kinds=("f",))
    keys = [CostKey("f"), CostKey("f", big)]
    found = estimated_problem(two, cluster, history, keys=keys).durations()
    # The slow device takes four times as long for the one input that both have seen, so 4 * 9 s for
    # the large one. That it has seen small inputs only does not make it quick.
    assert found[0].tolist() == [1.0, 4.0]
    assert found[1].tolist() == pytest.approx([9.0, 36.0])
