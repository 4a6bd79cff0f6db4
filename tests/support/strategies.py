"""Hypothesis strategies: small but nasty clusters, problems, workloads and scenarios.

Every problem is feasible (one device can run everything), and every failure is followed by a
recovery, so a simulation that never stops asking comes to its end.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from weft.model import (
    Cluster,
    Port,
    Problem,
    Scenario,
    Topology,
    Trunk,
    Workflow,
    WorkflowBuilder,
    Workload,
)

KINDS = ("a", "b", "c")
CAPACITY = 8.0
ENOUGH = {"cores": 4.0, "memory": CAPACITY, "licence": 2.0}
"""Capacities of a node that can run every task."""

amounts = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 3.0]), st.floats(0.01, 20.0))
"""Work, data or seconds: often equal, sometimes zero, sometimes hard to round."""


@st.composite
def clusters(
    draw: Any,
    *,
    max_devices: int = 4,
    batches: bool = False,
    limits: bool = True,
    shared: bool = False,
    network: bool = False,
    setups: bool = False,
) -> Cluster:
    """Draw up to `max_devices` devices; `limits` restricts memory, cores and kinds.

    With `shared`, devices are on two nodes, whose capacities their tasks share. With `network`,
    they are on up to three nodes, or these two, with links that transfers share. With `setups`,
    they load kinds before they run them.
    """
    p = draw(st.integers(1, max_devices))
    able = draw(st.integers(0, p - 1))  # this one can run everything
    column = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=p, max_size=p)
    memory, cores, throughput = np.full(p, np.inf), np.ones(p), {}
    if limits and draw(st.booleans()):
        memory = np.array(
            draw(st.lists(st.sampled_from([1.0, 2.0, CAPACITY]), min_size=p, max_size=p))
        )
        cores = np.array(draw(st.lists(st.integers(1, 4), min_size=p, max_size=p)))
        memory[able], cores[able] = CAPACITY, 4
    for kind in draw(st.lists(st.sampled_from(KINDS), unique=True)) if limits else []:
        rate = np.array(
            draw(st.lists(st.sampled_from([0.0, np.nan, 1.0, 4.0]), min_size=p, max_size=p))
        )
        rate[able] = np.nan
        throughput[kind] = rate
    batch = np.array(draw(st.lists(st.integers(1, 3), min_size=p, max_size=p))) if batches else 1
    placed = draw(node_capacities(p, able)) if shared else {}
    if network:
        some = st.lists(st.sampled_from(["x", "y", "z"]), min_size=p, max_size=p)
        placed.setdefault("nodes", tuple(draw(some)))
        placed["network"] = draw(networks(placed["nodes"]))
    return Cluster(
        speed=np.array(draw(column)),
        bandwidth=draw(links(p, [0.5, 1.0, 4.0, np.inf])),
        latency=draw(links(p, [0.0, 0.0, 0.25, 2.0])),
        throughput=throughput,
        memory=memory,
        cores=cores,
        batch=batch,
        batch_curve=draw(curves(p, int(np.max(batch)))) if batches else {},
        power=np.array(draw(column)) * 100,
        idle_power=10.0,
        **placed,
        **(draw(device_setups(p)) if setups else {}),
    )


@st.composite
def device_setups(draw: Any, p: int) -> dict[str, Any]:
    """Draw set-ups of a few kinds, some pinned, in caches that hold one or more of them."""
    made = {}
    for kind in draw(st.lists(st.sampled_from((*KINDS, "*")), unique=True)):
        seconds = draw(st.lists(st.sampled_from([0.0, 0.7, 2.0]), min_size=p, max_size=p))
        memory = draw(st.lists(st.sampled_from([0.0, 1.0, 1.1]), min_size=p, max_size=p))
        pinned = draw(st.booleans()) and kind != "*"
        made[kind] = np.array([seconds, memory, np.full(p, float(pinned))]).T
    held = sum(float(rows[:, 2].max()) for rows in made.values())
    extra = draw(st.lists(st.sampled_from([1.1, 2.1, np.inf]), min_size=p, max_size=p))
    switch = draw(st.lists(st.sampled_from([0.0, 0.3]), min_size=p, max_size=p))
    return {"setup": made, "cache": 1.1 * held + np.array(extra), "switch": np.array(switch)}


@st.composite
def node_capacities(draw: Any, p: int, able: int) -> dict[str, Any]:
    """Draw nodes and their capacities; the node of device `able` has enough for every task."""
    nodes = draw(st.lists(st.sampled_from(["x", "y"]), min_size=p, max_size=p))
    capacity: dict[str, dict[str, float]] = {}
    for name, enough in ENOUGH.items():
        low = {"licence": 0.5}.get(name, 1.0)
        for node in dict.fromkeys(nodes):
            most = enough if node == nodes[able] else low
            amount = draw(st.sampled_from([np.inf, most, most * 1.5, enough * 2.5]))
            capacity.setdefault(name, {})[node] = amount
    if not np.isfinite(list(capacity["licence"].values())).any():
        capacity["licence"][nodes[able]] = 2.0
    return {"nodes": tuple(nodes), "capacity": capacity}


@st.composite
def networks(draw: Any, nodes: tuple[str, ...]) -> Topology:
    """Draw ports on up to three switches, connected by trunks, some of them without limit."""
    rates, latencies = (
        st.sampled_from([0.5, 1.0, 3.0, np.inf]),
        st.sampled_from([0.0, 0.0, 0.25, 1.0]),
    )
    switches = draw(st.sampled_from([("s",), ("s", "t"), ("s", "t", "u")]))
    ports = {
        node: Port(draw(rates), draw(rates), draw(latencies), draw(st.sampled_from(switches)))
        for node in dict.fromkeys(nodes)
    }
    trunks = [Trunk(a, b, draw(rates), draw(latencies)) for a, b in pairwise(switches)]
    return Topology(ports, trunks, draw(st.sampled_from(["fair", "fair", "one-port"])))


@st.composite
def curves(draw: Any, p: int, most: int) -> dict[str, np.ndarray]:
    """Draw batch curves of a few kinds: constant, slower when fuller, or no gain at all."""
    made = {}
    for kind in draw(st.lists(st.sampled_from((*KINDS, "*")), unique=True)):
        growth = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.7])
        rows = draw(st.lists(growth, min_size=p, max_size=p))
        made[kind] = np.array([1.0 + g * np.arange(most) for g in rows])
    return made


@st.composite
def links(draw: Any, p: int, values: list[float]) -> np.ndarray | float:
    """One number for all pairs of devices, or one for each."""
    one = st.sampled_from(values)
    if draw(st.booleans()):
        return draw(one)
    return np.array(draw(st.lists(one, min_size=p * p, max_size=p * p))).reshape(p, p)


@st.composite
def workflows(
    draw: Any, cluster: Cluster, *, min_tasks: int = 0, max_tasks: int = 9, choices: bool = False
) -> Workflow:
    """Draw a DAG for this cluster in any numbering, with measured tasks and choices."""
    n = draw(st.integers(min_tasks, max_tasks))
    able = _able(cluster)
    limited = bool(np.isfinite(cluster.memory).any())
    builder = WorkflowBuilder("drawn")
    measured = draw(st.booleans())
    for t in range(n):
        durations = {}
        if measured and draw(st.booleans()):
            others = draw(st.lists(st.sampled_from(cluster.names), unique=True))
            durations = {name: draw(amounts) for name in (cluster.names[able], *others)}
        builder.task(
            f"t{t}",
            work=draw(amounts),
            kind=draw(st.sampled_from(KINDS)),
            memory=draw(st.sampled_from([0.0, 1.0, 1.5, 3.0, CAPACITY])),
            cores=draw(st.integers(1, 4)) if limited else 1,
            needs=(
                {"licence": draw(st.sampled_from([0.0, 0.3, 1.0, 2.0]))}
                if "licence" in cluster.capacity
                else {}
            ),
            durations=durations,
        )
    pairs = draw(_pairs(n))
    labels = _say_choices(draw, builder, n) if choices else {}
    for u, v in pairs:
        when = draw(st.sampled_from([None, *labels[u], *labels[u]])) if u in labels else None
        builder.edge(f"t{u}", f"t{v}", data=draw(amounts), when=when)
    return builder.build()


@st.composite
def problems(
    draw: Any, *, min_tasks: int = 0, max_tasks: int = 9, choices: bool = False, **machines: Any
) -> Problem:
    """Draw DAG problems: zero work or data, no edges or tasks; `machines` go to `clusters`."""
    cluster = draw(clusters(**machines))
    return Problem.bind(
        draw(workflows(cluster, min_tasks=min_tasks, max_tasks=max_tasks, choices=choices)), cluster
    )


@st.composite
def workloads(
    draw: Any,
    *,
    max_jobs: int = 4,
    max_templates: int = 2,
    min_tasks: int = 0,
    max_tasks: int = 6,
    choices: bool = True,
    **machines: Any,
) -> Workload:
    """Draw a stream of jobs of a few problems, some together, some with deadlines.

    `machines` go to `clusters`; by default there are up to three devices, with batches.
    """
    cluster = draw(clusters(**{"max_devices": 3, "batches": True, **machines}))
    shapes = draw(
        st.lists(
            workflows(cluster, min_tasks=min_tasks, max_tasks=max_tasks, choices=choices),
            min_size=1,
            max_size=max_templates,
        )
    )
    jobs = draw(st.integers(1, max_jobs))

    def column(values: st.SearchStrategy[Any]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=jobs, max_size=jobs)))

    arrival = column(st.one_of(st.sampled_from([0.0, 0.0, 1.0, 2.5]), st.floats(0.0, 30.0)))
    return Workload.of(
        [Problem.bind(shape, cluster) for shape in shapes],
        template=column(st.integers(0, len(shapes) - 1)),
        arrival=arrival,
        deadline=arrival + column(st.sampled_from([1.0, 10.0, np.inf])),
        priority=column(st.sampled_from([0.0, 1.0, 2.0])),
    )


@st.composite
def scenarios(draw: Any, workload: Workload) -> Scenario:
    """One future of a workload: outcomes, noise, bias, slowdowns, failures and cancellations."""
    p, factors = workload.cluster.p, st.sampled_from([0.5, 1.0, 1.0, 1.7])
    outcome = [
        draw(st.integers(0, len(choices.branches(c)) - 1))
        for j in range(workload.jobs)
        for choices in [workload.problem_of(j).workflow.choices]
        for c in range(len(choices))
    ]
    shape = (len(workload.kinds), p)
    slow = st.tuples(amounts, st.integers(0, p - 1), st.sampled_from([0.5, 1.0, 2.0, 3.3]))
    changes: list[tuple[float, int, float]] = draw(st.lists(slow, max_size=3))
    for _ in range(draw(st.integers(0, 2))):
        begin, device, length = (
            draw(amounts),
            draw(st.integers(0, p - 1)),
            draw(st.sampled_from([0.5, 1.0, 4.0])),
        )
        changes += [
            (begin, device, np.inf),
            (begin + length, device, draw(st.sampled_from([1.0, 2.0]))),
        ]
    cancel = st.one_of(st.just(np.inf), amounts)
    return Scenario.of(
        workload,
        outcome=np.array(outcome, np.int64),
        factor=np.array(
            draw(st.lists(factors, min_size=workload.instances, max_size=workload.instances)), float
        ),
        bias=np.array(
            draw(st.lists(factors, min_size=shape[0] * p, max_size=shape[0] * p))
        ).reshape(shape),
        changes=changes,
        cancel=draw(st.lists(cancel, min_size=workload.jobs, max_size=workload.jobs)),
    )


@st.composite
def futures(draw: Any, **options: Any) -> tuple[Workload, Scenario]:
    """A workload and one future of it; options go to `workloads`.

    Half share capacities, and half have set-ups.
    """
    half = {"shared": draw(st.booleans()), "setups": draw(st.booleans())}
    workload = draw(workloads(**{**half, **options}))
    return workload, draw(scenarios(workload))


def _able(cluster: Cluster) -> int:
    """The first device that can run everything."""
    fits = (cluster.memory >= CAPACITY) & (
        cluster.cores >= (4 if np.isfinite(cluster.memory).any() else 1)
    )
    for rate in cluster.throughput.values():
        fits &= ~(rate == 0)
    for name, enough in ENOUGH.items():
        fits &= (
            cluster.capacity.get(name, np.full(len(cluster.node_names), np.inf))[cluster.node]
            >= enough
        )
    return int(np.flatnonzero(fits)[0])


@st.composite
def _pairs(draw: Any, n: int) -> list[tuple[int, int]]:
    """Edges of a DAG: pairs that go forward in a drawn order of the tasks."""
    if n < 2:
        return []
    order = draw(st.permutations(range(n)))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    places = draw(st.lists(ends, unique_by=lambda e: (min(e), max(e)), max_size=2 * n))
    return [(order[min(e)], order[max(e)]) for e in places]


def _say_choices(draw: Any, builder: WorkflowBuilder, n: int) -> dict[int, list[str]]:
    """Give some tasks choices, with branches that may never be taken; return their labels."""
    labels: dict[int, list[str]] = {}
    for t in draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3)) if n else []:
        for c in range(draw(st.integers(1, 2))):
            shares = draw(st.sampled_from([[0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0], [1.0]]))
            branches = {f"{c}{chr(97 + b)}": share for b, share in enumerate(shares)}
            builder.choice(f"t{t}", branches)
            labels.setdefault(t, []).extend(branches)
    return labels
