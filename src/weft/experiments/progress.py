"""Steps of an experiment in several processes, their results kept on disk: a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import weft

Unit = TypeVar("Unit")
Watch = Callable[[list[Any]], Iterable[Any]]
"""Given the list of steps, passes them on, and tells somebody how far it is."""


class Keyed(Protocol):
    """A step with a name on disk."""

    @property
    def key(self) -> str:
        """The name, one of its own."""
        ...


Kept = TypeVar("Kept", bound=Keyed)


def in_processes(
    function: Callable[[Unit], Any], units: Sequence[Unit], *, processes: int
) -> Iterator[Any]:
    """Results in the order of the units, whoever works them out."""
    if processes <= 1 or len(units) <= 1:
        yield from map(function, units)
        return
    with (
        _one_thread_each(),
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        yield from pool.map(function, units)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Libraries of the new processes keep to one thread: there is a process for each core."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Checkpoint:
    """Results in a file, line by line; only for the very same program and plan, which `mark` stands for."""

    def __init__(self, path: Path, mark: str) -> None:
        self.path, self.known = path, dict[str, Any]()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and _parsed(lines[0]) == {"mark": mark}:
            for entry in map(_parsed, lines[1:]):
                if entry is None:  # cut off: all before it counts
                    break
                self.known[entry["key"]] = entry["result"]
        kept = lines[: len(self.known) + 1] if self.known else [json.dumps({"mark": mark})]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")

    def carry_out(
        self,
        function: Callable[[Kept], Any],
        steps: Sequence[Kept],
        *,
        processes: int,
        watch: Watch,
    ) -> Iterator[tuple[Kept, Any]]:
        """Each step with its result, in order; what is known already is not done again."""
        fresh = in_processes(
            function, [step for step in steps if step.key not in self.known], processes=processes
        )
        for step in watch(list(steps)):
            if step.key not in self.known:
                self._keep(step.key, next(fresh))
            yield step, self.known[step.key]

    def _keep(self, key: str, result: Any) -> None:
        self.known[key] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "result": result}) + "\n")

    def forget(self) -> None:
        """Remove the file: all is done."""
        self.path.unlink(missing_ok=True)


def fingerprint(plan: object, names: Sequence[str]) -> str:
    """A mark of the program, its policies, the plan and who plays: with the same mark, results are the same."""
    seen = hashlib.sha256(repr((plan, tuple(names))).encode())
    root = Path(weft.__file__).parent
    for path in sorted(
        p
        for p in root.rglob("*")
        if p.is_file() and p.suffix in {".py", ".json", ".toml", ".safetensors"}
    ):
        seen.update(path.relative_to(root).as_posix().encode())
        seen.update(path.read_bytes())
    return seen.hexdigest()[:16]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
