"""Online PPO on the one run that is evaluated; the jobs pay for the exploration.

There is one system and no simulator to practise in: the learner sees the effects of its own
decisions only, sampled from the policy's probabilities instead of its best actions. The first
updates train the critic only, since a card holds none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.learn import ppo
from weft.learn.conditional.training import longest_path
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import options_of
from weft.policies.conditional.networks import arrays_of
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.sim.vector.batch import Idle, StepBatch

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
    """One run as the environment of `ppo`.

    After its end, empty steps fill the rollout.
    """

    envs = 1

    def __init__(self, batch: StepBatch, draw: tuple[FloatArray, IntArray], visible: int) -> None:
        self.batch, self.draw, self.visible = batch, draw, visible
        self.units, self.actions = batch.units, batch.kinds + 1
        self.observation_size = batch.observation_size
        self.capacity: IntArray = np.array(batch.stream.problem.cluster.batch, np.int64)
        self.span = longest_path(batch.stream)
        self.finished = False
        self._last = np.zeros((1, self.observation_size), np.float32)

    @property
    def remaining(self) -> IntArray:
        """(1, kinds) number of tasks in each queue."""
        ready: IntArray = self.batch.tables.sim.kind["ready"]
        return ready

    def reset(self, seed: int) -> tuple[Numbers, BoolArray]:  # the run is given
        """Begin the run."""
        steps = self.batch.begin(0, *self.draw)
        return steps.observation, steps.mask.reshape(1, self.units, self.actions)

    def step(self, actions: IntArray) -> ppo.Transition:
        """Advance the run to the next decision."""
        never = np.zeros(1, np.bool_)
        if self.finished:
            nothing = np.zeros(1)
            only_wait = np.zeros((1, self.units, self.actions), np.bool_)
            only_wait[:, :, -1] = True
            return self._last, only_wait, nothing, nothing, ~never, never, self._last
        steps = self.batch.step(actions, renew=False)
        self.finished = bool(steps.done[0])
        mask = steps.mask.reshape(1, self.units, self.actions)
        reward, elapsed = steps.reward / self.span, steps.elapsed / self.span
        return steps.observation, mask, reward, elapsed, steps.done, never, self._last


def simulate_online(
    policy: TrainedNetwork,
    stream: ConditionalStream,
    draw: tuple[FloatArray, IntArray],
    *,
    waiting: Idle = "event",
    settings: ppo.PpoSettings = ONLINE,
    seed: int = 0,
) -> FloatArray:
    """Return the seconds of each job of a draw while the policy learns.

    It starts from its stored weights.
    """
    own = options_of(policy, waiting)
    whole = replace(own, estimate=True, units=True, detail=own.detail or not own.units)
    batch = StepBatch(stream, 1, whole)
    env = OnlineEnv(batch, draw, int(policy.network.sizes[0]))
    hidden = tuple(policy.network.sizes[1:-1].tolist())
    ppo.train(env, replace(settings, hidden=hidden), seed=seed, start=arrays_of(policy.network))
    return batch.jct(0)
