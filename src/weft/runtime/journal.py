"""The journal of a run: one line per event, so that a killed run can continue.

A folder per run id holds `journal.jsonl` and, if results are kept, one file per result. A line is
written after its result is on disk; a line cut off by a crash is removed. Without results a
resumed run starts from the beginning: every task runs at least once. An entry holds the fingerprint
of its task; the result of a task that has changed since is not used. Lines and results that are
damaged count as if they were not there: their tasks run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from weft.errors import InvalidInput, WeftError
from weft.model import Workload
from weft.runtime.backends.protocol import Backend, DeviceLost, Finished
from weft.runtime.backends.result_file import damage
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.private_files import lock, open_private, private_folder, state_folder
from weft.sim.device_state import Group

VERSION = 2

LATEST = 1e10
"""Seconds (300 years) after which no task of a run ends; a line with more is damaged."""


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


def check_run_id(run_id: str) -> None:
    """Refuse a run id that is no name of a folder."""
    if not re.fullmatch(r"[\w.-]{1,100}", run_id) or run_id.startswith("."):
        raise InvalidInput(
            f"run id '{run_id}' must be letters, digits, '.', '-' and '_', and not begin with '.'"
        )


def resume_promise(run_id: str | None, *, keep: bool, schedule: bool = False) -> str:
    """Return what happens to the finished tasks of a run that is killed, in one line."""
    if run_id is None:
        return "no run id, nothing is kept: a run that is killed starts from the beginning"
    if schedule or not keep:
        why = "a schedule cannot be continued" if schedule else "results are not kept"
        return f"run '{run_id}' writes a journal, but {why}: finished tasks run again"
    return (
        f"run '{run_id}' keeps every result: if it is killed, start it again with the same id, and "
        "no finished task runs again"
    )


class Journal(Observer):
    """The journal of a run id, with the entries of an earlier process.

    Parameters
    ----------
    keep : write every result to disk, so that no finished task runs twice
    marks : the fingerprint of each task

    Attributes
    ----------
    records : entries of tasks that are the same now
    damaged : number of lines that cannot be read
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
        check_run_id(run_id)
        self.run_id = run_id
        self.folder = folder / run_id
        self.damaged = 0
        self.backend = backend
        self.keep = keep
        self._marks = tuple(marks) or ("",) * workload.instances
        self._workload = workload
        self._conditional = any(problem.workflow.conditional for problem in workload.problems)
        """Which edges are taken is not known before the replay: all results count as read."""
        private_folder(self.folder)
        self.path = self.folder / "journal.jsonl"
        self._file: IO[bytes] = open_private(self.path, "a+b", buffering=0)
        lock(
            self._file,
            f"run '{run_id}' is under way in another process; wait for it, or choose another "
            "run id",
        )
        try:
            lines = self._read(fingerprint(workload))
        except BaseException:
            self._file.close()
            raise
        found = self._entries(lines)
        self._results = {i: entry.result for i, entry in found.items()}
        self.records = [e for e in found.values() if e.mark == self._marks[e.instance]]
        self.changed = len(found) - len(self.records)
        odd = _contradictory(self.records, _children(workload))
        self.damaged += len(odd)
        self.records = [e for e in self.records if e.instance not in odd]
        last = lines[-1] if lines else {}
        self.complete = last.get("event") == "ended" and not (
            last.get("failed") or self.changed or self.damaged
        )

    def usable(self, wanted: Container[int] = ()) -> tuple[list[JournalEntry], list[str]]:
        """Return the entries to continue from, and the faults of other results.

        Only results that open tasks or the caller (`wanted`) will read are looked at. A task whose
        result is damaged runs again with all that depend on it: they read the result that is gone.
        """
        done = {r.instance: r for r in self.records if r.result is not None}
        children = _children(self._workload)
        if not self._conditional:
            _drop(done, children, [i for i in range(len(children)) if i not in done])
        sound: set[int] = set()
        reasons: list[str] = []
        while True:
            read = [
                i
                for i in done
                if i not in sound
                and (i in wanted or self._conditional or any(c not in done for c in children[i]))
            ]
            bad = {i: why for i in read if (why := damage(self.folder / str(done[i].result)))}
            if not bad:
                return list(done.values()), reasons
            reasons += bad.values()
            sound.update(i for i in read if i not in bad)
            _drop(done, children, list(bad))

    @property
    def last(self) -> float:
        """The last finish, where the clock of a resumed run starts."""
        return max((r.finish for r in self.records), default=0.0)

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Store the results, then write the entries."""
        for i in group.members:
            result = _result_name(i, self._marks[i]) if self.keep else None
            if result is not None:
                with self._writing():
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
        with self._writing():
            self._file.write(json.dumps({"event": event, **fields}).encode() + b"\n")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WeftError(
                f"run '{self.run_id}': {self.folder} cannot be written: {error.strerror}; "
                "once it can, start the run again"
            ) from None

    def _read(self, mark: str) -> list[dict[str, Any]]:
        lines, self.damaged = _complete_lines(self._file)
        if not lines and not self.damaged:
            self._write("begun", version=VERSION, run=self.run_id, workload=mark)
            return []
        head = lines[0] if lines else {}
        if head.get("event") != "begun":
            raise InvalidInput(
                f"{self.path}: its first line is damaged; choose another run id, or remove "
                f"{self.folder}"
            )
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
        return lines

    def _entries(self, lines: Sequence[Mapping[str, Any]]) -> dict[int, JournalEntry]:
        """Return the last entry of each finished task; count the lines that make no sense."""
        found: dict[int, JournalEntry] = {}
        for line in lines:
            if line.get("event") == "finished":
                try:
                    entry = _entry(line, self._workload)
                except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
                    self.damaged += 1
                else:
                    found.pop(entry.instance, None)  # entries are in the order of their last ends
                    found[entry.instance] = entry
        return found


def _entry(line: Mapping[str, Any], workload: Workload) -> JournalEntry:
    """Return the entry of a line; an error of Python if it cannot be one."""
    instance, mark, result = line["instance"], line.get("mark", ""), line["result"]
    decided, start, finish = (float(line[key]) for key in ("decided", "start", "finish"))
    outcomes = {int(c): int(b) for c, b in line["outcomes"].items()}
    job, task = workload.task_of(range(workload.instances)[instance])
    first, choices = int(workload.first_choice[job]), workload.problem_of(job).workflow.choices
    right = (
        instance >= 0
        and isinstance(mark, str)
        and result in (None, _result_name(instance, mark))
        and 0.0 <= decided <= start <= finish < LATEST
        and sorted(outcomes) == (first + np.flatnonzero(choices.task == task)).tolist()
        and all(0 <= b < len(choices.branches(c - first)) for c, b in outcomes.items())
    )
    if not right:
        raise ValueError("not the entry of a task")
    return JournalEntry(
        instance, str(line["device"]), decided, start, finish, outcomes, result, mark
    )


def _result_name(instance: int, mark: str) -> str:
    if mark and not mark.isalnum():
        raise ValueError("not a fingerprint")
    return f"{instance}-{mark[:16]}.result"


def _children(workload: Workload) -> list[list[int]]:
    """Return the tasks that may read each result."""
    children: list[list[int]] = []
    for job, first in enumerate(workload.first_instance[:-1].tolist()):
        w = workload.problem_of(job).workflow
        bounds = w.succ_ptr.tolist()
        children += [(w.dst[begin:end] + first).tolist() for begin, end in pairwise(bounds)]
    return children


def _contradictory(entries: Sequence[JournalEntry], children: list[list[int]]) -> set[int]:
    """Return tasks that end before one of their inputs, and these inputs."""
    ends = {entry.instance: entry.finish for entry in entries}
    pairs = ((i, c) for i in ends for c in children[i] if c in ends and ends[c] < ends[i])
    return {instance for pair in pairs for instance in pair}


def _drop(done: dict[int, JournalEntry], children: list[list[int]], gone: list[int]) -> None:
    """Remove entries, and those of all tasks that depend on them."""
    while gone:
        i = gone.pop()
        done.pop(i, None)
        gone.extend(c for c in children[i] if c in done)


def replay(life: LiveLifecycle, entries: Sequence[JournalEntry]) -> list[Group]:
    """Repeat the entries of a journal, parents first; return the groups done.

    A task whose device no longer exists counts as done on another device, at the moment it ended
    and without taking time there: that device may have run something else meanwhile. So does one
    whose times do not fit those of its device, in a journal that was damaged.
    """
    names = {name: d for d, name in enumerate(life.workload.cluster.names)}
    groups = []
    ends: dict[int, float] = {}
    """Device -> end of its last task."""
    for entry in entries:
        device = _device(life, entry, names)
        if entry.instance not in life.ready or device is None:
            continue  # an input is missing, or no device can run it: it is not done
        own = life.workload.cluster.names[device] == entry.device
        inputs = (life.results[parent][-1][1] for parent, _ in life.inputs[entry.instance])
        if own and entry.start >= max(ends.get(device, 0.0), 0.0, *inputs):
            ends[device] = entry.finish
        else:
            own = False
        life.commit([entry.instance], device, entry.decided)
        groups.append(life.begin(device, entry.start if own else entry.finish))
        life.finish(device, entry.finish, entry.outcomes)
    return groups


def _device(life: LiveLifecycle, entry: JournalEntry, names: Mapping[str, int]) -> int | None:
    """Return the device of an entry, or if it is gone the first that could run it."""
    own = names.get(entry.device, -1)
    if own >= 0 and life.can_run(entry.instance, own):
        return own
    return next((d for d in range(len(life.machines)) if life.can_run(entry.instance, d)), None)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _complete_lines(file: IO[bytes]) -> tuple[list[dict[str, Any]], int]:
    """Return the lines and the number of damaged ones; remove a cut-off last one."""
    file.seek(0)
    whole = file.read()
    tail = whole[whole.rfind(b"\n") + 1 :]
    if tail and _parsed(tail):
        file.write(b"\n")
    elif tail:
        file.truncate(len(whole) - len(tail))
        whole = whole[: len(whole) - len(tail)]
    lines = [line for line in whole.splitlines() if line.strip()]
    found = [parsed for line in lines if (parsed := _parsed(line))]
    return found, len(lines) - len(found)


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
    return Path(given) if given else state_folder() / "runs"
