"""Tables of instances and edges that stay small with millions of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from weft.model import Problem, Workflow
from weft.model.columns import IntArray
from weft.model.workflow import ALWAYS

T = TypeVar("T")


class InstanceNames(Sequence[str]):
    """The words for every instance, made only when they are read.

    Parameters
    ----------
    place : job and task of each instance
    problem : returns the problem of an instance
    """

    def __init__(self, place: Sequence[tuple[int, int]], problem: Callable[[int], Problem]) -> None:
        self._place, self._problem = place, problem

    def __len__(self) -> int:
        return len(self._place)

    def __getitem__(self, instance: Any) -> Any:
        """Return the words for one instance."""
        job, task = self._place[instance]
        return f"task '{self._problem(instance).workflow.task_name(task)}' of job {job}"


def add_to(table: list[Sequence[T]], row: int, entry: T) -> None:
    """Add an entry to a row; a row without entries shares the empty tuple.

    Examples
    --------
    >>> table = [(), ()]
    >>> add_to(table, 1, 5)
    >>> table
    [(), [5]]
    """
    entries = table[row]
    if isinstance(entries, list):
        entries.append(entry)
    else:
        table[row] = [entry]


def small_numbers(column: IntArray) -> Sequence[int]:
    """Return numbers in 4 bytes each.

    A list takes up to 40 bytes per number, and numpy is slow one by one.

    Examples
    --------
    >>> small_numbers(np.array([3, 70_000]))[1]
    70000
    """
    numbers = array("i")
    numbers.frombytes(np.ascontiguousarray(column, np.int32).tobytes())
    return numbers


class OutgoingEdges(NamedTuple):
    """Edges in flat columns; those of task t begin at ``begin[t]``."""

    begin: Sequence[int]
    child: Sequence[int]
    choice: Sequence[int]
    branch: Sequence[int]

    @staticmethod
    def of(workflow: Workflow) -> OutgoingEdges:
        """Lay out the edges of a workflow, which are sorted by their source."""
        choices = workflow.choices
        return OutgoingEdges(
            small_numbers(workflow.succ_ptr),
            small_numbers(workflow.dst),
            small_numbers(choices.edge_choice),
            small_numbers(choices.edge_branch),
        )

    def taken(self, edge: int, outcome: IntArray, first: int) -> bool:
        """Return whether the outcomes of choices, which begin at `first`, take an edge."""
        choice = self.choice[edge]
        return choice == ALWAYS or int(outcome[first + choice]) == self.branch[edge]
