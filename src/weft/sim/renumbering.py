"""New numbers of jobs and instances after old jobs left and new ones joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model import Workload
from weft.model.columns import IntArray


@dataclass(frozen=True, eq=False)
class Renumbering:
    """The jobs that stay come first, in their order; new ones follow.

    Attributes
    ----------
    jobs : (jobs,) old numbers of the jobs that stay
    instances : (old instances,) new number of each instance, -1: its job left
    gone : (problems,) arrived jobs of each problem that left

    Examples
    --------
    >>> from weft.model import Problem
    >>> old = Workload.of(Problem.from_arrays([[1.0], [2.0]]), arrival=[0.0, 1.0, 2.0])
    >>> numbers = Renumbering.keep(old, [0, 2], arrived=3)
    >>> numbers.instances.tolist(), numbers.of([5, 2]), numbers.gone.tolist()
    ([0, 1, -1, -1, 2, 3], [3], [1])
    """

    jobs: IntArray
    instances: IntArray
    gone: IntArray

    @classmethod
    def keep(cls, old: Workload, jobs: Sequence[int], *, arrived: int) -> Renumbering:
        """Return the renumbering that keeps these jobs of a workload.

        The first `arrived` jobs have arrived.
        """
        stays = np.zeros(old.jobs, bool)
        stays[np.asarray(jobs, np.int64)] = True
        by_instance = np.repeat(stays, np.diff(old.first_instance))
        left = old.template[:arrived][~stays[:arrived]]
        return cls(
            jobs=np.asarray(jobs, np.int64),
            instances=np.where(by_instance, np.cumsum(by_instance) - 1, -1),
            gone=np.bincount(left, minlength=len(old.problems)),
        )

    def of(self, instances: Sequence[int] | IntArray) -> list[int]:
        """Return the new numbers of the instances that stay."""
        found: list[int] = self.instances[np.asarray(instances, np.int64)].tolist()
        return [i for i in found if i >= 0]
