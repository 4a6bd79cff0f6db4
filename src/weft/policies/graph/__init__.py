"""Graph networks that rate ready tasks, and DEFT, which places them.

- `deft`: placement with or without a copy of one parent
- `network`: the graph networks
- `policy`: Decima-DEFT and Lachesis
"""

__all__ = ["deft", "network", "policy"]
