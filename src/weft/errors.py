"""The exception tree: everything weft raises on purpose is a `WeftError` with one clear line."""

from __future__ import annotations

DISTRIBUTION = "weft-scheduling"
"""The name of this package on PyPI, where `weft` is another project."""


class WeftError(Exception):
    """Root of the tree; its text names the user's object, the value and the remedy."""


class InvalidInput(WeftError, ValueError):
    """Data from outside is wrong: a cycle, a NaN, a task that fits no device, a broken file."""


class UnknownName(InvalidInput):
    """An unknown planner, policy, format or key; the text offers the closest known one."""


class Unsupported(WeftError):
    """The request is valid, but this planner or policy does not handle one of its features."""


class Stuck(WeftError):
    """A simulation or run cannot go on: nothing is in flight and nothing is due."""


class MissingExtra(WeftError, ImportError):
    """An optional part of weft is not installed; the text says which extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install '{DISTRIBUTION}[{extra}]'"
        )
