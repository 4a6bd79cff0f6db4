"""The joblib backend "weft" in joblib's own tests of backends, where they are installed."""

from __future__ import annotations

import inspect
import warnings
from types import FunctionType

import pytest

import weft

weft.register_joblib()  # before the import: joblib's tests collect the names of backends
theirs = pytest.importorskip("joblib.test.test_parallel", reason="joblib's tests are not installed")

NAMES = (
    "test_backend_nesting_level",
    "test_deadlock_with_generator",
    "test_dispatch_multiprocessing",
    "test_initializer_parallel",
    "test_invalid_njobs",
    "test_lambda_expression",
    "test_multiple_generator_call_managed",
    "test_nested_parallelism_limit",
    "test_parallel_pretty_print",
    "test_parallel_timeout_fail",
)
"""Tests with a parameter `backend` that ask nothing of loky alone, such as memory maps, its class,
or that it refuses to be nested, and that are quick. `test_abort_backend` and
`test_parallel_timeout_success` are left out: they expect that processes start and calls end within
20 s and 30 s, which fails on a busy machine."""


def _with_weft(test):
    """Return a copy of a test with its parameters, but with the backend "weft" only."""
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, None, test.__closure__)
    for mark in getattr(test, "pytestmark", ()):
        if mark.name != "parametrize":
            continue
        names, values = mark.args[:2]
        if "backend" not in names:
            copy = pytest.mark.parametrize(names, list(values)[:2])(copy)
    own = [name for name in inspect.signature(test).parameters if name.endswith("backend")]
    return pytest.mark.parametrize(own, [("weft",) * len(own)])(copy)


for _name in NAMES:
    if hasattr(theirs, _name):
        globals()[_name] = _with_weft(getattr(theirs, _name))


@pytest.fixture(autouse=True)
def _other_history(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "h.sqlite"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib reports cancelled tasks
        yield
