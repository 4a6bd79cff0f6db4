"""Numbers with units: "40 GB", "100 Gbit/s", "25 GB/s", "5 us"."""

from __future__ import annotations

import re
from decimal import Decimal, DecimalException

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import MAX_NUMBER_LENGTH
from weft.registry import closest

_STEPS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_BYTES = {f"{step}B": Decimal(1000) ** power for step, power in _STEPS.items()}
_BYTES |= {f"{step}iB": Decimal(1024) ** power for step, power in _STEPS.items() if power}
_BITS = {f"{step}bit": Decimal(1000) ** power / 8 for step, power in _STEPS.items()}
_RATES = {f"{unit}/s": factor for unit, factor in {**_BYTES, **_BITS}.items()}
_RATES |= {f"{step}bps": Decimal(1000) ** power / 8 for step, power in _STEPS.items()}
_SECONDS = {
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
}
_SECONDS |= {"min": Decimal(60), "h": Decimal(3600)}

UNITS = {
    "bytes": {**_BYTES, **_BITS},
    "bytes per second": _RATES,
    "seconds": _SECONDS,
    "watts": {"W": Decimal(1), "mW": Decimal("1e-3"), "kW": Decimal(1000)},
    "work per second": {},
    "number": {},
    "money per hour": {"/h": Decimal(1), "per hour": Decimal(1)},
}
"""Dimension -> unit -> factor. kB is 1000 bytes, KiB 1024; a bit is an eighth of a byte. A
"number", such as a share or a count of cores, has no units."""

# Possessive, so that the time is linear in the length of the text.
_NUMBER = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d{1,3})?")
_DIGIT = re.compile(r"\d")


def quantity(value: object, dimension: str, what: str) -> float:
    """Return a number in seconds, bytes, bytes per second or watts.

    A number without a unit is returned as it is.

    Examples
    --------
    >>> quantity("40 GB", "bytes", "memory")
    40000000000.0
    >>> quantity("100 Gbit/s", "bytes per second", "bandwidth")
    12500000000.0
    >>> quantity("5 us", "seconds", "latency"), quantity("inf", "bytes", "memory")
    (5e-06, inf)
    """
    if isinstance(value, str):
        return np.inf if value.strip() == "inf" else _with_unit(value, dimension, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{what} is {shown(value)}; it must be a number{_example(dimension)}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"{what} is too large to be used") from None


def _with_unit(text: str, dimension: str, what: str) -> float:
    stripped = text.strip()
    match = _NUMBER.match(stripped)
    unit = stripped[match.end() :].strip() if match else ""
    if match is None or match.end() > MAX_NUMBER_LENGTH or _DIGIT.search(unit):
        raise InvalidInput(f"{what} is {shown(text)}; it must be a number{_example(dimension)}")
    number = match[0]
    units = UNITS[dimension]
    if unit and not units:
        raise InvalidInput(f"{what} is {shown(text)}; it must be a number without a unit")
    if unit and unit not in units:
        raise InvalidInput(
            f"{what} is {shown(text)}; {shown(unit)} is no unit of "
            f"{dimension}{closest(unit, units)}"
        )
    try:  # decimal, so that 5 us is the number nearest to 0.000005
        made = float(Decimal(number) * units[unit] if unit else Decimal(number))
    except (DecimalException, OverflowError):
        made = np.inf
    if np.isinf(made):
        raise InvalidInput(f"{what} is {shown(text)}, which is too large to be used")
    return made


def _example(dimension: str) -> str:
    examples = {
        "bytes": "40 GB",
        "bytes per second": "25 GB/s",
        "seconds": "5 us",
        "watts": "400 W",
        "money per hour": "2.50 /h",
    }
    return f' or a string such as "{examples[dimension]}"' if dimension in examples else ""
