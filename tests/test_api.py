"""Public names of `weft`: complete, lazily loaded, and as documented."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

import weft
from tests.support.programs import run_python

HEAVY = ("numba", "scipy", "matplotlib", "torch", "ortools", "tqdm", "pandas")


def _loaded_after(code):
    show = f"import sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    return json.loads(run_python("-c", f"{code}; {show}").stdout)


@pytest.mark.parametrize(
    "code",
    [
        "import weft",
        "import weft; weft.Problem.from_arrays([[1.0]])",
        "import weft.cli.main",
        "import weft; dir(weft)",
    ],
)
def test_importing_is_light(code):
    assert _loaded_after(code) == []


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_is_there(name):
    assert getattr(weft, name) is not None
    assert name in dir(weft)


def test_an_unknown_name_offers_the_closest():
    with pytest.raises(AttributeError, match="did you mean 'Problem'"):
        _ = weft.Problm


def test_packages_answer_when_called():
    assert "heft" in weft.list_planners()
    assert "fifo" in weft.list_policies()
    assert weft.generate("cholesky", tiles=3).n == 10  # 3 * 4 * 5 / 6
    importlib.import_module(
        "weft.generators.shapes"
    )  # importing parts of a package must not hide the call
    importlib.import_module("weft.planners.lists.ranks")
    assert weft.list_planners() == sorted(weft.list_planners())
    assert weft.generate("cholesky", tiles=3).n == 10


@pytest.fixture
def problem():
    # Task 0 takes 2 or 1, task 1 takes 3 or 4; moving the edge takes 10 / 5 = 2.
    return weft.Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)


def test_a_plan_and_its_certificate(problem):
    plan = weft.plan(problem, "heft")
    assert plan.makespan == 5.0  # both on device 0: 2 + 3, or both on device 1: 1 + 4
    assert weft.check(problem, plan.schedule) == []
    assert plan.status == "optimal"
    assert set(plan.schedule.to_arrays()) == {"task", "device", "start", "finish", "copy"}


def test_simulating_a_plan_gives_the_plan(problem):
    plan = weft.plan(problem, "heft")
    trace = weft.simulate(problem, plan.schedule)
    assert trace.makespan == plan.makespan
    assert weft.check(problem, trace) == []


def test_errors_are_public(problem):
    assert issubclass(weft.UnknownName, weft.WeftError)
    with pytest.raises(weft.UnknownName, match="did you mean 'heft'"):
        weft.plan(problem, "hefft")


# -- compare ------------------------------------------------------------------


def test_compare_scores_plans_and_policies_by_the_same_simulator(problem):
    table = weft.compare([problem], ["heft", "round-robin", "fifo"])
    rows = {row.contender: row for row in table.rows}
    assert rows["heft"].makespan == rows["heft"].planned == 5.0
    assert rows["heft"].gap == pytest.approx(0.0)
    assert rows["heft"].kind == "planner"
    # Task 0 on device 0 (2 s), task 1 on device 1: 2 + 2 (moving) + 4.
    assert rows["round-robin"].makespan == 8.0
    assert rows["fifo"].kind == "policy"
    assert [row.makespan for row in table.rows] == sorted(row.makespan for row in table.rows)
    assert rows["heft"].speedup == pytest.approx(1.0)  # 5 s on either device alone
    text = str(table)
    assert text.index("heft") < text.index("round-robin")


def test_compare_draws_the_same_futures_for_all(problem):
    same = weft.compare(
        [problem], [weft.planners.PLANNERS.create("heft"), "heft"], scenarios=5, seed=3, noise=0.5
    )
    assert same.rows[0].makespan == same.rows[1].makespan
    assert same.rows[0].makespan != 5.0
    again = weft.compare([problem], ["heft"], scenarios=5, seed=3, noise=0.5)
    assert again.rows[0].makespan == same.rows[0].makespan


def test_compare_says_what_a_planner_does_not_support():
    conditional = weft.Problem.bind(
        weft.generate("conditional", tasks=20), weft.gpu_cluster("2xT4")
    )
    table = weft.compare([conditional], ["heft", "fifo"], scenarios=2)
    rows = {row.contender: row for row in table.rows}
    assert "choices" in rows["heft"].refusal
    assert np.isnan(rows["heft"].makespan)
    assert rows["fifo"].makespan > 0
    assert "choices" in str(table)
    assert table.document()["rows"][-1]["makespan"] is None


def test_compare_keeps_problems_of_one_name_apart(problem):
    table = weft.compare([problem, problem], ["heft"])
    assert [row.problem for row in table.rows] == ["problem", "problem (2)"]


def test_compare_refuses_unknown_contenders(problem):
    with pytest.raises(weft.UnknownName, match="did you mean 'heft'"):
        weft.compare([problem], ["hefft"])
    with pytest.raises(weft.InvalidInput, match="scenarios is 0"):
        weft.compare([problem], ["heft"], scenarios=0)


def test_compare_writes_a_page(problem, tmp_path):
    page = tmp_path / "report.html"
    weft.compare([problem], ["heft", "cpop"]).to_html(page)
    text = page.read_text(encoding="utf-8")
    assert "cpop" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_compare_tells_a_planner_and_a_policy_of_one_name_apart(problem):
    contenders = ["heft", weft.policies.POLICIES.create("heft")]
    table = weft.compare([problem], contenders)
    assert sorted((row.contender, row.kind) for row in table.rows) == [
        ("heft", "planner"),
        ("heft (policy)", "policy"),
    ]
    assert len(table.traces) == 2
