"""Streams as TOML, one with a choice and one of two stages; drawn streams, also on networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.model import Cluster, Device, Problem, Topology, WorkflowBuilder
from weft.model.conditional_stream import Arrivals, ConditionalStream, ProbabilityDrift

FAST = '[[units]]\nname = "fast"\nbatch = 8\n'


INSPECTION = """
jobs = 50
[arrivals]
process = "poisson"
gap = "20 ms"
[[tasks]]
name = "look"
time = "10 ms"
then = ["sort"]
[[tasks]]
name = "sort"
time = "5 ms"
kind = "model"
[[tasks]]
name = "explain"
time = "40 ms"
memory = "2 GB"
[[choices]]
task = "sort"
branches = {odd = 0.25, fine = 0.75}
leads_to = {odd = ["explain"], fine = []}
estimate = true
[[units]]
name = "gpu"
count = 2
coefficient = 0.5
batch = 4
memory = "4 GB"
"""
"""A stream with one choice, whose branches are counted, on two units with memory."""


def two_stages(units: str = FAST, *, gap: float = 4, small: float = 1, large: float = 4) -> str:
    """Return a small task, and a large one where it is unsure; times are milliseconds."""
    return f"""
name = "two stages"
tick = "1 ms"
[arrivals]
process = "poisson"
gap = "{gap} ms"
[[tasks]]
name = "small"
time = "{small} ms"
[[tasks]]
name = "large"
time = "{large} ms"
[[choices]]
task = "small"
branches = {{unsure = 0.3, sure = 0.7}}
leads_to = {{unsure = ["large"], sure = []}}
{units}"""


def any_stream(rng: np.random.Generator, jobs: int = 25) -> ConditionalStream:
    """Draw a graph with joins, choices, shared kinds, limited units and many ties."""
    units = int(rng.integers(1, 4))
    builder = WorkflowBuilder("any")
    n = int(rng.integers(1, 7))
    names = [f"t{i}" for i in range(n)]
    for name in names:
        times = {
            f"u{d}": float(rng.integers(0, 6)) for d in range(units) if d == 0 or rng.random() < 0.8
        }
        builder.task(name, kind=f"k{rng.integers(0, 3)}", durations=times)
    drift, watched = [], []
    for i, name in enumerate(names):
        targets = [names[j] for j in range(i + 1, n) if rng.random() < 0.45]
        if len(targets) >= 2 and rng.random() < 0.8:
            branches = int(rng.integers(2, len(targets) + 1))
            share = rng.dirichlet(np.ones(branches))
            builder.choice(name, {f"b{b}": float(p) for b, p in enumerate(share)})
            for k, target in enumerate(targets):
                builder.edge(name, target, when=f"b{k % branches}")
            if rng.random() < 0.7:
                watched.append(len(drift))
            drift.append(ProbabilityDrift("fixed", np.array([share])))
        else:
            for target in targets:
                builder.edge(name, target)
    cluster = Cluster.of([Device(f"u{d}", batch=int(rng.integers(1, 4))) for d in range(units)])
    arrivals = Arrivals(
        "trace", gap=0.0, times=tuple(np.cumsum(rng.integers(0, 8, jobs)).astype(float))
    )
    return ConditionalStream(
        Problem.bind(builder.build(), cluster), arrivals, tuple(drift), jobs, tuple(watched)
    )


def on_network(stream: ConditionalStream, rng: np.random.Generator) -> ConditionalStream:
    """Return the stream with data on its edges, each unit a node of a star."""
    w, c = stream.problem.workflow, stream.problem.cluster
    sharing = str(rng.choice(["fair", "one-port"]))
    star = Topology.star(c.names, up=2.0, down=1.0, latency=0.25, sharing=sharing)
    flow = replace(w, data=rng.integers(0, 4, w.m).astype(float), choices=w.choices)
    cluster = replace(c, nodes=c.names, network=star)
    return replace(stream, problem=Problem.bind(flow, cluster))
