"""The local backend: one process per device.

- `backend`: the backend
- `device`: devices and their limits
- `pipe`: framed messages
- `process`: the driver's side of a worker
- `worker`: the worker process
"""

__all__ = ["backend", "device", "pipe", "process", "worker"]
