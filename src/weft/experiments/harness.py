"""Harness of all experiments: processes, checkpoints, machine, files.

Results of finished steps stay on disk, so an interrupted experiment resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import weft
from weft.progress import Track
from weft.report.figures import Series, line_figure
from weft.report.page import Figure, Section, write_report

PROCESSES = 2
"""Processes of an experiment, each on a core of its own."""

Unit = TypeVar("Unit")
ExperimentResults = Mapping[str, Any]
"""What an experiment stores in its `results.json`."""

ResultRows = Sequence[Mapping[str, Any]]
"""Rows of such results."""


class Keyed:
    """A step with a unique key on disk: its fields in the format `key` of its class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class PointStep(Keyed, key="{axis} {x:g}"):
    ...     axis: str
    ...     x: float
    >>> PointStep("tasks", 20.0).key
    'tasks 20'
    """

    key_format: ClassVar[str]

    def __init_subclass__(cls, *, key: str) -> None:
        cls.key_format = key

    @property
    def key(self) -> str:
        """Unique name of the step."""
        return self.key_format.format_map(vars(self))


Stored = TypeVar("Stored", bound=Keyed)


# -- steps -----------------------------------------------------------------------------


def in_processes(
    function: Callable[[Unit], Any], units: Sequence[Unit], *, processes: int
) -> Iterator[Any]:
    """Apply a function to all units in processes; yield results in order."""
    if processes <= 1 or len(units) <= 1:
        yield from map(function, units)
        return
    with (
        _single_threaded_libraries(),
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        yield from pool.map(function, units)


@contextmanager
def _single_threaded_libraries() -> Iterator[None]:
    """Limit libraries in new processes to one thread: there is one process per core."""
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
    """Results in a file, one line per step; valid for one fingerprint only."""

    def __init__(self, path: Path, mark: str) -> None:
        self.path, self.known = path, dict[str, Any]()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and _parsed(lines[0]) == {"mark": mark}:
            for entry in map(_parsed, lines[1:]):
                if entry is None:  # truncated by an interruption: all lines before it count
                    break
                self.known[entry["key"]] = entry["result"]
        kept = lines[: len(self.known) + 1] if self.known else [json.dumps({"mark": mark})]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")

    @classmethod
    def of(cls, folder: Path, plan: object, names: Sequence[str]) -> Self:
        """Return the checkpoint of an experiment in its folder."""
        return cls(folder / "progress.jsonl", fingerprint(plan, names))

    def run(
        self,
        function: Callable[[Stored], Any],
        steps: Sequence[Stored],
        *,
        processes: int,
        track: Track,
    ) -> Iterator[tuple[Stored, Any]]:
        """Yield each step with its result; stored results are not computed again."""
        new = in_processes(
            function, [step for step in steps if step.key not in self.known], processes=processes
        )
        for step in track(list(steps)):
            if step.key not in self.known:
                self._store(step.key, next(new))
            yield step, self.known[step.key]

    def _store(self, key: str, result: Any) -> None:
        self.known[key] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "result": result}) + "\n")

    def delete(self) -> None:
        """Delete the file after the last step."""
        self.path.unlink(missing_ok=True)


def fingerprint(plan: object, names: Sequence[str]) -> str:
    """Return a hash of the program, its models, the plan and the contenders."""
    seen = hashlib.sha256(repr((plan, tuple(names))).encode())
    root = Path(weft.__file__).parent
    suffixes = {".py", ".json", ".toml", ".safetensors"}
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in suffixes):
        seen.update(path.relative_to(root).as_posix().encode())
        seen.update(path.read_bytes())
    return seen.hexdigest()[:16]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


# -- files -----------------------------------------------------------------------------


def data_folder(name: str) -> Path | None:
    """Return the folder `name` below $WEFT_DATA, or None if there is no such folder."""
    root = os.environ.get("WEFT_DATA")
    folder = Path(root) / name if root else None
    return folder if folder is not None and folder.is_dir() else None


def write_results(
    folder: Path, results: Mapping[str, Any], tables: Mapping[str, Any] | None = None
) -> None:
    """Write results.json into the folder, and page.json where there are tables for it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, allow_nan=False) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")
    if tables is not None:
        write_page(folder, results, tables)


def page_table(columns: Mapping[str, int | None], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a table of a documentation page; columns have decimals, or None for text."""
    return {
        "columns": list(columns),
        "align": ["l" if places is None else "r" for places in columns.values()],
        "decimals": list(columns.values()),
        "rows": [list(row) for row in rows],
    }


def described(experiment: str, *, quick: bool) -> dict[str, Any]:
    """Return the first entries of results: experiment, command and machine."""
    return {
        "experiment": experiment,
        "measured_with": f"weft reproduce {experiment}" + (" --quick" if quick else ""),
        "provenance": "written by that command",
        "quick": quick,
        "machine": describe_machine(),
    }


def write_page(folder: Path, results: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    """Write page.json: the tables of the documentation and the command behind them."""
    mode = " --quick" if results["quick"] else ""
    page = {
        "measured_with": f"weft reproduce {results['experiment']}{mode}",
        "provenance": "written by that command",
        "machine": results["machine"],
        "seconds": results["seconds"],
        "cpu_seconds": results.get("cpu_seconds"),
        "tables": tables,
    }
    text = json.dumps(page, indent=1, allow_nan=False) + "\n"
    (folder / "page.json").write_text(text, encoding="utf-8")


def finish(
    folder: Path,
    results: dict[str, Any],
    write_report: Callable[[Path, Any], object],
    checkpoint: Checkpoint,
    tables: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write all files, delete the checkpoint, and return the results.

    page.json is written only if there are tables.
    """
    write_results(folder, results, tables)
    write_report(folder / "report.html", results)
    checkpoint.delete()
    return results


PAGES = {
    "all": (
        "Verdicts on four documents",
        "Which claims of the source documents hold when they are measured on one simulator?",
    ),
    "conditional": (
        "Conditional task graphs",
        (
            "A cascade of models runs on two CPU cores and two batching GPUs. Which policy has the "
            "shortest completion times if it is unknown which jobs will need the slow model?"
        ),
    ),
    "families": (
        "Families of real workflows",
        "Does search at every event pay on families on which nothing was chosen?",
    ),
    "gpu-cluster": (
        "Workflows on a heterogeneous GPU cluster",
        (
            "The document claims that a deep Q-network finishes workflows 25 to 35 % sooner than "
            "HEFT. Which claims hold if all contenders run on the same draws in the same simulator?"
        ),
    ),
    "imitation": (
        "DeepSched: networks that imitate HEFT",
        "What is the value of a network that imitates a planner if the planner is fast?",
    ),
    "shift": (
        "Under a shift of the workload",
        (
            "A forest and a DQN are trained on tasks that suit a GPU and tested on tasks that suit "
            "a CPU. Which of them adapts, and at what cost?"
        ),
    ),
    "streams": (
        "Streams on a published testbed",
        (
            "On DWS-Testbed learned schedulers (GOODRL, GPHH) are well ahead of HEFT. Are they "
            "ahead of a HEFT that reads the clock?"
        ),
    ),
}
"""Experiment -> title of its page, and the question it answers."""


def write_experiment_page(
    name: str, path: Path, results: Mapping[str, Any], sections: Sequence[Section], amount: str = ""
) -> Path:
    """Write a page; its last line has the command, work, time and processor."""
    mode = "quick" if results["quick"] else "full"
    where = f"{results['seconds']:.0f} s on {results['machine']['processor']}."
    title, question = PAGES[name]
    footer = f"weft reproduce {name} ({mode}): {amount}{where}"
    return write_report(path, title=title, lead=question, sections=sections, footer=footer)


def line(
    lines: Mapping[str, Series], title: str, x: str, y: str, caption: str = "", **options: Any
) -> Figure:
    """Return a line figure of a report with its axis labels."""
    return Figure(line_figure(lines, title=title, x_label=x, y_label=y, **options), caption)


# -- the machine -----------------------------------------------------------------------


def describe_machine() -> dict[str, object]:
    """Return processor, cores, memory and versions, but not the host name.

    Examples
    --------
    >>> sorted(describe_machine())
    ['cores', 'memory_gb', 'processor', 'system', 'versions']
    """
    affinity = getattr(os, "sched_getaffinity", None)
    packages = ("weft-scheduling", "numpy", "numba", "anrg-saga")
    return {
        "processor": _processor(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in packages},
    }


def provenance() -> str:
    """Return who wrote results, when, and how busy the machine was."""
    day, load = time.strftime("%Y-%m-%d", time.gmtime()), os.getloadavg()[0]
    return f"written by that command on {day}; load average at the end {load:.1f}"


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class Stopwatch:
    """Seconds since construction, of clock and processors, as entries of results."""

    def __init__(self) -> None:
        self._begin, self._used = time.perf_counter(), processor_seconds()

    def spent(self) -> dict[str, float]:
        """Return the seconds so far."""
        seconds = time.perf_counter() - self._begin
        return {"seconds": seconds, "cpu_seconds": processor_seconds() - self._used}


def peak_memory() -> float:
    """Return the peak memory of this process in bytes.

    Linux has the peak of the current program in VmHWM; `getrusage` also counts the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        return float(next(s for s in lines if s.startswith("VmHWM")).split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) if sys.platform == "darwin" else float(peak) * 1024


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
