"""Transfers between two nodes of Ray, beside the tasks that run meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft-scheduling[ray]'")

ROOT = Path(__file__).parents[3]


def test_inputs_of_the_next_order_arrive_while_the_one_before_it_runs() -> None:
    """A task on one node ends when the input of the order behind it has come from the other.

    It runs in a process of its own, as another Ray may be connected here. The counterpart is a
    device that gets one order at a time: there nothing moves while a task runs.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ray_transfers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    both = {"devices": [0, 1, 1], "total": 500_000.0}
    assert found == {
        "two orders": {**both, "arrived": True},
        "one order": {**both, "arrived": False},
    }
