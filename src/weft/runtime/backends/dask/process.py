"""The process of a worker of Dask that weft started."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait

from distributed import Worker

SILENT = 60
"""Log level above all others."""


def serve(name: str, scheduler: str, scratch: str, memory: int) -> None:
    """Run a worker until the scheduler or the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C: it ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()

    async def live() -> None:
        options = {
            "host": "127.0.0.1",
            "nthreads": 1,
            "memory_limit": memory,
            "dashboard": False,
            "silence_logs": SILENT,
        }
        async with Worker(scheduler, name=name, local_directory=scratch, **options) as worker:
            await worker.finished()

    asyncio.run(live())
    os._exit(0)  # regardless of threads of tasks


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
