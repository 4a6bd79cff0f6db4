"""Durations that were not measured: known answers."""

import numpy as np
import pytest

import weft
from weft.runtime.costs.estimates import measured_network
from weft.runtime.costs.history import History
from weft.runtime.costs.imputation import impute_logs

TIMES = np.array([[0.01, 0.04], [0.1, 0.4], [1.0, 4.0], [8.0, 32.0]])


def imputed(seconds, kinds):
    return np.exp(impute_logs(np.log(seconds), seconds, np.array(kinds)))


def test_a_device_that_ran_small_tasks_only_is_not_quick():
    seen = TIMES.copy()
    seen[2:, 1] = np.nan  # the slow device has run the two small tasks
    assert imputed(seen, [0, 0, 0, 0]) == pytest.approx(TIMES, rel=0.01)


def test_long_tasks_of_another_kind_outweigh_short_ones():
    # Kind 1 took a millisecond on both devices, within one share of the processor; a second of
    # kind 0 shows that the other device is four times as slow.
    seen = np.array([[1.0, 4.0], [0.001, 0.001], [2.0, np.nan]])
    assert imputed(seen, [0, 1, 1])[2, 1] == pytest.approx(8.0, rel=0.01)


def test_a_kind_that_differs_on_a_device_stays_different():
    # Kind 1 is as quick on the second device, measured for longer than anything else.
    seen = np.array([[1.0, 4.0], [1.0, 4.0], [9.0, 9.0], [9.0, 9.0], [9.0, np.nan]])
    found = imputed(seen, [0, 0, 1, 1, 1])
    assert 9.0 < found[4, 1] < 18.0


def test_a_task_never_measured_is_a_usual_one():
    seen = np.array([[2.0, 8.0], [2.0, 8.0], [np.nan, np.nan]])
    assert imputed(seen, [0, 0, 1])[2] == pytest.approx([2.0, 8.0], rel=0.01)


def test_a_size_never_measured_is_a_usual_one_of_its_kind():
    seen = np.array([[2.0, 8.0], [2.0, 8.0], [np.nan, np.nan], *[[0.01, 0.04]] * 9])
    assert imputed(seen, [0, 0, 0, *[1] * 9])[2] == pytest.approx([2.0, 8.0], rel=0.01)


def test_one_slow_transfer_out_of_a_host_does_not_make_its_port_slow(tmp_path):
    history = History(tmp_path / "h.sqlite")
    fast, slow = 1e8, 1e7
    into = [("b", "a", 1e7, 1e7 / slow), *[("c", "a", 1e7, 1e7 / fast)] * 3]
    history.add([], [*into, ("a", "b", 1e6, 1.0)])  # the only one that left a, to a slow host
    cluster = weft.Cluster(speed=[1.0] * 3, kinds=tuple("abc"), nodes=tuple("abc"))
    network = measured_network(cluster, history)
    assert network.ports["a"].up == pytest.approx(fast)
    assert network.ports["b"].up == pytest.approx(slow)
