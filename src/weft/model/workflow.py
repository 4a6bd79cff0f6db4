"""`Workflow`: tasks in columns, edges with bytes, choices between branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.arguments import refuse, refuse_negative, unique_names
from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray, assign, floats, frozen, integers, offsets
from weft.model.variants import Variant, checked_variants
from weft.typed import typed, typed_dataclass

ALWAYS = -1
"""The choice of an edge that is taken whatever happens."""


@typed_dataclass(frozen=True, eq=False)
class Choices:
    """Exclusive branches: when its task ends, each choice takes exactly one.

    A task may own several choices (independent draws). An edge either is taken always
    (`edge_choice` is -1) or belongs to one branch of one choice of its source. A branch without
    edges is allowed: "and then nothing".

    A task runs when at least one of its incoming edges is taken, and waits until every incoming
    edge is decided and the taken ones are finished; when none is taken the task is skipped, and so
    are its outgoing edges.

    Attributes
    ----------
    task : (c,) the task whose end decides the choice
    first : (c + 1,) where each choice's branches begin in `probability`
    probability : (b,) of each branch; sums to one within a choice
    labels : (b,) names of the branches, unique within a choice
    edge_choice : (m,) the choice an edge belongs to, or -1
    edge_branch : (m,) the branch within that choice (0 where `edge_choice` is -1)
    """

    task: IntArray
    first: IntArray
    probability: FloatArray
    labels: tuple[str, ...]
    edge_choice: IntArray
    edge_branch: IntArray

    @classmethod
    def none(cls, edges: int) -> Choices:
        """Return no choice at all: every edge is always taken."""
        empty = np.zeros(0, np.int64)
        return cls(
            task=empty,
            first=np.zeros(1, np.int64),
            probability=np.zeros(0),
            labels=(),
            edge_choice=frozen(np.full(edges, ALWAYS, np.int64)),
            edge_branch=frozen(np.zeros(edges, np.int64)),
        )

    def __len__(self) -> int:
        return len(self.task)

    def branches(self, choice: int) -> range:
        """Return the positions of a choice's branches in `probability` and `labels`."""
        return range(int(self.first[choice]), int(self.first[choice + 1]))

    def reordered(self, order: IntArray) -> Choices:
        """Return the same choices for edges in another order."""
        choice, branch = self.edge_choice[order], self.edge_branch[order]
        return replace(self, edge_choice=frozen(choice), edge_branch=frozen(branch))


@typed_dataclass(frozen=True, eq=False)
class Workflow:
    """A directed acyclic graph of tasks, frozen and validated once.

    Edges are kept sorted by (src, dst), whatever order they came in, so equal graphs give equal
    plans.

    Parameters
    ----------
    work : (n,) units of work; a device does `speed` units per second
    src, dst, data : (m,) edges and the bytes they carry
    kinds : names of the task kinds; `kind` : (n,) the kind of each task
    memory : (n,) bytes a task needs on its device; `cores` : (n,) cores it needs there
    needs : capacity of a node -> (n,) amount that a task takes while it runs. For the capacities
        "cores" and "memory", tasks need their `cores` and `memory` unless it is given here
    durations : device kind or device name -> (n,) seconds; NaN where the task cannot run there.
        Given durations replace work / speed.
    variants : task name or kind -> several ways to run it, of which a planner chooses one; see
        `Variant`
    choices : exclusive branches; see `Choices`
    names : task names, or None for "t0", "t1", ...

    Examples
    --------
    >>> w = Workflow(work=[1, 2], src=[0], dst=[1], data=[8e6])
    >>> w.n, w.m, w.task_name(1)
    (2, 1, 't1')
    """

    work: FloatArray
    src: IntArray
    dst: IntArray
    data: FloatArray
    kind: IntArray = 0  # type: ignore[assignment]  # a scalar fills the column
    kinds: tuple[str, ...] = ("task",)
    memory: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the column
    cores: IntArray = 1  # type: ignore[assignment]  # a scalar fills the column
    needs: Mapping[str, FloatArray] = field(default_factory=dict)
    durations: Mapping[str, FloatArray] = field(default_factory=dict)
    variants: Mapping[str, Sequence[Variant]] = field(default_factory=dict)
    choices: Choices = None  # type: ignore[assignment]  # no choices
    names: tuple[str, ...] | None = None
    name: str = "workflow"

    def __post_init__(self) -> None:
        """Validate everything once and freeze the columns."""
        n = len(np.atleast_1d(np.asarray(self.work))) if np.size(self.work) else 0
        m = int(np.size(self.src))
        names = tuple(str(x) for x in self.names) if self.names is not None else None
        if names is not None and len(names) != n:
            raise InvalidInput(f"workflow '{self.name}' has {n} tasks but {len(names)} task names")
        assign(
            self,
            names=names,
            kinds=tuple(str(k) for k in self.kinds),
            work=floats(self.work, "work", shape=(n,)),
            memory=floats(self.memory, "memory", shape=(n,)),
            cores=integers(self.cores, "cores", shape=(n,)),
            kind=integers(self.kind, "kind", shape=(n,)),
            needs={str(k): floats(v, f"needs of '{k}'", shape=(n,)) for k, v in self.needs.items()},
            durations={
                str(k): floats(v, f"durations on '{k}'", shape=(n,))
                for k, v in self.durations.items()
            },
            src=integers(self.src, "edge sources", shape=(m,)),
            dst=integers(self.dst, "edge targets", shape=(m,)),
            data=floats(self.data, "edge data", shape=(m,)),
            choices=self.choices if self.choices is not None else Choices.none(m),
        )
        self._check_tasks()
        self._check_edges()
        self._check_choice_shapes()
        self._sort_edges()
        self._check_choices()
        assign(self, variants=checked_variants(self, self.variants))
        assign(self, order=frozen(self._topological_order()))

    @classmethod
    @typed
    def from_networkx(cls, graph: Any) -> Workflow:
        """Make a workflow of a directed networkx graph.

        Nodes have ``seconds`` (on a device of speed 1; ``work`` is the same) or ``durations``, a
        dict from kind of device to seconds; they may have ``kind``, ``memory`` (bytes) and
        ``cores``. Edges may have ``data`` or ``bytes``.
        """
        from weft.model.builder import workflow_from_networkx

        return workflow_from_networkx(graph)

    # -- parts -------------------------------------------------------------

    order: IntArray = field(init=False, repr=False)
    """A topological order of the tasks: 0, 1, 2, ... if that is one."""

    @property
    def n(self) -> int:
        """Number of tasks."""
        return len(self.work)

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.src)

    @property
    def conditional(self) -> bool:
        """Whether any branch may or may not be taken."""
        return len(self.choices) > 0

    def task_name(self, task: int) -> str:
        """Return the name of a task."""
        return self.names[task] if self.names is not None else f"t{task}"

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """All task names."""
        return self.names if self.names is not None else tuple(f"t{i}" for i in range(self.n))

    @cached_property
    def index(self) -> dict[str, int]:
        """Task name -> number."""
        return unique_names(self.task_names, "task")

    # -- indexes ------------------------------------------------------------

    @cached_property
    def succ_ptr(self) -> IntArray:
        """(n + 1,) where each task's outgoing edges begin; edges are sorted by source."""
        return frozen(offsets(np.bincount(self.src, minlength=self.n)))

    @cached_property
    def pred_ptr(self) -> IntArray:
        """(n + 1,) where each task's incoming edges begin in `pred_edge`."""
        return frozen(offsets(np.bincount(self.dst, minlength=self.n)))

    @cached_property
    def pred_edge(self) -> IntArray:
        """(m,) edge numbers sorted by target, then by source."""
        return frozen(np.argsort(self.dst, kind="stable").astype(np.int64))

    def parents(self, task: int) -> IntArray:
        """Return the tasks whose results a task reads."""
        return self.src[self.pred_edge[self.pred_ptr[task] : self.pred_ptr[task + 1]]]

    def children(self, task: int) -> IntArray:
        """Return the tasks that read the result of a task."""
        return self.dst[self.succ_ptr[task] : self.succ_ptr[task + 1]]

    @cached_property
    def place(self) -> IntArray:
        """(n,) place of each task in `order`."""
        place = np.empty(self.n, np.int64)
        place[self.order] = np.arange(self.n)
        return frozen(place)

    @cached_property
    def level(self) -> IntArray:
        """(n,) longest number of edges from an entry task."""
        level = [0] * self.n
        ptr, dst = self.succ_ptr.tolist(), self.dst.tolist()
        for u in self.order.tolist():
            below = level[u] + 1
            for v in dst[ptr[u] : ptr[u + 1]]:
                level[v] = max(level[v], below)
        return frozen(np.asarray(level, np.int64))

    # -- validation ---------------------------------------------------------

    def _check_tasks(self) -> None:
        name = self._quoted
        refuse_negative(self.work, "work", name)
        refuse_negative(self.memory, "memory", name)
        refuse(self.cores < 1, self.cores, "cores", "1 or more", name)
        for capacity, amount in self.needs.items():
            refuse_negative(amount, f"need of '{capacity}'", name)
        refuse(
            (self.kind < 0) | (self.kind >= len(self.kinds)),
            self.kind,
            "kind",
            f"below {len(self.kinds)}",
            name,
        )
        for device, column in self.durations.items():
            bad = (column < 0) | np.isinf(column)
            refuse(
                bad,
                column,
                f"duration on '{device}'",
                "a finite number, zero or more (NaN: cannot run there)",
                name,
            )
        if self.names is not None:
            unique_names(self.names, "task")

    def _check_edges(self) -> None:
        for column, end in ((self.src, "source"), (self.dst, "target")):
            outside = (column < 0) | (column >= self.n)
            if outside.any():
                e = int(np.flatnonzero(outside)[0])
                raise InvalidInput(
                    f"edge {e} has the {end} {column[e]}, but there are {self.n} tasks (0 to "
                    f"{self.n - 1})"
                )
        refuse_negative(
            self.data,
            "data",
            lambda e: f"edge {self._quoted(int(self.src[e]))} -> {self._quoted(int(self.dst[e]))}",
        )
        loops = self.src == self.dst
        if loops.any():
            raise InvalidInput(f"{self._quoted(int(self.src[loops][0]))} depends on itself")

    def _sort_edges(self) -> None:
        key = self.src * np.int64(max(self.n, 1)) + self.dst
        steps = np.diff(key)
        if not (steps > 0).all():
            order = np.argsort(key, kind="stable")
            twice = np.flatnonzero(np.diff(key[order]) == 0)
            if len(twice):
                e = order[twice[0]]
                raise InvalidInput(
                    f"edge {self._quoted(int(self.src[e]))} -> {self._quoted(int(self.dst[e]))} "
                    "is given twice"
                )
            for column in ("src", "dst", "data"):
                assign(self, **{column: frozen(getattr(self, column)[order])})
            assign(self, choices=self.choices.reordered(order))

    def _check_choice_shapes(self) -> None:
        choices = self.choices
        if len(choices.edge_choice) != self.m or len(choices.edge_branch) != self.m:
            raise InvalidInput(
                f"the choices of '{self.name}' are for {len(choices.edge_choice)} edges, but there "
                f"are {self.m}; give one entry per edge"
            )
        ends, count, labels = choices.first, len(choices.probability), len(choices.labels)
        if (
            len(ends) != len(choices) + 1
            or labels != count
            or ends[0] != 0
            or ends[-1] != count
            or (np.diff(ends) < 0).any()
        ):
            raise InvalidInput(
                f"{len(choices)} choices begin at {ends.tolist()} among {count} probabilities and "
                f"{labels} labels"
            )

    def _check_choices(self) -> None:
        choices = self.choices
        for c, task in enumerate(choices.task.tolist()):
            if not 0 <= task < self.n:
                raise InvalidInput(
                    f"choice {c} belongs to task {task}, but there are {self.n} tasks"
                )
            share = choices.probability[choices.branches(c)]
            with np.errstate(over="ignore", invalid="ignore"):  # the sum is then refused
                total = float(share.sum())
            if not len(share) or not (share >= 0).all() or not abs(total - 1.0) <= 1e-9:
                raise InvalidInput(
                    f"the branches of {self._quoted(task)} have probabilities {share.tolist()}; "
                    "they must not be negative and must add up to 1"
                )
        for e in np.flatnonzero(choices.edge_choice != ALWAYS).tolist():
            c, b = int(choices.edge_choice[e]), int(choices.edge_branch[e])
            if not 0 <= c < len(choices) or not 0 <= b < len(choices.branches(c)):
                raise InvalidInput(
                    f"edge {e} belongs to branch {b} of choice {c}, which does not exist"
                )
            if choices.task[c] != self.src[e]:
                raise InvalidInput(
                    f"edge {e} leaves {self._quoted(int(self.src[e]))} "
                    f"but its choice belongs to {self._quoted(int(choices.task[c]))}"
                )

    def _topological_order(self) -> IntArray:
        if bool((self.src < self.dst).all()):
            return np.arange(self.n, dtype=np.int64)
        waiting = np.bincount(self.dst, minlength=self.n).tolist()
        ptr, dst = self.succ_ptr.tolist(), self.dst.tolist()
        order = [i for i in range(self.n) if waiting[i] == 0]
        for u in order:  # `order` grows in the loop: it is a queue
            for v in dst[ptr[u] : ptr[u + 1]]:
                waiting[v] -= 1
                if waiting[v] == 0:
                    order.append(v)
        if len(order) < self.n:
            raise InvalidInput(f"workflow '{self.name}' has a cycle: {self._a_cycle(waiting)}")
        return np.asarray(order, np.int64)

    def _a_cycle(self, waiting: list[int]) -> str:
        # Walk back among tasks that never became free: each has such a parent, so it closes.
        ptr, edge = self.pred_ptr, self.pred_edge
        at = next(i for i in range(self.n) if waiting[i] > 0)
        seen: dict[int, int] = {}
        path: list[int] = []
        while at not in seen:
            seen[at] = len(path)
            path.append(at)
            at = next(int(u) for u in self.src[edge[ptr[at] : ptr[at + 1]]] if waiting[u] > 0)
        cycle = [*path[seen[at] :], at][::-1]
        shown = cycle if len(cycle) <= 8 else [*cycle[:4], -1, *cycle[-3:]]
        return " -> ".join("..." if t == -1 else self._quoted(t) for t in shown)

    def _quoted(self, task: int) -> str:
        return f"task '{self.task_name(task)}'"
