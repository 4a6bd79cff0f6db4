"""The network of `deepsched` in torch, and its training to imitate HEFT."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.learn.imitation.deepsched.data import problem_stream
from weft.learn.imitation.deepsched.examples import RankExample, example_batches
from weft.learn.settings import Count, Positive, Settings
from weft.model import Problem
from weft.planners.imitation.deepsched.features import PAIR_FEATURES, TASK_FEATURES
from weft.planners.imitation.deepsched.network import HEADS, DeepNetwork, network_of
from weft.planners.imitation.deepsched.planner import plan_rows
from weft.planners.planner import plan
from weft.progress import Progress, silent
from weft.typed import typed_dataclass

VALIDATION, PROBLEMS = 10_000_000, 40
"""Seed of the validation problems, which no training uses, and their number."""


class DeepNet(nn.Module):
    """Encoder of tasks and scorer of devices.

    Compiled code evaluates them: `planners/imitation/deepsched/network.py`.
    """

    def __init__(self, mean: Any, deviation: Any, *, wide: int = 32, hidden: int = 16) -> None:
        super().__init__()
        features = len(TASK_FEATURES)
        self.register_buffer("mean", torch.as_tensor(np.asarray(mean, np.float32)))
        self.register_buffer(
            "scale",
            torch.as_tensor((1.0 / np.maximum(np.asarray(deviation), 1e-3)).astype(np.float32)),
        )
        self.first, self.second = nn.Linear(features, wide), nn.Linear(wide, wide)
        self.out = nn.Linear(wide, HEADS + hidden)
        self.skip = nn.Linear(features, HEADS + hidden, bias=False)
        self.pair = nn.Linear(len(PAIR_FEATURES), hidden, bias=False)
        self.vote = nn.Linear(hidden, 1, bias=False)
        self.direct = nn.Linear(len(PAIR_FEATURES), 1, bias=False)
        nn.init.zeros_(self.skip.weight)

    def encode(self, tasks: Tensor) -> tuple[Tensor, Tensor]:
        """Map (n, features) to (n, 3) priority, start and finish, and (n, hidden) context."""
        x = (tasks - self.get_buffer("mean")) * self.get_buffer("scale")
        out = self.out(torch.relu(self.second(torch.relu(self.first(x))))) + self.skip(x)
        return out[:, :HEADS], out[:, HEADS:]

    def score(self, context: Tensor, pairs: Tensor) -> Tensor:
        """Map (k, hidden) and (k, pair features, p) to scores (k, p)."""
        hidden = torch.relu(context[:, :, None] + torch.matmul(self.pair.weight, pairs))
        vote, direct = self.vote.weight, self.direct.weight
        return (torch.matmul(vote, hidden) + torch.matmul(direct, pairs))[:, 0]

    def network(self) -> DeepNetwork:
        """Return the arrays for compiled code."""

        def numbers(tensor: Tensor) -> Any:
            return tensor.detach().cpu().numpy().astype(np.float32)

        return network_of(
            {
                "mean": numbers(self.get_buffer("mean")),
                "scale": numbers(self.get_buffer("scale")),
                "first": numbers(self.first.weight).T,
                "first_bias": numbers(self.first.bias),
                "second": numbers(self.second.weight).T,
                "second_bias": numbers(self.second.bias),
                "out": numbers(self.out.weight).T,
                "skip": numbers(self.skip.weight).T,
                "out_bias": numbers(self.out.bias),
                "pair": numbers(self.pair.weight),
                "vote": numbers(self.vote.weight)[0],
                "direct": numbers(self.direct.weight)[0],
            }
        )


@typed_dataclass(frozen=True, kw_only=True)
class DeepSchedSettings(Settings, noun="deepsched"):
    """Training settings.

    Attributes
    ----------
    batches : number of batches, each of about 40,000 task-device pairs from 12 new problems
    learning_rate : initial rate of Adam; it falls to a hundredth along a cosine
    times : weight of the squared errors (priority, start, finish) beside the cross entropy
    validate : batches between validations
    """

    batches: Count = 650
    learning_rate: Positive = 1e-2
    times: float = 10.0
    wide: Count = 32
    hidden: Count = 16
    validate: Count = 100
    largest: Count = 2000


@dataclass
class DeepSchedProgress:
    """State and result of a training."""

    settings: DeepSchedSettings
    seed: int
    batches: int = 0
    score: float = float("nan")
    best: DeepNetwork | None = None
    interrupted: bool = False
    cpu_seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return plain values for the card."""
        return {
            "teacher": "heft",
            "data": "weft.learn.imitation.deepsched.examples.example_batches (generated)",
            "seed": self.seed,
            "batches": self.batches,
            "cpu_seconds": round(self.cpu_seconds, 1),
            "score": None if np.isnan(self.score) else round(self.score, 6),
            "score_means": "mean turnaround, HEFT's or the network's, the larger over the "
            "smaller: geometric mean over validation problems",
            "interrupted": self.interrupted,
            "settings": asdict(self.settings),
            "curve": self.curve,
        }


def train(
    settings: DeepSchedSettings | None = None,
    *,
    seed: int = 0,
    examples: Iterator[RankExample] | None = None,
    progress: Progress[DeepSchedProgress] = silent,
) -> DeepSchedProgress:
    """Train on examples from HEFT, drawn as needed if none are given.

    The network closest to HEFT in a validation is kept, also after a `KeyboardInterrupt`.
    """
    s = settings or DeepSchedSettings()
    result = DeepSchedProgress(s, seed)
    torch.manual_seed(seed)
    source = example_batches(seed, largest=s.largest) if examples is None else examples
    begin = time.process_time()
    rows = np.concatenate([example.tasks for example in islice(source, 8)])
    net = DeepNet(rows.mean(axis=0), rows.std(axis=0), wide=s.wide, hidden=s.hidden)
    optimiser = torch.optim.Adam(net.parameters(), lr=s.learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimiser, s.batches, eta_min=s.learning_rate / 100
    )
    validation = list(islice(problem_stream(VALIDATION, largest=1000), PROBLEMS))
    try:
        for example in islice(source, s.batches):
            losses = update(net, optimiser, example, s)
            falling.step()
            result.batches += 1
            result.cpu_seconds = time.process_time() - begin
            if result.batches % s.validate == 0 or result.batches == s.batches:
                _validate(result, net.network(), validation, losses)
            progress(result)
    except KeyboardInterrupt:
        result.interrupted = True
    if result.best is None:
        result.best = net.network()
    return result


def update(
    net: DeepNet,
    optimiser: torch.optim.Optimizer,
    example: RankExample,
    settings: DeepSchedSettings,
) -> dict[str, float]:
    """Take one step of Adam; return both losses and the share of agreement with HEFT."""
    tasks, targets, pairs = (torch.as_tensor(column) for column in example[:3])
    can, good = torch.as_tensor(example.can), torch.as_tensor(example.good)
    heads, context = net.encode(tasks)
    score = net.score(context, pairs).masked_fill(~can, -torch.inf)
    # All devices with the earliest finish are right, so their probabilities add up.
    right = torch.logsumexp(score.masked_fill(~good, -torch.inf), 1)
    machine = (torch.logsumexp(score, 1) - right).mean()
    times = nn.functional.mse_loss(heads, targets)
    optimiser.zero_grad()
    (machine + settings.times * times).backward()  # type: ignore[no-untyped-call]  # of torch
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    met = good.gather(1, score.argmax(1, keepdim=True)).float().mean()
    return {"cross_entropy": machine.item(), "squared_error": times.item(), "agreement": met.item()}


def turnaround_ratio(problem: Problem, network: DeepNetwork) -> float:
    """Return the network's mean turnaround over HEFT's; all tasks arrive at 0."""
    heft = float(np.mean(plan(problem, "heft").schedule.finish))
    return float(np.mean(plan_rows(problem, network).finish)) / heft


def _validate(
    result: DeepSchedProgress,
    network: DeepNetwork,
    validation: list[Problem],
    losses: dict[str, float],
) -> None:
    logs = [np.log(turnaround_ratio(problem, network)) for problem in validation]
    score = float(np.exp(np.mean(np.abs(logs))))
    now = {
        "batches": result.batches,
        "cpu_seconds": round(result.cpu_seconds, 1),
        "score": round(score, 6),
    }
    now["turnaround_over_heft"] = round(float(np.exp(np.mean(logs))), 6)
    result.curve.append(now | {name: round(loss, 6) for name, loss in losses.items()})
    if not result.score <= score:
        result.score, result.best = score, network
