"""Python programs that tests start, journals of runs, and the folder of downloaded data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_python(
    *arguments: str, folder: Path = ROOT, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run this Python with `arguments` in `folder`; `variables` join the environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=5000,  # a program that hangs; thirty others on two cores make one last 3,000 s
        check=check,
    )


def data_dir() -> Path:
    """Return $WEFT_DATA; skip the test if that is no folder.

    Without the variable, `shared/data` beside the clone counts, where it exists.
    """
    folder = Path(os.environ.get("WEFT_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("needs downloaded data: set WEFT_DATA to its folder")
    return folder


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of the journal of a run; none if there is no journal yet."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]
