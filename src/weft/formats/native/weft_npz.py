"""weft's schema as NPZ.

It has the keys of the JSON, nested ones as paths; no pickles and no times.
"""

from __future__ import annotations

import io
import math
import re
import sys
import warnings
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.formats.parsing.limits import RECORD_CELLS, WORD_CELLS, check_bytes, check_cells

ZIP_MAGIC, _ENTRY_MAGIC = b"PK\x03\x04", b"PK\x01\x02"
OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time stamp of all members, so that the same object gives the same bytes."""

_SPECIAL, _ESCAPED = re.compile(r"[%/\\\x00]"), re.compile("%(25|2F|5C|00)")
"""Characters of keys that are escaped in paths, and their escaped forms."""


def write_npz(record: dict[str, Any]) -> bytes:
    """Return the archive of a nested dict of columns."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for key, column in _columns(record, ""):
            member = zipfile.ZipInfo(f"{key}.npy", OLDEST)
            member.create_system = 3
            member.compress_type = zipfile.ZIP_DEFLATED
            content = io.BytesIO()
            np.lib.format.write_array(content, column, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    return packed.getvalue()


def _columns(value: object, key: str) -> list[tuple[str, NDArray[Any]]]:
    if isinstance(value, dict):
        return [
            pair
            for name, entry in value.items()
            for pair in _columns(entry, f"{key}/{_escaped(name)}" if key else _escaped(name))
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [pair for i, entry in enumerate(value) for pair in _columns(entry, f"{key}/{i}")]
    if isinstance(value, str):
        _refuse_nul(key, value)
        return [(key, np.array(value, np.str_))]
    if isinstance(value, list):
        for entry in value:
            _refuse_nul(key, entry)
        return [(key, np.array(value, np.str_))]
    column = np.asarray(value)
    return [(key, np.ascontiguousarray(column) if column.ndim else column)]


def _escaped(name: str) -> str:
    """Escape the characters of a key that would end a part of a path, as in URLs."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", name)


def _unescaped(part: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)


def _refuse_nul(key: str, text: str) -> None:
    if text.endswith("\0"):  # numpy pads text with NUL, and drops it again
        raise InvalidInput(
            f"{key} holds the text {text!r}, whose last NUL an NPZ file cannot keep; save as .json"
        )


def read_npz(content: bytes) -> dict[str, Any]:
    """Return the nested dict of an archive.

    Arrays of objects are refused, so that no code runs.
    """
    nested: dict[str, Any] = {}
    entries = content.count(_ENTRY_MAGIC)
    check_cells(RECORD_CELLS * entries, f"an archive of {entries} members")
    cells = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for member in _members(archive):
                with archive.open(member) as stream:
                    shape, dtype = _header(member, stream)
                # Small types are widened when read, and empty text takes no bytes in the archive.
                cells += math.prod(shape) * (WORD_CELLS if dtype.kind == "U" else 1)
                check_cells(cells, "an archive of this size")
                array = _read_array(member.filename, archive.read(member))
                _enter(nested, member.filename.removesuffix(".npy"), array)
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001  # zipfile, zlib and numpy all fail
        raise InvalidInput(f"is a damaged NPZ file: {error or type(error).__name__}") from None
    return nested


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = archive.infolist()
    check_bytes(sum(member.file_size for member in members))
    return members


def _header(member: zipfile.ZipInfo, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array; refuse those that do not fit its bytes."""
    name = member.filename
    version = np.lib.format.read_magic(stream)
    if version not in {(1, 0), (2, 0)}:
        raise InvalidInput(f"'{name}' has the unknown NPY version {version}")
    reader = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = reader(stream)
    if dtype.hasobject:
        raise InvalidInput(
            f"'{name}' holds pickled objects, which are never loaded; save plain numbers and text"
        )
    if dtype.kind not in "fiubU":
        raise InvalidInput(f"'{name}' holds {dtype}; it must hold numbers, true and false, or text")
    # In Python's whole numbers: numpy's would wrap around.
    if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
        raise InvalidInput(
            f"'{name}' declares shape {shape} of {dtype}, but has "
            f"{member.file_size - stream.tell()} bytes"
        )
    return shape, dtype


def _read_array(name: str, content: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    if array.dtype.kind == "U" and array.itemsize and (_codes(array) > sys.maxunicode).any():
        raise InvalidInput(f"'{name}' holds text with codes that are no characters")
    return array


def _codes(text: NDArray[Any]) -> NDArray[Any]:
    """Return the code points of text; Python fails on codes that are no characters."""
    return np.ravel(text).view(np.dtype(np.uint32).newbyteorder(text.dtype.byteorder))


def _enter(nested: dict[str, Any], path: str, array: NDArray[Any]) -> None:
    *folders, key = (_unescaped(part) for part in path.split("/"))
    for folder in folders:
        nested = nested.setdefault(folder, {})
        if not isinstance(nested, dict):
            raise InvalidInput(f"'{path}' is both a column and a folder")
    if key in nested:
        raise InvalidInput(f"'{path}' is given twice")
    nested[key] = array
