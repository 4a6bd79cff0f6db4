"""The folder of downloaded data and the Hypothesis profile, for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.data import data_dir

# No deadline: a first example may compile a kernel. Derandomised: a test fails always or never.
settings.register_profile(
    "weft",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("weft")


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the state of runs, such as the key of results, out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(name="data")
def _data() -> Path:
    return data_dir()
