"""Plans for nodes whose tasks share capacities.

- `pools`: equal devices of a node; `profile`: amounts in use over time
- `serial`: timing by earliest fit, from the beginning and from the end
- `annealing`: a search over orders and pools, compiled
"""

from weft.planners.packing.pools import Pools, each_alone, make_pools, pool_of_devices
from weft.planners.packing.serial import pack

__all__ = ["Pools", "each_alone", "make_pools", "pack", "pool_of_devices"]
