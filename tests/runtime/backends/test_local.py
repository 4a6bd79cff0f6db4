"""Runs in real processes: what comes out, what goes wrong, and that nothing stays behind."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.instances import chain, fan, schedule_of
from weft.errors import MissingExtra, Unsupported
from weft.runtime import Chosen, FakeBackend, LocalBackend, LocalDevice, PolicyReplaced, TaskFailed
from weft.runtime.backends.local.pool import end_idle_processes
from weft.runtime.backends.payload import PREFIX, pack, unpack
from weft.sim.view import Decision


def _folders():
    """Return the folders in memory of this process."""
    return list(Path("/dev/shm").glob(f"{PREFIX}{os.getpid()}-*"))


@pytest.fixture(scope="module")
def two():
    # Executors that tests of joblib gave up are still there until they are collected.
    before = {*multiprocessing.active_children(), *_folders()}
    with LocalBackend(2) as backend:
        yield backend
    end_idle_processes()
    assert {*multiprocessing.active_children(), *_folders()} <= before


@pytest.fixture
def run(two):
    return partial(weft.run, backend=two, history=False)


# -- what comes out -----------------------------------------------------------


def test_large_arrays_arrive_read_only_and_whole(run):
    trace = run(fan(3), functions={"one": f.ones, "add": f.doubled, "total": f.total})
    assert trace.results["total"] == 3 * 2 * 50_000


def test_a_schedule_is_carried_out_with_its_copies(run):
    schedule = schedule_of((0, 0, 0.0, 1.0), (0, 1, 0.0, 1.0), (1, 1, 1.0, 2.0))
    trace = run(chain("one", "where"), functions={"one": f.one, "where": f.where}, policy=schedule)
    assert trace.results == {"where": "cpu1"}
    assert (
        trace.device.tolist().count(1) == 2
    )  # the copy was made; the run may be over before the original is done


def test_decorated_functions_build_the_graph(run):
    trace = run(f.plus(f.square(3), f.square(4), offset=f.square(1)))
    assert trace.results == {"plus-0": 9 + 16 + 1}
    assert trace.workload.kinds == ("square", "sum")
    first, both = f.square(2), f.square(5)
    assert run([f.plus(first, both), first]).results == {"plus-0": 29, "square-0": 4}


def test_a_networkx_graph_runs(run):
    graph = nx.DiGraph(name="net")
    graph.add_node("a", function=f.one)
    graph.add_node("b", function=f.add, kind="sum")
    graph.add_edge("a", "b", data=8.0)
    assert run(graph).results == {"b": 2}


def test_an_unknown_thing_is_refused(run):
    with pytest.raises(weft.InvalidInput, match="not a str"):
        run("cholesky")
    with pytest.raises(weft.UnknownName, match="did you mean 'add'"):
        run(fan(), functions={"one": f.one, "ad": f.add, "total": f.add})
    with pytest.raises(weft.InvalidInput, match="task 'total'"):
        run(fan(), functions={"one": f.one, "add": f.add})
    with pytest.raises(weft.UnknownName, match="did you mean 'local'"):
        weft.run(fan(), functions={"one": f.one, "add": f.add, "total": f.add}, backend="locl")


# -- branches -----------------------------------------------------------------


def test_the_function_of_a_choice_takes_its_branch(run):
    taken = f.fork("left")
    trace = run(
        [
            f.after(taken.when("left")),
            f.after(taken.when("right")),
            f.after(taken.when("left"), taken.when("left")),
        ],
        policy="eft",
    )
    assert trace.results == {"after-0": (10, None), "after-2": (10, 10)}
    assert len(trace) == 3  # the task on the right was skipped
    assert weft.check(trace.workload, trace) == []


def test_a_join_gets_none_from_the_branch_not_taken(run):
    taken = f.fork("right")
    left, right = f.after(taken.when("left")), f.after(taken.when("right"))
    assert run(f.after(left, right), policy="eft").results == {"after-2": (None, (10, None))}


def test_a_branch_that_does_not_exist_is_an_error(run):
    b = weft.WorkflowBuilder()
    b.task("choose", work=1.0)
    b.choice("choose", {"left": 0.5, "right": 0.5})
    with pytest.raises(TaskFailed, match="'sideways'; it must be one of"):
        run(b.build(), functions={"choose": f.nonsense}, policy="eft")
    assert run(b.build(), functions={"choose": f.plain_branch}, policy="eft").results == {
        "choose": "left"
    }


def test_chosen_is_public():
    assert Chosen("a").value is None


# -- what goes wrong ----------------------------------------------------------


def test_a_task_that_fills_memory_gets_a_memory_error():
    with LocalBackend([LocalDevice("small", memory=1 << 30)]) as backend:
        trace = weft.run(
            chain("fat"),
            functions={"fat": f.fills_memory},
            backend=backend,
            history=False,
            on_error="continue",
        )
        assert "MemoryError" in trace.failures[0].text


class Broken:
    name = "broken"

    def __init__(self, answer):
        self.answer = answer

    def begin(self, workload, *, seed=0):
        if self.answer == "begin":
            raise RuntimeError("not today")

    def decide(self, view):
        if self.answer == "raise":
            raise RuntimeError("no idea")
        return self.answer


@pytest.mark.parametrize(
    "answer", ["begin", "raise", 17, Decision(0, 99), Decision(99, 0), None], ids=str
)
def test_a_policy_that_errs_is_replaced(run, answer):
    with pytest.warns(PolicyReplaced, match="'broken' is replaced by greedy"):
        trace = run(
            fan(), functions={"one": f.one, "add": f.add, "total": f.add}, policy=Broken(answer)
        )
    assert trace.results == {"total": 9}
    assert trace.replaced


def test_a_policy_that_does_not_support_the_workflow_is_refused_before_it_runs(run, tmp_path):
    fork, named = f.after(f.fork("left").when("left")), {"run_id": "fork", "folder": tmp_path}
    refusals = {
        "heft": "planner 'heft' does not plan .*: it has choices; give a policy instead",
        "heft-replanned": "policy 'heft-replanned' does not plan .*: it has choices; try",
        "conditional-pi4": "policy 'conditional-pi4' is for .*; train one for it",
    }
    for policy, why in refusals.items():
        with pytest.raises(Unsupported, match=why):
            run(fork, policy=policy, **named)
    with pytest.raises(Unsupported, match=refusals["heft-replanned"]):
        run(fork, shadow="heft-replanned", **named)
    assert run(fork, policy="rank-first", **named).results == {"after-0": (10, None)}


def test_by_default_the_decider_supports_the_workflow(run):
    trace = run(f.after(f.fork("left").when("left")))
    assert (trace.results, trace.policy) == ({"after-0": (10, None)}, "eft")
    assert not trace.replaced
    plain = {"functions": {"one": f.one, "where": f.where}}
    assert run(chain("one", "where"), **plain).policy == "heft"


def test_a_planner_with_a_missing_part_is_refused(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(MissingExtra, match="ortools"):
        run(chain("one"), functions={"one": f.one}, policy="exact")


def test_a_policy_in_the_shadow_is_asked_and_not_obeyed(run):
    trace = run(
        fan(), functions={"one": f.one, "add": f.add, "total": f.add}, policy="eft", shadow="eft"
    )
    assert trace.shadow.asked == 6
    assert trace.shadow.same == 6
    worse = run(
        fan(),
        functions={"one": f.one, "add": f.add, "total": f.add},
        policy="eft",
        shadow=Broken("raise"),
    ).shadow
    assert worse.erred == 6
    assert "erred 6" in str(worse)


# -- learning and plumbing ----------------------------------------------------


def test_parcels_hold_what_they_were_given(tmp_path):
    value = {
        "a": [np.arange(100_000), np.arange(3)],
        "b": b"x" * 100_000,
        "c": np.asfortranarray(np.ones((300, 300))),
    }
    payload = pack(value, tmp_path / "p")
    back = unpack(payload)
    np.testing.assert_array_equal(back["a"][0], value["a"][0])
    np.testing.assert_array_equal(back["c"], value["c"])
    assert back["b"] == value["b"]
    assert payload.size >= 800_000 + 100_000


def test_a_fake_run_needs_no_functions_to_be_called():
    workflow = fan()
    cluster = weft.Cluster(speed=[1.0, 2.0])
    trace = weft.run(
        workflow,
        functions={"one": f.raises, "add": f.raises, "total": f.raises},
        backend=FakeBackend(cluster),
        history=False,
    )
    planned = weft.plan(weft.Problem.bind(workflow, cluster), "heft")
    assert trace.makespan == planned.makespan


def test_a_plain_run_gives_no_warning(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(chain("one"), functions={"one": f.one}).results == {"one": f.one()}
