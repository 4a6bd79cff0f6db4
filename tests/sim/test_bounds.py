"""Compiled code stays inside its arrays: a sample under numba's bounds checks.

Numba checks no index by default, so an access outside an array gives a wrong number, not an error.
`python -m tests.support.bounds 42` sweeps all planners and policies.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SEEDS = 8
SAMPLE = (
    "eft",  # the kernel and its rules
    *("batch-aware", "conditional-any"),  # batches, and units of conditional streams
    *("heft-replanned", "portfolio", "replan-switch"),  # one compiled function
)
"""Policies whose compiled functions are those of most others."""


def test_a_sample_stays_inside_its_arrays(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.bounds", str(SEEDS), *SAMPLE],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.endswith("0 violations\n")
    assert len(child.stdout.splitlines()) == len(SAMPLE) + 1
