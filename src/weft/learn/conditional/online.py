"""A policy that goes on learning while it works: PPO on the one run it is judged by, whose exploration it pays for.

There is one system, no simulator to practise in: what is learned comes from decisions that jobs have to live with, drawn from the
policy's probabilities instead of its best. The first updates teach the critic only, since a card holds none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.learn import ppo
from weft.learn.conditional.training import longest_path
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import options_of
from weft.policies.conditional.files import Learned
from weft.policies.conditional.networks import Numbers, arrays_of
from weft.sim.vector.batch import StepBatch, Idle

ONLINE = ppo.PpoSettings(
    samples=10**9,  # as long as the run lasts
    warm_up=3000,
    rollout=1000,
    epochs=4,
    minibatch=250,
    horizon=5.0,
    learning_rate=(3e-4, 3e-4),
    entropy=(1e-3, 1e-3),
    evaluations=0,
)


class OnlineEnv:
    """One run as the environment of `ppo`, with an end; after it nothing more happens until the rollout is full."""

    envs = 1

    def __init__(self, fleet: StepBatch, draw: tuple[FloatArray, IntArray], visible: int) -> None:
        self.fleet, self.draw, self.visible = fleet, draw, visible
        self.units, self.actions = fleet.units, fleet.kinds + 1
        self.observation_size = fleet.observation_size
        self.capacity: IntArray = np.array(fleet.stream.problem.cluster.batch, np.int64)
        self.span = longest_path(fleet.stream)
        self.finished = False
        self._last = np.zeros((1, self.observation_size), np.float32)

    @property
    def remaining(self) -> IntArray:
        """(1, kinds) how many tasks wait in each queue."""
        ready: IntArray = self.fleet.tables.sim.kind["ready"]
        return ready

    def reset(self, seed: int) -> tuple[Numbers, BoolArray]:  # noqa: ARG002 (the run is given)
        """Begin the run."""
        steps = self.fleet.begin(0, *self.draw)
        return steps.observation, steps.mask.reshape(1, self.units, self.actions)

    def step(
        self, actions: IntArray
    ) -> tuple[Numbers, BoolArray, Numbers, Numbers, BoolArray, BoolArray, Numbers]:
        """One step."""
        if self.finished:
            nothing, done = np.zeros(1), np.ones(1, np.bool_)
            only_wait = np.zeros((1, self.units, self.actions), np.bool_)
            only_wait[:, :, -1] = True
            return self._last, only_wait, nothing, nothing, done, ~done, self._last
        steps = self.fleet.step(actions, renew=False)
        self.finished = bool(steps.done[0])
        mask = steps.mask.reshape(1, self.units, self.actions)
        return (
            steps.observation,
            mask,
            steps.reward / self.span,
            steps.elapsed / self.span,
            steps.done,
            np.zeros(1, np.bool_),
            self._last,
        )


def play_online(
    policy: Learned,
    stream: ConditionalStream,
    draw: tuple[FloatArray, IntArray],
    *,
    waiting: Idle = "event",
    settings: ppo.PpoSettings = ONLINE,
    seed: int = 0,
) -> FloatArray:
    """Seconds each job of a draw takes while the policy learns; it begins as it is on disk."""
    own = options_of(policy, waiting)
    whole = replace(own, estimate=True, units=True, detail=own.detail or not own.units)
    fleet = StepBatch(stream, 1, whole)
    env = OnlineEnv(fleet, draw, int(policy.network.sizes[0]))
    hidden = tuple(policy.network.sizes[1:-1].tolist())
    ppo.train(env, replace(settings, hidden=hidden), seed=seed, start=arrays_of(policy.network))
    return fleet.jct(0)
