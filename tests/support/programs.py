"""Python programs that tests start in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
        timeout=2800,  # a program that hangs; thirty others on two cores make one last 1,000 s
        check=check,
    )
