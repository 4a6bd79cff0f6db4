"""Executors on weft's processes: concurrent.futures, joblib, Dask's scheduler.

- `executor`: `weft.Executor`
- `dask_scheduler`: `weft.get`, for `dask.config.set(scheduler=weft.get)`
- `dispatcher`: the thread that sends calls to devices
- `function_table`: functions that workers hold
- `placement`: predicted seconds of calls, and the device of each
- `joblib_backend`: `joblib.parallel_config(backend="weft")`
- `joblib_batch`: a batch of joblib in a worker
"""

__all__ = [
    "dask_scheduler",
    "dispatcher",
    "executor",
    "function_table",
    "joblib_backend",
    "joblib_batch",
    "placement",
]
