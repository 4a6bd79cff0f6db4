"""Tables from name to factory, with the closest known name in the error."""

from __future__ import annotations

import difflib
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

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Enter a factory under a name (a decorator)."""

        def enter(factory: Callable[..., T]) -> Callable[..., T]:
            if name in self._factories:
                raise ValueError(f"{self.noun} '{name}' is registered twice")
            self._factories[name] = factory
            return factory

        return enter

    def factory(self, name: str) -> Callable[..., T]:
        """Return the factory of a name, or raise `UnknownName` with the closest known one."""
        if name not in self._factories:
            raise UnknownName(f"unknown {self.noun} '{name}'{closest(name, self.names())}")
        return self._factories[name]

    def create(self, name: str, **options: object) -> T:
        """Make the object of a name; options go to its factory."""
        return self.factory(name)(**options)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._factories)
