"""Planners with networks that imitate other planners.

- `amortised`: a network that corrects HEFT's ranks and devices, then annealing
- `deepsched`: a network that imitates HEFT task by task
"""

__all__ = ["amortised", "deepsched"]
