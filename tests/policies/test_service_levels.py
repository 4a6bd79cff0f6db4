"""Deadlines and priorities: rules with known answers, figures, the objective of comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.formats.native.stream_toml import read_stream_toml
from weft.learn.conditional.scores import service_figures
from weft.report.compare import compare
from weft.sim.reference import simulate_reference


def jobs(work, *, deadline, priority=0.0, arrival=0.0, devices=1):
    """Return jobs of one task each on equal devices."""
    cluster = weft.Cluster(speed=np.ones(devices))
    problems = [
        weft.Problem.bind(weft.Workflow(work=[w], src=[], dst=[], data=[], name=f"w{w}"), cluster)
        for w in work
    ]
    return weft.Workload.of(
        problems, arrival=np.broadcast_to(arrival, len(work)), deadline=deadline, priority=priority
    )


def order(workload, policy):
    trace = weft.simulate(workload, policy)
    assert weft.check(workload, trace) == []
    return trace.job[np.argsort(trace.start, kind="stable")].tolist()


def test_the_earliest_deadline_goes_first():
    workload = jobs([3.0, 2.0, 1.0], deadline=[9.0, 4.0, 5.0])
    assert order(workload, "edf") == [1, 2, 0]
    assert order(workload, "fifo") == [0, 1, 2]


def test_least_slack_counts_the_work_that_is_left():
    # Latest starts: 9 - 7 = 2, 8 - 1 = 7, 10 - 2 = 8.
    workload = jobs([7.0, 1.0, 2.0], deadline=[9.0, 8.0, 10.0])
    assert order(workload, "least-slack") == [0, 1, 2]
    assert order(workload, "edf") == [1, 0, 2]


def test_priorities_come_before_deadlines_or_break_their_ties():
    workload = jobs([1.0, 1.0, 1.0], deadline=[2.0, 5.0, 5.0], priority=[0.0, 1.0, 2.0])
    assert order(workload, "priority-first") == [2, 1, 0]
    assert order(workload, "edf") == [0, 2, 1]


def test_the_critical_ratio_serves_the_greatest_risk_and_the_lost_last():
    # Time left over time needed: 6 / 4, 9 / 3, and 1 / 2: too late already.
    workload = jobs([4.0, 3.0, 2.0], deadline=[6.0, 9.0, 1.0])
    assert order(workload, "critical-ratio") == [0, 1, 2]
    assert order(workload, "edf")[0] == 2


def test_jobs_without_deadlines_wait_for_those_with_one():
    workload = jobs([1.0, 1.0], deadline=[np.inf, 3.0])
    for policy in ("edf", "least-slack", "critical-ratio"):
        assert order(workload, policy) == [1, 0], policy


def test_the_least_attained_service_goes_first():
    cluster = weft.Cluster(speed=[1.0])
    chain = weft.Workflow(work=[2.0, 2.0, 2.0], src=[0, 1], dst=[1, 2], data=[0, 0])
    workload = weft.Workload.of(weft.Problem.bind(chain, cluster), arrival=[0.0, 3.0])
    # The second job has had nothing when the first has had 4 s, then 2 s.
    assert order(workload, "las") == [0, 0, 1, 1, 0, 1]
    assert order(workload, "fifo") == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("policy", ["edf", "least-slack", "priority-first"])
def test_the_compiled_rule_equals_its_decisions_by_views(policy):
    rng = np.random.default_rng(3)
    workload = jobs(
        rng.integers(1, 5, 20).astype(float),
        arrival=np.sort(rng.integers(0, 9, 20)).astype(float),
        deadline=rng.integers(5, 30, 20).astype(float),
        priority=rng.integers(0, 3, 20).astype(float),
        devices=2,
    )
    compiled = weft.simulate(workload, policy)
    plain = simulate_reference(workload, weft.load_policy(policy))
    assert np.array_equal(compiled.finish, plain.finish)


def test_figures_of_service_levels():
    trace = weft.simulate(jobs([2.0, 2.0, 2.0], deadline=[2.0, 3.0, np.inf]), "fifo")
    found = weft.model.metrics.trace_metrics(trace)
    assert (found.in_time_share, found.deadline_miss_share) == (0.5, 0.5)
    assert found.jct_p99 == pytest.approx(np.percentile([2.0, 4.0, 6.0], 99))


def test_comparisons_rank_by_the_objective():
    workload = jobs([9.0, 1.0, 1.0], deadline=[99.0, 2.0, 3.0])
    table = compare(workload, ["fifo", "edf"], objective="deadline")
    assert [(row.contender, row.in_time, row.best) for row in table.rows] == [
        ("edf", 1.0, True),
        ("fifo", pytest.approx(1 / 3), False),
    ]
    assert "in time" in str(table)
    assert "p99 JCT" in str(table)
    with pytest.raises(weft.UnknownName, match="did you mean 'deadline'"):
        compare(workload, "edf", objective="deadlines")


STREAM = """
jobs = 50
tick = "1 ms"
deadline = "30 ms"
[arrivals]
gap = "10 ms"
[[tasks]]
name = "a"
time = "20 ms"
[[units]]
name = "unit"
count = 2
batch = 1
"""


def test_streams_have_deadlines():
    stream = read_stream_toml(STREAM, name="line")
    workload, scenario = stream.draw(1)
    assert np.allclose(workload.deadline - workload.arrival, 0.03)
    trace = weft.simulate(workload, "edf", scenario=scenario)
    assert service_figures(trace.job_completion, stream.deadline)["in_time"] == 1.0
    with pytest.raises(weft.InvalidInput, match="deadline"):
        read_stream_toml(STREAM.replace("30 ms", "-1 s"), name="line")
