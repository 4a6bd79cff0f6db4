"""Kernels are compiled once, and again when any code that they contain changes."""

import fcntl
import os
import runpy
import subprocess
import sys
from itertools import count

import numpy as np
import pytest

from weft.policies.replanning.portfolio import run_by_portfolio
from weft.sim.kernel.jit import decorators, kernel, njit, stored
from weft.sim.kernel.jit.clock import PausedClock


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a small package: `top` imports `middle`, which imports `bottom`; `other` is apart."""
    (tmp_path / "weft").mkdir()
    for name, text in {
        "top": "from weft.middle import f\n",
        "middle": "from weft.bottom import (\n    ONE,\n)\n\n\ndef f(): return ONE\n",
        "bottom": "ONE = 1\n",
        "other": "from weft import top\n",
    }.items():
        (tmp_path / "weft" / f"{name}.py").write_text(text)
    monkeypatch.setattr(decorators, "_ROOT", tmp_path)
    yield _fresh
    _forget()


def _forget():
    decorators.stamp.cache_clear()
    decorators._read.cache_clear()


def _fresh(name):
    _forget()
    return decorators.stamp(f"weft.{name}")


def test_a_change_below_is_seen_above_and_nowhere_else(package, tmp_path):
    names = ("top", "middle", "bottom", "other")
    before = {name: package(name) for name in names}
    assert {name: package(name) for name in names} == before
    (tmp_path / "weft" / "middle.py").write_text("def f(): return 2\n")
    after = {name: package(name) for name in names}
    assert [name for name in names if after[name] != before[name]] == ["top", "middle", "other"]


def test_a_constant_two_files_away_counts(package, tmp_path):
    before = package("top")
    (tmp_path / "weft" / "bottom.py").write_text("ONE = 1.5\n")
    assert package("top") != before


def test_kernels_carry_the_stamp_of_their_module():
    assert run_by_portfolio._cache._cache_file._source_stamp == decorators.stamp(
        "weft.policies.replanning.portfolio"
    )


def test_a_kernel_outside_weft_follows_what_it_imports(package, tmp_path):
    (tmp_path / "own.py").write_text(
        "from weft.sim.kernel.jit import njit\n\nif False:\n    from weft.top import f\n\n\n"
        "@njit\ndef own(x):\n    return x\n"
    )

    def own_stamp():
        _forget()
        own = runpy.run_path(str(tmp_path / "own.py"))["own"]
        return own._cache._cache_file._source_stamp

    assert own_stamp() == (before := own_stamp())
    (tmp_path / "weft" / "bottom.py").write_text("ONE = 1.5\n")
    assert own_stamp() != before


def test_a_cache_that_names_a_lost_class_counts_as_empty(tmp_path, monkeypatch):
    def lost(self):
        raise AttributeError("Can't get attribute 'Fleet'")

    monkeypatch.setattr(stored.IndexDataCacheFile, "_load_index", lost)
    assert stored.KernelFile(str(tmp_path), "kernel", "stamp")._load_index() == {}
    monkeypatch.setattr(stored.IndexDataCacheFile, "_load_index", lambda self: {"kept": 1})
    assert stored.KernelFile(str(tmp_path), "kernel", "stamp")._load_index() == {"kept": 1}


def test_compiling_tells_how_far_it_is(capsys):
    times = iter([0.0, 1.0, 5.5, 5.5, 6.0])
    notice = decorators.Notice(lambda: next(times))
    notice.on_start(None)
    notice.on_end(None)
    notice.on_start(None)
    notice.on_end(None)
    notice.on_end(None)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "weft: compiling kernels (once; later starts read the cache)"
    assert second == "weft: compiled 2 functions"


@njit
def tripled(x):
    return 3.0 * x


def test_compiling_stops_the_clock_of_plans(monkeypatch):
    ticks = count()
    clock = PausedClock(lambda: float(next(ticks)))
    monkeypatch.setattr(kernel, "planning_clock", clock)
    before = clock()  # 0 s; from 1 to 2 s the kernel is compiled or loaded
    assert tripled(2.0) == 6.0
    assert clock() - before == 2.0  # at 3 s
    assert tripled(3.0) == 9.0
    assert clock() - before == 3.0  # at 4 s: the kernel was there


def test_a_clock_stands_still_until_the_last_pause_ends():
    ticks = count()
    clock = PausedClock(lambda: float(next(ticks)))
    with clock.paused():  # at 0 s
        with clock.paused():
            assert clock() == 0.0
        assert clock() == 0.0
    assert clock() == 1.0  # the pause ended at 1 s, now it is 2 s


@njit
def halved(x):
    return x / 2.0


@njit
def quartered(x):
    if x < 0.0:
        raise ValueError("below zero")
    return halved(halved(x))


@njit
def summed(numbers):
    total = 0.0
    for k in range(len(numbers)):
        total += quartered(numbers[k])
    return total


def test_a_function_serves_python_and_compiled_code():
    assert summed(np.array([4.0, 8.0])) == 3.0
    assert not halved.signatures  # nothing was made for Python but the kernel that it called
    assert halved(3.0) == 1.5
    assert quartered(3.0) == 0.75
    with pytest.raises(ValueError, match="below zero"):
        summed(np.array([-1.0]))


def _sum(numbers, cache):
    """Start a process that calls `summed`, with its own cache."""
    script = f"from tests.sim.kernel.test_jit import np, summed; print(summed(np.array({numbers})))"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_kernel_from_the_cache_has_the_code_of_its_callees(tmp_path):
    for _ in range(2):
        error = _sum([4.0, -1.0], tmp_path).communicate()[1]
        assert "ValueError: below zero" in error
    assert error.startswith("Traceback")  # the second process compiles nothing


def test_processes_that_start_together_compile_once(tmp_path):
    together = [_sum([4.0, 8.0], tmp_path) for _ in range(3)]
    results, errors = zip(*(child.communicate() for child in together), strict=True)
    assert results == ("3.0\n",) * 3
    assert sum("compiling kernels" in error for error in errors) == 1


def test_a_process_says_that_it_waits_for_another_one(tmp_path):
    _sum([4.0], tmp_path).communicate()
    (path,) = tmp_path.rglob("*summed*.lock")
    with path.open("ab") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        waiting = _sum([4.0], tmp_path)
        assert "waiting for another process" in waiting.stderr.readline()
    result, _ = waiting.communicate()
    assert result == "1.0\n"


def test_a_folder_that_cannot_be_written_has_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(summed._cache, "_lock_file", tmp_path / "none" / "x.lock")
    with summed._cache.locked(lambda: pytest.fail("waits")):
        assert not list(tmp_path.iterdir())
