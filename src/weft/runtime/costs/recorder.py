"""The measurements of a run, and their way into the history."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from weft.model import Workflow
from weft.runtime.backends.protocol import DeviceLost, Finished
from weft.runtime.costs.estimates import keys_of, sum_input_bytes
from weft.runtime.costs.history import History, HistoryUnusable, set_aside
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.measurements import Measurement
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

MOST_WARM = 100_000
"""Pairs of worker and kind that are stored between runs."""

_WARM_WORKERS: set[tuple[str, str]] = set()
"""Worker processes that outlive a run, and the kinds that they have run."""


class Recorder(Observer):
    """Collects the measurements of a run, and adds them to the history at its end.

    Parameters
    ----------
    workflows : workflow of each problem as the user gave it: its sizes are the keys of the history
    keys : keys of the tasks of each workflow; where there are none, their kinds
    """

    def __init__(
        self,
        history: History,
        workflows: Sequence[Workflow],
        keys: Sequence[Sequence[CostKey]] = (),
    ) -> None:
        self.history = history
        self.workflows = list(workflows)
        self._samples: list[Measurement] = []
        self._links: list[tuple[str, str, float, float]] = []
        self._outputs: dict[int, float] = {}
        """Instance -> bytes of its result."""
        self._keys: dict[int, Sequence[CostKey]] = dict(enumerate(keys))
        self._warm: set[tuple[int, str]] = set()
        """(device, kind) of which an execution has ended: later ones are warm."""
        if len(_WARM_WORKERS) > MOST_WARM:
            _WARM_WORKERS.clear()

    def replace(self, problem: int, workflow: Workflow) -> None:
        """Set the workflow of a problem, which is new or replaces another one."""
        self.workflows[problem : problem + 1] = [workflow]

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Record durations, result sizes and transfers."""
        cluster, ran = life.workload.cluster, set()
        for k, i in enumerate(group.members):
            job, task = life.place[i]
            template = int(life.workload.template[job])
            w = life.problem(i).workflow
            if template not in self._keys:
                self._keys[template] = keys_of(self.workflows[template])
            output = self._outputs[i] = event.data[k] if k < len(event.data) else 0.0
            work, data = float(w.work[task]), self._read(template, i - task, task)
            key, device = self._keys[template][task], cluster.kinds[event.device]
            self._samples.append(
                Measurement(
                    *(key.kind, device, event.finish - event.start, work, data, output, key.sizes),
                    cold=not self._is_warm(event, key.kind),
                    batch=len(group.members),
                )
            )
            ran.add(key.kind)
        self._warm |= {(event.device, kind) for kind in ran}
        _WARM_WORKERS.update((event.worker, kind) for kind in ran if event.worker)
        for moved in event.transfers:
            source = cluster.kinds[moved.source] if moved.source >= 0 else "disk"
            self._links.append((source, cluster.kinds[event.device], moved.data, moved.seconds))

    def _read(self, template: int, first: int, task: int) -> float:
        """Return the bytes that a task has read: as given, or as its parents returned."""
        w = self.workflows[template]
        edges = w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]
        parents = w.src[edges].tolist()
        return sum_input_bytes(
            w.data[edges].tolist(), [self._outputs.get(first + p, 0.0) for p in parents]
        )

    def _is_warm(self, event: Finished, kind: str) -> bool:
        """Return whether the worker has run the kind before, in this run or before it."""
        if event.worker:
            return (event.worker, kind) in _WARM_WORKERS
        return (event.device, kind) in self._warm

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Expect cold starts on a device that is replaced."""
        self._warm = {pair for pair in self._warm if pair[0] != event.device}

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Write all measurements at once."""
        samples, links = self._samples, self._links
        self._samples, self._links = [], []
        if samples or links:
            keep_measurements(self.history, samples, links)


def keep_measurements(
    history: History,
    samples: Sequence[Measurement],
    links: Sequence[tuple[str, str, float, float]] = (),
) -> None:
    """Add measurements to a history; if that fails, warn: the run matters more."""
    try:
        history.add(samples, links)
    except HistoryUnusable as error:
        aside = set_aside(history.path) if error.damaged else None
        rest = "" if aside is None else f", which was set aside as {aside}"
        warnings.warn(
            f"the measurements of this run could not be kept in {error}{rest}", stacklevel=2
        )
