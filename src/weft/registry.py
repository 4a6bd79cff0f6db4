"""Tables from name to factory, with the closest known name in the error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from weft.errors import UnknownName

T = TypeVar("T")


def closest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, or the list of known names.

    A transposition of neighbours counts as one mistake, so that 'hetf' is nearer to 'heft' than to
    'etf'. Long names are compared by their first 100 characters and shown up to 60.

    Examples
    --------
    >>> closest("hetf", ["etf", "heft", "cpop"])
    "; did you mean 'heft'?"
    """
    given = name[:_COMPARED]
    names = list(known)
    ranked = sorted(
        (_distance(given, other[:_COMPARED]), -_similarity(given, other[:_COMPARED]), other)
        for other in names
    )
    near = next((other for _, unlike, other in ranked if unlike <= -_CUTOFF), None)
    if near is not None:
        return f"; did you mean '{_shown(near)}'?"
    return f"; known: {', '.join(map(_shown, names))}" if names else ""


_COMPARED, _SHOWN, _CUTOFF = 100, 60, 0.6


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, one).ratio()


def _distance(one: str, other: str) -> tuple[int, bool]:
    """Return the Damerau-Levenshtein distance (adjacent swaps), and whether the starts differ."""
    before, last = list(range(len(other) + 1)), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1], one[:1] != other[:1]


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
