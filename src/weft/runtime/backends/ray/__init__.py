"""The Ray backend: one actor per device.

- `actor`: code that runs in an actor
- `actors`: their start, replacement and end
- `backend`: orders, results and events
- `leading_imports`: modules that functions import first
- `links`: measured links between nodes
- `own_tasks`: a graph that Ray places
- `plan`: a plan as calls made ahead
- `session`: the connection to Ray
- `slots`: the actor of a device with its calls, and transfer estimates
"""

__all__ = [
    "actor",
    "actors",
    "backend",
    "leading_imports",
    "links",
    "own_tasks",
    "plan",
    "session",
    "slots",
]
