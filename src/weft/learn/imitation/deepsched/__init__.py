"""Training of the planner `deepsched`.

- `data`: drawn problems and job lists
- `examples`: HEFT's decisions as training examples
- `training`: our network and its training
"""

__all__ = ["data", "examples", "training"]
