"""The Dask backend: one device per thread of a worker.

- `backend`: the backend
- `first_tasks`: workers for the first tasks of a graph that Dask places
- `local_cluster`: an own cluster on this machine; it replaces dead workers
- `messages`: messages to workers, and events from their reports
- `outbox`: orders, and results to release, on their way to the scheduler
- `plan`: a plan as one graph
- `plugin`: the plugin of a run in the scheduler
- `process`: the process of an own worker
- `profile`: measured links and speeds of a cluster
- `results`: results of a run
- `sites`: workers and their threads, which are the devices
- `tasks`: tasks on the workers
- `worker_registry`: which workers are there, lost, or back
"""

__all__ = [
    "backend",
    "first_tasks",
    "local_cluster",
    "messages",
    "outbox",
    "plan",
    "plugin",
    "process",
    "profile",
    "results",
    "sites",
    "tasks",
    "worker_registry",
]
