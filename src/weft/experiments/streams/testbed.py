"""DWS-Testbed in weft's terms: machines, workflows, arrivals, published results.

DWS-Testbed accompanies GOODRL (Yang et al., ICLR 2025). Its files are read from a folder and are
not part of weft. There are no transfers; a machine runs its tasks one at a time in the order in
which they were assigned, which is how weft's simulator runs commitments.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, cause
from weft.experiments.harness import data_folder
from weft.formats.graphs.dax import read_dax
from weft.model import Cluster, Problem, Workflow, Workload
from weft.model.columns import FloatArray, IntArray
from weft.model.machines.device import Device

FOLDER = "dws_testbed"
PUBLISHED = ("EST", "PEFT", "HEFT", "GPHH", "ERL_DWS", "GOODRL")
JOBS = 20_000
"""Workflows per setting of the published table."""

ARRIVAL_SEED = 42
BASE_VCPUS = 16
"""vCPUs of the machine on which the runtimes of the DAX files are given."""

REVERSED_STREAM = 2024
"""The stream that the testbed reads from its end."""


@dataclass(frozen=True)
class TestbedSetting:
    """One row of the published table: workflows, machines and arrival rates."""

    stream: int
    vm_types: int
    of_each: int
    rates: tuple[float, ...]
    label: str

    def __str__(self) -> str:
        """Unique name of the setting."""
        return f"{self.stream} {self.vm_types}x{self.of_each} {self.label}"


@dataclass(frozen=True)
class Testbed:
    """The files of the testbed."""

    __test__ = False  # no class of tests

    folder: Path

    @cached_property
    def reference(self) -> dict[str, Any]:
        """Machines, arrivals and published results."""
        path = self.folder / "reference.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path}: cannot be read: {cause(error)}") from None
        return found

    @cached_property
    def workflows(self) -> list[Workflow]:
        """The workflows of the streams, without data: the testbed has no transfers."""
        paths = [self.folder / "dax" / f"{name}.xml.gz" for name in self.reference["templates"]]
        read = [read_dax(gzip.decompress(p.read_bytes()), name=p.name[:-7]) for p in paths]
        return [replace(each, data=np.zeros(len(each.data))) for each in read]

    def settings(self) -> list[tuple[TestbedSetting, dict[str, float]]]:
        """Return all settings with the published mean flowtimes in seconds."""
        return [
            (
                TestbedSetting(
                    row["stream"],
                    row["vm_types"],
                    row["of_each"],
                    tuple(self.reference["arrivals"][f"{row['arrivals']} {row['rate']:g}"]),
                    f"{row['arrivals']} {row['rate']:g}",
                ),
                {name: row[name] for name in PUBLISHED},
            )
            for row in self.reference["results"]
        ]

    def cluster(self, setting: TestbedSetting) -> Cluster:
        """Return a number of machines of each of the first types."""
        return Cluster.of(
            [
                Device(f"{cpus}vcpu-{k}", kind=f"{cpus}vcpu", speed=cpus / BASE_VCPUS)
                for cpus in self.reference["vcpus"][: setting.vm_types]
                for k in range(setting.of_each)
            ]
        )

    def workload(self, setting: TestbedSetting, jobs: int = JOBS) -> Workload:
        """Return the first jobs of a setting."""
        cluster = self.cluster(setting)
        return Workload.of(
            [Problem.bind(workflow, cluster) for workflow in self.workflows],
            arrival=arrivals(setting.rates, jobs),
            template=templates(setting.stream, len(self.workflows))[:jobs],
            name=str(setting),
        )


def find_testbed() -> Testbed:
    """Return the testbed in the data folder, or raise in one line."""
    folder = data_folder(FOLDER)
    if folder is None or not (folder / "reference.json").exists():
        raise InvalidInput(
            f"the files of DWS-Testbed are not part of weft: give the folder that holds "
            f"'{FOLDER}' by --data or WEFT_DATA"
        )
    return Testbed(folder)


def arrivals(rates: Sequence[float], jobs: int) -> FloatArray:
    """Draw arrival times as the testbed does: equal parts of the jobs, one rate each.

    The last part takes the remainder; the first job arrives at 0, so the last draw is unused.
    """
    parts = np.full(len(rates), jobs // len(rates))
    parts[-1] += jobs - parts.sum()
    uniform = np.random.RandomState(ARRIVAL_SEED).random_sample(jobs)
    gaps = -np.log(1 - uniform) / np.repeat(rates, parts)
    return np.concatenate(([0.0], np.cumsum(gaps)[:-1]))


def templates(stream: int, kinds: int) -> IntArray:
    """Draw which workflow each job runs, as the testbed does."""
    drawn = np.random.RandomState(stream).randint(0, kinds, 10_000 * 30)
    return drawn[::-1] if stream == REVERSED_STREAM else drawn
