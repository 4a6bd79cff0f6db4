"""The Dask backend: one device per thread of a worker.

- `backend`: the backend
- `local_cluster`: an own cluster on this machine, whose dead workers are replaced
- `messages`: messages to workers
- `plan`: a plan as one graph
- `plugin`: code that runs inside Dask
- `profile`: measured links and speeds of a cluster
- `results`: futures of results
- `workers`: the registry of workers: which are there, lost, or back
"""

__all__ = [
    "backend",
    "local_cluster",
    "messages",
    "plan",
    "plugin",
    "profile",
    "results",
    "workers",
]
