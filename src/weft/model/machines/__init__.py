"""Parts of machines: devices and links as users describe them, set-up, capacities."""

from weft.model.machines.device import Device, Links
from weft.model.machines.setup import Setup

__all__ = ["Device", "Links", "Setup"]
