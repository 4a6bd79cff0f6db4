"""The GPU-cluster experiment: same draws for all, results in order and after a stop, a report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.experiments.gpu_cluster import experiment as gpu_cluster
from weft.experiments.gpu_cluster.contenders import CONTENDERS, contender, contenders
from weft.experiments.gpu_cluster.runs import (
    FIGURES,
    FIRST_SEED,
    FULL,
    QUICK,
    Evaluator,
    ExperimentPlan,
    Point,
    Seeds,
    as_arrays,
    draw,
    points,
    run_point,
    uniform_links,
)
from weft.experiments.harness import Checkpoint, fingerprint, in_processes
from weft.generators import draw_instance, heterogeneous_gpus
from weft.model import Workload
from weft.model.metrics import trace_metrics
from weft.planners import PLANNERS, plan
from weft.policies import POLICIES, simulate
from weft.policies.replanning.policy import ReplanningPolicy

TINY = dataclasses.replace(
    QUICK,
    tasks=(20,),
    jobs=(3,),
    loads=(0.8,),
    devices=(2,),
    uniform=(20,),
    seeds=Seeds(axis=2, static=4, jobs=2, streams=2, transfer=2),
    stream_jobs=3,
    stream_tasks=(15, 20),
    structures=("cholesky", "tpch_spark"),
    tuned=("cholesky",),
    tuning_seconds=1.0,
    specialist_seconds=1.0,
    ccrs=(0.1, 5.0),
    job_ccrs=(5.0,),
    conditions=("static", "changing"),
    timing_rounds=2,
    processes=1,
)


def _point(**changes: Any) -> Point:
    return dataclasses.replace(
        Point("tasks", 20, 1.0, 5, ("static", "noisy"), ("heft", "eft", "fifo-deft")), **changes
    )


# -- contenders -------------------------------------------------------------------------


def test_every_contender_has_one_name_and_is_registered() -> None:
    assert len({c.name for c in CONTENDERS}) == len(CONTENDERS)
    for c in CONTENDERS:
        assert c.maker in (PLANNERS if c.planned else POLICIES).names(), c.name


def test_points_pair_seeds_and_leave_out_who_does_not_belong() -> None:
    made = points(FULL, [c.name for c in contenders()])
    assert len({p.key for p in made}) == len(made)
    assert all("anytime" not in p.names for p in made if p.axis in {"jobs", "stream"})
    assert all("fifo-deft-apart" in p.names for p in made if p.axis == "jobs")
    for axis in ("tasks", "jobs", "stream"):  # at least 30 seeds at every point of a full run
        seeds: dict[tuple[float, float], set[int]] = {}
        for p in made:
            if p.axis == axis:
                seeds.setdefault((p.x, p.ccr), set()).add(p.seed)
        assert min(map(len, seeds.values())) >= 30
        assert {ccr for _, ccr in seeds} == ({1.0} if axis == "jobs" else {0.1, 1.0, 5.0})
    assert {
        p.conditions for p in made if p.axis == "tasks" and p.seed >= FIRST_SEED + FULL.seeds.axis
    } == {("static",)}


# -- the evaluator -------------------------------------------------------------------------


def test_futures_are_those_of_draw_case() -> None:
    _, futures = draw(_point(conditions=("static", "noisy", "failing", "biased", "changing")))
    for name, future in futures.items():
        case = draw_instance(name, seed=5, tasks=20, ccr=1.0)
        assert np.array_equal(case.scenario.factor, future.factor)
        assert np.array_equal(case.scenario.bias, future.bias)
        assert np.array_equal(case.scenario.change_time, future.change_time)


@pytest.mark.parametrize("condition", ["static", "changing", "stream"])
def test_figures_agree_with_the_metrics_of_a_trace(condition: str) -> None:
    case = draw_instance(condition, seed=3, tasks=(15, 25), jobs=3)
    evaluator = Evaluator(case.workload, stream=condition == "stream")
    trace = simulate(case.workload, "eft", scenario=case.scenario)
    found = evaluator.measure(trace, case.workload.first_instance)
    expected = trace_metrics(trace)
    for key, value in (
        ("makespan", expected.makespan),
        ("speedup", expected.speedup),
        ("slr", expected.slr),
        ("jct", expected.jct),
        ("misses", expected.deadline_miss_share),
        ("energy", expected.energy),
        ("utilisation", expected.utilisation),
    ):
        assert found[key] == pytest.approx(value, rel=1e-12), key


def test_merged_jobs_are_the_same_work() -> None:
    """A plan of all jobs together, replayed with exact costs, takes as long as planned."""
    case = draw_instance("static", seed=4, tasks=(15, 25), jobs=4)
    merged = Evaluator(case.workload).merged
    assert merged.n == case.workload.instances
    for j in range(case.workload.jobs):
        own, first = case.workload.problem_of(j), int(case.workload.first_instance[j])
        assert np.array_equal(merged.durations()[first : first + own.n], own.durations())
    planned = plan(merged, "heft").makespan
    evaluator = Evaluator(case.workload)
    simulated = evaluator.run(contender("heft"), case.scenario)
    assert simulated is not None
    assert simulated["makespan"] == pytest.approx(planned, rel=1e-9)
    assert simulated["over_bound"] >= 1.0


def test_one_job_is_its_own_problem() -> None:
    case = draw_instance("static", seed=4, tasks=20)
    assert Evaluator(case.workload).merged is case.workload.problems[0]


def test_jobs_planned_apart_never_know_of_each_other() -> None:
    """Two equal jobs planned for the same device: one waits although another device is idle."""
    case = draw_instance("static", seed=4, tasks=20)
    twice = Workload.of(case.workload.problems[0], arrival=[0.0, 0.0])
    evaluator = Evaluator(twice)
    future = dataclasses.replace(
        case.scenario,
        factor=np.ones(twice.instances),
        cancel=np.full(2, np.inf),
        outcome=np.zeros(0, np.int64),
    )
    apart, together = (
        evaluator.run(contender(name), future) for name in ("fifo-deft-apart", "fifo-deft")
    )
    assert apart is not None
    assert together is not None
    assert apart["makespan"] >= together["makespan"]


def test_fairness_is_jains_index() -> None:
    """Slowdowns 1 and 3: (1 + 3)^2 / (2 * (1 + 9)) = 0.8."""
    case = draw_instance("static", seed=4, tasks=20)
    twice = Workload.of(case.workload.problems[0], arrival=[0.0, 0.0])
    evaluator = Evaluator(twice)
    trace = simulate(twice, "eft", seed=0)
    time = trace.job_completion
    evaluator.__dict__["paths"] = time / np.array([1.0, 3.0])
    assert evaluator.measure(trace, twice.first_instance)["fairness"] == pytest.approx(0.8)


def test_a_contender_that_does_not_finish_has_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        name = "idle"

        def begin(self, workload: Workload, *, seed: int = 0) -> None:
            """Nothing."""

        def decide(self, view: object) -> None:
            """Wait for ever."""

    monkeypatch.setattr("weft.experiments.gpu_cluster.runs.policy", lambda _: Idle())
    simulated = run_point(_point(names=("eft", "heft")))
    assert simulated["static"]["eft"] is None
    arrays = as_arrays([(_point(), simulated)])
    assert np.isnan(arrays["tasks", 20, 1.0, "static"]["eft"]).all()
    assert np.isfinite(arrays["tasks", 20, 1.0, "static"]["heft"]).all()


def test_uniform_links_keep_the_mean() -> None:
    cluster = heterogeneous_gpus(3)
    flat = uniform_links(cluster)
    assert flat.per_byte.sum() == pytest.approx(cluster.per_byte.sum())
    assert flat.latency.sum() == pytest.approx(cluster.latency.sum())
    assert np.array_equal(flat.throughput["k0"], cluster.throughput["k0"])


# -- running and resuming --------------------------------------------------------------


def test_the_same_point_gives_the_same_numbers() -> None:
    point = _point(names=("heft", "eft", "anytime"))
    one, two = run_point(point), run_point(point)
    assert one == two
    assert "anytime" in one["static"]
    assert "anytime" not in one["noisy"]
    row = one["static"]["heft"]
    assert row is not None
    assert len(row) == len(FIGURES)


def test_two_processes_give_the_same_in_the_same_order() -> None:
    units = [_point(seed=s, names=("eft",)) for s in (1, 2, 3)]
    assert list(in_processes(run_point, units, processes=2)) == [run_point(u) for u in units]


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    units = [_point(seed=s, names=("eft",)) for s in (1, 2, 3)]
    simulated: list[int] = []

    def noting(point: Point) -> dict[str, Any]:
        simulated.append(point.seed)
        return run_point(point)

    path = tmp_path / "progress.jsonl"
    first = Checkpoint(path, "mark").run(noting, units, processes=1, track=iter)
    kept = [next(first), next(first)]
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "cut o')  # stopped while writing
    simulated.clear()
    again = list(Checkpoint(path, "mark").run(noting, units, processes=1, track=iter))
    assert simulated == [3]
    assert again[:2] == kept
    assert len(Checkpoint(path, "mark").known) == 3  # what came after the cut is whole
    simulated.clear()
    list(Checkpoint(path, "another mark").run(noting, units, processes=1, track=iter))
    assert simulated == [1, 2, 3]


def test_the_fingerprint_depends_on_plan_and_contenders() -> None:
    assert fingerprint(QUICK, ["a"]) == fingerprint(QUICK, ["a"])
    assert (
        len({fingerprint(QUICK, ["a"]), fingerprint(FULL, ["a"]), fingerprint(QUICK, ["b"])}) == 3
    )


# -- everything ------------------------------------------------------------------------


def _reproduce(
    folder: Path, plan: ExperimentPlan = TINY, names: tuple[str, ...] | None = None
) -> dict[str, Any]:
    return gpu_cluster.reproduce(folder, quick=True, plan=plan, names=names)


@pytest.fixture(name="stand_in")
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace a policy, so that the test does not depend on the bundled weights."""

    def enter(name: str) -> None:
        factories = {**POLICIES._factories, name: lambda: ReplanningPolicy(name, {"ahead": 0.8})}
        monkeypatch.setattr(POLICIES, "_factories", factories)

    return enter


def test_everything_at_once(
    tmp_path: Path, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.experiments.gpu_cluster import contenders as gpu_cluster_contenders

    gpu_cluster_contenders.policy.cache_clear()
    monkeypatch.setenv("WEFT_DATA", str(tmp_path / "none"))
    stand_in("replan-switch")
    names = (
        "heft",
        "fifo-deft",
        "fifo-deft-apart",
        "eft",
        "heft-replanned",
        "heft-observed",
        "heft-arrival",
        "replan-switch",
        "anytime",
    )
    results = _reproduce(tmp_path, names=names)
    gpu_cluster_contenders.policy.cache_clear()

    assert not (tmp_path / "progress.jsonl").exists()
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(results)
    )
    page = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert page["measured_with"] == "weft reproduce gpu-cluster --quick"
    rows = page["tables"]["makespan"]["rows"]
    assert {row[0] for row in rows} == {"0.1", "5"}
    (anytime,) = (row for row in rows if row[:2] == ["5", "anytime"])
    assert anytime[2] < 1.0  # a search with exact costs, over HEFT planned again
    assert anytime[3] is None  # it takes no part while conditions change
    assert len(page["tables"]["verdict"]["rows"]) == len(results["verdicts"])
    assert results["judged"] == "replan-switch"
    assert {row["part"] for row in results["verdicts"]} == {"document", "aim"}
    assert results["transfer"]["absent"] == ["tpch_spark"]
    assert {row["structure"] for row in results["transfer"]["overall"]} == {"layered", "cholesky"}
    assert {row["policy"] for row in results["decision"]} >= {
        "eft",
        "replan-switch",
        "heft-replanned",
    }
    assert {"energy", "fairness"} == set(results["objectives"])
    assert {row["axis"] for row in results["points"]} == {
        "tasks",
        "jobs",
        "stream",
        "uniform",
        "devices",
    }
    text = gpu_cluster.table(results)
    assert "judged: replan-switch" in text
    assert "no data, so no transfer to: tpch_spark" in text
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for heading in (
        "Verdict",
        "Stream: jobs arrive",
        "Statistics",
        "Possible gain",
        "Transfer to unseen structures",
        "Energy and",
    ):
        assert heading in page
    assert "Noisy:" not in page  # not simulated, so no section
    assert 'src="http' not in page
    assert 'href="http' not in page
