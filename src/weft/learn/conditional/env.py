"""Streams of conditional jobs as Gymnasium environments.

Call ``gymnasium.make("weft/Conditional-v0")``. Observations, actions and rewards are those of
Debner, Krahn and Hirvisalo (2024), for any stream: `weft.sim.vector.observation` makes the
observations and masks, `weft.sim.vector.batch` steps. Networks that score pairs of a unit and a
kind observe by `weft.policies.conditional.pair_view` instead. Learners that need no layer in
between step a `StepBatch` themselves.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from weft.arguments import whole
from weft.errors import InvalidInput, MissingExtra
from weft.formats.native.stream_toml import load_stream
from weft.learn.rendering import RENDERING, check_render_mode, render
from weft.learn.settings import refuse_reset_options
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.vector.observation import Observation
from weft.typed import typed

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError:
    raise MissingExtra("gymnasium", "learn") from None

Info = dict[str, Any]
StreamSource = str | os.PathLike[str] | ConditionalStream


def _batch(
    stream: StreamSource, size: int, jobs: int | None, options: StepOptions | None
) -> StepBatch:
    found = stream if isinstance(stream, ConditionalStream) else load_stream(stream)
    if jobs is not None:
        found = found.with_jobs(jobs)
    try:
        return StepBatch(found, size, options)
    except MemoryError:
        raise InvalidInput(
            f"{size} simulations of {found.jobs} jobs do not fit into memory; give fewer jobs or "
            "fewer simulations"
        ) from None


def _spaces(batch: StepBatch) -> tuple[Any, Any]:
    observation = spaces.Box(0.0, 1.0, (batch.observation_size,), np.float32)
    return observation, spaces.MultiDiscrete(np.full(batch.units, batch.kinds + 1))


def _queues(batch: StepBatch) -> dict[str, IntArray]:
    """Return the tasks in each queue and the capacity of each unit, by simulation."""
    capacity = np.asarray(batch.stream.problem.cluster.batch, np.int64)
    return {
        "remaining": np.array(batch.tables.sim.kind["ready"], np.int64),
        "capacity": np.tile(capacity, (batch.size, 1)),
    }


class ConditionalEnv(gymnasium.Env[Observation, IntArray]):
    """One simulation.

    An action is one task kind per unit, or the number of kinds to wait; actions that are not
    allowed have no effect. There is no `policy`: the agent is the policy. `info` has what the
    method `act` of a `NetworkPolicy` takes: `action_mask`, `remaining` tasks of each queue, and
    `capacity` of each unit.

    Parameters
    ----------
    stream : a `ConditionalStream`, a TOML file, or the name of a stream that ships with weft
    jobs : per episode; by default those of the stream
    options : `StepOptions`: semantics of waiting, contents of observations
    """

    metadata: dict[str, Any] = RENDERING

    @typed
    def __init__(
        self,
        stream: StreamSource = "conditional-paper",
        *,
        jobs: int | None = None,
        options: StepOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.batch = _batch(stream, 1, jobs, options)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space, self.action_space = _spaces(self.batch)
        self._mask: BoolArray = np.zeros(self.batch.units * (self.batch.kinds + 1), np.bool_)
        self._goes_on = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin the episode of the seed; without a seed, the next one."""
        refuse_reset_options(options)
        super().reset(seed=seed, options=options)
        first = self.batch.reset(int(self.np_random.integers(2**31)))
        self._mask, self._goes_on = first.mask[0].copy(), True
        return first.observation[0].copy(), self._info()

    def step(self, action: IntArray) -> tuple[Observation, float, bool, bool, Info]:
        """Apply one action per unit and simulate up to the next decision."""
        if not self._goes_on:
            raise InvalidInput("the episode has ended or not begun; call reset() before step()")
        steps = self.batch.step([action], renew=False)
        self._mask, self._goes_on = steps.mask[0].copy(), not steps.done[0]
        info = self._info() | {"elapsed": float(steps.elapsed[0])}
        if steps.done[0]:
            info["jct"] = float(self.batch.jct(0).mean())
        return steps.observation[0].copy(), float(steps.reward[0]), bool(steps.done[0]), False, info

    def _info(self) -> Info:
        queues = {key: rows[0] for key, rows in _queues(self.batch).items()}
        return {"action_mask": self._mask, **queues}

    def render(self) -> str | np.ndarray[Any, Any] | None:
        """Return queues and units as text ("ansi") or as a picture ("rgb_array")."""
        sim, cluster = self.batch.tables.sim, self.batch.stream.problem.cluster
        now = float(sim.world["now"][0, 0]) * self.batch.stream.tick
        kinds = self.batch.kind_names
        return render(self.render_mode, now, sim.kind[0], sim.device[0], kinds, cluster.names)

    def action_masks(self) -> BoolArray:
        """Return the allowed actions, unit by unit."""
        return self._mask


class ConditionalVectorEnv(VectorEnv[Observation, IntArray, np.ndarray[Any, Any]]):
    """Many simulations in one compiled call; one that ends restarts in the same step.

    ``info["final_info"]["jct"]`` has the mean completion times of the episodes that ended.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # declared so by Gymnasium
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    @typed
    def __init__(
        self,
        num_envs: int = 64,
        stream: StreamSource = "conditional-paper",
        *,
        jobs: int | None = None,
        options: StepOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = whole(num_envs, "num_envs"), render_mode
        self.batch = _batch(stream, self.num_envs, jobs, options)
        self.single_observation_space, self.single_action_space = _spaces(self.batch)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mask: BoolArray = np.zeros(
            (num_envs, self.batch.units * (self.batch.kinds + 1)), np.bool_
        )
        self._begun = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin all episodes."""
        refuse_reset_options(options)
        if isinstance(seed, list):
            seed = seed[0] if seed else None
        super().reset(seed=seed, options=options)
        first = self.batch.reset(int(self.np_random.integers(2**31)))
        self._mask, self._begun = first.mask.copy(), True
        return first.observation.copy(), {"action_mask": self._mask, **_queues(self.batch)}

    def step(
        self, actions: IntArray
    ) -> tuple[Observation, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], Info]:
        """Step all simulations."""
        if not self._begun:
            raise InvalidInput("no episode has begun; call reset() before step()")
        steps = self.batch.step(actions, renew=False)
        done, elapsed = steps.done.copy(), steps.elapsed.copy()
        info: Info = self._final(done, steps.observation, elapsed) if done.any() else {}
        self.batch.renew(np.flatnonzero(done))
        self._mask = steps.mask.copy()
        info |= {"action_mask": self._mask, "elapsed": elapsed, **_queues(self.batch)}
        truncated = np.zeros(self.num_envs, np.bool_)
        return steps.observation.copy(), steps.reward.copy(), done, truncated, info

    def _final(self, done: BoolArray, observation: Observation, elapsed: FloatArray) -> Info:
        """Return the last observation and the info of ended episodes, as Gymnasium does.

        The next episodes begin in the same step, so that nothing else shows how these ended.
        """
        jct = np.zeros(self.num_envs)
        for s in np.flatnonzero(done).tolist():
            jct[s] = self.batch.jct(s).mean()
        final = {"jct": jct, "_jct": done.copy(), "elapsed": elapsed, "_elapsed": done.copy()}
        return {
            "final_obs": observation.copy(),
            "_final_obs": done.copy(),
            "final_info": final,
            "_final_info": done.copy(),
        }

    def action_masks(self) -> BoolArray:
        """Return (num_envs, units * (kinds + 1)) actions that are allowed now."""
        return self._mask
