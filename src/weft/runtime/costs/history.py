"""The history: measured durations, result sizes, transfer times and forecasts of all runs.

One SQLite file in WAL mode, so that several processes may use it at once. A measurement is a row;
only the newest per task kind, device and size are kept, so that quantiles follow the machine. Sizes
are the workflow's own: work, and incoming bytes.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np

from weft.errors import InvalidInput

VERSION = 2
"""Version of the schema; files of newer versions are refused."""

KEPT = 200
"""Measurements kept per task kind, device kind and size."""

RECENT = 10
"""Newest measurements that are compared with the older ones to detect drift."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, device TEXT NOT NULL,
  work REAL NOT NULL, data REAL NOT NULL, seconds REAL NOT NULL, output REAL NOT NULL, at REAL NOT
  NULL);
CREATE INDEX IF NOT EXISTS task_key ON task (kind, device, work, data, id);
CREATE TABLE IF NOT EXISTS link (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL,
  data REAL NOT NULL, seconds REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS link_key ON link (source, target, id);
CREATE TABLE IF NOT EXISTS forecast (
  id INTEGER PRIMARY KEY, workflow TEXT NOT NULL, score REAL NOT NULL, at REAL NOT NULL);
"""


@dataclass(frozen=True)
class Measurement:
    """One finished task."""

    kind: str
    device: str
    seconds: float
    work: float = 0.0
    data: float = 0.0
    output: float = 0.0


@dataclass(frozen=True)
class Durations:
    """Durations of a task kind on a device kind at one size.

    `drift` is the recent over the older median, 1 if they agree.
    """

    kind: str
    device: str
    work: float
    data: float
    count: int
    quartiles: tuple[float, float, float]
    output: float
    drift: float


@dataclass(frozen=True)
class LinkCost:
    """Cost of transfers from one device kind to another."""

    source: str
    target: str
    count: int
    bandwidth: float
    latency: float


class History:
    """The file of measurements.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> history = History(Path(folder.name) / "history.sqlite")
    >>> history.add([Measurement("gemm", "cpu", seconds) for seconds in (1.0, 2.0, 9.0)])
    >>> history.predict("gemm", "cpu")
    2.0
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._open()) as db:
            self._migrate(db)
        self._known: dict[tuple[str, str], list[Durations]] | None = None

    # -- writing ------------------------------------------------------------

    def add(
        self, samples: Iterable[Measurement], links: Iterable[tuple[str, str, float, float]] = ()
    ) -> None:
        """Add tasks and (source, target, bytes, seconds) of transfers; drop the oldest."""
        now = time.time()
        rows = [(s.kind, s.device, s.work, s.data, s.seconds, s.output, now) for s in samples]
        estimator = [
            (source, target, data, seconds, now) for source, target, data, seconds in links
        ]
        with closing(self._open()) as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO task (kind, device, work, data, seconds, output, at) VALUES (?, ?, "
                "?, ?, ?, ?, ?)",
                rows,
            )
            db.executemany(
                "INSERT INTO link (source, target, data, seconds, at) VALUES (?, ?, ?, ?, ?)",
                estimator,
            )
            for key in dict.fromkeys(row[:4] for row in rows):
                db.execute(
                    "DELETE FROM task WHERE kind = ?1 AND device = ?2 AND work = ?3 AND data = "
                    "?4 AND id <= (SELECT id FROM task"
                    " WHERE kind = ?1 AND device = ?2 AND work = ?3 AND data = ?4 ORDER BY id "
                    "DESC LIMIT 1 OFFSET ?5)",
                    (*key, KEPT),
                )
            for pair in dict.fromkeys(move[:2] for move in estimator):
                db.execute(
                    "DELETE FROM link WHERE source = ?1 AND target = ?2 AND id <= (SELECT id "
                    "FROM link"
                    " WHERE source = ?1 AND target = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
                    (*pair, KEPT),
                )
        self._known = None

    def add_score(self, workflow: str, score: float) -> None:
        """Add how far off the forecast of a run was, in predicted widths; drop the oldest."""
        with closing(self._open()) as db, db:
            db.execute(
                "INSERT INTO forecast (workflow, score, at) VALUES (?, ?, ?)",
                (workflow, score, time.time()),
            )
            db.execute(
                "DELETE FROM forecast WHERE workflow = ?1 AND id <= (SELECT id FROM forecast "
                "WHERE workflow = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                (workflow, KEPT),
            )

    def clear(self) -> None:
        """Delete all measurements."""
        with closing(self._open()) as db, db:
            db.execute("DELETE FROM task")
            db.execute("DELETE FROM link")
            db.execute("DELETE FROM forecast")
        self._known = None

    # -- reading ------------------------------------------------------------

    def durations(self) -> list[Durations]:
        """Return the durations by kind, device and size."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT kind, device, work, data, seconds, output FROM task ORDER BY kind, "
                "device, work, data, id"
            ).fetchall()
        groups: dict[tuple[str, str, float, float], list[tuple[float, float]]] = {}
        for kind, device, work, data, seconds, output in rows:
            groups.setdefault((kind, device, work, data), []).append((seconds, output))
        return [_summary(key, values) for key, values in groups.items()]

    def links(self) -> list[LinkCost]:
        """Return the link costs: a line through the measurements, never negative."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT source, target, data, seconds FROM link ORDER BY source, target, id"
            ).fetchall()
        groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for source, target, data, seconds in rows:
            groups.setdefault((source, target), []).append((data, seconds))
        return [
            LinkCost(source, target, len(v), *fit_link(np.array(v)))
            for (source, target), v in groups.items()
        ]

    def predict(
        self, kind: str, device: str, *, work: float = 0.0, data: float = 0.0
    ) -> float | None:
        """Return the median seconds of a task kind on a device kind; None if unknown.

        For an unmeasured size, that of the nearest one, in proportion to the work.
        """
        if self._known is None:
            self._known = {}
            for d in self.durations():
                self._known.setdefault((d.kind, d.device), []).append(d)
        near = min(
            self._known.get((kind, device), ()),
            key=lambda d: (_apart(d.work, work), _apart(d.data, data)),
            default=None,
        )
        if near is None:
            return None
        scale = work / near.work if work > 0 and near.work > 0 else 1.0
        return near.quartiles[1] * scale

    def samples(self, kind: str, device: str) -> np.ndarray:
        """Return (n, 3) work, incoming bytes and seconds of all measurements, the oldest first."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT work, data, seconds FROM task WHERE kind = ? AND device = ? ORDER BY id",
                (kind, device),
            ).fetchall()
        return np.array(rows, float).reshape(-1, 3)

    def residuals(self) -> list[tuple[str, int, float]]:
        """Return task kind, run and log(seconds / median of that kind, device and size)."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT kind, device, work, data, seconds, at FROM task WHERE seconds > 0"
            ).fetchall()
        groups: dict[tuple[str, str, float, float], list[tuple[float, float]]] = {}
        for kind, device, work, data, seconds, at in rows:
            groups.setdefault((kind, device, work, data), []).append((seconds, at))
        runs = {at: run for run, at in enumerate(dict.fromkeys(sorted(row[-1] for row in rows)))}
        return [
            (key[0], runs[at], log(seconds / middle))
            for key, values in groups.items()
            for middle in [float(np.median([seconds for seconds, _ in values]))]
            for seconds, at in values
            if len(values) > 1  # a single one is its own median
        ]

    def scores(self, workflow: str) -> list[float]:
        """Return the scores of the forecasts of a workflow, the oldest first."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT score FROM forecast WHERE workflow = ? ORDER BY id", (workflow,)
            ).fetchall()
        return [float(score) for (score,) in rows]

    # -- inside -------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        db.execute("PRAGMA busy_timeout = 30000")
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        try:
            found = int(db.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.DatabaseError as error:
            raise InvalidInput(
                f"{self.path}: is no history of weft ({error}); move it away and run again"
            ) from None
        if found > VERSION:
            raise InvalidInput(
                f"{self.path}: was written by a newer weft (schema {found}, this one reads "
                f"{VERSION}); update weft"
            )
        if found < VERSION:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")


def default_path() -> Path:
    """Return $WEFT_HISTORY, or the user's data folder."""
    given = os.environ.get("WEFT_HISTORY")
    if given:
        return Path(given)
    return (
        Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        / "weft"
        / "history.sqlite"
    )


def drift_of(seconds: Sequence[float]) -> float:
    """Return the newest over the older median; 1 if the difference is within the spread.

    Examples
    --------
    >>> drift_of([1.0] * 20 + [2.0] * 10), drift_of([1.0, 1.1, 0.9] * 10), drift_of([1.0, 5.0])
    (2.0, 1.0, 1.0)
    """
    if len(seconds) < 2 * RECENT:
        return 1.0
    logs = np.log(np.maximum(np.asarray(seconds, float), 1e-9))
    older, newest = logs[:-RECENT], logs[-RECENT:]
    shift = float(np.median(newest) - np.median(older))
    # Three standard errors of the difference of medians (spread from the median absolute
    # deviation), at least 20 %.
    spread = 1.4826 * float(np.median(np.abs(older - np.median(older))))
    bound = max(log(1.2), 3.0 * 1.2533 * spread * float(np.sqrt(1 / len(older) + 1 / RECENT)))
    return round(exp(shift), 12) if abs(shift) > bound else 1.0


def fit_link(rows: np.ndarray) -> tuple[float, float]:
    """Fit (bandwidth, latency) to (bytes, seconds), robustly: medians of two halves.

    Examples
    --------
    >>> fit_link(np.array([[1000.0, 1.1], [1000.0, 1.1], [9000.0, 1.9], [9000.0, 1.9]]))
    (10000.0, 1.0)
    """
    order = np.argsort(rows[:, 0], kind="stable")
    small, large = (
        np.median(half, axis=0)
        for half in (rows[order][: (len(rows) + 1) // 2], rows[order][len(rows) // 2 :])
    )
    slope = (large[1] - small[1]) / (large[0] - small[0]) if large[0] > small[0] else 0.0
    if slope <= 0:
        typical = np.median(rows[:, 1] / np.maximum(rows[:, 0], 1.0))
        return (float(1 / typical) if typical > 0 else float("inf")), 0.0
    return round(float(1 / slope), 6), round(max(float(small[1] - small[0] * slope), 0.0), 12)


def _summary(key: tuple[str, str, float, float], values: list[tuple[float, float]]) -> Durations:
    seconds = [s for s, _ in values]
    quartiles = np.quantile(seconds, (0.25, 0.5, 0.75))
    output = float(np.median([o for _, o in values]))
    return Durations(
        *key,
        len(seconds),
        (float(quartiles[0]), float(quartiles[1]), float(quartiles[2])),
        output,
        drift_of(seconds),
    )


def _apart(a: float, b: float) -> float:
    return abs(log((a + 1.0) / (b + 1.0)))
