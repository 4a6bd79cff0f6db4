"""The folder of downloaded data, the Hypothesis profile and the order of files, for all tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.programs import data_dir
from weft.model import Trace
from weft.model.check import check
from weft.runtime.engine.driver import Driver

# No deadline: a first example may compile a kernel. Derandomised: a test fails always or never.
settings.register_profile(
    "weft",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("weft")


FIRST = (
    "tests/policies/test_policies.py",  # compiles the kernels of policies, which others load
    "tests/planners/test_contract.py",  # the same of planners
    "tests/sim/test_bounds.py",  # one test of minutes: at the end, the other worker would be idle
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first, then those with many tests."""
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)

    def place(index: int) -> tuple[int, int]:
        file = files[index]
        return (FIRST.index(file) if file in FIRST else len(FIRST), -tests[file])

    items[:] = [items[index] for index in sorted(range(len(items)), key=place)]


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the state of runs, such as the key of results, out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _every_trace_passes_the_oracle() -> Iterator[None]:
    """Check the trace of every real run."""
    plain = Driver.trace

    def checked(driver: Driver) -> Trace:
        trace = plain(driver)
        assert check(trace.workload, trace) == []
        return trace

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "trace", checked)
        yield


@pytest.fixture(name="data")
def _data() -> Path:
    return data_dir()
