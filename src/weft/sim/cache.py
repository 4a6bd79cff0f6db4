"""`KindCache`: the kinds that a device has loaded, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model import Workload
from weft.model.machines.setup import MEMORY, PINNED, SECONDS


class KindCache:
    """Kinds that a device has loaded and the seconds of set-up that others need.

    Examples
    --------
    >>> from weft.model import Cluster, Device, Problem, Setup, Workflow
    >>> cluster = Cluster.of([Device("gpu", setup={"scan": Setup(2.0, memory=1.0)})])
    >>> workflow = Workflow(work=[1.0], src=[], dst=[], data=[], kinds=("scan",))
    >>> cache = KindCache(Workload.of(Problem.bind(workflow, cluster)), 0)
    >>> before = cache.seconds("scan")
    >>> cache.load("scan")
    >>> before, cache.seconds("scan")
    (2.0, 0.0)
    """

    def __init__(self, workload: Workload, device: int) -> None:
        self._cluster, self._device = workload.cluster, device
        rows: list[list[float]] = workload.setup[:, device].tolist()
        self._rows = dict(zip(workload.kinds, rows, strict=True))
        self._room = float(workload.cluster.cache[device])
        self._switch = float(workload.cluster.switch[device])
        self.empty()

    def empty(self) -> None:
        """Drop all but the pinned kinds."""
        self.used = {kind: 1 for kind, row in self._rows.items() if row[PINNED] > 0}
        """When each loaded kind was last used, counted from 1."""
        self.last: str | None = None

    def seconds(self, kind: str) -> float:
        """Return the seconds of set-up before a group of a kind, at slowdown 1."""
        row = self._row(kind)
        seconds = 0.0 if kind in self.used or row[PINNED] > 0 else row[SECONDS]
        return seconds + self._switch if self.last not in {None, kind} else seconds

    def load(self, kind: str) -> None:
        """Load or use a kind; drop the least recently used ones to make room."""
        self._row(kind)
        self.used[kind] = max(self.used.values(), default=0) + 1
        self.last = kind
        while sum(row[MEMORY] for k, row in self._rows.items() if k in self.used) > self._room:
            others = [k for k in self.used if k != kind and self._may_drop(k)]
            if not others:
                return
            del self.used[min(others, key=lambda k: self.used[k])]

    def after(self, kinds: Iterable[str]) -> KindCache:
        """Return the cache after groups of these kinds."""
        made = KindCache.__new__(KindCache)
        made.__dict__ |= {**vars(self), "used": dict(self.used)}
        for kind in kinds:
            made.load(kind)
        return made

    def _row(self, kind: str) -> list[float]:
        """Return the set-up of a kind; later jobs may have new kinds."""
        if kind not in self._rows:
            self._rows[kind] = self._cluster.setup_of([kind])[0, self._device].tolist()
        return self._rows[kind]

    def _may_drop(self, kind: str) -> bool:
        return self._rows[kind][MEMORY] > 0 and self._rows[kind][PINNED] == 0
