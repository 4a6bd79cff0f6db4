"""Results in notebooks: HTML, pictures and tables, made by `weft.report`.

Nothing is rendered before a notebook asks for it. Results are made by the lower layers, which do
not import `report`. This file names the one module that shows them and loads it on first use, so
that `import weft` costs numpy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

RENDERER = "weft.report.pages.notebook"
"""The module with `html_of`, `text_of`, `plot_of` and `frame_of`."""


class Printed:
    """A result that IPython shows as `print` does, not by its fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give each class its own method: IPython prefers the `__repr__` of dataclasses."""
        super().__init_subclass__(**options)
        cls._repr_pretty_ = Printed._repr_pretty_  # type: ignore[method-assign]  # its own name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the result as text in IPython."""
        printer.text("..." if cycle else str(self))


class Displayed(Printed):
    """A result that notebooks show as HTML and `print` shows as text.

    It also gives a picture and a table.
    """

    def __str__(self) -> str:
        """Return the result as text: a sentence and numbers."""
        return str(import_module(RENDERER).text_of(self))

    def _repr_html_(self) -> str:
        """Return the result for notebooks: a sentence, numbers and a small chart."""
        return str(import_module(RENDERER).html_of(self))

    def plot(self, **options: Any) -> Any:
        """Return a picture of the result: SVG that notebooks show and `save(path)` writes.

        A schedule takes its `problem`. Charts need the extra `report`.
        """
        return import_module(RENDERER).plot_of(self, **options)

    def to_frame(self) -> Any:
        """Return the rows of the result as a pandas DataFrame (needs extra `notebook`)."""
        return import_module(RENDERER).frame_of(self)
