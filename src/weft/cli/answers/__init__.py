"""Verbs that answer questions: `explain`, `view`, `whatif` and `size`.

They say why, what if, and how many machines.
"""

__all__ = ["explain", "size", "view", "whatif"]
