"""Training of the planner `amortised`.

- `data`: drawn problems, solved by the search planner
- `training`: the evolution strategy
"""

__all__ = ["data", "training"]
