"""Metrics against answers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.instances import topcuoglu
from tests.support.strategies import futures
from weft.model.check import check
from weft.model.metrics import (
    critical_path,
    load_imbalance,
    schedule_metrics,
    sequential_time,
    trace_metrics,
)
from weft.model.trace import CANCELLED, DONE, LOST
from weft.sim.reference import simulate_reference
from weft.sim.rule import Rule

# The schedule that HEFT makes of the tasks of Topcuoglu et al., as in figure 3 of the paper.
DEVICE = [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]
START = [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
FINISH = [9, 40, 28, 26, 38, 42, 49, 62, 68, 80]


def test_the_graph_of_topcuoglu():
    problem, schedule = topcuoglu(), weft.Schedule.of(device=DEVICE, start=START, finish=FINISH)
    assert check(problem, schedule) == []
    found = schedule_metrics(problem, schedule)
    assert found.makespan == 80
    assert found.critical_path == 41  # shortest durations of tasks 0, 1, 8, 9: 9 + 13 + 12 + 7
    assert found.slr == 80 / 41
    assert found.speedup == 1.5875  # all on the first: 127; 80 s
    assert found.efficiency == 1.5875 / 3
    # Busy: 13 + 5 = 18 on the first, 8 + 16 + 12 + 7 = 43, 9 + 19 + 10 + 11 = 49; together 110.
    assert found.utilisation == pytest.approx(110 / 240)
    assert found.load_imbalance == pytest.approx(49 / (110 / 3) - 1)
    assert found.mean_turnaround == pytest.approx(sum(FINISH) / 10)
    # Ready: 0, then five at 9, task 6 at 28, 7 at 42, 8 at 40, 9 at 68. Starts less that: 0 + 18 +
    # 0 + 9 + 19 + 17 + 10 + 15 + 16 + 5.
    assert found.mean_waiting == pytest.approx(109 / 10)
    # Moved: 0-1, 0-3, 0-5 (2 -> 0 or 1), 1-8 (0 -> 1), 3-7, 5-7 (1 -> 0), 4-8 and 6-9 (2 -> 1), 7-9
    # (0 -> 1): 18+9+14+16+27+15+13+17+11.
    assert found.bytes_moved == 140
    assert found.copies == 0
    assert found.as_dict()["slr"] == found.slr


def test_energy():
    # Device 0 runs 2 of 5 seconds, device 1 runs 3: 100 * 2 + 10 * 3 + 200 * 3 + 20 * 2.
    tasks = weft.Workflow(work=[2.0, 3.0], src=[0], dst=[1], data=[0.0])
    problem = weft.Problem.bind(
        tasks, weft.Cluster(speed=[1.0, 1.0], power=[100.0, 200.0], idle_power=[10.0, 20.0])
    )
    assert (
        schedule_metrics(
            problem, weft.Schedule.of(device=[0, 1], start=[0.0, 2.0], finish=[2.0, 5.0])
        ).energy
        == 200 + 30 + 600 + 40
    )


def test_no_device_runs_all_tasks():
    # Task 0 runs only on the first (4 s), task 1 only on the second (6 s): 4 + 6.
    problem = weft.Problem.from_arrays([[4.0, np.inf], [np.inf, 6.0]])
    assert sequential_time([(problem, np.ones(2))]) == 10.0
    assert (
        schedule_metrics(
            problem, weft.Schedule.of(device=[0, 1], start=[0.0, 0.0], finish=[4.0, 6.0])
        ).speedup
        == 10 / 6
    )


def test_copies_spare_transfers():
    problem = weft.Problem.from_arrays([[2.0, 2.0], [3.0, 3.0]], [[0, 1]], [10.0], bandwidth=5.0)
    apart = schedule_metrics(
        problem, weft.Schedule.of(device=[0, 1], start=[0.0, 4.0], finish=[2.0, 7.0])
    )
    assert (apart.bytes_moved, apart.copies, apart.mean_waiting) == (
        10.0,
        0,
        1.0,
    )  # task 1 waits from 2 to 4
    rows = {
        "task": [0, 0, 1],
        "device": [0, 1, 1],
        "start": [0.0, 0.0, 2.0],
        "finish": [2.0, 2.0, 5.0],
        "copy": [False, True, False],
    }
    copied = schedule_metrics(problem, weft.Schedule.of(**rows))
    assert (copied.bytes_moved, copied.copies, copied.mean_waiting) == (0.0, 1, 0.0)
    assert copied.utilisation == (2 + 5) / 10


def test_nothing_to_do():
    empty = weft.Problem.from_arrays(np.zeros((0, 2)))
    found = schedule_metrics(empty, weft.Schedule.of(device=[], start=[], finish=[]))
    assert found.makespan == found.utilisation == found.energy == found.load_imbalance == 0.0
    assert found.slr == found.speedup == 1.0
    still = weft.Problem.from_arrays([[0.0]])
    assert (
        schedule_metrics(still, weft.Schedule.of(device=[0], start=[0.0], finish=[0.0])).slr == 1.0
    )


def test_load_imbalance():
    assert load_imbalance(np.array([3.0, 1.0])) == 0.5  # 3 / 2 - 1
    assert load_imbalance(np.zeros(2)) == 0.0


def test_critical_path_of_any_numbering():
    # 2 -> 1 -> 0: 1 + 2 + 3; task 3 alone takes 5.
    assert (
        critical_path(weft.Problem.from_arrays([[3.0], [2.0], [1.0], [5.0]], [[1, 0], [2, 1]]))
        == 6.0
    )


def trace_by_hand() -> weft.Trace:
    """Three jobs of a (2 s) and, if chosen, b (1 s): b runs, b is skipped, cancelled."""
    b = weft.WorkflowBuilder("ab")
    b.task("a", work=2.0)
    b.task("b", work=1.0)
    b.choice("a", {"yes": 0.5, "no": 0.5})
    b.edge("a", "b", data=7.0, when="yes")
    cluster = weft.Cluster(speed=[1.0, 1.0], bandwidth=7.0, power=10.0)
    w = weft.Workload.of(
        weft.Problem.bind(b.build(), cluster), arrival=[1.0, 2.0, 3.0], deadline=[6.0, 6.0, 3.5]
    )
    scenario = weft.Scenario.of(
        w,
        outcome=[0, 1, 0],
        cancel=[np.inf, np.inf, 7.0],
        changes=[(4.0, 1, np.inf), (4.5, 1, 1.0)],
    )
    rows = [
        (0, 0, 0, 1.0, 1.0, 3.0, DONE),
        (1, 0, 1, 2.0, 3.0, 4.0, LOST),
        (0, 1, 1, 4.5, 4.5, 5.5, DONE),  # the data needs one second
        (1, 0, 0, 4.0, 5.0, 7.0, DONE),
        (2, 0, 1, 5.5, 5.5, 7.0, CANCELLED),
    ]
    columns = dict(
        zip(
            ("job", "task", "device", "decided", "start", "finish", "status"),
            map(np.array, zip(*rows, strict=True)),
            strict=True,
        )
    )
    return weft.Trace(
        w,
        scenario,
        **columns,
        batch=np.arange(5),
        copy=np.zeros(5, bool),
        job_finish=np.array([5.5, 7.0, np.nan]),
    )


def test_a_trace():
    trace = trace_by_hand()
    assert check(trace.workload, trace) == []
    found = trace_metrics(trace)
    assert found.makespan == 6.0  # from 1 to 7
    assert found.jct == (4.5 + 5.0) / 2
    assert found.jct_median == 4.75
    assert (found.jobs, found.finished, found.cancelled) == (3, 2, 1)
    assert found.slr == (4.5 / 3 + 5.0 / 2) / 2  # a and b take 3, a alone 2
    assert found.speedup == 5.0 / 6.0  # a, b, a on one device
    assert found.utilisation == (4.0 + 3.5) / 12  # 2 + 2 on the first; 1 + 1 + 1.5 on the second
    assert found.load_imbalance == pytest.approx(4.0 / 3.75 - 1)
    assert found.mean_waiting == pytest.approx(
        (0 + 1.5 + 3.0) / 3
    )  # b is ready at 3; the second a at 2
    assert found.mean_turnaround == pytest.approx((2.0 + 4.5 + 5.0) / 3)
    assert found.energy == 75.0  # 10 W over 7.5 s
    assert found.bytes_moved == 7.0
    assert (found.deadline_misses, found.deadline_miss_share) == (
        1,
        0.5,
    )  # 5.5 <= 6 < 7; the cancelled one does not count
    assert (found.lost, found.lost_seconds) == (1, 1.0)


@given(futures(), st.booleans())
def test_figures_of_any_trace(future, eager):
    workload, scenario = future
    rule = Rule("r", "earliest", np.zeros(workload.instances))
    trace = simulate_reference(workload, rule, scenario=scenario, eager=eager)
    found = trace_metrics(trace)
    assert found.utilisation == pytest.approx(trace.utilisation)
    assert -1e-9 <= found.utilisation <= 1 + 1e-9
    assert found.mean_waiting >= -1e-9
    assert found.finished + found.cancelled == found.jobs
    assert found.deadline_misses <= found.finished
    assert 0 <= found.bytes_moved < np.inf


def test_rent_counts_all_devices_until_the_end():
    # Half an hour at 3 + 1 per hour, though the second device does nothing.
    tasks = weft.Workflow(work=[1800.0], src=[], dst=[], data=[])
    problem = weft.Problem.bind(tasks, weft.Cluster(speed=[1.0, 0.1], price=[3.0, 1.0]))
    schedule = weft.Schedule.of(device=[0], start=[0.0], finish=[1800.0])
    assert schedule_metrics(problem, schedule).cost == 2.0
    trace = simulate_reference(weft.Workload.of(problem), schedule)
    assert (trace.cost, trace_metrics(trace).cost) == (2.0, 2.0)
