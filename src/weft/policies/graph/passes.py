"""State and passes of a graph network: embeddings, and ratings of ready tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Workload
from weft.model.columns import FloatArray, IntArray, Numbers, offsets
from weft.policies.conditional.networks import Network, forward, forward_columns
from weft.policies.graph.deft import PlacementBuffers, place, sort_ready
from weft.policies.graph.network import FEATURE, SEEN, GraphNetwork
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ranks import downward_rank, mean_durations, mean_transfer, upward_rank
from weft.sim.kernel.tables import DONE, JOB_HERE, Sim

FEW, TOGETHER = 16, 128
"""Number of ready tasks from which they are rated together, and the most rated at once."""


def task_features(problem: Problem, kind: str) -> Numbers:
    """Return the (n, features) of a problem's tasks, each about 0 to 1."""
    w, mean = problem.workflow, mean_durations(problem)
    scale = float(mean.mean()) if problem.n and mean.mean() > 0 else 1.0
    rank = upward_rank(problem)
    path = max(float(rank.max(initial=0.0)), 1e-300)
    columns = [
        _share(mean, scale),
        rank / path,
        np.log1p(np.diff(w.succ_ptr)) / 3,
        np.log1p(np.diff(w.pred_ptr)) / 3,
    ]
    if kind == "lachesis":
        least = (
            problem.work * problem.per_work.min(axis=1)[problem.row] if problem.n else np.zeros(0)
        )
        latency, per_byte = mean_transfer(problem)
        seconds = latency + w.data * per_byte
        sent, got = np.zeros(problem.n), np.zeros(problem.n)
        np.maximum.at(sent, w.src, seconds)
        np.maximum.at(got, w.dst, seconds)
        columns += [
            _share(least, scale),
            _ratio(least, mean),
            downward_rank(problem) / path,
            _share(sent, scale),
            _share(got, scale),
        ]
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float32)


def _share(values: FloatArray, scale: float) -> FloatArray:
    return values / (values + scale)


def _ratio(values: FloatArray, over: FloatArray) -> FloatArray:
    return np.divide(values, over, out=np.ones_like(values), where=over > 0)


class GraphState(NamedTuple):
    """Embeddings of a workload, and buffers for ratings.

    Tasks are global tasks, as in `Sim`.
    """

    order: IntArray  # (tasks,) all tasks, children before their parents
    rank: FloatArray  # (tasks,) upward rank, seconds
    mean: FloatArray  # (tasks,) mean duration, seconds
    given: Numbers  # (tasks, features) `task_features`
    base: Numbers  # (tasks, width) prepare(x)
    embedding: Numbers  # (tasks, width) e
    part: Numbers  # (tasks, width) job_message([prepare(x), e])
    path: FloatArray  # (jobs,) seconds on the longest path
    left: FloatArray  # (jobs,) mean seconds of the unfinished tasks
    top: FloatArray  # (jobs,) highest rank of the ready tasks
    job: Numbers  # (jobs, width) summaries y
    whole: Numbers  # (1, width) z
    seen: Numbers  # (instances, features) present features of the ready tasks, in their order
    score: FloatArray  # (instances,) their ratings, in the same order
    line: Numbers  # working memory
    space: Numbers  # working memory
    columns: Numbers  # (2, largest size, TOGETHER) working memory


def make_graph_state(workload: Workload, network: GraphNetwork, sim: Sim, kind: str) -> GraphState:
    """Allocate the memory and embed every task."""
    problems, width = workload.problems, int(network.prepare.sizes[-1])
    starts = offsets([p.n for p in problems])
    tasks, jobs = int(starts[-1]), workload.jobs
    ranks = [upward_rank(p) for p in problems]
    paths = np.array([float(r.max(initial=0.0)) for r in ranks])
    given = np.concatenate(
        [
            np.zeros((0, int(network.prepare.sizes[0])), np.float32),
            *(task_features(p, kind) for p in problems),
        ]
    )
    if (
        given.shape[1] != network.prepare.sizes[0]
        or SEEN[kind] + 3 * width != network.score.sizes[0]
    ):
        raise InvalidInput(f"this graph network does not fit the features of kind '{kind}'")

    def single(*shape: int) -> Numbers:
        return np.zeros(shape, np.float32)

    graph = GraphState(
        order=np.concatenate(
            [
                np.zeros(0, np.int64),
                *(starts[t] + p.workflow.order[::-1] for t, p in enumerate(problems)),
            ]
        ),
        rank=np.concatenate([np.zeros(0), *ranks]),
        mean=np.concatenate([np.zeros(0), *(mean_durations(p) for p in problems)]),
        given=given,
        base=single(tasks, width),
        embedding=single(tasks, width),
        part=single(tasks, width),
        path=paths[workload.template],
        left=np.zeros(jobs),
        top=np.zeros(jobs),
        job=single(jobs, width),
        whole=single(1, width),
        seen=single(workload.instances, SEEN[kind]),
        score=np.zeros(workload.instances),
        line=single(max(int(one.sizes[0]) for one in network)),
        space=single(2, max(int(one.sizes.max()) for one in network)),
        columns=single(2, int(network.score.sizes.max()), TOGETHER),
    )
    embed(sim, network, graph)
    return graph


@njit_inline
def _apply(network: Network, graph: GraphState, out: Numbers) -> None:
    """Run one part on `graph.line`."""
    row = forward(network, graph.line[: network.sizes[0]], graph.space)
    for k in range(len(out)):
        out[k] = graph.space[row, k]


@njit_inline
def _put(line: Numbers, at: int, row: Numbers) -> None:
    for k in range(len(row)):
        line[at + k] = row[k]


@njit_inline
def _add(total: Numbers, row: Numbers) -> None:
    for k in range(len(total)):
        total[k] += row[k]


@njit_inline
def _put_mean(line: Numbers, total: Numbers, count: int) -> None:
    for k in range(len(total)):
        line[k] = total[k] / np.float32(count)


@njit_noalloc
def embed(sim: Sim, network: GraphNetwork, graph: GraphState) -> None:
    """Embed all tasks, children before parents; `part` holds the messages on the way."""
    width = graph.base.shape[1]
    for g in graph.order:
        own, total = graph.embedding[g], graph.whole[0]
        _put(graph.line, 0, graph.given[g])
        _apply(network.prepare, graph, graph.base[g])
        first, last = sim.task[g].succ, sim.task[g + 1].succ
        own[:] = 0
        if first < last:
            total[:] = 0
            for e in range(first, last):
                _add(total, graph.part[sim.edge[e].target])
            _put_mean(graph.line, total, last - first)
            _apply(network.update, graph, own)
        _add(own, graph.base[g])
        _put(graph.line, 0, own)
        _apply(network.message, graph, graph.part[g])
    for g in graph.order:
        _put(graph.line, 0, graph.base[g])
        _put(graph.line, width, graph.embedding[g])
        _apply(network.job_message, graph, graph.part[g])


@njit_noalloc
def rate(sim: Sim, buffers: PlacementBuffers, network: GraphNetwork, graph: GraphState) -> None:
    """Rate the ready tasks: `graph.score`, in the order of `buffers.ready`."""
    _summarise(sim, network, graph)
    _describe_ready(sim, buffers, graph)
    ready, first = buffers.counts[0].ready, 0
    while ready - first >= FEW:
        count = min(ready - first, TOGETHER)
        _rate_together(sim, buffers, network, graph, first, count)
        first += count
    width, seen = graph.base.shape[1], graph.seen.shape[1]
    line = graph.line
    for k in range(first, ready):
        i = buffers.ready[k]
        _put(line, 0, graph.seen[k])
        _put(line, seen, graph.embedding[task_of(sim, i)])
        _put(line, seen + width, graph.job[sim.inst[i].job])
        _put(line, seen + 2 * width, graph.whole[0])
        graph.score[k] = graph.space[
            forward(network.score, line[: network.score.sizes[0]], graph.space), 0
        ]


@njit_inline
def _rate_together(
    sim: Sim,
    buffers: PlacementBuffers,
    network: GraphNetwork,
    graph: GraphState,
    first: int,
    count: int,
) -> None:
    """Rate `count` ready tasks together, from the first on, as columns of a matrix."""
    width, seen, x = graph.base.shape[1], graph.seen.shape[1], graph.columns[0]
    for c in range(count):
        i = buffers.ready[first + c]
        own, job, whole = graph.embedding[task_of(sim, i)], sim.inst[i].job, graph.whole[0]
        for k in range(seen):
            x[k, c] = graph.seen[first + c, k]
        for k in range(width):
            x[seen + k, c] = own[k]
            x[seen + width + k, c] = graph.job[job, k]
            x[seen + 2 * width + k, c] = whole[k]
    scores = graph.columns[forward_columns(network.score, count, graph.columns), 0]
    for c in range(count):
        graph.score[first + c] = scores[c]


@njit_inline
def _summarise(sim: Sim, network: GraphNetwork, graph: GraphState) -> None:
    width = graph.base.shape[1]
    whole, count = graph.whole[0], 0
    whole[:] = 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        total = graph.job[j]
        total[:] = 0
        graph.left[j] = 0.0
        for i in range(sim.job[j].first, sim.job[j + 1].first):
            if sim.inst[i].status != DONE:
                g = i - sim.job[j].shift
                _add(total, graph.part[g])
                graph.left[j] += graph.mean[g]
        _put_mean(graph.line, total, sim.job[j + 1].first - sim.job[j].first)
        _apply(network.job_update, graph, total)
        _put(graph.line, 0, total)
        _add(
            whole,
            graph.space[forward(network.all_message, graph.line[:width], graph.space), :width],
        )
        count += 1
    _put_mean(graph.line, whole, max(count, 1))
    _apply(network.all_update, graph, whole)


@njit_inline
def _describe_ready(sim: Sim, buffers: PlacementBuffers, graph: GraphState) -> None:
    """Fill in the present features of each ready task."""
    now, ready, devices = sim.world[0].now, buffers.counts[0].ready, len(buffers.free)
    here, left, idle = 0, 0.0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            here += 1
            left += graph.left[j]
            graph.top[j] = 0.0
    for d in range(devices):
        idle += buffers.idle[d]
    top, mean = 0.0, 0.0
    for k in range(ready):
        i = buffers.ready[k]
        g, j = task_of(sim, i), sim.inst[i].job
        top = max(top, graph.rank[g])
        graph.top[j] = max(graph.top[j], graph.rank[g])
        mean += graph.mean[g] / ready
    for k in range(ready):
        i = buffers.ready[k]
        g, j = task_of(sim, i), sim.inst[i].job
        seen, age = graph.seen[k], now - sim.job[j].arrival
        seen[FEATURE.rank] = _part(graph.rank[g], top)
        seen[FEATURE.rank_in_job] = _part(graph.rank[g], graph.top[j])
        seen[FEATURE.work] = np.log(max(graph.left[j], 1e-300) / max(left / here, 1e-300)) / 2
        seen[FEATURE.age] = _part(age, age + graph.path[j])
        seen[FEATURE.duration] = _part(graph.mean[g], graph.mean[g] + mean)
        seen[FEATURE.ready] = np.log1p(ready) / 4
        seen[FEATURE.idle] = idle / devices
        seen[FEATURE.jobs] = np.log1p(here) / 3
        seen[FEATURE.parallelism] = _part(
            graph.left[j] / devices, graph.left[j] / devices + graph.rank[g]
        )
        if len(seen) > FEATURE.deft_span:
            _describe_placement(sim, buffers, graph, i, seen)


@njit_inline
def _describe_placement(
    sim: Sim, buffers: PlacementBuffers, graph: GraphState, instance: int, seen: Numbers
) -> None:
    g = task_of(sim, instance)
    seen[FEATURE.deft_span :] = 0
    d, copy, finish = place(sim, instance, buffers.free)
    if d < 0:
        return
    span = finish - sim.world[0].now
    seen[FEATURE.deft_span] = _part(span, span + graph.mean[g])
    seen[FEATURE.deft_idle] = buffers.idle[d]
    seen[FEATURE.deft_copy] = 1 if copy >= 0 else 0
    seen[FEATURE.deft_share] = _part(
        sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].slowdown, span
    )


@njit_inline
def _part(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


@njit_noalloc
def sort_by_rating(
    sim: Sim, buffers: PlacementBuffers, network: GraphNetwork, graph: GraphState
) -> None:
    """Sort the ready tasks by rating, the highest first; ties by number."""
    if buffers.counts[0].ready > 1:
        rate(sim, buffers, network, graph)
        for k in range(buffers.counts[0].ready):
            buffers.key[buffers.ready[k]] = -graph.score[k]
        sort_ready(buffers)
        for k in range(buffers.counts[0].ready):
            buffers.key[buffers.ready[k]] = 0.0  # the next ready tasks are listed by number
