"""The decoder for schedules in which a task may run on several devices, and annealing over it.

As in `decoder`, tasks are placed one by one; here a device is judged by the finish of the task with or without a copy of the parent
whose data come last (DEFT, see `duplication`), and on the device that wins further parents are copied as long as that lets the task
start sooner. Runs that nobody reads are dropped at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays, Schedule
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.search.annealing import (
    ANY_SHARE,
    BEST,
    CURRENT,
    DEVICE_MOVES,
    Chain,
    another_device,
    another_place,
    below,
    keep,
    shift,
    uniform,
)
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit

ROOM = 4
"""Runs of a task there is memory for, on average."""

MORE = 3
"""Most further copies on the device that won."""


class Copier(NamedTuple):
    """All memory: runs in order of placement; those of a task are a chain from `newest`, those of a device one from `latest`."""

    task: IntArray  # (runs,)
    device: IntArray
    start: FloatArray
    finish: FloatArray
    own: BoolArray  # (runs,) placed for its own sake, not for a child's
    older: IntArray
    before: IntArray
    newest: IntArray  # (n,)
    latest: IntArray  # (p,)
    size: IntArray  # (1,)
    ready: FloatArray  # (p,) when all inputs of a task are on each device
    others: FloatArray  # (p,) when all but the last are
    last: IntArray  # (p,) whose come last
    soon: FloatArray  # (p,)
    place: IntArray  # (n,) device of each task's own run


def make_copier(n: int, p: int) -> Copier:
    """Room for a problem of n tasks and p devices."""
    rows = ROOM * n
    integers, floats = (
        (np.zeros(rows, np.int64) for _ in range(4)),
        (np.zeros(rows) for _ in range(2)),
    )
    task, device, older, before = integers
    start, finish = floats
    newest, latest, size = np.zeros(n, np.int64), np.zeros(p, np.int64), np.zeros(1, np.int64)
    own, place, last = np.zeros(rows, bool), np.zeros(n, np.int64), np.zeros(p, np.int64)
    ready, others, soon = (np.zeros(p) for _ in range(3))
    return Copier(
        task,
        device,
        start,
        finish,
        own,
        older,
        before,
        newest,
        latest,
        size,
        ready,
        others,
        last,
        soon,
        place,
    )


@njit
def _gather(a: ProblemArrays, w: Copier, t: int, low: int, high: int) -> None:
    """Fill ready, others and last of devices low to high - 1."""
    finish, device, older, soon = w.finish, w.device, w.older, w.soon
    for d in range(low, high):
        w.ready[d] = w.others[d] = 0.0
        w.last[d] = NONE
    for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
        u, data = a.pred[e], a.pred_data[e]
        for d in range(low, high):
            soon[d] = np.inf
        run = w.newest[u]
        while run != NONE:
            wait, slow, done = a.latency[device[run]], a.per_byte[device[run]], finish[run]
            for d in range(low, high):
                soon[d] = min(soon[d], done + (wait[d] + data * slow[d]))
            run = older[run]
        for d in range(low, high):
            if soon[d] > w.ready[d]:
                w.others[d], w.ready[d], w.last[d] = w.ready[d], soon[d], u
            elif soon[d] > w.others[d]:
                w.others[d] = soon[d]


@njit
def _copy_start(a: ProblemArrays, w: Copier, u: int, d: int) -> tuple[float, int]:
    """Start and follower of a further run of a task on a device; inf when it cannot run there or runs there already."""
    if (
        u == NONE
        or a.pace[a.row[u], d] == np.inf
        or w.size[0] + 2 * len(w.newest) // ROOM >= len(w.task)
    ):
        return np.inf, NONE
    run = w.newest[u]
    while run != NONE:
        if w.device[run] == d:
            return np.inf, NONE
        run = w.older[run]
    ready = 0.0
    for e in range(a.pred_ptr[u], a.pred_ptr[u + 1]):
        soon, run = np.inf, w.newest[a.pred[e]]
        while run != NONE:
            x = w.device[run]
            soon = min(soon, w.finish[run] + (a.latency[x, d] + a.pred_data[e] * a.per_byte[x, d]))
            run = w.older[run]
        ready = max(ready, soon)
    return gap_in_chain(
        w.latest[d], w.before, w.start, w.finish, ready, a.work[u] * a.pace[a.row[u], d]
    )


@njit
def _enter(w: Copier, t: int, d: int, start: float, seconds: float, after: int, own: bool) -> None:
    row = w.size[0]
    w.size[0] = row + 1
    w.task[row], w.device[row], w.start[row], w.finish[row], w.own[row] = (
        t,
        d,
        start,
        start + seconds,
        own,
    )
    w.older[row], w.newest[t] = w.newest[t], row
    link(row, d, after, w.latest, w.before)


@njit
def _copy_more(a: ProblemArrays, w: Copier, t: int, d: int, seconds: float) -> float:
    """Copy parents to the device as long as the task then starts sooner; returns when its inputs are there."""
    for _ in range(MORE + 1):
        _gather(a, w, t, d, d + 1)
        u = w.last[d]
        begin, after = _copy_start(a, w, u, d)
        if begin == np.inf:
            break
        length = a.work[u] * a.pace[a.row[u], d]
        if begin + length >= w.ready[d]:
            break
        now, _ = gap_in_chain(w.latest[d], w.before, w.start, w.finish, w.ready[d], seconds)
        then, _ = gap_in_chain(
            w.latest[d], w.before, w.start, w.finish, max(w.others[d], begin + length), seconds
        )
        if then >= now:
            break
        _enter(w, u, d, begin, length, after, False)
    return float(w.ready[d])


@njit
def decode_copies(
    a: ProblemArrays, order: IntArray, choice: IntArray, tail: FloatArray, limit: float, w: Copier
) -> float:
    """Place all tasks; returns the makespan, or inf when it seems to come out above the limit (a later copy might have helped)."""
    p = a.pace.shape[1]
    w.size[0] = 0
    w.newest[:] = NONE
    w.latest[:] = NONE
    makespan = 0.0
    for t in order:
        low, high = (0, p) if choice[t] < 0 else (choice[t], choice[t] + 1)
        _gather(a, w, t, low, high)
        best, device = np.inf, low
        for d in range(low, high):
            pace = a.pace[a.row[t], d]
            if pace == np.inf or w.others[d] + a.work[t] * pace >= best:
                continue
            seconds = a.work[t] * pace
            start, _ = gap_in_chain(w.latest[d], w.before, w.start, w.finish, w.ready[d], seconds)
            if start + seconds < best:
                best, device = start + seconds, d
            if start > w.others[d] and high - low > 1:
                begin, _ = _copy_start(a, w, w.last[d], d)
                done = (
                    begin + a.work[w.last[d]] * a.pace[a.row[w.last[d]], d]
                    if begin < np.inf
                    else np.inf
                )
                if done < w.ready[d]:
                    start, _ = gap_in_chain(
                        w.latest[d], w.before, w.start, w.finish, max(w.others[d], done), seconds
                    )
                    if start + seconds < best:
                        best, device = start + seconds, d
        seconds = a.work[t] * a.pace[a.row[t], device]
        ready = _copy_more(a, w, t, device, seconds)
        start, after = gap_in_chain(w.latest[device], w.before, w.start, w.finish, ready, seconds)
        _enter(w, t, device, start, seconds, after, True)
        w.place[t] = device
        makespan = max(makespan, start + seconds)
        if start + seconds + tail[t, 0] > limit:
            return np.inf
    return makespan


@njit
def begin_copies(
    a: ProblemArrays, tail: FloatArray, c: Chain, w: Copier, order: IntArray, choice: IntArray
) -> float:
    """Start a chain at an order and choices; its best is kept if it is better."""
    c.order[:] = order
    c.choice[:] = choice
    for j in range(len(order)):
        c.place[order[j]] = j
    c.value[CURRENT] = decode_copies(a, c.order, c.choice, tail, np.inf, w)
    if c.value[CURRENT] < c.value[BEST]:
        keep(c)
    return float(c.value[CURRENT])


@njit
def anneal_copies(
    a: ProblemArrays,
    tail: FloatArray,
    c: Chain,
    w: Copier,
    moves: int,
    temperature: float,
    target: float,
) -> None:
    """Try a number of moves at a temperature; stop when the best value meets the target."""
    for _ in range(moves):
        limit = c.value[CURRENT] * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t = below(c.random, len(c.order))
        here, there, old = c.place[t], c.place[t], c.choice[t]
        if uniform(c.random) < DEVICE_MOVES:
            new = another_device(a, w.place, t, c.random, ANY_SHARE)
            if new == old or (new >= 0 and a.pace[a.row[t], new] == np.inf):
                continue
            c.choice[t] = new
        else:
            there = another_place(a, c.order, c.place, t, c.random)
            if there == here:
                continue
            shift(c.order, c.place, here, there)
        value = decode_copies(a, c.order, c.choice, tail, limit, w)
        if value <= limit:
            c.value[CURRENT] = value
            if value < c.value[BEST]:
                keep(c)
                if value <= target:
                    return
        else:
            c.choice[t] = old
            if there != here:
                shift(c.order, c.place, there, here)


def as_schedule(a: ProblemArrays, w: Copier) -> Schedule:
    """The runs that somebody reads; the earliest run of a task is the original."""
    size = int(w.size[0])
    used = np.flatnonzero(_read_runs(a, w))
    used = used[np.lexsort((w.start[:size][used], w.task[:size][used]))]
    task = w.task[used]
    copy = np.concatenate(([False], task[1:] == task[:-1])) if len(task) else np.zeros(0, bool)
    return Schedule.of(
        task=task, device=w.device[used], start=w.start[used], finish=w.finish[used], copy=copy
    )


@njit
def _read_runs(a: ProblemArrays, w: Copier) -> BoolArray:
    """Which runs are needed: those of tasks without children, and those whose data reach a needed run of a child first."""
    used = np.zeros(w.size[0], np.bool_)
    for i in range(len(a.order) - 1, -1, -1):
        v = a.order[i]
        if a.succ_ptr[v] == a.succ_ptr[v + 1]:
            run = w.newest[v]
            while run != NONE:
                used[run] = w.own[run]
                run = w.older[run]
        run = w.newest[v]
        while run != NONE:
            if used[run]:
                for e in range(a.pred_ptr[v], a.pred_ptr[v + 1]):
                    used[_source(a, w, e, w.device[run])] = True
            run = w.older[run]
    return used


@njit
def _source(a: ProblemArrays, w: Copier, e: int, d: int) -> int:
    """The run of a parent whose data reach a device first."""
    soon, source = np.inf, NONE
    run = w.newest[a.pred[e]]
    while run != NONE:
        x = w.device[run]
        arrival = w.finish[run] + (a.latency[x, d] + a.pred_data[e] * a.per_byte[x, d])
        if arrival < soon:
            soon, source = arrival, run
        run = w.older[run]
    return source
