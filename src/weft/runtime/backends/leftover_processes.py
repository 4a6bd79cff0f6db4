"""Processes that tasks leave behind: found by an inherited variable, and killed.

A process group holds the children that stay in it; the variable also finds those that started a
session of their own or lost their parent (Linux only: /proc shows the variables of a process). A
process that starts a session without its parent's variables is found as long as its ancestors live;
if it also loses its parent, it is not found.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Container, Iterable

VARIABLE = "WEFT_WORKER"
"""Environment variable of workers; its value begins with the token of their backend."""


def new_token() -> str:
    """Return a unique value of the variable."""
    return secrets.token_hex(16)


def descendants(token: str) -> dict[int, str]:
    """Return the process ids whose variable begins with a token, and the variables."""
    head = f"{VARIABLE}={token}".encode()
    found = {}
    for pid in _processes():
        with contextlib.suppress(OSError):  # of another user, or gone
            data = _environment(pid)
            if head in data:
                own = [v for v in data.split(b"\0") if v.startswith(head)]
                if own:
                    found[pid] = own[0].decode()[len(VARIABLE) + 1 :]
    return found


def _environment(pid: int) -> bytes:
    """Return the variables of a process; wait for them while it starts a program.

    Between the start of a program and its first instruction, Linux shows no variables.
    """
    for _ in range(5):
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123  # quicker
            data = file.read()
        if data:
            return data
        os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115  # fails for threads of the kernel
        time.sleep(0.002)
    return b""


def _processes() -> list[int]:
    """Return the ids of all processes.

    Without pathlib, which is slow: every run and executor ends with this call.
    """
    with contextlib.suppress(FileNotFoundError):  # not Linux
        names = os.listdir("/proc")  # noqa: PTH208  # quicker than a Path
        return [int(name) for name in names if name.isdecimal()]
    return []


def children(pid: int) -> list[str]:
    """Return the names of the living children of a process (Linux only)."""
    found = []
    for child in _processes():
        with contextlib.suppress(OSError):  # gone meanwhile
            name, _, rest = _stat(child).partition(" (")[2].rpartition(") ")
            state, parent = rest.split()[:2]
            if int(parent) == pid and state not in "ZX":
                found.append(name)
    return found


def family(pid: int) -> list[int]:
    """Return the living descendants of a process by their parents (Linux only)."""
    found: list[int] = []
    open_pids = [pid]
    while open_pids:
        mine = _child_pids(open_pids.pop())
        found += mine
        open_pids += mine
    return found


def _child_pids(pid: int) -> list[int]:
    """Return the children that the threads of a process started."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # gone meanwhile, or not Linux
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # quicker
            path = f"/proc/{pid}/task/{thread}/children"
            with open(path, encoding="ascii") as file:  # noqa: PTH123  # quicker than a Path
                found += map(int, file.read().split())
    return found


def end_all(pids: Iterable[int]) -> None:
    """Kill processes; those that are gone are left out."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> str:
    path = f"/proc/{pid}/stat"
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # quicker
        return file.read()


def end_descendants(token: str, keep: Container[int] = (), seconds: float = 5.0) -> None:
    """Kill the processes of a token except `keep`, also those that appear meanwhile."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in descendants(token) if pid not in keep]:
        end_all(left)
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)


def leaders_with_others(leaders: Container[int]) -> set[int]:
    """Return the leaders whose process groups contain other processes, too."""
    found = set()
    for pid in _processes():
        with contextlib.suppress(OSError):  # gone meanwhile
            group = os.getpgid(pid)
            if group in leaders and pid != group:
                found.add(group)
    return found


def end_group(leader: int) -> None:
    """Kill a process group.

    Its leader must not have been waited for: until then, its id is not given to another process.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
