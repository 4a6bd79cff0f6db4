"""`weft.Executor` in the tests of Python's own executors, where this Python has them."""

from __future__ import annotations

import unittest
from importlib import import_module

import pytest

import weft

PLACES = ("", ".executor", ".test_wait", ".test_as_completed", ".test_shutdown")
"""One module until Python 3.11, several from 3.12 on."""

CASES = ("ExecutorTest", "WaitTests", "AsCompletedTests", "ExecutorShutdownTest")

OTHER = (
    "test_map_timeout",  # sleeps for six seconds
    "test_interpreter_shutdown",  # these start another Python with a named executor
    "test_submit_after_interpreter_shutdown",
    "test_hang_gh83386",
    "test_hang_gh94440",
)


def _mixins():
    modules = []
    for place in PLACES:
        try:
            modules.append(import_module(f"test.test_concurrent_futures{place}"))
        except ImportError:
            continue
    found = {name: getattr(m, name) for m in modules for name in CASES if hasattr(m, name)}
    return [found[name] for name in CASES if name in found]


MIXINS = _mixins()
if not MIXINS:
    pytest.skip("this Python has no test.test_concurrent_futures", allow_module_level=True)


class TestStandard(*MIXINS, unittest.TestCase):
    executor_type = staticmethod(weft.Executor)
    worker_count = 2

    def setUp(self):
        if self._testMethodName in OTHER:
            self.skipTest("not about this executor")
        self.executor = weft.Executor(max_workers=self.worker_count, history=False)

    def tearDown(self):
        if hasattr(self, "executor"):
            self.executor.shutdown()
