"""Estimated durations: from the history, else from the workflow on the same scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Topology, Workflow
from weft.model.columns import FloatArray, frozen
from weft.model.network import Port
from weft.runtime.backends.protocol import DeviceLost, Finished
from weft.runtime.costs.cost_model import CostModel, OutputModel, Point
from weft.runtime.costs.gaps import with_filled_gaps
from weft.runtime.costs.history import History, HistoryUnusable, set_aside
from weft.runtime.costs.keys import GPU, CostKey
from weft.runtime.costs.measurements import LinkRow, Measurement, TaskRow, usual_rows
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

TRANSFERS = 3
"""Measured transfers between two kinds of devices required to use them."""

PORT_QUANTILE = 0.9
"""Quantile of the rates of a link that shows its ports: most transfers share them with others."""

LARGE = 65536
"""Bytes from which a transfer shows the rate of a link rather than its latency."""

LEAST_READ = 4096
"""Measured bytes that a task reads from which they count for its duration."""

MOST_WARM = 100_000
"""Pairs of worker and kind that are remembered between runs."""

_WARM_WORKERS: set[tuple[str, str]] = set()
"""Worker processes that outlive a run, and the kinds that they have run."""

_Ports = dict[str, tuple[float, int]]
"""Kind of device -> best rate of its port in one direction, and transfers that show it."""

_Rows = Sequence[TaskRow]
_Keys = Sequence[CostKey]


def incoming_bytes(workflow: Workflow) -> FloatArray:
    """Return the incoming bytes per task."""
    return np.bincount(workflow.dst, weights=workflow.data, minlength=workflow.n).astype(float)


def has_estimates(
    workflow: Workflow, history: History | None, keys: Sequence[CostKey] | None = None
) -> bool:
    """Return whether anything is known about the durations of a workflow's tasks."""
    if workflow.durations or workflow.work.any():
        return True
    kinds = {row.kind for row in history.tasks} if history is not None else set()
    return any(key.kind in kinds for key in (keys_of(workflow) if keys is None else keys))


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
    # The size of a result does not depend on whether its worker was cold.
    every = [] if history is None else history.tasks
    bound = Problem.bind(with_measured_data(sized, every, keys), cluster)
    problem = restricted(bound, devices) if any(devices) else bound
    if not rows:
        return problem
    prior = problem.durations()
    measured = _measured(sized, bound.workflow.data, cluster, rows, keys)
    cold = _only_cold(cluster, rows, keys)
    with np.errstate(all="ignore"):
        ratio = np.log(np.where(cold, np.nan, measured) / prior)
    ratio[~np.isfinite(ratio)] = np.nan
    scaled = prior * np.exp(with_filled_gaps(ratio, measured, workflow.kind))
    # A cold execution takes at least as long as a warm one.
    known = np.where(cold, np.minimum(measured, scaled), measured)
    seconds = np.where(np.isfinite(measured) & np.isfinite(prior), known, scaled)
    made = _by_task(problem, seconds)
    if not learned or history is None:
        return made
    from weft.runtime.costs.learned_machines import with_learned_machines

    return with_learned_machines(made, history.tasks, keys)


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

    The other links between nodes follow from the ports of both ends, as far as transfers of these
    show them: an unmeasured link is no free one. Within a device nothing moves, whatever was
    measured between two of its kind.
    """
    known = {
        (link.source, link.target): link for link in history.links() if link.count >= TRANSFERS
    }
    if len(history.transfers) < TRANSFERS:
        return cluster
    out, into = _ports(history.transfers)
    bandwidth, latency = cluster.bandwidth.copy(), cluster.latency.copy()
    for a, source in enumerate(cluster.kinds):
        for b, target in enumerate(cluster.kinds):
            link = known.get((source, target))
            if link is not None and a != b:
                bandwidth[a, b], latency[a, b] = link.bandwidth, link.latency
            elif source != target and np.isinf(bandwidth[a, b]):
                bandwidth[a, b] = min(out(source), into(target))
    return replace(cluster, bandwidth=bandwidth, latency=latency)


def measured_network(cluster: Cluster, history: History | None) -> Topology | None:
    """Return the ports of the nodes as transfers showed them; None if too few were measured.

    All transfers of a node share its port, so plans that ignore this are too optimistic.
    """
    nodes = cluster.node_names
    if history is None or len(nodes) < 2 or len(history.transfers) < TRANSFERS:
        return None
    out, into = _ports(history.transfers)
    kinds = [cluster.kinds[int(np.flatnonzero(cluster.node == n)[0])] for n in range(len(nodes))]
    if len(set(kinds)) < 2 or not all(isfinite(out(k)) and isfinite(into(k)) for k in kinds):
        return None
    return Topology({n: Port(out(k), into(k)) for n, k in zip(nodes, kinds, strict=True)})


def _ports(rows: Sequence[LinkRow]) -> tuple[Callable[[str], float], Callable[[str], float]]:
    """Return the rates out of and into a kind of device: the best usual ones of its links.

    A port that was hardly seen in one direction is at least as quick there as in the other; one
    never seen is a usual one.
    """
    large = [row for row in rows if row.data >= LARGE and row.seconds > 0]
    rates: dict[tuple[str, str], list[float]] = {}
    for row in large or [row for row in rows if row.seconds > 0]:
        rates.setdefault((row.source, row.target), []).append(row.data / row.seconds)
    out: dict[str, tuple[float, int]] = {}
    into: dict[str, tuple[float, int]] = {}
    for (source, target), values in rates.items():
        rate = float(np.quantile(values, PORT_QUANTILE))
        for ports, kind in ((out, source), (into, target)):
            best, count = ports.get(kind, (0.0, 0))
            ports[kind] = max(best, rate), count + len(values)
    seen = [rate for rate, _ in (*out.values(), *into.values())]
    usual = float(np.median(seen)) if seen else inf

    def rate_of(kind: str, way: _Ports, back: _Ports) -> float:
        here, count = way.get(kind, (0.0, 0))
        there, _ = back.get(kind, (0.0, 0))
        return (here if count >= TRANSFERS else max(here, there)) or usual

    return lambda kind: rate_of(kind, out, into), lambda kind: rate_of(kind, into, out)


def with_measured_data(workflow: Workflow, rows: _Rows, keys: _Keys) -> Workflow:
    """Return the workflow with measured result sizes on edges without data.

    A size depends on the bytes that a task reads, so sizes are predicted parents first.
    """
    model = OutputModel(rows)
    if not model.known or bool((workflow.data > 0).all()):
        return workflow
    data, work = workflow.data.copy(), workflow.work.tolist()
    for task in workflow.order.tolist():
        out = slice(workflow.succ_ptr[task], workflow.succ_ptr[task + 1])
        free = workflow.data[out] == 0
        if free.any():
            point = (work[task], read_bytes(workflow, data, task), keys[task].sizes)
            data[out][free] = model.bytes(keys[task].kind, point)
    return replace(workflow, data=data)


def read_bytes(workflow: Workflow, data: FloatArray, task: int) -> float:
    """Return the bytes that a task reads, with `data` per edge where the workflow has none."""
    edges = workflow.pred_edge[workflow.pred_ptr[task] : workflow.pred_ptr[task + 1]]
    return bytes_read(workflow.data[edges].tolist(), data[edges].tolist())


def bytes_read(given: Sequence[float], measured: Sequence[float]) -> float:
    """Return the sum of given bytes, and of measured ones where none are given.

    Measured bytes are rounded to two digits, so that runs alike have the same key; few do not
    count.

    Examples
    --------
    >>> bytes_read([100.0, 0.0], [100.0, 123_456.0]), bytes_read([0.0], [50.0])
    (120100.0, 0.0)
    """
    found = sum(m for g, m in zip(given, measured, strict=True) if g == 0)
    return sum(given) + (float(f"{found:.1e}") if found >= LEAST_READ else 0.0)


def _measured(
    workflow: Workflow, data: FloatArray, cluster: Cluster, rows: _Rows, keys: _Keys
) -> FloatArray:
    """Return (n, p) predictions from measurements, NaN if unknown; one per kind and size.

    A size that was measured on some devices is unknown on the others: how they differ says more
    than other sizes, which may be far away.
    """
    model = CostModel(rows)
    kinds = list(dict.fromkeys(cluster.kinds))
    column = np.array([kinds.index(kind) for kind in cluster.kinds])
    known: dict[tuple[str, Point], list[float]] = {}
    table = np.full((workflow.n, len(kinds)), np.nan)
    for task, ((kind, arguments), work) in enumerate(
        zip(keys, workflow.work.tolist(), strict=True)
    ):
        key = (kind, (work, read_bytes(workflow, data, task), arguments))
        if key not in known:
            exact = [device for device in kinds if model.measured(kind, device, key[1])]
            found = [
                model.seconds(kind, device, key[1]) if device in exact or not exact else None
                for device in kinds
            ]
            known[key] = [np.nan if s is None else max(s, 1e-9) for s in found]
        table[task] = known[key]
    return np.asarray(table[:, column], float)


def _only_cold(cluster: Cluster, rows: _Rows, keys: _Keys) -> np.ndarray:
    """Return (n, p) where a kind was measured cold only, on devices that have warm kinds too."""
    warm = {(row.kind, row.device) for row in rows if not row.cold}
    kinds, devices = {kind for kind, _ in warm}, {device for _, device in warm}
    return np.array(
        [
            [k.kind in kinds and d in devices and (k.kind, d) not in warm for d in cluster.kinds]
            for k in keys
        ]
    )


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
        self._outputs: dict[int, float] = {}
        """Instance -> bytes of its result."""
        self._keys: dict[int, _Keys] = dict(enumerate(keys))
        self._warm: set[tuple[int, str]] = set()
        """(device, kind) of which an execution has ended: later ones are warm."""
        if len(_WARM_WORKERS) > MOST_WARM:
            _WARM_WORKERS.clear()

    def replace(self, problem: int, workflow: Workflow) -> None:
        """Set the workflow of a problem: a new one, or in the place of another."""
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
        """Return the bytes that a task has read: as given, else as its parents returned them."""
        w = self.workflows[template]
        edges = w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]
        parents = w.src[edges].tolist()
        return bytes_read(
            w.data[edges].tolist(), [self._outputs.get(first + p, 0.0) for p in parents]
        )

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
