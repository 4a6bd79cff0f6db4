"""Nothing that a user can call with wrong shapes or numbers reaches compiled code."""

import re
import subprocess
import sys
from pathlib import Path

import weft
from tests.fuzz.wrong_shapes import WITHOUT_ARRAYS

ROOT = Path(__file__).parents[1]


def test_every_public_entry_refuses_wrong_shapes():
    """In a process of its own: a call that is let through may end it."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.wrong_shapes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    lines = child.stdout.splitlines()
    assert child.returncode == 0, f"{lines[-1:]} {child.stderr}"
    assert [line for line in lines if " -> refused: " not in line] == []
    tried = [name for name in weft.__all__ if re.search(rf"\b{name}\b", child.stdout)]
    assert sorted({*tried, *WITHOUT_ARRAYS}) == sorted(weft.__all__)
