"""`WorkflowBuilder`: workflows task by task, from a table or a networkx graph."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from weft.arguments import shown, unique_names
from weft.errors import InvalidInput, MissingExtra, UnknownName
from weft.model.columns import frozen, offsets
from weft.model.variants import Variant
from weft.model.workflow import ALWAYS, Choices, Workflow
from weft.registry import closest
from weft.typed import typed, typed_class

SECONDS = "seconds:"
"""Prefix of the columns of a task table with the seconds on one device or kind of device."""

COLUMNS = ("task", "after", "seconds", "bytes", "after_bytes", "kind", "memory", "cores")
"""Columns of a task table, besides those of `SECONDS`."""

Number = Callable[[object, str, str], float]
"""A reader of numbers: (value, dimension, what it is) -> seconds or bytes."""


@typed_class
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
        self._tasks: dict[str, dict[str, Any]] = {}
        self._edges: list[tuple[str, str, float, str | None]] = []
        self._choices: list[tuple[str, dict[str, float]]] = []

    @typed
    def task(
        self,
        name: str,
        *,
        work: float = 0.0,
        kind: str = "task",
        memory: float = 0.0,
        cores: int = 1,
        needs: Mapping[str, float] | None = None,
        durations: Mapping[str, float] | None = None,
        variants: Sequence[Variant] = (),
    ) -> str:
        """Add a task and return its name, for use in `edge`.

        `needs` are amounts of capacities. `variants` are several ways to run it, of which a planner
        chooses one.
        """
        if name in self._tasks:
            raise InvalidInput(f"task '{name}' is given twice")
        if np.ndim(cores):
            raise InvalidInput(f"cores of task '{name}' is {shown(cores)}; give one number")
        self._tasks[name] = {
            "work": float(work),
            "kind": kind,
            "memory": float(memory),
            "cores": cores,
            "needs": dict(needs or {}),
            "durations": dict(durations or {}),
            "variants": tuple(variants),
        }
        return name

    @typed
    def edge(self, src: str, dst: str, *, data: float = 0.0, when: str | None = None) -> None:
        """Add an edge with `data` bytes; `when` names the branch of the source."""
        for end in (src, dst):
            if end not in self._tasks:
                raise UnknownName(
                    f"the edge from {shown(src)} to {shown(dst)} names the unknown task "
                    f"{shown(end)}{closest(str(end), self._tasks)}"
                )
        hash(when)  # branches are found by their label
        self._edges.append((src, dst, float(data), when))

    @typed
    def choice(self, task: str, branches: Mapping[str, float]) -> None:
        """Add a choice: `task` takes exactly one branch (label -> probability) at its end."""
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
            needs=self._columns(rows, "needs", 0.0),
            durations=self._columns(rows, "durations", np.nan),
            src=np.array([index[e[0]] for e in self._edges], np.int64),
            dst=np.array([index[e[1]] for e in self._edges], np.int64),
            data=np.array([e[2] for e in self._edges], float),
            choices=self._choice_columns(index),
            variants={k: r["variants"] for k, r in self._tasks.items() if r["variants"]},
        )

    @staticmethod
    def _columns(rows: list[dict[str, Any]], key: str, empty: float) -> dict[str, np.ndarray]:
        """Gather the dicts under a key of each row into one column per name."""
        columns: dict[str, np.ndarray] = {}
        for i, row in enumerate(rows):
            for name, number in row[key].items():
                columns.setdefault(str(name), np.full(len(rows), empty))[i] = number
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
            first=frozen(offsets(sizes)),
            probability=frozen(
                np.array([p for _, br in self._choices for p in br.values()], float)
            ),
            labels=tuple(label for _, br in self._choices for label in br),
            edge_choice=frozen(np.array(edge_choice, np.int64)),
            edge_branch=frozen(np.array(edge_branch, np.int64)),
        )


def plain_number(value: object, dimension: str, what: str) -> float:
    """Return a number, or the number that a text holds."""
    try:
        return float(value)  # type: ignore[arg-type]  # what it refuses is caught
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} is {value!r}; it must be a number ({dimension})") from None


def columns_of_csv(text: str) -> dict[str, list[str]]:
    r"""Return the columns of a CSV text by the names in its first line.

    Examples
    --------
    >>> columns_of_csv("task,seconds\na,2\nb,3\n")
    {'task': ['a', 'b'], 'seconds': ['2', '3']}
    """
    head = text.lstrip().split("\n", 1)[0]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise InvalidInput(f"is no CSV: {error}") from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    unique_names(header, "column")
    for i, row in enumerate(rows[1:], 1):
        if len(row) != len(header):
            raise InvalidInput(f"row {i} has {len(row)} cells, but there are {len(header)} columns")
    return {name: [row[c].strip() for row in rows[1:]] for c, name in enumerate(header)}


def workflow_from_table(
    table: Any, *, name: str = "table", number: Number = plain_number
) -> Workflow:
    """Make a workflow of a table with one row per task; see `Problem.from_table`."""
    columns = _columns_of(table)
    kinds = _check_columns(columns)
    build = WorkflowBuilder(name)
    tasks = [_text(cell) for cell in columns["task"]]
    rows = [{c: cells[i] for c, cells in columns.items()} for i in range(len(tasks))]
    pairs = list(zip(tasks, rows, strict=True))
    for i, (task, row) in enumerate(pairs, 1):
        if not task:
            raise InvalidInput(f"row {i} has no task name")
        seconds = {
            kind: number(row[SECONDS + kind], "seconds", f"seconds of task '{task}' on '{kind}'")
            for kind in kinds
            if not _empty(row[SECONDS + kind])
        }
        if not seconds and _empty(row.get("seconds")):
            raise InvalidInput(f"task '{task}' has no seconds on any device")
        build.task(
            task,
            work=_cell(row, "seconds", "seconds", task, number),
            kind=_text(row.get("kind")) or "task",
            memory=_cell(row, "memory", "bytes", task, number),
            cores=_whole(row.get("cores"), task),
            durations=seconds,
        )
    outputs = {task: _cell(row, "bytes", "bytes", task, number) for task, row in pairs}
    for task, row in pairs:
        parents = _parts(row.get("after"))
        sizes = _parts(row.get("after_bytes"))
        if sizes and len(sizes) != len(parents):
            raise InvalidInput(
                f"task '{task}' comes after {len(parents)} tasks, but its after_bytes has "
                f"{len(sizes)} entries"
            )
        for i, parent in enumerate(parents):
            if parent not in outputs:
                listed = all(part.strip() in outputs for part in parent.split(","))
                hint = "; separate tasks by ';'" if listed else closest(parent, outputs)
                raise UnknownName(f"task '{task}' comes after the unknown task '{parent}'{hint}")
            moved = outputs[parent]
            if sizes:
                moved = number(sizes[i], "bytes", f"after_bytes of task '{task}'")
            build.edge(parent, task, data=moved)
    return build.build()


_CONVERTERS = (
    ("__arrow_c_stream__", "polars", "from_dataframe"),
    ("__arrow_c_stream__", "pyarrow", "table"),
    ("__dataframe__", "pandas", "api.interchange.from_dataframe"),
)
"""Protocols of data frames, and functions that read them; the first installed one is used."""


def _converted(table: Any) -> Any:
    """Return a data frame of another library as one whose columns can be read."""
    offered = [row for row in _CONVERTERS if hasattr(table, row[0])]
    for _, library, function in offered:
        if find_spec(library) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Warning)  # pandas is to drop the older protocol
                return attrgetter(function)(import_module(library))(table)
    if offered:
        known = " or ".join(dict.fromkeys(row[1] for row in offered))
        raise MissingExtra(known, known.split(" ")[0])
    raise InvalidInput(
        f"the table is of type {type(table).__name__}; it must be a path of a CSV file, a data "
        "frame or a dict of columns"
    )


def _columns_of(table: Any) -> dict[str, list[Any]]:
    if type(table).__name__ == "LazyFrame":  # of polars
        table = table.collect()
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        table = _converted(table)
    if isinstance(table, Mapping):
        names = list(table)
    else:
        names = list(getattr(table, "column_names", table.columns))  # pyarrow has both
    columns = {str(name).strip(): _cells(table[name], str(name)) for name in names}
    lengths = {name: len(cells) for name, cells in columns.items()}
    for name, length in lengths.items():
        if length != next(iter(lengths.values())):
            raise InvalidInput(f"column '{name}' has {length} rows, others have more or fewer")
    return columns


def _cells(column: Any, name: str) -> list[Any]:
    for method in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, str) or not hasattr(column, "__iter__"):
        raise InvalidInput(f"column '{name}' is {column!r}; it must be a list")
    return list(column)


def _check_columns(columns: Mapping[str, object]) -> list[str]:
    """Return the kinds of devices with seconds; refuse unknown and missing columns."""
    kinds = [c.removeprefix(SECONDS).strip() for c in columns if c.startswith(SECONDS)]
    for column in columns:
        if column not in COLUMNS and not column.startswith(SECONDS):
            known = (*COLUMNS, f"{SECONDS}KIND")
            raise UnknownName(f"unknown column '{column}'{closest(column, known)}")
    if "task" not in columns:
        raise InvalidInput("the table has no column 'task'")
    if not kinds and "seconds" not in columns:
        raise InvalidInput(
            "the table has neither a column 'seconds' nor one per kind of device, such as "
            "'seconds:cpu'"
        )
    if "bytes" in columns and "after_bytes" in columns:
        raise InvalidInput(
            "the table has both 'bytes' (the output of a task) and 'after_bytes' (one entry per "
            "task in 'after'); keep one of them"
        )
    return kinds


def _empty(cell: object) -> bool:
    if cell is None or type(cell).__name__ == "NAType":  # of pandas: it cannot be compared
        return True
    return bool(cell == "" or cell != cell)  # noqa: PLR0124  # NaN


def _text(cell: object) -> str:
    if _empty(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():  # empty cells make a column float
        return str(int(cell))
    return str(cell).strip()


def _parts(cell: object) -> list[str]:
    if isinstance(cell, list | tuple):
        return [_text(part) for part in cell]
    return [part.strip() for part in re.split(r"[;|]", _text(cell)) if part.strip()]


def _cell(
    row: Mapping[str, object], column: str, dimension: str, task: str, number: Number
) -> float:
    cell = row.get(column)
    return 0.0 if _empty(cell) else number(cell, dimension, f"{column} of task '{task}'")


def _whole(cell: object, task: str) -> int:
    cores = 1.0 if _empty(cell) else plain_number(cell, "cores", f"cores of task '{task}'")
    if not cores.is_integer():
        raise InvalidInput(f"cores of task '{task}' is {cell!r}; it must be a whole number")
    return int(cores)


def workflow_from_networkx(graph: Any) -> Workflow:
    """Make a workflow of a directed networkx graph; see `Workflow.from_networkx`."""
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise InvalidInput(
            f"the graph is of type {type(graph).__name__}; it must be a networkx.DiGraph"
        )
    if not graph.is_directed() or graph.is_multigraph():
        raise InvalidInput("the graph must be directed and have one edge per pair: use DiGraph")
    build = WorkflowBuilder(str(getattr(graph, "name", "") or "graph"))
    for node, facts in graph.nodes(data=True):
        per_device = facts.get("durations", {})
        if not isinstance(per_device, Mapping):
            raise InvalidInput(
                f"durations of node '{node}' is {per_device!r}; it must be a dict: kind of device "
                "-> seconds"
            )
        if not {"work", "seconds", "durations"} & facts.keys():
            raise InvalidInput(
                f"node '{node}' has neither seconds nor durations: graph.add_node({node!r}, "
                "seconds=2.0)"
            )
        seconds = facts.get("work", facts.get("seconds", 0.0))
        build.task(
            str(node),
            work=plain_number(seconds, "seconds", f"seconds of node '{node}'"),
            kind=str(facts.get("kind", "task")),
            memory=plain_number(facts.get("memory", 0.0), "bytes", f"memory of node '{node}'"),
            cores=_whole(facts.get("cores"), str(node)),
            durations={
                str(k): plain_number(v, "seconds", f"duration of node '{node}' on '{k}'")
                for k, v in per_device.items()
            },
        )
    for u, v, facts in graph.edges(data=True):
        moved = facts.get("data", facts.get("bytes", 0.0))
        build.edge(
            str(u), str(v), data=plain_number(moved, "bytes", f"data of edge '{u}' -> '{v}'")
        )
    return build.build()
