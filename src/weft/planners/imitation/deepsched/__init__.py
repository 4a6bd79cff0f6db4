"""The planner `deepsched`, after Shawky, Talaat, Adas and Youssef.

- `planner`: order and devices by the network
- `network`: the network, its file and its forward pass
- `features`: the inputs of the network
"""

__all__ = ["features", "network", "planner"]
