"""The worker processes of devices: start, watch, replace and end them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from weft.runtime.backends.calls import MAX_KILLED_STARTS, MAX_STARTS, CallTable
from weft.runtime.backends.leftover_processes import (
    descendants,
    end_descendants,
    family,
    leaders_with_others,
    new_token,
)
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.local.poll import FilePoll
from weft.runtime.backends.local.process import WorkerLink, WorkerProcess, cause_of
from weft.runtime.backends.real import RealBackend


class WorkerDevices(RealBackend):
    """Devices with a worker process each; a dead process is replaced."""

    _calls: CallTable

    def __init__(self, specs: Sequence[LocalDevice]) -> None:
        self.specs = list(specs)
        self._folder: Path | None = None
        self._workers: list[WorkerLink | None] = [None] * len(self.specs)
        self._starts = [0] * len(self.specs)
        """Device -> starts in a row at which its process died."""
        self.left_out: dict[int, str] = {}
        """Device that has no process any more -> how its last one died."""
        self._token = new_token()
        self._spawned = 0
        self._poll = FilePoll()
        self._at: dict[int, WorkerLink] = {}
        """File descriptor of a pipe -> its worker."""
        self._unsent: dict[WorkerLink, None] = {}
        """Workers with unsent messages."""
        self._stalled: set[WorkerLink] = set()
        """Workers whose pipe was full; the poll waits until the pipe has room."""
        self._owner = os.getpid()

    def _worker(self, device: int) -> WorkerLink:
        w = self._workers[device]
        assert w is not None
        return w

    def _spawn(self, device: int) -> None:
        assert self._folder is not None
        self._spawned += 1
        token = f"{self._token}.{self._spawned}."
        self._watch(WorkerProcess(device, self.specs[device], self._folder, token))

    def _watch(self, w: WorkerLink) -> None:
        """Receive the messages of a worker from now on."""
        self._workers[w.device] = w
        for file in (w.box.fd, w.watch):
            if file is not None:
                self._at[file] = w
                self._poll.register(file)

    def _flush(self) -> None:
        """Send queued messages as far as the pipes have room."""
        for w in list(self._unsent):
            if w.box.flush():
                del self._unsent[w]
                if w in self._stalled:
                    self._stalled.discard(w)
                    self._poll.await_room(w.box.fd, wanted=False)
            elif w not in self._stalled:
                self._stalled.add(w)
                self._poll.await_room(w.box.fd, wanted=True)

    def _forget_worker(self, w: WorkerLink) -> None:
        for file in [file for file, owner in self._at.items() if owner is w]:
            self._poll.unregister(file)
            del self._at[file]
        self._unsent.pop(w, None)
        self._stalled.discard(w)
        self._workers[w.device] = None

    def _dismiss(self, w: WorkerLink) -> None:
        self._forget_worker(w)
        w.end()

    def _end_children(self) -> None:
        """Kill the processes that tasks left behind, and their workers with them."""
        own = {w.pid: w for w in self._workers if w is not None and w.pid}
        left = {token for pid, token in descendants(self._token).items() if pid not in own}
        crowded = leaders_with_others(own)
        for pid, w in own.items():
            if w.token in left or pid in crowded or family(pid):
                self._dismiss(w)
        if left:
            end_descendants(self._token, keep=[w.pid for w in self._workers if w])

    def _prepare(self, device: int) -> str:
        """Wait until a worker is up, and replace one that dies; return why it is left out."""
        while not (w := self._worker(device)).handshake():
            text, fault = cause_of(w.exit_code())
            self._dismiss(w)
            if self._left_out(w, text, fault):
                return text
            self._spawn(device)
            self._worker(device).preload(self._calls.preload())
        return ""

    def _left_out(self, w: WorkerLink, text: str, fault: str) -> bool:
        """Count a start at which a worker died; return whether there were too many."""
        device = w.device
        self._starts[device] += 1
        if self._starts[device] < (MAX_STARTS if fault == "exited" else MAX_KILLED_STARTS):
            return False
        self.left_out[device] = text
        about = f"the process of device '{self.specs[device].name}' dies before it can work"
        self._go_on_without(f"{about}, again and again: {text}", self._workers)
        return True
