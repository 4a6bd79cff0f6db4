"""Seeds of what weft keeps between runs: the journal and the history."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.fuzz.seed import Seed
from weft.model import Problem, Workload
from weft.runtime import FakeBackend
from weft.runtime.costs.history import History, Measurement
from weft.runtime.journal import Journal

STATE = {"journal": hasattr(Journal, "usable"), "history": hasattr(History, "import_from")}
"""Seed -> whether this version promises to survive damage to that file."""


def state_seeds(folder: Path) -> dict[str, Seed]:
    """Return the seeds of the files that survive damage."""
    made = {"journal": _journal(folder), "history": _history(folder)}
    return {name: seed for name, seed in made.items() if STATE[name]}


def _journal(folder: Path) -> Seed:
    problem = Problem.from_arrays([[1.0], [2.0], [1.0]], [[0, 1], [1, 2]], [1.0, 1.0])
    workload, backend = Workload.of(problem), FakeBackend(problem.cluster)
    with closing(Journal(folder / "runs", "one", workload, backend)) as journal:
        lines = [journal.path.read_text(encoding="utf-8").strip()]
    times = {"decided": 0.0, "start": 1.0, "finish": 2.5}
    rest = {"device": "d0", "outcomes": {}, "mark": ""}
    for i in range(3):
        entry = {"event": "finished", "instance": i, "result": f"{i}.pickle", **times, **rest}
        lines.append(json.dumps(entry))
    lines.append(json.dumps({"event": "ended", "failed": 0}))

    def read(path: Path) -> None:
        place = path.parent / "runs" / "one" / "journal.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
        with closing(Journal(path.parent / "runs", "one", workload, backend)) as journal:
            assert journal.last >= 0

    return Seed(".words", "\n".join(lines).encode(), read, share=0.5)


def _history(folder: Path) -> Seed:
    path = folder / "seed.sqlite"
    path.unlink(missing_ok=True)
    rows = [Measurement("gemm", "cpu", 1.0 + i % 7, work=float(i)) for i in range(40)]
    History(path).add(rows, [("cpu", "gpu", 1e6, 0.1)] * 5)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Seed(".sqlite", path.read_bytes(), _read_history, share=0.1)


def _read_history(path: Path) -> None:
    place = path.parent / "history" / "h.sqlite"  # with the files that SQLite puts beside it
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir()
    shutil.copy(path, place)
    history = History(place)
    history.durations()
    history.links()
    history.predict("gemm", "cpu")
    history.add([Measurement("gemm", "cpu", 1.0)])
