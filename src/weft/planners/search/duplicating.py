"""Decoder and annealing for schedules with copies of tasks, compiled.

As in `decoder`, tasks are placed one by one. The cost of a device is the finish of the task there,
with or without a copy of the parent whose data come last (DEFT, see `duplication`). On the chosen
device more parents are copied, as long as that lets the task start earlier. Runs whose data no
other run reads are dropped at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays, Schedule
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.lists.duplication import (
    CopyInputs,
    CopyTable,
    add_run,
    gather_inputs,
    inputs_on,
    no_executions,
    runs_on,
)
from weft.planners.search.annealing import Chain, keep, set_state
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit, njit_inline
from weft.sim.kernel.order_moves import (
    ANY_SHARE,
    DEVICE_MOVES,
    another_device,
    another_place,
    below,
    shift,
    uniform,
)

ROOM = 4
"""Runs per task, on average, for which there is memory."""

MORE_COPIES = 3
"""Most further copies of parents on the chosen device."""


class CopyDecoder(NamedTuple):
    """All memory of the decoder.

    The runs of a device are a chain from `latest`, then `before`.
    """

    runs: CopyTable
    inputs: CopyInputs
    own: BoolArray  # (runs,) the original, not a copy for a child
    before: IntArray  # (runs,)
    latest: IntArray  # (p,)
    place: IntArray  # (n,) device of each task's original


def make_copy_decoder(n: int, p: int) -> CopyDecoder:
    """Make a decoder for a problem of n tasks and p devices."""
    rows = ROOM * n
    return CopyDecoder(
        no_executions(n, rows),
        CopyInputs(np.zeros(p), np.zeros(p, np.int64), np.zeros(p), np.zeros(p)),
        np.zeros(rows, bool),
        np.zeros(rows, np.int64),
        np.zeros(p, np.int64),
        np.zeros(n, np.int64),
    )


@njit_inline
def _gap(w: CopyDecoder, d: int, ready: float, seconds: float) -> tuple[float, int]:
    return gap_in_chain(w.latest[d], w.before, w.runs.start, w.runs.finish, ready, seconds)


@njit
def _copy_start(a: ProblemArrays, w: CopyDecoder, u: int, d: int) -> tuple[float, int]:
    """Return start and next run of one more run.

    The start is inf if the task cannot run or already runs there.
    """
    full = w.runs.size[0] + 2 * len(w.runs.newest) // ROOM >= len(w.runs.task)
    if u == NONE or a.per_work[a.row[u], d] == np.inf or full or runs_on(w.runs, u, d):
        return np.inf, NONE
    ready = inputs_on(a, w.runs, u, d)[0]
    return _gap(w, d, ready, a.work[u] * a.per_work[a.row[u], d])


@njit
def _enter(
    w: CopyDecoder, t: int, d: int, start: float, seconds: float, after: int, own: bool
) -> None:
    row = add_run(w.runs, t, d, start, seconds)
    w.own[row] = own
    link(row, d, after, w.latest, w.before)


@njit
def _copy_more(a: ProblemArrays, w: CopyDecoder, t: int, d: int, seconds: float) -> float:
    """Copy parents as long as the task starts earlier; return when its inputs arrive."""
    inputs = w.inputs
    for _ in range(MORE_COPIES + 1):
        gather_inputs(a, w.runs, t, inputs, d, d + 1)
        u = inputs.last[d]
        begin, after = _copy_start(a, w, u, d)
        if begin == np.inf:
            break
        length = a.work[u] * a.per_work[a.row[u], d]
        if begin + length >= inputs.ready[d]:
            break
        now, _ = _gap(w, d, inputs.ready[d], seconds)
        then, _ = _gap(w, d, max(inputs.others[d], begin + length), seconds)
        if then >= now:
            break
        _enter(w, u, d, begin, length, after, False)
    return float(inputs.ready[d])


@njit
def decode_copies(
    a: ProblemArrays,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    limit: float,
    w: CopyDecoder,
) -> float:
    """Place all tasks; return the makespan, or inf if it likely exceeds the limit.

    Likely only, since a later copy could still help.
    """
    p, inputs = a.per_work.shape[1], w.inputs
    w.runs.size[0] = 0
    w.runs.newest[:] = NONE
    w.latest[:] = NONE
    makespan = 0.0
    for t in order:
        low, high = (0, p) if choice[t] < 0 else (choice[t], choice[t] + 1)
        gather_inputs(a, w.runs, t, inputs, low, high)
        best, device = np.inf, low
        for d in range(low, high):
            per_work = a.per_work[a.row[t], d]
            if per_work == np.inf or inputs.others[d] + a.work[t] * per_work >= best:
                continue
            seconds = a.work[t] * per_work
            start, _ = _gap(w, d, inputs.ready[d], seconds)
            if start + seconds < best:
                best, device = start + seconds, d
            if start > inputs.others[d] and high - low > 1:
                u = inputs.last[d]
                begin, _ = _copy_start(a, w, u, d)
                done = begin + a.work[u] * a.per_work[a.row[u], d] if begin < np.inf else np.inf
                if done < inputs.ready[d]:
                    start, _ = _gap(w, d, max(inputs.others[d], done), seconds)
                    if start + seconds < best:
                        best, device = start + seconds, d
        seconds = a.work[t] * a.per_work[a.row[t], device]
        ready = _copy_more(a, w, t, device, seconds)
        start, after = _gap(w, device, ready, seconds)
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
    c.value[0].current = decode_copies(a, c.order, c.choice, tail, np.inf, w)
    if c.value[0].current < c.value[0].best:
        keep(c)
    return float(c.value[0].current)


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
    """Try moves at a temperature; stop when the best value meets the target."""
    for _ in range(moves):
        limit = c.value[0].current * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t = below(c.random, len(c.order))
        here, there, old = c.place[t], c.place[t], c.choice[t]
        if uniform(c.random) < DEVICE_MOVES:
            new = another_device(a, w.place, a.per_work.shape[1], t, c.random, ANY_SHARE)
            if new == old or (new >= 0 and a.per_work[a.row[t], new] == np.inf):
                continue
            c.choice[t] = new
        else:
            there = another_place(a, c.order, c.place, t, c.random)
            if there == here:
                continue
            shift(c.order, c.place, here, there)
        value = decode_copies(a, c.order, c.choice, tail, limit, w)
        if value <= limit:
            c.value[0].current = value
            if value < c.value[0].best:
                keep(c)
                if value <= target:
                    return
        else:
            c.choice[t] = old
            if there != here:
                shift(c.order, c.place, there, here)


def as_schedule(a: ProblemArrays, w: CopyDecoder) -> Schedule:
    """Make a schedule of the needed runs; the earliest run of a task is the original."""
    runs = w.runs
    used = np.flatnonzero(_read_runs(a, w))
    used = used[np.lexsort((runs.start[used], runs.task[used]))]
    task = runs.task[used]
    copy = np.concatenate(([False], task[1:] == task[:-1])) if len(task) else np.zeros(0, bool)
    return Schedule.of(
        task=task,
        device=runs.device[used],
        start=runs.start[used],
        finish=runs.finish[used],
        copy=copy,
    )


@njit
def _read_runs(a: ProblemArrays, w: CopyDecoder) -> BoolArray:
    """Mark the needed runs.

    They are the originals of exits, and the sources of needed runs of children.
    """
    used = np.zeros(w.runs.size[0], np.bool_)
    for i in range(len(a.order) - 1, -1, -1):
        v = a.order[i]
        if a.succ_ptr[v] == a.succ_ptr[v + 1]:
            run = w.runs.newest[v]
            while run != NONE:
                used[run] = w.own[run]
                run = w.runs.older[run]
        run = w.runs.newest[v]
        while run != NONE:
            if used[run]:
                for e in range(a.pred_ptr[v], a.pred_ptr[v + 1]):
                    used[_source(a, w, e, w.runs.device[run])] = True
            run = w.runs.older[run]
    return used


@njit
def _source(a: ProblemArrays, w: CopyDecoder, e: int, d: int) -> int:
    """Find the run of a parent whose data reach a device first."""
    soon, source = np.inf, NONE
    run = w.runs.newest[a.pred[e]]
    while run != NONE:
        x = w.runs.device[run]
        arrival = w.runs.finish[run] + (a.latency[x, d] + a.pred_data[e] * a.per_byte[x, d])
        if arrival < soon:
            soon, source = arrival, run
        run = w.runs.older[run]
    return source
