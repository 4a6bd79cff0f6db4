"""The history of a project: durations, result sizes, transfers and forecasts.

One SQLite file in WAL mode, so that several processes may use it at once. A measurement is a row;
only the newest per task kind, device and size are kept, so that quantiles follow the machine. Sizes
are the workflow's own (work, incoming bytes) and those of arguments.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, cause
from weft.runtime.costs.measurements import (
    LinkRow,
    Measurement,
    TaskRow,
    checked,
    parse_sizes,
    sizes_text,
    usual_rows,
)
from weft.runtime.costs.project import default_path
from weft.runtime.costs.summaries import Durations, LinkCost, apart, fit_link, summary
from weft.typed import typed_class

VERSION = 4
"""Version of the schema; files of newer versions are refused, older ones are upgraded."""

WAIT = 2.0
"""Seconds an operation waits for other processes that use the file."""

KEPT = 200
"""Measurements kept per task kind, device kind, work and incoming bytes."""

KEPT_SIZES = 2000
"""Measurements kept of those with sizes of arguments, which differ from call to call."""

_FOREIGN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Error codes of SQLite for files that are damaged, or no history at all."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, device TEXT NOT NULL,
  work REAL NOT NULL, data REAL NOT NULL, seconds REAL NOT NULL, output REAL NOT NULL, at REAL NOT
  NULL, sizes TEXT NOT NULL DEFAULT '', cold REAL NOT NULL DEFAULT 0,
  batch REAL NOT NULL DEFAULT 1);
CREATE INDEX IF NOT EXISTS task_key ON task (kind, device, work, data, id);
CREATE TABLE IF NOT EXISTS link (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL,
  data REAL NOT NULL, seconds REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS link_key ON link (source, target, id);
CREATE TABLE IF NOT EXISTS forecast (
  id INTEGER PRIMARY KEY, workflow TEXT NOT NULL, score REAL NOT NULL, at REAL NOT NULL);
"""

_DROP = "DELETE FROM {0} WHERE {1} AND id <= (SELECT id FROM {0} WHERE {1} ORDER BY id DESC"
_OFFSET = " LIMIT 1 OFFSET ?)"
_DROP_SIZED = _DROP.format("task", "kind = ? AND device = ? AND sizes != ''") + _OFFSET
_DROP_PLAIN = (
    _DROP.format("task", "kind = ? AND device = ? AND work = ? AND data = ? AND sizes = ''")
    + _OFFSET
)
_DROP_SCORE = _DROP.format("forecast", "workflow = ?") + _OFFSET
_DROP_LINK = _DROP.format("link", "source = ? AND target = ?") + _OFFSET


class HistoryUnusable(InvalidInput):
    """A history that cannot be read or written; `damaged`: not a matter of time."""

    def __init__(self, text: str, *, damaged: bool = False) -> None:
        super().__init__(text)
        self.damaged = damaged


@typed_class
class History:
    """The file of measurements, read when it is opened and after each `add`.

    Parameters
    ----------
    path : the file; None: that of the project, see `weft.runtime.costs.project`
    wait : seconds an operation waits for other processes that use the file

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

    def __init__(self, path: str | Path | None = None, *, wait: float = WAIT) -> None:
        if path is not None and not str(path):
            raise InvalidInput("the path of the history is empty; give a file, True or False")
        self.path = Path(path) if path is not None else default_path()
        self.wait = wait
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self.refresh()

    # -- writing ------------------------------------------------------------

    def add(
        self, samples: Iterable[Measurement], links: Iterable[tuple[str, str, float, float]] = ()
    ) -> None:
        """Add tasks and (source, target, bytes, seconds) of transfers; drop the oldest."""
        now = time.time()
        self.add_rows(
            [
                TaskRow(
                    *(s.kind, s.device, s.work, s.data, s.seconds, s.output, now, s.sizes),
                    cold=float(s.cold),
                    batch=float(s.batch),
                )
                for s in samples
            ],
            [LinkRow(*link, now) for link in links],
        )

    def add_rows(self, tasks: Sequence[TaskRow], links: Sequence[LinkRow]) -> None:
        """Add rows with their own times; drop the oldest."""
        with self._transaction(write=True) as db:
            db.executemany(
                "INSERT INTO task (kind, device, work, data, seconds, output, at, sizes, cold,"
                " batch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*row[:7], sizes_text(row.sizes), row.cold, row.batch) for row in tasks],
            )
            db.executemany(
                "INSERT INTO link (source, target, data, seconds, at) VALUES (?, ?, ?, ?, ?)", links
            )
            for pair in dict.fromkeys(row[:2] for row in tasks if row.sizes):
                db.execute(_DROP_SIZED, (*pair, *pair, KEPT_SIZES))
            for key in dict.fromkeys(row[:4] for row in tasks if not row.sizes):
                db.execute(_DROP_PLAIN, (*key, *key, KEPT))
            for ends in dict.fromkeys(row[:2] for row in links):
                db.execute(_DROP_LINK, (*ends, *ends, KEPT))
        self._stale = True

    def add_score(self, workflow: str, score: float) -> None:
        """Add the error of a run's forecast, in predicted widths; drop the oldest."""
        with self._transaction(write=True) as db:
            db.execute(
                "INSERT INTO forecast (workflow, score, at) VALUES (?, ?, ?)",
                (workflow, score, time.time()),
            )
            db.execute(_DROP_SCORE, (workflow, workflow, KEPT))

    def export_to(self, path: str | Path) -> int:
        """Write all measurements to a .csv or .json file; return their number."""
        from weft.runtime.costs.history_files import export_history

        return export_history(self, path)

    def import_from(self, path: str | Path) -> int:
        """Add measurements from a .csv, .json or .sqlite file; return how many are new."""
        from weft.runtime.costs.history_files import import_history

        return import_history(self, path)

    def clear(self) -> None:
        """Delete all measurements."""
        with self._transaction(write=True) as db:
            db.execute("DELETE FROM task")
            db.execute("DELETE FROM link")
            db.execute("DELETE FROM forecast")
        self._stale = True

    # -- reading ------------------------------------------------------------

    def refresh(self) -> None:
        """Read the file again, also what other processes wrote."""
        with self._transaction() as db:
            self._read(db)
        self._stale = False

    @property
    def tasks(self) -> list[TaskRow]:
        """Return the measured tasks, the oldest first."""
        if self._stale:
            self._stale = False
            with suppress(HistoryUnusable):  # then the rows read before are used
                self.refresh()
        return self._tasks

    @property
    def transfers(self) -> list[LinkRow]:
        """Return the measured transfers, the oldest first."""
        _ = self.tasks  # reads the file again after an `add`
        return self._transfers

    def durations(self) -> list[Durations]:
        """Return durations by kind, device, work and incoming bytes; cold starts apart."""
        groups: dict[tuple[str, str, float, float], list[tuple[float, float]]] = {}
        for row in sorted(usual_rows(self.tasks), key=lambda row: row[:4]):
            groups.setdefault(row[:4], []).append((row.seconds, row.output))
        return [summary(key, values) for key, values in groups.items()]

    def links(self) -> list[LinkCost]:
        """Return the link costs: a line through the measurements, never negative."""
        groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in sorted(self.transfers, key=lambda row: row[:2]):
            groups.setdefault(row[:2], []).append((row.data, row.seconds))
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
        near = min(
            (d for d in self.durations() if (d.kind, d.device) == (kind, device)),
            key=lambda d: (apart(d.work, work), apart(d.data, data)),
            default=None,
        )
        if near is None:
            return None
        scale = work / near.work if work > 0 and near.work > 0 else 1.0
        return near.quartiles[1] * scale

    def samples(self, kind: str, device: str) -> np.ndarray:
        """Return (n, 3) work, incoming bytes and seconds of measurements, oldest first."""
        rows = [
            (row.work, row.data, row.seconds)
            for row in usual_rows(self.tasks)
            if (row.kind, row.device) == (kind, device)
        ]
        return np.array(rows, float).reshape(-1, 3)

    def residuals(self) -> list[tuple[str, int, float]]:
        """Return task kind, run and log(seconds / median of that kind, device and size)."""
        groups: dict[tuple[Any, ...], list[TaskRow]] = {}
        for row in self.tasks:
            if row.seconds > 0:
                groups.setdefault((*row[:4], row.sizes), []).append(row)
        for key, rows in groups.items():
            warm = usual_rows(rows)
            groups[key] = warm if len(warm) > 1 else rows  # a single row has no scatter
        times = sorted(row.at for rows in groups.values() for row in rows)
        runs = {at: run for run, at in enumerate(dict.fromkeys(times))}
        return [
            (row.kind, runs[row.at], log(row.seconds / middle))
            for rows in groups.values()
            for middle in [float(np.median([row.seconds for row in rows]))]
            for row in rows
            if len(rows) > 1  # a single one is its own median
        ]

    def scores(self, workflow: str) -> list[float]:
        """Return the scores of the forecasts of a workflow, the oldest first."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT score FROM forecast WHERE workflow = ? ORDER BY id", (workflow,)
            ).fetchall()
        return [float(score) for (score,) in rows]

    # -- inside -------------------------------------------------------------

    def _read(self, db: sqlite3.Connection) -> None:
        """Read all rows, the oldest first; refuse values that no run can have written."""
        tasks = db.execute(
            "SELECT kind, device, work, data, seconds, output, at, sizes, cold, batch FROM task"
            " ORDER BY id"
        ).fetchall()
        links = db.execute(
            "SELECT source, target, data, seconds, at FROM link ORDER BY id"
        ).fetchall()
        parsed = {text: parse_sizes(text) for text in {row[7]: None for row in tasks}}
        self._tasks: list[TaskRow] = [
            checked(TaskRow._make((*row[:7], parsed[row[7]], *row[8:]))) for row in tasks
        ]
        self._transfers: list[LinkRow] = [checked(LinkRow(*row)) for row in links]

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file, upgrade its schema if need be, and begin; one deadline for all."""
        deadline = time.monotonic() + self.wait
        with self._errors():
            if self.path.is_symlink():
                text = "is a symbolic link, which weft does not follow"
                raise HistoryUnusable(f"{self.path}: {text}")
        with (
            self._errors(),
            closing(sqlite3.connect(self.path, timeout=self.wait, isolation_level=None)) as db,
        ):
            found = int(db.execute("PRAGMA user_version").fetchone()[0])
            if found > VERSION:
                raise HistoryUnusable(
                    f"{self.path}: was written by a newer weft (schema {found}, this one reads "
                    f"{VERSION}); update weft"
                )
            if found < VERSION:
                self._upgrade(db, deadline)
            _limit(db, deadline)
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")

    def _upgrade(self, db: sqlite3.Connection, deadline: float) -> None:
        _limit(db, deadline)
        db.execute("PRAGMA journal_mode = WAL")
        _limit(db, deadline)
        db.execute("BEGIN IMMEDIATE")
        found = int(db.execute("PRAGMA user_version").fetchone()[0])  # another process may have
        columns = [row[1] for row in db.execute("PRAGMA table_info(task)")]
        if columns and "sizes" not in columns:
            db.execute("ALTER TABLE task ADD COLUMN sizes TEXT NOT NULL DEFAULT ''")
        for column, default in (("cold", 0), ("batch", 1)):
            if columns and column not in columns:
                db.execute(f"ALTER TABLE task ADD COLUMN {column} REAL NOT NULL DEFAULT {default}")
        if found < VERSION:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the file system into one line."""
        try:
            yield
        except HistoryUnusable:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError, OverflowError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            code = None if code is None else code & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                text = f"another process has locked it for more than {self.wait:g} s"
                raise HistoryUnusable(f"{self.path}: {text}") from None
            if isinstance(error, OSError) or code not in (None, *_FOREIGN):
                raise HistoryUnusable(f"{self.path}: {cause(error)}") from None
            raise HistoryUnusable(
                f"{self.path}: is no history of weft ({error}); move it away and run again",
                damaged=True,
            ) from None


def history_for_run(history: History | str | Path | bool) -> History | None:
    """Return the history of a run: None, and one warning, if it cannot be used.

    A damaged file is set aside and replaced. The run waits half of `WAIT` for a locked file, and
    half at its end.
    """
    if history is False:
        return None
    path = None if history is True or isinstance(history, History) else history
    try:
        if isinstance(history, History):
            history.refresh()
            return history
        return History(path, wait=WAIT / 2)
    except HistoryUnusable as error:
        where = history.path if isinstance(history, History) else Path(path or default_path())
        aside = set_aside(where) if error.damaged else None
        rest = "the run goes on without a history" if aside is None else f"set aside as {aside}"
        warnings.warn(f"{error}; {rest}", stacklevel=3)
        if aside is None:
            return None
    with suppress(HistoryUnusable):
        return History(where, wait=WAIT / 2)
    return None


def set_aside(path: Path) -> Path | None:
    """Rename a damaged history, with the files of SQLite beside it; None: it failed."""
    mark = f".damaged-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
    try:
        if not path.is_file() or path.is_symlink():
            return None
        aside = path.rename(path.with_name(path.name + mark))
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
    except OSError:
        return None
    return aside


def _limit(db: sqlite3.Connection, deadline: float) -> None:
    left = max(0.0, deadline - time.monotonic())
    db.execute(f"PRAGMA busy_timeout = {round(1000 * left)}")
