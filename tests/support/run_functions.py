"""Functions that tests send to other processes: they must live in a module those can import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import weft
from weft.runtime import Chosen, current_device


def one():
    return 1


def add(*numbers):
    return sum(numbers) + 1


def ones():
    return np.ones(50_000)


def doubled(array):
    assert not array.flags.writeable
    return 2 * array


def total(*arrays):
    return float(sum(a.sum() for a in arrays if a is not None))


def where(*_):
    return current_device()


def raises(*_):
    value = 3
    raise ValueError(f"no {value}")


def hangs(*_):
    time.sleep(600)


def exits(*_):
    os._exit(7)


def leaves(*_):
    sys.exit("enough")


def unpicklable(*_):
    return lambda: None


def fills_memory(*_):
    return len(bytearray(2 << 30))


def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(path):
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"


def fails_twice(path):
    tries = int(Path(path).read_text()) if Path(path).exists() else 0
    Path(path).write_text(str(tries + 1))
    if tries < 2:
        raise RuntimeError(f"try {tries}")
    return tries


def count_calls(folder, name, *values):
    """Leave a mark for every call, so that a test can count them."""
    Path(folder, f"{name}.{os.getpid()}.{time.monotonic_ns()}").touch()
    time.sleep(0.002)
    return sum(values) + 1


def pick(word):
    return Chosen(word, {"said": word})


def plain_branch(*_):
    return "left"


def nonsense(*_):
    return "sideways"


def slow(seconds):
    time.sleep(seconds)
    return seconds


@weft.task
def square(x):
    return x * x


@weft.task(kind="sum", work=2.0)
def plus(*values, offset=0):
    return sum(values) + offset


@weft.task(choices={"left": 0.5, "right": 0.5})
def fork(word):
    return Chosen(word, 10)


@weft.task
def after(value, other=None):
    return (value, other)


@weft.task
def marked(folder, name, *values):
    return count_calls(folder, name, *values)


@weft.task
def slowly(x):
    time.sleep(0.02)
    return x


@weft.task
def potrf(a):
    return np.linalg.cholesky(a)


@weft.task
def trsm(factor, a):
    return np.linalg.solve(factor, a.T).T


@weft.task
def gemm(a, b, c):
    return a - b @ c.T


def generator(*_):
    return (i for i in range(3))


def waits_for(path, value=None):
    """Return once a file exists, so that a test decides when the task ends."""
    deadline = time.monotonic() + 2400
    while not Path(path).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} was never made")
        time.sleep(0.005)
    return value


def marks_and_hangs(folder, *_):
    Path(folder, str(os.getpid())).touch()
    hangs()


def first_three(folder, *values):
    """Return at once in the first three calls; others wait for the file `go` in the folder."""
    for k in range(3):
        try:
            Path(folder, str(k)).touch(exist_ok=False)
            break
        except FileExistsError:
            continue
    else:
        waits_for(Path(folder, "go"))
    return 1 + max(values, default=0)


@weft.task
def gated(path, *values):
    return waits_for(path, len(values))


@weft.task
def begun_then_gated(begun, gate):
    Path(begun).touch()
    return waits_for(gate)


# -- children that outlive their task -----------------------------------------

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def child_of(way):
    """Start a process that a task leaves behind; return its id."""
    if way == "fork":
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        return pid
    if way == "daemon":  # a grandchild in a session of its own, whose parent is gone
        code = (
            "from subprocess import *; import sys; print(Popen(sys.argv[1:], stdout=DEVNULL).pid)"
        )
        out = subprocess.run(
            [sys.executable, "-c", code, *SLEEP],
            start_new_session=True,
            stdout=subprocess.PIPE,
            check=True,
        )
        return int(out.stdout)
    options = {
        "popen": {},
        "session": {"start_new_session": True},
        "no environment": {"env": {}},
        "session, no environment": {"start_new_session": True, "env": {}},
    }
    return subprocess.Popen(SLEEP, **options[way]).pid


@weft.task
def leaves_child(way):
    return child_of(way)


@weft.task
def leaves_child_and_dies(way, folder):
    Path(folder, str(child_of(way))).touch()
    os.kill(os.getpid(), 9)


@weft.task
def leaves_child_and_notes(way, folder):
    Path(folder, str(child_of(way))).touch()


@weft.task
def hangs_after(*_):
    time.sleep(600)


@weft.task
def process_id():
    return os.getpid()


@weft.task
def kills_and_hangs(pid):
    os.kill(pid, signal.SIGKILL)
    time.sleep(600)


def naps(*_):
    time.sleep(0.03)
    return current_device()


def sleeps(*_, seconds):
    time.sleep(seconds)
