"""Fingerprints of tasks change with code, arguments and ancestors, and with nothing else."""

from __future__ import annotations

import copy
import sys
import threading
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.programs import run_python
from weft.runtime.backends.protocol import Call
from weft.runtime.fingerprints import _is_users, task_fingerprints


def made(source):
    """Return the function `f` of a module with this source."""
    space = {"__name__": "made"}
    exec(source, space)
    return space["f"]


BASE = "K = 1\ndef g(x): return x\ndef f(x, y=2): return [g(v) + K for v in (x, 3)]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x, 3", "x, 4"),
        ("x, 3", "3, x"),
        ("y=2", "y=5"),
        ("K = 1", "K = 100"),
        ("g(x): return x", "g(x): return x + 1"),
        ("g(v) + K", "K - g(v)"),
    ],
)
def test_changed_code_changes_the_fingerprint(old, new):
    assert mark(made(BASE)) == mark(made("\n\n" + BASE))  # lines may move
    assert mark(made(BASE.replace(old, new))) != mark(made(BASE))


HELPER = """
from functools import cache
def inner(x): return x
def outer(x): return inner(x)
@cache
def cached(x): return x + 1
class Scaled:
    def times(self, x): return 2 * x
"""


@pytest.mark.parametrize(
    ("use", "old", "new"),
    [
        (
            "import helper\ndef f(x): return helper.outer(x)",
            "inner(x): return x",
            "inner(x): return -x",
        ),
        ("from helper import outer as o\ndef f(x): return o(x)", "return x\n", "return -x\n"),
        ("import helper\ndef f(x): return helper.cached(x)", "x + 1", "x + 2"),
        ("import helper\ndef f(x): return helper.Scaled().times(x)", "2 * x", "3 * x"),
        (
            "import helper\ndef f(x): return helper.sub.outer(x)",
            "inner(x): return x",
            "inner(x): return 0",
        ),
    ],
)
def test_changed_code_of_other_modules_counts(use, old, new, monkeypatch, tmp_path):
    def marked(text):
        helper = module("helper", text, tmp_path, monkeypatch)
        helper.sub = module("helper.sub", text, tmp_path, monkeypatch)
        helper.helper = helper  # modules may refer to one another in circles
        return mark(made(use))

    assert marked(HELPER) == marked("\n" + HELPER)
    changed = HELPER.replace(old, new)
    assert changed != HELPER
    assert marked(changed) != marked(HELPER)
    unused = HELPER.replace("return inner(x)", "return inner(x)\ndef unused(x): return x")
    assert marked(unused) == marked(HELPER)


def module(name, text, folder, monkeypatch):
    """Return a module as one that was imported from a file."""
    made = ModuleType(name)
    made.__file__ = str(folder / f"{name}.py")
    exec(text, vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_installed_packages_count_by_name(monkeypatch, tmp_path):
    use = "import helper\ndef f(x): return helper.outer(x)"
    _is_users.cache_clear()
    folder = tmp_path / "site-packages"
    module("helper", HELPER, folder, monkeypatch)
    one = mark(made(use))
    module("helper", HELPER.replace("return x", "return -x"), folder, monkeypatch)
    assert mark(made(use)) == one
    _is_users.cache_clear()


def test_long_chains_of_calls_have_a_fingerprint():
    text = "def f0(x): return x\n" + "".join(
        f"def f{k + 1}(x): return f{k}(x)\n" for k in range(2000)
    )
    chain = f"{text}def f(x): return f2000(x)"
    assert mark(made(chain)) == mark(made(chain))
    assert mark(made(chain)) != mark(made(chain.replace("return x\n", "return -x\n")))


def mark(function, *args):
    workflow = weft.Workflow(work=[1], src=[], dst=[], data=[])
    return task_fingerprints(workflow, [Call(function, args)])[0]


def adder(k):
    return lambda x: x + k


def test_closures_partials_and_methods_count_by_their_values():
    assert mark(adder(1)) == mark(adder(1)) != mark(adder(2))
    assert mark(partial(f.add, 1)) == mark(partial(f.add, 1)) != mark(partial(f.add, 2))
    assert mark(Fraction(1, 2).limit_denominator) != mark(Fraction(1, 3).limit_denominator)
    assert mark(f.square) != mark(f.plus)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (np.arange(5), np.arange(5.0)),
        (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)),
        ({"a": [1, "x"]}, {"a": [1, "y"]}),
        (Fraction(1, 2), Fraction(1, 3)),
        (Path("a"), Path("b")),
        (1, True),
        ([1, 2], (1, 2)),
    ],
    ids=str,
)
def test_arguments_count_by_content(value, other):
    assert mark(f.add, value) == mark(f.add, copy.deepcopy(value))
    assert mark(f.add, value) != mark(f.add, other)


def test_fingerprints_are_the_same_under_every_hash_seed():
    program = (
        "from tests.runtime.test_fingerprints import adder, mark; "
        "print(mark(adder({'a', 'b', 'c'}), frozenset('xyz')))"
    )
    found = {run_python("-c", program, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(found) == 1


def test_what_cannot_be_read_or_is_too_large_counts_as_changed(monkeypatch):
    lock = threading.Lock()
    assert mark(f.add, lock) != mark(f.add, lock)
    monkeypatch.setattr("weft.runtime.fingerprints.LIMIT", 1000)
    array = np.zeros(1000)
    assert mark(f.add, array) != mark(f.add, array)
