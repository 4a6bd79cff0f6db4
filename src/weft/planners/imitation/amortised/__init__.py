"""The planner `amortised`.

- `planner`: network passes, then annealing
- `network`: the network, its file and its passes
- `features`: the inputs of the network
- `moves`: annealing moves along the critical path
"""

__all__ = ["features", "moves", "network", "planner"]
