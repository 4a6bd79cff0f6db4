"""Instances on heterogeneous GPUs: draws, conditions and refusals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput, UnknownName
from weft.generators import (
    CONDITIONS,
    Condition,
    draw_instance,
    draw_problem,
    draw_scenario,
    fit_workflow,
    generate,
    heterogeneous_gpus,
    measure_ccr,
    minimum_path,
)
from weft.model import Cluster, Problem, Workflow
from weft.model.check import check
from weft.policies import simulate

STRUCTURES = ("layered", "cholesky", "lu", "fft", "montage", "epigenomics", "gauss", "qr")


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("ccr", [0.1, 1.0, 5.0])
def test_ccr_is_exact_on_every_structure(structure: str, ccr: float) -> None:
    for seed in range(4):
        problem = draw_problem(
            heterogeneous_gpus(seed), seed=seed, tasks=(20, 60), ccr=ccr, structure=structure
        )
        assert measure_ccr(problem) == pytest.approx(ccr, rel=1e-9)
        assert problem.n <= 60
        assert set(problem.workflow.kinds) == {"k0", "k1", "k2", "k3"}


@given(seed=st.integers(0, 10_000), tasks=st.integers(20, 150))
@settings(max_examples=15)
def test_layered_has_the_size_asked_for(seed: int, tasks: int) -> None:
    assert draw_instance("static", seed=seed, tasks=tasks).workload.instances == tasks


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_clusters_are_unlike(seed: int) -> None:
    cluster = heterogeneous_gpus(seed)
    types = list(dict.fromkeys(cluster.kinds))
    assert 2 <= len(types) <= 4
    assert all(1 <= cluster.kinds.count(kind) <= 4 for kind in types)
    assert len(set(cluster.nodes)) == len(types)
    throughput = np.array([cluster.throughput[f"k{k}"] for k in range(4)])
    for kind in types:  # like devices do like work
        same = throughput[:, [k == kind for k in cluster.kinds]]
        assert (same == same[:, :1]).all()
    factor = throughput / cluster.speed
    assert len(np.unique(factor.round(9))) == 4 * len(types)


def test_the_same_seed_gives_the_same_case_and_another_does_not() -> None:
    one, same, other = (
        draw_instance("changing", seed=s, tasks=(20, 40), jobs=3) for s in (4, 4, 5)
    )
    assert np.array_equal(one.scenario.factor, same.scenario.factor)
    assert np.array_equal(one.scenario.change_time, same.scenario.change_time)
    assert all(
        np.array_equal(a.work, b.work)
        for a, b in zip(one.workload.problems, same.workload.problems, strict=True)
    )
    assert not np.array_equal(one.workload.problems[0].work, other.workload.problems[0].work)


def test_conditions_share_their_workload() -> None:
    cases = [draw_instance(name, seed=2, tasks=30) for name in CONDITIONS if name != "stream"]
    for case in cases[1:]:
        assert np.array_equal(case.workload.problems[0].work, cases[0].workload.problems[0].work)
        assert np.array_equal(
            case.workload.problems[0].workflow.data, cases[0].workload.problems[0].workflow.data
        )
    drawn = draw_scenario(cases[0].workload, CONDITIONS["noisy"], seed=2)
    assert np.array_equal(drawn.factor, cases[1].scenario.factor)


def test_each_condition_changes_what_it_says() -> None:
    future = {
        name: draw_instance(name, seed=7, tasks=80).scenario
        for name in CONDITIONS
        if name != "stream"
    }
    noisy = {name for name, s in future.items() if (s.factor != 1).any()}
    biased = {name for name, s in future.items() if (s.bias != 1).any()}
    moving = {name for name, s in future.items() if len(s.change_time)}
    assert noisy == {"noisy", "changing"}
    assert biased == {"biased", "changing"}
    assert moving == {"failing", "changing"}


def test_bias_is_by_task_kind_and_device_kind() -> None:
    case = draw_instance("biased", seed=3, tasks=40)
    kinds = case.workload.cluster.kinds
    for kind in set(kinds):
        columns = case.scenario.bias[:, [k == kind for k in kinds]]
        assert (columns == columns[:, :1]).all()


def test_failing_devices_come_back() -> None:
    """Every device that goes down is up again later, so that every policy can end."""
    for seed in range(20):
        case = draw_instance("failing", seed=seed, tasks=30)
        last = {
            int(d): float(p)
            for d, p in zip(case.scenario.change_device, case.scenario.change_slowdown, strict=True)
        }
        assert all(np.isfinite(slowdown) for slowdown in last.values())


def test_a_stream_has_arrivals_deadlines_and_priorities() -> None:
    case = draw_instance("stream", seed=1, tasks=(20, 30), jobs=12, load=0.8)
    work = case.workload
    assert work.jobs == len(work.problems) == 12
    assert (np.diff(work.arrival) >= 0).all()
    assert set(work.priority.tolist()) <= {0.0, 1.0, 2.0}
    slack = (work.deadline - work.arrival) / np.array([minimum_path(p) for p in work.problems])
    assert ((slack >= 2.0) & (slack <= 6.0)).all()
    assert len(case.scenario.change_time) == 0


def test_load_sets_the_rate() -> None:
    """Arrivals are the same draw stretched: twice the load, half the gaps."""
    slow, quick = (
        draw_instance("stream", seed=1, tasks=(20, 30), jobs=12, load=load).workload
        for load in (0.4, 0.8)
    )
    assert np.allclose(slow.arrival, 2.0 * quick.arrival)


def test_own_amounts() -> None:
    case = draw_instance(Condition(noise=0.1, stream=True), seed=1, tasks=20, jobs=2)
    assert (case.scenario.factor != 1).all()
    assert case.workload.arrival[1] > case.workload.arrival[0]


def test_an_own_cluster_is_taken() -> None:
    cluster = Cluster(speed=np.array([1.0, 2.0]), bandwidth=1e9)
    for structure in ("layered", "cholesky"):
        case = draw_instance("static", seed=1, tasks=30, cluster=cluster, structure=structure)
        assert case.workload.cluster is cluster


def test_one_device_needs_no_ccr() -> None:
    case = draw_instance("static", seed=1, tasks=20, cluster=Cluster(speed=np.ones(1)))
    assert case.workload.cluster.p == 1


def test_drawn_cases_run_and_check() -> None:
    for name in CONDITIONS:
        case = draw_instance(name, seed=3, tasks=(20, 30), jobs=2)
        trace = simulate(case.workload, "eft", scenario=case.scenario)
        assert trace.completed.all()
        assert check(case.workload, trace) == []


def test_fitting_keeps_proportions() -> None:
    cluster = heterogeneous_gpus(5)
    workflow = dataclasses.replace(
        generate("cholesky", tiles=4, seed=1), memory=np.full(20, 1e15), cores=np.full(20, 64)
    )
    fitted = fit_workflow(workflow, cluster)
    assert np.allclose(fitted.work / fitted.work.sum(), workflow.work / workflow.work.sum())
    assert fitted.work.mean() == pytest.approx(1.0)
    assert Problem.bind(fitted, cluster).n == 20  # neither memory nor cores keep a task out


def test_fitting_takes_mean_durations() -> None:
    workflow = Workflow(
        work=[0.0, 0.0],
        src=[0],
        dst=[1],
        data=[1.0],
        durations={"a": [1.0, 4.0], "b": [3.0, np.nan]},
    )
    assert np.allclose(
        fit_workflow(workflow, heterogeneous_gpus(1)).work, [2 / 3, 4 / 3]
    )  # means 2 and 4, over their mean 3


def test_refusals() -> None:
    with pytest.raises(UnknownName, match="did you mean 'noisy'"):
        draw_instance("nosy")
    with pytest.raises(UnknownName, match="generator 'cholesk'"):
        draw_instance("static", structure="cholesk")
    with pytest.raises(InvalidInput, match="tasks is 20; it must be a whole number, 30 or more"):
        draw_instance("static", tasks=(30, 20))
    with pytest.raises(InvalidInput, match="tasks is 0"):
        draw_instance("static", tasks=0)
    with pytest.raises(InvalidInput, match="jobs is 0"):
        draw_instance("static", jobs=0)
    with pytest.raises(InvalidInput, match="ccr is -1"):
        draw_instance("static", ccr=-1.0)
    with pytest.raises(InvalidInput, match="load is 0"):
        draw_instance("stream", load=0.0, tasks=20, jobs=2)
