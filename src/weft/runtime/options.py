"""Options of a run: retry, crash and timeout limits, and the reaction to failures."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal

import numpy as np

from weft.arguments import as_float, shown
from weft.errors import InvalidInput
from weft.model import Workflow
from weft.typed import typed_dataclass


@typed_dataclass(frozen=True)
class RunOptions:
    """Retry, crash and timeout limits of a run.

    Attributes
    ----------
    window : groups a device holds at once, including the running one (a ring buffer)
    retries : further attempts of a failed task, after `backoff` seconds, doubled each time
    crashes : times a task may lose its device before the task itself counts as failed
    timeout : seconds a task may run: one number, or by task name or kind
    on_error : after a failed task, "stop" the run, or "continue" with independent tasks
    """

    window: int = 3
    retries: int = 0
    backoff: float = 0.1
    crashes: int = 3
    timeout: float | Mapping[str, float] | None = None
    on_error: Literal["stop", "continue"] = "stop"

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name in ("window", "retries", "crashes"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool):
                raise InvalidInput(f"{name} is {shown(value)}; it must be a whole number")
        if self.window < 1:
            raise InvalidInput(f"window is {self.window}; it must be at least 1")
        if self.retries < 0 or self.crashes < 1:
            raise InvalidInput(
                f"retries is {self.retries} and crashes {self.crashes}; "
                "they must be at least 0 and 1"
            )
        if not 0.0 <= as_float(self.backoff) < inf:
            raise InvalidInput(f"backoff is {shown(self.backoff)}; it must be a number of seconds")
        limits = self.timeout if isinstance(self.timeout, Mapping) else {"": self.timeout}
        for name, seconds in limits.items():
            if seconds is not None and not (_is_number(seconds) and seconds > 0):
                where = f" of '{name}'" if name else ""
                raise InvalidInput(
                    f"timeout{where} is {seconds!r}; it must be a number of seconds above 0"
                )
        if self.on_error not in ("stop", "continue"):
            raise InvalidInput(f"on_error is '{self.on_error}'; it must be 'stop' or 'continue'")

    def limit(self, workflow: Workflow, task: int) -> float:
        """Return the seconds a task may run; inf: no limit."""
        limits = self.timeout
        if limits is None or not isinstance(limits, Mapping):
            return inf if limits is None else float(limits)
        kind = workflow.kinds[workflow.kind[task]]
        return float(limits.get(workflow.task_name(task), limits.get(kind, inf)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
