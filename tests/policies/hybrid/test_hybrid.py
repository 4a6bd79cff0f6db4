"""`hybrid`: a process that learns durations and detects changes, and the policy that uses it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Workload
from weft.policies.hybrid.duration_process import DurationProcess
from weft.policies.hybrid.policy import HybridPolicy


def seconds_of(process: DurationProcess, *row: float) -> float:
    return float(np.exp(process.predict(row).centre))


# -- the process ------------------------------------------------------------------------


def test_it_equals_the_textbook_formulas():
    # Mean and variance of a Gaussian process with noise (Rasmussen and Williams 2006, 2.25, 2.26),
    # by plain inversion.
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    process = DurationProcess(("a", "b"))
    for row, value in zip(rows, y, strict=True):
        process.observe(row, float(np.exp(value)))
    k = process.kernel

    def covariance(a, b):
        local = np.exp(-(np.abs(a[:, None] - b[None]) / k.reach).sum(axis=2))
        return 25.0 + a @ b.T + 1.5**2 + k.local**2 * local

    new = rng.normal(size=(5, 2))
    inverse = np.linalg.inv(covariance(rows, rows) + k.noise**2 * np.eye(12))
    across = covariance(rows, new)
    centre, scale = process.predict_rows(new, np.zeros(5, np.int64))
    np.testing.assert_allclose(centre, across.T @ inverse @ y, rtol=1e-6, atol=1e-8)
    variance = np.diag(covariance(new, new) - across.T @ inverse @ across) + k.noise**2
    np.testing.assert_allclose(scale, np.sqrt(variance), rtol=1e-5)
    assert process.eras == 1


def test_it_learns_a_cliff_that_no_trend_has():
    process = DurationProcess(("size",), logs=("size",))
    sizes = np.exp(np.random.default_rng(1).uniform(0, 4, 80))
    for size in sizes:
        process.observe([size], size * (1.0 if size < 10 else 8.0))
    assert process.eras == 1
    assert seconds_of(process, 5.0) == pytest.approx(5.0, rel=0.2)
    assert seconds_of(process, 20.0) == pytest.approx(160.0, rel=0.2)


def test_a_slower_device_begins_an_era_and_keeps_its_shape():
    process = DurationProcess(("size",), logs=("size",))
    sizes = np.exp(np.random.default_rng(2).uniform(0, 4, 60))
    for size in sizes:
        process.observe([size], size**1.5)
    assert process.eras == 1
    for _ in range(3):
        process.observe([3.0], 30.0 * 3.0**1.5)
    assert process.eras == 2
    assert seconds_of(process, 40.0) == pytest.approx(30.0 * 40.0**1.5, rel=0.3)


def test_groups_have_levels_of_their_own():
    process = DurationProcess(("size",), logs=("size",), level=0.5, slope=0.1, group=1.0)
    for k in range(30):
        process.observe([1.0 + k % 3], (1.0, 4.0)[k % 2], group=k % 2)
    assert process.predict([2.0], 0).expected == pytest.approx(1.0, rel=0.2)
    assert process.predict([2.0], 1).expected == pytest.approx(4.0, rel=0.2)


def test_the_window_and_the_state():
    process = DurationProcess(("size",), logs=("size",), window=10)
    process.fit([[1.0], [2.0]], [1.0, 2.0])
    for k in range(25):
        process.observe([1.0 + k % 5], 3.0 + k)
    assert len(process.state()["y"]) == 2 + 10
    other = DurationProcess(("size",), logs=("size",), window=10)
    other.fit([[1.0], [2.0]], [1.0, 2.0])
    other.resume({key: np.asarray(value).tolist() for key, value in process.state().items()})
    for each in (process, other):
        each.observe([2.0], 5.0)
    assert process.predict([3.0]) == other.predict([3.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.observe([0.0], 1.0), "'size' of row 0 is 0.0"),
        (lambda p: p.observe([1.0], -1.0), "a duration of -1.0 s"),
        (lambda p: p.predict([1.0, 2.0]), "expected one column"),
        (lambda p: p.fit([[1.0]], []), "1 rows of features and 0 durations"),
        (lambda _: DurationProcess(("a",), logs=("b",)), "'b', which is not a feature"),
    ],
)
def test_mistakes_are_one_line(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(DurationProcess(("size",), logs=("size",)))


# -- the policy -------------------------------------------------------------------------


def two_kinds(n: int) -> Problem:
    """Return tasks that take 1 s on both kinds, by the estimates."""
    workflow = weft.Workflow(
        work=np.zeros(n),
        src=np.zeros(0, np.int64),
        dst=np.zeros(0, np.int64),
        data=np.zeros(0),
        durations={"cpu": np.ones(n), "gpu": np.ones(n)},
    )
    cluster = weft.Cluster(speed=np.ones(2), kinds=("cpu", "gpu"), names=("c", "g"))
    return Problem.bind(workflow, cluster)


def test_wrong_estimates_are_corrected_by_observations():
    # In truth the GPU takes 10 s per task. At 20 s, 20 tasks are done on the CPU and 2 on the GPU;
    # of the last 3, fifo sends one to the GPU until 30 s, and hybrid waits for the CPU until 23 s.
    problem = two_kinds(25)
    scenario = Scenario.of(Workload.of(problem), bias=[[1.0, 10.0]])
    ends = {name: weft.simulate(problem, name, scenario=scenario) for name in ("fifo", "hybrid")}
    assert ends["fifo"].makespan == pytest.approx(30.0)
    assert ends["hybrid"].makespan == pytest.approx(23.0)


def test_the_policy_never_sends_a_task_where_it_cannot_run():
    # Tasks 0 and 1 run on one device only; the models would like the other better.
    problem = Problem.from_arrays([[np.inf, 9.0], [9.0, np.inf], [1.0, 1.0]])
    cheap, dear = DurationProcess(("x",)), DurationProcess(("x",))
    cheap.fit([[0.0], [1.0]], [1.0, 1.0])
    dear.fit([[0.0], [1.0]], [50.0, 50.0])
    trace = weft.simulate(
        problem, HybridPolicy({"device": cheap}, lambda w: np.zeros((w.instances, 1)))
    )
    assert weft.check(Workload.of(problem), trace) == []
    with pytest.raises(InvalidInput, match="no model of device kind 'device'"):
        weft.simulate(problem, HybridPolicy({"gpu": dear}, lambda w: np.zeros((w.instances, 1))))
    with pytest.raises(InvalidInput, match="2 rows of features for 3 tasks"):
        weft.simulate(problem, HybridPolicy({"device": dear}, lambda _: np.zeros((2, 1))))
    with pytest.raises(InvalidInput, match="models and features, or neither"):
        HybridPolicy({"device": dear})


def test_it_is_in_the_table_and_compares():
    assert "hybrid" in weft.list_policies()
    cluster = weft.gpu_cluster("1xV100+1xT4")
    problem = Problem.bind(weft.generate("layered", tasks=30, seed=3), cluster)
    trace = weft.simulate(problem, "hybrid", seed=1, noise=0.3)
    assert weft.check(Workload.of(problem), trace) == []
    assert "hybrid" in str(weft.compare([problem], ["hybrid", "fifo"]))
