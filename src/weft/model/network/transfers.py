"""`Transfers`: when data moved between nodes in a simulated execution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.columns import FloatArray, IntArray, frozen


@dataclass(frozen=True, eq=False)
class Transfers:
    """One row per transfer between nodes, in the order in which they began.

    Attributes
    ----------
    job, edge : (x,) job, and edge of its workflow, whose data moved
    source, target : (x,) devices
    begin : (x,) when the producer had ended and the consumer was committed to the target
    end : (x,) when all data was on the target; NaN: still moving when the last job ended
    """

    job: IntArray
    edge: IntArray
    source: IntArray
    target: IntArray
    begin: FloatArray
    end: FloatArray

    def __post_init__(self) -> None:
        """Freeze the columns."""
        for key in (*self.integers(), "begin", "end"):
            object.__setattr__(self, key, frozen(np.ascontiguousarray(getattr(self, key))))

    @staticmethod
    def integers() -> tuple[str, ...]:
        """Names of the columns of whole numbers."""
        return ("job", "edge", "source", "target")

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The columns."""
        return {key: getattr(self, key).copy() for key in (*self.integers(), "begin", "end")}

    def __len__(self) -> int:
        return len(self.edge)
