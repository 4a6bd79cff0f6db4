"""Nothing that a user can call with wrong shapes or numbers reaches compiled code."""

import re

import weft
from tests.fuzz.wrong_shapes import WITHOUT_ARRAYS
from tests.support.programs import run_python


def test_every_public_entry_refuses_wrong_shapes():
    """In a process of its own: a call that is let through may end it."""
    child = run_python("-m", "tests.fuzz.wrong_shapes", check=False)
    lines = child.stdout.splitlines()
    assert child.returncode == 0, f"{lines[-1:]} {child.stderr}"
    assert [line for line in lines if " -> refused: " not in line] == []
    tried = [name for name in weft.__all__ if re.search(rf"\b{name}\b", child.stdout)]
    assert sorted({*tried, *WITHOUT_ARRAYS}) == sorted(weft.__all__)
