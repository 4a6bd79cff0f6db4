"""Capacity: the highest rate of jobs that devices sustain; the load of a stream.

The bound takes tasks as a fluid: devices share their time among task types in any proportion, every
batch has the size with the least time per task, and no device waits for data. The highest rate of
jobs is then a linear program over the time that each device spends on each type. Above a load of 1,
queues grow without end under any policy.
"""

from __future__ import annotations

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift, with_first
from weft.model.problem import Problem
from weft.model.workflow import ALWAYS, Workflow
from weft.rng import generator

_DRAWS = 4096


def offered_load(stream: ConditionalStream) -> float:
    """Return arrival rate / capacity, at the probabilities that need the most.

    Examples
    --------
    >>> from weft.model.conditional_stream import Arrivals
    >>> problem = Problem.from_arrays([[2.0, 4.0]])
    >>> stream = ConditionalStream(problem, Arrivals("regular", gap=1.0), (), jobs=5)
    >>> offered_load(stream)  # 1 / (1 / 2 + 1 / 4)
    1.3333333333333333
    """
    if stream.arrivals.process == "trace" and stream.arrivals.gap == 0:
        times = np.sort(np.asarray(stream.arrivals.times, float))[: stream.jobs]
        span = float(times[-1] - times[0])
        rate = (len(times) - 1) / span if span > 0 else 0.0
    else:
        rate = 1.0 / stream.arrivals.gap
    return max(rate / _capacity(stream.problem, visits) for visits in _extreme_visits(stream))


def _extreme_visits(stream: ConditionalStream) -> list[FloatArray]:
    """Return the visits of each task at each extreme that all drifts take together."""
    corners = [_corners(drift) for drift in stream.drift]
    most = max((len(rows) for rows in corners), default=1)
    return [
        run_probability(stream.problem.workflow, [rows[min(i, len(rows) - 1)] for rows in corners])
        for i in range(most)
    ]


def _corners(drift: ProbabilityDrift) -> list[FloatArray]:
    if drift.kind in {"walk", "uniform"}:
        return list(with_first(drift.probability[0], np.array([drift.low, drift.high])))
    return list(drift.probability)


def run_probability(workflow: Workflow, probability: list[FloatArray]) -> FloatArray:
    """Return (n,) the probability that each task runs; sampled where tasks join."""
    choices = workflow.choices
    if not (np.diff(workflow.pred_ptr) <= 1).all():
        return sampled_run_probability(workflow, probability)
    often = np.where(np.diff(workflow.pred_ptr) == 0, 1.0, 0.0)
    for u in workflow.order.tolist():
        for e in range(int(workflow.succ_ptr[u]), int(workflow.succ_ptr[u + 1])):
            c = int(choices.edge_choice[e])
            often[workflow.dst[e]] = often[u] * (
                1.0 if c == ALWAYS else float(probability[c][choices.edge_branch[e]])
            )
    return often


def sampled_run_probability(workflow: Workflow, probability: list[FloatArray]) -> FloatArray:
    """Return (n,) the share of a fixed number of outcomes in which each task runs."""
    choices, rng = workflow.choices, generator(0, "run_probability")
    drawn = [(np.cumsum(p)[:-1] <= rng.random(_DRAWS)[:, None]).sum(axis=1) for p in probability]
    runs = np.zeros((workflow.n, _DRAWS), bool)
    runs[np.diff(workflow.pred_ptr) == 0] = True
    for u in workflow.order.tolist():
        for e in range(int(workflow.succ_ptr[u]), int(workflow.succ_ptr[u + 1])):
            c = int(choices.edge_choice[e])
            taken = runs[u] if c == ALWAYS else runs[u] & (drawn[c] == choices.edge_branch[e])
            runs[workflow.dst[e]] |= taken
    share: FloatArray = runs.mean(axis=1)
    return share


def _capacity(problem: Problem, visits: FloatArray) -> float:
    """Return the highest rate of jobs with `visits[t]` of task t, in full batches."""
    seconds, memory = problem.durations(), problem.workflow.memory[:, None]
    busy = np.flatnonzero((visits > 0) & (seconds.min(axis=1) > 0))
    if not len(busy):
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # memory may be tiny or 0
        size = np.minimum(
            problem.cluster.batch[None, :],
            np.where(memory > 0, np.floor(problem.cluster.memory[None, :] / memory), np.inf),
        )
    if problem.cluster.batch_curve:
        size = _tasks_per_batch_time(problem, size)
    unit = float((visits * seconds.min(axis=1))[busy].sum())
    with np.errstate(over="ignore", invalid="ignore"):  # infinite rates are refused below
        supply = size[busy] * unit / seconds[busy]
    return _highest_rate(visits[busy], supply) / unit


def _tasks_per_batch_time(problem: Problem, size: FloatArray) -> FloatArray:
    """Return (n, p) tasks per duration of one task, in the best batch up to `size`."""
    growth = problem.cluster.batch_growth(problem.workflow.kinds)[problem.workflow.kind]
    sizes = np.arange(1.0, growth.shape[2] + 1.0)
    rate = np.where(sizes <= np.maximum(size, 1.0)[:, :, None], sizes / growth, 0.0)
    best: FloatArray = rate.max(axis=2)
    return best


def fluid_capacity(per_work: FloatArray, demand: FloatArray) -> float:
    """Return the highest rate at which devices can serve a demand per row of costs.

    `per_work` (k, p) is in seconds per unit of demand; a row that takes no time is refused.
    """
    can = np.isfinite(per_work) & (per_work > 0)
    if not can.any(axis=1).all():
        raise InvalidInput(
            "a stream of tasks that take no time has no capacity; give a rate instead of a load"
        )
    shortest = np.where(can, per_work, np.inf).min(axis=1)
    unit = float((demand * shortest).sum()) / per_work.shape[1]
    supply = np.where(can, unit / (demand[:, None] * np.where(can, per_work, 1.0)), 0.0)
    rate: float = _highest_rate(np.ones(len(demand)), supply) / unit
    return rate


def _highest_rate(need: FloatArray, supply: FloatArray) -> float:
    """Maximise r with r * need[k] <= sum over d of time[k, d] * supply[k, d].

    The times of each device add up to at most 1. Callers scale the supply so that the rate is of
    the order of 1, whatever the units of work.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    if not (np.isfinite(supply).all() and np.isfinite(need).all()):
        raise InvalidInput(
            "the capacity of the cluster is beyond what a float can hold; check the times and "
            "coefficients"
        )
    (rows, p), (k, d) = supply.shape, np.nonzero(supply)
    column = np.arange(1, len(k) + 1)
    matrix = sparse.coo_matrix(
        (
            np.concatenate((need, -supply[k, d], np.ones(len(k)))),
            (
                np.concatenate((np.arange(rows), k, rows + d)),
                np.concatenate((np.zeros(rows, np.int64), column, column)),
            ),
        ),
        shape=(rows + p, len(k) + 1),
    )
    limits = np.concatenate((np.zeros(rows), np.ones(p)))
    gain = np.concatenate(([-1.0], np.zeros(len(k))))
    found = linprog(gain, A_ub=matrix.tocsr(), b_ub=limits, method="highs")
    if not found.success:
        raise InvalidInput(
            f"the capacity of the cluster could not be found ({found.message}); "
            "give a rate instead of a load"
        )
    return float(found.x[0])
