"""`weft.plan` on promises, Dask collections, networkx graphs and workflows."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.errors import InvalidInput, UnknownName
from weft.runtime.costs.history import History
from weft.runtime.costs.history_files import import_recording
from weft.runtime.costs.measurements import Measurement

SAMPLES = Path(__file__).parents[1] / "formats" / "samples"
TWO = weft.Cluster(speed=[1.0, 1.0], kinds=("cpu", "cpu"))


@weft.task
def load(n):
    return list(range(n))


@weft.task(kind="fit")
def total(*parts):
    return sum(map(sum, parts))


def test_promises_with_given_durations():
    promise = total(load(1), load(2), load(3))
    plan = weft.plan(promise, cluster=TWO, history=False, durations={"load": 2.0, "fit": 1.0})
    assert plan.makespan == 5.0  # three loads on two devices, then the sum
    assert plan.problem.workflow.names == ("load-0", "load-1", "load-2", "total-0")
    assert weft.check(plan.problem, plan) == []
    one = weft.plan(
        {"a": [promise]}, cluster=TWO, history=False, durations={"load-2": 8, "fit": 1, "load": 1}
    )
    assert one.makespan >= 2.0


def test_zero_seconds_are_a_duration():
    for durations in ({"load": 0.0}, {"load-0": 0.0}):
        plan = weft.plan(load(1), cluster=TWO, history=False, durations=durations)
        assert plan.makespan == 0.0


def test_promises_with_the_history_of_a_run(tmp_path):
    history = History(tmp_path / "h.sqlite")
    promise = total(load(10), load(20))
    with pytest.raises(InvalidInput, match="how long 'load', 'fit' takes is not known: run it"):
        weft.plan(promise, history=history)
    weft.run(promise, devices=1, history=history)
    plan = weft.plan(promise, history=history)
    assert plan.makespan > 0
    assert set(plan.problem.cluster.kinds) >= {"cpu"}  # the machine itself


def test_dask_collections(tmp_path):
    dask = pytest.importorskip("dask")
    value = dask.delayed(max)(dask.delayed(len)("abc"), 2)
    assert weft.plan(value, history=False, durations={"len": 3.0, "max": 2.0}).makespan == 5.0
    history = History(tmp_path / "h.sqlite")
    history.add([Measurement("len", "cpu", 4.0), Measurement("max", "cpu", 1.0)])
    assert weft.plan([value], cluster=TWO, history=history).makespan == 5.0


def test_networkx_graphs():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_node("a", durations={"cpu": 2.0, "gpu": 1.0})
    graph.add_node("b", durations={"cpu": 3.0})
    graph.add_edge("a", "b")
    assert weft.plan(graph).makespan == 4.0  # one device of each kind, free links
    assert weft.plan(graph, cluster=TWO).makespan == 5.0
    calls = networkx.DiGraph()
    calls.add_node("a", function=dict)
    with pytest.raises(InvalidInput, match="how long 'dict' takes is not known"):
        weft.plan(calls, history=False)
    assert weft.plan(calls, history=False, durations={"a": 1.5}).makespan == 1.5
    plain = networkx.DiGraph()
    plain.add_node("a")
    with pytest.raises(InvalidInput, match="has neither seconds nor durations"):
        weft.plan(plain)


def test_workflows_need_machines():
    workflow = weft.Workflow(work=[2.0, 3.0], src=[0], dst=[1], data=[0.0])
    with pytest.raises(InvalidInput, match="has no machines; give cluster="):
        weft.plan(workflow)
    assert weft.plan(workflow, cluster=TWO).makespan == 5.0


def test_what_is_refused():
    problem = weft.Problem.from_arrays([[1.0]])
    with pytest.raises(InvalidInput, match="give neither beside it"):
        weft.plan(problem, cluster=TWO)
    with pytest.raises(InvalidInput, match="it must be a Cluster"):
        weft.plan(problem.workflow, cluster="machines.toml")
    with pytest.raises(UnknownName, match="durations name 'laod'"):
        weft.plan(load(1), history=False, durations={"laod": 1.0})
    with pytest.raises(InvalidInput, match="duration of 'load' is 'long'"):
        weft.plan(load(1), history=False, durations={"load": "long"})
    with pytest.raises(InvalidInput, match="weft runs a Workflow with functions"):
        weft.plan(42)
    with pytest.raises(InvalidInput, match=r"not the text 'tasks.csv'; weft.load reads a file"):
        weft.plan("tasks.csv")
    with pytest.raises(InvalidInput, match=r"not a DataFrame; weft.Problem.from_table makes one"):
        weft.plan(pytest.importorskip("pandas").DataFrame({"task": ["a"], "seconds": [1.0]}))
    with pytest.raises(InvalidInput, match="'load' is a function: call it first"):
        weft.plan(load)
    with pytest.raises(UnknownName, match="has no option 'second'; did you mean 'seconds'"):
        weft.plan(problem, "anytime", second=1)


def test_traces_fill_the_history(tmp_path):
    history = History(tmp_path / "h.sqlite")
    assert import_recording(history, SAMPLES / "nextflow.txt") == 4  # not the failed attempt
    assert history.predict("ALIGN", "cpu") == 120.5
    assert import_recording(history, SAMPLES / "sacct.txt", device="A100") == 2
    assert history.predict("train", "A100") == 90000.0
    known = {d.kind: d.output for d in history.durations()}
    assert known["INDEX"] == 412 * 2**20
    bad = tmp_path / "bad.txt"
    bad.write_text("name\tstatus\trealtime\na\tCOMPLETED\t1s\nb\tCOMPLETED\tx\n")
    with pytest.raises(InvalidInput, match="line 3"):
        import_recording(history, bad)
    assert history.predict("a", "cpu") is None  # a bad file adds nothing
