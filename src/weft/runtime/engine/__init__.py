"""The engine of a run: driver, life cycle, dispatch and bookkeeping.

- `dispatch`: orders per device, and reservations
- `driver`: backend events in, orders out
- `events`: observers, the source of jobs, and the interpretation of events
- `failure`: failed tasks and their errors
- `garbage`: fewer searches for garbage while a run lasts
- `instances`: references to results, and timers; `retries`: retries and timeouts
- `live_lifecycle`: the life cycle of a real run; `resumable`: one that can be saved
"""

__all__ = [
    "dispatch",
    "driver",
    "events",
    "failure",
    "garbage",
    "instances",
    "live_lifecycle",
    "resumable",
    "retries",
]
