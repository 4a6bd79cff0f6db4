"""REINFORCE for the graph networks of `weft.policies.graph.network`.

The whole loop.

Williams (1992) with the baseline of Mao et al. (SIGCOMM 2019, section 5.3): an instance (a workload
and its future) is simulated several times, and the return after a choice is compared with the
average over the runs of the same instance at the same time: arrivals and failures, which no choice
affects, cancel out. The return is minus the seconds that jobs still spend in the system: for a
single workflow its makespan, for a stream the sum of completion times. Instances come from all
conditions, small ones first. Before that the network learns by imitation to order as a rule does
(the job with the least work left first, in it the highest upward rank). Advantages are relative to
the instance's own mean, so that long and short instances count alike.

The number of updates is given, not the time: the same seed gives the same network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.generators.instances import CONDITIONS, Instance, draw_instance
from weft.learn.workflow.graph_episodes import EXPERT, SAMPLED, EpisodeLog, run_instance
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.networks import CLIP, Numbers
from weft.policies.graph.network import GraphNetwork, GraphState, graph_network_of, layer_sizes
from weft.policies.graph.policy import GraphPolicy, TrainedGraph
from weft.policies.policy import POLICIES
from weft.rng import generator
from weft.sim.simulate import simulate

VALIDATION = 900_000
"""First seed of validation instances; training has lower seeds, evaluations 1,000,000 and above."""

NO_TASK = -1e9
"""Rating of a place without a task."""


@dataclass(frozen=True)
class GraphSettings:
    """Settings of the training.

    There are `imitation` updates, then `updates` of REINFORCE. Every update draws one instance of
    each condition and simulates it `runs` times. The weight of the entropy falls from `entropy` to
    a tenth of it; sizes grow from `small` to `large` tasks. Validations are `every` updates.
    """

    updates: int = 1500
    imitation: int = 400
    runs: int = 16
    rate: float = 4e-4
    imitation_rate: float = 3e-3
    entropy: float = 0.003
    small: tuple[int, int] = (20, 40)
    large: tuple[int, int] = (20, 110)
    jobs: tuple[int, int] = (6, 14)
    clip: float = 1.0
    every: int = 100


class GraphModule(nn.Module):
    """`GraphNetwork` in torch."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        self.kind = kind
        generator = torch.Generator().manual_seed(seed)
        sizes = layer_sizes(kind)
        self.parts = nn.ModuleList(
            nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes[part]))
            for part in GraphNetwork._fields
        )
        for name, weight in self.named_parameters():
            with torch.no_grad():
                spread = 0.0 if name.endswith("bias") else math.sqrt(2.0 / weight.shape[-1])
                weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
        with torch.no_grad():
            self.parts[-1][-1].weight *= 0.1  # type: ignore[index]  # nearly equal ratings

    def apply_part(self, part: str, x: Tensor) -> Tensor:
        """Apply one of the eight networks."""
        layers = list(self.parts[GraphNetwork._fields.index(part)].children())
        x = x.clamp(-float(CLIP), float(CLIP))
        for k, layer in enumerate(layers):
            x = layer(torch.relu(x) if k else x)
        return x

    def arrays(self) -> dict[str, Numbers]:
        """Return the arrays that `graph_network_of` takes."""
        named = {}
        for name, value in self.named_parameters():
            _, part, rest = name.split(".", 2)
            named[f"{GraphNetwork._fields[int(part)]}.{rest}"] = value.detach().numpy().copy()
        return named

    def network(self) -> GraphNetwork:
        """Return the compiled network."""
        return graph_network_of(self.arrays())

    def embed(self, forest: JobForest) -> tuple[Tensor, Tensor]:
        """Return e and job_message([prepare(x), e]) of all tasks, from the leaves up."""
        base = self.apply_part("prepare", forest.given)
        levels = [base[: forest.levels[0]]]
        messages = [self.apply_part("message", levels[0])]
        for k, (begin, end) in enumerate(pairwise(forest.levels)):
            known = torch.cat(messages)
            total = torch.zeros(end - begin, base.shape[1]).index_add(
                0, forest.parent[k], known[forest.child[k]]
            )
            own = base[begin:end] + self.apply_part("update", total / forest.children[k][:, None])
            levels.append(own)
            messages.append(self.apply_part("message", own))
        embedding = torch.cat(levels)
        return embedding, self.apply_part("job_message", torch.cat((base, embedding), dim=1))

    def forward(self, forest: JobForest, batch: Batch) -> Tensor:
        """Rate the rows of a batch."""
        embedding, part = self.embed(forest)
        sums = torch.cat(
            (
                torch.zeros(1, part.shape[1], dtype=torch.float64),
                part[batch.finishing].double().cumsum(0),
            )
        )
        left = (sums[batch.job_end] - sums[batch.job_begin]).float()
        job = self.apply_part("job_update", left / batch.job_size[:, None])
        message = self.apply_part("all_message", job)
        whole = (
            torch.zeros(len(batch.time), message.shape[1]).index_add(0, batch.pair_event, message)
            / batch.here[:, None]
        )
        whole = self.apply_part("all_update", whole)
        row = torch.cat(
            (batch.seen, embedding[batch.row_task], job[batch.row_pair], whole[batch.row_event]),
            dim=1,
        )
        return self.apply_part("score", row).squeeze(1)


class JobForest(NamedTuple):
    """Task graphs of several instances, tasks sorted by height.

    Level k ends at `levels[k]`.

    `parent[k]` and `child[k]` are the edges out of level k + 1 (the parent counted from the first
    of the level), `children[k]` their number by parent. `where` holds the places of each instance's
    tasks.
    """

    given: Tensor
    levels: list[int]
    parent: list[Tensor]
    child: list[Tensor]
    children: list[Tensor]
    where: list[IntArray]


def make_forest(cases: Sequence[Instance], graphs: Sequence[GraphState]) -> JobForest:
    """Sort the tasks of all instances by height above the leaves."""
    starts = np.concatenate(([0], np.cumsum([len(b.order) for b in graphs]))).astype(np.int64)
    src, dst = [], []
    for case, first in zip(cases, starts[:-1].tolist(), strict=True):
        at = first
        for problem in case.workload.problems:
            src.append(problem.workflow.src + at)
            dst.append(problem.workflow.dst + at)
            at += problem.n
    source, target = np.concatenate(src), np.concatenate(dst)
    height = _heights(graphs, starts, source, target)
    order = np.argsort(height, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    levels = np.searchsorted(
        height[order], np.arange(int(height.max(initial=0)) + 1), side="right"
    ).tolist()
    parent, child, children = [], [], []
    for k, (begin, end) in enumerate(pairwise(levels), start=1):
        mine = np.flatnonzero(height[source] == k)
        above = place[source[mine]] - begin
        parent.append(torch.from_numpy(above))
        child.append(torch.from_numpy(place[target[mine]]))
        children.append(
            torch.from_numpy(np.bincount(above, minlength=end - begin).astype(np.float32))
        )
    given = torch.from_numpy(np.concatenate([b.given for b in graphs])[order])
    return JobForest(
        given, levels, parent, child, children, [place[a:b] for a, b in pairwise(starts.tolist())]
    )


def _heights(
    graphs: Sequence[GraphState], starts: IntArray, source: IntArray, target: IntArray
) -> IntArray:
    height = np.zeros(int(starts[-1]), np.int64)
    by_source = np.argsort(source, kind="stable")
    begin = np.searchsorted(source[by_source], np.arange(len(height) + 1))
    for graph, first in zip(graphs, starts[:-1].tolist(), strict=True):
        for g in (graph.order + first).tolist():  # children first
            below = target[by_source[begin[g] : begin[g + 1]]]
            height[g] = height[below].max() + 1 if len(below) else 0
    return height


class Batch(NamedTuple):
    """Choices of many episodes as tensors.

    See `EpisodeLog` for events, rows and pairs.

    `finishing` lists tasks job by job in the order of their finish, over all episodes; the
    unfinished tasks of a pair's job are there from `job_begin` to `job_end`.
    """

    time: Tensor
    placed: Tensor
    here: Tensor
    row_event: Tensor
    row_task: Tensor
    row_pair: Tensor
    place: Tensor
    seen: Tensor
    pair_event: Tensor
    job_begin: Tensor
    job_end: Tensor
    job_size: Tensor
    finishing: Tensor


def make_batch(
    cases: Sequence[Instance], episodes: Sequence[Sequence[EpisodeLog]], forest: JobForest
) -> Batch:
    """Concatenate all episodes of all instances."""
    parts: dict[str, list[Any]] = {name: [] for name in Batch._fields}
    events = pairs = tasks = 0
    for case, where, runs in zip(cases, forest.where, episodes, strict=True):
        workload = case.workload
        first = workload.first_instance
        starts = np.concatenate(([0], np.cumsum([p.n for p in workload.problems]))).astype(np.int64)
        job_of = np.repeat(np.arange(workload.jobs), np.diff(first))
        task_of = where[
            np.arange(workload.instances) - first[job_of] + starts[workload.template[job_of]]
        ]
        for run in runs:
            order = np.lexsort((run.finished_at, job_of))
            parts["finishing"].append(task_of[order])
            parts["time"].append(run.time)
            parts["placed"].append(run.placed)
            parts["here"].append(
                np.bincount(run.pair_event, minlength=len(run.time)).astype(np.float32)
            )
            parts["row_event"].append(run.row_event + events)
            parts["row_task"].append(task_of[run.row_instance])
            parts["row_pair"].append(run.row_pair + pairs)
            parts["place"].append(run.place)
            parts["seen"].append(run.seen)
            parts["pair_event"].append(run.pair_event + events)
            parts["job_begin"].append(tasks + first[run.pair_job] + run.done)
            parts["job_end"].append(tasks + first[run.pair_job + 1])
            parts["job_size"].append(np.diff(first)[run.pair_job].astype(np.float32))
            events, pairs, tasks = (
                events + len(run.time),
                pairs + len(run.pair_event),
                tasks + workload.instances,
            )
    return Batch(*(torch.from_numpy(np.concatenate(parts[name])) for name in Batch._fields))


def order_likelihood(score: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the (events,) log-probability of the drawn orders, and an entropy.

    Only the tasks that were placed count. The entropy is that of the first choice.
    """
    events, width = len(batch.time), int(batch.place.max()) + 1
    table = torch.full((events, width), NO_TASK).index_put((batch.row_event, batch.place), score)
    left = torch.logcumsumexp(table.flip(1), dim=1).flip(1)
    counts = torch.arange(width)[None, :] < batch.placed[:, None]
    log_choice = torch.log_softmax(table, dim=1)
    return ((table - left) * counts).sum(1), -(log_choice.exp() * log_choice).sum(1)


def advantages(case: Instance, runs: Sequence[EpisodeLog]) -> list[FloatArray]:
    """Return the advantage of every event of every run, as a share of a whole run.

    It is how much less time than on average jobs spend in the system from then on.
    """
    arrival = case.workload.arrival

    def ahead(run: EpisodeLog, time: FloatArray) -> FloatArray:
        later = np.maximum(time[:, None], arrival[None, :])
        return np.asarray(np.maximum(run.job_finish[None, :] - later, 0.0).sum(axis=1))

    scale = max(float(np.mean([(run.job_finish - arrival).sum() for run in runs])), 1e-300)
    found = []
    for run in runs:
        usual = np.mean([ahead(other, run.time) for other in runs], axis=0)
        found.append((usual - ahead(run, run.time)) / scale)
    return found


# -- training ----------------------------------------------------------------------


def train_graph(
    kind: str,
    *,
    settings: GraphSettings | None = None,
    seed: int = 0,
    validation: Sequence[Instance] = (),
    draw: Callable[[GraphSettings, int, int, float], list[Instance]] | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> TrainedGraph:
    """Train a graph network of a kind, "decima" or "lachesis".

    Return the best by validation.

    Without validation instances that is the last one. `draw` makes the instances of an update from
    (settings, seed, update, share of the training); by default one of each condition. `progress`
    receives the row of each validation.
    """
    s, began = settings or GraphSettings(), time.process_time()
    torch.set_num_threads(1)
    module = GraphModule(kind, seed)
    scorer = GraphScorer(validation)
    curve: list[dict[str, float]] = []
    best, best_arrays = math.inf, module.arrays()
    adam = torch.optim.Adam(module.parameters(), lr=s.imitation_rate)
    for update in range(-s.imitation, s.updates):
        share = max(update, 0) / max(s.updates - 1, 1)
        if update == 0:
            adam = torch.optim.Adam(module.parameters(), lr=s.rate)
        for group in adam.param_groups:
            group["lr"] = (s.imitation_rate if update < 0 else s.rate) * (1 - 0.9 * share)
        # Imitation of all sizes; then from small to large once more.
        size = share if update >= 0 else (update + s.imitation) / s.imitation
        cases = (draw or draw_batch)(s, seed, update + s.imitation, size)
        by = EXPERT if update < 0 else SAMPLED
        _improve(
            module,
            adam,
            cases,
            s,
            generator(seed, "graph training", "plays", update + s.imitation),
            by,
            entropy=1 - 0.9 * share,
        )
        if update == 0 or (update > 0 and (update + 1) % s.every == 0) or update == s.updates - 1:
            scores = scorer.score(TrainedGraph(kind, kind, module.network(), {}))
            curve.append({"update": float(update + 1), **scores})
            if progress is not None:
                progress(curve[-1])
            if scores.get("all", -math.inf) < best or not scores:
                best, best_arrays = scores.get("all", math.inf), module.arrays()
    training = {
        "algorithm": "imitation, then REINFORCE (weft.learn.workflow.graph)",
        "seed": seed,
        "cpu_seconds": round(time.process_time() - began, 1),
        "settings": asdict(s),
        "curve": curve,
    }
    return TrainedGraph(kind, kind, graph_network_of(best_arrays), training)


def _improve(
    module: GraphModule,
    adam: torch.optim.Optimizer,
    cases: list[Instance],
    s: GraphSettings,
    rng: np.random.Generator,
    by: int,
    *,
    entropy: float,
) -> None:
    network = module.network()
    done = [
        run_instance(case, network, module.kind, rng, times=s.runs if by == SAMPLED else 1, by=by)
        for case in cases
    ]
    kept = [
        (case, runs, graph)
        for case, (runs, graph) in zip(cases, done, strict=True)
        if any(len(p.time) for p in runs)
    ]
    if not kept:
        return
    forest = make_forest([case for case, _, _ in kept], [graph for _, _, graph in kept])
    batch = make_batch([case for case, _, _ in kept], [runs for _, runs, _ in kept], forest)
    likelihood, spread = order_likelihood(module(forest, batch), batch)
    if by == EXPERT:
        loss = -likelihood.mean()
    else:
        parts = [advantage for case, runs, _ in kept for advantage in advantages(case, runs)]
        advantage = torch.from_numpy(np.concatenate(parts).astype(np.float32))
        loss = (
            -(likelihood * advantage / (advantage.std() + 1e-8)).mean()
            - s.entropy * entropy * spread.mean()
        )
    adam.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(module.parameters(), s.clip)
    adam.step()


def draw_batch(s: GraphSettings, seed: int, update: int, share: float) -> list[Instance]:
    """Draw one instance of each condition; sizes grow with the share of the training."""
    rng = generator(seed, "graph training", "cases", update)
    low, high = (round(a + (b - a) * share) for a, b in zip(s.small, s.large, strict=True))
    cases = []
    for name, condition in CONDITIONS.items():
        jobs = round(s.jobs[0] + (s.jobs[1] - s.jobs[0]) * share) if condition.stream else 1
        ccr, load = (
            float(np.exp(rng.uniform(np.log(0.1), np.log(5.0)))),
            float(rng.uniform(0.6, 0.95)),
        )
        cases.append(
            draw_instance(
                name,
                seed=int(rng.integers(VALIDATION)),
                tasks=(low, high),
                jobs=jobs,
                ccr=ccr,
                load=load,
            )
        )
    return cases


class GraphScorer:
    """Score of networks on fixed instances, over that of `heft-replanned`.

    It is the makespan of a workflow, and the mean completion time of a stream.
    """

    def __init__(self, cases: Sequence[Instance]) -> None:
        self.cases = list(cases)
        self.reference = [self._cost(case, "heft-replanned") for case in self.cases]

    def score(self, learned: TrainedGraph) -> dict[str, float]:
        """Return the mean ratio over single workflows, over streams, and over all."""
        if not self.cases:
            return {}
        ratio = np.array(
            [
                self._cost(case, GraphPolicy(learned)) / usual
                for case, usual in zip(self.cases, self.reference, strict=True)
            ]
        )
        streams = np.array([case.workload.jobs > 1 for case in self.cases])
        parts = {"workflows": ratio[~streams], "streams": ratio[streams], "all": ratio}
        return {name: float(values.mean()) for name, values in parts.items() if len(values)}

    @staticmethod
    def _cost(case: Instance, policy: str | GraphPolicy) -> float:
        decider = POLICIES.create(policy) if isinstance(policy, str) else policy
        trace = simulate(case.workload, decider, scenario=case.scenario)
        return float(trace.jct if case.workload.jobs > 1 else trace.makespan)


def validation_instances(*, each: int = 18) -> list[Instance]:
    """Draw `each` validation instances of every condition, with CCR 0.1, 1 and 5."""
    cases = []
    for name, condition in CONDITIONS.items():
        for k in range(each):
            ccr = (0.1, 1.0, 5.0)[k % 3]
            cases.append(
                draw_instance(
                    name,
                    seed=VALIDATION + k,
                    tasks=(20, 80),
                    jobs=10 if condition.stream else 1,
                    ccr=ccr,
                    load=0.85,
                )
            )
    return cases
