"""DeepSchedProgress the network of `deepsched`: the whole loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from weft.formats.model_file import Numbers
from weft.learn.imitation.deepsched.data import problem_stream
from weft.learn.imitation.deepsched.examples import RankExample, lesson_stream
from weft.learn.imitation.deepsched.networks import DeepNet
from weft.model import Problem
from weft.planners.imitation.deepsched.network import DeepNetwork
from weft.planners.imitation.deepsched.planner import plan_rows
from weft.planners.planner import plan

VALIDATION = 10_000_000
"""Seed of the problems that checkpoints are compared on: no training begins there."""


@dataclass(frozen=True, kw_only=True)
class DeepSchedSettings:
    """How to train.

    Attributes
    ----------
    batches : how many; each from 12 new problems, of about 40,000 pairs of task and device
    learning_rate : of Adam, at the start; it falls to a hundredth along a cosine
    times : weight of the squared errors (priority, start, finish) beside the cross entropy of the machine
    validate : batches between comparisons with HEFT
    """

    batches: int = 650
    learning_rate: float = 1e-2
    times: float = 10.0
    wide: int = 32
    hidden: int = 16
    validate: int = 100
    largest: int = 2000


@dataclass
class DeepSchedProgress:
    """A training so far."""

    settings: DeepSchedSettings
    seed: int
    batches: int = 0
    score: float = float("nan")
    best: DeepNetwork | None = None
    interrupted: bool = False
    cpu_seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return how it was trained, as plain values."""
        return {
            "teacher": "heft",
            "data": "weft.learn.imitation.deepsched.examples.lesson_stream (generated; no file is read)",
            "seed": self.seed,
            "batches": self.batches,
            "cpu_seconds": round(self.cpu_seconds, 1),
            "score": None if np.isnan(self.score) else round(self.score, 6),
            "score_means": "mean turnaround, HEFT's or the network's, the larger over the smaller: geometric mean over validation problems",
            "interrupted": self.interrupted,
            "settings": asdict(self.settings),
            "curve": self.curve,
        }


def train(
    settings: DeepSchedSettings | None = None,
    *,
    seed: int = 0,
    lessons: Iterator[RankExample] | None = None,
    watch: Callable[[DeepSchedProgress], None] | None = None,
) -> DeepSchedProgress:
    """Train on lessons from HEFT (drawn as needed if none are given); the network closest to HEFT in a validation is kept.

    An interrupt ends the training; what was best so far is kept.
    """
    told = settings or DeepSchedSettings()
    made = DeepSchedProgress(told, seed)
    torch.manual_seed(seed)
    source = lesson_stream(seed, largest=told.largest) if lessons is None else lessons
    begin = time.process_time()
    warm = list(islice(source, 8))
    seen = np.concatenate([lesson.tasks for lesson in warm])
    net = DeepNet(seen.mean(axis=0), seen.std(axis=0), wide=told.wide, hidden=told.hidden)
    optimiser = torch.optim.Adam(net.parameters(), lr=told.learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimiser, told.batches, eta_min=told.learning_rate / 100
    )
    trials = validation_problems()
    try:
        for lesson in islice(source, told.batches):
            losses = update(net, optimiser, lesson, told)
            falling.step()
            made.batches += 1
            made.cpu_seconds = time.process_time() - begin
            if made.batches % told.validate == 0 or made.batches == told.batches:
                _validate(made, net.network(), trials, losses)
            if watch is not None:
                watch(made)
    except KeyboardInterrupt:
        made.interrupted = True
    if made.best is None:
        made.best = net.network()
    return made


def update(
    net: DeepNet, optimiser: torch.optim.Optimizer, lesson: RankExample, told: DeepSchedSettings
) -> dict[str, float]:
    """One step of Adam: cross entropy of the machine, squared error of the times. Returns both, and how often HEFT's choice was met."""
    tasks, targets, pairs = (torch.as_tensor(column) for column in lesson[:3])
    can, good = torch.as_tensor(lesson.can), torch.as_tensor(lesson.good)
    heads, context = net.encode(tasks)
    score = net.score(context, pairs).masked_fill(~can, -torch.inf)
    # Machines that end equally early are equally right: their probabilities add up.
    machine = (
        torch.logsumexp(score, 1) - torch.logsumexp(score.masked_fill(~good, -torch.inf), 1)
    ).mean()
    times = nn.functional.mse_loss(heads, targets)
    optimiser.zero_grad()
    (machine + told.times * times).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    met = good.gather(1, score.argmax(1, keepdim=True)).float().mean()
    return {"cross_entropy": machine.item(), "squared_error": times.item(), "agreement": met.item()}


def validation_problems(count: int = 40) -> list[Problem]:
    """Problems no training sees."""
    return list(islice(problem_stream(VALIDATION, largest=1000), count))


def mean_turnaround(finish: Numbers) -> float:
    """Mean over tasks of their finish: they all arrive at 0."""
    return float(np.mean(finish))


def turnaround_ratio(problem: Problem, network: DeepNetwork) -> float:
    """Mean turnaround of the network's plan over that of HEFT's."""
    heft = mean_turnaround(plan(problem, "heft").schedule.finish)
    return mean_turnaround(plan_rows(problem, network).finish) / heft


def _validate(
    made: DeepSchedProgress, network: DeepNetwork, trials: list[Problem], losses: dict[str, float]
) -> None:
    logs = [np.log(turnaround_ratio(problem, network)) for problem in trials]
    score = float(np.exp(np.mean(np.abs(logs))))
    now = {
        "batches": made.batches,
        "cpu_seconds": round(made.cpu_seconds, 1),
        "score": round(score, 6),
    }
    now["turnaround_over_heft"] = round(float(np.exp(np.mean(logs))), 6)
    made.curve.append(now | {name: round(loss, 6) for name, loss in losses.items()})
    if not made.score <= score:
        made.score, made.best = score, network
