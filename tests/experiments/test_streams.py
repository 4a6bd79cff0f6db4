"""DWS-Testbed: its environment to the last digit, its rules, and the experiment end to end."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import weft
from tests.support.programs import data_dir
from weft.cli.main import main
from weft.errors import InvalidInput
from weft.experiments.streams import experiment, runs
from weft.experiments.streams.contenders import RULES, TestbedRule, shortest_way
from weft.experiments.streams.statistics import reproduced, summary, verdicts
from weft.experiments.streams.testbed import (
    FOLDER,
    PUBLISHED,
    Testbed,
    arrivals,
    find_testbed,
    templates,
)
from weft.model import Problem, Workload


@pytest.fixture(name="testbed")
def _testbed(monkeypatch):
    monkeypatch.setenv("WEFT_DATA", str(data_dir()))
    return find_testbed()


def test_right_and_stale_clock_give_the_check_values(testbed):
    setting, _ = testbed.settings()[0]
    workload = testbed.workload(setting, 100)
    right = weft.simulate(workload, "eft")
    assert float(right.jct) == 273.32411029904557
    assert weft.check(workload, right) == []
    assert float(weft.simulate(workload, TestbedRule("HEFT", stale=False)).jct) == float(right.jct)
    stale = weft.simulate(workload, TestbedRule("HEFT", stale=True))
    assert float(stale.jct) == pytest.approx(362.338, abs=5e-4)
    assert weft.check(workload, stale) == []


def test_published_heft_is_reproduced_to_all_digits(testbed):
    setting, published = testbed.settings()[4]
    workload = testbed.workload(setting)
    trace = weft.simulate(workload, TestbedRule("HEFT", stale=True))
    assert round(float(trace.jct), 5) == published["HEFT"]


def test_arrivals_begin_at_zero_and_have_the_rates():
    found = arrivals((0.5, 0.001), 20_001)
    gaps = np.diff(found)
    assert found[0] == 0
    assert gaps[:10_000].mean() == pytest.approx(2, rel=0.05)
    assert gaps[10_000:].mean() == pytest.approx(1000, rel=0.05)


def test_one_stream_is_read_from_its_end():
    forward = np.random.RandomState(2024).randint(0, 4, 300_000)
    assert (templates(2024, 4) == forward[::-1]).all()
    assert templates(2026, 4)[:3].tolist() == np.random.RandomState(2026).randint(0, 4, 3).tolist()


def test_a_machine_that_was_idle_for_long_wins_with_the_stale_clock():
    # Speeds 1 and 4. Job 0 (4 s of work) takes the fast machine until 1 s with both clocks. At 10 s
    # job 1 finishes at 11 s on the fast machine; the stale clock sees 1 + 1 there, 0 + 4 on the
    # slow one, and takes the fast one too. With 0.8 s of work: 1 + 0.2 against 0 + 0.8: the slow.
    one = Problem.from_arrays(work=[4.0], speed=[1.0, 4.0])
    two = Problem.from_arrays(work=[0.8], speed=[1.0, 4.0])
    workload = Workload.of([one, two], arrival=[0.0, 10.0], template=[0, 1])
    ends = {
        stale: weft.simulate(workload, TestbedRule("HEFT", stale=stale)).job_finish.tolist()
        for stale in (True, False)
    }
    assert ends[True] == pytest.approx([1.0, 10.8])
    assert ends[False] == pytest.approx([1.0, 10.2])


def test_right_clock_equals_eft_without_ties():
    made = weft.generate("layered", tasks=30, seed=3)
    problem = Problem.bind(made, weft.gpu_cluster("2xV100+2xT4"))
    free = Problem.from_arrays(
        problem.durations(), np.stack([made.src, made.dst], axis=1), np.zeros(problem.m)
    )
    workload = Workload.of(free, arrival=np.linspace(0, 3, 7))
    own = weft.simulate(workload, TestbedRule("HEFT", stale=False))
    assert own.job_finish.tolist() == weft.simulate(workload, "eft").job_finish.tolist()
    assert weft.check(workload, own) == []


def test_shortest_way_is_the_least_work_behind_a_task():
    problem = Problem.from_arrays(
        work=[1.0, 5.0, 2.0, 3.0], speed=[1.0], edges=[[0, 1], [0, 2], [2, 3]]
    )
    assert shortest_way(problem).tolist() == [5.0, 0.0, 3.0, 0.0]


def test_summary_counts_settings_below_a_rival():
    published = dict.fromkeys(PUBLISHED, 100.0)
    measured = {f"{rule}, stale clock": 100.0 for rule in RULES}
    rows = [
        {"published": published, "measured": {**measured, "eft": value}} for value in (50.0, 200.0)
    ]
    found = summary(rows)
    eft = found[-1]
    assert eft == {
        "contender": "eft",
        "space": "within",
        "mean": 125.0,
        "over_GOODRL": pytest.approx(1.0),
        "below_GOODRL": 1,
        "over_GPHH": pytest.approx(1.0),
        "below_GPHH": 1,
    }
    assert all(r["equal"] == 2 and r["largest_difference"] == 0 for r in reproduced(rows))
    claims = verdicts(rows, found, published_length=False)
    assert "below GOODRL in 1 and below GPHH in 1 of 2" in claims[0]["measured"]
    assert claims[-1]["verdict"] == "no: fewer workflows"


def test_missing_data_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match="--data or WEFT_DATA"):
        find_testbed()
    assert main(["reproduce", "streams", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["reproduce", "streams", "--data", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="cannot be read"):
        _ = Testbed(tmp_path).reference


def test_experiment_from_small_files(monkeypatch, capsys, tmp_path):
    folder = tmp_path / FOLDER
    (folder / "dax").mkdir(parents=True)
    text = (
        '<adag name="a"><job id="ID0" name="x" runtime="3"/><job id="ID1" name="y" runtime="2"/>'
        '<child ref="ID1"><parent ref="ID0"/></child></adag>'
    )
    (folder / "dax" / "a.xml.gz").write_bytes(gzip.compress(text.encode()))
    row = {"stream": 2026, "vm_types": 2, "of_each": 1, "arrivals": "change5", "rate": 9.0}
    reference = {
        "vcpus": [8, 16],
        "templates": ["a"],
        "arrivals": {"change5 9": [0.1, 0.2]},
        "results": [{**row, **dict.fromkeys(PUBLISHED, 6.0)}],
    }
    (folder / "reference.json").write_text(json.dumps(reference), encoding="utf-8")
    monkeypatch.setenv("WEFT_DATA", "")
    monkeypatch.setattr(runs, "FEW", 20)
    for module in (runs, experiment):
        monkeypatch.setattr(module, "FIRST", 3)
    monkeypatch.setattr(experiment, "PROCESSES", 1)
    monkeypatch.setattr("weft.experiments.streams.experiment.FEW", 20)
    out = tmp_path / "out"
    command = ["reproduce", "streams", "--quick", "--data", str(tmp_path), "--out", str(out)]
    assert main(command) == 0
    assert "eft" in capsys.readouterr().out
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    (setting,) = results["settings"]
    # A job alone takes 3 + 2 s on the machine with 16 vCPUs.
    assert min(setting["measured"].values()) >= 5.0
    tables = {"summary", "few", "every", "settings", "spaces", "reproduced"}
    assert set(results["tables"]) == tables
    # Every policy of the table that can decide for workflows is there, sorted by its mean.
    means = [row["mean"] for row in results["every"]]
    assert means == sorted(means)
    assert {"eft", "dqn", "decima", "hybrid"} <= {row["policy"] for row in results["every"]}
    assert "reads the clock" in (out / "report.html").read_text(encoding="utf-8")
