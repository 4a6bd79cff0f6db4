"""The folder of downloaded data and the Hypothesis profile, for all tests."""

from __future__ import annotations

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


@pytest.fixture(name="data")
def _data() -> Path:
    return data_dir()
