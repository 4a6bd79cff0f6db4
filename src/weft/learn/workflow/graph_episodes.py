"""Episodes for training graph networks: played in compiled code with sampled orders, and written down so that torch can rate them again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.generators.instances import Instance
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.networks import Numbers
from weft.policies.graph.deft import (
    PlacementBuffers,
    carry_out,
    dispatch,
    look,
    make_desk,
    sort_ready,
)
from weft.policies.graph.network import SEEN, GraphNetwork, GraphState, make_board, rate
from weft.sim.kernel.events import ENDED, MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.tables import DONE, JOB_HERE, Sim, make_sim

NOISE = 1 << 15
SAMPLED, TEACHER = 0, 1
"""Who orders the ready tasks: the network with noise, or the rule it learns from first."""


class Log(NamedTuple):
    """Choices of one episode: events (several tasks ready), their ready tasks (rows), and the jobs in the system at them (pairs).

    `score` is a row's rating, `place` its place in the order that was drawn; `placed` how many of an event's rows DEFT placed, the
    first ones in that order.
    `done` counts the finished tasks of a job. `of_job` and `of_instance` are to work in; `sizes` is (events, rows, pairs).
    """

    time: FloatArray
    placed: IntArray
    row_event: IntArray
    row_instance: IntArray
    row_pair: IntArray
    place: IntArray
    score: FloatArray
    seen: Numbers
    pair_event: IntArray
    pair_job: IntArray
    done: IntArray
    of_job: IntArray
    of_instance: IntArray
    sizes: IntArray


def make_log(instances: int, jobs: int, seen: int) -> Log:
    """Memory for an episode; what does not fit is played, but not written down."""
    events = 3 * instances + 64
    rows, pairs = 24 * events, min(jobs, 16) * events

    def whole(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    return Log(
        time=np.zeros(events),
        placed=whole(events),
        row_event=whole(rows),
        row_instance=whole(rows),
        row_pair=whole(rows),
        place=whole(rows),
        score=np.zeros(rows),
        seen=np.zeros((rows, seen), np.float32),
        pair_event=whole(pairs),
        pair_job=whole(pairs),
        done=whole(pairs),
        of_job=whole(jobs),
        of_instance=whole(instances),
        sizes=whole(3),
    )


@njit_noalloc
def play_recorded(
    sim: Sim,
    desk: PlacementBuffers,
    network: GraphNetwork,
    board: GraphState,
    noise: FloatArray,
    log: Log,
    who: int,
) -> int:
    """Play an episode to its end; Gumbel noise on the ratings draws an order with the probabilities of repeated softmax choices."""
    at = 0
    log.sizes[:] = 0
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready == 0 or not look(sim, desk):
            continue
        ready, fits = desk.sizes[0], False
        if ready > 1:
            rate(sim, desk, network, board)
            fits = _write_event(sim, desk, board, log)
            for k in range(ready):
                i = desk.ready[k]
                desk.key[i] = (
                    -board.score[k] - noise[at] if who == SAMPLED else _lesson(sim, board, i)
                )
                at = (at + 1) % len(noise)
            sort_ready(desk)
            for k in range(ready):
                log.of_instance[desk.ready[k]] = k
                desk.key[desk.ready[k]] = 0.0
        dispatch(sim, desk)
        if fits:
            log.placed[log.sizes[0] - 1] = desk.sizes[2]
            for r in range(log.sizes[1] - ready, log.sizes[1]):
                log.place[r] = log.of_instance[log.row_instance[r]]
        carry_out(sim, desk)


@njit_inline
def _lesson(sim: Sim, board: GraphState, i: int) -> float:
    """The job with the least work left first, in it the task with the highest upward rank."""
    j = sim.inst[i].job
    total = 0.0
    for k in range(len(sim.job) - 1):
        if sim.job[k].state == JOB_HERE:
            total += board.left[k]
    return float(
        1e6 * board.left[j] / max(total, 1e-300)
        - board.rank[task_of(sim, i)] / max(board.path[j], 1e-300)
    )


@njit_inline
def _write_event(sim: Sim, desk: PlacementBuffers, board: GraphState, log: Log) -> bool:
    event, row, pair = log.sizes[0], log.sizes[1], log.sizes[2]
    here = 0
    for j in range(len(sim.job) - 1):
        here += 1 if sim.job[j].state == JOB_HERE else 0
    if (
        event == len(log.time)
        or row + desk.sizes[0] > len(log.place)
        or pair + here > len(log.done)
    ):
        return False
    log.time[event] = sim.world[0].now
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            finished = 0
            for i in range(sim.job[j].first, sim.job[j + 1].first):
                finished += 1 if sim.inst[i].status == DONE else 0
            log.pair_event[pair], log.pair_job[pair], log.done[pair] = event, j, finished
            log.of_job[j] = pair
            pair += 1
    for k in range(desk.sizes[0]):
        i = desk.ready[k]
        log.row_event[row], log.row_instance[row], log.row_pair[row] = (
            event,
            i,
            log.of_job[sim.inst[i].job],
        )
        log.score[row] = board.score[k]
        for f in range(board.seen.shape[1]):
            log.seen[row, f] = board.seen[k, f]
        row += 1
    log.sizes[0], log.sizes[1], log.sizes[2] = event + 1, row, pair
    return True


class Episode(NamedTuple):
    """What one play of a case left: columns of the log, cut to size, and when tasks and jobs finished."""

    time: FloatArray
    placed: IntArray
    row_event: IntArray
    row_instance: IntArray
    row_pair: IntArray
    place: IntArray
    score: FloatArray
    seen: Numbers
    pair_event: IntArray
    pair_job: IntArray
    done: IntArray
    finished_at: FloatArray
    job_finish: FloatArray


def play_case(
    case: Instance,
    network: GraphNetwork,
    kind: str,
    rng: np.random.Generator,
    *,
    times: int,
    who: int = SAMPLED,
) -> tuple[list[Episode], GraphState]:
    """Play a case several times with orders drawn anew; also return the board, which knows its tasks."""
    workload = case.workload
    desk, log = make_desk(workload), make_log(workload.instances, workload.jobs, SEEN[kind])
    board = None
    episodes = []
    for _ in range(times):
        sim = make_sim(workload, case.scenario, None, eager=True, copies=True)
        board = make_board(workload, network, sim, kind) if board is None else board
        if play_recorded(sim, desk, network, board, rng.gumbel(size=NOISE), log, who) == ENDED:
            episodes.append(_cut(log, sim))
    assert board is not None
    return episodes, board


def _cut(log: Log, sim: Sim) -> Episode:
    events, rows, pairs = (int(size) for size in log.sizes)
    return Episode(
        time=log.time[:events].copy(),
        placed=log.placed[:events].copy(),
        row_event=log.row_event[:rows].copy(),
        row_instance=log.row_instance[:rows].copy(),
        row_pair=log.row_pair[:rows].copy(),
        place=log.place[:rows].copy(),
        score=log.score[:rows].copy(),
        seen=log.seen[:rows].copy(),
        pair_event=log.pair_event[:pairs].copy(),
        pair_job=log.pair_job[:pairs].copy(),
        done=log.done[:pairs].copy(),
        finished_at=sim.inst["done_at"].copy(),
        job_finish=sim.job["finish"][:-1].copy(),
    )
