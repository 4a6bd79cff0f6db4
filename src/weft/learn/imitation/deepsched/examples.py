"""Lessons from HEFT: the states of a growing plan, as the network sees them, and where HEFT would put the next task.

Some tasks are put elsewhere on purpose, so that the network also learns what HEFT does after a mistake: a plan of its own will hold
some (Ross, Gordon and Bagnell 2011 ask the teacher along the learner's own way; chance ways serve here, and need no network).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from weft.formats.model_file import Numbers
from weft.learn.imitation.deepsched.data import LARGEST, MOST_DEVICES, problem_stream
from weft.model import Problem, ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.imitation.deepsched.features import (
    PAIR_FEATURES,
    earliest_starts,
    pair_features,
    task_features,
)
from weft.planners.lists.insertion import (
    arrivals,
    durations_of,
    earliest_finish,
    empty_rows,
    insert_in_order,
    place,
)
from weft.planners.lists.placements import no_pins
from weft.planners.lists.ranks import rank_order
from weft.rng import generator
from weft.sim.kernel.gaps import earliest_start, free_from, idle_timeline
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import upward_rank

TIE = 1e-9
"""Finishes that are this close, as a share, are equally good."""

STRAY = (0.0, 0.05, 0.3)
"""Shares of tasks that are put anywhere, problem by problem in turn."""


class RankExample(NamedTuple):
    """Some steps of one plan. Float32 but for the masks; p may be padded, and then nothing can run on what was added."""

    tasks: Numbers  # (k, features) of the task that is placed
    targets: (
        Numbers  # (k, 3) its priority, and its start and finish in HEFT's plan over the horizon
    )
    pairs: Numbers  # (k, pair features, p)
    can: BoolArray  # (k, p) devices that can run it
    good: BoolArray  # (k, p) those with the earliest finish


def lesson_of(problem: Problem, *, steps: int, stray: float = 0.0, seed: int = 0) -> RankExample:
    """Follow HEFT through a problem and keep some of its steps; a share `stray` of the tasks goes to any device.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> lesson_of(problem, steps=2).good.tolist()  # 1 s on the second; then 1 + 4 there, 1 + 2 + 3 on the first
    [[False, True], [False, True]]
    """
    rng = generator(seed, "deepsched", "lesson")
    features, a, rank = task_features(problem), problem.arrays, upward_rank(problem)
    order = rank_order(problem, rank)
    heft = insert_in_order(a, order, no_pins(problem))
    take = np.zeros(problem.n, np.bool_)
    take[rng.choice(problem.n, size=min(steps, problem.n), replace=False)] = True
    elsewhere = np.where(rng.random(problem.n) < stray, rng.integers(0, problem.p, problem.n), -1)
    pairs, can, good = _follow(a, order, features.scale, take, elsewhere)
    task = order[take]
    times = np.stack([heft.start[task], heft.finish[task]]) / features.horizon
    targets = np.stack([rank[task] / max(float(rank.max()), 1e-300), *times], axis=1)
    return RankExample(features.rows[task], targets.astype(np.float32), pairs, can, good)


@njit
def _follow(
    a: ProblemArrays, order: IntArray, scale: FloatArray, take: BoolArray, elsewhere: IntArray
) -> tuple[Any, Any, Any]:
    n, p, steps = len(a.work), a.pace.shape[1], int(take.sum())
    rows, timeline = empty_rows(n), idle_timeline(p, n)
    ready, seconds, begin, free = np.empty(p), np.empty(p), np.empty(p), np.zeros(p)
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
            device, start = (
                other,
                earliest_start(timeline, other, ready[other], seconds[other], np.inf),
            )
        place(timeline, rows, task, device, start, seconds[device])
        free[device] = free_from(timeline, device)
    return pairs, can, good


def stacked(lessons: Sequence[RankExample]) -> RankExample:
    """One lesson of several; devices are padded to the largest number.

    Examples
    --------
    >>> one, two = (lesson_of(Problem.from_arrays(np.ones((2, p))), steps=2) for p in (1, 3))
    >>> stacked([one, two]).can.tolist()
    [[True, False, False], [True, False, False], [True, True, True], [True, True, True]]
    """
    p = max(lesson.can.shape[1] for lesson in lessons)

    def wide(array: Any) -> Any:
        room = [(0, 0)] * (array.ndim - 1) + [(0, p - array.shape[-1])]
        return np.pad(array, room)

    return RankExample(
        np.concatenate([lesson.tasks for lesson in lessons]),
        np.concatenate([lesson.targets for lesson in lessons]),
        np.concatenate([wide(lesson.pairs) for lesson in lessons]),
        np.concatenate([wide(lesson.can) for lesson in lessons]),
        np.concatenate([wide(lesson.good) for lesson in lessons]),
    )


def batch_problems(
    seed: int, batch: int, *, problems: int = 12, largest: int = 2000
) -> Iterator[Problem]:
    """Problems of one batch of `lesson_stream`: about as many devices each. Every 50th batch is one problem of up to 84,654 tasks."""
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


def lesson_stream(
    seed: int, *, problems: int = 12, rows: int = 40_000, largest: int = 2000
) -> Iterator[RankExample]:
    """Batches without end, each of about `rows` pairs of task and device from new problems."""
    for batch in count():
        drawn = list(batch_problems(seed, batch, problems=problems, largest=largest))
        steps = max(8, rows // sum(problem.p for problem in drawn))
        lessons = [
            lesson_of(problem, steps=steps, stray=STRAY[k % len(STRAY)], seed=batch * problems + k)
            for k, problem in enumerate(drawn)
        ]
        yield stacked(lessons)
