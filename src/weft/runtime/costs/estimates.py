"""Estimated durations: from the history, else from the workflow on the same scale."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Topology, Workflow
from weft.model.columns import FloatArray, frozen
from weft.model.network import Port
from weft.runtime.costs.cost_model import CostModel, CostPoint, OutputModel
from weft.runtime.costs.history import History
from weft.runtime.costs.imputation import impute_logs
from weft.runtime.costs.keys import GPU, CostKey
from weft.runtime.costs.measurements import LinkRow, TaskRow, usual_rows

TRANSFERS = 3
"""Measured transfers between two kinds of devices required to use them."""

PORT_QUANTILE = 0.9
"""Quantile of the rates of a link taken as the rate of its ports, which most transfers share."""

LARGE = 65536
"""Least bytes of a transfer that shows the rate of a link rather than its latency."""

LEAST_READ = 4096
"""Least measured bytes read by a task that count for its duration."""

_Ports = dict[str, tuple[float, int]]
"""Kind of device -> best rate of its port in one direction, and transfers that show it."""

_TaskRows = Sequence[TaskRow]
_CostKeys = Sequence[CostKey]


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
    given: Collection[int] = (),
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
    given : tasks whose work counts as an estimate even if it is 0
    """
    sized = workflow if workflow.durations or workflow.work.any() else _with_work(workflow, given)
    if history is not None:
        cluster = with_measured_links(cluster, history)
    rows = [] if history is None else usual_rows(history.tasks)
    keys = keys_of(workflow) if keys is None else keys
    # Result sizes are the same on cold and warm workers.
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
    scaled = prior * np.exp(impute_logs(ratio, measured, workflow.kind))
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
        need: np.array([_matches(cluster, d, need) for d in range(cluster.p)])
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


def _matches(cluster: Cluster, device: int, need: str) -> bool:
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

    Another link between nodes gets the lower rate of the ports at its ends, as far as transfers
    show them, because an unmeasured link is not free. Within a device nothing moves, whatever was
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
    """Return the measured ports of the nodes; None if too few were measured.

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
    """Return the rates out of and into a kind of device.

    A rate is the best of the usual rates of its links.

    A port with few transfers in one direction is at least as quick there as in the other direction.
    A port without transfers has the median rate.
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


def with_measured_data(workflow: Workflow, rows: _TaskRows, keys: _CostKeys) -> Workflow:
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
            point = (work[task], input_bytes(workflow, data, task), keys[task].sizes)
            data[out][free] = model.bytes(keys[task].kind, point)
    return replace(workflow, data=data)


def input_bytes(workflow: Workflow, data: FloatArray, task: int) -> float:
    """Return the bytes that a task reads, with `data` where the workflow has none."""
    edges = workflow.pred_edge[workflow.pred_ptr[task] : workflow.pred_ptr[task + 1]]
    return sum_input_bytes(workflow.data[edges].tolist(), data[edges].tolist())


def sum_input_bytes(given: Sequence[float], measured: Sequence[float]) -> float:
    """Return the sum of given bytes, and of measured ones where none are given.

    Measured bytes are rounded to two digits, so that similar runs have the same key; below
    `LEAST_READ` they do not count.

    Examples
    --------
    >>> sum_input_bytes([100.0, 0.0], [100.0, 123_456.0]), sum_input_bytes([0.0], [50.0])
    (120100.0, 0.0)
    """
    found = sum(m for g, m in zip(given, measured, strict=True) if g == 0)
    return sum(given) + (float(f"{found:.1e}") if found >= LEAST_READ else 0.0)


def _measured(
    workflow: Workflow, data: FloatArray, cluster: Cluster, rows: _TaskRows, keys: _CostKeys
) -> FloatArray:
    """Return (n, p) predictions from measurements, NaN if unknown.

    They are computed once per kind and size.

    A size measured on some devices stays unknown on the others: the ratio between devices predicts
    it better than other sizes do, which may be far away.
    """
    model = CostModel(rows)
    kinds = list(dict.fromkeys(cluster.kinds))
    column = np.array([kinds.index(kind) for kind in cluster.kinds])
    known: dict[tuple[str, CostPoint], list[float]] = {}
    table = np.full((workflow.n, len(kinds)), np.nan)
    for task, ((kind, arguments), work) in enumerate(
        zip(keys, workflow.work.tolist(), strict=True)
    ):
        key = (kind, (work, input_bytes(workflow, data, task), arguments))
        if key not in known:
            exact = [device for device in kinds if model.measured(kind, device, key[1])]
            found = [
                model.seconds(kind, device, key[1]) if device in exact or not exact else None
                for device in kinds
            ]
            known[key] = [np.nan if s is None else max(s, 1e-9) for s in found]
        table[task] = known[key]
    return np.asarray(table[:, column], float)


def _only_cold(cluster: Cluster, rows: _TaskRows, keys: _CostKeys) -> np.ndarray:
    """Return (n, p) whether a kind was measured cold only, on devices with warm kinds."""
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


def _with_work(workflow: Workflow, given: Collection[int]) -> Workflow:
    ones = np.array([float(t not in given) for t in range(workflow.n)])
    return replace(workflow, work=ones)
