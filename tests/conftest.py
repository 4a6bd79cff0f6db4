"""What all tests share: the folder of downloaded data, and one Hypothesis profile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a first example may compile a kernel. Derandomised: a test fails for everybody or for nobody.
settings.register_profile("weft", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")


def data_dir() -> Path:
    """The folder of downloaded data: $WEFT_DATA, or `shared/data` beside the repository; skips the test when there is none."""
    folder = Path(os.environ.get("WEFT_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set WEFT_DATA to run this test")
    return folder


@pytest.fixture(name="data")
def _data() -> Path:
    return data_dir()
