"""Pilots: running servers, resources, workers elsewhere, lost servers, dead drivers, intruders."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.fake_slurm import fake_allocation
from tests.support.instances import chain, fan
from tests.support.waiting import wait_until
from weft.runtime import HyperQueueBackend, LocalDevice, PilotDevice, SlurmBackend, current_device
from weft.runtime.backends.leftover_processes import descendants
from weft.runtime.backends.payload import inline, pack, unpack
from weft.runtime.backends.pilots.link import END_SECONDS, PilotLink
from weft.runtime.backends.pilots.listener import PilotListener

needs_hyperqueue = pytest.mark.skipif(
    find_spec("hyperqueue") is None, reason="HyperQueue is not installed"
)


@pytest.fixture(scope="module")
def server():
    """A running server with one worker of two cores."""
    pytest.importorskip("hyperqueue", reason="HyperQueue is not installed")
    from weft.runtime.backends.hyperqueue.server import OwnServer

    server = OwnServer(2)
    server.client()
    yield server
    server.close()


@pytest.fixture
def allocation(tmp_path, monkeypatch):
    for name, value in fake_allocation(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


# -- HyperQueue ---------------------------------------------------------------


def test_a_run_uses_a_running_server_and_leaves_it_running(server):
    options = {"backend": "hyperqueue", "address": server.folder, "history": False}
    for _ in range(2):
        assert weft.run(f.plus(f.square(3), 1), devices=1, **options).value == 10
    assert server._process.poll() is None


def test_commands_run_as_tasks(server, tmp_path):
    commands = {
        "write": ["sh", "-c", f"echo hello > {tmp_path}/a"],
        "read": ("cat", f"{tmp_path}/a"),
    }
    options = {"backend": "hyperqueue", "address": server.folder, "history": False, "devices": 1}
    trace = weft.run(chain("write", "read"), functions=commands, **options)
    assert trace.results == {"read": {"code": 0, "output": "hello\n"}}
    with pytest.raises(weft.runtime.TaskFailed, match="'false' ended with exit code 1"):
        weft.run(chain("bad"), functions={"bad": ["false"]}, **options)
    with pytest.raises(weft.InvalidInput, match=r"'bad' is 'false'; give a function, or a command"):
        weft.run(chain("bad"), functions={"bad": "false"}, **options)


def test_a_device_that_no_worker_can_hold_is_left_out_or_an_error(server):
    large = [PilotDevice("small"), PilotDevice("large", cpus=64)]
    with (
        pytest.warns(UserWarning, match=r"'large' did not start within 60 s; it asks for 64 cpus"),
        HyperQueueBackend(large, address=server.folder, start_seconds=60.0) as backend,
    ):
        trace = weft.run([f.square(k) for k in range(3)], backend=backend, history=False)
    assert trace.value == [0, 1, 4]
    assert set(trace.device.tolist()) == {0}
    with (
        HyperQueueBackend(large[1:], address=server.folder, start_seconds=0.2) as backend,
        pytest.raises(weft.WeftError, match="no device is left: device 'large' did not start"),
    ):
        weft.run(f.square(2), backend=backend, history=False)


def test_a_request_names_all_resources():
    pytest.importorskip("hyperqueue", reason="HyperQueue is not installed")
    from weft.runtime.backends.hyperqueue.backend import _amounts

    spec = PilotDevice("g", cpus=2, gpus=1, memory=3 * 2**20 + 1, resources={"fpga": 2})
    assert _amounts(spec, own=False) == [("gpus/nvidia", 1.0), ("mem", 4.0), ("fpga", 2.0)]


@needs_hyperqueue
def test_what_hyperqueue_cannot_give_is_refused_at_once(tmp_path):
    with pytest.raises(weft.Unsupported, match="offers cores only"):
        HyperQueueBackend([PilotDevice("g", gpus=1)])
    with pytest.raises(weft.Unsupported, match="HyperQueue chooses the node"):
        HyperQueueBackend([PilotDevice("a", node="n1")])
    with pytest.raises(weft.InvalidInput, match="does not say what its workers have"):
        HyperQueueBackend(address=tmp_path)
    with pytest.raises(weft.WeftError, match="there is no HyperQueue server at"):
        HyperQueueBackend(1, address=tmp_path)
    with pytest.raises(weft.InvalidInput, match="address is given for backend 'local'"):
        weft.run(f.square(2), address=tmp_path, history=False)


@needs_hyperqueue
def test_a_server_that_dies_is_one_clear_error(tmp_path):
    with HyperQueueBackend([LocalDevice("a", memory=2**33)]) as backend:
        weft.run(f.square(2), backend=backend, history=False)
        os.kill(backend._own()._process.pid, signal.SIGKILL)
        backend._own()._process.wait()
        with pytest.raises(weft.WeftError, match="HyperQueue server takes no tasks any more"):
            weft.run(chain("x"), functions={"x": f.dies}, backend=backend, history=False)


DRIVER = """
import os, time
import weft
from weft.runtime import HyperQueueBackend
backend = HyperQueueBackend(1)
task = weft.task(time.sleep)
print(backend._token, backend._server._token, flush=True)
weft.run(task(100), backend=backend, history=False)
"""


@needs_hyperqueue
def test_nothing_is_left_when_the_driver_is_killed():
    """Server, HyperQueue's worker and the pilot end by themselves."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    tokens = driver.stdout.readline().split()
    wait_until(lambda: all(descendants(token) for token in tokens))
    driver.kill()
    driver.wait()
    driver.stdout.close()
    wait_until(lambda: not any(descendants(token) for token in tokens))


# -- Slurm --------------------------------------------------------------------


def test_devices_are_the_cores_of_the_allocation(allocation):
    with SlurmBackend(host="127.0.0.1") as backend:
        assert backend.devices().names == ("n0-cpu0", "n0-cpu1", "n1-cpu0", "n1-cpu1")
        assert backend.devices().nodes == ("n0", "n0", "n1", "n1")
    devices = [
        PilotDevice("a", node="n1", cpus=2, memory=2**30),
        PilotDevice("b", gpus=1, kind="gpu", resources={"tmp": 5}),
    ]
    where = weft.task(os.getenv, device="a")
    calls = [where("SLURMD_NODENAME"), weft.task(current_device, device="b")()]
    with SlurmBackend(devices, host="127.0.0.1") as backend:
        assert weft.run(calls, backend=backend, history=False).value == ["n1", "b"]
    first, second = sorted((allocation / "calls").read_text().splitlines())
    assert "--jobid=17" in first
    assert "--cpus-per-task=2 --exact --overlap --nodelist=n1 --mem=1024M" in first
    assert "--cpus-per-task=1 --exact --mem=0M --gres=gpu:1,tmp:5" in second


def test_devices_beyond_the_allocation_are_refused(allocation, monkeypatch):
    with pytest.raises(weft.InvalidInput, match="5 devices, but the allocation 17 has 4 cores"):
        SlurmBackend(5)
    with pytest.raises(weft.InvalidInput, match="asks for node 'n7', but the allocation 17 has n0"):
        SlurmBackend([PilotDevice("a", node="n7")])
    with pytest.raises(weft.InvalidInput, match="3 cores of node 'n0', but the allocation 17 has"):
        SlurmBackend([PilotDevice("a", node="n0", cpus=3)])
    with pytest.raises(weft.InvalidInput, match="ask for 6 cores, but the allocation 17 has 4"):
        SlurmBackend([PilotDevice("a", cpus=3), PilotDevice("b", cpus=3)])
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[")
    with pytest.raises(weft.InvalidInput, match=r"SLURM_JOB_NODELIST is 'n\[': .*bad list"):
        SlurmBackend(1)
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(weft.InvalidInput, match="start the program with salloc or sbatch"):
        weft.run(f.square(2), backend="slurm", history=False)


def test_a_step_that_does_not_start_is_an_error(allocation):
    (allocation / "srun").write_text("#!/bin/sh\necho no such node >&2\nexit 1\n")
    with (
        SlurmBackend(1, host="127.0.0.1") as backend,
        pytest.raises(weft.WeftError, match=r"no device is left: .* exit code 1"),
    ):
        weft.run(f.square(2), backend=backend, history=False)


# -- workers elsewhere --------------------------------------------------------


def test_workers_that_share_no_memory_get_and_give_whole_values(allocation, monkeypatch):
    """As on another machine: another boot id, and no folder of the driver."""
    monkeypatch.setattr("weft.runtime.backends.pilots.link.machine", lambda: "another")
    monkeypatch.setattr(Path, "touch", lambda *_: None)  # the file that shows shared memory
    functions = {"one": f.ones, "add": partial(np.multiply, 2.0), "total": f.total}
    with SlurmBackend(2, host="127.0.0.1") as backend:
        trace = weft.run(fan(3), functions=functions, backend=backend, history=False)
        assert all(not w.shares_memory and not w.pid for w in backend._workers)
        assert all(0.0 < w.offset < 60.0 for w in backend._workers)
    assert trace.results["total"] == 3 * 2 * 50_000
    assert weft.check(trace.workload, trace) == []


def test_payloads_travel_without_their_file(tmp_path):
    value = {"large": np.arange(50_000.0), "text": "x" * 100_000}
    for packed in (pack(value, tmp_path / "a"), pack(value["text"], tmp_path / "b")):
        alone = inline(packed)
        size = packed.size
        Path(packed.path).unlink()
        assert alone.path is None
        assert alone.size >= size
        found = unpack(alone)
        assert found == value["text"] if isinstance(found, str) else found["text"] == value["text"]


def test_a_connection_without_the_key_is_dropped():
    listener = PilotListener("127.0.0.1")
    try:
        with pytest.raises(AuthenticationError, match="digest"):
            Client(listener.address, authkey=b"wrong")
        assert listener.arrivals() == []
        with socket.create_connection(listener.address) as silent:
            silent.sendall(b"garbage")
        assert listener.arrivals() == []
    finally:
        listener.close()


class SlowJob:
    """A pilot whose end the batch system reports after some questions."""

    def __init__(self, answers_after: int) -> None:
        self.left = answers_after

    def exit_code(self):
        self.left -= 1
        return None if self.left >= 0 else 7

    def cancel(self):
        pass


def test_a_busy_machine_gives_the_batch_system_more_time(monkeypatch):
    # The limit counts pauses, not the clock: 200 pauses of 20 ms are within 5 seconds however long
    # they took. A system that never answers still ends the wait.
    slept = []
    monkeypatch.setattr("weft.runtime.backends.local.process.time.sleep", slept.append)
    link = PilotLink(0, PilotDevice("a"), "token", start_seconds=1.0, arrivals=lambda _: None)
    link.job = SlowJob(200)
    assert link.exit_code(END_SECONDS) == 7
    assert len(slept) == 200
    link.job = SlowJob(10**9)
    assert link.exit_code(END_SECONDS) is None
    assert sum(slept[200:]) == pytest.approx(END_SECONDS)
