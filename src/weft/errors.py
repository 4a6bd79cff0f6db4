"""The exception tree: errors that weft raises on purpose, with one clear line."""

from __future__ import annotations

DISTRIBUTION = "weft-scheduling"
"""The name of this package on PyPI, where `weft` is another project."""


def visible(text: str) -> str:
    r"""Escape characters that control a terminal; ends of lines and tabs stay.

    Names from files go through here on their way to a terminal: messages, tables, verbs.

    Examples
    --------
    >>> visible("red: \x1b[31m"), visible("plain")
    ('red: \\x1b[31m', 'plain')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def cause(error: Exception) -> str:
    """Return why a file cannot be used, without the path and number of an `OSError`.

    Messages name the file themselves.

    Examples
    --------
    >>> cause(PermissionError(13, "Permission denied", "p.json")), cause(ValueError("no text"))
    ('Permission denied', 'no text')
    """
    return getattr(error, "strerror", None) or str(error)


class WeftError(Exception):
    """Root of the tree; its text names the user's object, the value and the remedy."""

    def __str__(self) -> str:
        """Return the text, in characters that a terminal shows."""
        return visible(super().__str__())


class InvalidInput(WeftError, ValueError):
    """Wrong data from outside.

    Examples: a cycle, a NaN, a task that fits no device, a broken file.
    """


class UnknownName(InvalidInput):
    """An unknown planner, policy, format or key; the text offers the closest one."""


class Unsupported(WeftError):
    """A valid request with a feature that this planner or policy does not handle."""


class Stuck(WeftError):
    """A simulation or run cannot go on: nothing is in flight and nothing is due."""


class MissingExtra(WeftError, ImportError):
    """An optional part of weft is not installed; the text says which extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install '{DISTRIBUTION}[{extra}]'"
        )
