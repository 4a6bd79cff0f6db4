"""Runs and their events on disk: one SQLite file, written by one thread in groups.

A write is durable against the end of the process once its group is committed; groups make a
thousand writes per second cheap. While the disk is full, new runs are refused and other writes wait
in memory: a run whose end waits there runs again if the process is killed. Ended runs beyond the
newest `keep` are deleted.
"""

# ruff: noqa: S608  # statements are put together from the constants of this file
from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from weft.errors import InvalidInput
from weft.runtime.private_files import lock, open_private

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, application TEXT NOT NULL,
    priority REAL NOT NULL, name TEXT NOT NULL, tasks INTEGER NOT NULL, body BLOB NOT NULL,
    state TEXT NOT NULL, submitted REAL NOT NULL, begun REAL, ended REAL, error TEXT, results TEXT);
CREATE INDEX IF NOT EXISTS states ON runs (state, number);
CREATE TABLE IF NOT EXISTS events (
    run INTEGER NOT NULL, seq INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
    content TEXT NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID;
"""
_VERSION = 1
_GROUP = 500
_FACTS = ("id", "application", "priority", "name", "tasks", "state", "submitted")
_ADD = f"INSERT INTO runs (number, body, {', '.join(_FACTS)}) VALUES (?,?,?,?,?,?,?,?,?)"
_BEGIN = "UPDATE runs SET state='running', begun=coalesce(begun, ?) WHERE number=?"
_EVENT = "INSERT OR IGNORE INTO events VALUES (?,?,?,?,?)"
_END = (
    "UPDATE runs SET state=?, ended=?, error=?, results=?, body="
    "CASE WHEN length(body) > ? THEN x'' ELSE body END WHERE number=?"
)
_ORDER = (_ADD, _BEGIN, _EVENT, _END)
"""Statements in the order in which a run needs them: each kind of row is written at once."""

_COLUMNS = "id, application, priority, name, tasks, state, submitted, begun, ended, error"

KEPT_BYTES = 1 << 16
"""Size of a document above which it is dropped at the end of its run."""

PERIOD = 5e-3
"""Least seconds from one group of writes to the next: each costs a wake-up and a transaction."""

PAUSE = 0.5
"""Seconds from a group that found no room on the disk to the next."""

PASSING = (sqlite3.OperationalError, OSError)
"""Errors of the disk, such as a full one, and not of what is written."""

OPEN = ("waiting", "running")
"""States of runs that have not ended."""

Done = Callable[[Exception | None], None]


class _Write(NamedTuple):
    sql: str
    rows: Sequence[Sequence[Any]]
    run: int
    done: Done | None


class RunStore:
    """The runs of one server in a folder that no other server uses.

    Parameters
    ----------
    keep : ended runs that stay
    committed : receives the numbers of runs whose events are now on disk, in the writing thread
    """

    def __init__(
        self, folder: Path, *, keep: int = 10_000, committed: Callable[[set[int]], object] = len
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "runs.db"
        open_private(path, "ab").close()  # SQLite would follow a link and make a public file
        self._lock = open_private(folder / "lock", "a", encoding="ascii")
        lock(self._lock, f"{folder} is in use by another server; end it, or give another --folder")
        self.keep = keep
        self.committed = committed
        try:
            self._db = self._opened(path)
            self._reader = self._opened(path)
            self._ended = self._one("SELECT count(*) FROM runs WHERE state NOT IN (?, ?)", OPEN)
            self.last = self._one("SELECT coalesce(max(number), 0) FROM runs")
        except sqlite3.Error as error:
            self._lock.close()
            passing = isinstance(error, PASSING)  # the file is sound, and holds runs that go on
            remedy = "make room, or give another --folder" if passing else "move it away"
            raise InvalidInput(f"{path}: cannot be used ({error}); {remedy}") from None
        self._writes: deque[_Write] = deque()
        self._waits = threading.Event()
        """Set while writes wait: a writer is woken once per group, not once per write."""
        self.full = False
        """Whether writes wait in memory for room on the disk."""
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="weft-store", daemon=True)
        self._thread.start()

    @staticmethod
    def _opened(path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=2.0, check_same_thread=False, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.executescript(_SCHEMA)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it has version {version} of another weft")
        if version != _VERSION:  # a full disk has no room for it
            db.execute(f"PRAGMA user_version={_VERSION}")
        return db

    def _one(self, sql: str, values: Sequence[Any] = ()) -> int:
        (found,) = self._reader.execute(sql, values).fetchone()
        return int(found)

    # -- writing ------------------------------------------------------------

    def add(self, runs: Sequence[tuple[int, dict[str, Any], bytes]], done: Done) -> None:
        """Write new runs, by number, facts and document: all or none."""
        rows = [(number, body, *(facts[key] for key in _FACTS)) for number, facts, body in runs]
        self._put(_ADD, rows, runs[0][0], done)

    def event(self, run: int, seq: int, time: float, kind: str, content: dict[str, Any]) -> None:
        """Write an event; a stored event of the same number stays as it is."""
        self._put(_EVENT, [(run, seq, time, kind, json.dumps(content))], run)

    def begin(self, run: int, time: float) -> None:
        """Write that a run has begun."""
        self._put(_BEGIN, [(time, run)], run)

    def end(
        self,
        run: int,
        time: float,
        state: str,
        error: str | None,
        results: Any,
        done: Done | None = None,
    ) -> None:
        """Write the end of a run; a small document stays, for its live page."""
        self._put(_END, [(state, time, error, json.dumps(results), KEPT_BYTES, run)], run, done)

    def close(self) -> None:
        """Write the waiting entries and close the files; on a full disk they are lost."""
        self._closing = True
        self._waits.set()
        self._thread.join()
        self._db.close()
        self._reader.close()
        self._lock.close()

    def _put(
        self, sql: str, rows: Sequence[Sequence[Any]], run: int, done: Done | None = None
    ) -> None:
        self._writes.append(_Write(sql, rows, run, done))
        if not self._waits.is_set():
            self._waits.set()

    def _work(self) -> None:
        next_group = 0.0
        while self._writes or not self._closing:
            self._waits.wait()
            sleep(max(0.0, next_group - monotonic()))
            next_group = monotonic() + PERIOD
            self._waits.clear()  # before the look at what waits: a later write sets it again
            group = [self._writes.popleft() for _ in range(min(len(self._writes), _GROUP))]
            self.full = not self._store(group)
            if self.full:
                next_group = monotonic() + PAUSE
            if self._writes or self._closing:
                self._waits.set()

    def _store(self, writes: Sequence[_Write]) -> bool:
        """Commit writes, or keep them for later; return whether there was room."""
        parts = [writes]
        while parts:
            part = parts.pop(0)
            error = self._commit(part)
            if isinstance(error, PASSING):
                self._postpone([write for rest in (part, *parts) for write in rest], error)
                return False
            if error is not None and len(part) > 1:
                parts = [[write] for write in part]  # one must not take the others with it
            else:
                self._finish(part, error)
        return True

    def _postpone(self, writes: Sequence[_Write], error: Exception) -> None:
        """Keep writes in their order; refuse new runs, and at the end of the server all."""
        waiting = [*writes, *(self._writes.popleft() for _ in range(len(self._writes)))]
        closing = self._closing
        kept = [] if closing else [write for write in waiting if write.sql is not _ADD]
        if kept and not self.full:
            _warn(f"ends of runs wait in memory, because they cannot be written: {error}")
        self._writes.extendleft(reversed(kept))
        self._finish([write for write in waiting if closing or write.sql is _ADD], error)

    def _commit(self, writes: Sequence[_Write]) -> Exception | None:
        ended = self._ended
        if not writes:
            return None
        try:
            self._db.execute("BEGIN")
            rows: dict[str, list[Sequence[Any]]] = {sql: [] for sql in _ORDER}
            for write in writes:
                rows[write.sql] += write.rows
            for sql, values in rows.items():
                self._db.executemany(sql, values)
            self._ended += len(rows[_END])
            self._prune()
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._ended = ended
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            return error
        return None

    def _finish(self, writes: Sequence[_Write], error: Exception | None) -> None:
        for write in writes:
            if write.done is not None:
                write.done(error)
            if error is not None and write.sql is not _ADD:
                _warn(f"an event could not be written: {error}")
        self.committed({write.run for write in writes})

    def _prune(self) -> None:
        """Delete the oldest ended runs, a tenth of `keep` at a time."""
        excess = self._ended - self.keep
        if excess <= self.keep // 10:
            return
        rows = self._db.execute(
            "SELECT number FROM runs WHERE state NOT IN (?, ?) ORDER BY number LIMIT ?",
            (*OPEN, excess),
        ).fetchall()
        self._db.executemany("DELETE FROM events WHERE run=?", rows)
        self._db.executemany("DELETE FROM runs WHERE number=?", rows)
        self._ended -= len(rows)

    # -- reading ------------------------------------------------------------

    def open_runs(self) -> list[tuple[int, dict[str, Any], bytes]]:
        """Return number, facts and document of the runs that have not ended, oldest first."""
        sql = f"SELECT number, body, {_COLUMNS} FROM runs WHERE state IN (?, ?) ORDER BY number"
        rows = self._reader.execute(sql, OPEN).fetchall()
        return [(number, _facts(rest), body) for number, body, *rest in rows]

    def find(self, run_id: str) -> tuple[int, dict[str, Any]] | None:
        """Return number and facts of a run, with its results; None: there is none."""
        sql = f"SELECT number, results, {_COLUMNS} FROM runs WHERE id=?"
        row = self._reader.execute(sql, (run_id,)).fetchone()
        if row is None:
            return None
        number, results, *rest = row
        return number, {**_facts(rest), "results": None if results is None else json.loads(results)}

    def ended(self, run: int) -> bool:
        """Return whether the end of a run is on disk; True if the run is deleted."""
        sql = "SELECT count(*) FROM runs WHERE number=? AND state IN (?, ?)"
        return self._one(sql, (run, *OPEN)) == 0

    def document(self, run_id: str) -> bytes:
        """Return the document of a run; empty: it is not kept."""
        row = self._reader.execute("SELECT body FROM runs WHERE id=?", (run_id,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def listed(self, *, application: str | None, state: str | None, limit: int) -> list[Any]:
        """Return the facts of the newest runs."""
        sql = (
            f"SELECT {_COLUMNS} FROM runs WHERE (?1 IS NULL OR application=?1) "
            "AND (?2 IS NULL OR state=?2) ORDER BY number DESC LIMIT ?3"
        )
        return [_facts(row) for row in self._reader.execute(sql, (application, state, limit))]

    def events(self, run: int, after: int = 0, limit: int = -1) -> list[dict[str, Any]]:
        """Return the events of a run with a number above `after`."""
        sql = (
            "SELECT seq, time, kind, content FROM events WHERE run=? AND seq>? ORDER BY seq LIMIT ?"
        )
        rows: Iterable[Any] = self._reader.execute(sql, (run, after, limit))
        return [
            {"seq": seq, "time": time, "kind": kind, **json.loads(content)}
            for seq, time, kind, content in rows
        ]


def _facts(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(_COLUMNS.split(", "), row, strict=True))


def _warn(text: str) -> None:
    with suppress(UserWarning):  # with -W error it must not end the writing thread
        warnings.warn(text, stacklevel=3)
