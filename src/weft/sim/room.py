"""`Room`: the amounts left of the capacities that tasks on a node share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray


class Room:
    """Amounts of each capacity of each node, less what executions have taken.

    `needs` gives what an instance takes of each capacity.

    Examples
    --------
    >>> from weft.model import Cluster, Device, Problem, Workflow
    >>> cluster = Cluster.of([Device("a")], capacity={"cores": {"node0": 2.0}})
    >>> problem = Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[], cores=[2]), cluster)
    >>> room = Room(Workload.of(problem), lambda instance: problem.needs[instance])
    >>> room.occupy(0, 0, -1.0)
    >>> room.fits([0], 0), room.holds([0], 0)
    (False, True)
    """

    def __init__(self, workload: Workload, needs: Callable[[int], FloatArray]) -> None:
        cluster, amounts = workload.cluster, workload.problems[0].room
        self._needs = needs
        self._node: list[int] = cluster.node.tolist()
        self._whole: list[list[float]] = amounts.tolist() if cluster.capacity else []
        self._left: list[list[float]] = [list(row) for row in self._whole]

    def grow(self, workload: Workload) -> None:
        """Add the devices and nodes of a larger cluster."""
        self._node = workload.cluster.node.tolist()
        whole = workload.problems[0].room.tolist() if workload.cluster.capacity else []
        self._left += [list(row) for row in whole[len(self._whole) :]]
        self._whole = whole

    def fits(self, members: Sequence[int], device: int) -> bool:
        """Return whether a group can start on a device now."""
        return not self._left or self._within(self._left[self._node[device]], members)

    def holds(self, members: Sequence[int], device: int) -> bool:
        """Return whether the node of a device could run a group if it were idle."""
        return not self._whole or self._within(self._whole[self._node[device]], members)

    def occupy(self, instance: int, device: int, sign: float) -> None:
        """Take what an instance needs (sign -1) or give it back (sign 1)."""
        if self._left:
            left = self._left[self._node[device]]
            for c, need in enumerate(self._needs(instance).tolist()):
                left[c] += sign * need

    def needs(self, members: Sequence[int]) -> FloatArray:
        """Return the amounts of each capacity that a group takes."""
        total = np.zeros(len(self._whole[0]) if self._whole else 0)
        for i in members:
            total = total + self._needs(i)
        return total

    def node(self, device: int) -> int:
        """Return the number of a device's node."""
        return self._node[device]

    def left(self) -> FloatArray | None:
        """Return the amounts left (nodes, capacities); None without capacities."""
        return np.array(self._left) if self._left else None

    def amounts(self) -> list[list[float]]:
        """Return the amounts left as plain data, for `resume`."""
        return [list(row) for row in self._left]

    def resume(self, left: Sequence[Sequence[float]]) -> None:
        """Resume with the amounts left; an empty list means that nothing is taken."""
        for mine, row in zip(self._left, left, strict=False):
            mine[:] = row

    def _within(self, amounts: Sequence[float], members: Sequence[int]) -> bool:
        left = list(amounts)
        for i in members:
            for c, need in enumerate(self._needs(i).tolist()):
                left[c] -= need
        return all(amount >= 0.0 for amount in left)
