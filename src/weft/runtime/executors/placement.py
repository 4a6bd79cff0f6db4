"""The device of each call: the one that is predicted to finish it first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import frexp

from weft.model import Cluster
from weft.runtime.costs.cost_model import CostModel
from weft.runtime.costs.history import KEPT, History
from weft.runtime.costs.keys import CostKey, Sizes
from weft.runtime.costs.measurements import Measurement, usual_rows

AHEAD = 0.005
"""Seconds of work that a device may hold besides the running call, so that it never waits."""

MOST_AHEAD = 64
"""Calls that a device may hold."""

WEIGHT = 0.2
"""Weight of the newest measurement in the running mean of a kind of call."""

Rough = tuple[str, tuple[tuple[str, int], ...]]
"""Kind and sizes of a call, sizes as powers of two: calls that count as alike."""


def rough(key: CostKey) -> Rough:
    """Return a key with its sizes as powers of two.

    Examples
    --------
    >>> rough(CostKey("f", (("0", 100.0), ("1", -3.0))))
    ('f', (('0', 7), ('1', -1026)))
    """
    kind, sizes = key
    if not sizes:
        return kind, ()
    return kind, tuple(
        [(name, frexp(x)[1] if x >= 0 else -1024 - frexp(x)[1]) for name, x in sizes]
    )


class CallCosts:
    """Predicted seconds of calls by kind of device.

    They are measured here, or else come from the history.

    Parameters
    ----------
    cluster : the devices; those of one kind and speed count as alike
    """

    def __init__(self, cluster: Cluster, history: History | None) -> None:
        self.classes = list(dict.fromkeys(zip(cluster.kinds, cluster.speed.tolist(), strict=True)))
        pairs = zip(cluster.kinds, cluster.speed.tolist(), strict=True)
        self.class_of = [self.classes.index(pair) for pair in pairs]
        self._model = CostModel(usual_rows(history.tasks) if history is not None else ())
        self._known: dict[Rough, list[float | None]] = {}
        """Running means by class of devices, from here or from the history."""
        self._means: dict[Rough, list[float | None]] = {}
        """The same, with estimates for devices that were never measured."""
        self._rows: dict[tuple[Rough, int], deque[Measurement]] = {}

    def seconds(self, key: CostKey, like: Rough, work: float) -> list[float | None]:
        """Return the predicted seconds by class of devices; None: nothing is known."""
        known = self._means.get(like)
        if known is None:
            point = (work, 0.0, key.sizes)
            found = [self._model.seconds(key.kind, kind, point) for kind, _ in self.classes]
            self._known[like] = found
            known = self._means[like] = self._completed(found, work)
        return known

    def _completed(self, found: Sequence[float | None], work: float) -> list[float | None]:
        """Fill in devices without measurements: in proportion to their speed."""
        amounts = [
            seconds * speed
            for seconds, (_, speed) in zip(found, self.classes, strict=True)
            if seconds is not None
        ]
        amount = sum(amounts) / len(amounts) if amounts else work or None
        return [
            (None if amount is None else amount / speed) if seconds is None else seconds
            for seconds, (_, speed) in zip(found, self.classes, strict=True)
        ]

    def measured(
        self, kind: str, sizes: Sizes, like: Rough, device: int, work: float, took: float
    ) -> None:
        """Learn from a finished call."""
        here, known = self.class_of[device], self._known[like]
        before = known[here]
        if before is None or (like, here) not in self._rows:
            self._rows[like, here] = deque(maxlen=KEPT)
            known[here] = took
        else:
            # A geometric mean: one call that was held up by other programs changes little.
            known[here] = before ** (1.0 - WEIGHT) * max(took, 1e-9) ** WEIGHT
        self._means[like] = self._completed(known, work) if None in known else known
        self._rows[like, here].append(
            Measurement(kind, self.classes[here][0], took, work, sizes=sizes)
        )

    def measurements(self) -> list[Measurement]:
        """Return the measurements of calls, and drop them."""
        rows = [row for group in self._rows.values() for row in group]
        for group in self._rows.values():
            group.clear()
        return rows
