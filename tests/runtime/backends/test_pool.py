"""Runs of one process share their workers, which end with it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import psutil
import pytest

import weft
from tests.support.waiting import WAIT_LIMIT
from weft.model import Workflow
from weft.runtime import LocalDevice
from weft.runtime.backends.leftover_processes import VARIABLE
from weft.runtime.backends.local.pool import end_idle_processes, shared_backend
from weft.runtime.backends.protocol import Call


def pid(*_):
    return os.getpid()


def pids(**options):
    workflow = Workflow(work=[1.0] * 4, src=[], dst=[], data=[], kinds=("a",))
    trace = weft.run(workflow, functions={"a": pid}, history=False, **options)
    return set(trace.results.values())


def workers(others=()):
    """Return the children of this process that are workers, except those of other tests."""
    children = psutil.Process().children()
    return [child for child in children if VARIABLE in child.environ() and child not in others]


@pytest.fixture(autouse=True)
def _own_processes():
    end_idle_processes()
    yield
    end_idle_processes()


def test_the_next_run_has_the_same_processes():
    others = workers()
    first = pids(devices=1)
    assert pids(devices=1) == first
    assert pids(devices=[LocalDevice("other")]).isdisjoint(first)
    assert not any(psutil.pid_exists(p) for p in first)  # replaced, so ended
    end_idle_processes()
    assert workers(others) == []


def test_another_environment_needs_other_processes(monkeypatch):
    first = pids(devices=1)
    monkeypatch.setenv("OWN_SETTING", "1")
    assert pids(devices=1).isdisjoint(first)


def test_a_process_that_died_meanwhile_is_replaced():
    (first,) = pids(devices=1)
    psutil.Process(first).kill()
    assert pids(devices=1).isdisjoint({first})


def test_threads_do_not_share_a_backend():
    others = workers()
    found = []
    both = threading.Barrier(2)

    def run():
        backend = shared_backend(1)
        both.wait(WAIT_LIMIT)
        found.append(pids(backend=backend))
        both.wait(WAIT_LIMIT)
        backend.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0].isdisjoint(found[1])
    assert len(workers(others)) == 1  # one of them waits


def test_a_run_after_an_executor_is_not_kept_waiting():
    with weft.Executor(1, history=False) as executor:
        first = executor.submit(pid).result()
    executor.shutdown()  # again: it must not touch the processes of others
    assert pids(devices=1) == {first}
    backend = shared_backend(1)
    problem = weft.Problem.from_arrays([[1.0]])
    backend.begin(weft.Workload.of(problem), [Call(pid)])
    assert backend.wait(float("inf")) == []  # nothing was sent, so nothing can follow
    backend.close()
    assert weft.Executor(1, history=False).submit(pid).result() == first  # never shut down


def test_an_executor_belongs_to_one_process():
    with weft.Executor(1, history=False) as executor:
        executor.submit(pid).result()
        executor._owner -= 1
        with pytest.raises(RuntimeError, match="parent process"):
            executor.submit(pid)


def test_a_failed_run_leaves_a_pool_that_works():
    workflow = Workflow(work=[1.0], src=[], dst=[], data=[], kinds=("a",))
    with pytest.raises(weft.WeftError):
        weft.run(workflow, functions={"a": _fails}, devices=1, history=False)
    assert len(pids(devices=1)) == 1


def _fails():
    raise ValueError("no")


SCRIPT = """
import os, sys, weft
def pid(): return os.getpid()
def run(): return weft.run(weft.task(pid)(), devices=1, history=False).value
first = run()
child = os.fork()
if child == 0:
    assert run() != first
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert run() == first
print(first)
"""


def test_a_forked_child_has_its_own_processes_and_all_end():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert not psutil.pid_exists(int(done.stdout))
