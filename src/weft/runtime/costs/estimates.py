"""Estimated durations: from the history, else from the workflow on the same scale."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray, frozen
from weft.runtime.backends.protocol import DeviceLost, Finished
from weft.runtime.costs.cost_model import CostModel, Point
from weft.runtime.costs.drift import filled
from weft.runtime.costs.history import (
    History,
    HistoryUnusable,
    Measurement,
    TaskRow,
    set_aside,
    usual_rows,
)
from weft.runtime.costs.keys import GPU, CostKey
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

TRANSFERS = 3
"""Measured transfers between two kinds of devices required to use them."""

MOST_WARM = 100_000
"""Pairs of worker and kind that are remembered between runs."""

_WARM_WORKERS: set[tuple[str, str]] = set()
"""Worker processes that outlive a run, and the kinds that they have run."""

_Rows = Sequence[TaskRow]
_Keys = Sequence[CostKey]


def incoming_bytes(workflow: Workflow) -> FloatArray:
    """Return the incoming bytes per task."""
    return np.bincount(workflow.dst, weights=workflow.data, minlength=workflow.n).astype(float)


def estimated_problem(
    workflow: Workflow,
    cluster: Cluster,
    history: History | None,
    *,
    keys: Sequence[CostKey] | None = None,
    devices: Sequence[str] = (),
    learned: bool = False,
) -> Problem:
    """Bind a workflow to the devices of a backend, with durations from the history.

    A task measured on some devices only is scaled alike on the others; a kind never measured
    follows the other kinds; without measurements the workflow's own estimates count, and if it has
    none, all tasks are equal. Measured links and result sizes are used too.

    Parameters
    ----------
    keys : keys of the tasks in the history; None: their kinds
    devices : name or kind of the device each task needs, empty: any; `GPU` for any GPU
    learned : use the cold starts and batch curves of the history too
    """
    sized = workflow if workflow.durations or workflow.work.any() else _with_work(workflow)
    if history is not None:
        cluster = with_measured_links(cluster, history)
    rows = [] if history is None else usual_rows(history.tasks)
    keys = keys_of(workflow) if keys is None else keys
    bound = Problem.bind(with_measured_data(sized, rows, keys), cluster)
    problem = restricted(bound, devices) if any(devices) else bound
    if not rows:
        return problem
    prior = problem.durations()
    measured = _measured(sized, cluster, rows, keys)
    with np.errstate(all="ignore"):
        ratio = np.log(measured / prior)
    ratio[~np.isfinite(ratio)] = np.nan
    scaled = prior * np.exp(_filled_ratios(ratio, workflow))
    seconds = np.where(np.isfinite(measured) & np.isfinite(prior), measured, scaled)
    made = _by_task(problem, seconds)
    if not learned or history is None:
        return made
    from weft.runtime.costs.learned_machines import with_learned_machines

    return with_learned_machines(made, history.tasks, keys)


def _filled_ratios(ratio: FloatArray, workflow: Workflow) -> FloatArray:
    """Fill the gaps of an (n, p) matrix of logarithms: by kind, then by how a task differs."""
    logs = np.full((len(workflow.kinds), ratio.shape[1]), np.nan)
    known = ~np.isnan(ratio)
    for kind in range(len(workflow.kinds)):
        rows = workflow.kind == kind
        for device in range(ratio.shape[1]):
            if (use := rows & known[:, device]).any():
                logs[kind, device] = float(np.median(ratio[use, device]))
    typical = filled(logs)[workflow.kind]
    own = np.where(known, ratio - typical, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.asarray(typical + own[:, None])


def restricted(problem: Problem, devices: Sequence[str]) -> Problem:
    """Return the problem with tasks kept to the devices they need, by name or kind."""
    cluster, seconds = problem.cluster, problem.durations()
    fits = {
        need: np.array([_is_one(cluster, d, need) for d in range(cluster.p)])
        for need in dict.fromkeys(devices)
    }
    for task, need in enumerate(devices):
        if not fits[need].any():
            kinds = ", ".join(dict.fromkeys(cluster.kinds))
            what = "a GPU" if need == GPU else f"device '{need}'"
            raise InvalidInput(
                f"task '{problem.workflow.task_name(task)}' needs {what}, but the devices are "
                f"{', '.join(cluster.names)} (kinds: {kinds})"
            )
        seconds[task, ~fits[need]] = np.inf
        if np.isinf(seconds[task]).all():
            w = problem.workflow
            raise InvalidInput(
                f"task '{w.task_name(task)}' fits no device '{need}': it needs "
                f"{w.memory[task]:g} bytes of memory and {w.cores[task]} cores"
            )
    return _by_task(problem, seconds)


def _is_one(cluster: Cluster, device: int, need: str) -> bool:
    name, kind = cluster.names[device], cluster.kinds[device]
    if need == GPU:
        return any(word in text.lower() for word in ("gpu", "cuda") for text in (name, kind))
    return need in ("", name, kind)


def _by_task(problem: Problem, seconds: FloatArray) -> Problem:
    n = problem.workflow.n
    return Problem(
        problem.workflow,
        problem.cluster,
        frozen(np.ones(n)),
        frozen(np.arange(n)),
        frozen(np.ascontiguousarray(seconds)),
    )


def with_measured_links(cluster: Cluster, history: History) -> Cluster:
    """Return the cluster with measured links, where there are at least `TRANSFERS`.

    Within a device nothing moves, whatever was measured between two of its kind.
    """
    known = {
        (link.source, link.target): link for link in history.links() if link.count >= TRANSFERS
    }
    bandwidth, latency = cluster.bandwidth.copy(), cluster.latency.copy()
    for a, source in enumerate(cluster.kinds):
        for b, target in enumerate(cluster.kinds):
            link = known.get((source, target))
            if link is not None and a != b:
                bandwidth[a, b], latency[a, b] = link.bandwidth, link.latency
    return replace(cluster, bandwidth=bandwidth, latency=latency) if known else cluster


def with_measured_data(workflow: Workflow, rows: _Rows, keys: _Keys) -> Workflow:
    """Return the workflow with measured result sizes on edges without data."""
    outputs: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        outputs.setdefault(row.kind, {}).setdefault(row.work, []).append(row.output)
    typical = {
        kind: [(work, float(np.median(values))) for work, values in by_work.items()]
        for kind, by_work in outputs.items()
    }
    known: dict[tuple[str, float], float] = {}
    for key, work in zip(keys, workflow.work.tolist(), strict=True):
        if (key.kind, work) not in known:
            known[key.kind, work] = _nearest(typical.get(key.kind, ()), work)
    if not any(known.values()):
        return workflow
    pairs = zip(keys, workflow.work.tolist(), strict=True)
    returned = np.array([known[key.kind, work] for key, work in pairs])
    return replace(
        workflow, data=np.where(workflow.data == 0, returned[workflow.src], workflow.data)
    )


def _nearest(rows: Sequence[tuple[float, float]], work: float) -> float:
    """Return the bytes of the nearest (work, bytes); 0: none is known."""
    return min(rows, key=lambda row: abs(log((row[0] + 1.0) / (work + 1.0))), default=(0.0, 0.0))[1]


def _measured(workflow: Workflow, cluster: Cluster, rows: _Rows, keys: _Keys) -> FloatArray:
    """Return (n, p) predictions from measurements, NaN if unknown; one per kind and size."""
    model = CostModel(rows)
    kinds = list(dict.fromkeys(cluster.kinds))
    column = np.array([kinds.index(kind) for kind in cluster.kinds])
    known: dict[tuple[str, Point], list[float]] = {}
    table = np.full((workflow.n, len(kinds)), np.nan)
    sizes = zip(workflow.work.tolist(), incoming_bytes(workflow).tolist(), strict=True)
    for task, ((kind, arguments), (work, data)) in enumerate(zip(keys, sizes, strict=True)):
        key = (kind, (work, data, arguments))
        if key not in known:
            found = [model.seconds(kind, device, key[1]) for device in kinds]
            known[key] = [np.nan if s is None else max(s, 1e-9) for s in found]
        table[task] = known[key]
    return np.asarray(table[:, column], float)


def keys_of(workflow: Workflow) -> list[CostKey]:
    """Return the keys of tasks whose functions and arguments are unknown: their kinds."""
    return [CostKey(workflow.kinds[k]) for k in workflow.kind.tolist()]


def _with_work(workflow: Workflow) -> Workflow:
    return replace(workflow, work=np.ones(workflow.n))


class Recorder(Observer):
    """Collects the measurements of a run, and adds them to the history at its end.

    Parameters
    ----------
    workflows : workflow of each problem as the user gave it: its sizes are the keys of the history
    keys : keys of the tasks of each workflow; where there are none, their kinds
    """

    def __init__(
        self, history: History, workflows: Sequence[Workflow], keys: Sequence[_Keys] = ()
    ) -> None:
        self.history = history
        self.workflows = list(workflows)
        self._samples: list[Measurement] = []
        self._links: list[tuple[str, str, float, float]] = []
        self._bytes: dict[int, FloatArray] = {}
        self._keys: dict[int, _Keys] = dict(enumerate(keys))
        self._warm: set[tuple[int, str]] = set()
        """(device, kind) of which an execution has ended: later ones are warm."""
        if len(_WARM_WORKERS) > MOST_WARM:
            _WARM_WORKERS.clear()

    def replace(self, problem: int, workflow: Workflow) -> None:
        """Set the workflow of a problem: a new one, or in the place of another."""
        self.workflows[problem : problem + 1] = [workflow]
        self._bytes.pop(problem, None)

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Record durations, result sizes and transfers."""
        cluster, ran = life.workload.cluster, set()
        for k, i in enumerate(group.members):
            job, task = life.place[i]
            template = int(life.workload.template[job])
            w = life.problem(i).workflow
            if template not in self._bytes:
                self._bytes[template] = incoming_bytes(self.workflows[template])
                self._keys.setdefault(template, keys_of(self.workflows[template]))
            output = event.data[k] if k < len(event.data) else 0.0
            work, data = float(w.work[task]), float(self._bytes[template][task])
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

    def _is_warm(self, event: Finished, kind: str) -> bool:
        """Return whether the worker has run the kind before, in this run or an earlier one."""
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
