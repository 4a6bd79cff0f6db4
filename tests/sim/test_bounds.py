"""Compiled code stays inside its arrays: a sample under numba's bounds checks.

Numba checks no index by default, so an access outside an array gives a wrong number, not an error.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SAMPLE = """
import weft
from tests.support.batches import DISTURBED, batching_workload

for seed in range(8):
    workload = batching_workload(seed)
    for policy in ("heft-replanned", "portfolio", "replan-switch"):  # one compiled function
        for options in ({}, DISTURBED):
            trace = weft.simulate(workload, policy, seed=seed, **options)
            assert weft.check(workload, trace) == [], (seed, policy, options)
print("inside")
"""


def test_a_sample_stays_inside_its_arrays(tmp_path):
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_OPT": "0",  # to compile takes most of the time
        "NUMBA_CACHE_DIR": str(tmp_path),  # the usual cache holds code without the checks
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    child = subprocess.run(
        [sys.executable, "-c", SAMPLE],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "inside\n"
