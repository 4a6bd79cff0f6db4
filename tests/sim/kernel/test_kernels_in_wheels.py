"""Kernels that come with a wheel are used as they are; without them weft compiles."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.web.server import ROOT
from weft.sim.kernel.jit import stored

USER = """
from pathlib import Path
import sys
from weft.sim.kernel.jit import compiled, stored
stored.FOLDER = Path(sys.argv[1])
if sys.argv[2] == "other":
    stored.has_level = lambda: False
import weft
problem = weft.Problem.bind(weft.generate("cholesky", tiles=4), weft.gpu_cluster("2xV100+2xT4"))
print(weft.plan(problem, "olb").makespan.hex(), compiled())
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Build a wheel with the kernels of one planner; return the folder of its kernels."""
    if not stored.has_level():
        pytest.skip("this processor lacks instructions of x86-64-v3")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    tree = out / "tree"
    for name in ("packaging", "src"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree / name)
    environment = {**os.environ, "WEFT_KERNELS": "olb"}
    made = subprocess.run(
        [*command, "-w", str(out), str(tree)], env=environment, check=False, capture_output=True
    )
    assert made.returncode == 0, made.stderr.decode()
    (wheel,) = out.glob("*.whl")
    assert not wheel.name.endswith("-any.whl"), "kernels are machine code"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(out / "site")
    return out / "site/weft/sim/kernel/jit/compiled"


def _use(kernels: Path, cache: Path, processor: str) -> tuple[str, int]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", USER, str(kernels), processor]
    made = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    makespan, count = made.stdout.split()
    return makespan, int(count)


def test_kernels_of_the_wheel_are_used_where_the_processor_has_their_instructions(
    kernels, tmp_path
):
    assert list(kernels.rglob("*.nbc"))
    makespan, count = _use(kernels, tmp_path / "a", "same")
    assert count == 0
    again, count = _use(kernels, tmp_path / "b", "other")
    assert count > 0
    assert makespan == again
