"""Steps with the costs of their choices, for `rollout_imitation.py`.

A network decides; at every other step, its choice and the choices with one unit's action changed
are carried out in the same sampled futures, and the network itself or the tuned index continues.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from weft.learn.conditional.index import first_weights
from weft.learn.settings import Bound, Count, Settings
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import options_of, watched_task, with_first
from weft.policies.conditional.index import index_for
from weft.policies.conditional.proposer import Proposer, make_proposer
from weft.policies.conditional.rollout import (
    ROOM,
    RolloutBudget,
    RolloutBuffers,
    RolloutTables,
    gather_candidates,
    make_buffers,
    pick,
    try_candidates,
)
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.sampled_future import make_sampler
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.rng import generator
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.state import BatchTables, sim_of, state_of
from weft.sim.vector.step import act, proceed
from weft.typed import typed_dataclass

FIRST_DRAW = 30_000_000
"""First seed of training draws: far from those of trainings, validations and evaluations."""
MAX_CHOICES = 16
"""Choices stored per step; steps with more are skipped."""
PART = 5000
"""Steps that are collected at a time and stored in one file."""
SKIPPED_JOBS = 50
"""Jobs that arrive before the first stored step."""


@typed_dataclass(frozen=True, kw_only=True)
class ImitationSettings(Settings, noun="rollout imitation"):
    """Training settings.

    Parameters
    ----------
    rounds : number of rounds of simulating and learning
    steps : stored per round, in runs of `jobs` jobs, each step with up to `futures` futures of
        `ahead` further jobs; choices that are clearly worse drop out after a quarter of them
    epochs : passes over all stored steps; `rate` is the first learning rate (the last is 0),
        `batch` the batch size
    validation : draws per probability to compare networks
    base : the policy that continues in the futures: the "network" of the round, so that rounds are
        steps of policy iteration, or the "index", which is several times as fast
    hidden : sizes of the hidden layers, no smaller than before; new units have no effect at first.
        Empty: the sizes stay
    detail : let the network observe also how full batches are, and the time since the last arrival
    """

    rounds: Count = 3
    steps: Count = 70_000
    jobs: Annotated[int, Bound(SKIPPED_JOBS + 1)] = 1200
    futures: Annotated[int, Bound(2)] = 16
    ahead: Count = 6
    epochs: Count = 16
    rate: float = 1e-3
    batch: Count = 2048
    validation: int = 4
    base: Literal["network", "index"] = "index"
    hidden: tuple[int, ...] = ()
    detail: bool = False
    seed: int = 0


class RolloutExamples(NamedTuple):
    """Steps, with the costs of choices, in job ticks above the network's choice."""

    observation: Numbers  # (steps, numbers)
    mask: BoolArray  # (steps, units, kinds + 1)
    ready: IntArray  # (steps, kinds)
    action: IntArray  # (steps, MAX_CHOICES, units)
    cost: FloatArray  # (steps, MAX_CHOICES)
    size: IntArray  # (steps,) number of choices


def rollout_index(stream: ConditionalStream, batch: StepBatch) -> ConditionalRule:
    """Return the rule that ends each rollout: a tuned index, else an untuned one."""
    return index_for(stream.name) or ConditionalRule("index", first_weights(batch))


class RolloutPart(NamedTuple):
    """Some steps, the probability of the run of each, and their processor time."""

    examples: RolloutExamples
    probability: FloatArray
    seconds: float


def collect_part(
    stream: ConditionalStream,
    policy: TrainedNetwork,
    settings: ImitationSettings,
    number: int,
    part: int,
    folder: Path | None,
) -> RolloutPart:
    """Collect a part of the steps of a round, or read the stored part."""
    file = None if folder is None else folder / f"steps_{number + 1}_{part + 1}.npz"
    if file is not None and file.exists():
        with np.load(file) as kept:
            columns: list[Any] = [kept[name] for name in RolloutExamples._fields]
            return RolloutPart(
                RolloutExamples(*columns), kept["probability"], float(kept["seconds"])
            )
    began = time.process_time()
    seed = settings.seed * 10_000 + number * 100 + part
    examples, probability = _collect(stream, policy, settings, min(settings.steps, PART), seed)
    found = RolloutPart(examples, probability, time.process_time() - began)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        begun = file.with_suffix(".part.npz")
        np.savez(begun, **examples._asdict(), probability=probability, seconds=found.seconds)
        begun.replace(file)
    return found


def _collect(
    stream: ConditionalStream,
    policy: TrainedNetwork,
    settings: ImitationSettings,
    steps: int,
    seed: int,
) -> tuple[RolloutExamples, FloatArray]:
    """Simulate and try other choices; return the steps, each with its probability.

    The probability is that of the run of the step.
    """
    short = stream.with_jobs(settings.jobs)
    batch = StepBatch(short, 1, options_of(policy))
    least = max(settings.futures // 4, 2)
    rollout = RolloutTables(
        make_sampler(short, batch, room=ROOM, seed=seed),
        rollout_index(stream, batch).weights,
        make_proposer(policy.network, batch),
        make_proposer(policy.network if settings.base == "network" else None, batch),
        make_buffers(batch.units),
        RolloutBudget(settings.ahead, least, settings.futures, 1.0),
    )
    rng = generator(seed, "rollout lessons")
    examples, probability = _empty(batch, steps), np.zeros(steps)
    at, run = 0, 0
    while at < steps:
        variant, p = _variant(short, policy, rng, run)
        batch.place(0, *variant.draw_ticks(FIRST_DRAW + seed * 1000 + run))
        columns: list[Any] = [column[at:] for column in examples]
        rest = RolloutExamples(*columns)
        found = collect(batch.tables, rollout, run % 2 == 1, rest)
        probability[at : at + found] = p
        at, run = at + found, run + 1
    return examples, probability


def _variant(
    stream: ConditionalStream, policy: TrainedNetwork, rng: np.random.Generator, run: int
) -> tuple[ConditionalStream, float]:
    """Return the stream as in training; every eighth random probability is extreme."""
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
    tables: BatchTables, rollout: RolloutTables, follows: bool, examples: RolloutExamples
) -> int:
    """Run one simulation and store every other step; return the number of stored ones.

    With `follows`, the rollouts' choices are executed instead of the network's.
    """
    sim, state = sim_of(tables, 0), state_of(tables, 0)
    answer = proceed(sim, state)
    stored, step, buffers = 0, 0, rollout.buffers
    while answer == MOMENT and stored < len(examples.size):
        best = 0
        step += 1
        candidates = gather_candidates(sim, state, rollout)
        started = sim.world[0].next_arrival >= SKIPPED_JOBS
        if 1 < candidates <= MAX_CHOICES and started and step % 2 == 0:
            futures = try_candidates(sim, state, rollout, candidates)
            if futures > 0:
                best = pick(buffers, candidates, futures, rollout.budget.confidence)
                _store(examples, stored, rollout.proposer, buffers, candidates)
                for k in range(len(sim.kind)):
                    examples.ready[stored, k] = sim.kind[k].ready
                stored += 1
        answer = act(sim, state, buffers.action[best if follows else 0])
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
