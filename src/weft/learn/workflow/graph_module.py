"""The graph network in torch, on batches of decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.generators.instances import Instance
from weft.learn.workflow.graph_episodes import EpisodeLog
from weft.model.columns import IntArray, Numbers, offsets
from weft.policies.conditional.networks import CLIP
from weft.policies.graph.network import GraphNetwork, graph_network_of, layer_sizes
from weft.policies.graph.passes import GraphState

NO_TASK = -1e9
"""Rating of a place without a task."""


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
    starts = offsets([len(b.order) for b in graphs])
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
        starts = offsets([p.n for p in workload.problems])
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
