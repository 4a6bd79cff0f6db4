"""Statistics and verdicts of the GPU-cluster experiment, on numbers made by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.experiments.gpu_cluster.contenders import LEARNED
from weft.experiments.gpu_cluster.measurements import (
    LENGTH,
    busy_state,
    decision_rows,
    training_rows,
)
from weft.experiments.gpu_cluster.runs import FIGURES
from weft.experiments.gpu_cluster.statistics import (
    comparison,
    comparisons,
    fair_comparison,
    point_rows,
    ranking,
    reference_rows,
    seed_logs,
)
from weft.experiments.gpu_cluster.transfer import STREAM_JOBS, available, draw_structure, overall
from weft.experiments.gpu_cluster.verdict import CONFIRMED, NOT_CONFIRMED, NOT_MEASURED, verdicts
from weft.generators import measure_ccr

SEEDS = 5


def _table(makespan: float, *, jct: float | None = None, over_bound: float = 1.2) -> np.ndarray:
    """(seeds, figures): seed s is 1 + s / 10 times as long, so that ratios are exact and pairs "
    "matter."""
    row = {
        "makespan": makespan,
        "speedup": 30.0 / makespan,
        "slr": 1.5,
        "jct": makespan if jct is None else jct,
        "misses": 0.1,
        "fairness": 0.9,
        "energy": 5.0,
        "utilisation": 0.5,
        "over_bound": over_bound,
    }
    scale = 1 + np.arange(SEEDS)[:, None] / 10
    table = np.array([[row[key] for key in FIGURES]]) * np.ones((SEEDS, 1))
    for key in ("makespan", "jct"):
        table[:, FIGURES.index(key)] *= scale[:, 0]
    return table


def _arrays(dqn: float = 0.7) -> dict[Any, Any]:
    rng = np.random.default_rng(0)
    arrays: dict[Any, Any] = {}
    for condition in ("static", "failing", "changing", "noisy", "biased"):
        for ccr in (0.1, 1.0, 5.0):
            for x in (20, 150):
                group = {
                    "heft": 1.0,
                    "heft-replanned": 0.9,
                    "heft-observed": 0.8,
                    "tuned-list": 0.75,
                    "replan-switch": dqn,
                    "anytime": 0.6,
                }
                arrays["tasks", x, ccr, condition] = {
                    n: _table(v)
                    for n, v in group.items()
                    if n != "anytime" or condition == "static"
                }
            arrays["jobs", 150, ccr, condition] = {
                n: _table(v)
                for n, v in {"fifo-deft": 10.0, "replan-switch": dqn, "heft": 1.0}.items()
            }
    for load, by in ((0.6, 9.0), (0.8, 1.0), (0.95, 2.0)):
        for ccr in (0.1, 1.0, 5.0):
            group = {
                "heft-arrival": 2.0 * by,
                "srpt-replanned": 1.0 * by,
                "tuned-list": 0.9 * by,
                "replan-switch": dqn * by,
            }
            arrays["stream", load, ccr, "stream"] = {n: _table(v) for n, v in group.items()}
    for group in arrays.values():  # noise, so that pairs differ
        for table in group.values():
            table[:, FIGURES.index("makespan")] *= np.exp(0.001 * rng.standard_normal(SEEDS))
            table[:, FIGURES.index("jct")] *= np.exp(0.001 * rng.standard_normal(SEEDS))
    return arrays


def _results(dqn: float = 0.7, **changes: Any) -> dict[str, Any]:
    arrays = _arrays(dqn)
    groups = dict.fromkeys((a, c) for a, _, _, c in arrays)
    return {
        "contenders": {name: {} for name in ("heft", "replan-switch", "tuned-list")},
        "quick": True,
        "conditions": ["static", "failing"],
        "seconds": 300.0,
        "points": point_rows(arrays),
        "comparisons": comparisons(arrays),
        "rankings": {f"{a} {c} all": ranking(arrays, a, c, [0.1, 1.0, 5.0]) for a, c in groups},
        "reference": reference_rows(arrays),
        "devices": {"usual": 7.5},
        "transfer": {"overall": []},
        "decision": [],
        "training": [],
        "environment": None,
    } | changes


def _of(rows: list[dict[str, Any]], beginning: str, part: str) -> dict[str, Any]:
    return next(row for row in rows if row["claim"].startswith(beginning) and row["part"] == part)


# -- statistics ------------------------------------------------------------------------


def test_one_number_per_seed() -> None:
    """Sizes 20 and 150 with makespans 1 and 4: the mean logarithm is that of 2, and pairs are "
    "seeds, not sizes."""
    arrays = {
        ("tasks", 20, 1.0, "static"): {"a": _table(1.0)},
        ("tasks", 150, 1.0, "static"): {"a": _table(4.0)},
    }
    logs = seed_logs(arrays, "tasks", "static", [1.0], "a")
    assert logs is not None
    assert np.exp(logs) == pytest.approx(2.0 * (1 + np.arange(SEEDS) / 10))


def test_streams_are_compared_at_high_load_by_completion_time() -> None:
    arrays = {
        ("stream", 0.6, 1.0, "stream"): {"a": _table(1.0, jct=100.0)},
        ("stream", 0.8, 1.0, "stream"): {"a": _table(1.0, jct=3.0)},
    }
    logs = seed_logs(arrays, "stream", "stream", [1.0], "a")
    assert logs is not None
    assert np.exp(logs[0]) == pytest.approx(3.0)


def test_a_contender_absent_at_a_point_is_not_compared() -> None:
    arrays = {
        ("tasks", 20, 1.0, "static"): {"a": _table(1.0), "b": _table(2.0)},
        ("tasks", 60, 1.0, "static"): {"a": _table(1.0)},
    }
    assert seed_logs(arrays, "tasks", "static", [1.0], "b") is None
    assert comparison(arrays, "tasks", "static", [1.0], "a", "b") is None
    assert comparison(arrays, "tasks", "noisy", [1.0], "a", "a") is None


def test_unfinished_seeds_leave_the_pairs() -> None:
    late = _table(2.0)
    late[0, :] = np.nan
    arrays = {("tasks", 20, 1.0, "static"): {"a": _table(1.0), "b": late}}
    found = comparison(arrays, "tasks", "static", [1.0], "a", "b")
    assert found is not None
    assert found["seeds"] == SEEDS - 1
    assert found["ratio"] == pytest.approx(0.5)
    row = next(r for r in point_rows(arrays) if r["contender"] == "b")
    assert row["unfinished"] == 1
    assert row["values"][0] is None
    assert [name for name, _ in ranking(arrays, "tasks", "static", [1.0])] == ["a"]


def test_comparisons_are_paired_and_corrected() -> None:
    rows = comparisons(_arrays())
    row = next(
        r
        for r in rows
        if (r["axis"], r["condition"], r["ccr"], r["who"], r["rival"])
        == ("tasks", "static", "all", "replan-switch", "heft")
    )
    assert row["ratio"] == pytest.approx(0.7, rel=0.005)
    assert row["low"] <= row["ratio"] <= row["high"]
    assert row["p"] < 1e-6  # the seeds differ by 40 %, the pairs hardly at all
    assert row["p_holm"] >= row["p"]
    assert row["seeds"] == SEEDS


def test_the_fair_rival_is_the_better_one() -> None:
    found = fair_comparison(
        comparisons(_arrays()), axis="tasks", condition="failing", ccr="all", who="replan-switch"
    )
    assert found is not None
    assert found["rival"] == "heft-observed"


def test_gains_over_heft_and_the_search() -> None:
    row = next(r for r in reference_rows(_arrays()) if r["ccr"] == 1.0)
    assert row["links"] == "nodes"
    assert row["gains"]["anytime"] == pytest.approx(0.4, abs=0.005)
    assert row["over_bound"]["heft"] == pytest.approx(0.2)


# -- verdicts --------------------------------------------------------------------------


def test_thirty_percent_below_heft_is_confirmed() -> None:
    rows = verdicts(_results(0.7))
    row = _of(rows, "25 to 35 % below HEFT: costs known", "document")
    assert row["verdict"] == CONFIRMED
    assert row["value"] == pytest.approx(0.3, abs=0.005)
    assert "30." in row["measured"] or "29." in row["measured"]
    assert _of(rows, "static, CCR 1", "aim")["verdict"] == CONFIRMED
    # 1 - 0.7 / 0.8 against the better of the re-planned ones
    assert _of(rows, "failing", "aim")["value"] == pytest.approx(0.125, abs=0.005)
    assert (
        "heft-observed"
        in _of(rows, "failing: not above the best hand-made rival", "aim")["measured"]
    )
    # 1 - 0.7 / 10 at 150 jobs
    assert _of(rows, "over 85 % below FIFO-DEFT", "document")["value"] == pytest.approx(
        0.93, abs=0.005
    )
    assert (
        _of(rows, "the same, each job planned as if alone", "document")["verdict"] == NOT_MEASURED
    )


def test_a_miss_has_its_margin_and_the_best_contender() -> None:
    rows = verdicts(_results(0.79))
    row = _of(rows, "failing", "aim")
    assert row["verdict"] == NOT_CONFIRMED  # 1.25 % below 0.8, and 4 are wanted
    assert row["by"] == "-2.7 points" or row["by"] == "-2.8 points"
    assert row["best"].startswith("tuned-list:")
    assert _of(rows, "stream: not above tuned-list", "aim")["verdict"] == CONFIRMED
    assert (
        _of(verdicts(_results(0.95)), "stream: not above tuned-list", "aim")["verdict"]
        == NOT_CONFIRMED
    )


def test_a_gain_beyond_the_search_is_not_confirmed() -> None:
    claim = "static: no gain over HEFT beyond"
    assert _of(verdicts(_results(0.7)), claim, "aim")["verdict"] == CONFIRMED
    assert _of(verdicts(_results(0.5)), claim, "aim")["verdict"] == NOT_CONFIRMED


def test_slr_and_speedup() -> None:
    rows = verdicts(_results(0.7))
    assert _of(rows, "SLR", "document")["verdict"] == CONFIRMED
    assert (
        _of(rows, "speedup", "document")["verdict"] == CONFIRMED
    )  # 30 / 0.7, more than any 7.5 devices give: made up
    assert _of(verdicts(_results(3.0)), "speedup", "document")["verdict"] == NOT_CONFIRMED


def test_speed_training_and_environment() -> None:
    found = _results(
        decision=[{"policy": "replan-switch", "microseconds": 200.0}],
        training=[{"policy": "replan-switch", "minutes": 45.0}],
        environment=50_000.0,
    )
    rows = verdicts(found)
    assert _of(rows, "8.5 ms", "document")["by"] == "42.5 times less"
    assert _of(rows, "decision", "aim")["by"] == "2 times more"
    assert _of(rows, "decision", "aim")["verdict"] == NOT_CONFIRMED
    assert _of(rows, "training", "aim")["verdict"] == CONFIRMED
    assert _of(rows, "environment", "aim")["verdict"] == NOT_CONFIRMED
    assert _of(rows, "this run", "aim")["verdict"] == CONFIRMED  # 300 s
    assert _of(verdicts(_results()), "8.5 ms", "document")["verdict"] == NOT_MEASURED


def test_transfer_is_a_mean_over_structures() -> None:
    def row(structure: str, kept: float | None, tuned: float | None) -> dict[str, Any]:
        return {
            "policy": "replan-switch",
            "structure": structure,
            "kept": kept,
            "tuned_from_layered": tuned,
        }

    found = {
        "overall": [
            row("layered", 1.0, None),
            row("lu", 0.9, 0.01),
            row("fft", 0.7, 0.02),
            row("qr", None, None),
        ]
    }
    rows = verdicts(_results(transfer=found))
    assert _of(rows, "85 %", "aim")["value"] == pytest.approx(0.8)
    assert _of(rows, "85 %", "aim")["verdict"] == NOT_CONFIRMED
    assert "least 70% (fft)" in _of(rows, "85 %", "document")["measured"]
    assert _of(rows, "within 3 %", "aim")["verdict"] == CONFIRMED
    assert _of(rows, "85 % of the advantage of a specialist", "aim")["verdict"] == NOT_MEASURED


def test_specialists_are_another_measure_of_transfer() -> None:
    def row(structure: str, kept: float | None, away: float) -> dict[str, Any]:
        own = {
            "specialist_advantage": 0.2,
            "kept_of_specialist": kept,
            "tuned_from_specialist": away,
        }
        return {
            "policy": "replan-switch",
            "structure": structure,
            "kept": 0.4,
            "tuned_from_layered": 0.3,
            **own,
        }

    rows = verdicts(
        _results(
            transfer={
                "overall": [row("lu", 0.8, 0.05), row("fft", None, 0.0), row("qr", 1.0, 0.02)]
            }
        )
    )
    kept, away = (
        _of(rows, "85 % of the advantage of a specialist", "aim"),
        _of(rows, "within 3 % of a specialist", "aim"),
    )
    assert (kept["value"], kept["verdict"]) == (pytest.approx(0.9), CONFIRMED)
    assert "least 80% (lu)" in kept["measured"]
    assert (away["value"], away["verdict"]) == (pytest.approx(0.07 / 3), CONFIRMED)


# -- transfer --------------------------------------------------------------------------


def test_share_kept_after_fine_tuning() -> None:
    base = {
        "policy": "replan-switch",
        "condition": "static",
        "ccr": 1.0,
        "layered": 0.8,
        "specialist": 0.8,
        "search": 0.75,
    }
    found = overall([{**base, "structure": "lu", "ratio": 0.9, "tuned": 0.82}])[0]
    assert found["kept"] == pytest.approx(0.5)  # 10 of 20 %
    assert found["tuned_kept"] == pytest.approx(0.9)  # 18 of 20 %
    assert found["tuned_from_layered"] == pytest.approx(0.025)
    assert found["captured"] == pytest.approx(0.4)  # 10 of 25 %
    assert found["kept_of_specialist"] == pytest.approx(0.5)  # 10 of 20 %
    assert found["tuned_from_specialist"] == pytest.approx(0.025)
    nothing = overall([{**base, "layered": 1.01, "structure": "lu", "ratio": 0.9, "tuned": None}])[
        0
    ]
    assert nothing["kept"] is None


def test_streams_count_beside_single_jobs_and_are_not_fitted_to() -> None:
    base = {"policy": "replan-switch", "structure": "lu", "ccr": 1.0, "search": None}
    alone = {
        **base,
        "condition": "static",
        "layered": 0.64,
        "ratio": 0.81,
        "tuned": 0.64,
        "specialist": 0.64,
    }
    stream = {
        **base,
        "condition": "stream",
        "layered": 0.64,
        "ratio": 0.64,
        "tuned": None,
        "specialist": None,
    }
    found = overall([alone, stream])[0]
    assert found["kept_alone"] == pytest.approx(0.19 / 0.36)
    assert found["kept_stream"] == pytest.approx(1.0)
    assert found["kept"] == pytest.approx(0.28 / 0.36)  # the mean ratio is 0.9 x 0.8
    assert (found["tuned_kept"], found["tuned_from_layered"]) == (
        pytest.approx(1.0),
        pytest.approx(0.0),
    )
    assert found["kept_of_specialist"] == pytest.approx(0.19 / 0.36)
    text = _of(verdicts(_results(transfer={"overall": [found]})), "85 %", "aim")["measured"]
    assert "single jobs 53%; streams 100%" in text


def test_streams_of_a_structure() -> None:
    case = draw_structure("lu", "stream", seed=3, ccr=5.0)
    assert case.workload.jobs == STREAM_JOBS
    assert len(set(case.workload.arrival.tolist())) == STREAM_JOBS
    for problem in case.workload.problems:
        assert measure_ccr(problem) == pytest.approx(5.0, rel=1e-6)


def test_absent_data_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    assert available(("lu", "ml_dags")) == (["lu"], ["ml_dags"])


@pytest.mark.parametrize("structure", ["wfinstances", "tpch_spark", "ml_dags"])
def test_measured_graphs_fit_the_setting(
    structure: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_DATA", str(data))
    if available((structure,))[1]:
        pytest.skip(f"no {structure} in the data folder")
    for condition, seed in itertools.product(("changing", "stream"), range(3)):
        case = draw_structure(structure, condition, seed=seed, ccr=5.0)
        assert (case.workload.arrival.max() > 0) == (condition == "stream")
        for problem in case.workload.problems:
            if problem.m:
                assert measure_ccr(problem) == pytest.approx(5.0, rel=1e-6)


# -- speed -----------------------------------------------------------------------------


def test_there_are_32_ready_tasks_at_a_decision() -> None:
    """48 chains on 16 devices, kept level: 16 run, 32 wait with a task ready at every decision, "
    "until the first chains end."""
    workload = busy_state()
    seen: list[int] = []

    class Watching:
        name = "watching"

        def begin(self, workload: Any, *, seed: int = 0) -> None:
            """Nothing."""

        def decide(self, view: Any) -> Any:
            from weft.sim.view import Decision

            idle = np.flatnonzero(view.idle)
            if not len(idle):
                return None
            seen.append(len(view.ready))
            level = view.ready % LENGTH
            return Decision(int(view.ready[np.argmin(level)]), int(idle[0]))

    from weft.policies import simulate

    simulate(workload, Watching())
    assert len(seen) == workload.instances
    assert np.median(seen[16 : workload.instances // 2]) == pytest.approx(
        33, abs=1
    )  # the one about to be taken, and 32 more


def test_decisions_are_timed() -> None:
    rows = decision_rows(["eft", "heft", "anytime"], rounds=2)
    assert [row["policy"] for row in rows] == ["eft"]  # plans decide nothing
    assert rows[0]["compiled"]
    assert rows[0]["microseconds"] > 0


def test_training_records_come_from_the_cards(tmp_path: Path) -> None:
    curve = [{"steps": 10, "score": 2.0}, {"steps": 20, "score": 1.0}, {"steps": 30}]
    card = {"training": {"cpu_seconds": 1200.0, "seed": 3, "algorithm": "CMA-ES", "curve": curve}}
    (tmp_path / "replan-switch.json").write_text(json.dumps(card), encoding="utf-8")
    assert training_rows(["replan-switch", "heft"], tmp_path) == [
        {
            "policy": "replan-switch",
            "minutes": 20.0,
            "seed": 3,
            "algorithm": "CMA-ES",
            "x": "steps",
            "y": "score",
            "curve": [[10.0, 2.0], [20.0, 1.0]],
        }
    ]


def test_every_bundled_learned_policy_has_a_training_record() -> None:
    rows = training_rows(LEARNED)
    assert [row["policy"] for row in rows] == list(LEARNED)
    assert all(row["curve"] and row["minutes"] > 0 for row in rows)
