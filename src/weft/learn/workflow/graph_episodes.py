"""Episodes for training graph networks: simulated and recorded in compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.generators.instances import Instance
from weft.model.columns import FloatArray, IntArray, Numbers
from weft.policies.graph.deft import (
    PlacementBuffers,
    commit_decisions,
    dispatch,
    make_buffers,
    observe,
    sort_ready,
)
from weft.policies.graph.network import SEEN, GraphNetwork
from weft.policies.graph.passes import GraphState, make_graph_state, rate
from weft.sim.kernel.events import ENDED, MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import DONE, JOB_HERE, RecordTable, Sim, make_sim

NOISE = 1 << 15
"""Length of the random numbers of an episode."""
SAMPLED, EXPERT = 0, 1
"""Orders of the ready tasks: by the network with noise, or by the rule that it first imitates."""
LOG_SIZE = record("", "events rows pairs")


class EpisodeLog(NamedTuple):
    """Choices of one episode: events, ready tasks (rows), jobs present (pairs).

    An event has several ready tasks. `score` is a row's rating, `place` its place in the drawn
    order; `placed` the number of an event's rows that DEFT placed, the first ones in that order.
    `done` counts the finished tasks of a job. `of_job` and `of_instance` are working memory.
    `finished_at` and `job_finish` are the ends of tasks and jobs, known after the episode.
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
    size: RecordTable  # (1,)
    finished_at: FloatArray
    job_finish: FloatArray


def make_log(instances: int, jobs: int, seen: int) -> EpisodeLog:
    """Allocate the log of an episode; events that do not fit are not recorded."""
    events = 3 * instances + 64
    rows, pairs = 24 * events, min(jobs, 16) * events

    def whole(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    return EpisodeLog(
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
        size=np.zeros(1, LOG_SIZE),
        finished_at=np.zeros(0),
        job_finish=np.zeros(0),
    )


@njit_noalloc
def run_recorded(
    sim: Sim,
    buffers: PlacementBuffers,
    network: GraphNetwork,
    graph: GraphState,
    noise: FloatArray,
    log: EpisodeLog,
    by: int,
) -> int:
    """Simulate and record an episode; return ENDED or STUCK.

    Gumbel noise on the ratings draws an order with the probabilities of repeated softmax choices.
    """
    at = 0
    size = log.size[0]
    size.events, size.rows, size.pairs = 0, 0, 0
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready == 0 or not observe(sim, buffers):
            continue
        ready, fits = buffers.counts[0].ready, False
        if ready > 1:
            rate(sim, buffers, network, graph)
            fits = _write_event(sim, buffers, graph, log)
            for k in range(ready):
                i = buffers.ready[k]
                buffers.key[i] = (
                    -graph.score[k] - noise[at] if by == SAMPLED else _expert_key(sim, graph, i)
                )
                at = (at + 1) % len(noise)
            sort_ready(buffers)
            for k in range(ready):
                log.of_instance[buffers.ready[k]] = k
                buffers.key[buffers.ready[k]] = 0.0
        dispatch(sim, buffers)
        if fits:
            log.placed[size.events - 1] = buffers.counts[0].placed
            for r in range(size.rows - ready, size.rows):
                log.place[r] = log.of_instance[log.row_instance[r]]
        commit_decisions(sim, buffers)


@njit_inline
def _expert_key(sim: Sim, graph: GraphState, i: int) -> float:
    """Return the key of the rule: least work left in the job, then highest rank."""
    j = sim.inst[i].job
    total = 0.0
    for k in range(len(sim.job) - 1):
        if sim.job[k].state == JOB_HERE:
            total += graph.left[k]
    return float(
        1e6 * graph.left[j] / max(total, 1e-300)
        - graph.rank[task_of(sim, i)] / max(graph.path[j], 1e-300)
    )


@njit_inline
def _write_event(sim: Sim, buffers: PlacementBuffers, graph: GraphState, log: EpisodeLog) -> bool:
    size = log.size[0]
    event, row, pair = size.events, size.rows, size.pairs
    here = 0
    for j in range(len(sim.job) - 1):
        here += 1 if sim.job[j].state == JOB_HERE else 0
    if (
        event == len(log.time)
        or row + buffers.counts[0].ready > len(log.place)
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
    for k in range(buffers.counts[0].ready):
        i = buffers.ready[k]
        log.row_event[row], log.row_instance[row] = event, i
        log.row_pair[row] = log.of_job[sim.inst[i].job]
        log.score[row] = graph.score[k]
        for f in range(graph.seen.shape[1]):
            log.seen[row, f] = graph.seen[k, f]
        row += 1
    size.events, size.rows, size.pairs = event + 1, row, pair
    return True


def run_instance(
    case: Instance,
    network: GraphNetwork,
    kind: str,
    rng: np.random.Generator,
    *,
    times: int,
    by: int = SAMPLED,
) -> tuple[list[EpisodeLog], GraphState]:
    """Simulate an instance several times; also return its embeddings."""
    workload = case.workload
    buffers, log = make_buffers(workload), make_log(workload.instances, workload.jobs, SEEN[kind])
    graph = None
    episodes = []
    for _ in range(times):
        sim = make_sim(workload, case.scenario, None, eager=True, copies=True)
        graph = make_graph_state(workload, network, sim, kind) if graph is None else graph
        if run_recorded(sim, buffers, network, graph, rng.gumbel(size=NOISE), log, by) == ENDED:
            episodes.append(_cut(log, sim))
    assert graph is not None
    return episodes, graph


def _cut(log: EpisodeLog, sim: Sim) -> EpisodeLog:
    """Copy the columns, cut to size."""
    events, rows, pairs = log.size[0].tolist()
    sizes = dict.fromkeys(("time", "placed"), events)
    sizes |= dict.fromkeys(
        ("row_event", "row_instance", "row_pair", "place", "score", "seen"), rows
    )
    sizes |= dict.fromkeys(("pair_event", "pair_job", "done"), pairs)
    return log._replace(
        **{name: getattr(log, name)[:size].copy() for name, size in sizes.items()},
        finished_at=sim.inst["done_at"].copy(),
        job_finish=sim.job["finish"][:-1].copy(),
    )
