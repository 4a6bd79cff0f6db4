"""Decoder and annealing for schedules with copies of tasks, compiled.

As in `decoder`, tasks are placed one by one. The cost of a device is the finish of the task there,
with or without a copy of the parent whose data come last (DEFT, see `duplication`). On the chosen
device more parents are copied, as long as that lets the task start earlier. Runs that no other run
reads are dropped at the end.
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
    set_state,
    shift,
    uniform,
)
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit

ROOM = 4
"""Runs per task, on average, for which there is memory."""

MORE_COPIES = 3
"""Most further copies of parents on the chosen device."""


class CopyDecoder(NamedTuple):
    """All memory of the decoder: runs in order of placement.

    The runs of a task are a chain from `newest`, those of a device a chain from `latest`.
    """

    task: IntArray  # (runs,)
    device: IntArray
    start: FloatArray
    finish: FloatArray
    own: BoolArray  # (runs,) the original, not a copy for a child
    older: IntArray
    before: IntArray
    newest: IntArray  # (n,)
    latest: IntArray  # (p,)
    size: IntArray  # (1,)
    ready: FloatArray  # (p,) arrival of all inputs of a task on each device
    others: FloatArray  # (p,) arrival of all inputs but the last
    last: IntArray  # (p,) parent of the last input
    soon: FloatArray  # (p,)
    place: IntArray  # (n,) device of each task's original


def make_copy_decoder(n: int, p: int) -> CopyDecoder:
    """Make a decoder for a problem of n tasks and p devices."""
    runs = ROOM * n
    sizes = {"newest": n, "place": n, "latest": p, "last": p, "ready": p, "others": p, "soon": p}
    types = dict.fromkeys(("start", "finish", "ready", "others", "soon"), np.float64)
    arrays = {
        name: np.zeros(sizes.get(name, runs), types.get(name, np.int64))
        for name in CopyDecoder._fields
    }
    return CopyDecoder(**arrays | {"own": np.zeros(runs, bool), "size": np.zeros(1, np.int64)})


@njit
def _gather(a: ProblemArrays, w: CopyDecoder, t: int, low: int, high: int) -> None:
    """Fill `ready`, `others` and `last` of devices low to high - 1."""
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
def _copy_start(a: ProblemArrays, w: CopyDecoder, u: int, d: int) -> tuple[float, int]:
    """Return start and next run of one more run; inf if it cannot run or already runs there."""
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
def _enter(
    w: CopyDecoder, t: int, d: int, start: float, seconds: float, after: int, own: bool
) -> None:
    row = w.size[0]
    w.size[0] = row + 1
    w.task[row], w.device[row], w.own[row] = t, d, own
    w.start[row], w.finish[row] = start, start + seconds
    w.older[row], w.newest[t] = w.newest[t], row
    link(row, d, after, w.latest, w.before)


@njit
def _copy_more(a: ProblemArrays, w: CopyDecoder, t: int, d: int, seconds: float) -> float:
    """Copy parents while that lets the task start earlier; return the arrival of its inputs."""
    for _ in range(MORE_COPIES + 1):
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
    a: ProblemArrays,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    limit: float,
    w: CopyDecoder,
) -> float:
    """Place all tasks; return the makespan, or inf if it is likely to exceed the limit.

    Likely only, since a later copy could still help.
    """
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
    a: ProblemArrays, tail: FloatArray, c: Chain, w: CopyDecoder, order: IntArray, choice: IntArray
) -> float:
    """Start a chain at an order and choices; its best state stays if it is better."""
    set_state(c, order, choice)
    c.value[CURRENT] = decode_copies(a, c.order, c.choice, tail, np.inf, w)
    if c.value[CURRENT] < c.value[BEST]:
        keep(c)
    return float(c.value[CURRENT])


@njit
def anneal_copies(
    a: ProblemArrays,
    tail: FloatArray,
    c: Chain,
    w: CopyDecoder,
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


def as_schedule(a: ProblemArrays, w: CopyDecoder) -> Schedule:
    """Make a schedule of the needed runs; the earliest run of a task is the original."""
    size = int(w.size[0])
    used = np.flatnonzero(_read_runs(a, w))
    used = used[np.lexsort((w.start[:size][used], w.task[:size][used]))]
    task = w.task[used]
    copy = np.concatenate(([False], task[1:] == task[:-1])) if len(task) else np.zeros(0, bool)
    return Schedule.of(
        task=task, device=w.device[used], start=w.start[used], finish=w.finish[used], copy=copy
    )


@njit
def _read_runs(a: ProblemArrays, w: CopyDecoder) -> BoolArray:
    """Mark the needed runs: the originals of exits, and the sources of needed runs of children."""
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
def _source(a: ProblemArrays, w: CopyDecoder, e: int, d: int) -> int:
    """Find the run of a parent whose data reach a device first."""
    soon, source = np.inf, NONE
    run = w.newest[a.pred[e]]
    while run != NONE:
        x = w.device[run]
        arrival = w.finish[run] + (a.latency[x, d] + a.pred_data[e] * a.per_byte[x, d])
        if arrival < soon:
            soon, source = arrival, run
        run = w.older[run]
    return source
