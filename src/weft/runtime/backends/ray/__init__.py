"""The Ray backend: one actor per device.

- `actor`: code that runs in an actor
- `backend`: the backend
- `leading_imports`: modules that functions import first
- `links`: measured links between nodes
- `own_tasks`: a graph that Ray places
- `plan`: a plan as calls made ahead
- `session`: the connection to Ray
- `slots`: actors, and transfer estimates
"""

__all__ = ["actor", "backend", "leading_imports", "links", "own_tasks", "plan", "session", "slots"]
