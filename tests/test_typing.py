"""The public functions as a user's type checker and editor see them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parents[1]

USER = '''
"""A user's program: mypy --strict accepts it, and knows the types."""

from pathlib import Path

import weft

TRAINED = Path("trained/dqn")


@weft.task
def double(x: int) -> int:
    return 2 * x


def main() -> float:
    workflow: weft.Workflow = weft.generate("cholesky", tiles=4)
    problem = weft.Problem.bind(workflow, weft.gpu_cluster("1xV100+1xT4"))
    names: list[str] = list(weft.list_planners())
    plan: weft.Plan = weft.plan(problem, names[0], seconds=0.1, seed=1)
    trace: weft.Trace = weft.simulate(problem, plan, noise=0.3)
    table: weft.Comparison = weft.compare(problem, ["heft", plan, TRAINED], scenarios=2, noise=0.1)
    weft.compare(["p.json", problem], "heft")
    weft.run(double(3), policy=TRAINED)
    violations = weft.check(problem, plan)
    ran = weft.run(double(3), policy="heft", devices=2, retries=1, shadow=TRAINED)
    print(table, violations, ran.results)
    return plan.makespan + trace.makespan + ran.makespan
'''

WRONG = """
import weft
from weft.formats import load_trace
from weft.generators import layered
from weft.runtime import LocalBackend, LocalDevice

problem = weft.Problem.from_arrays([[1.0]])
weft.plan(problem, 3)
weft.simulate(problem, noise="much")
weft.run(problem, retires=2)
weft.compare(problem, "heft", nois=0.1)
load_trace(3)
layered(taks=3)
LocalBackend(devcies=2)
LocalDevice("a", croes=(1,))
"""


def test_mypy_accepts_a_users_program_and_refuses_a_wrong_one(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    options = ["--strict", "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert [line for line in errors if "user.py" in line] == []
    lines = [line.split(":")[1] for line in errors]  # of wrong.py
    assert list(dict.fromkeys(lines)) == ["8", "9", "10", "11", "12", "13", "14", "15"]


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (weft.run, ["what", "policy", "backend", "devices", "retries", "timeout"]),
        (weft.plan, ["problem", "planner", "seconds", "seed"]),
        (weft.simulate, ["workload", "policy", "scenario", "seed", "noise"]),
        (weft.compare, ["contenders", "scenarios", "seed", "seconds", "noise"]),
        (weft.generate, ["name", "seed"]),
    ],
    ids=["run", "plan", "simulate", "compare", "generate"],
)
def test_signatures_show_their_parameters(function, parameters):
    shown = list(inspect.signature(function).parameters)
    assert [name for name in parameters if name not in shown] == []
    assert inspect.getdoc(function)
