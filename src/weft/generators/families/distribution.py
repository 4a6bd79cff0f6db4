"""Cases like those of users: families, clusters, conditions, mixed streams.

Families of workflows are split: constants of policies are chosen on `DEVELOPMENT` alone, results
are stated on `LEFT_OUT`. Clusters have from one node to several racks. Their mixes of nodes are
those of three production clusters (Alibaba 2020, 2023 and 2026: nodes of 2, 4 or 8 equal GPUs),
their devices and links those of the catalogue. A CCR is set, or it follows from measured seconds
and bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weft.arguments import one_of
from weft.generators.ccr import scale_ccr
from weft.generators.generators import generate
from weft.generators.instances import Condition, Instance, fit_workflow, instance_of
from weft.generators.machines.clusters import gpu_cluster
from weft.generators.machines.costs import with_affinity
from weft.model import Cluster, Problem, Workflow
from weft.rng import generator
from weft.typed import typed

DEVELOPMENT = ("layered", "epigenomics", "montage", "cholesky", "query", "inception")
"""Families on which constants of policies are chosen."""
LEFT_OUT = (
    "genome",
    "blast",
    "bwa",
    "cycles",
    "seismology",
    "soykb",
    "srasearch",
    "transformer",
    "lu",
    "qr",
)
"""Families on which nothing is chosen."""
FAMILIES = (*DEVELOPMENT, *LEFT_OUT)

SINGLE_NODE = {"one node, 2 kinds": "4xV100,4xT4", "one node, 3 kinds": "2xA100,2xV100,4xT4"}
SEVERAL_NODES = {
    "rack": "4xV100+4xP100+8xT4",
    "racks": "2xA100+4xV100+4xP100+4xT4+4xK80",
    "pairs": "2x2xV100+3x2xT4",
}
CLUSTERS = {**SINGLE_NODE, **SEVERAL_NODES}

SHAPES = {
    "layered": {"kinds": 4},
    "genome": {"individuals": 4, "populations": 3},
    "inception": {"branches": 2},
    "cycles": {"runs": 4},
    "soykb": {"chromosomes": 3},
    "transformer": {"shards": 4},
}
"""Options of generators that make small sizes possible."""

FROM_BYTES = 0.0
"""Stands for the CCR that follows from measured seconds and bytes."""
CCRS = (0.2, 1.0, 5.0, FROM_BYTES)
SIZES = (20, 260)
"""Least and most tasks of a workflow; sizes are drawn evenly on a logarithmic scale."""
JOB_SIZES = (20, 100)
"""Least and most tasks of a job of a stream, drawn in the same way."""
AFFINITY = 0.6
"""Spread of devices of one speed by task kind: factors are uniform in 1 +- half of this."""
KINDS = tuple(f"k{k}" for k in range(4))

FAMILY_CONDITIONS = {
    "static": Condition(),
    "measured": Condition(noise=0.1),
    "noisy .3": Condition(noise=0.3),
    "noisy .5": Condition(noise=0.5),
    "failing": Condition(slowdowns=1.0, failures=0.5),
    "biased": Condition(bias=0.4),
    "changing": Condition(noise=0.2, bias=0.3, slowdowns=1.0, failures=0.5),
    "stream .8": Condition(noise=0.2, stream=True),
    "stream .95": Condition(noise=0.2, stream=True),
}
"""Conditions; `measured` has the spread of 1,000 repetitions of kernels on five processors (medians
of 0.02 to 0.11 by tile size, up to 0.29 for the smallest tiles)."""
LOADS = {"stream .8": 0.8, "stream .95": 0.95}

Source = Callable[[str, int, tuple[int, int]], Workflow]
"""(family, seed, sizes) -> workflow."""


class FamilyCase(NamedTuple):
    """An instance, and the parameters drawn for it."""

    instance: Instance
    families: tuple[str, ...]
    cluster: str
    ccr: float


@typed
def draw_workflow(family: str, seed: int, sizes: tuple[int, int] = SIZES) -> Workflow:
    """Draw a workflow of a family, of about a size in a range.

    Examples
    --------
    >>> sizes = [draw_workflow("soykb", seed).n for seed in range(9)]
    >>> 20 <= min(sizes) < max(sizes) <= 260
    True
    """
    one_of(family, "family", FAMILIES)
    low, high = np.log(sizes)
    size = int(np.exp(generator(seed, "families", family, "size").uniform(low, high)))
    shape: dict[str, int] = dict(SHAPES.get(family, {}))
    if family == "query":
        scans = int(generator(seed, "families", "scans").integers(1, 9))
        return generate(family, seed=seed, scans=scans, queries=max(1, size // (2 * scans + 1)))
    return generate(family, seed=seed, tasks=size, **shape)


@typed
def draw_case(
    condition: str,
    *,
    seed: int = 0,
    families: Sequence[str] = LEFT_OUT,
    clusters: Sequence[str] = tuple(CLUSTERS),
    jobs: int = 12,
    source: Source = draw_workflow,
) -> FamilyCase:
    """Draw a case: one workflow, or a stream of `jobs` that mixes families.

    Families, clusters and CCRs come in turn by seed, so that all have equal shares.

    Examples
    --------
    >>> case = draw_case("stream .8", seed=1, jobs=3)
    >>> case.instance.workload.jobs, set(case.families) <= set(LEFT_OUT)
    (3, True)
    """
    one_of(condition, "condition", tuple(FAMILY_CONDITIONS))
    rng = generator(seed, "families", "case")
    name = str(rng.choice(list(clusters)))
    cluster = draw_cluster(name, seed)
    kind, stream = FAMILY_CONDITIONS[condition], condition in LOADS
    ccr = CCRS[seed % len(CCRS)]
    count, sizes = (jobs, JOB_SIZES) if stream else (1, SIZES)
    one = (families[seed // len(CCRS) % len(families)],)
    drawn = tuple(str(f) for f in rng.choice(list(families), count)) if stream else one
    seeds = rng.integers(0, 2**31, count).tolist()
    problems = [
        bind_family(source(family, own, sizes), cluster, ccr)
        for family, own in zip(drawn, seeds, strict=True)
    ]
    load = LOADS.get(condition, 1.0)
    return FamilyCase(instance_of(problems, kind, seed=seed, load=load), drawn, name, ccr)


def draw_cluster(name: str, seed: int) -> Cluster:
    """Return a cluster by name; which task kinds suit which device kind is drawn."""
    one_of(name, "cluster", tuple(CLUSTERS))
    return with_affinity(gpu_cluster(CLUSTERS[name]), KINDS, heterogeneity=AFFINITY, seed=seed)


def bind_family(workflow: Workflow, cluster: Cluster, ccr: float) -> Problem:
    """Bind a workflow to a cluster with a CCR, or with its measured seconds and bytes.

    Measured seconds are those of a device of mean speed.

    Examples
    --------
    >>> cluster = draw_cluster("rack", 0)
    >>> workflow = draw_workflow("blast", 0)
    >>> from weft.generators import measure_ccr
    >>> [round(measure_ccr(bind_family(workflow, cluster, ccr)), 6) for ccr in (1.0, FROM_BYTES)]
    [1.0, 0.0]
    """
    fitted = fit_workflow(workflow, cluster)
    if ccr != FROM_BYTES:
        return Problem.bind(scale_ccr(fitted, ccr, cluster), cluster)
    seconds = float(workflow.work.mean()) or 1.0
    work = fitted.work * (seconds * float(cluster.speed.mean()))
    return Problem.bind(dataclasses.replace(fitted, work=work), cluster)
