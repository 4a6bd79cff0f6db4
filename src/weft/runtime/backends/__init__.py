"""Backends: the devices that run tasks.

- `calls`: the calls of a run, for other processes
- `dask`: workers of a Dask cluster
- `error_text`: the text of users' exceptions
- `fake`: a virtual clock, for tests
- `hyperqueue`: tasks of a HyperQueue server
- `leftover_processes`: processes that tasks leave behind
- `local`: processes of this machine
- `named`: backends by name
- `payload`: data between processes: pickled values with shared buffers
- `pilots`: workers that a batch system starts
- `protocol`: orders and events
- `ray`: actors of Ray
- `real`: the part that backends with real devices share
- `result_file`: results on disk
- `slurm`: job steps of an allocation
"""

__all__ = [
    "calls",
    "dask",
    "error_text",
    "fake",
    "hyperqueue",
    "leftover_processes",
    "local",
    "named",
    "payload",
    "pilots",
    "protocol",
    "ray",
    "real",
    "result_file",
    "slurm",
]
