"""Code of the user that a verb runs: its failures become its own frames and one line."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import weft
from weft.errors import InvalidInput, WeftError


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """Print the user's frames of a failure; raise one line that begins with `what`."""
    try:
        yield
    except WeftError:
        raise
    except SystemExit as left:
        raise InvalidInput(
            f"{what} called sys.exit({'' if left.code is None else repr(left.code)}), and nothing "
            "was run; put such calls under: if __name__ == '__main__'"
        ) from None
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        print(_frames(error), end="", file=sys.stderr)
        text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        raise InvalidInput(f"{what} failed: {text}") from None


def _frames(error: Exception) -> str:
    """Return the frames of the user's files, and the line of a syntax error."""
    shown = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    head = "Traceback (most recent call last):\n" if shown else ""
    place = traceback.format_exception_only(error)[:-1] if isinstance(error, SyntaxError) else []
    return head + "".join([*traceback.format_list(shown), *place])


def _is_users(filename: str) -> bool:
    """Return whether a file belongs neither to weft nor to Python and its packages."""
    known = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders = [Path(weft.__file__).parent, *map(Path, known)]
    path = Path(filename)
    return path.exists() and not any(path.is_relative_to(folder) for folder in folders)
