"""An accepted request, and the path it takes through the stages."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from weft.errors import InvalidInput, Unsupported, WeftError
from weft.model import Workflow
from weft.model.workflow import ALWAYS


class StageFailed(WeftError):
    """A request that a stage could not answer; the text says which stage and why."""


class DeadlineMissed(WeftError, TimeoutError):
    """A request that was not answered in time."""


class Request:
    """A request until it is answered.

    Attributes
    ----------
    results : task -> value and outcome
    running : assignments it is part of
    alone : whether a unit died or was too slow with it, so that it runs in no batch any more
    deaths : units that died when they ran it alone
    """

    __slots__ = (
        *("alone", "arrived", "deadline", "deaths", "future", "job", "over", "payload"),
        *("priority", "results", "running"),
    )

    def __init__(self, payload: Any, arrived: float, deadline: float, priority: float) -> None:
        self.payload, self.arrived = payload, arrived
        self.deadline, self.priority = deadline, priority
        self.future: Future[Any] = Future()
        self.job = -1
        self.results: dict[str, tuple[Any, str | None]] = {}
        self.running = self.deaths = 0
        self.alone = self.over = False

    def answer(self, value: Any) -> None:
        """Complete its future, unless it was cancelled."""
        if self._end():
            self.future.set_result(value)

    def fail(self, error: Exception) -> None:
        """Complete its future with an error, unless it was cancelled."""
        if self._end():
            self.future.set_exception(error)

    def _end(self) -> bool:
        """Mark it as over; return whether its future is still open."""
        self.over, self.payload = True, None  # its deadline may keep the request for long
        return not self.future.done() and self.future.set_running_or_notify_cancel()


class StageGraph:
    """Which tasks follow from outcomes, and which values they take."""

    def __init__(self, workflow: Workflow) -> None:
        names, choices = workflow.task_names, workflow.choices
        self.labels: dict[str, list[str]] = {name: [] for name in names}
        for c, task in enumerate(choices.task.tolist()):
            if self.labels[names[task]]:
                raise Unsupported(f"task '{names[task]}' has two choices; a stage has at most one")
            self.labels[names[task]] = [choices.labels[b] for b in choices.branches(c)]
        self._after: dict[str, list[tuple[str, str | None]]] = {name: [] for name in names}
        self._before: dict[str, list[tuple[str, str | None]]] = {name: [] for name in names}
        for e, (u, v) in enumerate(zip(workflow.src.tolist(), workflow.dst.tolist(), strict=True)):
            always = choices.edge_choice[e] == ALWAYS
            label = None if always else self.labels[names[u]][int(choices.edge_branch[e])]
            self._after[names[u]].append((names[v], label))
            self._before[names[v]].append((names[u], label))

    def outcome(self, task: str, given: Any) -> str | None:
        """Return the branch that a stage named; None for a task without a choice."""
        labels = self.labels[task]
        if not labels:
            return None
        if isinstance(given, str) and given in labels:
            return given
        if hasattr(given, "__index__") and 0 <= int(given) < len(labels):
            return labels[int(given)]
        raise InvalidInput(f"it returned {given!r}; its branches are {', '.join(labels)}")

    def takes(self, task: str, request: Request) -> Any:
        """Return the input of a task: values before it or the payload.

        Several values are a tuple.
        """
        if not self._before[task]:
            return request.payload
        done = request.results
        found = tuple(
            done[u][0]
            for u, label in self._before[task]
            if u in done and label in (None, done[u][1])
        )
        return found[0] if len(found) == 1 else found

    def due(self, request: Request) -> list[str]:
        """Return the tasks that a request needs next: unfinished, with all inputs."""
        done = request.results
        if not done:
            return [task for task, before in self._before.items() if not before]
        found = dict.fromkeys(
            v
            for task, (_, outcome) in list(done.items())
            for v, label in self._after[task]
            if v not in done and label in (None, outcome)
        )
        needs = {v: [u for u, label in self._before[v] if label is None] for v in found}
        return [v for v in found if all(u in done for u in needs[v])]

    def answer(self, request: Request) -> tuple[bool, Any]:
        """Return whether all stages are done, and the value of the last one, or by task."""
        done, last = request.results, {}
        for task, (value, outcome) in done.items():
            following = [v for v, label in self._after[task] if label in (None, outcome)]
            if any(v not in done for v in following):
                return False, None
            if not following:
                last[task] = value
        return bool(last), next(iter(last.values())) if len(last) == 1 else last
