"""Answers as tables, pictures and pages: what if (`tornado`), which machines (`front`)."""

from weft.report.answers.front import save_front, sizing_text
from weft.report.answers.tornado import before_and_after, save_tornado, tornado_text

__all__ = ["before_and_after", "save_front", "save_tornado", "sizing_text", "tornado_text"]
