"""Lessons from HEFT: the states of a growing plan, as the network sees them, and where HEFT would put the next task.

Some tasks are put elsewhere on purpose, so that the network also learns what HEFT does after a mistake: a plan it makes itself will hold some
(Ross, Gordon and Bagnell 2011 ask the teacher along the learner's own way; chance ways serve here, and need no network).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.formats.safetensors_file import Numbers
from weft.learn.deepsched_data import problem_stream
from weft.model import Problem, ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.deepsched_features import PAIR_FEATURES, pair_features, task_features
from weft.planners.insertion import arrivals, durations_of, earliest_finish, empty_rows, insert_in_order, place
from weft.planners.pins import nowhere
from weft.planners.ranks import rank_order
from weft.planners.timeline import earliest_start, free_from, idle_timeline
from weft.rng import stream
from weft.sim.jit import njit
from weft.sim.ranks import upward_rank

TIE = 1e-9
"""Finishes that are this close, as a share, are equally good."""


class Lesson(NamedTuple):
    """Some steps of one plan. Float32 but for the masks; p may be padded, and then nothing can run on what was added."""

    tasks: Numbers  # (k, features) of the task that is placed
    targets: Numbers  # (k, 3) its priority, and its start and finish in HEFT's plan over the horizon
    pairs: Numbers  # (k, pair features, p)
    can: BoolArray  # (k, p) devices that can run it
    good: BoolArray  # (k, p) those with the earliest finish


def lesson_of(problem: Problem, *, steps: int, stray: float = 0.0, seed: int = 0) -> Lesson:
    """Follow HEFT through a problem and keep some of its steps; a share `stray` of the tasks goes to any device.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> lesson_of(problem, steps=2).good.tolist()  # 1 s on the second; then 1 + 4 there, 1 + 2 + 3 on the first
    [[False, True], [False, True]]
    """
    rng = stream(seed, "deepsched", "lesson")
    features, a, rank = task_features(problem), problem.arrays, upward_rank(problem)
    order = rank_order(problem, rank)
    heft = insert_in_order(a, order, nowhere(problem))
    take = np.zeros(problem.n, np.bool_)
    take[rng.choice(problem.n, size=min(steps, problem.n), replace=False)] = True
    elsewhere = np.where(rng.random(problem.n) < stray, rng.integers(0, problem.p, problem.n), -1)
    pairs, can, good = _follow(a, order, features.scale, take, elsewhere)
    task = order[take]
    targets = np.stack([rank[task] / max(float(rank.max()), 1e-300), heft.start[task] / features.horizon, heft.finish[task] / features.horizon])
    return Lesson(features.rows[task], targets.T.astype(np.float32), pairs, can, good)


@njit
def _follow(a: ProblemArrays, order: IntArray, scale: FloatArray, take: BoolArray, elsewhere: IntArray) -> tuple[Any, Any, Any]:
    n, p, steps = len(a.work), a.pace.shape[1], int(take.sum())
    rows, timeline = empty_rows(n), idle_timeline(p, n)
    ready, seconds, free, finish = np.empty(p), np.empty(p), np.zeros(p), np.empty(p)
    pairs = np.zeros((steps, len(PAIR_FEATURES), p), np.float32)
    can, good = np.zeros((steps, p), np.bool_), np.zeros((steps, p), np.bool_)
    k = 0
    for j, task in enumerate(order):
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        if take[j]:
            pair_features(ready, free, timeline.longest, seconds, scale[task], pairs[k])
            for d in range(p):
                can[k, d] = seconds[d] < np.inf
                finish[d] = earliest_start(timeline, d, ready[d], seconds[d], np.inf) + seconds[d] if can[k, d] else np.inf
            best = finish.min()
            for d in range(p):
                good[k, d] = finish[d] <= best * (1.0 + TIE)
            k += 1
        device, start = earliest_finish(timeline, ready, seconds)
        other = elsewhere[j]
        if other >= 0 and seconds[other] < np.inf:
            device, start = other, earliest_start(timeline, other, ready[other], seconds[other], np.inf)
        place(timeline, rows, task, device, start, seconds[device])
        free[device] = free_from(timeline, device)
    return pairs, can, good


def stacked(lessons: Sequence[Lesson]) -> Lesson:
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

    return Lesson(
        np.concatenate([lesson.tasks for lesson in lessons]),
        np.concatenate([lesson.targets for lesson in lessons]),
        np.concatenate([wide(lesson.pairs) for lesson in lessons]),
        np.concatenate([wide(lesson.can) for lesson in lessons]),
        np.concatenate([wide(lesson.good) for lesson in lessons]),
    )


def lesson_stream(seed: int, *, problems: int = 12, rows: int = 40_000, largest: int = 2000) -> Iterator[Lesson]:
    """Batches without end, each from problems with about as many devices, of about `rows` pairs of task and device.

    Every 50th batch is one of the largest sizes of the document, up to 84,654 tasks on 188 devices.
    """
    batch = 0
    while True:
        rng = stream(seed, "deepsched", "batch", batch)
        if batch % 50 == 49:
            most, count, devices = 84_654, 1, (150, 188)
        else:
            low = int(np.exp(rng.uniform(np.log(2), np.log(160))))
            most, count, devices = largest, problems, (low, min(188, low + low // 4))
        steps = max(8, rows // (count * devices[1]))
        drawn = problem_stream(int(rng.integers(2**31)), first=batch * problems, largest=most, devices=devices)
        lessons = []
        for k, problem in zip(range(count), drawn, strict=False):
            lessons.append(lesson_of(problem, steps=steps, stray=(0.0, 0.05, 0.3)[k % 3], seed=int(rng.integers(2**31))))
        yield stacked(lessons)
        batch += 1
