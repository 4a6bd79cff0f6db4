"""Worker processes: those that cannot start, and what tasks leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import weft
from tests.support import run_functions as f
from tests.support.dying_workers import broken, kill_at_start
from tests.support.instances import chain, fan
from tests.support.waiting import WAIT_LIMIT, wait_until
from weft.runtime import DaskBackend, LocalBackend, LocalDevice, RunOptions, TaskFailed
from weft.runtime.backends.calls import MAX_KILLED_STARTS, MAX_STARTS
from weft.runtime.backends.dask.worker_registry import SILENCE, WorkerRegistry, join_present
from weft.runtime.backends.leftover_processes import descendants
from weft.runtime.backends.local.device import local_devices
from weft.runtime.backends.local.poll import FilePoll

ROOT = Path(__file__).parents[3]
FUNCTIONS = {"one": f.one, "add": f.add, "total": f.add}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids):
    return wait_until(lambda: not any(alive(pid) for pid in pids))


# -- what tasks leave behind --------------------------------------------------

WAYS = ["popen", "session", "fork", "daemon", "no environment"]


@pytest.mark.parametrize("way", [*WAYS, "session, no environment"])
def test_children_of_tasks_end_with_the_run(way):
    trace = weft.run(f.leaves_child(way), devices=1, history=False)
    assert gone([trace.value])


def test_a_backend_that_stays_open_keeps_no_children():
    with LocalBackend(1) as backend:
        first = weft.run(f.leaves_child("session"), backend=backend, history=False)
        assert gone([first.value])
        quiet = weft.run(f.process_id(), backend=backend, history=False)
        assert weft.run(f.process_id(), backend=backend, history=False).value == quiet.value
        assert alive(quiet.value)  # a worker without children is kept
    assert gone([quiet.value])


@pytest.mark.parametrize("way", WAYS)
def test_children_of_a_task_that_is_killed_end_with_it(way, tmp_path):
    with LocalBackend(1) as backend, pytest.raises(TaskFailed):
        weft.run(f.leaves_child_and_dies(way, tmp_path), backend=backend, history=False, crashes=1)
    (note,) = tmp_path.iterdir()
    assert gone([int(note.name)])


SCRIPT = """
import sys
import threading
sys.path.insert(0, {root!r})
import weft
from tests.support import run_functions as f
first = f.leaves_child_and_notes("session", {folder!r})  # its worker is idle afterwards
plan = weft.Schedule.of(device=[0, 1], start=[0, 1], finish=[1, 2])
weft.run(f.hangs_after(first), policy=plan, devices=2, history=False)
"""


def test_children_of_tasks_end_when_the_driver_is_killed(tmp_path):
    script = SCRIPT.format(root=str(ROOT), folder=str(tmp_path))
    driver = subprocess.Popen([sys.executable, "-c", script])
    wait_until(lambda: list(tmp_path.iterdir()))
    driver.kill()
    driver.wait()
    (note,) = tmp_path.iterdir()
    assert gone([int(note.name)])


# -- workers that cannot start ------------------------------------------------


def test_a_device_that_never_starts_is_left_out(tmp_path):
    devices = [LocalDevice("good"), LocalDevice("bad", environment=broken(tmp_path))]
    with pytest.warns(UserWarning, match=r"'bad' dies before it can work.*exit code 3; the run go"):
        trace = weft.run(fan(4), functions=FUNCTIONS, devices=devices, history=False)
    assert trace.results == {"total": 9}
    assert set(trace.device.tolist()) == {0}


def test_no_device_that_starts_is_an_error(tmp_path):
    devices = [LocalDevice(name, environment=broken(tmp_path)) for name in ("one", "two")]
    with (
        pytest.warns(UserWarning, match="'one' dies"),
        pytest.raises(weft.WeftError, match=r"no device is left: .*'two' dies before it can work"),
    ):
        weft.run(fan(), functions=FUNCTIONS, devices=devices, history=False)


def test_a_dask_worker_that_never_starts_is_left_out(tmp_path):
    devices = [LocalDevice("good"), LocalDevice("bad", environment=broken(tmp_path))]
    with pytest.warns(UserWarning, match=r"Dask worker 'bad' dies.*exit code 3; the run goes on"):
        trace = weft.run(
            fan(4), functions=FUNCTIONS, backend="dask", devices=devices, history=False
        )
    assert trace.results == {"total": 9}
    assert trace.workload.cluster.names == ("good",)


def test_a_dask_scheduler_that_stays_silent_is_gone(monkeypatch):
    registry = WorkerRegistry.__new__(WorkerRegistry)
    registry.local, registry.client, registry.threads = None, SimpleNamespace(), []
    registry.begin_run(None, list)
    clock = iter([0.0, 100.0, 100.0 + SILENCE, 101.0 + SILENCE, 200.0, 201.0 + SILENCE])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    for status in ("running", "connecting", "connecting", "running", "connecting"):
        registry.client.status = status
        registry.check()
    with pytest.raises(weft.WeftError, match="the Dask scheduler is gone"):
        registry.check()


def test_children_of_dask_tasks_end_with_the_run():
    trace = weft.run(f.leaves_child("session"), backend="dask", devices=1, history=False)
    assert gone([trace.value])


def test_workers_killed_as_they_start_are_replaced():
    with LocalBackend(2) as backend:
        killed = kill_at_start(backend, 0, MAX_STARTS + 2)
        trace = weft.run(f.plus(f.square(3), f.square(4)), backend=backend, history=False)
    assert trace.value == 25
    assert len(killed) == MAX_STARTS + 2


def test_a_device_killed_at_every_start_is_left_out():
    with LocalBackend(2) as backend:
        killed = kill_at_start(backend, 1, 10**6)
        with pytest.warns(UserWarning, match=r"killed by SIGKILL.*the run goes on without"):
            trace = weft.run(fan(4), functions=FUNCTIONS, backend=backend, history=False)
    assert trace.results == {"total": 9}
    assert len(killed) == MAX_KILLED_STARTS
    assert descendants(backend._token) == {}


# -- numbers that are none ----------------------------------------------------


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, 0.0, "1", True])
def test_a_time_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(weft.InvalidInput, match=r"timeout is .*; it must be a number of seconds"):
        weft.run(chain("one"), functions={"one": f.one}, timeout=seconds, history=False)
    with pytest.raises(weft.InvalidInput, match="timeout of 'one' is"):
        RunOptions(timeout={"two": 2, "one": seconds})


@pytest.mark.parametrize("devices", [2.5, "2", [1, 2], {"a": 1}, True])
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_a_number_of_devices_is_whole(devices, backend):
    with pytest.raises(weft.InvalidInput, match="devices"):
        weft.run(chain("one"), functions={"one": f.one}, devices=devices, backend=backend)


@pytest.mark.parametrize("devices", [2.5, [1, 2], True])
def test_a_number_of_dask_workers_is_whole(devices):
    with pytest.raises(weft.InvalidInput, match="devices"):
        DaskBackend(devices)


@pytest.mark.parametrize("option", ["window", "retries", "crashes", "backoff"])
def test_counts_are_whole(option):
    with pytest.raises(weft.InvalidInput, match=f"{option} is"):
        RunOptions(**{option: float("nan")})


def test_a_number_of_devices_that_cannot_be_is_refused_at_once():
    for number in (0, -1, 10**9, 10**5000, -(10**5000)):  # some have too many digits for a name
        with pytest.raises(weft.InvalidInput, match="devices; at least one is needed, and a "):
            local_devices(number)


# -- handshakes ---------------------------------------------------------------


def test_a_worker_that_dies_during_the_handshake_is_not_waited_for():
    answers = threading.Event()
    here = ["alive", "dead"]
    handshakes = {
        threading.Thread(target=answers.wait, daemon=True): "alive",
        threading.Thread(target=threading.Event().wait, daemon=True): "dead",
    }
    for thread in handshakes:
        thread.start()

    def present():
        here.remove("dead") if "dead" in here else answers.set()
        return list(here)

    join_present(handshakes, present, limit=WAIT_LIMIT)
    assert answers.is_set()  # it waited for the answer of the other one
    assert [thread.is_alive() for thread in handshakes] == [False, True]


@pytest.mark.parametrize("seconds", [1e7, 1e12])
def test_a_wait_may_be_longer_than_the_system_allows(seconds):
    here, there = os.pipe()
    try:
        poll = FilePoll()
        poll.register(here)
        os.write(there, b"x")
        assert [file for file, _ in poll.wait(seconds)] == [here]
    finally:
        os.close(here)
        os.close(there)
