"""Values on their way between processes: pickled, with large buffers in a file in memory that the reader maps instead of copying.

Pickle protocol 5 hands out the buffers of numpy arrays, wherever they are nested, so a list of arrays travels as well as one. The reader
gets arrays that are read-only: what one task was given, no other can spoil.
"""

# ruff: noqa: S301  # pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SHARED_FROM = 65536
"""Bytes from which a buffer goes into a file in memory."""

_ALIGNED = 64


class Payload(NamedTuple):
    """A pickled value. `spans` are the places of its buffers in the file; when `data` is empty, the first span is the pickle itself."""

    data: bytes
    path: str | None = None
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.data) + sum(end - begin for begin, end in self.spans)


def pack(value: Any, path: str | Path, *, shared_from: int = SHARED_FROM) -> Payload:
    """Pickle a value; large buffers go to a file at `path`, which is only written if there are some.

    Examples
    --------
    >>> unpack(pack({"a": [1, 2]}, "never-written"))
    {'a': [1, 2]}
    """
    large: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < shared_from:
            return True
        large.append(raw)
        return False

    data = pickle.dumps(value, protocol=5, buffer_callback=keep_inside)
    if len(data) >= shared_from:
        large.insert(0, memoryview(data))
        data = b""
    if not large:
        return Payload(data)
    where, spans = _write(Path(path), large)
    return Payload(data, str(where), spans)


def unpack(payload: Payload) -> Any:
    """The value; its large arrays are views of the file, read-only."""
    if payload.path is None:
        return pickle.loads(payload.data)
    with Path(payload.path).open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    views = [whole[begin:end] for begin, end in payload.spans]
    data = payload.data or views.pop(0)
    return pickle.loads(data, buffers=views)


def save(payload: Payload, path: Path) -> None:
    """Write a payload to one file that outlives the run: a header of lengths, then the bytes. Either all of it is there or nothing."""
    blob = b"" if payload.path is None else Path(payload.path).read_bytes()
    header = pickle.dumps((payload.data, payload.spans))
    draft = path.with_suffix(".draft")
    draft.write_bytes(len(header).to_bytes(8, "little") + header + blob)
    draft.replace(path)


def load(path: Path, into: Path) -> Payload:
    """Read what `save` wrote; buffers go to the file `into`."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    data, spans = pickle.loads(raw[8 : 8 + size])
    if not spans:
        return Payload(data)
    into.write_bytes(raw[8 + size :])
    return Payload(data, str(into), spans)


def drop(payload: Payload) -> None:
    """Remove its file; readers that have it mapped keep it until they are done."""
    if payload.path is not None:
        Path(payload.path).unlink(missing_ok=True)


# -- folders in memory --------------------------------------------------------

PREFIX = "weft-"


def make_folder() -> Path:
    """A folder for parcels of this process, in memory where the system has such a place; leftovers of dead processes are removed."""
    home = _home()
    for old in sorted(home.glob(f"{PREFIX}*-*")):
        pid = old.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))


def _home() -> Path:
    memory = Path("/dev/shm")  # noqa: S108  # a folder of our own is made in it, readable by nobody else
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write(path: Path, buffers: list[memoryview]) -> tuple[Path, tuple[tuple[int, int], ...]]:
    """Written, not mapped: a full memory then is an error, not a signal. The disk is the way out."""
    try:
        return path, _write_at(path, buffers)
    except OSError:
        path.unlink(missing_ok=True)
        spare = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getpid()}-{path.name}"
        return spare, _write_at(spare, buffers)


def _write_at(path: Path, buffers: list[memoryview]) -> tuple[tuple[int, int], ...]:
    spans = []
    with path.open("wb", buffering=0) as file:
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
