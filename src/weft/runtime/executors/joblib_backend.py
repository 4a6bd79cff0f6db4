"""The joblib backend "weft": ``joblib.parallel_config(backend="weft")``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from weft.errors import MissingExtra
from weft.runtime.backends.local.device import LocalDevice, local_devices
from weft.runtime.costs.keys import function_identity
from weft.runtime.executors.executor import Executor

NAME = "weft"


def register_joblib() -> None:
    """Register the backend "weft" of joblib.

    Options of `joblib.parallel_config(backend="weft", ...)`: `devices` and `history`, as for
    `weft.Executor`. Without `devices`, `n_jobs` is the number of processes.

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


def _backend_class() -> type:
    """Return the backend; its base classes exist only where joblib is installed."""
    from joblib._parallel_backends import AutoBatchingMixin
    from joblib.parallel import ParallelBackendBase

    class JoblibBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
        """Batches of joblib as calls of a `weft.Executor`."""

        supports_retrieve_callback = True
        default_n_jobs = -1

        def __init__(
            self,
            *,
            devices: int | Sequence[LocalDevice] | None = None,
            history: Any = True,
            **options: Any,
        ) -> None:
            super().__init__(**options)
            self.devices, self.history = devices, history
            self._workers: Executor | None = None

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """Return the number of processes."""
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            if self.devices is not None:
                return len(local_devices(self.devices))
            if n_jobs is None:
                return 1
            here = len(local_devices(None))
            return n_jobs if n_jobs > 0 else max(here + 1 + n_jobs, 1)

        def configure(
            self,
            n_jobs: int = 1,
            parallel: Any = None,
            prefer: Any = None,
            require: Any = None,
            **options: Any,
        ) -> int:
            """Start the executor; return the number of processes."""
            n_jobs = self.effective_n_jobs(n_jobs)
            self.parallel = parallel
            self._open(n_jobs)
            return n_jobs

        def submit(
            self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None
        ) -> Future[Any]:
            """Run a batch."""
            assert self._workers is not None
            items = getattr(func, "items", None)
            kind = function_identity(items[0][0]) if items else function_identity(func)
            future = self._workers.put_call(func, kind=f"{kind} x {len(items or (0,))}")
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: Future[Any]) -> Any:
            """Return the result of a batch, or raise its exception."""
            return out.result()

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

        def _open(self, n_jobs: int) -> None:
            self._workers = Executor(
                n_jobs if self.devices is None else self.devices, history=self.history
            )

    return JoblibBackend
