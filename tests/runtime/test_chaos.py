"""Workers killed at random, Ctrl-C in the middle: right results, and no process left.

benchmarks/chaos.py is the long version.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import weft
from tests.support import run_functions as f
from weft.model.trace import DONE
from weft.runtime import LocalBackend
from weft.runtime.backends.payload import PREFIX

ROOT = Path(__file__).parents[2]


def graph(tasks, seed, marks):
    """A random DAG as promises, and the value each must have."""
    rng = random.Random(seed)
    promises, values = [], []
    for k in range(tasks):
        parents = rng.sample(range(k), min(k, rng.randrange(4)))
        promises.append(f.marked(str(marks), k, *(promises[p] for p in parents)))
        values.append(sum(values[p] for p in parents) + 1)
    return promises, values


def kill_at_random(backend, over, rng, marks):
    """Kill a worker at random numbers of calls, so that slow machines see as many kills."""
    for goal in sorted(rng.sample(range(2, 60), 8)):
        while len(list(marks.iterdir())) < goal and not over.wait(0.005):
            pass
        workers = [w for w in backend._workers if w is not None and w.ready]
        if workers and not over.is_set():
            try:
                os.kill(rng.choice(workers).process.pid, signal.SIGKILL)
            except (ProcessLookupError, ValueError, TypeError):
                continue


@pytest.mark.parametrize("policy", ["heft", "eft"])
def test_workers_killed_at_random(policy, tmp_path):
    promises, values = graph(60, 1, tmp_path)
    over = threading.Event()
    with LocalBackend(2) as backend:
        killer = threading.Thread(
            target=kill_at_random, args=(backend, over, random.Random(7), tmp_path)
        )
        killer.start()
        try:
            trace = weft.run(promises, policy=policy, backend=backend, history=False, crashes=1000)
        finally:
            over.set()
            killer.join()
    assert list(trace.results.values()) == values
    assert weft.check(trace.workload, trace) == []
    calls = Counter(path.name.split(".")[0] for path in tmp_path.iterdir())
    assert sorted(map(int, calls)) == list(range(60))  # every task ran at least once
    done = trace.task[trace.status == DONE].tolist()
    assert sorted(done) == list(range(60))  # and counts once
    assert multiprocessing.active_children() == []


SCRIPT = """
import sys
from functools import partial
sys.path.insert(0, {root!r})
import weft
from tests.support import run_functions as f

if __name__ == "__main__":
    b = weft.WorkflowBuilder()
    for k in range(4):
        b.task(f"t{{k}}", work=1.0)
    print("here", flush=True)
    functions = {{"task": partial(f.marks_and_hangs, {marks!r})}}
    weft.run(b.build(), functions=functions, devices=2, history=False)
"""


def test_ctrl_c_leaves_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT), marks=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests in the background may ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        assert process.stdout.readline() == "here\n"
        children = _wait_for(lambda: len(_children(process.pid)) >= 2 and _children(process.pid))
        _wait_for(lambda: list(tmp_path.glob("[0-9]*")))  # a task hangs
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    _wait_for(
        lambda: (
            not any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in children)
        )
    )
    assert not list(Path("/dev/shm").glob(f"{PREFIX}{process.pid}-*"))


def _children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def _wait_for(condition):
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
