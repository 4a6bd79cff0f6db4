"""How much a run puts up with: retries, timeouts, crashes, and what happens when a task is given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from weft.errors import InvalidInput
from weft.model import Workflow


@dataclass(frozen=True)
class RunOptions:
    """How much a run puts up with.

    Attributes
    ----------
    window : groups a device has at once, with the one that runs: the ring buffer
    retries : how often a task that failed runs again, after `backoff` seconds, then twice that, and so on
    crashes : how often a task may lose its device under it before it is blamed
    timeout : seconds a task may run; one for all, or by task name or kind
    on_error : when a task is given up, `stop` everything, or `continue` with what does not depend on it
    """

    window: int = 3
    retries: int = 0
    backoff: float = 0.1
    crashes: int = 3
    timeout: float | Mapping[str, float] | None = None
    on_error: Literal["stop", "continue"] = "stop"

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.window < 1:
            raise InvalidInput(
                f"window is {self.window}; a device needs room for one task at least"
            )
        if self.retries < 0 or self.crashes < 1:
            raise InvalidInput(
                f"retries is {self.retries} and crashes {self.crashes}; they must be at least 0 and 1"
            )
        if self.on_error not in ("stop", "continue"):
            raise InvalidInput(f"on_error is '{self.on_error}'; it must be 'stop' or 'continue'")

    def limit(self, workflow: Workflow, task: int) -> float:
        """Seconds a task may run; inf: as long as it likes."""
        limits = self.timeout
        if limits is None or not isinstance(limits, Mapping):
            return inf if limits is None else float(limits)
        return float(
            limits.get(
                workflow.task_name(task), limits.get(workflow.kinds[workflow.kind[task]], inf)
            )
        )
