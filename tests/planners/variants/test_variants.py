"""Tasks with several ways to run them: known answers, brute force, the oracle, files, the front."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.support.slow_twins.brute_force import shortest_packed
from weft import Variant, formats
from weft.cli.main import main
from weft.errors import InvalidInput, UnknownName
from weft.formats.native.variants import load_variants
from weft.model import Workload
from weft.model.variants import mean_accuracy, resolve, variants_by_task
from weft.planners.variants import pareto

MOLDABLE = (Variant("two", cores=2), Variant("four", factor=0.6, cores=4))
MODELS = (
    Variant("small", factor=0.5, accuracy=0.8),
    Variant("large", accuracy=0.9, cost=1.0),
    Variant("gpu", seconds={"gpu": 1.0}, accuracy=0.9, cost=5.0),
)


def problem_of(work, variants, *, edges=(), cluster=None, **columns):
    src, dst = zip(*edges, strict=True) if edges else ((), ())
    workflow = weft.Workflow(
        work=work, src=src, dst=dst, data=[0.0] * len(edges), variants=variants, **columns
    )
    return weft.Problem.bind(workflow, cluster or weft.Cluster.host(cores=4))


@pytest.mark.parametrize(("planner", "options"), [("heft", {}), ("exact", {"seconds": 20.0})])
def test_a_moldable_task_takes_the_cores_that_are_free(planner, options):
    # One task alone: 4 cores, 6 s. Two of them: side by side on 2 cores each, 10 s; not 12 s.
    one = weft.plan(problem_of([10.0], {"t0": MOLDABLE}), planner, **options)
    assert (one.makespan, one.variants["t0"].name) == (6.0, "four")
    two = weft.plan(problem_of([10.0, 10.0], {"task": MOLDABLE}), planner, **options)
    assert (two.makespan, {v.name for v in two.variants.values()}) == (10.0, {"two"})
    assert two.problem.workflow.cores.tolist() == [2, 2]
    if planner == "exact":
        assert one.status == two.status == "optimal"


def picks(problem):
    """Yield every choice of variants."""
    ways = variants_by_task(problem.workflow)
    names = [problem.workflow.task_name(t) for t in ways]
    for chosen in itertools.product(*ways.values()):
        yield dict(zip(names, chosen, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_exact_finds_the_best_of_all_choices(seed):
    rng = np.random.default_rng(seed)
    cluster = weft.Cluster.of(
        [weft.Device("a", node="n", kind="cpu"), weft.Device("b", node="n", kind="gpu", speed=2.0)],
        capacity={"cores": {"n": 3.0}},
    )
    ways = {
        "t0": (Variant("one"), Variant("two", factor=0.5, cores=2, accuracy=0.5)),
        "t1": (Variant("slow", accuracy=0.9), Variant("quick", factor=0.3, accuracy=0.6)),
        "t2": (Variant("cpu", devices=("cpu",), factor=0.8), Variant("any", cores=3, factor=0.6)),
    }
    problem = problem_of(rng.integers(2, 9, 4).astype(float), ways, edges=[(0, 3)], cluster=cluster)
    floor = 0.7
    best = np.inf
    for chosen in picks(problem):
        accuracy = mean_accuracy(chosen)
        if accuracy >= floor:
            best = min(best, shortest_packed(resolve(problem, chosen)))
    plan = weft.plan(problem, "exact", seconds=600.0, threads=1, min_accuracy=floor)
    assert weft.check(problem, plan) == []
    assert plan.accuracy >= floor
    assert plan.makespan == pytest.approx(best, rel=1e-9)
    assert plan.status == "optimal"
    quick = weft.plan(problem, "heft", min_accuracy=floor)
    assert weft.check(problem, quick) == []
    assert best - 1e-9 <= quick.makespan <= 1.5 * best
    assert quick.bound <= best + 1e-9  # whatever the variants


def test_accuracy_and_budget_limit_the_choice():
    cluster = weft.Cluster.of([weft.Device("cpu", kind="cpu"), weft.Device("gpu", kind="gpu")])
    problem = problem_of([4.0, 4.0], {"task": MODELS}, cluster=cluster)
    assert weft.plan(problem).makespan <= 2.0
    accurate = weft.plan(problem, min_accuracy=0.9)
    assert {v.name for v in accurate.variants.values()} <= {"large", "gpu"}
    assert accurate.makespan == 2.0  # both on the GPU, one after the other
    cheap = weft.plan(problem, min_accuracy=0.9, budget=6.0)
    assert (cheap.makespan, cheap.cost) == (4.0, 2.0)  # on both devices
    with pytest.raises(InvalidInput, match=r"variants reach 0.9 at most"):
        weft.plan(problem, min_accuracy=0.95)
    with pytest.raises(InvalidInput, match="the cheapest found costs 2"):
        weft.plan(problem, min_accuracy=0.9, budget=1.0)
    with pytest.raises(InvalidInput, match="the workflow has none"):
        weft.plan(problem_of([1.0], {}), min_accuracy=0.5)


def test_the_oracle_knows_the_chosen_variants():
    problem = problem_of([10.0, 10.0], {"task": MOLDABLE})
    plan = weft.plan(problem)
    assert weft.check(problem, plan) == []
    other = replace(plan, variants={"t0": MOLDABLE[1], "t1": MOLDABLE[0]})
    assert {v.rule for v in weft.check(problem, other)} >= {"wrong duration", "capacity"}
    strange = replace(plan, variants={**plan.variants, "t0": Variant("two", cores=1)})
    assert [v.rule for v in weft.check(problem, strange)] == ["variant"]
    with pytest.raises(InvalidInput, match="give the plan"):
        weft.check(problem, plan.schedule)
    with pytest.raises(InvalidInput, match="choose them first"):
        Workload.of(problem)
    assert weft.simulate(plan.problem, plan).makespan == plan.makespan


def test_bad_variants_are_refused():
    with pytest.raises(UnknownName, match="did you mean 't0'"):
        problem_of([1.0], {"t00": MOLDABLE})
    with pytest.raises(InvalidInput, match="distinct names"):
        problem_of([1.0], {"t0": [Variant("a"), Variant("a")]})
    with pytest.raises(InvalidInput, match="factor of variant 'a' is -1"):
        Variant("a", factor=-1.0)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_variants_survive_files(suffix, tmp_path):
    built = weft.WorkflowBuilder()
    ways = (*MODELS, Variant("x", cores=3, memory=5.0, needs={"licence": 1.0}, devices=("gpu",)))
    built.task("a", work=2.0, variants=ways)
    formats.save(built.build(), tmp_path / f"w.{suffix}")
    found = formats.load_workflow(tmp_path / f"w.{suffix}").variants["a"]
    for one, other in zip(found, ways, strict=True):
        assert repr(one) == repr(other)  # NaN differs from itself


TOML = """
[[variants]]
of = "task"
name = "small"
factor = 0.5
accuracy = 0.8
[[variants]]
of = "task"
name = "large"
seconds_on = {cpu = "4 s"}
cores = 2
accuracy = 0.9
cost = 0.25
"""


def test_the_front_on_the_command_line(tmp_path, capsys):
    (tmp_path / "ways.toml").write_text(TOML)
    assert load_variants(tmp_path / "ways.toml")["task"][1].seconds == {"cpu": 4.0}
    plain = problem_of([4.0, 4.0], {}, cluster=weft.Cluster.host(cores=2))
    formats.save(plain, tmp_path / "p.json")
    common = ["plan", str(tmp_path / "p.json"), "--variants", str(tmp_path / "ways.toml")]
    assert main([*common, "--pareto", "--json", "--picture", str(tmp_path / "f.svg")]) == 0
    front = json.loads(capsys.readouterr().out)["front"]
    found = [(one["makespan"], one["accuracy"]) for one in front]
    assert found == [(2.0, 0.8), (6.0, pytest.approx(0.85)), (8.0, 0.9)]
    assert "makespan and accuracy" in (tmp_path / "f.svg").read_text()
    assert main([*common, "--min-accuracy", "0.9"]) == 0
    assert "t0: large, t1: large; mean accuracy 0.9; cost 0.5" in capsys.readouterr().out


def test_no_plan_on_the_front_is_beaten():
    problem = problem_of([4.0, 2.0, 3.0], {"task": MOLDABLE[:1] + MODELS[:2]}, edges=[(0, 1)])
    front = pareto(problem)
    points = [(p.makespan, p.cost, p.energy, -p.accuracy) for p in front]
    every = []
    for chosen in picks(problem):
        plan = weft.plan(resolve(problem, chosen), "heft")
        cost = plan.cost + sum(v.cost for v in chosen.values())
        accuracy = mean_accuracy(chosen)
        every.append((plan.makespan, cost, plan.energy, 0.0 if accuracy != accuracy else -accuracy))
    for point in points:
        assert not any(
            all(a <= b for a, b in zip(other, point, strict=True)) and other < point
            for other in every
        )
    with pytest.raises(InvalidInput, match="no variants"):
        pareto(problem_of([1.0], {}))
