"""The quality table: what it counts, and the recorded schedules."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.experiments.benchmarks import quality
from weft.experiments.benchmarks.quality import QualityCase, Score
from weft.formats import load
from weft.model import Problem, Schedule
from weft.model.check import check
from weft.planners.bounds import lower_bound
from weft.planners.search.clock import Clock, processor_time

RECORDS = Path(__file__).parents[3] / "benchmarks" / "best_known"


def read_record(file: Path) -> Schedule:
    """Return the schedule of a record."""
    entry = json.loads(file.read_text())
    return Schedule.of(device=entry["device"], start=entry["start"], finish=entry["finish"])


def score(planner: str, ccr: float, makespan: float, status: str = "feasible") -> Score:
    return Score("g", planner, 0.1, ccr, 10, 2, makespan, 100.0, 90.0, status, 0.1)


def test_mean_gaps_by_group():
    rows = quality.summary(
        [
            score("a", 1.0, 110.0),
            score("a", 1.0, 120.0),
            score("a", 5.0, 99.0),
            score("b", 5.0, 100.0, "optimal"),
        ]
    )
    assert rows == [
        ("planner", "seconds", "ccr 1", "ccr 5", "worst", "better", "proved"),
        ("a", "0.1", "15.00 %", "-1.00 %", "20.0 %", "1", "0"),
        ("b", "0.1", "-", "0.00 %", "0.0 %", "0", "1"),
    ]
    assert quality.table(rows).splitlines()[2].startswith("| a       | 0.1")


def test_every_planner_on_a_graph():
    case = QualityCase(
        "two", Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0), 1.0
    )
    lines = list(quality.scores([case], budgets=(0.01,)))
    assert len(lines) == quality.count([case], budgets=(0.01,))
    assert {s.best for s in lines} == {5.0}
    assert all(s.gap == 0 for s in lines if s.planner == "anytime")
    assert json.dumps(quality.document(lines))


def test_a_better_schedule_is_recorded_once(tmp_path):
    case = QualityCase("pair", Problem.from_arrays(np.ones((4, 2))), 1.0, best=3.0)
    assert quality.improve(case, tmp_path, seconds=0.05) == 2.0
    first = (tmp_path / "pair.json").read_text()
    assert quality.improve(case, tmp_path, seconds=0.05) == 2.0
    assert (tmp_path / "pair.json").read_text() == first
    assert check(case.problem, read_record(tmp_path / "pair.json")) == []


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"has no results\.json"):
        quality.static_cases(tmp_path)


def test_generated_graphs_have_the_ratio_they_are_named_for():
    cases = quality.generated_cases(tasks=(30,))
    assert len({c.name for c in cases}) == len(cases) == 9


def test_recorded_schedules_are_valid_and_better(data):
    folder = data / "static_graphs"
    known = json.loads((folder / "results.json").read_text())
    for file in sorted(RECORDS.glob("*.json")):
        entry, problem = json.loads(file.read_text()), load(folder / f"{file.stem}.json")
        schedule = read_record(file)
        assert check(problem, schedule) == [], file.name
        assert schedule.makespan == entry["makespan"] < known[file.stem]["best"]
        assert lower_bound(problem) <= entry["makespan"]


def test_processor_time_does_not_count_waiting() -> None:
    with processor_time():
        begin = time.thread_time()
        clock = Clock(1.0)
        time.sleep(0.05)
        assert clock.elapsed() <= time.thread_time() - begin
    clock = Clock(1.0)
    time.sleep(0.05)
    assert clock.elapsed() >= 0.049
