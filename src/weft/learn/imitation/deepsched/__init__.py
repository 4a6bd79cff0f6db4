"""Training of the planner `deepsched`, and the document's own network.

- `data`: drawn problems and job lists
- `examples`: HEFT's decisions as training examples
- `paper`: the document's network
- `runtimes`: the networks in ONNX and torch
- `training`: our network and its training
"""

__all__ = ["data", "examples", "paper", "runtimes", "training"]
