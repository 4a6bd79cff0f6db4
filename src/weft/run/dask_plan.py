"""A plan that Dask gets at once, as one annotated graph: pinned, by priority, without a word from the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import dask

from weft.run import dask_plugin as remote
from weft.run.backend import Finished
from weft.run.dask_cluster import Line, Site
from weft.run.dask_errands import Errands, quietly
from weft.run.dask_results import Results
from weft.run.whole_plan import Row


class WholeGraph:
    """A plan under way.

    Parameters
    ----------
    wanted : instances whose results are handed back in the end
    """

    def __init__(self, client: Any, errands: Errands, lines: Sequence[Line], rows: Sequence[Row], wanted: Container[int]) -> None:
        self.lines = list(lines)
        self.wanted = wanted
        self.ended: dict[int, Finished] = {}
        """What is finished, in the order it was reported."""
        keys = {row.instance: errands.key(row.instance, f"plan{row.instance}") for row in rows}
        self._rows = {keys[row.instance]: row for row in rows}
        self._readers = Counter(parent for row in rows for parent in row.parents)
        self._free = [0.0] * len(self.lines)
        graph: dict[str, Any] = {}
        size = 0
        for k, row in enumerate(rows):
            errand = errands.errand(row.instance, k, self.lines[row.device], tuple(keys[i] for i in row.parents))
            graph[keys[row.instance]] = (remote.perform, replace(errand, home=""), *errand.inputs)
            size += len(errand.arguments)
        pins = remote.Table({keys[row.instance]: [self.lines[row.device].site.address] for row in rows})
        ranks = remote.Table({keys[row.instance]: -k for k, row in enumerate(rows)})
        with dask.annotate(workers=pins, priority=ranks, allow_other_workers=True), quietly(size):
            self._futures = dict(zip(keys, client.get(graph, list(keys.values()), sync=False), strict=True))

    @property
    def done(self) -> bool:
        """Whether all of it is finished."""
        return len(self.ended) == len(self._rows)

    def row(self, message: dict[str, Any]) -> Row | None:
        """The task a message is about; None: it is about something else."""
        return self._rows.get(message.get("key", ""))

    def took(self, row: Row, site: Site | None, event: Finished, results: Results) -> None:
        """A task ended on a worker; its result is kept for as long as others read it."""
        since = max((self.ended[parent].finish for parent in row.parents), default=0.0)
        self.ended[row.instance] = placed = self._placed(row, site, event, since)
        self._free[placed.device] = placed.finish
        results[row.instance] = self._futures[row.instance]
        for parent in row.parents:
            self._readers[parent] -= 1
            if self._readers[parent] == 0 and parent not in self.wanted:
                results.forget(parent)

    def leave(self) -> None:
        """What is not finished is for others to do."""
        for instance, future in self._futures.items():
            if instance not in self.ended:
                future.release()

    def _placed(self, row: Row, site: Site | None, event: Finished, since: float) -> Finished:
        """The end of a task on a thread of its worker that was free then, as far as clocks can be believed."""
        begin = max(event.start, since)
        devices = [device for device in site.devices if device < len(self.lines)] if site is not None else []
        threads = sorted(devices or [row.device], key=lambda d: (self._free[d] > begin, d != row.device, self._free[d]))
        start = max(begin, self._free[threads[0]])
        return replace(event, device=threads[0], start=start, finish=max(event.finish, start))
