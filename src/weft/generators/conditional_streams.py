"""Random streams of conditional jobs on random units, to train and test policies."""

from __future__ import annotations

import dataclasses

import numpy as np

from weft.arguments import number, whole
from weft.generators.conditional import conditional
from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray, frozen
from weft.model.conditional_stream import Arrivals, ConditionalStream, ProbabilityDrift
from weft.model.machines.capacity import offered_load
from weft.rng import generator

TYPICAL = 0.010
"""Seconds of a typical task."""


def random_conditional_stream(
    seed: int, *, jobs: int = 500, least: int = 4, most: int = 14, load: float | None = None
) -> ConditionalStream:
    """Draw a conditional graph, batching units and arrivals.

    The load is drawn too if `load` is not given. The graph has `least` to `most` tasks; all its
    choices are watched.

    Examples
    --------
    >>> s = random_conditional_stream(3)
    >>> s.problem.n, s.problem.p, s.arrivals.process, round(offered_load(s), 2)
    (11, 4, 'normal', 0.85)
    """
    rng = generator(seed, "conditional_stream")
    tasks = int(rng.integers(whole(least, "least", least=3), whole(most, "most", least=3) + 1))
    while True:
        graph = conditional(
            tasks=tasks,
            share=float(rng.uniform(0.5, 1.0)),
            branches=3,
            nothing=0.3,
            alpha=float(rng.uniform(0.4, 1.5)),
            density=float(rng.uniform(0.1, 0.6)),
            ccr=0.0,
            kinds=1,
            seed=int(rng.integers(2**31)),
        )
        if graph.conditional:  # a thin graph may have nothing to choose
            return conditional_stream_of(own_kinds(graph), rng, jobs=jobs, load=load)


def own_kinds(workflow: Workflow) -> Workflow:
    """Return the graph with one kind per task: only tasks of one name share a batch."""
    kinds = tuple(f"k{t}" for t in range(workflow.n))
    return dataclasses.replace(workflow, kinds=kinds, kind=np.arange(workflow.n, dtype=np.int64))


def conditional_stream_of(
    workflow: Workflow, rng: np.random.Generator, *, jobs: int, load: float | None = None
) -> ConditionalStream:
    """Return a stream of a graph with drawn units, durations and arrivals.

    Durations are log-normal around 10 ms; a task may be slow on one kind of unit and quick on
    another. There are at most six units of one to three kinds; a kind takes one task at a time, or
    batches of up to 16 tasks.
    """
    problem = _on_units(workflow, rng)
    choices = problem.workflow.choices
    drift = tuple(
        ProbabilityDrift("fixed", np.array([choices.probability[choices.branches(c)]]))
        for c in range(len(choices))
    )
    asked = number(load, "load", above=True) if load is not None else float(rng.uniform(0.4, 0.85))
    process = str(rng.choice(["normal", "poisson", "regular"]))
    plain = ConditionalStream(
        problem,
        Arrivals("regular", gap=1.0),
        drift,
        jobs,
        watched=tuple(range(len(choices))),
        tick=0.001,
    )
    gap = max(offered_load(plain) / asked, 1e-6)
    return dataclasses.replace(
        plain,
        arrivals=Arrivals(process, gap=gap, deviation=gap / 2 if process == "normal" else 0.0),
    )


def _on_units(workflow: Workflow, rng: np.random.Generator) -> Problem:
    groups = int(rng.integers(1, 4))
    count = rng.integers(1, 3, groups)
    batch = [1 if rng.random() < 0.4 else int(2 ** rng.uniform(1, 4)) for _ in range(groups)]
    factor = (
        np.exp(rng.normal(0.0, 0.35, (workflow.n, groups)))
        * np.exp(rng.normal(0.0, 0.3, groups))[None, :]
    )
    work = TYPICAL * np.exp(rng.normal(0.0, rng.uniform(0.2, 1.2), workflow.n))
    which = np.repeat(np.arange(groups), count)
    # Whole tenths of a tick, so that events can be due at the same time.
    seconds: FloatArray = np.maximum(np.round((work[:, None] * factor)[:, which], 4), 1e-4)
    names = tuple(f"u{g}.{i}" for g in range(groups) for i in range(count[g]))
    kinds = tuple(f"u{g}" for g in which)
    cluster = Cluster(
        speed=np.ones(len(which)),
        names=names,
        kinds=kinds,
        batch=np.array(batch)[which],
        name="random",
    )
    problem = Problem.bind(workflow, cluster)
    rows = np.arange(workflow.n, dtype=np.int64)
    return dataclasses.replace(
        problem, work=frozen(np.ones(workflow.n)), row=frozen(rows), per_work=frozen(seconds)
    )
