"""Verbs that answer questions: `explain`, `view`, `whatif` and `size`."""

__all__ = ["explain", "size", "view", "whatif"]
