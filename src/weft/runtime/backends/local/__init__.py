"""The local backend: one process per device.

- `backend`: the backend
- `device`: devices and their limits
- `pipe`: framed messages
- `pool`: processes kept for the next run
- `process`: the driver's side of a worker
- `worker`: the worker process
- `workers`: the processes of all devices: start, watch, replace
"""

__all__ = ["backend", "device", "pipe", "pool", "process", "worker", "workers"]
