"""Parts of machines.

- `device`: devices and links as users describe them
- `setup`: kinds that a device loads before it runs tasks of them, and keeps loaded
- `capacity`: the highest rate of jobs that devices can keep up with
"""

from weft.model.machines.device import Device, Links
from weft.model.machines.setup import Setup

__all__ = ["Device", "Links", "Setup"]
