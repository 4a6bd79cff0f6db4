"""Pickled values for other processes; large buffers go to a mapped file in memory.

Functions and classes of `__main__`, lambdas and closures are pickled by value: no other process has
that `__main__`, be it a script, a notebook or standard input. Pickle protocol 5 exports the buffers
of numpy arrays at any depth. Readers get read-only arrays, so that no task can change the input of
another.
"""

# ruff: noqa: S301  # pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import errno
import mmap
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from weft.runtime.private_files import private_folder

SHARED_FROM = 65536
"""Smallest size in bytes of a buffer that goes into a file in memory."""

_ALIGNED = 64


class Payload(NamedTuple):
    """A pickled value; `spans` locate its buffers in the file at `path`.

    If `data` is empty, the first span is the pickle itself. Spans without a path lie in `data`, the
    pickle first: the form for machines that do not share the file.
    """

    data: bytes
    path: str | None = None
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        if self.path is None:
            return len(self.data)
        return len(self.data) + sum(end - begin for begin, end in self.spans)


def pickled(value: Any, *, shared_from: int = sys.maxsize) -> tuple[bytes, list[memoryview]]:
    """Pickle a value; return its large buffers too.

    Functions and classes that other processes cannot import are pickled by value.

    Examples
    --------
    >>> pickle.loads(pickled(lambda x: x + 1)[0])(2)
    3
    """
    try:
        data, large = _pickled_by(pickle.dumps, value, shared_from)
        if b"__main__" not in data:
            return data, large
    except Exception:  # noqa: BLE001, S110  # pickling runs code of the user
        pass
    import cloudpickle  # slower than pickle: only where it is needed

    return _pickled_by(cloudpickle.dumps, value, shared_from)


def _pickled_by(
    dumps: Callable[..., bytes], value: Any, shared_from: int
) -> tuple[bytes, list[memoryview]]:
    large: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < shared_from:
            return True
        large.append(raw)
        return False

    return dumps(value, protocol=5, buffer_callback=keep_inside), large


def pack(value: Any, path: str | Path) -> Payload:
    """Pickle a value; large buffers, if there are any, go to a file at `path`.

    Examples
    --------
    >>> unpack(pack({"a": [1, 2]}, "never-written"))
    {'a': [1, 2]}
    """
    data, large = pickled(value, shared_from=SHARED_FROM)
    if len(data) >= SHARED_FROM:
        large.insert(0, memoryview(data))
        data = b""
    if not large:
        return Payload(data)
    where, spans = _write(Path(path), large)
    return Payload(data, str(where), spans)


def unpack(payload: Payload) -> Any:
    """Return the value; its large arrays are read-only views of the file."""
    if payload.path is None and not payload.spans:
        return pickle.loads(payload.data)
    if payload.path is None:
        whole, data = memoryview(payload.data), b""
    else:
        with Path(payload.path).open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        data = payload.data
    views = [whole[begin:end] for begin, end in payload.spans]
    return pickle.loads(data or views.pop(0), buffers=views)


def inline(payload: Payload) -> Payload:
    """Return a payload without a file, for another machine.

    Examples
    --------
    >>> inline(Payload(b"abc"))
    Payload(data=b'abc', path=None, spans=())
    """
    if payload.path is None:
        return payload
    content, spans = Path(payload.path).read_bytes(), payload.spans
    if payload.data:
        spans = ((len(content), len(content) + len(payload.data)), *spans)
    return Payload(content + payload.data, None, spans)


def drop(payload: Payload) -> None:
    """Delete the file of a payload; processes that map it keep its memory."""
    if payload.path is not None:
        Path(payload.path).unlink(missing_ok=True)


# -- folders in memory --------------------------------------------------------

PREFIX = "weft-"


def make_folder() -> Path:
    """Make a folder for payloads, in memory if possible.

    Folders of dead processes are removed.
    """
    for old in sorted(o for home in (_home(), _disk()) for o in home.glob(f"{PREFIX}*-*")):
        pid = old.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_home()))


def clear_folder(folder: Path) -> None:
    """Remove all payloads of a folder, and its counterpart on disk."""
    shutil.rmtree(_disk() / folder.name, ignore_errors=True)
    for path in folder.iterdir() if folder.exists() else ():
        path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder of payloads, and its counterpart on disk."""
    for path in (folder, _disk() / folder.name):
        shutil.rmtree(path, ignore_errors=True)


def outlived(folder: Path, *, seconds: float) -> bool:
    """Return whether the process that made a folder still lives after some seconds."""
    pid = int(folder.name.removeprefix(PREFIX).split("-")[0])
    deadline = time.monotonic() + seconds
    while _alive(pid) and not _is_zombie(pid):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.005)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["Z"]


def _home() -> Path:
    memory = Path("/dev/shm")  # noqa: S108  # only a private folder is made in it
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else _disk()


def _disk() -> Path:
    return Path(tempfile.gettempdir())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write(path: Path, buffers: list[memoryview]) -> tuple[Path, tuple[tuple[int, int], ...]]:
    """Write buffers, to disk if memory is full.

    A write to full memory raises an error; a write to a map would end the process by a signal.
    """
    try:
        return path, _write_at(path, buffers)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)
        if not full or path.parent.parent != _home() or _home() == _disk():
            raise
        path.unlink(missing_ok=True)
        spare = private_folder(_disk() / path.parent.name) / path.name
        return spare, _write_at(spare, buffers)


def _write_at(path: Path, buffers: list[memoryview]) -> tuple[tuple[int, int], ...]:
    spans = []
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        at = 0
        for buffer in buffers:
            begin = -(-at // _ALIGNED) * _ALIGNED
            file.seek(begin)
            rest = buffer.cast("B")
            while rest:
                rest = rest[file.write(rest) :]
            at = begin + buffer.nbytes
            spans.append((begin, at))
    return tuple(spans)
