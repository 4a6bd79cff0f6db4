"""Tables from name to factory, with the closest known name in the error."""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import nsmallest
from importlib import import_module
from typing import Any, Generic, Self, TypeVar

from weft.errors import UnknownName

T = TypeVar("T")


def closest(name: str, known: Iterable[str], *, listing: str = "") -> str:
    """Return ``"; did you mean 'x'?"`` for the closest name, or a list of known names.

    Of more than ten names, the list has the five closest; `listing` is the command with all.

    A transposition of neighbours counts as one mistake, so that 'hetf' is nearer to 'heft' than to
    'etf'. Long names are compared by their first 100 characters and shown up to 60.

    Examples
    --------
    >>> closest("hetf", ["etf", "heft", "cpop"])
    "; did you mean 'heft'?"
    """
    given = str(name)[:_COMPARED]
    names = list(known)
    ranked = sorted(
        (_distance(given, other[:_COMPARED]), -_similarity(given, other[:_COMPARED]), other)
        for other in _candidates(given, names)
    )
    near = next((other for _, unlike, other in ranked if unlike <= -_CUTOFF), None)
    if near is not None:
        return f"; did you mean '{_shown(near)}'?"
    if len(names) > _LISTED:
        first = ", ".join(_shown(other) for *_, other in ranked[: _LISTED // 2])
        see = f"; see: {listing}" if listing else ""
        return f"; known: {first}, ... ({len(names)} in all{see})"
    return f"; known: {', '.join(map(_shown, names))}" if names else ""


_COMPARED, _SHOWN, _CUTOFF = 100, 60, 0.6
_MOST, _LISTED = 300, 10


def _candidates(given: str, names: list[str]) -> list[str]:
    """Return the names worth a comparison: of many, those of about the same letters."""
    if len(names) <= _MOST:
        return names
    letters = Counter(given)
    return nsmallest(
        _MOST // 10, names, key=lambda other: (_unlike(letters, Counter(other[:_COMPARED])), other)
    )


def _unlike(one: Counter[str], other: Counter[str]) -> int:
    return (one - other).total() + (other - one).total()


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, one).ratio()


def _distance(one: str, other: str) -> tuple[int, bool]:
    """Return the Damerau-Levenshtein distance, and whether the starts differ."""
    before, last = list(range(len(other) + 1)), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1], one[:1] != other[:1]


def reject_unknown(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise `UnknownName` with the closest one for options that `what` does not have.

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


class Entry(str):
    """A name in a table, with its family and the sentence that describes it."""

    __slots__ = ("family", "summary")
    summary: str
    family: str

    def __new__(cls, name: str, *, summary: str = "", family: str = "") -> Self:
        """Make a name that carries its description."""
        entry = super().__new__(cls, name)
        entry.summary, entry.family = summary, family
        return entry


class Registry(Generic[T]):
    """A table of factories.

    Being registered is being tested: contract tests run over every entry. `listing` is the command
    that lists all names, and `renamed` maps former names to present ones: both are for error
    messages. So are `confused_with`, another table as "module:TABLE", which is imported only where
    a name is unknown here, and `usage`: the calls that take a name of this table, as `{}`.

    Examples
    --------
    >>> tools = Registry("tool")
    >>> @tools.register("hammer")
    ... def hammer() -> str:
    ...     '''Hit a nail.'''
    ...     return "bang"
    >>> tools.create("hammer"), tools.names(), tools.entries()[0].summary
    ('bang', ['hammer'], 'Hit a nail.')
    """

    def __init__(
        self,
        noun: str,
        *,
        listing: str = "",
        renamed: Mapping[str, str] | None = None,
        confused_with: str = "",
        usage: str = "",
    ) -> None:
        self.noun = noun
        self.usage = usage
        self._confused_with = confused_with
        self._listing = listing
        self._renamed = dict(renamed or {})
        self._factories: dict[str, Callable[..., T]] = {}
        self._entries: dict[str, Entry] = {}

    def register(
        self, name: str, *, family: str = "", summary: str = ""
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Enter a factory under a name (a decorator).

        Its summary is by default the first line of its docstring.
        """

        def enter(factory: Callable[..., T]) -> Callable[..., T]:
            if name in self._factories:
                raise ValueError(f"{self.noun} '{name}' is registered twice")
            self._factories[name] = factory
            self._entries[name] = Entry(name, summary=summary or first_line(factory), family=family)
            return factory

        return enter

    def factory(self, name: str) -> Callable[..., T]:
        """Return the factory of a name, or raise `UnknownName` with the closest known one."""
        if name not in self._factories:
            if name in self._renamed:
                raise UnknownName(f"{self.noun} '{name}' is now called '{self._renamed[name]}'")
            self._refuse_confused(name)
            near = closest(name, self.names(), listing=self._listing)
            raise UnknownName(f"unknown {self.noun} '{_shown(name)}'{near}")
        return self._factories[name]

    def _refuse_confused(self, name: str) -> None:
        """Raise `UnknownName` for a name of the other table only, and say who takes it."""
        if not self._confused_with:
            return
        module, _, table = self._confused_with.partition(":")
        other: Registry[Any] = getattr(import_module(module), table)
        if name in other:
            use = other.usage.format(name)
            raise UnknownName(f"'{name}' is a {other.noun}, not a {self.noun}: {use}")

    def create(self, name: str, **options: object) -> T:
        """Make the object of a name; options go to its factory."""
        return self.factory(name)(**options)

    def names(self) -> list[str]:
        """List all names, sorted."""
        return sorted(self._factories)

    def entries(self) -> list[Entry]:
        """List all names with their descriptions, sorted."""
        return [self._entries[name] for name in self.names()]

    def __contains__(self, name: object) -> bool:
        return name in self._factories


def first_line(factory: Callable[..., Any]) -> str:
    """Return the first line of the docstring of a function, class or partial of one."""
    target = factory.func if isinstance(factory, partial) else factory
    return (inspect.getdoc(target) or "").split("\n", maxsplit=1)[0]
