"""Estimated durations: from the history, else from the workflow on the same scale."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray, frozen
from weft.runtime.backends.protocol import Finished
from weft.runtime.costs.drift import filled
from weft.runtime.costs.history import Durations, History, Measurement
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

SIZES = 3
"""Measured sizes of a task kind required to fit a model."""

TRANSFERS = 3
"""Measured transfers between two kinds of devices required to use them."""


def incoming_bytes(workflow: Workflow) -> FloatArray:
    """Return the incoming bytes per task."""
    return np.bincount(workflow.dst, weights=workflow.data, minlength=workflow.n).astype(float)


def estimated_problem(workflow: Workflow, cluster: Cluster, history: History | None) -> Problem:
    """Bind a workflow to the devices of a backend, with durations from the history.

    A task kind measured on some devices only is scaled alike on the others; one never measured
    follows the other kinds; without measurements the workflow's own estimates count, and if it has
    none, all tasks are equal. Measured links and result sizes are used too.
    """
    sized = workflow if workflow.durations or workflow.work.any() else _with_work(workflow)
    if history is not None:
        cluster = with_measured_links(cluster, history)
    known = [] if history is None else history.durations()
    problem = Problem.bind(with_measured_data(sized, known), cluster)
    if history is None or not known:
        return problem
    prior = problem.durations()
    measured = _measured(sized, cluster, history)
    logs = np.full((len(workflow.kinds), cluster.p), np.nan)
    both = np.isfinite(measured) & np.isfinite(prior) & (prior > 0) & (measured > 0)
    for kind in range(len(workflow.kinds)):
        for device in range(cluster.p):
            rows = both[:, device] & (workflow.kind == kind)
            if rows.any():
                logs[kind, device] = float(
                    np.median(np.log(measured[rows, device] / prior[rows, device]))
                )
    scaled = prior * np.exp(filled(logs))[workflow.kind]
    seconds = np.where(np.isfinite(measured) & np.isfinite(prior), measured, scaled)
    rows = frozen(np.arange(workflow.n))
    return Problem(
        problem.workflow,
        cluster,
        frozen(np.ones(workflow.n)),
        rows,
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


def with_measured_data(workflow: Workflow, known: Sequence[Durations]) -> Workflow:
    """Return the workflow with measured result sizes on edges without data."""
    outputs: dict[str, list[tuple[float, float]]] = {}
    for row in known:
        outputs.setdefault(row.kind, []).append((row.work, row.output))
    sizes, member = np.unique(
        np.stack([workflow.kind.astype(float), workflow.work], axis=1), axis=0, return_inverse=True
    )
    typical = np.array(
        [
            _nearest(outputs.get(workflow.kinds[int(kind)], ()), work)
            for kind, work in sizes.tolist()
        ]
    )
    if not typical.any():
        return workflow
    returned = typical[np.asarray(member, np.int64).reshape(-1)]
    return replace(
        workflow, data=np.where(workflow.data == 0, returned[workflow.src], workflow.data)
    )


def _nearest(rows: Sequence[tuple[float, float]], work: float) -> float:
    """Return the bytes of the nearest (work, bytes); 0: none is known."""
    return min(rows, key=lambda row: abs(log((row[0] + 1.0) / (work + 1.0))), default=(0.0, 0.0))[1]


def _measured(workflow: Workflow, cluster: Cluster, history: History) -> FloatArray:
    """Return (n, p) predictions of the history, NaN if unknown; one lookup per kind and size."""
    sizes = np.stack([workflow.kind.astype(float), workflow.work, incoming_bytes(workflow)], axis=1)
    unique, member = np.unique(sizes, axis=0, return_inverse=True)
    table = np.full((len(unique), cluster.p), np.nan)
    for row, (kind, work, data) in enumerate(unique.tolist()):
        for device, name in enumerate(cluster.kinds):
            seconds = predicted_seconds(history, workflow.kinds[int(kind)], name, work, data)
            table[row, device] = np.nan if seconds is None else max(seconds, 1e-9)
    return np.asarray(table[np.asarray(member, np.int64).reshape(-1)], float)


def predicted_seconds(
    history: History, kind: str, device: str, work: float, data: float
) -> float | None:
    """Predict the seconds of a task kind at a size.

    The median if that size was measured; else a model over at least `SIZES` sizes, or the nearest
    size scaled by the work.
    """
    known = history.samples(kind, device)
    sizes = np.unique(known[:, :2], axis=0)
    if len(sizes) < SIZES or bool((sizes == (work, data)).all(axis=1).any()):
        return history.predict(kind, device, work=work, data=data)
    from weft.learn.durations.model import DurationModel

    # Only varying columns can explain anything; sizes enter by logarithm and may be zero.
    varied = np.ptp(known[:, :2], axis=0) > 0
    names = tuple(name for name, use in zip(("work", "bytes"), varied.tolist(), strict=True) if use)
    model = DurationModel(names, logs=names)
    shift = np.array([known[:, 0].max() * 1e-6, 1.0])[varied]
    for row in known:
        model.observe(row[:2][varied] + shift, float(row[2]))
    return model.predict(np.array([work, data])[varied] + shift).median


def _with_work(workflow: Workflow) -> Workflow:
    return replace(workflow, work=np.ones(workflow.n))


class Recorder(Observer):
    """Collects the measurements of a run, and adds them to the history at its end.

    Parameters
    ----------
    workflows : workflow of each problem as the user gave it: its sizes are the keys of the history
    """

    def __init__(self, history: History, workflows: Sequence[Workflow]) -> None:
        self.history = history
        self.workflows = list(workflows)
        self._samples: list[Measurement] = []
        self._links: list[tuple[str, str, float, float]] = []
        self._bytes: dict[int, FloatArray] = {}

    def replace(self, problem: int, workflow: Workflow) -> None:
        """Set the workflow of a problem: a new one, or in the place of another."""
        self.workflows[problem : problem + 1] = [workflow]
        self._bytes.pop(problem, None)

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Record durations, result sizes and transfers."""
        cluster = life.workload.cluster
        for k, i in enumerate(group.members):
            job, task = life.place[i]
            template = int(life.workload.template[job])
            w = life.problem(i).workflow
            if template not in self._bytes:
                self._bytes[template] = incoming_bytes(self.workflows[template])
            output = event.data[k] if k < len(event.data) else 0.0
            work, data = float(w.work[task]), float(self._bytes[template][task])
            kind, device = w.kinds[w.kind[task]], cluster.kinds[event.device]
            self._samples.append(
                Measurement(kind, device, event.finish - event.start, work, data, output)
            )
        for moved in event.transfers:
            source = cluster.kinds[moved.source] if moved.source >= 0 else "disk"
            self._links.append((source, cluster.kinds[event.device], moved.data, moved.seconds))

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Write all measurements at once."""
        try:
            if self._samples or self._links:
                self.history.add(self._samples, self._links)
        except (sqlite3.Error, OSError) as error:  # the run matters more than its measurements
            warnings.warn(
                f"{self.history.path}: the measurements of this run could not be kept ({error})",
                stacklevel=2,
            )
        self._samples, self._links = [], []
