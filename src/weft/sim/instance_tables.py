"""Tables of instances and edges that stay small with millions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from weft.model import Problem, Workflow
from weft.model.columns import IntArray
from weft.model.workflow import ALWAYS

T = TypeVar("T")


class InstanceNames(Sequence[str]):
    """Every instance in words, made when they are read: few are.

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


class OutgoingEdges(NamedTuple):
    """Edges by number in flat lists; those of task t are ``begin[t]`` to ``begin[t + 1] - 1``."""

    begin: list[int]
    child: list[int]
    choice: list[int]
    branch: list[int]

    @staticmethod
    def of(workflow: Workflow) -> OutgoingEdges:
        """Lay out the edges of a workflow, which are sorted by their source."""
        choices = workflow.choices
        return OutgoingEdges(
            workflow.succ_ptr.tolist(),
            workflow.dst.tolist(),
            choices.edge_choice.tolist(),
            choices.edge_branch.tolist(),
        )

    def taken(self, edge: int, outcome: IntArray, first: int) -> bool:
        """Return whether the outcomes of choices, which begin at `first`, take an edge."""
        choice = self.choice[edge]
        return choice == ALWAYS or int(outcome[first + choice]) == self.branch[edge]
