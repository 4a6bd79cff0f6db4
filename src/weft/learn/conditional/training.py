"""Training by PPO for streams of conditional jobs; the recipes pi0 to pi4."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import inf
from os import PathLike
from typing import Any, Literal

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.learn import ppo
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    WINDOW,
    evaluate_network,
    random_drift,
    task_name,
    variants,
    watched_task,
    with_first,
)
from weft.policies.conditional.index import index_for
from weft.policies.conditional.network_policy import load_network
from weft.policies.conditional.networks import arrays_of, network_of
from weft.policies.conditional.pair_network import PairPolicy
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.conditional.waiting import forbid_standstills, shorten_all_waits
from weft.policies.service_levels import shortest_rest
from weft.progress import Progress, silent
from weft.registry import closest
from weft.rng import generator
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.view import Policy

ENVS = 256
JOBS = 2000
"""Jobs per training episode."""
REFERENCE = "shortest-remaining"
VALIDATION = 20_000_000
"""First seed of validation draws: far from those of trainings and evaluations."""
GRID = tuple(i / 10 for i in range(11))
"""Probabilities at which policies for random probabilities are validated."""


class BatchEnv:
    """A `StepBatch` as the vector environment of `ppo`.

    Time is measured in lengths of the longest path of a job; the stocks are the queues. An episode
    is truncated when its last job arrives, since a stream does not end with an empty system. The
    first episodes have different, shorter lengths, so that the simulations do not stay
    synchronised. With `relative`, rewards are divided by the job completion time of a simple rule
    at the same probability, so that one per cent counts the same at every probability. With the
    paper's waiting, units wait as in `policies/conditional/evaluate.py`.
    """

    def __init__(
        self,
        stream: ConditionalStream,
        envs: int,
        options: StepOptions,
        *,
        relative: bool = False,
        visible: int | None = None,
    ) -> None:
        self.batch = StepBatch(stream, envs, options)
        self.envs, self.units, self.actions = envs, self.batch.units, self.batch.kinds + 1
        self.observation_size = self.batch.observation_size
        self.visible = self.observation_size if visible is None else visible
        self.capacity: IntArray = np.array(stream.problem.cluster.batch, np.int64)
        self.span = longest_path(stream)
        self.relative = relative
        self._blocking = options.idle == "block"
        self.end = inf
        self._never = np.zeros(envs, np.bool_)
        self._weight = np.ones(envs)
        self._last = np.zeros((envs, self.observation_size), np.float32)
        if relative:
            self._choice = stream.watched[0]
            self._reference = reference_times(stream, options)

    @property
    def finished(self) -> bool:
        """Whether the processor time of the training is used up."""
        return time.process_time() >= self.end

    @property
    def remaining(self) -> IntArray:
        """(envs, kinds) number of tasks in each queue."""
        ready: IntArray = self.batch.tables.sim.kind["ready"]
        return ready

    def reset(self, seed: int) -> tuple[Numbers, BoolArray]:
        """Begin all simulations; trainings with different seeds get different draws."""
        steps = self.batch.reset(1000 + seed * 100_000)
        jobs = self.batch.stream.jobs
        rng = generator(seed, "conditional_training")
        self._limit = rng.integers(max(jobs // 10, 1), jobs + 1, self.envs)
        self._weigh(np.arange(self.envs))
        return steps.observation, self._shaped(steps.mask)

    def step(self, actions: IntArray) -> ppo.Transition:
        """Advance every simulation to its next decision."""
        if self._blocking:
            actions = actions.copy()
            shorten_all_waits(self.batch.tables, actions)
        steps = self.batch.step(actions)
        reward, elapsed = steps.reward / self.span / self._weight, steps.elapsed / self.span
        arrived = self.batch.tables.sim.world["next_arrival"][:, 0] >= self._limit
        cut = arrived | steps.done
        if cut.any():
            final = self.batch.final_observation
            self._last[:] = np.where(steps.done[:, None], final, steps.observation)
            self.batch.renew(np.flatnonzero(arrived & ~steps.done))
            self._limit[cut] = self.batch.stream.jobs
            self._weigh(np.flatnonzero(cut))
        mask = self._shaped(steps.mask)
        return steps.observation, mask, reward, elapsed, self._never, cut, self._last

    def _weigh(self, which: IntArray) -> None:
        """Set the reward divisors of simulations that have begun a new draw."""
        if not self.relative:
            return
        for s in which.tolist():
            draw = int(self.batch.current_draw[s])
            p = self.batch.stream.probabilities(np.zeros(1), draw)[self._choice][0, 0]
            self._weight[s] = np.interp(p, GRID, self._reference)

    def _shaped(self, mask: BoolArray) -> BoolArray:
        shaped = mask.reshape(self.envs, self.units, self.actions)
        if self._blocking:
            forbid_standstills(self.batch.tables, shaped)
        return shaped


def reference_times(stream: ConditionalStream, options: StepOptions) -> FloatArray:
    """Return job completion times of a rule at each probability of `GRID`, mean 1."""
    batch, times = StepBatch(stream, 1, options), np.zeros(len(GRID))
    for i, variant in enumerate(variants(stream, GRID)):
        batch.place(0, *variant.draw_ticks(VALIDATION - 1))
        ConditionalRule(REFERENCE).run(batch)
        times[i] = batch.jct(0).mean()
    relative: FloatArray = times / times.mean()
    return relative


def longest_path(stream: ConditionalStream) -> float:
    """Return the seconds of the longest path of a job, tasks on their fastest unit."""
    return float(shortest_rest(stream.problem).max(initial=0.0))


DEFAULT = ppo.PpoSettings(
    horizon=5.0, rollout=128, imitation=600_000, learning_rate=(4e-4, 1e-5), entropy=(2e-3, 0.0)
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training conditions of a policy.

    Attributes
    ----------
    probability : of the first branch of the watched choice; "random": drawn for each episode,
        uniform in [0, 1]; "own": as in the stream
    estimate, units, detail : whether the policy observes the estimate of that probability, the
        state of the units, and that state in detail
    """

    about: str
    probability: float | Literal["random", "own"]
    estimate: bool = True
    units: bool = False
    detail: bool = False
    settings: ppo.PpoSettings = DEFAULT


RECIPES = {
    "pi0": Recipe(about="p(c) = 0.1", probability=0.1, estimate=False),
    "pi1": Recipe(about="p(c) = 0.5", probability=0.5, estimate=False),
    "pi2": Recipe(about="p(c) = 0.9", probability=0.9, estimate=False),
    "pi3": Recipe(about="random p(c)", probability="random", estimate=False),
    "pi4": Recipe(about="random p(c), sees an estimate of it", probability="random"),
    "best": Recipe(
        about="random p(c), sees an estimate of it and what the units do",
        probability="random",
        units=True,
    ),
    "detailed": Recipe(
        about="random p(c), sees an estimate of it and what the units do, in detail",
        probability="random",
        units=True,
        detail=True,
    ),
    "own": Recipe(
        about="probabilities as the stream has them, sees estimates and what the units do",
        probability="own",
        units=True,
        detail=True,
    ),
}


def recipe_of(name: str) -> Recipe:
    """Return a recipe by name."""
    if name not in RECIPES:
        raise UnknownName(f"unknown policy to train '{name}'{closest(name, RECIPES)}")
    return RECIPES[name]


def train_policy(
    stream: ConditionalStream,
    name: str = "pi4",
    *,
    settings: ppo.PpoSettings | None = None,
    seed: int = 0,
    waiting: Literal["block", "event"] = "event",
    envs: int = ENVS,
    progress: Progress[ppo.PpoProgress] = silent,
    start: str | PathLike[str] | Policy | TrainedNetwork | None = None,
    teacher: ConditionalRule | PairPolicy | None = None,
    seconds: float = inf,
) -> tuple[TrainedNetwork, ppo.PpoProgress]:
    """Train one policy with one seed, by default with the teacher of `teacher_of`.

    Checkpoints are compared by the mean log of the job completion time on validation draws. With
    `start`, continue from a policy of the same recipe (trained with the other waiting, for
    example), given by name, path or object, instead of imitating a rule.
    """
    recipe, teacher = recipe_of(name), teacher or teacher_of(stream)
    start = None if start is None else load_network(start)
    settings = settings or recipe.settings
    if start is not None:
        hidden = tuple(start.network.sizes[1:-1].tolist())
        settings = replace(settings, imitation=0, warm_up=settings.imitation, hidden=hidden)
    options = StepOptions(
        idle=waiting,
        estimate=recipe.estimate,
        units=recipe.units,
        detail=recipe.detail,
        window=WINDOW,
    )
    short = stream.with_jobs(min(JOBS, stream.jobs))
    # The critic observes everything; the part of the actor comes first.
    whole = replace(options, estimate=True, units=True, detail=recipe.detail or not recipe.units)
    size = StepBatch(short, 1, options).observation_size
    relative = recipe.probability == "random"
    env = BatchEnv(_training_stream(short, recipe), envs, whole, visible=size, relative=relative)
    env.end = time.process_time() + seconds
    validation = validation_streams(short, recipe.probability)
    seeds = [VALIDATION, VALIDATION + 1]

    def evaluate(weights: dict[str, Numbers]) -> float:
        network = network_of(weights, units=env.units, actions=env.actions)
        times = [
            evaluate_network(network, variant, seeds, options=options) for variant in validation
        ]
        return float(np.log(np.concatenate(times)).mean())

    if start is not None:
        _check_shape(start, name, (size, env.units, env.actions))
    training = ppo.train(
        env,
        settings,
        seed=seed,
        evaluate=evaluate,
        progress=progress,
        teacher=_teacher(env, teacher),
        start=None if start is None else arrays_of(start.network),
    )
    network = network_of(training.weights, units=env.units, actions=env.actions)
    observation = {
        "name": "steps",
        "version": 1,
        "watched": [task_name(stream, c) for c in stream.watched],
        **{k: v for k, v in asdict(options).items() if k not in {"idle", "idle_seconds"}},
    }
    environment = {
        "name": "weft/Conditional-v0",
        "stream": stream.name,
        "idle": waiting,
        "probability": recipe.probability,
        "jobs": short.jobs,
    }
    card = record(training, envs, teacher.name)
    if start is not None:
        card["start"] = {"name": start.name, "idle": start.environment.get("idle")}
        card["start"] |= {
            key: start.training.get(key) for key in ("seed", "samples", "teacher", "settings")
        }
    return TrainedNetwork(name, network, observation, environment, card, recipe.about), training


def _check_shape(start: TrainedNetwork, name: str, shape: tuple[int, int, int]) -> None:
    network = start.network
    if (int(network.sizes[0]), network.units, network.actions) != shape:
        raise InvalidInput(
            f"policy '{start.name}' reads {network.sizes[0]} numbers for {network.units} units; "
            f"'{name}' reads {shape[0]} for {shape[1]}: start from a policy of the same recipe"
        )


def teacher_of(stream: ConditionalStream) -> ConditionalRule:
    """Return the rule to imitate: the tuned index of the stream, or a simple rule."""
    return index_for(stream.name) or ConditionalRule(REFERENCE)


def _teacher(env: BatchEnv, rule: ConditionalRule | PairPolicy) -> Callable[[], IntArray]:
    actions = np.zeros((env.envs, env.units), np.int64)

    def choose() -> IntArray:
        rule.choose(env.batch, actions)
        return actions

    return choose


def record(training: ppo.PpoProgress, envs: int, teacher: str) -> dict[str, Any]:
    """Return the training as plain values for the card."""
    kept = ("samples", "cpu_seconds", "reward_rate", "entropy", "score")
    curve = [
        {key: round(entry[key], 6) for key in kept if key in entry}
        for entry in training.curve
        if "score" in entry
    ]
    return {
        "algorithm": "PPO with masked actions (weft.learn.ppo)",
        "teacher": teacher if training.settings.imitation else None,
        "seed": training.seed,
        "samples": training.samples,
        "cpu_seconds": round(training.cpu_seconds, 1),
        # NaN: stopped before the first evaluation
        "score": None if np.isnan(training.score) else training.score,
        "envs": envs,
        "settings": asdict(training.settings),
        "interrupted": training.interrupted,
        "curve": curve,
    }


def _training_stream(stream: ConditionalStream, recipe: Recipe) -> ConditionalStream:
    if recipe.probability == "own":
        return stream
    task = watched_task(stream)
    if recipe.probability == "random":
        return stream.with_drift(task, random_drift(stream, task))
    return with_first(stream, task, recipe.probability)


def validation_streams(
    stream: ConditionalStream, probability: float | str
) -> list[ConditionalStream]:
    """Return the streams that validate a policy of a probability, see `Recipe`."""
    if probability == "own":
        return [stream]
    return variants(stream, GRID if probability == "random" else [float(probability)])
