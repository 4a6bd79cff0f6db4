"""`Schedule`: an intended plan. One row per task, and one more per copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from weft.display import Displayed
from weft.errors import InvalidInput
from weft.model.columns import BoolArray, FloatArray, IntArray, floats, frozen, integers
from weft.typed import typed, typed_dataclass

if TYPE_CHECKING:
    from weft.model.problem import Problem


@typed_dataclass(frozen=True, eq=False)
class Schedule(Displayed):
    """Where and when each task runs, sorted by task, the original before its copies.

    Examples
    --------
    >>> s = Schedule.of(device=[0, 1], start=[0.0, 2.0], finish=[1.0, 5.0])
    >>> s.makespan, s.to_arrays()["device"].tolist()
    (5.0, [0, 1])
    """

    task: IntArray
    device: IntArray
    start: FloatArray
    finish: FloatArray
    copy: BoolArray

    @classmethod
    @typed
    def of(
        cls,
        *,
        device: ArrayLike,
        start: ArrayLike,
        finish: ArrayLike,
        task: ArrayLike | None = None,
        copy: ArrayLike = False,
    ) -> Schedule:
        """Gather columns; without `task`, row i is task i."""
        rows = int(np.size(device))
        flags = np.asarray(copy, bool)
        if flags.shape not in ((), (rows,)):
            raise InvalidInput(f"copy has shape {flags.shape}, expected {(rows,)}")
        columns = {
            "task": integers(np.arange(rows) if task is None else task, "task", shape=(rows,)),
            "device": integers(device, "device", shape=(rows,)),
            "start": floats(start, "start", shape=(rows,)),
            "finish": floats(finish, "finish", shape=(rows,)),
            "copy": np.broadcast_to(flags, (rows,)),
        }
        bad = ~(np.isfinite(columns["start"]) & np.isfinite(columns["finish"]))
        if bad.any():
            r = int(np.flatnonzero(bad)[0])
            raise InvalidInput(
                f"task {columns['task'][r]} is scheduled from {columns['start'][r]} to "
                f"{columns['finish'][r]}; times must be finite"
            )
        order = np.lexsort((columns["device"], columns["start"], columns["copy"], columns["task"]))
        return cls(
            **{key: frozen(np.ascontiguousarray(column[order])) for key, column in columns.items()}
        )

    def __post_init__(self) -> None:
        """Refuse columns of different lengths: compiled code reads them side by side."""
        lengths = {name: np.shape(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(set(lengths.values())) > 1 or np.ndim(self.task) != 1:
            raise InvalidInput(f"the columns of a schedule have shapes {lengths}; give equal ones")

    def refuse_other_problem(self, problem: Problem) -> None:
        """Refuse a problem that does not have all tasks and devices of the rows."""
        for noun, column, size in (
            ("task", self.task, problem.n),
            ("device", self.device, problem.p),
        ):
            if len(column) and not 0 <= column.min() <= column.max() < size:
                row = int(np.flatnonzero((column < 0) | (column >= size))[0])
                raise InvalidInput(
                    f"row {row} of the schedule is of {noun} {column[row]}, but "
                    f"'{problem.name}' has {size} {noun}s; give the problem the schedule is for"
                )

    def names(self, problem: Problem) -> dict[str, list[str]]:
        """Return the names of the tasks and devices of the rows, in columns."""
        self.refuse_other_problem(problem)
        return {
            "task_name": [problem.workflow.task_name(t) for t in self.task.tolist()],
            "device_name": [problem.cluster.names[d] for d in self.device.tolist()],
        }

    def __len__(self) -> int:
        return len(self.task)

    @property
    def makespan(self) -> float:
        """When the last row ends; 0 for an empty schedule."""
        return float(self.finish.max()) if len(self) else 0.0

    @property
    def copies(self) -> int:
        """Number of duplicates."""
        return int(self.copy.sum())

    def busy(self, devices: int) -> FloatArray:
        """Return (devices,) seconds that each device works."""
        seconds = self.finish - self.start
        return np.bincount(self.device, weights=seconds, minlength=devices).astype(float)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the columns: task, device, start, finish, copy (True for a duplicate)."""
        return {
            key: getattr(self, key).copy() for key in ("task", "device", "start", "finish", "copy")
        }


@runtime_checkable
class Planned(Protocol):
    """A schedule with the problem it is for, such as the `Plan` of a planner."""

    @property
    def problem(self) -> Problem:
        """The problem."""
        ...

    @property
    def schedule(self) -> Schedule:
        """The schedule."""
        ...
