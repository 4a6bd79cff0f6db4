"""The joblib backend "weft": ``joblib.parallel_config(backend="weft")``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import replace
from functools import partial
from pickle import PicklingError
from typing import Any

from weft.errors import MissingExtra
from weft.registry import reject_unknown
from weft.runtime.backends.calls import pickled_function
from weft.runtime.backends.local.device import LocalDevice, local_devices
from weft.runtime.costs.keys import function_identity
from weft.runtime.executors.dispatcher import RemoteTraceback
from weft.runtime.executors.executor import Executor
from weft.runtime.executors.joblib_batch import NAME, JoblibBatch
from weft.typed import typed

OPTIONS = ("devices", "history", "initializer", "initargs")

UNUSED = ("context", "max_nbytes", "mmap_mode", "temp_folder", "verbose")
"""Options that joblib gives to every backend, about the processes and files of its own."""


@typed
def register_joblib() -> None:
    """Register the backend "weft" of joblib.

    Options of `joblib.parallel_config(backend="weft", ...)` and of `joblib.Parallel`: `devices` and
    `history`, as for `weft.Executor`; `initializer` and `initargs`, a call that each process makes
    before its first batch. Without `devices`, `n_jobs` is the number of processes.
    `inner_max_num_threads` is the number of threads of numerical libraries in each process; by
    default 1.

    Examples
    --------
    >>> import joblib
    >>> register_joblib()
    >>> with joblib.parallel_config(backend="weft", n_jobs=2, history=False):
    ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in (-1, 2, -3))
    [1, 2, 3]
    """
    try:
        from joblib import parallel
    except ImportError as error:
        raise MissingExtra("joblib", "joblib") from error
    parallel.register_parallel_backend(NAME, _backend_class())


def _kind(batch: Any) -> str:
    """Return the name of a batch in the history: first function, number of calls."""
    items = getattr(batch, "items", None) or ((batch,),)
    return f"{function_identity(items[0][0])} x {len(items)}"


def _limited(device: LocalDevice, limits: dict[str, str], *, pinned: bool) -> LocalDevice:
    """Return a device with limits of threads.

    Several threads need more than one processor core.
    """
    environment = {**limits, **device.environment}
    return replace(device, cores=device.cores if pinned else (), environment=environment)


def _backend_class() -> type:  # noqa: C901  # a class of short methods
    """Return the backend; its base classes exist only where joblib is installed."""
    from joblib._parallel_backends import AutoBatchingMixin
    from joblib.parallel import ParallelBackendBase

    class WeftBackend(
        AutoBatchingMixin,  # type: ignore[misc]  # joblib is not typed
        ParallelBackendBase,  # type: ignore[misc]  # the same
    ):
        """Batches of joblib as calls of a `weft.Executor`."""

        supports_retrieve_callback = True
        supports_inner_max_num_threads = True
        default_n_jobs = -1

        def __init__(
            self,
            *,
            nesting_level: int | None = None,
            inner_max_num_threads: int | None = None,
            **options: Any,
        ) -> None:
            super().__init__(
                nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads
            )
            self.devices: int | Sequence[LocalDevice] | None = None
            self.history: Any = True
            self._initializer = b""
            self._workers: Executor | None = None
            self._set(options)

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """Return the number of processes, e.g. for -1 one per core and GPU."""
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            if self.devices is not None:
                return len(local_devices(self.devices))
            n_jobs = self.default_n_jobs if n_jobs is None else n_jobs
            return n_jobs if n_jobs > 0 else max(len(local_devices(None)) + 1 + n_jobs, 1)

        def configure(
            self,
            n_jobs: int = 1,
            parallel: Any = None,
            prefer: Any = None,
            require: Any = None,
            **options: Any,
        ) -> int:
            """Start the executor; return the number of processes."""
            self._set({name: options[name] for name in options if name not in UNUSED})
            n_jobs = self.effective_n_jobs(n_jobs)
            self.parallel = parallel
            self._open(n_jobs)
            return n_jobs

        def submit(
            self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None
        ) -> Future[Any]:
            """Run a batch."""
            assert self._workers is not None
            batch = JoblibBatch(func, self._initializer)
            future = self._workers.put_call(batch, kind=_kind(func))
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: Future[Any]) -> Any:
            """Return the result of a batch, or raise its exception.

            Errors of pickling become joblib's own error.
            """
            try:
                return out.result()
            except (BrokenExecutor, CancelledError):
                raise
            except BaseException as error:
                if isinstance(error.__cause__, RemoteTraceback):
                    raise
                text = f"{type(error).__name__}: {error}"
                raise PicklingError(
                    f"cannot pickle the task to send to a process, or its result: {text}"
                ) from error

        def terminate(self) -> None:
            """End the executor; its processes are kept for the next one."""
            if self._workers is not None:
                self._workers.shutdown()
                self._workers = None
            self.reset_batch_stats()

        def abort_everything(self, ensure_ready: bool = True) -> None:
            """Drop the batches that have not begun."""
            if self._workers is not None:
                self._workers.shutdown(wait=False, cancel_futures=True)
                self._workers = None
            if ensure_ready:
                self._open(self.effective_n_jobs(self.parallel.n_jobs))

        def _set(self, options: dict[str, Any]) -> None:
            reject_unknown(options, OPTIONS, f"the joblib backend '{NAME}'")
            self.devices = options.get("devices", self.devices)
            self.history = options.get("history", self.history)
            if options.get("initializer") is not None:
                call = partial(options["initializer"], *options.get("initargs", ()))
                self._initializer = pickled_function(call)

        def _open(self, n_jobs: int) -> None:
            devices = local_devices(n_jobs if self.devices is None else self.devices)
            threads = self.inner_max_num_threads
            if threads is not None:
                limits = dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(threads))
                pinned = threads == 1 or self.devices is not None
                devices = [_limited(device, limits, pinned=pinned) for device in devices]
            self._workers = Executor(devices, history=self.history)

    return WeftBackend
