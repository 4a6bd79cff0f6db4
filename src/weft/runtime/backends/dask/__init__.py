"""The Dask backend: one device per thread of a worker.

- `backend`: the backend
- `local_cluster`: an own cluster on this machine, whose dead workers are replaced
- `lone_sources`: workers for the first tasks of a graph that Dask places
- `messages`: messages to workers
- `outbox`: orders, and results to release, on their way to the scheduler
- `plan`: a plan as one graph
- `plugin`: the plugin of a run in the scheduler
- `process`: the process of an own worker
- `profile`: measured links and speeds of a cluster
- `reports`: events from the reports of tasks
- `results`: results of a run
- `sites`: workers and their threads, which are the devices
- `tasks`: tasks on the workers
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
    "process",
    "profile",
    "reports",
    "results",
    "sites",
    "tasks",
    "workers",
]
