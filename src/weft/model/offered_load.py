"""How much of its units' capacity a stream asks for: above 1, queues grow without end whatever decides.

The capacity is a fluid bound: units share their time among task types in any proportion, every batch is full, and nobody waits.
Then the highest rate of jobs is a linear program over the batches a second of each type on each unit.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift
from weft.model.problem import Problem
from weft.model.workflow import ALWAYS, Workflow
from weft.rng import generator

_DRAWS = 4096


def offered_load(stream: ConditionalStream) -> float:
    """Arrival rate over the highest rate the units can keep up with, at the probabilities that ask for most.

    Examples
    --------
    >>> from weft.model.conditional_stream import Arrivals
    >>> problem = Problem.from_arrays([[2.0, 4.0]])
    >>> offered_load(ConditionalStream(problem, Arrivals("regular", gap=1.0), (), jobs=5))  # 1 / (1 / 2 + 1 / 4)
    1.3333333333333333
    """
    if stream.arrivals.process == "trace" and stream.arrivals.gap == 0:
        times = np.sort(np.asarray(stream.arrivals.times, float))[: stream.jobs]
        rate = (
            (len(times) - 1) / (times[-1] - times[0])
            if len(times) > 1 and times[-1] > times[0]
            else 0.0
        )
    else:
        rate = 1.0 / stream.arrivals.gap
    return max(rate / _capacity(stream.problem, visits) for visits in _extreme_visits(stream))


def _extreme_visits(stream: ConditionalStream) -> list[FloatArray]:
    """How often each task runs, at the corners between which the probabilities move (the choices moving together)."""
    corners = [_corners(drift) for drift in stream.drift]
    most = max((len(rows) for rows in corners), default=1)
    return [
        run_probability(stream.problem.workflow, [rows[min(i, len(rows) - 1)] for rows in corners])
        for i in range(most)
    ]


def _corners(drift: ProbabilityDrift) -> list[FloatArray]:
    if drift.kind in {"walk", "uniform"}:
        rest = drift.probability[0, 1:]
        rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1.0 / max(len(rest), 1))
        return [
            np.concatenate(([first], (1.0 - first) * rest)) for first in (drift.low, drift.high)
        ]
    return list(drift.probability)


def run_probability(workflow: Workflow, probability: list[FloatArray]) -> FloatArray:
    """(n,) how often each task runs: exact where no task has two parents, else from a fixed number of draws."""
    choices = workflow.choices
    if (np.diff(workflow.pred_ptr) <= 1).all():
        often = np.where(np.diff(workflow.pred_ptr) == 0, 1.0, 0.0)
        for u in workflow.order.tolist():
            for e in range(int(workflow.succ_ptr[u]), int(workflow.succ_ptr[u + 1])):
                c = int(choices.edge_choice[e])
                often[workflow.dst[e]] = often[u] * (
                    1.0 if c == ALWAYS else float(probability[c][choices.edge_branch[e]])
                )
        return often
    rng = generator(0, "run_probability")
    drawn = [(np.cumsum(p)[:-1] <= rng.random(_DRAWS)[:, None]).sum(axis=1) for p in probability]
    runs = np.zeros((workflow.n, _DRAWS), bool)
    runs[np.diff(workflow.pred_ptr) == 0] = True
    for u in workflow.order.tolist():
        for e in range(int(workflow.succ_ptr[u]), int(workflow.succ_ptr[u + 1])):
            c = int(choices.edge_choice[e])
            runs[workflow.dst[e]] |= (
                runs[u] if c == ALWAYS else runs[u] & (drawn[c] == choices.edge_branch[e])
            )
    share: FloatArray = runs.mean(axis=1)
    return share


def _capacity(problem: Problem, visits: FloatArray) -> float:
    """Highest rate r with r * visits[t] <= sum over d of batches[t, d] * size[t, d], and the time of each unit at most 1."""
    from scipy.optimize import linprog

    seconds, memory = problem.durations(), problem.workflow.memory[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.minimum(
            problem.cluster.batch[None, :],
            np.where(memory > 0, np.floor(problem.cluster.memory[None, :] / memory), np.inf),
        )
    t, d = np.nonzero(np.isfinite(seconds) & (seconds > 0) & (visits > 0)[:, None])
    busy = np.flatnonzero((visits > 0) & (seconds.min(axis=1) > 0))
    if not len(busy):
        return np.inf
    scale = float(
        (visits * seconds.min(axis=1))[busy].sum()
    )  # so that the unknown rate is of the order of 1
    tasks = np.zeros((problem.n, len(t) + 1))
    tasks[:, 0] = visits
    tasks[t, np.arange(1, len(t) + 1)] = -size[t, d] * scale / seconds[t, d]
    units = np.zeros((problem.p, len(t) + 1))
    units[d, np.arange(1, len(t) + 1)] = 1.0
    limits = np.concatenate((np.zeros(len(busy)), np.ones(problem.p)))
    found = linprog(
        np.eye(1, len(t) + 1)[0] * -1.0,
        A_ub=np.concatenate((tasks[busy], units)),
        b_ub=limits,
        method="highs",
    )
    return float(found.x[0]) / scale
