"""The local backend: one process per device.

- `backend`: the backend
- `device`: devices and their limits
- `pipe`: framed messages
- `poll`: waiting for the pipes of many processes
- `pool`: processes kept for the next run
- `process`: the driver's side of a worker
- `worker`: the worker process
- `workers`: the processes of all devices: start, watch, replace
"""

__all__ = ["backend", "device", "pipe", "poll", "pool", "process", "worker", "workers"]
