"""The instances of the arena: drawn, adversarial, and references to real data.

`library.json` holds how each instance is made, its best known makespan, who found it, and a lower
bound: `bounds` means the bound of `weft.planners.bounds`, which every check computes again;
`exact` means a proof by the planner of that name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.experiments.harness import data_folder
from weft.formats import load
from weft.formats.loading import ReferenceSpeed
from weft.generators import generate_problem, gpu_cluster
from weft.model import Cluster, Problem
from weft.registry import closest

HERE = Path(__file__).parent
LIBRARY = HERE / "library.json"


@dataclass(frozen=True)
class ArenaInstance:
    """A problem by description, and the state of the art on it.

    Attributes
    ----------
    origin : drawn, adversarial or real
    how : generator, options, seed and gpus; or file; or path below the data folder, bandwidth and
        speeds of the devices, relative to the recorded machine
    best, by : the best known makespan in seconds, without copies, and the planner that found it
    bound, proof : no schedule without copies is shorter; `bounds` or `exact`
    attack : of adversarial instances: contender, against, and both makespans
    """

    name: str
    origin: str
    how: Mapping[str, Any]
    best: float = float("inf")
    by: str = ""
    bound: float = 0.0
    proof: str = "bounds"
    attack: Mapping[str, Any] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Whether the problem can be made: real ones need their file."""
        return self.origin != "real" or self._file() is not None

    def problem(self) -> Problem:
        """Return the problem."""
        if self.origin == "adversarial":
            return load(HERE / "instances" / self.how["file"])
        if self.origin == "drawn":
            options, machines = dict(self.how["options"]), gpu_cluster(self.how["gpus"])
            return generate_problem(
                self.how["generator"], machines, seed=self.how["seed"], **options
            )
        file = self._file()
        if file is None:
            raise InvalidInput(
                f"instance '{self.name}' is not part of weft: set WEFT_DATA to the folder that "
                f"holds '{self.how['path']}'"
            )
        machines = Cluster(
            speed=np.array(self.how["speeds"]), bandwidth=self.how["bandwidth"], name="arena"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReferenceSpeed)  # the library says so: 1 as recorded
            return load(file, cluster=machines)

    def _file(self) -> Path | None:
        folder, _, rest = str(self.how["path"]).partition("/")
        root = data_folder(folder)
        return root / rest if root is not None and (root / rest).is_file() else None


def load_library(path: Path = LIBRARY) -> dict[str, ArenaInstance]:
    """Return all instances by name."""
    rows = json.loads(path.read_text(encoding="utf-8"))["instances"]
    return {row["name"]: ArenaInstance(**row) for row in rows}


def find_instance(name: str) -> ArenaInstance:
    """Return an instance by name, or raise with the closest known one."""
    known = load_library()
    if name not in known:
        raise UnknownName(f"unknown instance '{name}'{closest(name, known)}; see: weft arena")
    return known[name]


def save_library(instances: Iterable[ArenaInstance], path: Path) -> None:
    """Write a library file, one instance per line."""
    rows = [json.dumps(asdict(instance), allow_nan=False) for instance in instances]
    text = '{"instances": [\n' + ",\n".join(rows) + "\n]}\n"
    path.write_text(text, encoding="utf-8")
