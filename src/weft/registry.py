"""Tables from name to factory, with the closest known name in the error."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from weft.errors import UnknownName

T = TypeVar("T")


def closest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, or the whole list when none is close.

    Examples
    --------
    >>> closest("hetf", ["heft", "cpop"])
    "; did you mean 'heft'?"
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(known)}" if known else ""


def reject_unknown(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise `UnknownName`, with the closest known option, for the first one `what` does not have.

    Examples
    --------
    >>> reject_unknown(["taks"], ["tasks", "seed"], "generator 'layered'")
    Traceback (most recent call last):
    ...
    weft.errors.UnknownName: generator 'layered' has no option 'taks'; did you mean 'tasks'?
    """
    known = list(known)
    for option in options:
        if option not in known:
            raise UnknownName(f"{what} has no option '{option}'{closest(option, known)}")


class Registry(Generic[T]):
    """A table of factories. Being registered is being tested: the contract tests run over every entry.

    Examples
    --------
    >>> tools = Registry("tool")
    >>> @tools.register("hammer")
    ... def hammer() -> str:
    ...     return "bang"
    >>> tools.create("hammer"), tools.names()
    ('bang', ['hammer'])
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._factories: dict[str, Callable[..., T]] = {}
        self._summaries: dict[str, str] = {}

    def register(
        self, name: str, *, summary: str = ""
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Register a factory under a name (a decorator); `summary` describes it in one line."""

        def enter(factory: Callable[..., T]) -> Callable[..., T]:
            if name in self._factories:
                raise ValueError(f"{self.noun} '{name}' is registered twice")
            self._factories[name] = factory
            self._summaries[name] = summary
            return factory

        return enter

    def factory(self, name: str) -> Callable[..., T]:
        """Return the factory of a name, or raise `UnknownName` with the closest known one."""
        if name not in self._factories:
            raise UnknownName(f"unknown {self.noun} '{name}'{closest(name, self.names())}")
        return self._factories[name]

    def summary(self, name: str) -> str:
        """Return the description of a name: its own, or the first line of the docstring."""
        factory = self.factory(name)
        return self._summaries[name] or (inspect.getdoc(factory) or "").split("\n", 1)[0]

    def create(self, name: str, **options: object) -> T:
        """Make the object of a name; options go to its factory."""
        return self.factory(name)(**options)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._factories)
