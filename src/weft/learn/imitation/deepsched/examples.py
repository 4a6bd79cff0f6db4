"""Training examples: states of a partial plan, and HEFT's next device.

Some tasks are placed at random, so that the network also learns what HEFT does after a mistake.
Ross, Gordon and Bagnell (2011, DAgger, section 3) query the teacher in states that the learner
visits; random deviations serve the same purpose here, without a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from weft.learn.imitation.deepsched.data import LARGEST, MOST_DEVICES, problem_stream
from weft.model import Problem, ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.planners.imitation.deepsched.features import (
    PAIR_FEATURES,
    earliest_starts,
    pair_features,
    task_features,
)
from weft.planners.lists.heft import earliest_finish, heft
from weft.planners.lists.insertion import arrivals, durations_of, empty_plan, place
from weft.planners.lists.ranks import rank_order
from weft.rng import generator
from weft.sim.kernel.gaps import earliest_start, free_from
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import upward_rank

TIE = 1e-9
"""Relative difference up to which finish times count as equal."""

STRAY = (0.0, 0.05, 0.3)
"""Shares of randomly placed tasks, for the problems of a batch in turn."""


class RankExample(NamedTuple):
    """Some steps of a plan.

    Arrays are float32 except for the masks. Padding devices can run nothing.
    """

    tasks: Numbers  # (k, features) of the task that is placed
    targets: Numbers  # (k, 3) its priority; start and finish in HEFT's plan over the horizon
    pairs: Numbers  # (k, pair features, p)
    can: BoolArray  # (k, p) devices that can run it
    good: BoolArray  # (k, p) those with the earliest finish


def example_of(problem: Problem, *, steps: int, stray: float = 0.0, seed: int = 0) -> RankExample:
    """Follow HEFT through a problem and keep some of its steps.

    A share `stray` of the tasks is placed on random devices.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> # 1 s on the second device; then 1 + 4 there, 1 + 2 + 3 on the first
    >>> example_of(problem, steps=2).good.tolist()
    [[False, True], [False, True]]
    """
    rng = generator(seed, "deepsched", "lesson")
    features, a, rank = task_features(problem), problem.arrays, upward_rank(problem)
    order = rank_order(problem, rank)
    plan = heft(problem)
    take = np.zeros(problem.n, np.bool_)
    take[rng.choice(problem.n, size=min(steps, problem.n), replace=False)] = True
    elsewhere = np.where(rng.random(problem.n) < stray, rng.integers(0, problem.p, problem.n), -1)
    pairs, can, good = _follow(a, order, features.scale, take, elsewhere)
    task = order[take]
    times = np.stack([plan.start[task], plan.finish[task]]) / features.horizon
    targets = np.stack([rank[task] / max(float(rank.max()), 1e-300), *times], axis=1)
    return RankExample(features.rows[task], targets.astype(np.float32), pairs, can, good)


@njit
def _follow(
    a: ProblemArrays, order: IntArray, scale: FloatArray, take: BoolArray, elsewhere: IntArray
) -> tuple[Any, Any, Any]:
    p, steps = a.per_work.shape[1], int(take.sum())
    rows, timeline, ready, seconds = empty_plan(a)
    begin, free = np.empty(p), np.zeros(p)
    pairs = np.zeros((steps, len(PAIR_FEATURES), p), np.float32)
    can, good = np.zeros((steps, p), np.bool_), np.zeros((steps, p), np.bool_)
    k = 0
    for j, task in enumerate(order):
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        if take[j]:
            earliest_starts(timeline, ready, seconds, begin)
            pair_features(ready, begin, free, seconds, scale[task], pairs[k])
            best = (begin + seconds).min()
            for d in range(p):
                can[k, d] = seconds[d] < np.inf
                good[k, d] = can[k, d] and begin[d] + seconds[d] <= best * (1.0 + TIE)
            k += 1
        device, start = earliest_finish(timeline, ready, seconds)
        other = elsewhere[j]
        if other >= 0 and seconds[other] < np.inf:
            device = other
            start = earliest_start(timeline, other, ready[other], seconds[other], np.inf)
        place(timeline, rows, task, device, start, seconds[device])
        free[device] = free_from(timeline, device)
    return pairs, can, good


def stacked(examples: Sequence[RankExample]) -> RankExample:
    """Join examples; devices are padded to the largest number.

    Examples
    --------
    >>> one, two = (example_of(Problem.from_arrays(np.ones((2, p))), steps=2) for p in (1, 3))
    >>> stacked([one, two]).can.tolist()
    [[True, False, False], [True, False, False], [True, True, True], [True, True, True]]
    """
    p = max(example.can.shape[1] for example in examples)

    def wide(array: Any) -> Any:
        return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, p - array.shape[-1])])

    tasks, targets, *by_device = zip(*examples, strict=True)
    joined = (np.concatenate([wide(array) for array in column]) for column in by_device)
    return RankExample(np.concatenate(tasks), np.concatenate(targets), *joined)


def batch_problems(
    seed: int, batch: int, *, problems: int = 12, largest: int = 2000
) -> Iterator[Problem]:
    """Draw the problems of a batch, with similar numbers of devices.

    Every 50th batch is one problem of up to 84,654 tasks.
    """
    rng = generator(seed, "deepsched", "batch", batch)
    if batch % 50 == 49:
        number, most, devices = 1, LARGEST, (150, MOST_DEVICES)
    else:
        low = int(np.exp(rng.uniform(np.log(2), np.log(160))))
        number, most, devices = problems, largest, (low, min(MOST_DEVICES, low + low // 4))
    drawn = problem_stream(
        int(rng.integers(2**31)), first=batch * problems, largest=most, devices=devices
    )
    yield from islice(drawn, number)


def example_batches(
    seed: int, *, problems: int = 12, rows: int = 40_000, largest: int = 2000
) -> Iterator[RankExample]:
    """Yield batches without end, of about `rows` task-device pairs of new problems."""
    for batch in count():
        drawn = list(batch_problems(seed, batch, problems=problems, largest=largest))
        steps = max(8, rows // sum(problem.p for problem in drawn))
        yield stacked(
            [
                example_of(
                    problem, steps=steps, stray=STRAY[k % len(STRAY)], seed=batch * problems + k
                )
                for k, problem in enumerate(drawn)
            ]
        )
