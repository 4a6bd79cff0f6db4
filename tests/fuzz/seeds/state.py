"""Seeds of what weft keeps between runs, and of what its services read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import weft
from tests.fuzz.seeds.seed import Seed
from weft.formats.parsing.source import decode_text, naming, read_bytes
from weft.model import Problem, Workload
from weft.runtime import FakeBackend
from weft.runtime.cascade.description import load_cascade
from weft.runtime.cascade.lines import read_payloads
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.profiler import MATRICES, ProfileMeasure, relative_speeds, save_profile
from weft.runtime.journal import Journal

PRODUCT = f"matrix product {MATRICES[-1]}"
STREAM = """name = "two"
tick = "1 ms"
[arrivals]
process = "poisson"
gap = "40 ms"
[[tasks]]
name = "small"
time = "1 ms"
[[units]]
name = "fast"
batch = 8
batch_curve = 0.2
"""
CASCADE = """stream = "stream.toml"
policy = "fifo"
queue = 40
[stages.small]
call = "stages:small"
setup = "stages:load"
timeout = "300 ms"
[units.fast]
threads = 2
cores = [0]
environment = {A = "1"}
"""
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


# -- files that other programs may have written ---------------------------------


def service_seeds(folder: Path) -> dict[str, Seed]:
    """Return the seeds of exported histories, sessions, profiles, cascades and payloads."""
    history = History(folder / "export.sqlite")
    rows = [Measurement("gemm", "cpu", 1.0 + k, work=2.0, sizes=(("0", k),)) for k in range(3)]
    history.add(rows, [("cpu", "gpu", 1e6, 0.1)])
    made = {}
    for suffix in (".csv", ".json"):
        history.export_to(folder / f"export{suffix}")
        content = (folder / f"export{suffix}").read_bytes()
        made[f"history {suffix[1:]}"] = Seed(suffix, content, _import_history, share=0.3)
    for policy in ("eft", "heft-replanned"):
        content = _session(folder, policy)
        made[f"session {policy}"] = Seed(".json", content, _read_session, share=0.3)
    save_profile(
        [], [ProfileMeasure("cpu", PRODUCT, "flop/s", 2e9, 1e9, 3e9, 5)], folder / "profile.json"
    )
    profile = (folder / "profile.json").read_bytes()
    beside = ((".stream", STREAM.encode()),)
    made["profile"] = Seed(".json", profile, relative_speeds)
    made["cascade"] = Seed(".toml", CASCADE.encode(), _read_cascade, beside)
    made["payloads"] = Seed(".words", b'{"a": [1, 2]}\n[3]\n\n"text"\n', _read_payloads)
    return made


def _import_history(path: Path) -> None:
    place = path.parent / "imported" / "h.sqlite"
    shutil.rmtree(place.parent, ignore_errors=True)
    history = History(place)
    history.import_from(path)
    history.durations()
    history.predict("gemm", "cpu")


def _session(folder: Path, policy: str) -> bytes:
    problem = Problem.from_arrays(
        [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], [[0, 1], [1, 2]], [1.0, 1.0]
    )
    session = weft.Session(problem.cluster, policy, workflows=[problem], clock=lambda: 1.0)
    session.arrived(at=0.0)
    session.arrived(at=0.5)
    (first, *_) = session.decide(at=0.5)
    session.finished(first, at=1.0)
    session.decide(at=1.0)
    return session.save(folder / "session.json").read_bytes()


def _read_session(path: Path) -> None:
    session = weft.Session.load(path, clock=lambda: 2.0)
    session.decide(at=max(2.0, session.now))


def _read_cascade(path: Path) -> None:
    shutil.copy(path.with_suffix(".stream"), path.parent / "stream.toml")
    load_cascade(path).devices()


def _read_payloads(path: Path) -> None:
    with naming(str(path)):
        read_payloads(decode_text(read_bytes(path)).splitlines())
