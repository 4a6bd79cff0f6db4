"""Where the downloaded data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def data_dir() -> Path:
    """Return $WEFT_DATA, or `shared/data` beside the repository; skip the test without either."""
    folder = Path(os.environ.get("WEFT_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set WEFT_DATA to run this test")
    return folder
