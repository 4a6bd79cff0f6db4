"""Pilots: workers that a batch system starts, and that connect to the driver.

- `backend`: the devices of a run as pilots
- `device`: the resources of a pilot
- `link`: the driver's side of a pilot
- `listener`: accepts pilots that have the key
- `program`: the program of a pilot
"""

__all__ = ["backend", "device", "link", "listener", "program"]
