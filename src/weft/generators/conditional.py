"""Workflows with choices: random ones, and the cascade A to F on four devices."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from weft.arguments import number, whole
from weft.generators.generators import extends, register_generator
from weft.generators.layered import layered
from weft.model import Choices, Cluster, Device, Problem, Workflow, WorkflowBuilder
from weft.model.columns import FloatArray, IntArray, offsets
from weft.model.workflow import ALWAYS
from weft.rng import generator
from weft.typed import typed


@register_generator("conditional", size="tasks", estimate=lambda tasks, kinds: tasks + kinds)
@extends(layered, tasks=50, kinds=3)
def conditional(
    *, share: float = 0.5, branches: int = 3, nothing: float = 0.1, seed: int = 0, **layers: Any
) -> Workflow:
    """A random layered DAG; some tasks choose among their outgoing edges.

    Tasks with several parents are the joins.

    Parameters
    ----------
    share : share of the tasks with at least two outgoing edges that get a choice
    branches : the most branches of a choice (2 or more); each gets at least one edge, probabilities
        are drawn uniformly from the simplex
    nothing : probability that a choice has a further branch "nothing" without edges, after which
        nothing follows
    layers : the options of `weft.generators.layered`; by default 50 tasks of 3 kinds

    Examples
    --------
    >>> w = conditional(tasks=30, share=1.0, seed=2)
    >>> w.conditional, w.choices.labels[:2]
    (True, ('b0', 'b1'))
    """
    share, nothing = number(share, "share", high=1.0), number(nothing, "nothing", high=1.0)
    branches = whole(branches, "branches", least=2)
    plain = layered(seed=seed, **layers)
    rng = generator(seed, "conditional", "choices")
    edge_choice, edge_branch = np.full(plain.m, ALWAYS, np.int64), np.zeros(plain.m, np.int64)
    owners: list[int] = []
    labels: list[list[str]] = []
    probability: list[FloatArray] = []
    for task in np.flatnonzero(np.diff(plain.succ_ptr) >= 2).tolist():
        edges = slice(int(plain.succ_ptr[task]), int(plain.succ_ptr[task + 1]))
        if rng.random() >= share:
            continue
        edge_choice[edges] = len(owners)
        edge_branch[edges] = taken = _branch_of_edges(edges.stop - edges.start, branches, rng)
        empty = rng.random() < nothing
        owners.append(task)
        labels.append([f"b{b}" for b in range(int(taken.max()) + 1)] + ["nothing"] * empty)
        probability.append(rng.dirichlet(np.ones(len(labels[-1]))))
    choices = Choices(
        task=np.array(owners, np.int64),
        first=offsets([len(names) for names in labels]),
        probability=np.concatenate(probability) if probability else np.zeros(0),
        labels=tuple(label for names in labels for label in names),
        edge_choice=edge_choice,
        edge_branch=edge_branch,
    )
    return dataclasses.replace(plain, choices=choices, name=f"conditional-{plain.n}")


@typed
def cascade(*, p_c: float = 0.5, p_b: float = 0.5) -> Workflow:
    """Make the cascade of Debner et al.: F takes 100 ms, all other tasks 10 ms.

    A-B; B-C with probability `p_b`, else B-D; D-E with probability `p_c`, else D-F.
    CPUs take 0.8 times as long, as measured durations of kind "CPU".
    """
    p_c, p_b = number(p_c, "p_c", high=1.0), number(p_b, "p_b", high=1.0)
    b = WorkflowBuilder("cascade")
    for name in "ABCDEF":
        milliseconds = 100 if name == "F" else 10
        # 80 / 1000 is the double nearest to 0.08, which 0.1 * 0.8 is not.
        seconds = {
            "CPU": milliseconds * 8 / 10 / 1000,
            "GPU1": milliseconds / 1000,
            "GPU2": milliseconds / 1000,
        }
        b.task(name, work=milliseconds / 1000, kind=name, durations=seconds)
    b.edge("A", "B")
    b.choice("B", {"C": p_b, "D": 1.0 - p_b})
    b.choice("D", {"E": p_c, "F": 1.0 - p_c})
    for src, dst in ("BC", "BD", "DE", "DF"):
        b.edge(src, dst, when=dst)
    return b.build()


@typed
def cascade_cluster() -> Cluster:
    """Make two CPUs and two GPUs.

    A CPU runs one task at a time, the GPUs up to 5 and 10 tasks of one kind.
    """
    return Cluster.of(
        [
            Device("CPU0", kind="CPU", speed=1.25),
            Device("CPU1", kind="CPU", speed=1.25),
            Device("GPU1", kind="GPU1", batch=5),
            Device("GPU2", kind="GPU2", batch=10),
        ],
        name="cascade",
    )


@typed
def conditional_paper(p_c: float = 0.5, *, p_b: float = 0.5) -> Problem:
    """Return the cascade on its four units.

    Examples
    --------
    >>> p = conditional_paper(p_c=0.2)
    >>> p.duration(0, 0), p.duration(5, 0), p.duration(5, 3), p.cluster.batch.tolist()
    (0.008, 0.08, 0.1, [1, 1, 5, 10])
    """
    return Problem.bind(cascade(p_c=p_c, p_b=p_b), cascade_cluster())


def _branch_of_edges(edges: int, most: int, rng: np.random.Generator) -> IntArray:
    """Return the branch of each edge: every branch has at least one edge."""
    count = int(rng.integers(2, min(most, edges) + 1))
    branch = np.concatenate((np.arange(count), rng.integers(0, count, edges - count)))
    return rng.permutation(branch).astype(np.int64)
