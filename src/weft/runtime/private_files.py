"""Files of one user, which others cannot read, replace or redirect unnoticed.

Folders have the mode 0700 and files 0600; both must belong to the user, and symbolic links are not
followed. A digest with the user's own key shows whether a file was changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import IO, Any

from weft.errors import InvalidInput, WeftError

KEY_BYTES = 32
_CHUNK = 1 << 20


def state_folder() -> Path:
    """Return the folder of weft's state: in $XDG_STATE_HOME, or in ~/.local/state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft"


def private_folder(path: Path) -> Path:
    """Make a folder that only its user may enter.

    A link and the folder of another user are refused.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        _refuse_other(path, found, "folder")
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be used as a folder: {error.strerror}") from None
    except InvalidInput:
        raise
    except ValueError as error:  # a null byte, or a surrogate
        raise InvalidInput(f"{str(path)!a}: cannot be the name of a folder: {error}") from None
    return path


def open_private(path: Path, mode: str = "rb", **options: Any) -> IO[Any]:
    """Open a file of this user.

    `InvalidInput` for links, folders and files of other users.

    `FileNotFoundError` if there is no file and `mode` only reads.
    """
    flags = {"r": os.O_RDONLY, "a": os.O_RDWR | os.O_APPEND | os.O_CREAT}.get(
        mode[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL
    )
    hard = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | hard, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        link = "a symbolic link, which weft does not follow" if path.is_symlink() else None
        raise InvalidInput(f"{path}: cannot be opened: {link or error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        _refuse_other(path, found, "file")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, mode, **options)
    except BaseException:
        os.close(descriptor)
        raise


def lock(file: IO[Any], refusal: str) -> None:
    """Take the lock of an open file; refuse if another process has it.

    The lock ends with the process.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InvalidInput(refusal) from None


def user_key() -> bytes:
    """Return the key of this user's digests; the first use makes it."""
    path = state_folder() / "key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make_key(path)
        with open_private(path) as file:
            key: bytes = file.read(KEY_BYTES + 1)
    except OSError as error:
        raise WeftError(
            f"{path}: the key of kept results cannot be made or read: {error.strerror}; "
            "set XDG_STATE_HOME to a folder of yours"
        ) from None
    if len(key) != KEY_BYTES:
        raise WeftError(f"{path}: is damaged; remove it (tasks of kept runs then run again)")
    return key


def digest_of(path: Path, file: IO[bytes]) -> bytes:
    """Return the keyed digest of the rest of a file, bound to its name and folder."""
    digest = digest_for(path)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.digest()


def digest_for(path: Path) -> hmac.HMAC:
    """Return the keyed digest of the names of a file and its folder, to be continued."""
    return hmac.new(user_key(), f"{path.parent.name}/{path.name}\0".encode(), hashlib.sha256)


def _make_key(path: Path) -> None:
    draft = path.with_name(f"key.{secrets.token_hex(8)}")
    with open_private(draft, "xb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    try:
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(draft, path)
    finally:
        draft.unlink()


def _refuse_other(path: Path, found: os.stat_result, kind: str) -> None:
    """Refuse files of another kind or of another user."""
    mode = found.st_mode
    kinds = {"symbolic link": stat.S_ISLNK, "folder": stat.S_ISDIR, "file": stat.S_ISREG}
    is_a = next((name for name, test in kinds.items() if test(mode)), "device or pipe")
    if is_a != kind:
        raise InvalidInput(f"{path} is a {is_a}, not a {kind}; remove it")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise InvalidInput(f"{path} belongs to user {found.st_uid}, not to you; use another place")
