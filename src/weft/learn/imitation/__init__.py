"""Networks for planners, trained on other planners' schedules.

- `deepsched`: imitation of HEFT
"""

__all__ = ["deepsched"]
