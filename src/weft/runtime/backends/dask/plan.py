"""A plan as one annotated Dask graph: pinned, with priorities, without the driver.

A graph that Dask places itself is sent as the user would send it: the client asks for the last
results only, and the plugin of the run holds the others. If a client asks for all results, Dask
assigns tasks in another order and puts the first tasks on other workers. If workers differ in
speed, `place_first_tasks` chooses the workers of the first tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask

from weft.runtime.backends.dask.first_tasks import place_first_tasks
from weft.runtime.backends.dask.messages import TaskMessages, quietly
from weft.runtime.backends.dask.outbox import HeldResult, Outbox
from weft.runtime.backends.dask.plugin import PLACED_BY_DASK
from weft.runtime.backends.dask.results import Results
from weft.runtime.backends.dask.sites import DeviceThread, WorkerSite
from weft.runtime.backends.dask.tasks import perform
from weft.runtime.backends.protocol import Finished
from weft.runtime.deciders.whole_plan import PlanRow


class WholeGraph:
    """A plan in execution; a new plan replaces the tasks that have not begun.

    Parameters
    ----------
    results : finished results, extended by this plan
    outbox : releases the results that the plugin of the run holds
    pinned : tasks run on the planned worker, in the planned order; False: Dask places them
    """

    def __init__(
        self,
        client: Any,
        messages: TaskMessages,
        threads: Sequence[DeviceThread],
        results: Results,
        outbox: Outbox,
        *,
        pinned: bool = True,
    ) -> None:
        self.threads = list(threads)
        self._client = client
        self._messages = messages
        self._results = results
        self._outbox = outbox
        self._pinned = pinned
        self._plans = 0
        self._free = [0.0] * len(self.threads)
        self._ended: dict[int, float] = {}
        """Instance -> its end."""
        self._rows: dict[str, PlanRow] = {}
        self._futures: dict[str, Any] = {}
        """Key -> future or held result of a task that has not ended."""

    def submit(self, rows: Sequence[PlanRow]) -> None:
        """Send a plan; tasks that still run for the plan before stay where they are."""
        kept = {self._rows[key].instance: key for key in self._futures}
        self._plans += 1
        name = "plan" if self._pinned else PLACED_BY_DASK
        sent = {
            self._messages.key(row.instance, f"{name}{self._plans}-{row.instance}"): row
            for row in rows
            if row.instance not in kept
        }
        keys = {row.instance: key for key, row in sent.items()}
        futures = {i: self._futures[key] for i, key in kept.items()}
        done = {i: None for row in sent.values() for i in row.parents if i in self._results}
        known = dict(zip(done, self._results.futures(done), strict=True))
        graph: dict[str, Any] = {}
        size = 0
        for k, (key, row) in enumerate(sent.items()):
            read = [keys.get(i) or futures.get(i) or known[i] for i in row.parents]
            names = tuple(one if isinstance(one, str) else one.key for one in read)
            message_of = self._messages.message_of(row.instance, k, self.threads[row.device], names)
            graph[key] = (perform, replace(message_of, home=""), *read)
            size += len(message_of.arguments)
        asked = list(sent) if self._pinned else last_of(sent)
        with dask.annotate(**self._wishes(sent)), quietly(size):
            made = self._client.get(graph, asked, sync=False) if asked else []
        self._rows |= sent
        self._futures |= {key: self._outbox.held(key) for key in sent}
        self._futures |= dict(zip(asked, made, strict=True))

    def _wishes(self, sent: Mapping[str, PlanRow]) -> dict[str, Any]:
        """Return the annotations of a graph: worker and rank, or workers of first tasks."""
        if self._pinned:
            pins = {key: [self.threads[row.device].site.address] for key, row in sent.items()}
            ranks = {"priority": {key: -k for k, key in enumerate(sent)}.__getitem__}
        else:
            kinds = {key: self._messages.kind(row.instance) for key, row in sent.items()}
            found = place_first_tasks(sent, kinds, self.threads)
            pins = {key: [found[key]] if key in found else [] for key in sent if found}
            ranks = {}
        wishes = {"workers": pins.__getitem__, **ranks, "allow_other_workers": True}
        return wishes if pins else {}

    @property
    def done(self) -> bool:
        """Return whether all tasks ended or were retracted."""
        return not self._futures

    def row(self, message: dict[str, Any]) -> PlanRow | None:
        """Return the planned task of a message; None: it concerns another task."""
        key = message.get("key", "")
        return self._rows[key] if key in self._futures else None

    def record_end(
        self, row: PlanRow, key: str, site: WorkerSite | None, event: Finished
    ) -> Finished:
        """Record the end of a task; return it with plausible times and device."""
        placed = self._placed(row, site, event)
        self._free[placed.device] = self._ended[row.instance] = placed.finish
        result = self._results[row.instance] = self._futures.pop(key)
        if isinstance(result, HeldResult):
            result.size = event.data[0]
        return placed

    def wind_up(self) -> None:
        """Retract all tasks except, per device, the one that it should run now."""
        left = {self._rows[key].instance for key in self._futures}
        busy: set[int] = set()
        for key in list(self._futures):
            row = self._rows[key]
            if row.device not in busy and left.isdisjoint(row.parents):
                busy.add(row.device)
            else:
                self._futures.pop(key).release()

    def leave(self) -> None:
        """Retract the unfinished tasks."""
        for future in self._futures.values():
            future.release()
        self._futures.clear()

    def _placed(self, row: PlanRow, site: WorkerSite | None, event: Finished) -> Finished:
        """Assign the end of a task to a thread of its worker that was free."""
        begin = max([event.start, *(self._ended.get(parent, 0.0) for parent in row.parents)])
        devices = (
            [device for device in site.devices if device < len(self.threads)]
            if site is not None
            else []
        )
        threads = sorted(
            devices or [row.device],
            key=lambda d: (self._free[d] > begin, d != row.device, self._free[d]),
        )
        start = max(begin, self._free[threads[0]])
        return replace(event, device=threads[0], start=start, finish=max(event.finish, start))


def last_of(rows: Mapping[str, PlanRow]) -> list[str]:
    """Return the keys of the tasks whose results no other task reads.

    Examples
    --------
    >>> last_of({"a": PlanRow(0, 0, ()), "b": PlanRow(1, 0, (0,)), "c": PlanRow(2, 0, (0,))})
    ['b', 'c']
    """
    read = {parent for row in rows.values() for parent in row.parents}
    return [key for key, row in rows.items() if row.instance not in read]
