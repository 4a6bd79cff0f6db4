"""Batches of joblib in worker processes.

Workers import this file, so it is small.
"""

# ruff: noqa: S301  # initializers of the process that sends the batches
from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAME = "weft"
"""Name of the backend in joblib."""

_last = {"initializer": b""}
"""Pickle of the initializer that ran last in this process."""


@dataclass(frozen=True)
class JoblibBatch:
    """A batch of joblib, and a pickled initializer that its process runs before."""

    function: Callable[[], Any]
    initializer: bytes = b""

    def __call__(self) -> Any:
        """Run the batch, after its initializer.

        An initializer that ran last in this process does not run again.
        """
        from joblib.parallel import BACKENDS

        BACKENDS.setdefault(NAME, _backend)  # for calls that use joblib themselves
        if self.initializer and _last["initializer"] != self.initializer:
            pickle.loads(self.initializer)()
            _last["initializer"] = self.initializer
        return self.function()


def _backend(**options: Any) -> Any:
    """Register the backend, and return one: most workers never need it."""
    from joblib.parallel import BACKENDS

    from weft.runtime.executors.joblib_backend import register_joblib

    register_joblib()
    return BACKENDS[NAME](**options)
