"""The journal of a run: one line per event, so that a killed run can continue.

A folder per run id holds `journal.jsonl` and, if results are kept, one file per result. A line is
written after its result is on disk; a line cut off by a crash is ignored. Without results a
resumed run starts from the beginning: every task runs at least once. An entry holds the fingerprint
of its task; the result of a task that has changed since is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weft.errors import InvalidInput
from weft.model import Workload
from weft.runtime.backends.protocol import Backend, DeviceLost, Finished
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

VERSION = 2


@dataclass(frozen=True)
class JournalEntry:
    """A finished task of the journal."""

    instance: int
    device: str
    decided: float
    start: float
    finish: float
    outcomes: Mapping[int, int]
    result: str | None
    mark: str = ""


class Journal(Observer):
    """The journal of a run id, with the entries of an earlier process.

    Parameters
    ----------
    keep : write every result to disk, so that no finished task runs twice
    marks : the fingerprint of each task

    Attributes
    ----------
    records : entries of tasks that are the same now
    changed : number of finished tasks that have changed since
    complete : whether the run ended before, and none of its tasks has changed
    """

    def __init__(
        self,
        folder: Path,
        run_id: str,
        workload: Workload,
        backend: Backend,
        *,
        keep: bool = True,
        marks: Sequence[str] = (),
    ) -> None:
        if not re.fullmatch(r"[\w.-]{1,100}", run_id) or run_id.startswith("."):
            raise InvalidInput(
                f"run id '{run_id}' must be letters, digits, '.', '-' and '_', "
                "and not begin with '.'"
            )
        self.run_id = run_id
        self.folder = folder / run_id
        self.backend = backend
        self.keep = keep
        self._marks = tuple(marks) or ("",) * workload.instances
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "journal.jsonl"
        self._file = _locked(self.path, run_id)
        try:
            lines = self._read(fingerprint(workload))
        except BaseException:
            self._file.close()
            raise
        found = _entries(lines)
        self._results = {i: entry.result for i, entry in found.items()}
        self.records = [e for e in found.values() if e.mark == self._marks[e.instance]]
        self.changed = len(found) - len(self.records)
        last = lines[-1] if lines else {}
        self.complete = last.get("event") == "ended" and not (last.get("failed") or self.changed)

    @property
    def finished_before(self) -> list[JournalEntry]:
        """Return the entries whose results are on disk."""
        return [
            r for r in self.records if r.result is not None and (self.folder / r.result).is_file()
        ]

    @property
    def last(self) -> float:
        """Return the last finish, where the clock of a resumed run starts."""
        return max((r.finish for r in self.records), default=0.0)

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Store the results, then write the entries."""
        for i in group.members:
            result = f"{i}-{self._marks[i][:16]}.result" if self.keep else None
            if result is not None:
                self.backend.store(i, self.folder / result)
            self._write(
                "finished",
                instance=i,
                device=life.workload.cluster.names[event.device],
                decided=group.decided,
                start=group.start,
                finish=life.results[i][-1][1],
                outcomes={c: outcomes[c] for c in life.choices_of(i)},
                result=result,
                mark=self._marks[i],
            )
            self._remove_outdated(i, result)

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """Write the failure, for readers of the journal only."""
        name = life.workload.cluster.names[device]
        self._write("failed", instance=instance, device=name, text=text)

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Write the loss, for readers of the journal only."""
        name = life.workload.cluster.names[event.device]
        self._write("lost", device=name, time=event.time, text=event.text)

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Write the end of the run."""
        self._write("ended", time=now, failed=[j for j, bad in enumerate(life.failed) if bad])

    def close(self) -> None:
        """Close the file and its lock."""
        self._file.close()

    # -- inside -------------------------------------------------------------

    def _remove_outdated(self, instance: int, result: str | None) -> None:
        before = self._results.get(instance)
        self._results[instance] = result
        if before is not None and before != result:
            (self.folder / before).unlink(missing_ok=True)

    def _write(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"event": event, **fields}) + "\n")
        self._file.flush()

    def _read(self, mark: str) -> list[dict[str, Any]]:
        lines = list(read_lines(self.path))
        if not lines:
            self._file.truncate(0)
            self._write("begun", version=VERSION, run=self.run_id, workload=mark)
            return []
        head = lines[0]
        if head.get("version") != VERSION:
            raise InvalidInput(
                f"{self.path}: was written by another weft (version {head.get('version')!r}); "
                "choose another run id"
            )
        if head.get("workload") != mark:
            raise InvalidInput(
                f"run '{self.run_id}' was of another workflow; "
                f"choose another run id, or remove {self.folder}"
            )
        self._file.write("\n")  # ends a line that was cut off
        return lines


def _entries(lines: Sequence[Mapping[str, Any]]) -> dict[int, JournalEntry]:
    """Return the last entry of each finished task."""
    found = {}
    for line in lines:
        if line.get("event") == "finished":
            outcomes = {int(c): int(b) for c, b in line["outcomes"].items()}
            times = (float(line["decided"]), float(line["start"]), float(line["finish"]))
            rest = (outcomes, line["result"], str(line.get("mark", "")))
            instance = int(line["instance"])
            found[instance] = JournalEntry(instance, str(line["device"]), *times, *rest)
    return found


def replay(life: LiveLifecycle, entries: Sequence[JournalEntry]) -> list[Group]:
    """Repeat the entries of a journal, parents first; return the groups that were done.

    A task whose device no longer exists is done on another one in no time, when it ended: that
    device may have run something else meanwhile.
    """
    names = {name: d for d, name in enumerate(life.workload.cluster.names)}
    groups = []
    for entry in entries:
        device = _device(life, entry, names)
        if entry.instance not in life.ready or device is None:
            continue  # an input is missing, or no device can run it: it is not done
        own = life.workload.cluster.names[device] == entry.device
        life.commit([entry.instance], device, entry.decided)
        groups.append(life.begin(device, entry.start if own else entry.finish))
        life.finish(device, entry.finish, entry.outcomes)
    return groups


def _device(life: LiveLifecycle, entry: JournalEntry, names: Mapping[str, int]) -> int | None:
    """Return the device of an entry; if it no longer exists, the first that could run it."""
    own = names.get(entry.device, -1)
    if own >= 0 and life.can_run(entry.instance, own):
        return own
    return next((d for d in range(len(life.machines)) if life.can_run(entry.instance, d)), None)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a journal."""
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def fingerprint(workload: Workload) -> str:
    """Hash names, kinds and edges of the tasks; estimates may differ between runs."""
    digest = hashlib.sha256()
    for problem in (workload.problem_of(j) for j in range(workload.jobs)):
        w = problem.workflow
        for part in (
            w.task_names,
            w.kinds,
            w.kind.tolist(),
            w.src.tolist(),
            w.dst.tolist(),
            w.choices.labels,
        ):
            digest.update(json.dumps(part).encode())
    return digest.hexdigest()


def default_folder() -> Path:
    """Return $WEFT_RUNS, or the user's state folder."""
    given = os.environ.get("WEFT_RUNS")
    if given:
        return Path(given)
    return (
        Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft" / "runs"
    )


def _locked(path: Path, run_id: str) -> IO[str]:
    """Open a journal with an exclusive lock, which ends with the process."""
    file = path.open("a", encoding="utf-8")
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InvalidInput(
            f"run '{run_id}' is under way in another process; wait for it, or choose another run id"
        ) from None
    return file
