"""The one definition of colours: charts, figures and pages all read it here.

The first eight categories differ by at least 15 (CIE 1976 colour difference) for readers with
normal vision, protanopia, deuteranopia and tritanopia (simulated after Machado, Oliveira and
Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009), and
have a contrast of at least 3 to 1 against the page, light or dark. Darker and lighter shades of
them follow; after the last one the first comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_FIRST = ("#5165a7", "#e35a6a", "#1f7a3a", "#a08a11", "#2a9fc9", "#a93377", "#9d3305", "#2b3776")
_FIRST_DARK = (
    "#4f62a6",
    "#e35a6a",
    "#1f7a3a",
    "#e6ca4c",
    "#66ccee",
    "#c864a1",
    "#e99652",
    "#8b8cd3",
)


def mixed(color: str, other: str, share: float) -> str:
    """Move a colour towards another by a share.

    Examples
    --------
    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _shades(colors: Sequence[str]) -> tuple[str, ...]:
    dark = [mixed(c, "#000000", 0.38) for c in colors]
    return (*colors, *(mixed(c, "#ffffff", 0.4) for c in colors), *dark)


CATEGORIES = _shades(_FIRST)
DARK_CATEGORIES = _shades(_FIRST_DARK)

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#1c2128",
    "muted": "#5b6573",
    "line": "#d5dae1",
    "accent": "#2f5f98",
    "bad": "#c0392b",
    "good": "#1a7431",
}
DARK = {
    "paper": "#14171c",
    "panel": "#1d2128",
    "ink": "#e6e9ee",
    "muted": "#9aa5b3",
    "line": "#353c47",
    "accent": "#8ab4e8",
    "bad": "#ff8577",
    "good": "#7ccf8f",
}


def category(number: int) -> str:
    """Return the colour of a category; after the last one follows the first.

    Examples
    --------
    >>> category(0) == category(len(CATEGORIES))
    True
    """
    return CATEGORIES[number % len(CATEGORIES)]


_REGISTRY: ContextVar[dict[str, int] | None] = ContextVar("colours by name", default=None)


@contextmanager
def colors_by_name() -> Iterator[None]:
    """Give each name one colour in all figures inside, in order of appearance."""
    token = _REGISTRY.set({})
    try:
        yield
    finally:
        _REGISTRY.reset(token)


def numbers_of(names: Sequence[str]) -> list[int]:
    """Return the category of each name: by position, or as `colors_by_name` has it.

    Examples
    --------
    >>> with colors_by_name():
    ...     numbers_of(["heft", "cpop"]), numbers_of(["peft", "heft"])
    ([0, 1], [2, 0])
    """
    known = _REGISTRY.get()
    if known is None:
        return list(range(len(names)))
    return [known.setdefault(name, len(known)) for name in names]


def luminance(color: str) -> float:
    """Relative luminance, 0 (black) to 1 (white), as WCAG 2.2 defines it.

    Examples
    --------
    >>> luminance("#ffffff")
    1.0
    """
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (v / 255 for v in _channels(color))
    ]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2.2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_on(color: str) -> str:
    """Black or white, whichever reads better on a colour."""
    return max(("#ffffff", "#000000"), key=lambda ink: contrast(ink, color))


def css_variables() -> str:
    """Return the light and the dark palette as CSS custom properties."""
    light = LIGHT | _numbered(CATEGORIES)
    dark = DARK | _numbered(DARK_CATEGORIES)
    root = f":root{{color-scheme:light dark;{_declared(light)}}}\n"
    # Only on screens: paper is white.
    return f"{root}@media screen and (prefers-color-scheme:dark){{:root{{{_declared(dark)}}}}}\n"


def light_variables() -> str:
    """Return the light palette as declarations of CSS custom properties."""
    return _declared(LIGHT | _numbered(CATEGORIES))


def variable(name: str) -> str:
    """Return a CSS variable (c0: first category, i0: its ink) with its light colour.

    Examples
    --------
    >>> variable("ink"), variable("c0")
    ('var(--ink,#1c2128)', 'var(--c0,#5165a7)')
    """
    return f"var(--{name},{(LIGHT | _numbered(CATEGORIES))[name]})"


def swatch(color: str, text: str) -> str:
    """Return an entry of a legend as HTML: a coloured square and an escaped text."""
    return f'<span><i class="swatch" style="background:{color}"></i>{text}</span>'


def _numbered(colors: Sequence[str]) -> dict[str, str]:
    """Return categories as c0, c1, ..., and the ink to write on them as i0, i1, ..."""
    return {f"c{i}": c for i, c in enumerate(colors)} | {
        f"i{i}": text_on(c) for i, c in enumerate(colors)
    }


def _declared(colors: dict[str, str]) -> str:
    return "".join(f"--{name}:{color};" for name, color in colors.items())
