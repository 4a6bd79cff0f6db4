"""The allocation of this program, from the environment variables of Slurm."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import InvalidInput
from weft.runtime.backends.pilots.device import PilotDevice

GROUP = re.compile(r"(\d+)(?:\(x(\d+)\))?")
"""Cores of a node, with the number of such nodes: `4` or `4(x2)`."""


@dataclass(frozen=True)
class Allocation:
    """A job of Slurm, and the cores it has on each node."""

    job: str
    cores: Mapping[str, int]

    @staticmethod
    def current(variables: Mapping[str, str] = os.environ) -> Allocation:
        """Read the allocation of this process."""
        job, names = variables.get("SLURM_JOB_ID"), variables.get("SLURM_JOB_NODELIST")
        if not job or not names:
            raise InvalidInput(
                "the slurm backend works within an allocation, and there is none: start the "
                "program with salloc or sbatch"
            )
        nodes = hostnames(names)
        counts = cores_per_node(variables.get("SLURM_JOB_CPUS_PER_NODE", ""), len(nodes))
        return Allocation(job, dict(zip(nodes, counts, strict=True)))

    def devices(self, count: int | None) -> list[PilotDevice]:
        """Return devices of one core each, at most `count`, from one node after the other."""
        every = [
            PilotDevice(f"{node}-cpu{k}", node=node)
            for node, cores in self.cores.items()
            for k in range(cores)
        ]
        if count is not None and count > len(every):
            raise InvalidInput(
                f"{count} devices, but the allocation {self.job} has {len(every)} cores"
            )
        return every[:count]

    def check(self, specs: Sequence[PilotDevice]) -> None:
        """Refuse devices beyond the allocation: their steps would wait forever."""
        asked = Counter[str]()
        for spec in specs:
            if spec.node and spec.node not in self.cores:
                raise InvalidInput(
                    f"device '{spec.name}' asks for node '{spec.node}', but the allocation "
                    f"{self.job} has {', '.join(self.cores)}"
                )
            asked[spec.node] += spec.cpus
        for node, cpus in asked.items():
            if node and cpus > self.cores[node]:
                raise InvalidInput(
                    f"devices ask for {cpus} cores of node '{node}', but the allocation {self.job} "
                    f"has {self.cores[node]} there"
                )
        if asked.total() > sum(self.cores.values()):
            raise InvalidInput(
                f"devices ask for {asked.total()} cores, but the allocation {self.job} has "
                f"{sum(self.cores.values())}"
            )


def cores_per_node(text: str, nodes: int) -> list[int]:
    """Expand Slurm's list of cores.

    Examples
    --------
    >>> cores_per_node("4(x2),1", 3), cores_per_node("", 2)
    ([4, 4, 1], [1, 1])
    """
    counts = [int(c) for c, n in GROUP.findall(text) for _ in range(int(n or 1))] or [1] * nodes
    if len(counts) != nodes:
        raise InvalidInput(f"SLURM_JOB_CPUS_PER_NODE is '{text}', which does not fit {nodes} nodes")
    return counts


def hostnames(names: str) -> list[str]:
    """Expand a list of nodes such as ``n[0-3]`` by Slurm's own rules."""
    try:
        found = subprocess.run(  # noqa: S603  # no shell, one name
            ["scontrol", "show", "hostnames", names],  # noqa: S607  # wherever the site has it
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        raise InvalidInput("the slurm backend needs Slurm's commands; no scontrol here") from None
    except subprocess.CalledProcessError as error:
        raise InvalidInput(
            f"SLURM_JOB_NODELIST is '{names}': {' '.join(error.stderr.split())}"
        ) from None
    return found.stdout.split()
