"""Arguments of tasks, checked by the signatures of functions before a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from weft.errors import InvalidInput
from weft.runtime.backends.calls import name_of


class Signatures:
    """Functions and the arguments for which they were checked.

    A function without a readable signature, such as `dict`, takes any arguments. So does a wrapper
    with ``*args`` and ``**kwargs``: the function inside may receive others.

    Examples
    --------
    >>> Signatures().refuse_misfit("show-0", len, 2, (), "two results")
    Traceback (most recent call last):
    weft.errors.InvalidInput: task 'show-0' calls 'len' with two results: too many ...
    """

    def __init__(self) -> None:
        self._read: dict[int, inspect.Signature | None] = {}
        """Identity of a function -> its signature; None: it has none."""
        self._fits: set[tuple[int, int, tuple[str, ...]]] = set()
        """Function, number of positional arguments and names of the others, if they fit."""

    def refuse_misfit(
        self,
        task: str,
        function: Callable[..., Any],
        args: int,
        kwargs: Collection[str],
        given: str = "",
    ) -> None:
        """Refuse a call with missing or unknown arguments; `given` describes them."""
        call = (id(function), args, tuple(kwargs))
        if call in self._fits:
            return
        if id(function) not in self._read:
            self._read[id(function)] = signature_of(function)
        signature = self._read[id(function)]
        if signature is not None:
            try:
                signature.bind(*(None,) * args, **dict.fromkeys(kwargs))
            except TypeError as error:
                beside = f" with {given}" if given else ""
                raise InvalidInput(
                    f"task '{task}' calls '{name_of(function)}'{beside}: {error}"
                ) from None
        self._fits.add(call)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature by which Python calls a function; None: it has none."""
    with suppress(TypeError, ValueError):
        return inspect.signature(function, follow_wrapped=False)
    return None
