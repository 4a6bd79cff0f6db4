"""Answers as tables, pictures and pages.

- `tornado`: what if; `front`: which machines; `trade_off`: which variants
- `picture`: a picture as SVG, PNG or page
"""

from weft.report.answers.front import save_front, sizing_text
from weft.report.answers.tornado import before_and_after, save_tornado, tornado_text
from weft.report.answers.trade_off import front_text, save_trade_off

__all__ = [
    "before_and_after",
    "front_text",
    "save_front",
    "save_tornado",
    "save_trade_off",
    "sizing_text",
    "tornado_text",
]
