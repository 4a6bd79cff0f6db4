"""Imitation of rollouts: a network takes over the choices of one-step look-ahead.

Rollout classification (Lagoudakis and Parr 2003, "Reinforcement Learning as Classification") with
costs: the network plays; at every other step, its choice and the choices with one unit's action
changed are carried out in the same sampled futures, and the network itself or the tuned index
continues (`policies/conditional/rollout.py`). The cost of a choice relative to the network's own is
an advantage with little noise, for all choices of a step at once, where a policy gradient has one
noisy sample. The network then moves to minimise the expected cost of choices drawn by its own
probabilities, and the next round plays with the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.errors import InvalidInput
from weft.learn.conditional.index import first_weights
from weft.learn.conditional.training import GRID, JOBS, VALIDATION
from weft.learn.ppo import FORBIDDEN, ActorCritic, follow
from weft.learn.settings import Progress, require, silent
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    evaluate_network,
    options_of,
    watched_task,
    with_first,
)
from weft.policies.conditional.index import index_for
from weft.policies.conditional.networks import Network, Numbers, arrays_of, network_of
from weft.policies.conditional.rollout import (
    ROOM,
    Proposer,
    RolloutBudget,
    RolloutBuffers,
    gather_candidates,
    make_buffers,
    make_proposer,
    pick,
    try_candidates,
)
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.sampled_future import FutureSampler, make_sampler
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.rng import generator
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.state import BatchTables, sim_of, state_of
from weft.sim.vector.step import act, proceed

FIRST_DRAW = 30_000_000
"""First seed of training draws: far from those of trainings, validations and evaluations."""
MAX_CHOICES = 16
"""Choices stored per step; steps with more are skipped."""
SKIPPED_JOBS = 50
"""Jobs that arrive before the first stored step."""


@dataclass(frozen=True, kw_only=True)
class ImitationSettings:
    """Training settings.

    Parameters
    ----------
    rounds : number of rounds of play and learning
    steps : stored per round, in runs of `jobs` jobs, each step with `futures` futures of `ahead`
        further jobs
    epochs : passes over all stored steps; `rate` is the first learning rate (the last is 0),
        `batch` the batch size
    validation : draws per probability to compare networks
    base : the policy that continues in the futures: the "network" of the round, which makes the
        rounds those of policy iteration, or the "index", which is several times as fast
    """

    noun: ClassVar[str] = "rollout imitation"
    rounds: int = 3
    steps: int = 70_000
    jobs: int = 1200
    futures: int = 16
    ahead: int = 6
    epochs: int = 16
    rate: float = 1e-3
    batch: int = 2048
    validation: int = 4
    base: Literal["network", "index"] = "index"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        require(self, at_least_one=("rounds", "steps", "ahead", "epochs", "batch"))
        if self.base not in {"network", "index"}:
            raise InvalidInput(
                f"{self.noun}: base is '{self.base}'; it must be 'network' or 'index'"
            )
        for name, least in (("jobs", SKIPPED_JOBS + 1), ("futures", 2)):
            if getattr(self, name) < least:
                value = getattr(self, name)
                raise InvalidInput(f"{self.noun}: {name} is {value}; it must be {least} or more")


class RolloutExamples(NamedTuple):
    """Steps with the costs of their choices in job ticks, relative to the network's choice."""

    observation: Numbers  # (steps, numbers)
    mask: BoolArray  # (steps, units, kinds + 1)
    ready: IntArray  # (steps, kinds)
    action: IntArray  # (steps, MAX_CHOICES, units)
    cost: FloatArray  # (steps, MAX_CHOICES)
    size: IntArray  # (steps,) number of choices


def improve(
    stream: ConditionalStream,
    policy: TrainedNetwork,
    settings: ImitationSettings | None = None,
    *,
    progress: Progress[dict[str, float]] = silent,
    keep: Callable[[TrainedNetwork], object] | None = None,
) -> TrainedNetwork:
    """Return a network trained on rollouts, or the given one if none validates better.

    `keep` is called with the best network so far after each round.
    """
    settings = settings or ImitationSettings()
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    began = time.process_time()
    student = _Student(policy, stream, settings)
    best = start = student.score()
    kept, curve = student.network(), list[dict[str, float]]()
    parts = list[tuple[RolloutExamples, FloatArray]]()
    for number in range(settings.rounds):
        parts.append(_collect(stream, replace(policy, network=kept), settings, number))
        for epoch, mean in enumerate(student.learn(parts, number)):
            if (epoch + 1) % max(settings.epochs // 4, 1) == 0:
                score = student.score()
                row = {
                    "round": float(number + 1),
                    "epoch": float(epoch + 1),
                    "cost": mean,
                    "score": score,
                    "gain": score - start,
                    "cpu_seconds": round(time.process_time() - began, 1),
                }
                curve.append(row)
                progress(row)
                if score < best:
                    best, kept = score, student.network()
        student.net.begin_with(arrays_of(kept))
        record = {
            "method": "rollout classification (weft.learn.conditional.rollout_imitation)",
            "start": start,
            "score": best,
            **asdict(settings),
            "rounds": number + 1,
            "cpu_seconds": round(time.process_time() - began, 1),
            "curve": [{k: round(v, 6) for k, v in row.items()} for row in curve],
        }
        # "lessons" is the key of the cards that ship.
        better = replace(policy, network=kept, training=policy.training | {"lessons": record})
        if keep is not None:
            keep(better)
    return better


# -- collecting ----------------------------------------------------------------------


def playing_index(stream: ConditionalStream, batch: StepBatch) -> ConditionalRule:
    """Return the index that plays on: that of the stream, or the start of a tuning."""
    return index_for(stream.name) or ConditionalRule("index", first_weights(batch))


def _collect(
    stream: ConditionalStream, policy: TrainedNetwork, settings: ImitationSettings, number: int
) -> tuple[RolloutExamples, FloatArray]:
    """Play and try other choices; return the steps and the probability of the run of each."""
    short = stream.with_jobs(settings.jobs)
    batch = StepBatch(short, 1, options_of(policy))
    weights = playing_index(stream, batch).weights
    seed = settings.seed * 100 + number
    sampler = make_sampler(short, batch, room=ROOM, seed=seed)
    proposer, buffers = make_proposer(policy, batch), make_buffers(batch.units)
    base = make_proposer(policy if settings.base == "network" else None, batch)
    rng = generator(seed, "rollout lessons")
    budget = RolloutBudget(settings.ahead, settings.futures, settings.futures, 1.0)
    examples, probability = _empty(batch, settings.steps), np.zeros(settings.steps)
    at, run = 0, 0
    while at < settings.steps:
        variant, p = _variant(short, policy, rng, run)
        batch.place(0, *variant.draw_ticks(FIRST_DRAW + seed * 100_000 + run))
        columns: list[Any] = [column[at:] for column in examples]
        rest = RolloutExamples(*columns)
        follows = run % 2 == 1
        found = collect(
            batch.tables, sampler, weights, proposer, base, buffers, budget, follows, rest
        )
        probability[at : at + found] = p
        at, run = at + found, run + 1
    return examples, probability


def _variant(
    stream: ConditionalStream, policy: TrainedNetwork, rng: np.random.Generator, run: int
) -> tuple[ConditionalStream, float]:
    """Return the stream as in the policy's training; every eighth random probability is extreme."""
    probability = policy.environment.get("probability", "own")
    if probability == "own":
        return stream, 0.5
    if probability != "random":
        p = float(probability)
    else:
        p = float(run // 8 % 2) if run % 8 == 0 else float(rng.random())
    return with_first(stream, watched_task(stream), p), p


def _empty(batch: StepBatch, steps: int) -> RolloutExamples:
    return RolloutExamples(
        np.zeros((steps, batch.observation_size), np.float32),
        np.zeros((steps, batch.units, batch.kinds + 1), np.bool_),
        np.zeros((steps, batch.kinds), np.int64),
        np.zeros((steps, MAX_CHOICES, batch.units), np.int64),
        np.zeros((steps, MAX_CHOICES)),
        np.zeros(steps, np.int64),
    )


@njit_noalloc
def collect(
    fleet: BatchTables,
    sampler: FutureSampler,
    weights: FloatArray,
    proposer: Proposer,
    base: Proposer,
    buffers: RolloutBuffers,
    budget: RolloutBudget,
    follows: bool,
    examples: RolloutExamples,
) -> int:
    """Play one simulation and store every other step; return the number of stored steps.

    With `follows`, the rollouts' choices are executed instead of the network's.
    """
    sim, state = sim_of(fleet, 0), state_of(fleet, 0)
    answer = proceed(sim, state)
    stored, step = 0, 0
    while answer == MOMENT and stored < len(examples.size):
        best = 0
        step += 1
        candidates = gather_candidates(sim, state, sampler, weights, proposer, buffers)
        started = sim.world[0].next_arrival >= SKIPPED_JOBS
        if 1 < candidates <= MAX_CHOICES and started and step % 2 == 0:
            played = try_candidates(sim, state, sampler, weights, base, buffers, candidates, budget)
            if played > 0:
                best = pick(buffers, candidates, played, budget.confidence)
                _store(examples, stored, proposer, buffers, candidates)
                for k in range(len(sim.kind)):
                    examples.ready[stored, k] = sim.kind[k].ready
                stored += 1
        act(sim, state, buffers.action[best if follows else 0])
        answer = proceed(sim, state)
    return stored


@njit_noalloc
def _store(
    examples: RolloutExamples, at: int, proposer: Proposer, buffers: RolloutBuffers, candidates: int
) -> None:
    for i in range(len(proposer.seen)):
        examples.observation[at, i] = proposer.seen[i]
    for d in range(proposer.mask.shape[0]):
        for a in range(proposer.mask.shape[1]):
            examples.mask[at, d, a] = proposer.mask[d, a]
    for c in range(candidates):
        examples.cost[at, c] = buffers.mean[c]
        for d in range(proposer.mask.shape[0]):
            examples.action[at, c, d] = buffers.action[c, d]
    examples.size[at] = candidates


# -- learning ------------------------------------------------------------------------


class _Student:
    """The network that learns, with its validation streams."""

    def __init__(
        self, policy: TrainedNetwork, stream: ConditionalStream, settings: ImitationSettings
    ) -> None:
        self.settings = settings
        short = stream.with_jobs(min(JOBS, stream.jobs))
        probability = policy.environment.get("probability", "own")
        self.variants = [short]
        if probability != "own":
            points = GRID if probability == "random" else (float(probability),)
            self.variants = [with_first(short, watched_task(short), p) for p in points]
        self.options = options_of(policy)
        self.capacity = np.array(stream.problem.cluster.batch, np.int64)
        network = policy.network
        sizes = network.sizes.tolist()
        hidden = tuple(sizes[1:-1])
        self.net = ActorCritic(sizes[0], sizes[0], network.units, network.actions, hidden)
        self.net.begin_with(arrays_of(network))
        self.scale = self._times().mean(axis=1) if probability == "random" else None

    def network(self) -> Network:
        """Return a copy of the acting network."""
        arrays = {k: v.copy() for k, v in self.net.weights().items()}
        return network_of(arrays, units=self.net.units, actions=self.net.actions)

    def score(self) -> float:
        """Return the mean log of the job completion time in seconds."""
        return float(np.log(self._times()).mean())

    def _times(self) -> FloatArray:
        seeds = [VALIDATION + 1000 + i for i in range(self.settings.validation)]
        network = self.network()
        return np.stack(
            [evaluate_network(network, v, seeds, options=self.options) for v in self.variants]
        )

    def learn(
        self, parts: list[tuple[RolloutExamples, FloatArray]], number: int
    ) -> Iterator[float]:
        """Pass over all examples; after each pass, yield the mean cost of the network's choices."""
        columns = zip(*(examples for examples, _ in parts), strict=True)
        examples = RolloutExamples(*(np.concatenate(column) for column in columns))
        cost, penalty, action = self._tensors(examples, np.concatenate([p for _, p in parts]))
        inputs = self.net.scaled(torch.from_numpy(examples.observation))
        rng = generator(self.settings.seed * 100 + number, "rollout batches")
        rate, epochs = self.settings.rate, self.settings.epochs
        optimiser = torch.optim.Adam(self.net.actor.parameters(), lr=rate)
        batches = max(len(cost) // self.settings.batch, 1)
        for epoch in range(epochs):
            total = 0.0
            for b, rows in enumerate(np.array_split(rng.permutation(len(cost)), batches)):
                for group in optimiser.param_groups:
                    group["lr"] = rate * (1 - (epoch * batches + b) / (epochs * batches))
                logits = self.net.prefer(inputs[rows])[:, None] + penalty[rows]
                taken = torch.log_softmax(logits, -1).gather(-1, action[rows][..., None])
                log_prob = taken[..., 0].sum(-1)
                chosen = torch.softmax(log_prob.masked_fill(cost[rows].isnan(), FORBIDDEN), -1)
                loss = (chosen * cost[rows].nan_to_num()).sum(-1).mean()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += float(loss.detach())
            yield total / batches

    def _tensors(
        self, examples: RolloutExamples, probability: FloatArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return costs over their mean size (NaN: no choice), mask penalties and actions."""
        most = int(examples.size.max())
        there = np.arange(most)[None, :] < examples.size[:, None]
        cost = np.where(there, examples.cost[:, :most], np.nan)
        if self.scale is not None:  # one per cent counts the same at every probability
            cost = cost / np.interp(probability, GRID, self.scale)[:, None]
        cost /= np.nanmean(np.abs(cost))
        action = examples.action[:, :most].copy()
        penalty = np.zeros((*there.shape, *examples.mask.shape[1:]), np.float32)
        for c in range(most):
            mask, own = examples.mask.copy(), np.ascontiguousarray(action[:, c])
            follow(mask, examples.ready.copy(), self.capacity, own)
            action[:, c], penalty[:, c] = own, np.where(mask, 0.0, FORBIDDEN)
        single = torch.from_numpy(cost.astype(np.float32))
        return single, torch.from_numpy(penalty), torch.from_numpy(action)
