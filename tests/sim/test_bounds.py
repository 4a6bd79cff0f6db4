"""Compiled code stays inside its arrays: a sample under numba's bounds checks.

Numba checks no index by default, so an access outside an array gives a wrong number, not an error.
`python -m tests.support.bounds 42` sweeps all planners and policies.
"""

import os

from tests.support.programs import ROOT, run_python

SEEDS = 8
SAMPLE = (
    "eft",  # the kernel and its rules
    *("batch-aware", "conditional-any"),  # batches, and units of conditional streams
    *("heft-replanned", "portfolio", "replan-switch"),  # one compiled function
)
"""Policies whose compiled functions are those of most others."""


def test_a_sample_stays_inside_its_arrays(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    program = ("-m", "tests.support.bounds", str(SEEDS), *SAMPLE)
    child = run_python(*program, folder=tmp_path, check=False, PYTHONPATH=path)
    assert child.returncode == 0, child.stderr
    assert child.stdout.endswith("0 violations\n")
    assert len(child.stdout.splitlines()) == len(SAMPLE) + 1
