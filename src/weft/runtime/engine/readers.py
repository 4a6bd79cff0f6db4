"""Which results are still to be read: one that nobody will ask for again can go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from weft.model import Workflow
from weft.runtime.engine.live_lifecycle import LiveLifecycle


class ResultRefs:
    """Counts for every instance the tasks that have yet to read its result.

    Parameters
    ----------
    wanted : instances whose results are handed back in the end

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[1.0], [1.0]], [[0, 1]])))
    >>> readers = ResultRefs(life, frozenset({1}))
    >>> life.inputs[1].append((0, 0))
    >>> readers.done([1]), readers.needed(0), readers.needed(1)
    ([0], False, True)
    """

    def __init__(self, life: LiveLifecycle, wanted: Iterable[int]) -> None:
        self.life = life
        self.wanted = set(wanted)
        counts = [_children(problem.workflow) for problem in life.workload.problems]
        self._left: list[int] = [
            count for t in life.workload.template.tolist() for count in counts[t]
        ]

    def extend(self, wanted: Iterable[int]) -> None:
        """More jobs have come."""
        workload = self.life.workload
        self.wanted.update(wanted)
        for job in (
            range(self.life.place[len(self._left)][0], workload.jobs)
            if len(self._left) < workload.instances
            else ()
        ):
            self._left.extend(_children(workload.problem_of(job).workflow))

    def needed(self, instance: int) -> bool:
        """Whether anybody will ask for a result."""
        return self._left[instance] > 0 or instance in self.wanted

    def done(self, members: Sequence[int]) -> list[int]:
        """A group is done; return the instances whose results can go. A plan with copies may read them again."""
        gone: list[int] = []
        if self.life.planned:
            return gone
        for i in members:
            for parent, _ in self.life.inputs[i]:
                self._left[parent] -= 1
                if not self._left[parent] and parent not in self.wanted:
                    gone.append(parent)
        return gone


def _children(workflow: Workflow) -> list[int]:
    """How many tasks read the result of each; edges are sorted, so two between the same tasks are neighbours."""
    src, dst = workflow.src, workflow.dst
    new = np.ones(len(src), bool)
    new[1:] = (np.diff(src) != 0) | (np.diff(dst) != 0)
    found: list[int] = np.bincount(src[new], minlength=workflow.n).tolist()
    return found
