"""Planners with networks that imitate other planners.

- `deepsched`: a network that imitates HEFT task by task
"""

__all__ = ["deepsched"]
