"""Policy gradients for the graph networks of `weft.policies.graph.network`: REINFORCE, the whole loop in one file.

Williams (1992) with the baseline of Mao et al. (SIGCOMM 2019, section 5.3): a case (a workload and its future) is played several times,
and a choice is judged by what followed it, compared with the average over the plays of the same case at the same time: arrivals and
failures, which no choice can help, cancel out. What follows counts as the seconds jobs still spend in the system: for a single workflow
its makespan, for a stream the sum of completion times. Cases are drawn from all conditions, small ones first. Before that the network
learns to order as a rule does (the job with the least work left first, in it the highest upward rank), so that it starts from something
sensible. Advantages are relative to the case's own mean, so that long and short cases count alike.

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
from weft.learn.workflow.graph_episodes import SAMPLED, TEACHER, Episode, play_case
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.networks import CLIP, Numbers
from weft.policies.graph.network import GraphNetwork, GraphState, graph_network_of, layer_sizes
from weft.policies.graph.policy import GraphPolicy, TrainedGraph
from weft.policies.policy import POLICIES
from weft.rng import generator
from weft.sim.simulate import simulate

VALIDATION = 900_000
"""Seeds of training cases are below this, those of validation cases from here on, those of evaluations from 1,000,000 on."""

FAR = -1e9
"""Rating of a place that holds no task."""


@dataclass(frozen=True)
class GraphSettings:
    """How to train.

    `lessons` updates of imitation, then `updates` of REINFORCE; every update draws one case of each condition and plays it `plays` times.
    Entropy is rewarded by `entropy` at first, a tenth of it at the end; sizes grow from `small` to `large` tasks.
    """

    updates: int = 1500
    lessons: int = 400
    plays: int = 16
    rate: float = 4e-4
    lesson_rate: float = 3e-3
    entropy: float = 0.003
    small: tuple[int, int] = (20, 40)
    large: tuple[int, int] = (20, 110)
    jobs: tuple[int, int] = (6, 14)
    clip: float = 1.0
    every: int = 100
    """Updates between two looks at the validation cases."""


class GraphModule(nn.Module):
    """The torch twin of `GraphNetwork`."""

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
            self.parts[-1][-1].weight *= 0.1  # type: ignore[index]  # ratings begin nearly equal

    def apply_part(self, part: str, x: Tensor) -> Tensor:
        """One of the eight networks."""
        layers = list(self.parts[GraphNetwork._fields.index(part)].children())
        x = x.clamp(-float(CLIP), float(CLIP))
        for k, layer in enumerate(layers):
            x = layer(torch.relu(x) if k else x)
        return x

    def arrays(self) -> dict[str, Numbers]:
        """Return the arrays `graph_network_of` takes."""
        named = {}
        for name, value in self.named_parameters():
            _, part, rest = name.split(".", 2)
            named[f"{GraphNetwork._fields[int(part)]}.{rest}"] = value.detach().numpy().copy()
        return named

    def network(self) -> GraphNetwork:
        """Return what compiled code takes."""
        return graph_network_of(self.arrays())

    def embed(self, forest: JobForest) -> tuple[Tensor, Tensor]:
        """Return e and job_message([prepare(x), e]) of all tasks, level by level from the leaves."""
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
        told = self.apply_part("all_message", job)
        whole = (
            torch.zeros(len(batch.time), told.shape[1]).index_add(0, batch.pair_event, told)
            / batch.here[:, None]
        )
        whole = self.apply_part("all_update", whole)
        row = torch.cat(
            (batch.seen, embedding[batch.row_task], job[batch.row_pair], whole[batch.row_event]),
            dim=1,
        )
        return self.apply_part("score", row).squeeze(1)


class JobForest(NamedTuple):
    """The task graphs of some cases, tasks sorted by height above the leaves: level k ends at `levels[k]`.

    `parent[k]` and `child[k]` are the edges out of level k + 1 (the parent counted from the level's first), `children[k]` how many each
    has. `where` gives each case's tasks their place.
    """

    given: Tensor
    levels: list[int]
    parent: list[Tensor]
    child: list[Tensor]
    children: list[Tensor]
    where: list[IntArray]


def make_forest(cases: Sequence[Instance], boards: Sequence[GraphState]) -> JobForest:
    """Sort the tasks of all cases by height."""
    starts = np.concatenate(([0], np.cumsum([len(b.order) for b in boards]))).astype(np.int64)
    src, dst = [], []
    for case, first in zip(cases, starts[:-1].tolist(), strict=True):
        at = first
        for problem in case.workload.problems:
            src.append(problem.workflow.src + at)
            dst.append(problem.workflow.dst + at)
            at += problem.n
    source, target = np.concatenate(src), np.concatenate(dst)
    height = _heights(boards, starts, source, target)
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
    given = torch.from_numpy(np.concatenate([b.given for b in boards])[order])
    return JobForest(
        given, levels, parent, child, children, [place[a:b] for a, b in pairwise(starts.tolist())]
    )


def _heights(
    boards: Sequence[GraphState], starts: IntArray, source: IntArray, target: IntArray
) -> IntArray:
    height = np.zeros(int(starts[-1]), np.int64)
    by_source = np.argsort(source, kind="stable")
    begin = np.searchsorted(source[by_source], np.arange(len(height) + 1))
    for board, first in zip(boards, starts[:-1].tolist(), strict=True):
        for g in (board.order + first).tolist():  # children first
            below = target[by_source[begin[g] : begin[g + 1]]]
            height[g] = height[below].max() + 1 if len(below) else 0
    return height


class Batch(NamedTuple):
    """The choices of many episodes, as tensors; see `Log` for events, rows and pairs.

    `finishing` lists tasks job by job in the order they finished, over all episodes; what is left of a pair's job stands there from
    `job_begin` to `job_end`.
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
    cases: Sequence[Instance], episodes: Sequence[Sequence[Episode]], forest: JobForest
) -> Batch:
    """Put all episodes of all cases behind one another."""
    parts: dict[str, list[Any]] = {name: [] for name in Batch._fields}
    events = pairs = tasks = 0
    for case, where, plays in zip(cases, forest.where, episodes, strict=True):
        workload = case.workload
        first = workload.first_instance
        starts = np.concatenate(([0], np.cumsum([p.n for p in workload.problems]))).astype(np.int64)
        job_of = np.repeat(np.arange(workload.jobs), np.diff(first))
        task_of = where[
            np.arange(workload.instances) - first[job_of] + starts[workload.template[job_of]]
        ]
        for play in plays:
            order = np.lexsort((play.finished_at, job_of))
            parts["finishing"].append(task_of[order])
            parts["time"].append(play.time)
            parts["placed"].append(play.placed)
            parts["here"].append(
                np.bincount(play.pair_event, minlength=len(play.time)).astype(np.float32)
            )
            parts["row_event"].append(play.row_event + events)
            parts["row_task"].append(task_of[play.row_instance])
            parts["row_pair"].append(play.row_pair + pairs)
            parts["place"].append(play.place)
            parts["seen"].append(play.seen)
            parts["pair_event"].append(play.pair_event + events)
            parts["job_begin"].append(tasks + first[play.pair_job] + play.done)
            parts["job_end"].append(tasks + first[play.pair_job + 1])
            parts["job_size"].append(np.diff(first)[play.pair_job].astype(np.float32))
            events, pairs, tasks = (
                events + len(play.time),
                pairs + len(play.pair_event),
                tasks + workload.instances,
            )
    return Batch(*(torch.from_numpy(np.concatenate(parts[name])) for name in Batch._fields))


def order_likelihood(score: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """(events,) log-probability of the orders drawn, as far as tasks were placed; and the entropy of the first choice."""
    events, width = len(batch.time), int(batch.place.max()) + 1
    table = torch.full((events, width), FAR).index_put((batch.row_event, batch.place), score)
    left = torch.logcumsumexp(table.flip(1), dim=1).flip(1)
    counts = torch.arange(width)[None, :] < batch.placed[:, None]
    log_choice = torch.log_softmax(table, dim=1)
    return ((table - left) * counts).sum(1), -(log_choice.exp() * log_choice).sum(1)


def advantages(case: Instance, plays: Sequence[Episode]) -> list[FloatArray]:
    """For every event of every play: how much sooner than on average, from that time on, jobs left; as a share of a whole play."""
    arrival = case.workload.arrival

    def ahead(play: Episode, time: FloatArray) -> FloatArray:
        later = np.maximum(time[:, None], arrival[None, :])
        return np.asarray(np.maximum(play.job_finish[None, :] - later, 0.0).sum(axis=1))

    scale = max(float(np.mean([(play.job_finish - arrival).sum() for play in plays])), 1e-300)
    found = []
    for play in plays:
        usual = np.mean([ahead(other, play.time) for other in plays], axis=0)
        found.append((usual - ahead(play, play.time)) / scale)
    return found


# -- the loop ----------------------------------------------------------------


def train_graph(
    kind: str,
    *,
    settings: GraphSettings | None = None,
    seed: int = 0,
    validation: Sequence[Instance] = (),
    draw: Callable[[GraphSettings, int, int, float], list[Instance]] | None = None,
    note: Callable[[dict[str, float]], None] | None = None,
) -> TrainedGraph:
    """Train a graph network of a kind ("decima" or "lachesis"); the one that did best on the validation cases is returned.

    Without validation cases it is the last one. `draw` makes the cases of an update from (settings, seed, update, progress); by default
    one of each condition.
    """
    s, began = settings or GraphSettings(), time.process_time()
    torch.set_num_threads(1)
    module = GraphModule(kind, seed)
    judge = GraphJudge(validation)
    curve: list[dict[str, float]] = []
    best, best_arrays = math.inf, module.arrays()
    adam = torch.optim.Adam(module.parameters(), lr=s.lesson_rate)
    for update in range(-s.lessons, s.updates):
        progress = max(update, 0) / max(s.updates - 1, 1)
        if update == 0:
            adam = torch.optim.Adam(module.parameters(), lr=s.rate)
        for group in adam.param_groups:
            group["lr"] = (s.lesson_rate if update < 0 else s.rate) * (1 - 0.9 * progress)
        size = (
            progress if update >= 0 else (update + s.lessons) / s.lessons
        )  # lessons of all sizes; then from small to large once more
        cases = (draw or draw_cases)(s, seed, update + s.lessons, size)
        who = TEACHER if update < 0 else SAMPLED
        _improve(
            module,
            adam,
            cases,
            s,
            generator(seed, "graph training", "plays", update + s.lessons),
            who,
            entropy=1 - 0.9 * progress,
        )
        if update == 0 or (update > 0 and (update + 1) % s.every == 0) or update == s.updates - 1:
            scores = judge.score(TrainedGraph(kind, kind, module.network(), {}))
            curve.append({"update": float(update + 1), **scores})
            if note is not None:
                note(curve[-1])
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
    who: int,
    *,
    entropy: float,
) -> None:
    network = module.network()
    played = [
        play_case(case, network, module.kind, rng, times=s.plays if who == SAMPLED else 1, who=who)
        for case in cases
    ]
    kept = [
        (case, plays, board)
        for case, (plays, board) in zip(cases, played, strict=True)
        if any(len(p.time) for p in plays)
    ]
    if not kept:
        return
    forest = make_forest([case for case, _, _ in kept], [board for _, _, board in kept])
    batch = make_batch([case for case, _, _ in kept], [plays for _, plays, _ in kept], forest)
    likelihood, spread = order_likelihood(module(forest, batch), batch)
    if who == TEACHER:
        loss = -likelihood.mean()
    else:
        parts = [advantage for case, plays, _ in kept for advantage in advantages(case, plays)]
        advantage = torch.from_numpy(np.concatenate(parts).astype(np.float32))
        loss = (
            -(likelihood * advantage / (advantage.std() + 1e-8)).mean()
            - s.entropy * entropy * spread.mean()
        )
    adam.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(module.parameters(), s.clip)
    adam.step()


def draw_cases(s: GraphSettings, seed: int, update: int, progress: float) -> list[Instance]:
    """One case of each condition; the longer the training, the larger."""
    rng = generator(seed, "graph training", "cases", update)
    low, high = (round(a + (b - a) * progress) for a, b in zip(s.small, s.large, strict=True))
    cases = []
    for name, condition in CONDITIONS.items():
        jobs = round(s.jobs[0] + (s.jobs[1] - s.jobs[0]) * progress) if condition.stream else 1
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


class GraphJudge:
    """Scores networks on fixed cases: makespan of a workflow, or mean completion time in a stream, over that of HEFT planned anew."""

    def __init__(self, cases: Sequence[Instance]) -> None:
        self.cases = list(cases)
        self.usual = [self._cost(case, "heft-replanned") for case in self.cases]

    def score(self, learned: TrainedGraph) -> dict[str, float]:
        """Mean ratio over single workflows, over streams, and over all."""
        if not self.cases:
            return {}
        ratio = np.array(
            [
                self._cost(case, GraphPolicy(learned)) / usual
                for case, usual in zip(self.cases, self.usual, strict=True)
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


def validation_cases(*, each: int = 18) -> list[Instance]:
    """Cases no training and no evaluation draws: `each` of every condition, with CCR 0.1, 1 and 5 in turn."""
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
