"""The Dask backend: one device per thread of a worker.

- `backend`: the backend
- `local_cluster`: an own cluster on this machine, whose dead workers are replaced
- `lone_sources`: workers for the first tasks of a graph that Dask places
- `messages`: messages to workers
- `outbox`: orders, and results to release, on their way to the scheduler
- `plan`: a plan as one graph
- `plugin`: code that runs inside Dask
- `profile`: measured links and speeds of a cluster
- `results`: results of a run
- `workers`: the registry of workers: which are there, lost, or back
"""

__all__ = [
    "backend",
    "local_cluster",
    "lone_sources",
    "messages",
    "outbox",
    "plan",
    "plugin",
    "profile",
    "results",
    "workers",
]
