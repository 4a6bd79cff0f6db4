"""The behaviour that all backends share: results, failures, retries, journals, new plans."""

from __future__ import annotations

import os
import threading
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.fake_slurm import fake_allocation
from tests.support.instances import chain, fan
from tests.support.waiting import WAIT_LIMIT
from weft.model.trace import DONE, LOST
from weft.runtime import (
    FakeBackend,
    History,
    LocalBackend,
    PilotDevice,
    RunOptions,
    SlurmBackend,
    TaskFailed,
)
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.service.service import Service

FAN = {"one": f.one, "add": f.add, "total": f.add}
REAL = ["local", "dask", "ray", "hyperqueue", "slurm"]

# Ray leaves files and processes to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture(scope="module", params=REAL)
def backend(request, tmp_path_factory):
    if request.param == "ray":
        yield request.getfixturevalue("ray_backend")
        return
    if request.param == "dask":
        pytest.importorskip("distributed", reason="Dask is not installed")
        make = import_module("weft.runtime.backends.dask.backend").DaskBackend
    elif request.param == "hyperqueue":
        pytest.importorskip("hyperqueue", reason="HyperQueue is not installed")
        make = import_module("weft.runtime.backends.hyperqueue.backend").HyperQueueBackend
    elif request.param == "slurm":
        yield from slurm_backend(tmp_path_factory.mktemp("slurm"))
        return
    else:
        make = LocalBackend
    with make(2) as backend:
        yield backend


def slurm_backend(folder):
    """In a real allocation if the tests run in one (salloc pytest ...), else with a fake srun."""
    with pytest.MonkeyPatch.context() as patch:
        if "SLURM_JOB_ID" not in os.environ:
            for name, value in fake_allocation(folder).items():
                patch.setenv(name, value)
        devices = [PilotDevice(name, node="") for name in ("cpu0", "cpu1")]
        with SlurmBackend(devices, host="127.0.0.1") as backend:
            yield backend


@pytest.fixture
def run(backend, monkeypatch):
    """Run task by task; plans as a whole have a test below."""
    monkeypatch.setattr(backend, "whole", False, raising=False)
    return partial(weft.run, backend=backend, history=False)


def valid(trace):
    assert weft.check(trace.workload, trace) == []
    return trace


# -- results ------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["heft", "cpop", "eft", "fifo", "heft-replanned"])
def test_every_kind_of_decider_gives_the_result(run, policy):
    trace = valid(run(fan(), functions=FAN, policy=policy))
    assert trace.results == {"total": 4 * 2 + 1}  # each add gets 1 and returns 2
    assert (trace.status == DONE).all()
    assert len(trace) == 6


@pytest.mark.parametrize("policy", ["heft", "cpop", "eft", "fifo", "heft-replanned"])
def test_the_fake_backend_runs_every_kind_of_decider(policy):
    fake = FakeBackend(weft.Cluster(speed=[1.0, 1.0]))
    trace = weft.run(fan(), functions=FAN, policy=policy, backend=fake, history=False)
    assert weft.check(trace.workload, trace) == []
    assert (trace.status == DONE).all()
    assert len(trace) == 6


def test_large_arrays_move_between_devices(run):
    functions = {"one": f.ones, "add": partial(np.multiply, 2.0), "total": f.total}
    assert run(fan(3), functions=functions).results["total"] == 3 * 2 * 50_000


def test_branches_are_taken_at_run_time(run):
    taken = f.fork("left")
    promises = [
        f.after(taken.when("left")),
        f.after(taken.when("right")),
        f.after(taken.when("left"), taken.when("left")),
    ]
    trace = valid(run(promises, policy="eft"))
    assert trace.results == {"after-0": (10, None), "after-2": (10, 10)}


def test_a_second_run_continues_from_the_journal(run, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    first = f.marked(str(marks), 0)
    both = [first, f.marked(str(marks), 1, first)]
    assert run(both, run_id="again", folder=tmp_path).value == [1, 2]
    with pytest.warns(UserWarning, match="'again' is finished"):
        assert run(both, run_id="again", folder=tmp_path).value == [1, 2]
    assert len(list(marks.iterdir())) == 2  # the second run executed nothing


def test_a_run_adds_its_durations_to_the_history(run, tmp_path):
    history = History(tmp_path / "h.sqlite")
    b = weft.WorkflowBuilder()
    for k in range(4):
        b.task(f"s{k}", kind="slow", work=1.0)
    run(b.build(), functions={"slow": partial(f.slow, 0.02)}, history=history)
    (known,) = history.durations()
    assert (known.kind, known.device) == ("slow", "cpu")
    assert len(history.tasks) == 4  # the first of each worker is a cold start, kept apart
    assert known.quartiles[0] >= 0.02
    trace = run(b.build(), functions={"slow": partial(f.slow, 0.02)}, history=history)
    measured = history.predict("slow", "cpu", work=1.0)  # of eight now
    assert measured >= 0.02
    np.testing.assert_allclose(trace.workload.problems[0].durations(), known.quartiles[1])


def test_a_service_starts_submissions_while_others_run(backend, tmp_path):
    """A large submission cannot end before small ones did: its last task waits for a file."""
    gate = tmp_path / "gate"
    # One order per device and idle devices only: no small task queues behind the waiting one.
    options = RunOptions(window=1, on_error="continue")
    with Service(backend, policy="fifo", options=options) as service:
        large = service.submit("batch", f.gated(str(gate), *[f.square(k) for k in range(20)]))
        small = [service.submit("user", f.plus(f.square(k), 1)) for k in range(3)]
        try:
            found = [future.result(WAIT_LIMIT) for future in small]
        finally:
            gate.touch()
        assert found == [{"plus-0": k * k + 1} for k in range(3)]
        assert large.result(WAIT_LIMIT) == {"gated-0": 20}


# -- failures -----------------------------------------------------------------

FAULTS = {
    "raises": (f.raises, "raised", "ValueError: no 3"),
    "exits": (f.exits, "exited", "exit code 7"),
    "leaves": (f.leaves, "raised", "SystemExit: enough"),
    "unpicklable": (f.generator, "unpicklable", "cannot be pickled"),
    "dies": (f.dies, "killed", "SIGKILL"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failure_is_one_clear_error_and_the_rest_goes_on(backend, run, name):
    function, fault, text = FAULTS[name]
    if backend.name == "ray" and name in ("exits", "dies"):
        fault, text = "killed", "ended itself or was killed"  # Ray does not report exit codes
    b = weft.WorkflowBuilder()
    for task in ("one", "bad", "child", "grandchild", "other"):
        b.task(task, work=1.0, kind=task if task in ("one", "bad") else "add")
    for u, v in (("one", "bad"), ("bad", "child"), ("child", "grandchild"), ("one", "other")):
        b.edge(u, v)
    functions = {"one": f.one, "bad": function, "add": f.add}
    trace = valid(run(b.build(), functions=functions, on_error="continue", crashes=1))
    (failure,) = trace.failures
    assert (failure.task, failure.fault) == ("bad", fault)
    assert text in failure.text
    assert (failure.inputs, failure.dependents) == (("one",), ("child", "grandchild"))
    assert trace.results == {"other": 2}


def test_the_error_shows_the_users_traceback_only(run):
    with pytest.raises(TaskFailed, match=r"task 'bad' failed on device 'cpu[01]'") as caught:
        run(chain("one", "bad", "add"), functions={"one": f.one, "bad": f.raises, "add": f.add})
    assert "inputs: 'one'; not run because of it: 'add'" in str(caught.value)
    assert "run_functions.py" in str(caught.value)
    assert "weft/runtime" not in str(caught.value)


def test_a_task_that_hangs_is_stopped_and_its_device_returns(run):
    trace = run(
        chain("one", "slow"),
        functions={"one": f.one, "slow": f.hangs},
        timeout={"slow": 0.2},
        on_error="continue",
    )
    assert trace.failures[0].fault == "timeout"
    assert "0.2 s" in trace.failures[0].text
    assert run(chain("one"), functions={"one": f.one}).results == {"one": 1}


def test_retries_with_back_off(run, tmp_path):
    flaky = partial(f.fails_twice, str(tmp_path / "tries"))
    trace = run(chain("flaky"), functions={"flaky": flaky}, retries=2, backoff=0.01)
    assert trace.results == {"flaky": 2}
    assert trace.status.tolist() == [LOST, LOST, DONE]


def test_a_task_whose_process_died_runs_again(run, tmp_path):
    fragile = partial(f.dies_once, str(tmp_path / "mark"))
    trace = run(chain("fragile"), functions={"fragile": fragile})
    assert trace.results == {"fragile": "lived"}
    assert sorted(trace.status.tolist()) == [DONE, LOST]


def test_a_function_that_cannot_be_sent_is_refused_before_anything_runs(run):
    with pytest.raises(weft.InvalidInput, match="cannot be sent to another process"):
        run(chain("a"), functions={"a": partial(f.add, threading.Lock())})


# -- plans handed over as a whole ---------------------------------------------


class ScriptedDrift(DriftDetector):
    """Reports drift after three tasks; in truth both devices take 0.02 s per task."""

    count = 0

    def finished(self, *_):
        self.count += 1
        return self.count == 3

    def corrected(self):
        (problem,) = self.workload.problems
        columns = dict.fromkeys(problem.cluster.names, np.full(problem.n, 0.02))
        workflow = weft.Workflow(
            work=np.zeros(problem.n),
            src=problem.workflow.src,
            dst=problem.workflow.dst,
            data=problem.workflow.data,
            durations=columns,
        )
        return weft.Workload.of(weft.Problem.bind(workflow, problem.cluster))


@pytest.mark.parametrize("layered", [False, True])
def test_a_wrong_plan_is_replaced_as_a_whole(backend, run, monkeypatch, tmp_path, layered):
    """Nearly all tasks are planned on the device that seems fast; half of them in the new plan.

    All but the first three calls wait until the old plan is retracted.
    """
    if backend.name not in ("dask", "ray"):
        pytest.skip(f"the {backend.name} backend takes one task at a time")
    go, plans = tmp_path / "go", []
    if backend.name == "dask":
        owner, name = import_module("weft.runtime.backends.dask.plan").WholeGraph, "wind_up"
    else:
        owner, name = backend, "_retract"
    retract, run_plan = getattr(owner, name), backend.run_plan

    def retracting(*args):
        retract(*args)
        go.touch()

    def counted(rows, *args, **options):
        plans.append(len(rows))
        run_plan(rows, *args, **options)

    monkeypatch.setattr(owner, name, retracting)
    monkeypatch.setattr(backend, "run_plan", counted)
    monkeypatch.setattr(backend, "whole", None)
    monkeypatch.setattr("weft.runtime.execution.DriftDetector", ScriptedDrift)
    n, src, dst = 60, np.zeros(0, int), np.zeros(0, int)
    if layered:  # layers of two; each task reads the whole layer before
        src = np.concatenate([np.arange(n - 2), np.arange(n - 2)])
        dst = np.concatenate([np.arange(2, n), np.arange(2, n) ^ 1])
    order = np.lexsort((dst, src))
    seconds = zip(backend.devices().names, (0.001, 0.1), strict=True)
    workflow = weft.Workflow(
        work=np.zeros(n),
        src=src[order],
        dst=dst[order],
        data=np.zeros(len(src)),
        durations={device: np.full(n, s) for device, s in seconds},
    )
    trace = valid(run(workflow, functions={"task": partial(f.first_three, str(tmp_path))}))
    assert trace.plans == 2
    assert plans[0] == n
    assert plans[1] < n - 2
    assert len(trace) == n  # no task counts twice
    assert (trace.device == 1).sum() > 15
    assert set(trace.results.values()) == ({30} if layered else {1})
