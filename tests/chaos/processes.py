"""The processes of a run, found by an inherited variable; the killer; what is left of a run."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from weft.runtime.backends.leftover_processes import VARIABLE
from weft.runtime.backends.payload import PREFIX

MARK = "WEFT_CHAOS"
"""Variable of all processes of a run; its value is a token."""

MARK_OF_CHILD = "WEFT_CHAOS_CHILD"
"""The same, of all processes of a run whose driver is a child of the campaign."""

MOST = 12
"""Kills in a run: one without an end could never do anything."""

WAIT_LIMIT = 600.0
"""Seconds for processes to end after their driver: an event ends the wait, usually at once."""


def with_variable(text: str) -> list[int]:
    """Return the other processes whose variables hold a text, without those that are dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            pid = int(path.parent.name)
            if pid != os.getpid() and text.encode() in path.read_bytes():
                found.append(pid)
    return found


def comm(pid: int) -> str:
    """Return the short name of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
    return ""


def parent(pid: int) -> int:
    """Return the parent of a process."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return -1


def workers(backend: str, token: str) -> list[int]:
    """Return the workers of a run, also those that are starting."""
    found = with_variable(f"{MARK}={token}")
    if backend == "ray":
        children = [pid for pid in found if comm(parent(pid)).startswith("raylet")]
        return [pid for pid in children if not part_of_the_head(pid)]
    own = with_variable(f"{VARIABLE}=")
    return [pid for pid in found if pid in own and parent(pid) == os.getpid()]


def part_of_the_head(pid: int) -> bool:
    """Return whether it is an agent of Ray's raylet, which ends itself without them."""
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return any(name in line for name in (b"Agent", b"/agent.py", b"/agent/main.py"))
    return False


def agents(token: str) -> list[int]:
    """Return the parts of Ray's head that its raylet started."""
    return [pid for pid in with_variable(f"{MARK}={token}") if part_of_the_head(pid)]


class Killer(threading.Thread):
    """Kills a random worker at random moments, from the start of the first one.

    `head`: it kills an agent of Ray's head first.
    """

    def __init__(
        self,
        backend: str,
        every: float,
        seed: int,
        token: str,
        *,
        most: int = MOST,
        head: bool = False,
    ) -> None:
        super().__init__(daemon=True)
        self.most, self.head = most, head
        self.backend, self.every, self.rng = backend, every, random.Random(seed)
        self.token = token
        self.kills = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Kill until the run is over."""
        while self.kills < self.most and not self.over.wait(self.rng.expovariate(1 / self.every)):
            if found := self.victims():
                with suppress(ProcessLookupError):
                    os.kill(self.rng.choice(found), signal.SIGKILL)
                    self.kills += 1

    def victims(self) -> list[int]:
        """Return the processes of which one is killed now."""
        if self.head and not self.kills:
            return agents(self.token)
        return workers(self.backend, self.token)


def memory(driver: int) -> set[Path]:
    """Return the files in memory of a driver."""
    return set(Path("/dev/shm").glob(f"{PREFIX}{driver}-*"))


def left_over(
    token: str, driver: int, files: AbstractSet[Path] = frozenset(), *, mark: str = MARK
) -> tuple[int, int]:
    """Return the processes and the files in memory that a run left, after some patience.

    `files` were there before the run.
    """
    deadline = time.monotonic() + WAIT_LIMIT
    while True:
        left, new = len(with_variable(f"{mark}={token}")), len(memory(driver) - files)
        if not left + new or time.monotonic() > deadline:
            return left, new
        time.sleep(0.05)
