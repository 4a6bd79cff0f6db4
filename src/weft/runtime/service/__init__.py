"""The service: submissions of several applications on one backend.

- `budgets`: seconds of device time per period
- `fair_share`: weighted fair sharing
- `queue`: the wait queue
- `service`: the service
- `session`: one driver session
"""

__all__ = ["budgets", "fair_share", "queue", "service", "session"]
