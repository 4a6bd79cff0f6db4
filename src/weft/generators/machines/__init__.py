"""Machines of generated problems.

- `catalogue`: published devices and links, from `catalogue.toml`
- `clusters`: clusters of them, and random ones
- `costs`: durations that depend on task and device
"""

__all__ = ["catalogue", "clusters", "costs"]
