"""Results on disk: keyed digest, length of the header, header, buffers.

The digest is verified before anything is unpickled: a file that was cut, damaged, or written by
anybody else is refused.
"""

# ruff: noqa: S301  # pickles that carry this user's digest
from __future__ import annotations

import hmac
import pickle
import secrets
import tempfile
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.runtime.backends.payload import Payload, pickled, unpack
from weft.runtime.private_files import digest_for, digest_of, open_private

_DIGEST = 32


def save(payload: Payload, path: Path) -> None:
    """Write a payload to one file. Atomic."""
    blob = b"" if payload.path is None else Path(payload.path).read_bytes()
    header = pickle.dumps((payload.data, payload.spans))
    size = len(header).to_bytes(8, "little")
    digest = digest_for(path)
    for part in (size, header, blob):
        digest.update(part)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open_private(draft, "xb") as file:
            for part in (digest.digest(), size, header, blob):
                file.write(part)
        if path.is_dir() and not path.is_symlink():
            path.rename(draft.with_suffix(".damaged"))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def save_value(value: Any, path: Path) -> None:
    """Write a value to one file. Atomic."""
    save(Payload(pickled(value)[0]), path)


def load_value(path: Path) -> Any:
    """Return the value in a file written by `save`."""
    with tempfile.TemporaryDirectory() as folder:
        return unpack(load(path, Path(folder, "buffers")))


def damage(path: Path) -> str:
    """Return why a result cannot be used; empty if it can."""
    try:
        with open_private(path) as file:
            stored = file.read(_DIGEST)
            sound = hmac.compare_digest(stored, digest_of(path, file))
    except FileNotFoundError:
        return f"{path} is missing"
    except (OSError, InvalidInput) as error:
        return str(error)
    return "" if sound else f"{path} is damaged, or not written by you"


def load(path: Path, into: Path) -> Payload:
    """Read a file written by `save`; buffers go to the new file `into`."""
    try:
        with open_private(path) as file:
            stored, raw = file.read(_DIGEST), file.read()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None
    digest = digest_for(path)
    digest.update(raw)
    if not hmac.compare_digest(stored, digest.digest()):
        raise InvalidInput(f"{path} is damaged, or not written by you; start the run again")
    size = int.from_bytes(raw[:8], "little")
    data, spans = pickle.loads(raw[8 : 8 + size])
    if not spans:
        return Payload(data)
    with open_private(into, "xb") as file:
        file.write(memoryview(raw)[8 + size :])
    return Payload(data, str(into), spans)
