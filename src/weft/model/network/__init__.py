"""Links that transfers share: the topology, the transfers, and their oracle.

- `topology`: ports of nodes, switches and trunks, and the routes that follow from them
- `transfers`: when data moved between nodes in a trace
- `rates`: the oracle's own arithmetic of sharing; `check`: its rules
- `planned`: the transfers that a schedule implies
"""

from weft.model.network.topology import Port, Topology, Trunk
from weft.model.network.transfers import Transfers

__all__ = ["Port", "Topology", "Transfers", "Trunk"]
