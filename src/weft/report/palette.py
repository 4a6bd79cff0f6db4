"""The one definition of colours: charts, figures and pages all read it here.

The first seven categories are Paul Tol's "bright" scheme with orange in place of its grey (grey
means "no category" here); it stays legible for colour-blind readers (P. Tol, "Colour Schemes",
SRON/EPS/TN/09-002, 2021, section 2). The five after them come from his "muted" scheme. Beyond
twelve the colours repeat: names in tooltips and labels tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

CATEGORIES = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#ee8833",
    "#44aa99",
    "#7766bb",
    "#999933",
    "#882255",
    "#ddaa77",
)

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
BRIGHTER = 0.2
"""How far categories move towards white on a dark page."""


def category(number: int) -> str:
    """The colour of a category; after the last one the first comes again.

    Examples
    --------
    >>> category(0) == category(len(CATEGORIES))
    True
    """
    return CATEGORIES[number % len(CATEGORIES)]


def mixed(color: str, other: str, share: float) -> str:
    """A colour moved towards another by a share.

    Examples
    --------
    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def brighter(color: str) -> str:
    """Return the colour of a category on a dark page."""
    return mixed(color, "#ffffff", BRIGHTER)


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
    """The palette as CSS custom properties, with the dark one under `prefers-color-scheme`."""
    light = LIGHT | _numbered(CATEGORIES)
    dark = DARK | _numbered([brighter(color) for color in CATEGORIES])
    root = f":root{{color-scheme:light dark;{_declared(light)}}}\n"
    return f"{root}@media (prefers-color-scheme:dark){{:root{{{_declared(dark)}}}}}\n"


def variable(name: str) -> str:
    """Return a CSS variable (c0: first category, i0: its ink) with the light colour as default.

    Examples
    --------
    >>> variable("ink"), variable("c0")
    ('var(--ink,#1c2128)', 'var(--c0,#4477aa)')
    """
    return f"var(--{name},{(LIGHT | _numbered(CATEGORIES))[name]})"


def _numbered(colors: Sequence[str]) -> dict[str, str]:
    """Categories as c0, c1, ..., and the ink to write on them as i0, i1, ..."""
    return {f"c{i}": c for i, c in enumerate(colors)} | {
        f"i{i}": text_on(c) for i, c in enumerate(colors)
    }


def _declared(colors: dict[str, str]) -> str:
    return "".join(f"--{name}:{color};" for name, color in colors.items())


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
