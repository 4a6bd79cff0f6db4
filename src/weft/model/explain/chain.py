"""The critical chain: from the last finish back to an arrival, without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.model.explain.causes import INPUT, CauseTable, ExecutionTable, triggers
from weft.model.oracle.consequences import changes_of
from weft.model.oracle.violation import exceeds
from weft.model.trace import DONE

PARTS = (
    "computing",
    "moving data",
    "lost work",
    "waiting for a device",
    "waiting for a decision",
    "waiting for arrival",
)
"""Where the time of a critical chain goes. `lost work` was cut off by a failure or cancellation;
a chain waits for a device only while the device is down, since a busy device computes."""
COMPUTING, MOVING, LOST_WORK, FOR_DEVICE, FOR_DECISION, FOR_ARRIVAL = PARTS


@dataclass(frozen=True)
class Segment:
    """A piece of the critical chain: what execution `row` did or waited for."""

    part: str
    start: float
    finish: float
    row: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.finish - self.start


def follow_chain(
    t: ExecutionTable, candidates: CauseTable, causes: CauseTable
) -> Iterator[Segment]:
    """Yield the segments of the critical chain, the last first, without gaps."""
    if not len(t):
        return
    early = None if t.eager else triggers(t, candidates)
    row, end, seen = int(t.finish.argmax()), t.end, set[int]()
    while True:
        seen.add(row)
        g = int(t.group[row])
        known = min(float(causes.time[g]), end)
        start = min(float(t.start[row]), end)
        if not exceeds(np.array(start), np.array(known)):
            start = known  # a difference by rounding is no wait
        yield Segment(COMPUTING if t.status[row] == DONE else LOST_WORK, start, end, row)
        yield from _waiting(t, row, known, start)
        source = int(causes.source[g])
        if causes.kind[g] == INPUT:
            sent = min(float(causes.sent[g]), known)
            yield Segment(MOVING, sent, known, row)
            known = sent
            if early is not None and sent > t.finish[source]:  # sent once its reader was committed
                known, source = min(float(early.time[g]), sent), int(early.source[g])
                yield Segment(FOR_DECISION, known, sent, row)
        if source < 0 or source in seen:
            yield Segment(FOR_ARRIVAL, t.origin, known, row)
            return
        row, end = source, known


def _waiting(t: ExecutionTable, row: int, known: float, start: float) -> Iterator[Segment]:
    """Split the time between the last event and a start, the last piece first."""
    ready = min(max(known, float(t.decided[row])), start)
    at = start
    for a, b in reversed(list(down_times(t, int(t.device[row]), ready, start))):
        yield Segment(FOR_DECISION, b, at, row)
        yield Segment(FOR_DEVICE, a, b, row)
        at = a
    yield Segment(FOR_DECISION, known, at, row)


def down_times(
    t: ExecutionTable, device: int, begin: float, end: float
) -> Iterator[tuple[float, float]]:
    """Yield the times between `begin` and `end` in which a device is down."""
    if t.scenario is None or not begin < end:
        return
    times, slowdowns = changes_of(t.scenario, device)
    for k in np.flatnonzero(np.isinf(slowdowns)).tolist():
        up = float(times[k + 1]) if k + 1 < len(times) else np.inf
        a, b = max(float(times[k]), begin), min(up, end)
        if a < b:
            yield a, b
