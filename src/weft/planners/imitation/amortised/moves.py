"""Annealing with moves along the critical path, compiled.

The search keeps one critical path of the current schedule: from the last task back to one that
starts at time 0, each waiting either for a task on its device or for data. Some moves take a task
from the path and remove its wait: the task goes to the device of the sender or the sender to its
device; or the task goes before the task it waits for, or that one behind it (critical blocks:
Grabowski, Nowicki and Zdrzalka 1986). Others put a task and a neighbour in the graph on one device
together, which single moves rarely achieve if transfers are long. The rest is as in `annealing`.
The shares of moves were chosen by racing on training problems.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import device_tails
from weft.planners.objective import Goal, Objective
from weft.planners.search.annealing import (
    BEST,
    CURRENT,
    DEVICE_MOVES,
    Chain,
    another_place,
    below,
    keep,
    make_chain,
    shift,
    uniform,
)
from weft.planners.search.decoder import ANY, Decoder, decode_from, make_decoder
from weft.planners.search.team import Team, Worker
from weft.planners.search.warm_start import WarmStart
from weft.rng import generator
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit

CRITICAL, DIRECT = 0.3, 0.8
"""Share of moves that take a task from the critical path, and the share of these that remove its
wait; the others are as for any task."""

PAIR = 0.3
"""Share of the other device moves that move a task and a neighbour together."""

ANY_SHARE, NEIGHBOUR_SHARE = 0.7, 0.15
"""Shares of device moves to the earliest finish and to a neighbour's device; the rest: to any."""

NO_MOVE = -2


class Path(NamedTuple):
    """A critical path, last task first."""

    task: IntArray  # (n,)
    wait: IntArray  # (n,) the task that each one waits for, or NONE
    size: IntArray  # (1,)


def make_path(n: int) -> Path:
    """Make an empty path with memory for n tasks."""
    return Path(np.zeros(n, np.int64), np.full(n, NONE), np.zeros(1, np.int64))


@njit
def trace_path(a: ProblemArrays, w: Decoder, path: Path) -> None:
    """Find a critical path of the schedule in the decoder."""
    t = int(np.argmax(w.finish))
    size = 0
    while t != NONE:
        wait = NONE
        if w.start[t] > 0.0:
            k = w.before[t]
            if k != NONE and w.finish[k] == w.start[t]:
                wait = k
            else:
                for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
                    u = a.pred[e]
                    here, there = w.device[u], w.device[t]
                    if (
                        w.finish[u]
                        + (a.latency[here, there] + a.pred_data[e] * a.per_byte[here, there])
                        == w.start[t]
                    ):
                        wait = u
                        break
        path.task[size], path.wait[size] = t, wait
        size += 1
        # Tasks of no duration may wait for one another at the same time.
        t = wait if size < len(path.task) else NONE
    path.size[0] = size


@njit
def neighbour(a: ProblemArrays, t: int, random: np.ndarray) -> int:
    """Draw a parent or child of a task; NONE if it has neither."""
    parents, children = a.pred_ptr[t + 1] - a.pred_ptr[t], a.succ_ptr[t + 1] - a.succ_ptr[t]
    if parents + children == 0:
        return NONE
    k = below(random, parents + children)
    return int(a.pred[a.pred_ptr[t] + k] if k < parents else a.succ[a.succ_ptr[t] + k - parents])


@njit
def before_wait(a: ProblemArrays, place: IntArray, t: int, wait: int) -> int:
    """Return the place of the task waited for, or the first place behind the parents."""
    there = place[wait]
    for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
        there = max(there, place[a.pred[e]] + 1)
    return int(there)


@njit
def behind_waiting(a: ProblemArrays, place: IntArray, wait: int, t: int) -> int:
    """Return, for the task waited for, the place of the waiting one or the last before children."""
    there = place[t]
    for e in range(a.succ_ptr[wait], a.succ_ptr[wait + 1]):
        there = min(there, place[a.succ[e]] - 1)
    return int(there)


@njit
def another_choice(
    a: ProblemArrays, device: IntArray, t: int, random: np.ndarray, anywhere: float
) -> int:
    """Draw a choice for a task: `ANY` with probability `anywhere`; the device may be unable."""
    kind = uniform(random)
    if kind < anywhere:
        return ANY
    if kind < anywhere + NEIGHBOUR_SHARE:
        other = neighbour(a, t, random)
        return ANY if other == NONE else int(device[other])
    return below(random, a.pace.shape[1])


@njit
def anneal_guided(
    a: ProblemArrays,
    goal: Goal,
    tail: FloatArray,
    c: Chain,
    w: Decoder,
    path: Path,
    moves: int,
    temperature: float,
    target: float,
) -> None:
    """Try a number of moves at a temperature; stop when the best value meets the target."""
    n = len(c.order)
    for _ in range(moves):
        now = c.value[CURRENT]
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t, other, new, there = below(c.random, n), NONE, NO_MOVE, NONE
        if uniform(c.random) < CRITICAL:
            i = below(c.random, path.size[0])
            t, wait = path.task[i], path.wait[i]
            if wait != NONE and uniform(c.random) < DIRECT:
                waiting_one = uniform(c.random) < 0.5
                if w.device[wait] != w.device[t]:
                    new = w.device[wait] if waiting_one else w.device[t]
                    t = t if waiting_one else wait
                elif c.place[wait] < c.place[t]:
                    there = (
                        before_wait(a, c.place, t, wait)
                        if waiting_one
                        else behind_waiting(a, c.place, wait, t)
                    )
                    t = t if waiting_one else wait
        if new == NO_MOVE and there == NONE:
            if uniform(c.random) < DEVICE_MOVES:
                if uniform(c.random) < PAIR:
                    other = neighbour(a, t, c.random)
                    new = (
                        ANY
                        if uniform(c.random) < ANY_SHARE
                        else another_choice(a, w.device, t, c.random, 0.0)
                    )
                else:
                    new = another_choice(a, w.device, t, c.random, ANY_SHARE)
            else:
                there = another_place(a, c.order, c.place, t, c.random)
        here = c.place[t]
        if there != NONE:
            if there == here:
                continue
            shift(c.order, c.place, here, there)
            first, last = min(here, there), max(here, there)
            value = decode_from(a, goal, c.order, c.choice, tail, limit, w, first, last, now)
            if value == np.inf:
                shift(c.order, c.place, there, here)
                continue
        else:
            other = t if other == NONE else other
            if new >= 0 and (
                a.pace[a.row[t], new] == np.inf or a.pace[a.row[other], new] == np.inf
            ):
                continue
            old, others = c.choice[t], c.choice[other]
            if new == old and new == others:
                continue
            c.choice[t] = c.choice[other] = new
            if new == w.device[t] and new == w.device[other]:  # both run there already
                continue
            first, last = min(here, c.place[other]), max(here, c.place[other])
            value = decode_from(a, goal, c.order, c.choice, tail, limit, w, first, last, now)
            if value == np.inf:
                c.choice[other] = others
                c.choice[t] = old
                continue
        c.value[CURRENT] = value
        if value != now:  # then all tasks were placed, and the chains are complete
            trace_path(a, w, path)
        if value < c.value[BEST]:
            keep(c)
            if value <= target:
                return


@dataclass
class GuidedWorker(Worker):
    """A worker whose moves follow the critical path."""

    path: Path = field(kw_only=True)

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run at this state; the best state so far stays."""
        super().begin(order, choice)
        trace_path(self.problem.arrays, self.decoder, self.path)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try a number of moves at the temperature for a share of the run."""
        a, c, w, temperature = (
            self.problem.arrays,
            self.chain,
            self.decoder,
            self.temperature(share),
        )
        anneal_guided(a, self.goal, self.tail, c, w, self.path, count, temperature, target)


def guided_team(problem: Problem, start: WarmStart, *, chains: int, seed: int) -> Team:
    """Make one worker per chain, all at the warm start."""
    tail, goal = device_tails(problem), Objective.of("makespan").goal(problem)
    workers = [
        GuidedWorker(
            problem,
            tail,
            make_chain(problem.n, s),
            goal,
            make_decoder(problem.n, problem.p),
            start.value,
            path=make_path(problem.n),
        )
        for s in generator(seed, "amortised", "chains").integers(1, 2**63, chains).tolist()
    ]
    return Team.starting(workers, start.order, start.device)
