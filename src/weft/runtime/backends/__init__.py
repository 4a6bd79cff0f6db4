"""Backends: the devices that run tasks.

- `calls`: the calls of a run, for other processes
- `dask`: workers of a Dask cluster
- `descendants`: processes that tasks leave behind
- `fake`: a virtual clock, for tests
- `local`: processes of this machine
- `payload`: pickled values with shared buffers
- `protocol`: orders and events
- `ray`: actors of Ray
- `real`: the part that `dask`, `local` and `ray` share
- `result_file`: results on disk
"""

__all__ = [
    "calls",
    "dask",
    "descendants",
    "fake",
    "local",
    "payload",
    "protocol",
    "ray",
    "real",
    "result_file",
]
