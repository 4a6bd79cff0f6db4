"""The results of a run on Dask, fetched on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from distributed import Future
from distributed.protocol.pickle import dumps

from weft.errors import WeftError
from weft.runtime.backends.dask.messages import quietly
from weft.runtime.backends.dask.outbox import HeldResult
from weft.runtime.backends.dask.tasks import given
from weft.runtime.backends.dask.worker_registry import TICK, WorkerRegistry
from weft.runtime.backends.result_file import load_value


class Results(dict[int, Any]):
    """Instance -> its result, held for the run or as a future.

    Dask recomputes lost results.
    """

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry
        self._here: dict[int, Any] = {}
        """Results fetched last."""

    def futures(self, instances: Iterable[int]) -> list[Future]:
        """Return results as futures: those held for the run are asked for by the client."""
        client, asked, found = self._registry.client, [], []
        for i in instances:
            kept = self[i]
            if isinstance(kept, HeldResult):
                asked.append(kept.key)
                kept = Future(kept.key, client)
            found.append(kept)
        if asked:
            message = {"op": "client-desires-keys", "keys": asked}
            client._send_to_scheduler(message)  # noqa: SLF001  # no public way
        return found

    def fetch(self, instance: int, *, alone: bool) -> Any:
        """Return a result; unless `alone`, fetch all others too."""
        if instance not in self._here:
            asked = [instance] if alone else list(self)
            self._here = dict(zip(asked, self._gathered(self.futures(asked)), strict=True))
        return self._here[instance]

    def release(self, instance: int) -> None:
        """Release a result; Dask keeps its recipe while another result needs it."""
        self._here.pop(instance, None)
        if instance in self:
            self.pop(instance).release()

    def restore(self, instance: int, path: Path, key: str) -> None:
        """Load a result from a file, unless a worker has it."""
        if instance in self:
            return
        data = dumps(load_value(path))
        with quietly(len(data)):
            self[instance] = self._registry.client.submit(given, data, key=key, pure=False)

    def clear(self) -> None:
        """Release all."""
        for instance in list(self):
            self.release(instance)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Fetch results in steps: Dask recomputes lost ones while there is a worker."""
        client = self._registry.client
        gathered = client.gather(futures, asynchronous=True)
        done: threading.Event = threading.Event()
        found: list[Any] = []

        async def bring() -> None:
            try:
                found.append(await gathered)
            except Exception as error:  # noqa: BLE001  # raised below, in the waiting thread
                found.append(error)
            done.set()

        client.loop.add_callback(bring)
        begin = time.perf_counter()
        while not done.wait(TICK):
            self._registry.check()
            if client.nthreads():
                begin = time.perf_counter()
            elif time.perf_counter() - begin > self._registry.grace_seconds:
                raise WeftError(
                    "results were lost with their Dask workers, and no worker is left to compute "
                    "them again"
                )
        if isinstance(found[0], Exception):
            raise WeftError(
                f"results could not be brought here from Dask's workers: {found[0]}"
            ) from found[0]
        return list(found[0])
