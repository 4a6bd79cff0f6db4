"""Failed tasks: the user's traceback, inputs, and the tasks that depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.runtime.backends.error_text import error_line
from weft.runtime.backends.protocol import Backend, Fault
from weft.runtime.engine.live_lifecycle import LiveLifecycle

if TYPE_CHECKING:
    from weft.model import Trace

MAX_NAMES = 6
"""Names of inputs and dependents that an error shows."""


@dataclass(frozen=True)
class Failure:
    """A task whose last attempt failed.

    Attributes
    ----------
    task, device : names; job, instance : numbers
    fault, text, traceback : the report of the backend
    attempts : how many times the task ran
    inputs : names of the tasks whose results it read
    dependents : names of the tasks that cannot run without it
    """

    task: str
    job: int
    instance: int
    device: str
    fault: Fault
    text: str
    traceback: str
    attempts: int
    inputs: tuple[str, ...]
    dependents: tuple[str, ...]

    @classmethod
    def of(
        cls,
        life: LiveLifecycle,
        instance: int,
        device: int,
        fault: Fault,
        text: str,
        traceback: str,
        attempts: int,
    ) -> Failure:
        """Collect the facts about an instance before its dependents are cancelled."""
        job, task = life.place[instance]
        name = life.problem(instance).workflow.task_name
        first = int(life.workload.first_instance[job])
        return cls(
            task=name(task),
            job=job,
            instance=instance,
            device=life.workload.cluster.names[device],
            fault=fault,
            text=text,
            traceback=traceback,
            attempts=attempts,
            inputs=tuple(name(parent - first) for parent, _ in life.inputs[instance]),
            dependents=tuple(name(i - first) for i in life.dependents(instance) if i != instance),
        )

    def __str__(self) -> str:
        """Return one line, and the user's traceback if there is one."""
        tries = f" ({self.attempts} attempts)" if self.attempts > 1 else ""
        line = f"task '{self.task}' failed on device '{self.device}'{tries}: {self.text}"
        line += f"; inputs: {_listed(self.inputs) or 'none'}"
        line += (
            f"; not run because of it: {_listed(self.dependents)}"
            if self.dependents
            else "; nothing depends on it"
        )
        return f"{line}\n{self.traceback.rstrip()}" if self.traceback else line


class TaskFailed(WeftError):
    """A failed task stopped the run: `failure`, and the `trace` until then."""

    def __init__(self, failure: Failure, trace: Trace | None = None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.trace = trace


def fetched(backend: Backend, instance: int, task: str) -> Any:
    """Return the result of a task, or an error that names the task."""
    try:
        return backend.fetch(instance)
    except WeftError:
        raise
    except Exception as error:
        raise WeftError(
            f"the result of task '{task}' cannot be loaded here ({error_line(error)}); return "
            "objects that this process can unpickle"
        ) from error


class PolicyReplaced(UserWarning):
    """A policy or planner failed; greedy earliest finish time decides in its place."""


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else shown
