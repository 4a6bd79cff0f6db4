"""The Ray backend: one actor per device.

- `actor`: code that runs in an actor
- `backend`: the backend
- `plan`: a plan as calls made ahead
- `session`: the connection to Ray
- `slots`: actors, and transfer estimates
"""

__all__ = ["actor", "backend", "plan", "session", "slots"]
