"""`weft.Executor`, the joblib backend and `weft.get`: contracts, placement, failures, learning."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import textwrap
import threading
import time

import joblib
import numpy as np
import psutil
import pytest

import weft
from tests.support.programs import run_python
from tests.support.run_functions import waits_for
from tests.support.waiting import WAIT_LIMIT
from weft.model import Cluster
from weft.runtime import History, LocalDevice, current_device
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.measurements import Measurement
from weft.runtime.executors.function_table import SLOTS, FunctionTable, bindings_of
from weft.runtime.executors.placement import CallCosts, rough

OWN = "tests.runtime.executors.test_executors."


@pytest.fixture(scope="module", name="executor")
def _executor():
    with weft.Executor(2, history=False) as found:
        yield found


def where(_=0):
    return current_device()


def total(array, scale=1):
    return float(array.sum()) * scale


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Locked(Exception):
    lock = None


def raises(kind):
    if kind == "locked":
        error = Locked("no pickle")
        error.lock = threading.Lock()
        raise error
    raise {"plain": ValueError("no", 3), "odd": Odd(1, 2), "exit": SystemExit(4), "mute": Mute()}[
        kind
    ]


def dies(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


# -- concurrent.futures -------------------------------------------------------


def test_calls_large_arguments_and_results(executor):
    big = np.ones(100_000)
    assert executor.submit(total, big, scale=2).result() == 200_000.0
    assert executor.submit(np.zeros, 100_000).result().shape == (100_000,)
    assert executor.submit("abc".upper).result() == "ABC"
    assert executor.submit(lambda x: x + len(OWN), 1).result() == 1 + len(OWN)
    assert list(executor.map(divmod, [7, 8, 9], [2, 3, 4], chunksize=2)) == [(3, 1), (2, 2), (2, 1)]
    assert list(executor.map(abs, [])) == []


def test_errors_keep_their_type_and_show_the_remote_traceback(executor):
    with pytest.raises(ValueError, match="no") as found:
        executor.submit(raises, "plain").result()
    assert found.value.args == ("no", 3)
    assert "in raises" in str(found.value.__cause__)
    with pytest.raises(weft.WeftError, match="Odd: 1 and 2"):  # it cannot be unpickled
        executor.submit(raises, "odd").result()
    with pytest.raises(SystemExit):
        executor.submit(raises, "exit").result()


def test_arguments_and_results_that_cannot_be_pickled_fail_their_call_only(executor):
    bad = executor.submit(len, [threading.Lock()])
    assert executor.submit(abs, -1).result() == 1
    with pytest.raises(TypeError):
        bad.result()
    with pytest.raises(concurrent.futures.BrokenExecutor, match="cannot be pickled"):
        executor.submit(threading.Lock).result()


@pytest.mark.parametrize("how", ["killed", "exit"])
def test_a_dead_process_fails_its_call_only(executor, how):
    lost = executor.submit(dies, how)
    others = [executor.submit(abs, -k) for k in range(50)]
    with pytest.raises(concurrent.futures.BrokenExecutor, match="its call did not end"):
        lost.result()
    assert [other.result() for other in others] == list(range(50))


def test_waiting_calls_can_be_cancelled_and_running_ones_cannot(tmp_path):
    gate = tmp_path / "gate"
    with weft.Executor(1, history=False) as own:
        running = own.submit(waits_for, str(gate))
        waiting = [own.submit(time.sleep, 60) for _ in range(3)]
        while not running.running():
            time.sleep(0.01)
        assert not running.cancel()
        assert all(call.cancel() for call in waiting)
        gate.touch()
    assert running.result() is None


def test_after_shutdown_nothing_is_accepted():
    own = weft.Executor(1, history=False)
    own.shutdown()
    own.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        own.submit(abs, 1)
    with pytest.raises(weft.InvalidInput, match="greater than 0"):
        weft.Executor(max_workers=0)
    with pytest.raises(weft.InvalidInput, match="one of the two"):
        weft.Executor(2, max_workers=2)


def test_the_program_ends_after_its_calls_and_leaves_no_process():
    code = """
        import os, time, weft
        def late(x):
            time.sleep(0.2)
            print("done", x, flush=True)
            return os.getpid()
        ex = weft.Executor(1, history=False)
        print(ex.submit(late, 1).result(), flush=True)
        ex.submit(late, 2)
    """
    done = run_python("-c", textwrap.dedent(code))
    first, pid, last = done.stdout.splitlines()
    assert (first, last) == ("done 1", "done 2")
    assert not psutil.pid_exists(int(pid))
    assert done.stderr == ""


# -- functions ----------------------------------------------------------------


def test_functions_sent_by_value_never_keep_an_old_state():
    code = """
        import weft
        K, table = 1, [1]
        def inner(): return K
        def calls_inner(): return inner() + 100
        def uses_list(): return table[0]
        class Box:
            value = 1
            def get(self): return self.value
        box = Box()
        with weft.Executor(1, history=False) as ex:
            def now(): return [ex.submit(f).result() for f in (calls_inner, uses_list, box.get)]
            print(now())
            K, table[0], box.value = 2, 2, 2
            print(now())
            inner = lambda: 7
            print(now())
    """
    done = run_python("-c", textwrap.dedent(code), check=False)
    assert done.stdout.splitlines() == ["[101, 1, 1]", "[102, 2, 2]", "[107, 2, 2]"], done.stderr


def test_a_table_of_functions_is_bounded():
    table = FunctionTable()
    kept = [eval(f"lambda x: x + {k}") for k in range(SLOTS + 50)]
    slots = [table.find(function).slot for function in kept]
    assert max(slots) == SLOTS
    assert len(table.functions) == SLOTS + 1
    assert 0 not in slots
    assert bindings_of([].append) is None
    assert bindings_of(total) == ()


# -- devices that differ ------------------------------------------------------

TWO = [LocalDevice("slow", kind="cpu"), LocalDevice("fast", kind="gpu")]


def test_calls_go_where_the_history_says_they_end_first(tmp_path):
    history = History(tmp_path / "h.sqlite")
    key = OWN + "where"
    history.add([Measurement(key, "cpu", 100.0), Measurement(key, "gpu", 0.001)])
    with weft.Executor(TWO, history=history) as own:
        assert {own.submit(where).result() for _ in range(10)} == {"fast"}
        only = weft.task(where).options(device="cpu")
        assert own.submit(only).result() == "slow"
        assert list(own.map(only, range(4), chunksize=2)) == ["slow"] * 4
        with pytest.raises(weft.InvalidInput, match="needs device 'tpu'"):
            own.submit(weft.task(where).options(device="tpu"))
    rows = [row for row in History(history.path).tasks if row.kind == key]
    assert len(rows) == 2 + 11  # chunks have a name of their own
    assert {row.kind for row in History(history.path).tasks} == {key, f"{key} in chunks"}
    assert {row.device for row in rows[2:]} == {"cpu", "gpu"}


def test_predictions_follow_measurements_speed_and_size():
    costs = CallCosts(Cluster(speed=[1.0, 2.0], kinds=("cpu", "gpu")), None)
    small, large = (CostKey("f", (("0", x),)) for x in (3.0, 1000.0))
    assert costs.seconds(small, rough(small), 0.0) == [None, None]
    costs.measured("f", small.sizes, rough(small), 0, 0.0, 4.0)
    assert costs.seconds(small, rough(small), 0.0) == [4.0, 2.0]  # by speed, until it is measured
    costs.measured("f", small.sizes, rough(small), 1, 0.0, 1.0)
    assert costs.seconds(small, rough(small), 0.0) == [4.0, 1.0]
    assert costs.seconds(large, rough(large), 6.0) == [6.0, 3.0]  # its work, on both
    assert [m.seconds for m in costs.measurements()] == [4.0, 1.0]


def test_error_that_cannot_be_pickled_keeps_its_type(executor):
    with pytest.raises(Locked, match="no pickle"):
        executor.submit(raises, "locked").result()


def test_calls_use_managers_of_multiprocessing(executor):
    with multiprocessing.Manager() as manager:
        found = manager.dict()
        executor.submit(found.update, {"a": 1}).result()
        assert dict(found) == {"a": 1}


# -- joblib and Dask ----------------------------------------------------------


def test_joblib_runs_on_weft_and_learns(tmp_path):
    weft.register_joblib()
    path = tmp_path / "h.sqlite"
    with joblib.parallel_config(backend="weft", n_jobs=2, history=path):
        found = joblib.Parallel()(joblib.delayed(total)(np.full(3, k)) for k in range(20))
        assert found == [3.0 * k for k in range(20)]
        with pytest.raises(ValueError, match="no"):
            joblib.Parallel()(joblib.delayed(raises)("plain") for _ in range(4))
        nested = joblib.Parallel()(joblib.delayed(_inner)(k) for k in range(3))
        assert nested == [[0, 1], [1, 2], [2, 3]]
        stream = joblib.Parallel(return_as="generator")(joblib.delayed(abs)(-k) for k in range(9))
        assert list(stream) == list(range(9))
    assert any(row.kind.startswith(OWN + "total") for row in History(path).tasks)
    with joblib.parallel_config(backend="weft", devices=TWO, history=False):
        assert joblib.effective_n_jobs(-1) == 2
        names = joblib.Parallel()(joblib.delayed(where)(k) for k in range(4))
    assert set(names) <= {"slow", "fast"}


def test_joblib_initializes_limits_threads_and_refuses_unknown_options():
    weft.register_joblib()
    options = {"backend": "weft", "n_jobs": 2, "history": False}
    with joblib.parallel_config(**options, inner_max_num_threads=3):
        assert joblib.Parallel()([joblib.delayed(os.getenv)("OMP_NUM_THREADS")]) == ["3"]
    own = [joblib.delayed(_value)()] * 4
    for value in ("a", "b"):  # the processes are the same ones
        setup = {"initializer": _initialize, "initargs": (value,)}
        assert joblib.Parallel(**options, **setup)(own) == [value] * 4
    with pytest.raises(weft.WeftError, match="no option 'device'; did you mean 'devices'"):
        joblib.Parallel(**options, device=2)(own)
    assert joblib.Parallel(**options, devices=TWO)([joblib.delayed(where)()])[0] in {"slow", "fast"}


_set_up = {}


def _initialize(value):
    _set_up["value"] = value


def _value():
    return _set_up["value"]


def test_joblib_can_be_nested_and_says_what_cannot_be_pickled():
    weft.register_joblib()
    nested = joblib.Parallel(n_jobs=2, backend="weft", history=False)
    assert nested([joblib.delayed(_inner)(1, backend="weft")]) == [[1, 2]]
    with pytest.raises(pickle.PicklingError, match="cannot pickle the task"):
        nested([joblib.delayed(id)(threading.Lock())])
    with joblib.parallel_config(backend="weft"):
        assert joblib.effective_n_jobs() == joblib.Parallel()._effective_n_jobs()


def marks_and_waits(folder, k):
    (folder / str(k)).touch()
    waits_for(str(folder / "gate"))


def test_joblib_drops_the_batches_that_have_not_begun_after_an_error(tmp_path):
    weft.register_joblib()
    before = set(threading.enumerate())
    calls = [joblib.delayed(marks_and_waits)(tmp_path, k) for k in range(100)]
    with pytest.raises(ValueError, match="no"):
        joblib.Parallel(n_jobs=2, backend="weft", history=False)(
            [joblib.delayed(raises)("plain"), *calls]
        )
    (tmp_path / "gate").touch()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_LIMIT)
    assert len(list(tmp_path.iterdir())) < 10


def _inner(k, **options):
    return joblib.Parallel(n_jobs=2, **options)(joblib.delayed(abs)(x) for x in (k, k + 1))


def test_dask_computes_with_weft(tmp_path):
    dask = pytest.importorskip("dask", reason="Dask is not installed")
    array = pytest.importorskip("dask.array", reason="Dask is not installed")
    path = tmp_path / "h.sqlite"
    options = {"num_workers": 2, "history": path}
    with dask.config.set(scheduler=weft.get):
        assert (array.ones((40, 40), chunks=20) + 1).sum().compute(**options) == 3200.0
        a, b = dask.compute(dask.delayed(max)(1, 2), dask.delayed(len)("abc"), **options)
    assert (a, b) == (2, 3)
    assert weft.get({"x": 1, "y": (abs, -2)}, [["x"], "y"], devices=1, history=False) == ((1,), 2)
    assert len(History(path).tasks) > 4


def test_an_exception_whose_text_raises_reaches_its_future(executor):
    with pytest.raises(Mute):
        executor.submit(raises, "mute").result()
    assert executor.submit(abs, -3).result() == 3


def test_a_call_that_forks_ends_once(executor):
    assert executor.submit(os.fork).result() > 0
    assert list(executor.map(abs, [-1, -2])) == [1, 2]


@pytest.mark.parametrize("size", [0, 2.5, float("nan")])
def test_a_chunk_is_a_whole_number_of_calls(executor, size):
    with pytest.raises(ValueError, match="it must be at least 1, and whole"):
        executor.map(abs, [1], chunksize=size)


def test_an_exception_that_workers_cannot_import_keeps_its_type(executor):
    class OwnError(Exception):
        pass

    def fail(error):
        raise error("why", 3)

    with pytest.raises(OwnError) as caught:
        executor.submit(fail, OwnError).result()
    assert caught.value.args == ("why", 3)
