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
        """Return the names of the columns of whole numbers."""
        return ("job", "edge", "source", "target")

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the columns by name."""
        return {key: getattr(self, key).copy() for key in (*self.integers(), "begin", "end")}

    def arrivals(
        self, job: IntArray, edge: IntArray, device: IntArray, sent: FloatArray
    ) -> FloatArray:
        """Return when the data of edges, sent at these times, is on a device; NaN: never."""
        rows: dict[tuple[int, int, int], list[int]] = {}
        keys = zip(self.job.tolist(), self.edge.tolist(), self.target.tolist(), strict=True)
        for r, key in enumerate(keys):
            rows.setdefault(key, []).append(r)
        found = np.full(len(job), np.nan)
        wanted = zip(job.tolist(), edge.tolist(), device.tolist(), strict=True)
        for i, key in enumerate(wanted):
            for r in rows.get(key, ()):
                if np.isclose(self.begin[r], sent[i], rtol=1e-9, atol=0.0):
                    found[i] = self.end[r]
        return found

    def __len__(self) -> int:
        return len(self.edge)
