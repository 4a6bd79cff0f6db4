"""Drift of a cascade: recent times, branches and arrivals against expected ones.

Its policy was made for the expected ones.
"""

from __future__ import annotations

from math import sqrt

from weft.model.conditional_stream import ConditionalStream
from weft.runtime.cascade.measured import Measurements

WINDOW = 500
"""Requests between two checks."""
FACTOR = 1.25
"""Ratio of times or of arrival rates from which on they differ."""
SHARE = 0.1
"""Difference of probabilities from which on branches differ."""
BATCHES = 20
"""Least number of batches of a task on a kind of unit."""


class StreamDrift:
    """Comparison of a stream with the measurements since the last check."""

    def __init__(self, stream: ConditionalStream, *, window: int = WINDOW) -> None:
        self.stream, self.window = stream, window
        self._before = Measurements(stream)

    def due(self, measured: Measurements) -> bool:
        """Return whether enough requests came since the last check."""
        return measured.arrivals - self._before.arrivals >= self.window

    def check(self, measured: Measurements) -> str:
        """Return the largest difference in words; empty: none."""
        recent = measured.since(self._before)
        self._before = measured.copy()
        found = [*self._times(recent), *self._branches(recent), *self._arrivals(recent)]
        return max(found)[1] if found else ""

    def _times(self, recent: Measurements) -> list[tuple[float, str]]:
        found = []
        for (kind, task), sizes in recent.batches.items():
            expected = recent.expected(kind, task, max(sizes))
            count = sum(n for n, _ in sizes.values())
            known = sum(n * expected[size - 1] for size, (n, _) in sizes.items())
            ratio = sum(seconds for _, seconds in sizes.values()) / known
            if count >= BATCHES and not 1 / FACTOR < ratio < FACTOR:
                text = f"'{task}' takes {ratio:.2f} times as long on '{kind}' as in the stream"
                found.append((max(ratio, 1 / ratio), text))
        return found

    def _branches(self, recent: Measurements) -> list[tuple[float, str]]:
        workflow, found = self.stream.problem.workflow, []
        for c, t in enumerate(workflow.choices.task.tolist()):
            task = workflow.task_name(t)
            labels = [workflow.choices.labels[b] for b in workflow.choices.branches(c)]
            total = sum(recent.branches[task, label] for label in labels)
            known = self.stream.drift[c].probability[0].tolist()
            for label, p in zip(labels, known, strict=True):
                share = recent.branches[task, label] / total if total else p
                error = 4.0 * sqrt(max(p * (1.0 - p), 0.25 / max(total, 1)) / max(total, 1))
                if abs(share - p) > max(SHARE, error):
                    text = f"'{task}' ends with '{label}' {share:.0%} of the time, not {p:.0%}"
                    found.append((1.0 + abs(share - p), text))
        return found

    def _arrivals(self, recent: Measurements) -> list[tuple[float, str]]:
        _, gap, _ = recent.gaps()
        ratio = self.stream.arrivals.gap / gap if gap > 0 else 1.0
        if recent.arrivals < self.window // 2 or 1 / FACTOR < ratio < FACTOR:
            return []
        return [
            (max(ratio, 1 / ratio), f"requests come {ratio:.2f} times as often as in the stream")
        ]
