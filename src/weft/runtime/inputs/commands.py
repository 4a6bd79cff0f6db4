"""Commands as tasks: a program and its arguments instead of a function."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.errors import InvalidInput, WeftError

TAIL = 4096
"""Bytes of a command's output that are kept."""


class CommandFailed(WeftError):
    """A command of a task ended with another exit code than 0."""


def function_of(given: Callable[..., Any] | Sequence[str], name: str) -> Callable[..., Any]:
    r"""Return a function as it is, and a command as a function that runs it.

    Examples
    --------
    >>> function_of(["echo", "done"], "say")()["output"]
    'done\n'
    """
    if callable(given):
        return given
    if (
        not isinstance(given, list | tuple)
        or not given
        or not all(isinstance(word, str) for word in given)
    ):
        raise InvalidInput(
            f"'{name}' is {given!r}; give a function, or a command as [program, argument, ...]"
        )
    return partial(run_command, argv=tuple(given))


def run_command(*_: Any, argv: Sequence[str]) -> dict[str, Any]:
    r"""Run a command without a shell and return the end of its output.

    Examples
    --------
    >>> run_command(argv=["echo", "done"])
    {'code': 0, 'output': 'done\n'}
    """
    ended = subprocess.run(  # noqa: S603  # a command of the user
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = ended.stdout[-TAIL:].decode("utf-8", "replace")
    if ended.returncode != 0:
        said = f": {output[-300:]}" if output.strip() else ", without any output"
        raise CommandFailed(f"'{argv[0]}' ended with exit code {ended.returncode}{said}")
    return {"code": 0, "output": output}
