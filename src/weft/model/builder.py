"""`WorkflowBuilder`: a workflow, built task by task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.model.columns import frozen
from weft.model.workflow import ALWAYS, Choices, Workflow
from weft.registry import closest


class WorkflowBuilder:
    """Collect tasks, edges and choices, then `build` the workflow.

    Examples
    --------
    >>> b = WorkflowBuilder("cascade")
    >>> small = b.task("small", work=1.0)
    >>> large = b.task("large", work=10.0, durations={"A100": 0.5})
    >>> b.choice(small, {"unsure": 0.2, "sure": 0.8})
    >>> b.edge(small, large, data=1e6, when="unsure")
    >>> b.build().conditional
    True
    """

    def __init__(self, name: str = "workflow") -> None:
        self.name = name
        self._tasks: dict[str, dict[str, object]] = {}
        self._edges: list[tuple[str, str, float, str | None]] = []
        self._choices: list[tuple[str, dict[str, float]]] = []

    def task(
        self,
        name: str,
        *,
        work: float = 0.0,
        kind: str = "task",
        memory: float = 0.0,
        cores: int = 1,
        durations: Mapping[str, float] | None = None,
    ) -> str:
        """Add a task and return its name, for use in `edge`."""
        if name in self._tasks:
            raise InvalidInput(f"task '{name}' is given twice")
        self._tasks[name] = {
            "work": work,
            "kind": kind,
            "memory": memory,
            "cores": cores,
            "durations": dict(durations or {}),
        }
        return name

    def edge(self, src: str, dst: str, *, data: float = 0.0, when: str | None = None) -> None:
        """Add an edge with `data` bytes; `when` names the branch of the source that takes it."""
        for end in (src, dst):
            if end not in self._tasks:
                raise UnknownName(
                    f"edge {src} -> {dst} names the unknown task '{end}'{closest(end, self._tasks)}"
                )
        self._edges.append((src, dst, data, when))

    def choice(self, task: str, branches: Mapping[str, float]) -> None:
        """When `task` ends, exactly one of the branches (label -> probability) is taken."""
        if task not in self._tasks:
            raise UnknownName(
                f"the choice of '{task}' names an unknown task{closest(task, self._tasks)}"
            )
        self._choices.append((task, dict(branches)))

    def build(self) -> Workflow:
        """Validate and freeze."""
        rows = list(self._tasks.values())
        index = {name: i for i, name in enumerate(self._tasks)}
        kinds = tuple(dict.fromkeys(str(r["kind"]) for r in rows)) or ("task",)
        number = {kind: k for k, kind in enumerate(kinds)}
        return Workflow(
            name=self.name,
            names=tuple(self._tasks),
            work=np.array([r["work"] for r in rows], float),
            kind=np.array([number[str(r["kind"])] for r in rows], np.int64),
            kinds=kinds,
            memory=np.array([r["memory"] for r in rows], float),
            cores=np.array([r["cores"] for r in rows]),
            durations=self._durations(rows),
            src=np.array([index[e[0]] for e in self._edges], np.int64),
            dst=np.array([index[e[1]] for e in self._edges], np.int64),
            data=np.array([e[2] for e in self._edges], float),
            choices=self._choice_columns(index),
        )

    @staticmethod
    def _durations(rows: list[dict[str, object]]) -> dict[str, np.ndarray]:
        columns: dict[str, np.ndarray] = {}
        for i, row in enumerate(rows):
            durations = row["durations"]
            assert isinstance(durations, dict)
            for device, seconds in durations.items():
                columns.setdefault(str(device), np.full(len(rows), np.nan))[i] = seconds
        return columns

    def _choice_columns(self, index: dict[str, int]) -> Choices:
        owner: dict[tuple[str, str], tuple[int, int]] = {}
        for c, (task, branches) in enumerate(self._choices):
            for b, label in enumerate(branches):
                if (task, label) in owner:
                    raise InvalidInput(f"task '{task}' has two branches called '{label}'")
                owner[task, label] = (c, b)
        edge_choice, edge_branch = [], []
        for src, dst, _, when in self._edges:
            if when is not None and (src, when) not in owner:
                known = [label for task, label in owner if task == src]
                raise UnknownName(
                    f"edge {src} -> {dst} is taken when '{when}', "
                    f"which is no branch of '{src}'{closest(when, known)}"
                )
            c, b = owner[src, when] if when is not None else (ALWAYS, 0)
            edge_choice.append(c)
            edge_branch.append(b)
        sizes = [len(branches) for _, branches in self._choices]
        return Choices(
            task=frozen(np.array([index[t] for t, _ in self._choices], np.int64)),
            first=frozen(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)),
            probability=frozen(
                np.array([p for _, br in self._choices for p in br.values()], float)
            ),
            labels=tuple(label for _, br in self._choices for label in br),
            edge_choice=frozen(np.array(edge_choice, np.int64)),
            edge_branch=frozen(np.array(edge_branch, np.int64)),
        )
