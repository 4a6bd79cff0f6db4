"""Streams of conditional jobs as Gymnasium environments: ``gymnasium.make("weft/Conditional-v0")`` after ``import weft.learn``.

Observations, actions and rewards are those of Debner, Krahn and Hirvisalo (2024), for any stream; see `weft.sim.vector.batch`. Learners that
want no layer in between step a `StepBatch` themselves.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from weft.errors import MissingExtra
from weft.formats.native.stream_toml import load_stream
from weft.model.columns import BoolArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.sim.vector.batch import StepBatch, StepOptions

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError:
    raise MissingExtra("gymnasium", "learn") from None

Seen = np.ndarray[Any, np.dtype[np.float32]]


def _fleet(
    stream: str | os.PathLike[str] | ConditionalStream,
    size: int,
    jobs: int | None,
    options: StepOptions | None,
) -> StepBatch:
    found = stream if isinstance(stream, ConditionalStream) else load_stream(stream)
    return StepBatch(found if jobs is None else found.with_jobs(jobs), size, options)


def _spaces(fleet: StepBatch) -> tuple[Any, Any]:
    seen = spaces.Box(0.0, 1.0, (fleet.observation_size,), np.float32)
    return seen, spaces.MultiDiscrete(np.full(fleet.units, fleet.kinds + 1))


class ConditionalEnv(gymnasium.Env[Seen, IntArray]):
    """One simulation. An action is one task kind a unit, or the number of kinds to wait; what is not allowed does nothing.

    Parameters
    ----------
    stream : a `ConditionalStream`, a TOML file, or the name of a stream that ships with weft
    jobs : of one episode; by default those of the stream
    options : `StepOptions`: semantics of waiting, what is seen
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(
        self,
        stream: str | os.PathLike[str] | ConditionalStream = "conditional-paper",
        *,
        jobs: int | None = None,
        options: StepOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.fleet = _fleet(stream, 1, jobs, options)
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(self.fleet)
        self._mask: BoolArray = np.zeros(self.fleet.units * (self.fleet.kinds + 1), np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode: with a seed that of the seed, without one the next."""
        super().reset(seed=seed, options=options)
        first = self.fleet.reset(int(self.np_random.integers(2**31)))
        self._mask = first.mask[0].copy()
        return first.observation[0].copy(), {"action_mask": self._mask}

    def step(self, action: IntArray) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Apply one action a unit and live up to the next decision."""
        steps = self.fleet.step(np.asarray(action)[None], renew=False)
        self._mask = steps.mask[0].copy()
        info: dict[str, Any] = {"action_mask": self._mask, "elapsed": float(steps.elapsed[0])}
        if steps.done[0]:
            info["jct"] = float(self.fleet.jct(0).mean())
        return steps.observation[0].copy(), float(steps.reward[0]), bool(steps.done[0]), False, info

    def action_masks(self) -> BoolArray:
        """Which actions are allowed now, unit by unit."""
        return self._mask


class ConditionalVectorEnv(VectorEnv[Seen, IntArray, np.ndarray[Any, Any]]):
    """Many simulations in one compiled call; one that ends begins anew in the same step."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 64,
        stream: str | os.PathLike[str] | ConditionalStream = "conditional-paper",
        *,
        jobs: int | None = None,
        options: StepOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.fleet = _fleet(stream, num_envs, jobs, options)
        self.single_observation_space, self.single_action_space = _spaces(self.fleet)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mask: BoolArray = np.zeros(
            (num_envs, self.fleet.units * (self.fleet.kinds + 1)), np.bool_
        )

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin all episodes anew."""
        super().reset(
            seed=seed if isinstance(seed, int) else seed[0] if seed else None, options=options
        )
        first = self.fleet.reset(int(self.np_random.integers(2**31)))
        self._mask = first.mask.copy()
        return first.observation.copy(), {"action_mask": self._mask}

    def step(
        self, actions: IntArray
    ) -> tuple[
        Seen, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]
    ]:
        """Step all simulations."""
        steps = self.fleet.step(actions)
        self._mask = steps.mask.copy()
        info: dict[str, Any] = {"action_mask": self._mask, "elapsed": steps.elapsed.copy()}
        if steps.done.any():
            info["final_obs"], info["_final_obs"] = (
                self.fleet.final_observation.copy(),
                steps.done.copy(),
            )
        return (
            steps.observation.copy(),
            steps.reward.copy(),
            steps.done.copy(),
            np.zeros(self.num_envs, np.bool_),
            info,
        )

    def action_masks(self) -> BoolArray:
        """(num_envs, units * (kinds + 1)) which actions are allowed now."""
        return self._mask
