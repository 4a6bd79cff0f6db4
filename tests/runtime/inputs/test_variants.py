"""Variants in runs: the plan says which function runs, with which cores."""

from __future__ import annotations

import time

import pytest

import weft
from weft.errors import InvalidInput, UnknownName
from weft.model import Workflow
from weft.model.variants import Variant
from weft.runtime import History
from weft.runtime.inputs.functions import from_functions

CPU, GPU = Variant("cpu", seconds=3.0, accuracy=0.9), Variant("gpu", seconds=1.0, accuracy=0.8)


def on_cpu(*_):
    return "cpu code"


def on_gpu(*_):
    return "gpu code"


def slow(*_):
    time.sleep(10.0)  # much longer than a busy machine keeps the quick one waiting
    return "slow"


def quick(*_):
    return "quick"


model = weft.task(on_cpu, variants=[CPU, GPU], calls={"gpu": on_gpu})


def graph() -> Workflow:
    return Workflow(
        work=[1.0, 1.0],
        src=[0],
        dst=[1],
        data=[0.0],
        names=("read", "classify"),
        variants={"classify": [CPU, GPU]},
    )


FUNCTIONS = {"read": dict, "classify": {"cpu": on_cpu, "gpu": on_gpu}}


@pytest.mark.parametrize("policy", ["heft", "anytime", "fifo"])
def test_the_chosen_variant_runs(policy):
    options = {"policy": policy, "devices": 1, "history": False, "seconds": 0.05}
    trace = weft.run(model(), **options)
    assert (trace.value, trace.variants["on_cpu-0"].name) == ("gpu code", "gpu")
    trace = weft.run(model(), min_accuracy=0.85, **options)
    assert (trace.value, trace.variants["on_cpu-0"].name) == ("cpu code", "cpu")
    assert weft.check(trace.workload, trace) == []


def test_workflows_have_a_function_for_each_variant():
    trace = weft.run(graph(), functions=FUNCTIONS, devices=1, history=False)
    assert trace.results == {"classify": "gpu code"}
    with pytest.raises(InvalidInput, match="variant 'gpu' of task 'classify' has no function"):
        from_functions(graph(), {"read": dict, "classify": {"cpu": on_cpu}})
    with pytest.raises(UnknownName, match=r"variant 'gpus', and no such.*did you mean 'gpu'"):
        from_functions(graph(), {"read": dict, "classify": {"cpu": on_cpu, "gpus": on_gpu}})


def test_a_plan_is_run_with_its_variants():
    cluster = weft.Cluster.host(cores=2)
    plan = weft.plan(graph(), cluster=cluster, min_accuracy=0.85)
    trace = weft.run(graph(), functions=FUNCTIONS, policy=plan, devices=cluster, history=False)
    assert trace.results == {"classify": "cpu code"}
    assert trace.variants == plan.variants
    run = {"functions": FUNCTIONS, "devices": cluster, "history": False}
    with pytest.raises(InvalidInput, match="give the plan"):
        weft.run(graph(), policy=plan.schedule, **run)
    with pytest.raises(InvalidInput, match="the plan of 'heft' has its variants"):
        weft.run(graph(), policy=plan, min_accuracy=0.5, **run)


def test_variants_take_what_they_need_of_their_node():
    # Four cores: two tasks of four cores take 2 x 6 s; two of two cores side by side 10 s.
    ways = [Variant("two", seconds=10.0, cores=2), Variant("four", seconds=6.0, cores=4)]
    wide = weft.task(on_cpu, variants=ways)
    trace = weft.run([wide(), wide()], devices=weft.Cluster.host(cores=4), history=False)
    assert {way.name for way in trace.variants.values()} == {"two"}
    assert trace.workload.problems[0].workflow.cores.tolist() == [2, 2]
    alone = weft.run(wide(), devices=weft.Cluster.host(cores=4), history=False)
    assert alone.variants["on_cpu-0"].name == "four"


def test_measured_variants_replace_what_was_declared(tmp_path):
    # "slow" is declared as the quicker one; once both were measured, the other is chosen.
    history = History(tmp_path / "h.sqlite")
    ways = [Variant("a", seconds=1.0), Variant("b", seconds=2.0)]
    either = weft.task(slow, variants=ways, calls={"b": quick})
    first = weft.run(either(), devices=1, history=history)
    assert first.value == "slow"
    only_b = weft.task(slow, variants=ways[1:], calls={"b": quick})
    assert weft.run(only_b(), devices=1, history=history).value == "quick"
    assert weft.run(either(), devices=1, history=history).value == "quick"


def test_limits_without_variants_are_refused():
    with pytest.raises(InvalidInput, match="has no variants"):
        weft.run(weft.task(on_cpu)(), min_accuracy=0.5, devices=1, history=False)
    with pytest.raises(InvalidInput, match="must be a list of"):
        weft.run(weft.task(on_cpu, variants="two")(), devices=1, history=False)


def test_dask_runs_the_chosen_variant():
    pytest.importorskip("distributed")
    calls = [model(), model()]
    assert weft.run(calls, backend="dask", devices=1, history=False).value == ["gpu code"] * 2


def test_ray_runs_the_chosen_variant(ray_backend):
    assert weft.run(model(), backend=ray_backend, history=False).value == "gpu code"
    limited = weft.run(model(), backend=ray_backend, history=False, min_accuracy=0.85)
    assert limited.value == "cpu code"
