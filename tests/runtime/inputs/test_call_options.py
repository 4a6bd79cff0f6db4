"""Options of single calls: work, memory, cores, device, GPU; calls that fit nowhere."""

from __future__ import annotations

import pytest

import weft
from tests.support.run_functions import where
from tests.support.waiting import WAIT_LIMIT
from weft.model import Cluster
from weft.runtime import FakeBackend, LocalDevice
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.inputs.functions import application_of
from weft.runtime.service.service import Service

CLUSTER = Cluster(
    speed=[1.0, 2.0],
    names=("cpu0", "gpu0"),
    kinds=("cpu", "Tesla T4"),
    memory=[4e9, 1e9],
    cores=[4, 1],
)


def bound(*promises):
    app = application_of(list(promises))
    return estimated_problem(
        app.workflow, CLUSTER, None, keys=app.keys, devices=app.devices
    ).durations()


def test_options_of_a_call_do_not_change_the_task_or_its_arguments():
    task = weft.task(lambda x, work=0: x * work, work=2.0)
    heavy = task.options(work=8.0, memory=2e9)(7, work=3)
    app = application_of([task(7), heavy])
    assert app.workflow.work.tolist() == [2.0, 8.0]
    assert app.workflow.memory.tolist() == [0.0, 2e9]
    assert app.calls[1].kwargs == {"work": 3}
    assert app.functions[0] == app.functions[1]  # one function, one set of measurements


def test_needs_keep_a_call_to_its_devices():
    task = weft.task(where, work=2.0)
    inf = float("inf")
    assert bound(task()).tolist() == [[2.0, 1.0]]
    assert bound(task.options(device="cpu")()).tolist() == [[2.0, inf]]
    assert bound(task.options(device="gpu0")()).tolist() == [[inf, 1.0]]
    assert bound(task.options(device="Tesla T4")()).tolist() == [[inf, 1.0]]
    assert bound(task.options(gpu=True)()).tolist() == [[inf, 1.0]]
    assert bound(task.options(memory=2e9)()).tolist() == [[2.0, inf]]
    assert bound(task.options(cores=2)(), task()).tolist() == [[2.0, inf], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"device": "tpu"}, "task 'where-0' needs device 'tpu', but the devices are cpu0, gpu0"),
        ({"memory": 9e9}, "it needs 9e.09 bytes of memory, the largest device has 4e.09"),
        ({"cores": 8}, "it needs 8 cores, the largest device has 4"),
        ({"device": "gpu0", "memory": 2e9}, "fits no device 'gpu0': it needs 2e.09 bytes"),
        ({"work": -1}, "work of task 'where-0' is -1; it must be a finite number"),
        ({"work": "much"}, "work of task 'where-0' is 'much'"),
        ({"memory": float("nan")}, "memory of task 'where-0' is nan"),
        ({"cores": 1.5}, "cores of task 'where-0' is 1.5; it must be a whole number"),
        ({"device": 3}, "device=3"),
    ],
)
def test_a_call_that_fits_nowhere_is_refused_with_the_reason(options, reason):
    with pytest.raises(weft.InvalidInput, match=reason) as error:
        bound(weft.task(where).options(**options)())
    assert "\n" not in str(error.value)


def test_unknown_options_are_refused():
    with pytest.raises(weft.UnknownName, match="did you mean 'memory'"):
        weft.task(where).options(memroy=1)


def test_kinds_without_durations_are_named():
    build = weft.WorkflowBuilder()
    build.task("extract", durations={"cpu": 1.0, "bigcpu": 2.0})
    with pytest.raises(
        weft.InvalidInput, match="no duration for device kind T4; known: cpu, bigcpu"
    ):
        weft.Problem.bind(build.build(), Cluster(speed=[1.0, 1.0], kinds=("T4", "T4")))


def test_calls_run_on_the_devices_they_need():
    devices = [LocalDevice("a"), LocalDevice("b", kind="gpu", speed=0.01)]
    task = weft.task(where)
    calls = [task.options(gpu=True)(), task.options(device="cpu")(), task.options(device="b")()]
    assert weft.run(calls, devices=devices, history=False).value == ["b", "a", "b"]


def test_a_service_keeps_to_the_needs_of_a_call():
    with Service(FakeBackend(CLUSTER)) as service:
        future = service.submit("app", weft.task(where).options(device="tpu")())
        with pytest.raises(weft.InvalidInput, match="needs device 'tpu'"):
            future.result(WAIT_LIMIT)


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("cores", float("nan"), "a whole number, 1 or more"),
        ("cores", float("inf"), "a whole number, 1 or more"),
        ("work", 10**400, "a finite number"),
        ("memory", 10**400, "a finite number"),
        ("needs", 0, "a dict"),
        ("calls", 3, "a dict, variant -> function"),
        ("variants", 0, "a list of weft.Variant"),
        ("kind", 3, "a text"),
    ],
)
def test_wrong_values_of_options_name_the_option(option, value, rule):
    with pytest.raises(weft.InvalidInput, match=f"^{option} of task 'where.* must be {rule}"):
        application_of(weft.task(where, **{option: value})())


def test_options_that_are_none_are_not_given():
    app = application_of(weft.task(where, kind=None, needs=None, variants=None, calls=None)())
    assert app.workflow.kinds == application_of(weft.task(where)()).workflow.kinds


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("adapt", "no"),
        ("keep", 0),
        ("progress", None),
        ("seconds", float("nan")),
        ("seconds", 0),
        ("seed", -1),
        ("seed", 2.5),
        ("retries", True),
        ("backoff", 10**400),
    ],
)
def test_wrong_options_of_a_run_name_the_option(option, value):
    with pytest.raises(weft.InvalidInput, match=f"^{option} is .* must be"):
        weft.run(weft.task(where)(), backend=FakeBackend(CLUSTER), history=False, **{option: value})


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_folder_that_cannot_be_is_refused(folder):
    with pytest.raises(weft.InvalidInput, match="cannot be the name of a folder"):
        weft.run(
            weft.task(where)(),
            backend=FakeBackend(CLUSTER),
            history=False,
            run_id="odd",
            folder=folder,
        )
