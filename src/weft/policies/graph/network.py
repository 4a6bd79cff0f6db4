"""Graph networks that rate ready tasks: plain arrays and compiled passes; nothing here needs torch.

After Decima (Mao et al., SIGCOMM 2019, section 5.1) and Lachesis (Luo et al. 2021, arXiv 2103.06980), as we read them. Every task v has
an embedding made from its own features and its children's, from the leaves up:

    e_v = prepare(x_v) + update(mean over children u of message(e_u))

A job is summed up over its unfinished tasks, y_j = job_update(sum of job_message([prepare(x_v), e_v]) / tasks of the job), all jobs in
the system together by z = all_update(mean of all_message(y_j)), and a ready task is rated by score([what is seen now, e_v, y_j, z]). The
same weights serve any number of tasks, jobs and devices.

Ours: means where the papers have sums (sums over many children blow up in deep, dense graphs); small ReLU networks; task features
relative to the job's own mean, so that seconds or hours do not matter. What x_v says about a task and its descendants does not change
before it runs, so the level-by-level pass is made once for each problem; the summaries and what is seen now are made at every event.
Decima sees mean durations and ranks, nothing of devices. Lachesis also sees how tasks differ by device and what data costs, and
for each ready task what DEFT expects of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.networks import Network, Numbers, arrays_of, forward, network_of
from weft.policies.graph.deft import PlacementBuffers, place, sort_ready
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ranks import downward_rank, mean_durations, mean_transfer, upward_rank
from weft.sim.kernel.tables import DONE, JOB_HERE, Sim

WIDTH = 8
"""Numbers in an embedding or a summary."""

TASK_FEATURES = {"decima": 4, "lachesis": 9}
SEEN = {"decima": 9, "lachesis": 13}
"""How many of the features below each kind reads, from the first on."""


class GraphNetwork(NamedTuple):
    """The eight small networks of the formulas above."""

    prepare: Network
    message: Network
    update: Network
    job_message: Network
    job_update: Network
    all_message: Network
    all_update: Network
    score: Network


def layer_sizes(kind: str, *, hidden: int = 16, width: int = WIDTH) -> dict[str, list[int]]:
    """Sizes of the layers of each part.

    Examples
    --------
    >>> layer_sizes("decima")["score"]
    [33, 32, 16, 1]
    """
    if kind not in SEEN:
        raise InvalidInput(
            f"a graph network of kind '{kind}' is not known; known: {', '.join(SEEN)}"
        )
    inner = [width, hidden, width]
    return {
        "prepare": [TASK_FEATURES[kind], hidden, width],
        "message": inner,
        "update": inner,
        "job_message": [2 * width, hidden, width],
        "job_update": inner,
        "all_message": inner,
        "all_update": inner,
        "score": [SEEN[kind] + 3 * width, 2 * hidden, hidden, 1],
    }


def graph_network_of(arrays: Mapping[str, Numbers]) -> GraphNetwork:
    """Build a network from arrays named "message.0.weight", "message.0.bias", ...; see `weft.policies.conditional.networks.network_of`."""
    strangers = sorted({name.split(".")[0] for name in arrays} ^ set(GraphNetwork._fields))
    if strangers:
        raise InvalidInput(f"graph network: parts missing or not known: {', '.join(strangers)}")
    parts = []
    for part in GraphNetwork._fields:
        own = {
            name[len(part) + 1 :]: array
            for name, array in arrays.items()
            if name.split(".")[0] == part
        }
        parts.append(network_of(_with_input(own, part), units=1, actions=_outputs(own, part)))
    network = GraphNetwork(*parts)
    _check_joints(network)
    return network


def graph_arrays_of(network: GraphNetwork) -> dict[str, Numbers]:
    """Return the named arrays `graph_network_of` takes."""
    named: dict[str, Numbers] = {}
    for part, one in zip(GraphNetwork._fields, network, strict=True):
        named |= {
            f"{part}.{name}": array
            for name, array in arrays_of(one).items()
            if not name.startswith("input.")
        }
    return named


def _with_input(own: Mapping[str, Numbers], part: str) -> dict[str, Numbers]:
    if "0.weight" not in own or own["0.weight"].ndim != 2:
        raise InvalidInput(f"graph network: '{part}.0.weight' must be a matrix")
    inputs = own["0.weight"].shape[1]
    return {
        **own,
        "input.mean": np.zeros(inputs, np.float32),
        "input.scale": np.ones(inputs, np.float32),
    }


def _outputs(own: Mapping[str, Numbers], part: str) -> int:
    last = max(int(name.split(".")[0]) for name in own if name.split(".")[0].isdigit())
    if f"{last}.bias" not in own:
        raise InvalidInput(f"graph network: '{part}.{last}.bias' is missing")
    return int(own[f"{last}.bias"].size)


def _check_joints(network: GraphNetwork) -> None:
    width = int(network.prepare.sizes[-1])
    inner = (
        network.message,
        network.update,
        network.job_update,
        network.all_message,
        network.all_update,
    )
    fits = all((one.sizes[0], one.sizes[-1]) == (width, width) for one in inner)
    fits = fits and (network.job_message.sizes[0], network.job_message.sizes[-1]) == (
        2 * width,
        width,
    )
    if not fits or network.score.sizes[-1] != 1 or network.score.sizes[0] <= 3 * width:
        raise InvalidInput(
            f"graph network: its parts do not fit together; embeddings have {width} numbers"
        )


# -- what is known of tasks before they run ----------------------------------


def task_features(problem: Problem, kind: str) -> Numbers:
    """(n, features) of a problem's tasks, each about 0 to 1: see the names in the code."""
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
        least = problem.work * problem.pace.min(axis=1)[problem.row] if problem.n else np.zeros(0)
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
    """What a graph network knows of a workload, and where it works out its ratings. Tasks are numbered over all problems, as in `Sim`.

    Attributes
    ----------
    order : (tasks,) all tasks, children before their parents
    rank, mean : (tasks,) seconds: upward rank, mean duration
    given : (tasks, features) what `task_features` says
    base, embedding, part : (tasks, width) prepare(x), e, job_message([prepare(x), e])
    path : (jobs,) seconds on the longest path of each job; left : (jobs,) mean seconds of its unfinished tasks; top : (jobs,) its highest
        rank among ready tasks
    job : (jobs, width) summaries y; whole : (1, width) z
    seen : (instances, features) what is seen now of the ready tasks, in their order on the desk
    score : (instances,) their ratings, in the same order
    line, space : to work in
    """

    order: IntArray
    rank: FloatArray
    mean: FloatArray
    given: Numbers
    base: Numbers
    embedding: Numbers
    part: Numbers
    path: FloatArray
    left: FloatArray
    top: FloatArray
    job: Numbers
    whole: Numbers
    seen: Numbers
    score: FloatArray
    line: Numbers
    space: Numbers


def make_board(workload: Workload, network: GraphNetwork, sim: Sim, kind: str) -> GraphState:
    """Lay out the memory and embed every task."""
    problems, width = workload.problems, int(network.prepare.sizes[-1])
    starts = np.concatenate(([0], np.cumsum([p.n for p in problems]))).astype(np.int64)
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
        raise InvalidInput(f"this graph network does not read what a policy of kind '{kind}' sees")

    def single(*shape: int) -> Numbers:
        return np.zeros(shape, np.float32)

    board = GraphState(
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
    )
    embed(sim, network, board)
    return board


# -- passes ------------------------------------------------------------------


@njit_inline
def _apply(network: Network, board: GraphState, out: Numbers) -> None:
    """Run one part on `board.line`."""
    row = forward(network, board.line[: network.sizes[0]], board.space)
    for k in range(len(out)):
        out[k] = board.space[row, k]


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
def embed(sim: Sim, network: GraphNetwork, board: GraphState) -> None:
    """Embed all tasks, children before parents; `part` serves as memory for messages on the way."""
    width = board.base.shape[1]
    for g in board.order:
        own, total = board.embedding[g], board.whole[0]
        _put(board.line, 0, board.given[g])
        _apply(network.prepare, board, board.base[g])
        first, last = sim.task[g].succ, sim.task[g + 1].succ
        own[:] = 0
        if first < last:
            total[:] = 0
            for e in range(first, last):
                _add(total, board.part[sim.edge[e].target])
            _put_mean(board.line, total, last - first)
            _apply(network.update, board, own)
        _add(own, board.base[g])
        _put(board.line, 0, own)
        _apply(network.message, board, board.part[g])
    for g in board.order:
        _put(board.line, 0, board.base[g])
        _put(board.line, width, board.embedding[g])
        _apply(network.job_message, board, board.part[g])


@njit_noalloc
def rate(sim: Sim, desk: PlacementBuffers, network: GraphNetwork, board: GraphState) -> None:
    """Rate the ready tasks on the desk; the ratings are in `board.score`, in the order of `desk.ready`."""
    _summarise(sim, network, board)
    _look_closer(sim, desk, board)
    width, seen = board.base.shape[1], board.seen.shape[1]
    line = board.line
    for k in range(desk.sizes[0]):
        i = desk.ready[k]
        _put(line, 0, board.seen[k])
        _put(line, seen, board.embedding[task_of(sim, i)])
        _put(line, seen + width, board.job[sim.inst[i].job])
        _put(line, seen + 2 * width, board.whole[0])
        board.score[k] = board.space[
            forward(network.score, line[: network.score.sizes[0]], board.space), 0
        ]


@njit_inline
def _summarise(sim: Sim, network: GraphNetwork, board: GraphState) -> None:
    width = board.base.shape[1]
    whole, count = board.whole[0], 0
    whole[:] = 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        total = board.job[j]
        total[:] = 0
        board.left[j] = 0.0
        for i in range(sim.job[j].first, sim.job[j + 1].first):
            if sim.inst[i].status != DONE:
                g = i - sim.job[j].shift
                _add(total, board.part[g])
                board.left[j] += board.mean[g]
        _put_mean(board.line, total, sim.job[j + 1].first - sim.job[j].first)
        _apply(network.job_update, board, total)
        _put(board.line, 0, total)
        _add(
            whole,
            board.space[forward(network.all_message, board.line[:width], board.space), :width],
        )
        count += 1
    _put_mean(board.line, whole, max(count, 1))
    _apply(network.all_update, board, whole)


@njit_inline
def _look_closer(sim: Sim, desk: PlacementBuffers, board: GraphState) -> None:
    """Write down what is seen now of each ready task."""
    now, ready, devices = sim.world[0].now, desk.sizes[0], len(desk.free)
    here, left, idle = 0, 0.0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            here += 1
            left += board.left[j]
            board.top[j] = 0.0
    for d in range(devices):
        idle += desk.idle[d]
    top, mean = 0.0, 0.0
    for k in range(ready):
        i = desk.ready[k]
        g, j = task_of(sim, i), sim.inst[i].job
        top = max(top, board.rank[g])
        board.top[j] = max(board.top[j], board.rank[g])
        mean += board.mean[g] / ready
    for k in range(ready):
        i = desk.ready[k]
        g, j = task_of(sim, i), sim.inst[i].job
        seen, age = board.seen[k], now - sim.job[j].arrival
        seen[0] = _part(board.rank[g], top)
        seen[1] = _part(board.rank[g], board.top[j])
        seen[2] = np.log(max(board.left[j], 1e-300) / max(left / here, 1e-300)) / 2
        seen[3] = _part(age, age + board.path[j])
        seen[4] = _part(board.mean[g], board.mean[g] + mean)
        seen[5] = np.log1p(ready) / 4
        seen[6] = idle / devices
        seen[7] = np.log1p(here) / 3
        seen[8] = _part(board.left[j] / devices, board.left[j] / devices + board.rank[g])
        if len(seen) > 9:
            _ask_deft(sim, desk, board, i, seen)


@njit_inline
def _ask_deft(
    sim: Sim, desk: PlacementBuffers, board: GraphState, instance: int, seen: Numbers
) -> None:
    g = task_of(sim, instance)
    seen[9:13] = 0
    d, copy, finish = place(sim, instance, desk.free)
    if d < 0:
        return
    span = finish - sim.world[0].now
    seen[9] = _part(span, span + board.mean[g])
    seen[10] = desk.idle[d]
    seen[11] = 1 if copy >= 0 else 0
    seen[12] = _part(sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].pace, span)


@njit_inline
def _part(value: float, whole: float) -> float:
    return value / whole if whole > 0 else 0.0


@njit_noalloc
def arrange(sim: Sim, desk: PlacementBuffers, network: GraphNetwork, board: GraphState) -> None:
    """Order the ready tasks by rating, the highest first; ties by number."""
    if desk.sizes[0] > 1:
        rate(sim, desk, network, board)
        for k in range(desk.sizes[0]):
            desk.key[desk.ready[k]] = -board.score[k]
        sort_ready(desk)
        for k in range(desk.sizes[0]):
            desk.key[desk.ready[k]] = 0.0  # what is ready next is first looked at by number
