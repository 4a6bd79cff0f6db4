"""Graph networks that rate ready tasks, and DEFT, which places them.

- `deft`: placement with or without a copy of one parent
- `network`: the graph networks
- `passes`: their state in a simulation, and their passes
- `policy`: Decima-DEFT and Lachesis
"""

__all__ = ["deft", "network", "passes", "policy"]
