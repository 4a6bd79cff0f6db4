"""Calls of `weft.Executor` while devices die, start again or are left out."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import BrokenExecutor, Future

import pytest

import weft
from tests.support.dying_workers import broken, kill_at_start
from tests.support.waiting import WAIT_LIMIT
from weft.runtime import LocalDevice, current_device
from weft.runtime.backends.calls import MAX_KILLED_STARTS
from weft.runtime.backends.leftover_processes import descendants
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.backends.local.pool import end_idle_processes
from weft.runtime.backends.protocol import DeviceLost, Order
from weft.runtime.executors.dispatcher import Submitted


def ended(futures):
    """Return the results and errors of futures."""
    return [future.exception(WAIT_LIMIT) or future.result() for future in futures]


def warns(device):
    """Expect the warning that a device is left out."""
    text = f"device '{device}' dies before it can work.*; the run goes on without"
    return pytest.warns(UserWarning, match=text)


def square(x=0):
    time.sleep(0.01)
    return x * x


def dies(_=0):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_device_that_never_starts_gets_no_call(tmp_path):
    devices = [LocalDevice("bad", environment=broken(tmp_path)), LocalDevice("good")]
    with weft.Executor(devices, history=False) as own, warns("bad"):
        assert {own.submit(current_device).result(WAIT_LIMIT) for _ in range(5)} == {"good"}


def test_calls_whose_devices_never_start_fail(tmp_path):
    devices = [
        LocalDevice("bad", kind="gpu", environment=broken(tmp_path)),
        LocalDevice("good", kind="cpu"),
    ]
    only = weft.task(square).options(device="gpu")
    with weft.Executor(devices, history=False) as own, warns("bad"):
        before = [own.submit(only, k) for k in range(3)]
        assert own.submit(square, 3).result(WAIT_LIMIT) == 9
        for error in ended([*before, own.submit(only, 4)]):
            assert isinstance(error, weft.WeftError)
            assert "no device is left" in str(error)
            assert "'bad' dies before it can work: it ended its process" in str(error)


def test_without_any_device_all_calls_fail(tmp_path):
    devices = [LocalDevice(name, environment=broken(tmp_path)) for name in ("bad", "worse")]
    with weft.Executor(devices, history=False) as own, warns("bad"):
        for error in ended([own.submit(square, 3)]):
            assert isinstance(error, BrokenExecutor)
            assert "no device is left: " in str(error)


def test_calls_wait_while_their_device_starts_again():
    with weft.Executor([LocalDevice("killed twice")], history=False) as own:
        assert own.submit(square, 2).result(WAIT_LIMIT) == 4
        killed = kill_at_start(own._dispatcher.backend, 0, 2)
        futures = [own.submit(dies), *(own.submit(square, k) for k in range(3))]
        error, *values = ended(futures)
    assert "its call did not end" in str(error)
    assert values == [0, 1, 4]
    assert len(killed) == 2


def test_calls_fail_once_their_device_does_not_start_again():
    devices = [LocalDevice("doomed", kind="gpu"), LocalDevice("other", kind="cpu")]
    only = weft.task(square).options(device="gpu")
    with weft.Executor(devices, history=False) as own:
        assert own.submit(only, 2).result(WAIT_LIMIT) == 4
        killed = kill_at_start(own._dispatcher.backend, 0, 10**6)
        with warns("doomed"):
            lost = own.submit(weft.task(dies).options(device="gpu"))
            first, second = ended([lost, own.submit(only, 3)])
        assert own.submit(square, 3).result(WAIT_LIMIT) == 9
    assert "its call did not end" in str(first)
    assert "'doomed' dies before it can work: its process was killed" in str(second)
    assert len(killed) == MAX_KILLED_STARTS


class OneCall:
    """A table with one call, as an executor has it."""

    functions = {0: b""}  # noqa: RUF012  # nothing changes it
    function = {0: 0}  # noqa: RUF012  # the same

    def preload(self):
        return []

    def arguments(self, number):
        raise AssertionError(number)


def test_the_backend_reports_orders_on_a_device_that_is_left_out(tmp_path):
    bad = LocalDevice("bad", environment=broken(tmp_path))
    with LocalBackend([LocalDevice("good"), bad]) as backend:
        with warns("bad"):
            backend.start(OneCall())
        for _ in range(3):
            backend.submit(Order(0, (0,), ((),), (False,)), 1, 0.0)
            (event,) = backend.wait(0.0)
            assert isinstance(event, DeviceLost)
            assert event.device == 1


class CancelledLate(Future):
    """A future whose user cancels it just before it gets an exception."""

    def set_exception(self, error):
        self.cancel()
        super().set_exception(error)


def test_a_broken_executor_fails_all_calls_and_closes_its_backend(monkeypatch):
    with weft.Executor([LocalDevice("broken")], history=False) as own:
        backend, closed = own._dispatcher.backend, []
        monkeypatch.setattr(backend, "start", lambda _: 1 / 0)
        monkeypatch.setattr(backend, "close", lambda: closed.append(True))
        futures = [CancelledLate() for _ in range(3)]
        for future in futures:
            own._dispatcher._incoming.append(Submitted(future, square, (1,), {}))
        futures.append(own.submit(square, 2))
        own._dispatcher.thread.join(WAIT_LIMIT)
        assert closed == [True]
        for future in futures:
            assert future.cancelled() or "ZeroDivisionError" in str(future.exception(WAIT_LIMIT))


def test_all_calls_end_while_processes_are_killed():
    rng = random.Random(1)
    own = weft.Executor([LocalDevice("one"), LocalDevice("two")], history=False)
    backend = own._dispatcher.backend
    spawn, doomed = backend._spawn, random.Random(2)

    def kill(device):
        w = backend._workers[device]
        if w is not None:
            w.process.send_signal(signal.SIGKILL)

    def spawn_and_kill(device):
        spawn(device)
        if doomed.random() < 0.3:
            kill(device)

    backend._spawn = spawn_and_kill
    futures = {}
    for k in range(40):
        futures[k] = own.submit(dies) if k in {9, 25} else own.submit(square, k)
        if k % 8 == 7:
            time.sleep(rng.uniform(0.0, 0.3))
            kill(rng.randrange(2))
    found = dict(zip(futures, ended(futures.values()), strict=True))
    own.shutdown()
    end_idle_processes()
    assert descendants(backend._token) == {}
    lost = {k for k, value in found.items() if isinstance(value, BrokenExecutor)}
    assert {9, 25} <= lost
    assert all("its call did not end" in str(found[k]) for k in lost)
    assert {k: value for k, value in found.items() if k not in lost} == {
        k: k * k for k in futures if k not in lost
    }
