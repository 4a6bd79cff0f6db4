"""The text of users' exceptions: bounded, even if making it raises an error."""

from __future__ import annotations

import traceback
from types import TracebackType

MOST_LINE = 10_000
"""Characters of the text of an exception that a report keeps."""

MOST_TRACEBACK = 100_000
"""Characters of a traceback that a report keeps."""


def error_line(error: BaseException) -> str:
    r"""Return type and text of an exception in one line, also if its text raises.

    Examples
    --------
    >>> error_line(ValueError("a\nb")), error_line(KeyboardInterrupt())
    ('ValueError: a b', 'KeyboardInterrupt')
    """
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001  # code of the user
        return f"{name} (its text cannot be shown: __str__ raises {type(second).__name__})"
    text = " ".join(clipped(text, MOST_LINE).split())
    return f"{name}: {text}" if text else name


def traceback_text(error: BaseException, begin: TracebackType | None) -> str:
    """Return the traceback of an exception from a frame on; empty if that raises."""
    try:
        text = "".join(traceback.format_exception(type(error), error, begin))
    except BaseException:  # noqa: BLE001  # code of the user
        return ""
    return clipped(text, MOST_TRACEBACK)


def clipped(text: str, most: int) -> str:
    """Return a text without its middle if it is too long.

    Examples
    --------
    >>> clipped("abcdefgh", 4)
    'ab ... (4 characters left out) ... gh'
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
