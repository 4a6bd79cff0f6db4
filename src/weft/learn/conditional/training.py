"""Training policies for streams of conditional jobs: the environment as PPO wants it, and what pi0 to pi4 stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.learn import ppo
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    WINDOW,
    forbid_standstills,
    play,
    random_drift,
    shorten_all_waits,
    task_name,
    watched_task,
    with_first,
)
from weft.policies.conditional.files import Learned
from weft.policies.conditional.index import index_names, load_index
from weft.policies.conditional.networks import Numbers, arrays_of, network_of
from weft.policies.conditional.rules import ConditionalRule
from weft.registry import closest
from weft.rng import generator as stream_of_numbers
from weft.sim.vector.batch import StepBatch, StepOptions

ENVS = 256
JOBS = 2000
"""Of one episode in training."""
REFERENCE = "shortest-remaining"
VALIDATION = 20_000_000
"""Draws for comparing checkpoints begin here: far from those of training and from the seeds of evaluations."""
GRID = tuple(i / 10 for i in range(11))


class BatchEnv:
    """A `StepBatch` as the vector environment of `ppo`: time is counted in spans of the longest path of a job, stocks are the queues.

    An episode is cut off when its last job has arrived: what comes after that, a system that runs empty, is no part of a stream. The
    first ones are shorter, each by another length, so that simulations do not begin together ever after. With `relative`, rewards are
    divided by the time jobs take under a simple rule at the same probability: one per cent counts the same where that is 30 ms and
    where it is 100, as it does in the comparison. With the paper's waiting, units wait as `policies/conditional/evaluate.py` has them wait.
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
        self.fleet = StepBatch(stream, envs, options)
        self.envs, self.units, self.actions = envs, self.fleet.units, self.fleet.kinds + 1
        self.observation_size = self.fleet.observation_size
        self.visible = self.observation_size if visible is None else visible
        self.capacity: IntArray = np.array(stream.problem.cluster.batch, np.int64)
        self.span = longest_path(stream)
        self.relative = relative
        self._blocking = options.idle == "block"
        self._never = np.zeros(envs, np.bool_)
        self._weight = np.ones(envs)
        self._last = np.zeros((envs, self.observation_size), np.float32)
        if relative:
            self._choice = stream.watched[0]
            self._reference = reference_times(stream, options)

    @property
    def remaining(self) -> IntArray:
        """(envs, kinds) how many tasks wait in each queue."""
        ready: IntArray = self.fleet.tables.sim.kind["ready"]
        return ready

    def reset(self, seed: int) -> tuple[Numbers, BoolArray]:
        """Begin all simulations; trainings of different seeds meet different draws."""
        steps = self.fleet.reset(1000 + seed * 100_000)
        jobs = self.fleet.stream.jobs
        self._limit = stream_of_numbers(seed, "conditional_training").integers(
            max(jobs // 10, 1), jobs + 1, self.envs
        )
        self._weigh(np.arange(self.envs))
        return steps.observation, self._shaped(steps.mask)

    def step(
        self, actions: IntArray
    ) -> tuple[Numbers, BoolArray, Numbers, Numbers, BoolArray, BoolArray, Numbers]:
        """One step of every simulation."""
        if self._blocking:
            actions = actions.copy()
            shorten_all_waits(self.fleet.tables, actions)
        steps = self.fleet.step(actions)
        reward, elapsed = steps.reward / self.span / self._weight, steps.elapsed / self.span
        arrived = self.fleet.tables.sim.world["next_arrival"][:, 0] >= self._limit
        cut = arrived | steps.done
        if cut.any():
            self._last[:] = np.where(
                steps.done[:, None], self.fleet.final_observation, steps.observation
            )
            self.fleet.renew(np.flatnonzero(arrived & ~steps.done))
            self._limit[cut] = self.fleet.stream.jobs
            self._weigh(np.flatnonzero(cut))
        return (
            steps.observation,
            self._shaped(steps.mask),
            reward,
            elapsed,
            self._never,
            cut,
            self._last,
        )

    def _weigh(self, which: IntArray) -> None:
        """Find the weight of the draws that simulations have begun."""
        if not self.relative:
            return
        for s in which.tolist():
            p = self.fleet.stream.probabilities(np.zeros(1), int(self.fleet.playing[s]))[
                self._choice
            ][0, 0]
            self._weight[s] = np.interp(p, GRID, self._reference)

    def _shaped(self, mask: BoolArray) -> BoolArray:
        shaped = mask.reshape(self.envs, self.units, self.actions)
        if self._blocking:
            forbid_standstills(self.fleet.tables, shaped)
        return shaped


def reference_times(stream: ConditionalStream, options: StepOptions) -> FloatArray:
    """Mean job completion time of a simple rule at each probability of `GRID`, in seconds."""
    fleet = StepBatch(stream, 1, options)
    task = watched_task(stream)
    times = np.zeros(len(GRID))
    for i, p in enumerate(GRID):
        fleet.place(0, *with_first(stream, task, p).draw_ticks(VALIDATION - 1))
        ConditionalRule(REFERENCE).play(fleet)
        times[i] = fleet.jct(0).mean()
    relative: FloatArray = times / times.mean()
    return relative


def longest_path(stream: ConditionalStream) -> float:
    """Seconds of the longest way through a job, each task on its fastest unit."""
    w = stream.problem.workflow
    best = stream.problem.durations().min(axis=1)
    ahead = best.copy()
    for t in w.order[::-1].tolist():
        for e in range(int(w.succ_ptr[t]), int(w.succ_ptr[t + 1])):
            ahead[t] = max(ahead[t], best[t] + ahead[int(w.dst[e])])
    return float(ahead.max(initial=0.0))


DEFAULT = ppo.PpoSettings(
    horizon=5.0, rollout=128, imitation=600_000, learning_rate=(4e-4, 1e-5), entropy=(2e-3, 0.0)
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a policy is trained for.

    Attributes
    ----------
    probability : of the first branch of the watched choice; "random": drawn anew for each episode, uniform in [0, 1];
        "own": as the stream says
    estimate, units, detail : whether the policy sees the estimate of that probability, what the units do, and that in detail
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
    watch: Callable[[ppo.PpoProgress], None] | None = None,
    start: Learned | None = None,
) -> tuple[Learned, ppo.PpoProgress]:
    """Train one policy by one seed; checkpoints are compared by the mean log of the job completion time on draws of their own.

    With `start`, go on from a policy of the same recipe, trained with the other waiting, say, in place of imitating a rule.
    """
    recipe = recipe_of(name)
    told = settings or recipe.settings
    if start is not None:
        told = replace(
            told,
            imitation=0,
            warm_up=told.imitation,
            hidden=tuple(start.network.sizes[1:-1].tolist()),
        )
    options = StepOptions(
        idle=waiting,
        estimate=recipe.estimate,
        units=recipe.units,
        detail=recipe.detail,
        window=WINDOW,
    )
    short = stream.with_jobs(min(JOBS, stream.jobs))
    whole = replace(
        options, estimate=True, units=True, detail=recipe.detail or not recipe.units
    )  # the critic sees all
    size = StepBatch(short, 1, options).observation_size  # the actor's part comes first in it
    env = BatchEnv(
        _training_stream(short, recipe),
        envs,
        whole,
        visible=size,
        relative=recipe.probability == "random",
    )
    trials = _trials(short, recipe)

    def evaluate(weights: dict[str, Numbers]) -> float:
        network = network_of(weights, units=env.units, actions=env.actions)
        times = np.concatenate(
            [
                play(network, trial, [VALIDATION, VALIDATION + 1], options=options)
                for trial in trials
            ]
        )
        return float(np.log(times).mean())

    if start is not None and (
        int(start.network.sizes[0]),
        start.network.units,
        start.network.actions,
    ) != (size, env.units, env.actions):
        raise InvalidInput(
            f"policy '{start.name}' reads {start.network.sizes[0]} numbers, '{name}' {size}: it cannot begin with it"
        )
    first = arrays_of(start.network) if start is not None else None
    training = ppo.train(
        env, told, seed=seed, evaluate=evaluate, watch=watch, teacher=_teacher(env), start=first
    )
    network = network_of(training.weights, units=env.units, actions=env.actions)
    shown = {
        "name": "steps",
        "version": 1,
        "watched": [task_name(stream, c) for c in stream.watched],
        **_plain(options),
    }
    world = {
        "name": "weft/Conditional-v0",
        "stream": stream.name,
        "idle": waiting,
        "probability": recipe.probability,
        "jobs": short.jobs,
    }
    told_how = record(training, envs, teacher_of(stream).name)
    if start is not None:
        told_how["start"] = {"name": start.name, "idle": start.idle}
        told_how["start"] |= {
            key: start.training.get(key) for key in ("seed", "samples", "teacher", "settings")
        }
    return Learned(name, network, shown, world, told_how, recipe.about), training


def teacher_of(stream: ConditionalStream) -> ConditionalRule:
    """Return the rule that is imitated at first: the tuned index where there is one for the stream, else a simple one."""
    return load_index(stream.name) if stream.name in index_names() else ConditionalRule(REFERENCE)


def _teacher(env: BatchEnv) -> Callable[[], IntArray]:
    """The teacher at work in the environment."""
    rule = teacher_of(env.fleet.stream)
    actions = np.zeros((env.envs, env.units), np.int64)

    def choose() -> IntArray:
        rule.choose(env.fleet, actions)
        return actions

    return choose


def record(training: ppo.PpoProgress, envs: int, teacher: str) -> dict[str, Any]:
    """Return how a policy was trained, as plain values."""
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
        "score": None
        if np.isnan(training.score)
        else training.score,  # stopped before the first evaluation
        "envs": envs,
        "settings": training.settings.as_dict(),
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


def _trials(stream: ConditionalStream, recipe: Recipe) -> Sequence[ConditionalStream]:
    if recipe.probability == "own":
        return [stream]
    points = GRID if recipe.probability == "random" else (recipe.probability,)
    return [with_first(stream, watched_task(stream), p) for p in points]


def _plain(options: StepOptions) -> dict[str, Any]:
    """What is seen, for the card; how one waits belongs to the environment."""
    return {key: value for key, value in asdict(options).items() if key not in {"idle", "idle_seconds"}}
