"""Numbers, seconds, bytes, shares, energy and money as text with units; lists."""

from __future__ import annotations

import math

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
MISSING = "\N{EN DASH}"
"""Stands where there is no value."""


def format_number(value: float, *, digits: int = 4) -> str:
    """Format a number with significant digits, grouped thousands, no trailing zeros.

    Examples
    --------
    >>> format_number(1234567.0), format_number(3.14159), format_number(0.000012345)
    ('1,234,567', '3.142', '1.234e-05')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_seconds(value: float) -> str:
    """Format a duration in the unit that fits it.

    Examples
    --------
    >>> format_seconds(80), format_seconds(0.00125), format_seconds(5400), format_seconds(200000)
    ('80 s', '1.25 ms', '1 h 30 min', '2 d 7 h 33 min')
    """
    size = abs(value)
    if not math.isfinite(value) or size == 0 or 1 <= size < 600:
        return f"{format_number(value)} s"
    if size < 1:
        scale, unit = (1e3, "ms") if size >= 1e-3 else (1e6, "µs") if size >= 1e-6 else (1e9, "ns")
        return f"{format_number(value * scale)} {unit}"
    if size >= 1e9:
        return f"{format_number(value / 86400)} d"
    return ("-" if value < 0 else "") + _clock(round(size))


def format_bytes(value: float) -> str:
    """Format a size in the decimal unit that fits it.

    Examples
    --------
    >>> format_bytes(0), format_bytes(1500), format_bytes(2.5e9)
    ('0 B', '1.5 kB', '2.5 GB')
    """
    power = 0
    while abs(value) >= 1000 and power < len(_BYTES) - 1 and math.isfinite(value):
        value /= 1000
        power += 1
    return f"{format_number(value)} {_BYTES[power]}"


def unit_of(size: float, unit: str) -> tuple[float, str]:
    """Return the factor and the unit ("s", "B", "%" or none) that fit a size.

    Examples
    --------
    >>> unit_of(0.002, "s"), unit_of(0.5, "%"), unit_of(3.0, "")
    ((1000.0, ' ms'), (100.0, ' %'), (1.0, ''))
    """
    if unit == "%":
        return 100.0, " %"
    if unit == "s":
        known = ((1.0, " s"), (1e3, " ms"), (1e6, " µs"), (1e9, " ns"))
        return next((pair for pair in known if size * pair[0] >= 1), known[-1])
    if unit == "B":
        power = min(max(int(math.log10(size) // 3), 0), len(_BYTES) - 1) if size > 0 else 0
        return 1000.0**-power, f" {_BYTES[power]}"
    return 1.0, ""


def format_share(value: float) -> str:
    """Format a share as percent with one decimal place.

    Examples
    --------
    >>> format_share(0.231), format_share(1.0)
    ('23.1 %', '100.0 %')
    """
    return MISSING if math.isnan(value) else f"{100 * value:.1f} %"


def format_energy(joules: float) -> str:
    """Format energy in joules, or in kilowatt hours from a tenth of one on.

    Examples
    --------
    >>> format_energy(1500.0), format_energy(7.2e6)
    ('1,500 J', '2 kWh')
    """
    big = abs(joules) >= 3.6e5
    return f"{format_number(joules / 3.6e6)} kWh" if big else f"{format_number(joules)} J"


def format_money(value: float) -> str:
    """Format an amount of money in the currency of the prices.

    Examples
    --------
    >>> format_money(1234.5), format_money(0.00123), format_money(0.0)
    ('1,234.50', '0.00123', '0')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else format_number(value, digits=3)


def share_text(value: float, total: float) -> str:
    """Format a share as percent."""
    return f"{100 * value / total:.0f} %" if total > 0 else "0 %"


def list_text(words: list[str]) -> str:
    """Join words with commas and "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _clock(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (0 if days or hours else left, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)
