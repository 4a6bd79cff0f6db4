"""The table of the lab."""

from __future__ import annotations

import json

from benchmarks.lab.__main__ import first_round
from benchmarks.lab.faults import outcome_of
from benchmarks.lab.table import explained_table, interval, rounds_of, tables


def row(way: str, number: int, seconds: float, workload: str = "cholesky") -> dict:
    return {"engine": "dask", "workload": workload, "way": way, "round": number, "seconds": seconds}


def test_ratios_are_those_of_medians_and_the_best_policy_counts() -> None:
    rows = [row("own", k, s) for k, s in enumerate((8.0, 10.0, 30.0))]
    rows += [row("first", 1, 10.0), row("plan", 1, 5.0)]
    rows += [row("rank-eft", 1, 8.0), row("portfolio-makespan", 1, 4.0)]
    made = tables(rounds_of(rows))
    # 10 s alone: 10 / 10, 10 / 5 and, by the better policy, 10 / 4.
    assert made["ratios"]["rows"] == [
        ["Dask", "cholesky", 1.0, 2.0, 2.5, 1],
        ["Dask", "geometric mean", 1.0, 2.0, 2.5, None],
    ]
    assert made["seconds"]["rows"][0][-1] == "portfolio-makespan"


def test_the_mean_is_geometric_and_gaps_stay_empty() -> None:
    rows = [row("own", 1, 4.0), row("plan", 1, 1.0)]
    rows += [row("own", 1, 4.0, "grid"), row("plan", 1, 4.0, "grid")]
    ratios = tables(rounds_of(rows))["ratios"]["rows"]
    assert [r[3] for r in ratios] == [4.0, 1.0, 2.0]  # the square root of 4 x 1
    assert ratios[0][2] is None


def test_an_interval_holds_its_median() -> None:
    low, high = interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert low <= 3.0 <= high <= 100.0


def test_the_last_outcome_of_a_driver_counts() -> None:
    lines = ['{"ready": true}\n', json.dumps({"outcome": "error", "words": "host is gone"}) + "\n"]
    assert outcome_of(lines) == ("error", "host is gone")
    assert outcome_of(["Traceback\n"])[0] == "hangs"


def test_plans_are_explained_by_their_median_run(tmp_path):
    rows = [
        {"engine": "dask", "workload": "grid", "way": "plan", "round": k, "seconds": seconds}
        for k, seconds in ((1, 9.0), (2, 5.0), (3, 7.0))
    ]
    for k in (1, 2, 3):
        (tmp_path / f"dask-grid-plan-{k}.txt").write_text(f"round {k}", encoding="utf-8")
    assert explained_table(rows, tmp_path)["rows"] == [["Dask", "grid", "round 3"]]


def test_rounds_that_all_ways_have_are_not_run_again() -> None:
    done = [(way, number) for number in (1, 2) for way in ("own", "plan")]
    assert first_round([], ["own"]) == 1
    assert first_round(done, ["own", "plan"]) == 3
    assert first_round(done[:-1], ["own", "plan"]) == 2  # the second was interrupted
    assert first_round(done, ["own", "rank-eft"]) == 1
