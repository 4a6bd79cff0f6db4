"""Learning from rollouts: a network takes over what a step of look-ahead (`policies/conditional/rollout.py`) finds, at the price of a network.

Rollout classification (Lagoudakis and Parr 2003) with costs: the network plays; at every other step, its choice and the choices with
one unit's action changed are carried out in the same imagined futures, and the tuned index plays on. What a choice costs more or less
than the network's own is an advantage with little noise, for all choices of a step at once, where a policy gradient has one noisy one. The
network then moves to where its choices, drawn by its own probabilities, would cost least. The next round begins with what came of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.errors import InvalidInput
from weft.learn.conditional.index import first_weights
from weft.learn.conditional.training import GRID, JOBS, VALIDATION
from weft.learn.ppo import FORBIDDEN, ActorCritic, follow
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import options_of, play, watched_task, with_first
from weft.policies.conditional.files import Learned
from weft.policies.conditional.index import index_names, load_index
from weft.policies.conditional.networks import Numbers, arrays_of, network_of
from weft.policies.conditional.rollout import (
    ROOM,
    Proposer,
    RolloutBudget,
    RolloutBuffers,
    gather_candidates,
    make_proposer,
    make_trials,
    pick,
    try_candidates,
)
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.sampled_future import FutureSampler, imagine
from weft.rng import generator
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.step import BatchTables, act, state_of, proceed, sim_of

DRAWN = 30_000_000
"""Draws to learn from begin here: far from those of trainings, validations and evaluations."""
KEPT = 16
"""Choices of a step that are kept; steps with more are left out."""
WARM = 50
"""Jobs before the first step that is kept."""


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """What the loop can be told.

    Parameters
    ----------
    rounds : how often the network plays, and learns from what rollouts say of it
    steps : that are looked at in each round, in runs of `jobs` jobs, each in `futures` futures with `ahead` jobs still to come
    epochs : passes over all that was seen so far; `rate` is the first learning rate, 0 the last, `batch` the size of a batch
    validation : draws for each probability by which networks are compared
    """

    rounds: int = 3
    steps: int = 70_000
    jobs: int = 1200
    futures: int = 16
    ahead: int = 6
    epochs: int = 16
    rate: float = 1e-3
    batch: int = 2048
    validation: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name, least in (
            ("rounds", 1),
            ("steps", 1),
            ("jobs", WARM + 1),
            ("futures", 2),
            ("ahead", 1),
            ("epochs", 1),
            ("batch", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidInput(
                    f"lessons: {name} is {getattr(self, name)}; it must be {least} or more"
                )


class Seen(NamedTuple):
    """Steps that were looked at, and what their choices cost in job ticks, less the network's own."""

    observation: Numbers  # (steps, numbers)
    mask: BoolArray  # (steps, units, kinds + 1)
    ready: IntArray  # (steps, kinds)
    action: IntArray  # (steps, KEPT, units)
    cost: FloatArray  # (steps, KEPT)
    size: IntArray  # (steps,) choices

    def part(self, begin: int, end: int) -> Seen:
        """Some of the steps."""
        cut = slice(begin, end)
        return Seen(
            self.observation[cut],
            self.mask[cut],
            self.ready[cut],
            self.action[cut],
            self.cost[cut],
            self.size[cut],
        )


def _together(parts: list[Seen]) -> Seen:
    return Seen(
        np.concatenate([part.observation for part in parts]),
        np.concatenate([part.mask for part in parts]),
        np.concatenate([part.ready for part in parts]),
        np.concatenate([part.action for part in parts]),
        np.concatenate([part.cost for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def improve(
    stream: ConditionalStream,
    policy: Learned,
    lessons: Lessons | None = None,
    *,
    watch: Callable[[dict[str, float]], None] = lambda row: None,  # noqa: ARG005
) -> Learned:
    """Return a network that has learned from rollouts; the one given, where none is better on draws kept for that."""
    lessons = lessons or Lessons()
    torch.set_num_threads(1)
    torch.manual_seed(lessons.seed)
    began = time.process_time()
    pupil = _Pupil(policy, stream, lessons)
    best = start = pupil.score()
    kept, curve, parts = pupil.network(), list[dict[str, float]](), list[tuple[Seen, FloatArray]]()
    for number in range(lessons.rounds):
        parts.append(_look(stream, replace(policy, network=kept), lessons, number))
        for epoch, mean in enumerate(pupil.learn(parts, number)):
            if (epoch + 1) % max(lessons.epochs // 4, 1) == 0:
                score = pupil.score()
                row = {
                    "round": float(number + 1),
                    "epoch": float(epoch + 1),
                    "cost": mean,
                    "score": score,
                    "gain": score - start,
                }
                curve.append(row | {"cpu_seconds": round(time.process_time() - began, 1)})
                watch(curve[-1])
                if score < best:
                    best, kept = score, pupil.network()
        pupil.begin_with(arrays_of(kept))
    record = {
        "method": "rollout classification (weft.learn.conditional.rollout_imitation)",
        "start": start,
        "score": best,
        **asdict(lessons),
    }
    record |= {
        "cpu_seconds": round(time.process_time() - began, 1),
        "curve": [{k: round(v, 6) for k, v in row.items()} for row in curve],
    }
    return replace(policy, network=kept, training=policy.training | {"lessons": record})


# -- looking -------------------------------------------------------------------------


def index_for(stream: ConditionalStream, fleet: StepBatch) -> ConditionalRule:
    """Return the index that plays on: the tuned one, or where there is none for the stream, what a tuning would begin with."""
    return (
        load_index(stream.name)
        if stream.name in index_names()
        else ConditionalRule("index", first_weights(fleet))
    )


def _look(
    stream: ConditionalStream, policy: Learned, lessons: Lessons, number: int
) -> tuple[Seen, FloatArray]:
    """Play, and try other choices; with each step the probability it was played at."""
    short = stream.with_jobs(lessons.jobs)
    fleet = StepBatch(short, 1, options_of(policy))
    weights = index_for(stream, fleet).weights
    seed = lessons.seed * 100 + number
    mind, proposer, trials = (
        imagine(short, fleet, room=ROOM, seed=seed),
        make_proposer(policy, fleet),
        make_trials(fleet.units),
    )
    rng = generator(seed, "rollout lessons")
    effort = RolloutBudget(lessons.ahead, lessons.futures, lessons.futures, 1.0)
    seen, probability, at, run = _room(fleet, lessons.steps), np.zeros(lessons.steps), 0, 0
    while at < lessons.steps:
        variant, p = _variant(short, policy, rng, run)
        fleet.place(0, *variant.draw_ticks(DRAWN + seed * 100_000 + run))
        found = look(
            fleet.tables,
            mind,
            weights,
            proposer,
            trials,
            effort,
            run % 2 == 1,
            seen.part(at, lessons.steps),
        )
        probability[at : at + found] = p
        at, run = at + found, run + 1
    return seen, probability


def _variant(
    stream: ConditionalStream, policy: Learned, rng: np.random.Generator, run: int
) -> tuple[ConditionalStream, float]:
    """The stream as the policy was trained on it; of random probabilities, every eighth is an extreme one."""
    probability = policy.environment.get("probability", "own")
    if probability == "own":
        return stream, 0.5
    p = (
        float(probability)
        if probability != "random"
        else float(run // 8 % 2)
        if run % 8 == 0
        else float(rng.random())
    )
    return with_first(stream, watched_task(stream), p), p


def _room(fleet: StepBatch, steps: int) -> Seen:
    return Seen(
        np.zeros((steps, fleet.observation_size), np.float32),
        np.zeros((steps, fleet.units, fleet.kinds + 1), np.bool_),
        np.zeros((steps, fleet.kinds), np.int64),
        np.zeros((steps, KEPT, fleet.units), np.int64),
        np.zeros((steps, KEPT)),
        np.zeros(steps, np.int64),
    )


@njit_noalloc
def look(
    fleet: BatchTables,
    mind: FutureSampler,
    weights: FloatArray,
    proposer: Proposer,
    trials: RolloutBuffers,
    effort: RolloutBudget,
    follows: bool,
    seen: Seen,
) -> int:
    """Play one simulation and note every other step; where rollouts are followed, what they choose is done. Returns how many were noted."""
    sim, desk = sim_of(fleet, 0), state_of(fleet, 0)
    answer = proceed(sim, desk)
    noted, step = 0, 0
    while answer == MOMENT and noted < len(seen.size):
        best = 0
        step += 1
        candidates = gather_candidates(sim, desk, weights, proposer, trials)
        if 1 < candidates <= KEPT and sim.world[0].next_arrival >= WARM and step % 2 == 0:
            played = try_candidates(sim, desk, mind, weights, trials, candidates, effort)
            if played > 0:
                best = pick(trials, candidates, played, effort.doubt)
                _note(seen, noted, proposer, trials, candidates)
                for k in range(len(sim.kind)):
                    seen.ready[noted, k] = sim.kind[k].ready
                noted += 1
        act(sim, desk, trials.action[best if follows else 0])
        answer = proceed(sim, desk)
    return noted


@njit_noalloc
def _note(seen: Seen, at: int, proposer: Proposer, trials: RolloutBuffers, candidates: int) -> None:
    for i in range(len(proposer.seen)):
        seen.observation[at, i] = proposer.seen[i]
    for d in range(proposer.mask.shape[0]):
        for a in range(proposer.mask.shape[1]):
            seen.mask[at, d, a] = proposer.mask[d, a]
    for c in range(candidates):
        seen.cost[at, c] = trials.mean[c]
        for d in range(proposer.mask.shape[0]):
            seen.action[at, c, d] = trials.action[c, d]
    seen.size[at] = candidates


# -- learning ------------------------------------------------------------------------


class _Pupil:
    """The network that learns, with draws to judge it by."""

    def __init__(self, policy: Learned, stream: ConditionalStream, lessons: Lessons) -> None:
        self.policy, self.lessons = policy, lessons
        short = stream.with_jobs(min(JOBS, stream.jobs))
        probability = policy.environment.get("probability", "own")
        points = (
            ()
            if probability == "own"
            else GRID
            if probability == "random"
            else (float(probability),)
        )
        self.trials = [with_first(short, watched_task(short), p) for p in points] or [short]
        self.options = options_of(policy)
        self.capacity = np.array(stream.problem.cluster.batch, np.int64)
        sizes = policy.network.sizes.tolist()
        self.net = ActorCritic(
            sizes[0], sizes[0], policy.network.units, policy.network.actions, tuple(sizes[1:-1])
        )
        self.begin_with(arrays_of(policy.network))
        self.scale = self._times().mean(axis=1) if probability == "random" else None

    def begin_with(self, arrays: dict[str, Numbers]) -> None:
        """Be another network of the same sizes."""
        self.net.begin_with(arrays)

    def network(self) -> Any:
        """The network as it acts."""
        return network_of(
            {k: v.copy() for k, v in self.net.weights().items()},
            units=self.net.units,
            actions=self.net.actions,
        )

    def score(self) -> float:
        """Mean log of seconds a job takes."""
        return float(np.log(self._times()).mean())

    def _times(self) -> FloatArray:
        seeds = [VALIDATION + 1000 + i for i in range(self.lessons.validation)]
        network = self.network()
        return np.stack(
            [play(network, trial, seeds, options=self.options) for trial in self.trials]
        )

    def learn(self, parts: list[tuple[Seen, FloatArray]], number: int) -> Any:
        """Go over all that was seen; after each pass, yields the mean cost of what the network would choose."""
        seen = _together([part for part, _ in parts])
        cost, penalty, action = self._prepared(seen, np.concatenate([p for _, p in parts]))
        inputs = self.net.scaled(torch.from_numpy(seen.observation))
        rng = generator(self.lessons.seed * 100 + number, "rollout batches")
        optimiser = torch.optim.Adam(self.net.actor.parameters(), lr=self.lessons.rate)
        batches = max(len(cost) // self.lessons.batch, 1)
        for epoch in range(self.lessons.epochs):
            total = 0.0
            for b, pick_ in enumerate(np.array_split(rng.permutation(len(cost)), batches)):
                for group in optimiser.param_groups:
                    group["lr"] = self.lessons.rate * (
                        1 - (epoch * batches + b) / (self.lessons.epochs * batches)
                    )
                logits = self.net.prefer(inputs[pick_])[:, None] + penalty[pick_]
                likely = (
                    torch.log_softmax(logits, -1)
                    .gather(-1, action[pick_][..., None])[..., 0]
                    .sum(-1)
                )
                chosen = torch.softmax(likely.masked_fill(cost[pick_].isnan(), FORBIDDEN), -1)
                loss = (chosen * cost[pick_].nan_to_num()).sum(-1).mean()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += float(loss.detach())
            yield total / batches

    def _prepared(self, seen: Seen, probability: FloatArray) -> tuple[Tensor, Tensor, Tensor]:
        """Costs (NaN where there is no choice), relative to their mean size; what was not on offer, choice by choice; the actions."""
        most = int(seen.size.max())
        there = np.arange(most)[None, :] < seen.size[:, None]
        cost = np.where(there, seen.cost[:, :most], np.nan)
        if self.scale is not None:  # one per cent counts the same at every probability
            cost = cost / np.interp(probability, GRID, self.scale)[:, None]
        cost /= np.nanmean(np.abs(cost))
        action, penalty = (
            seen.action[:, :most].copy(),
            np.zeros((*there.shape, *seen.mask.shape[1:]), np.float32),
        )
        for c in range(most):
            mask, own = seen.mask.copy(), np.ascontiguousarray(action[:, c])
            follow(mask, seen.ready.copy(), self.capacity, own)
            action[:, c], penalty[:, c] = own, np.where(mask, 0.0, FORBIDDEN)
        return (
            torch.from_numpy(cost.astype(np.float32)),
            torch.from_numpy(penalty),
            torch.from_numpy(action),
        )
