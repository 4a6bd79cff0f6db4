"""Build backend: setuptools, and compiled kernels in wheels, as a package in C would have them.

`WEFT_KERNELS` says which planners and policies are compiled into a wheel: names with spaces, `all`,
or `none` for a wheel without kernels. Editable installations compile on first use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the other hooks of PEP 517 and 660
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

COMMON = "heft peft cpop anytime fifo eft replan-switch"
"""What the README and the tutorials use."""

NAMES = os.environ.get("WEFT_KERNELS", COMMON).split()


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what a wheel needs to be built: to compile, weft must run."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    if NAMES == ["none"]:
        return found
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*found, *project["dependencies"]]


class BuildWithKernels(build_py):
    """Copy the modules, then compile kernels beside them."""

    def run(self) -> None:
        """Build; without compiled kernels weft works as well, so a failure is only told."""
        super().run()
        if self.editable_mode or NAMES == ["none"]:
            return
        into = Path(self.build_lib, "weft", "sim", "kernel", "jit", "compiled")
        shutil.rmtree(into, ignore_errors=True)  # of an earlier build
        names = [] if NAMES == ["all"] else NAMES
        command = [sys.executable, "-m", "weft", "compile", *names, "--into", str(into)]
        environment = {**os.environ, "PYTHONPATH": self._path()}
        if subprocess.run(command, env=environment, check=False).returncode:
            print("weft: no kernels in this wheel: they compile on first use", file=sys.stderr)

    def _path(self) -> str:
        """Return the module path of this process, after the modules that were built."""
        return os.pathsep.join([str(Path(self.build_lib).resolve()), *filter(None, sys.path)])


class WheelWithKernels(bdist_wheel):
    """A wheel for one version of Python and one kind of machine, unless it has no kernels."""

    def initialize_options(self) -> None:
        """Say so before setuptools chooses folders and tags."""
        super().initialize_options()
        self.distribution.has_ext_modules = lambda: NAMES != ["none"]
