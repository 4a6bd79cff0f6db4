"""Changes as people write them: `add 1xA100`, `bandwidth x2`, `faster align=1.5`."""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import InvalidInput, UnknownName
from weft.planners.whatif import changes
from weft.registry import closest
from weft.typed import typed

DIGITS = 10
"""Longest count that is read in full; a longer one is too large in any case."""


@typed
def parse_change(text: str) -> changes.Change:
    """Return the change that a text describes.

    Texts: ``add 2xA100`` (with a price per hour: ``add 2xA100@3.5``), ``remove T4:0``, ``remove
    2xT4``, ``bandwidth x2``, ``bandwidth V100,T4=x2``, ``latency x0.5``, ``faster align=1.5`` (a
    kind of task), ``speed A100=1.2`` (a device or a kind of device).

    Examples
    --------
    >>> parse_change("add 2xA100"), parse_change("bandwidth x2")
    (AddDevice(kind='A100', count=2, price=None), Bandwidth(factor=2.0, between=()))
    >>> str(parse_change("faster align=1.5"))
    'faster align=1.5'
    """
    verb, _, rest = text.strip().partition(" ")
    if verb not in READERS:
        raise UnknownName(f"unknown change '{verb}'{closest(verb, READERS)}")
    if not rest.strip():
        raise InvalidInput(f"change '{text}' is incomplete; write it like: {EXAMPLES[verb]}")
    return READERS[verb](rest.strip())


def _add(text: str) -> changes.Change:
    count, kind = _counted(text)
    kind, at, price = kind.partition("@")
    return changes.AddDevice(kind, count, _number(price, f"add {text}") if at else None)


def _remove(text: str) -> changes.Change:
    count, name = _counted(text)
    return changes.RemoveDevice(name, count)


READERS: dict[str, Callable[[str], changes.Change]] = {
    "add": _add,
    "remove": _remove,
    "bandwidth": lambda text: changes.Bandwidth(*_link_factor(text, "bandwidth")),
    "latency": lambda text: changes.Latency(*_link_factor(text, "latency")),
    "faster": lambda text: changes.Faster(*_named_factor(text, "faster")),
    "speed": lambda text: changes.DeviceSpeed(*_named_factor(text, "speed")),
}

EXAMPLES = {
    "add": "add 1xA100",
    "remove": "remove T4:0",
    "bandwidth": "bandwidth x2",
    "latency": "latency x0.5",
    "faster": "faster align=1.5",
    "speed": "speed A100=1.2",
}


def _counted(text: str) -> tuple[int, str]:
    """Parse ``2xT4`` -> (2, "T4"); a name without a count counts once."""
    number, x, name = text.partition("x")
    counted = x and name and number.isascii() and number.isdecimal()
    return (int(number[:DIGITS]), name) if counted else (1, text)


def _factor(text: str, verb: str) -> tuple[str, float]:
    where, _, factor = text.rpartition("=")
    return where, _number(factor.strip().removeprefix("x"), f"{verb} {text}")


def _named_factor(text: str, verb: str) -> tuple[str, float]:
    where, factor = _factor(text, verb)
    if not where:
        raise InvalidInput(f"'{verb} {text}' has no name; write it like: {EXAMPLES[verb]}")
    return where, factor


def _link_factor(text: str, verb: str) -> tuple[float, tuple[str, ...]]:
    where, factor = _factor(text, verb)
    return factor, tuple(name.strip() for name in where.split(",")) if where else ()


def _number(text: str, change: str) -> float:
    try:
        return float(text)
    except ValueError:
        verb = change.partition(" ")[0]
        raise InvalidInput(
            f"'{change}': '{text}' is not a number; write it like: {EXAMPLES[verb]}"
        ) from None
