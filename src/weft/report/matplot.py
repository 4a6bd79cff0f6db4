"""The one door to matplotlib: one style, no window, same bytes for same figures."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import MissingExtra
from weft.report.labels import escaped
from weft.report.palette import CATEGORIES, LIGHT, variable

STYLE: Any = {
    "svg.hashsalt": "weft",  # without a salt the identifiers in the file are random
    "svg.fonttype": "none",  # text stays text: small files, readable by machines
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Liberation Sans", "Arial", "sans-serif"],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelcolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": LIGHT["ink"],
    "axes.titlecolor": LIGHT["ink"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "hatch.linewidth": 0.8,
}

_THEMED = {LIGHT[name]: variable(name) for name in ("ink", "muted", "line")}
_THEMED |= {color: variable(f"c{i}") for i, color in enumerate(CATEGORIES)}
_COLOR = re.compile(r"(?<=[:\s\"])(" + "|".join(_THEMED) + r")(?=[;\"])")


@contextmanager
def drawing(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Open a figure of a size in inches in weft's style; pyplot is not used."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def svg_bytes(figure: Any, *, paper: str = LIGHT["paper"]) -> bytes:
    """Return the figure as an SVG file on white, legible on dark pages too."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", facecolor=paper, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def inline_svg(figure: Any, *, label: str) -> str:
    """Return the figure as an element that follows the page's colours and has a label."""
    text = svg_bytes(figure, paper="none").decode()
    text = _COLOR.sub(lambda found: _THEMED[found.group(1)], text[text.index("<svg") :])
    return text.replace("<svg ", f'<svg role="img" aria-label="{escaped(label)}" ', 1).strip()


def png_bytes(figure: Any) -> bytes:
    """Return the figure as a PNG file on white."""
    out = io.BytesIO()
    figure.savefig(
        out, format="png", dpi=160, facecolor=LIGHT["paper"], metadata={"Software": None}
    )
    return out.getvalue()
