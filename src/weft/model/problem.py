"""`Problem`: a workflow bound to a cluster, indexed, with every cost in one form.

Seconds of task `t` on device `d` are ``work[t] * per_work[row[t], d]``. Costs of the form work /
speed need one row, costs per task kind one row per kind, a full matrix one row per task. A device
that cannot run a task (memory, cores, kind) has infinite costs, so planners and kernels need no
other test.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import refuse
from weft.display import Displayed
from weft.errors import InvalidInput, cause
from weft.model.cluster import Cluster
from weft.model.columns import FloatArray, IntArray, floats, frozen
from weft.model.costs import ROUNDING, amounts_of, costs_of, needs_of, refuse_times
from weft.model.workflow import Workflow
from weft.typed import typed, typed_dataclass


class ProblemArrays(NamedTuple):
    """The columns of compiled planners, one signature for all."""

    work: FloatArray  # (n,)
    row: IntArray  # (n,)
    per_work: FloatArray  # (k, p) seconds per unit of work; inf: cannot run there
    order: IntArray  # (n,) topological
    succ_ptr: IntArray  # (n + 1,)
    succ: IntArray  # (m,)
    succ_data: FloatArray  # (m,) bytes
    pred_ptr: IntArray  # (n + 1,)
    pred: IntArray  # (m,)
    pred_data: FloatArray  # (m,) bytes
    latency: FloatArray  # (p, p) seconds
    per_byte: FloatArray  # (p, p) seconds

    def reversed(self) -> ProblemArrays:
        """Return the graph with all edges and links turned around."""
        views = self.order[::-1], self.latency.T, self.per_byte.T
        # Frozen as the others are: one signature.
        order, latency, per_byte = (frozen(np.ascontiguousarray(view)) for view in views)
        return self._replace(
            order=order,
            latency=latency,
            per_byte=per_byte,
            succ_ptr=self.pred_ptr,
            succ=self.pred,
            succ_data=self.pred_data,
            pred_ptr=self.succ_ptr,
            pred=self.succ,
            pred_data=self.succ_data,
        )


@typed_dataclass(frozen=True, eq=False)
class Problem(Displayed):
    """A workflow on a cluster.

    Make one with `Problem.bind`, `Problem.from_arrays` or `weft.load`. Durations and transfers are
    zero or at least 1e-150 seconds. All of them together, each task on every device and each edge
    over the slowest link, are finite (less than 1.8e308 seconds).

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> p.n, p.p, p.duration(0, 1), p.transfer(0, 0, 1)
    (2, 2, 1.0, 2.0)
    """

    workflow: Workflow
    cluster: Cluster
    work: FloatArray
    row: IntArray
    per_work: FloatArray

    def __post_init__(self) -> None:
        """Refuse costs of other tasks or devices, and times too short or long to compute."""
        self._refuse_shapes()
        refuse_times(self)

    def _refuse_shapes(self) -> None:
        """Refuse a part of another problem, since kernels check no index."""
        n, p, rows = self.workflow.n, self.cluster.p, self.per_work.shape[0]
        fits = self.work.shape == self.row.shape == (n,) and self.per_work.shape == (rows, p)
        if not fits or (n and not (self.row.min() >= 0 and self.row.max() < rows)):
            raise InvalidInput(
                f"the costs are those of {self.work.size} tasks on "
                f"{self.per_work.shape[-1]} devices; "
                f"the problem has {n} and {p}: make it with Problem.bind"
            )

    @classmethod
    @typed
    def bind(cls, workflow: Workflow, cluster: Cluster) -> Problem:
        """Bind a workflow to a cluster; raises `InvalidInput` when a task fits no device."""
        work, row, per_work = costs_of(workflow, cluster)
        return cls(
            workflow, cluster, frozen(work), frozen(row), frozen(np.ascontiguousarray(per_work))
        )

    @classmethod
    @typed
    def from_arrays(
        cls,
        durations: ArrayLike | None = None,
        edges: ArrayLike = (),
        data: ArrayLike = 0.0,
        *,
        bandwidth: ArrayLike | None = None,
        latency: ArrayLike = 0.0,
        work: ArrayLike | None = None,
        speed: ArrayLike | None = None,
        memory: ArrayLike = 0.0,
        device_memory: ArrayLike = np.inf,
        names: Sequence[str] | None = None,
        devices: Sequence[str] | None = None,
        name: str = "problem",
    ) -> Problem:
        """Make a problem from plain arrays; without `bandwidth`, data moves in no time.

        Parameters
        ----------
        durations : (n, p) seconds; inf or NaN where a task cannot run on a device
        edges : (m, 2) ints, from task to task
        data : (m,) bytes (or one number for all); give the bandwidth too, or moving them is free
        bandwidth, latency : scalar or (p, p), in bytes per second and seconds; moving an edge takes
            latency + data / bandwidth, nothing on one device. None: links are infinitely fast
        work, speed : (n,) and (p,), in place of durations: keeps the product form, whatever n x p
        memory, device_memory : bytes a task needs, and a device has
        names, devices : names of the tasks and of the devices; None: "t0", ... and "d0", ...

        Examples
        --------
        >>> p = Problem.from_arrays([[2.0, 1.0]], names=["train"], devices=["cpu", "gpu"])
        >>> p.workflow.task_name(0), p.cluster.names
        ('train', ('cpu', 'gpu'))
        """
        pairs = _edge_pairs(edges)
        src, dst = pairs[:, 0], pairs[:, 1]
        bytes_ = floats(data, "data", shape=(len(pairs),))
        if (durations is None) == (work is None or speed is None):
            raise InvalidInput("give either durations, or both work and speed")
        rate = np.inf if bandwidth is None else bandwidth
        options: Any = {"bandwidth": rate, "latency": latency, "memory": device_memory}
        if devices is not None:
            options["names"] = _names(devices, "devices")
        tasks = None if names is None else _names(names, "names")
        columns: dict[str, FloatArray] = {}
        if durations is None:
            cluster = Cluster(speed=np.atleast_1d(np.asarray(speed, float)), **options)
            units = np.atleast_1d(np.asarray(work, float))
        else:
            matrix = _duration_matrix(durations, tasks)
            cluster = Cluster(speed=np.ones(matrix.shape[1]), **options)
            columns = {cluster.names[d]: matrix[:, d] for d in range(matrix.shape[1])}
            units = np.zeros(len(matrix))
        workflow = Workflow(
            name=name,
            work=units,
            src=src,
            dst=dst,
            data=bytes_,
            memory=cast("FloatArray", memory),  # a scalar fills the column
            durations=columns,
            names=tasks,
        )
        return cls.bind(workflow, cluster)

    @classmethod
    @typed
    def from_table(
        cls,
        table: Any,
        cluster: Cluster | None = None,
        *,
        bandwidth: ArrayLike | None = None,
        latency: ArrayLike = 0.0,
        name: str = "table",
    ) -> Problem:
        """Make a problem from a table with one row per task.

        Parameters
        ----------
        table : the path of a CSV file, a data frame (pandas, polars), or a dict of columns:

            - task : the name of the task
            - after : the tasks it waits for, separated by ";" or "|"
            - seconds:KIND : seconds on a device or a kind of device, one column for each; empty
              where the task cannot run. Or one column `seconds`: on a device of speed 1
            - bytes : size of the task's output, moved to every task after it; or after_bytes: one
              size per task in `after`
            - kind, memory (bytes), cores : optional

        cluster : the machines; None: one device per column seconds:KIND
        bandwidth, latency : links between these devices, as in `from_arrays`; None: infinitely fast

        Examples
        --------
        >>> table = {"task": ["a", "b"], "after": ["", "a"], "seconds:cpu": [2.0, 3.0]}
        >>> Problem.from_table(table).durations().tolist()
        [[2.0], [3.0]]
        """
        from weft.model.builder import columns_of_csv, workflow_from_table

        if isinstance(table, (str, os.PathLike)):
            try:
                text = Path(table).read_text(encoding="utf-8-sig")
            except (OSError, ValueError) as error:  # ValueError: no text, or no name of a file
                raise InvalidInput(f"{os.fspath(table)} cannot be read: {cause(error)}") from None
            table = columns_of_csv(text)
        workflow = workflow_from_table(table, name=name)
        if cluster is None and not workflow.durations:
            raise InvalidInput(
                "the table does not name machines: give cluster=, or columns such as 'seconds:cpu'"
            )
        if cluster is None:
            rate = np.inf if bandwidth is None else bandwidth
            cluster = one_of_each(workflow, bandwidth=rate, latency=latency)
        elif bandwidth is not None or np.any(latency):
            raise InvalidInput("the cluster has its own links; leave out bandwidth and latency")
        return cls.bind(workflow, cluster)

    @property
    def n(self) -> int:
        """Number of tasks."""
        return self.workflow.n

    @property
    def m(self) -> int:
        """Number of edges."""
        return self.workflow.m

    @property
    def p(self) -> int:
        """Number of devices."""
        return self.cluster.p

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self.workflow.name

    def duration(self, task: int, device: int) -> float:
        """Return the seconds of a task on a device; inf where it cannot run."""
        per_work = float(self.per_work[self.row[task], device])
        return float(self.work[task]) * per_work if per_work < np.inf else np.inf

    def durations(self) -> FloatArray:
        """Return a new full (n, p) matrix of seconds, for small problems."""
        with np.errstate(invalid="ignore"):
            dense = self.work[:, None] * self.per_work[self.row]
        return np.where(np.isinf(self.per_work[self.row]), np.inf, dense)

    def transfer(self, edge: int, source: int, target: int) -> float:
        """Return the seconds to move an edge's data between two devices."""
        return self.cluster.transfer_time(source, target, float(self.workflow.data[edge]))

    @property
    def shared(self) -> bool:
        """Whether tasks on the devices of a node share capacities."""
        return len(self.cluster.capacity) > 0

    @cached_property
    def contended(self) -> bool:
        """Whether tasks that run at the same time on a node can exceed a capacity."""
        if not self.shared or self.n == 0:
            return False
        devices = np.bincount(self.cluster.node, minlength=len(self.room))
        with np.errstate(over="ignore"):  # a product beyond all numbers exceeds the room, too
            return bool((devices[:, None] * self.needs.max(axis=0)[None, :] > self.room).any())

    @cached_property
    def needs(self) -> FloatArray:
        """(n, capacities) amounts that each task takes of the capacities of its node."""
        return frozen(needs_of(self.workflow, self.cluster))

    @cached_property
    def room(self) -> FloatArray:
        """(nodes, capacities) amounts of each node, raised by possible rounding errors."""
        return frozen(amounts_of(self.cluster) * (1.0 + ROUNDING))

    @cached_property
    def mean_per_work(self) -> FloatArray:
        """(k,) mean seconds per unit of work over the devices that can run the row."""
        can = np.isfinite(self.per_work)
        total = np.where(can, self.per_work, 0.0).sum(axis=1)
        return frozen(total / np.maximum(can.sum(axis=1), 1))  # an unused row may fit no device

    @cached_property
    def best_per_work(self) -> FloatArray:
        """(k,) seconds per unit of work on the fastest device."""
        return frozen(self.per_work.min(axis=1))

    @cached_property
    def arrays(self) -> ProblemArrays:
        """The columns compiled planners read."""
        w, c = self.workflow, self.cluster
        return ProblemArrays(
            work=self.work,
            row=self.row,
            per_work=self.per_work,
            order=w.order,
            succ_ptr=w.succ_ptr,
            succ=w.dst,
            succ_data=w.data,
            pred_ptr=w.pred_ptr,
            pred=frozen(w.src[w.pred_edge]),
            pred_data=frozen(w.data[w.pred_edge]),
            latency=c.latency,
            per_byte=c.per_byte,
        )


def _edge_pairs(edges: ArrayLike) -> IntArray:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidInput(
            f"edges must be pairs of task numbers, shape (m, 2); got shape {pairs.shape} of "
            f"{pairs.dtype}"
        )
    return pairs.astype(np.int64, copy=False)


def one_of_each(workflow: Workflow, **options: Any) -> Cluster:
    """Return one device per kind of a workflow's durations, wide enough for its tasks."""
    kinds = tuple(workflow.durations)
    cores = np.full(len(kinds), max(1, int(workflow.cores.max(initial=1))))
    return Cluster(speed=np.ones(len(kinds)), names=kinds, kinds=kinds, cores=cores, **options)


def _names(given: Sequence[str], option: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidInput(f"{option} is {given!r}; it must be a list of names")
    return tuple(str(name) for name in given)


def _duration_matrix(durations: ArrayLike, names: tuple[str, ...] | None) -> FloatArray:
    try:
        matrix = np.array(durations, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"durations must be an (n, p) matrix of numbers: {error}") from None
    if matrix.size == 0 and matrix.ndim < 2:
        matrix = matrix.reshape(0, 1)
    if matrix.ndim != 2:
        raise InvalidInput(f"durations must be an (n, p) matrix; got shape {matrix.shape}")
    refuse(
        matrix < 0,
        matrix,
        "duration",
        "zero or more",
        lambda i: f"task {i // matrix.shape[1]} on device {i % matrix.shape[1]}",
    )
    matrix[np.isinf(matrix)] = np.nan  # NaN is a workflow's mark for "cannot run there"
    stranded = np.isnan(matrix).all(axis=1)
    if stranded.any() and matrix.shape[1]:
        t = int(np.flatnonzero(stranded)[0])
        named = names[t] if names is not None and len(names) == len(matrix) else f"t{t}"
        raise InvalidInput(f"task '{named}' fits no device: its durations are all inf or NaN")
    return matrix
