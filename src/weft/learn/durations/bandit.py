"""A deep Q-network that goes on learning while it decides, one task at a time.

An action is a device, its reward minus the logarithm of the seconds this very task then took; the logarithm, because tasks of
seconds and of milliseconds must weigh alike, and the shortest time stays the best. Tasks come whatever was decided before, so
nothing is to be gained later by a decision now: the discount is 0, and with it fall the target network and the credit that could
go astray.

Every device has a network of its own. With one trunk for all, what is learnt of the device that is used moves the others along:
when it turns slow, all devices look slower together, and the agent stays where it is.

Exploration is as uncertain as the networks are: a bootstrapped ensemble (Osband et al. 2016), every member with its own weighting
of the online data and its own fixed random function added (Osband et al. 2018), so that members differ where there is no data.
For each task one member is drawn and followed (Thompson sampling); where members agree nothing is explored. What exploring costs
is counted: it is part of the times. Half of every batch is offline data, so that a shift that is undone finds the members still
knowing it.

Plain numpy: the members are small, and one matrix product serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.learn.durations.model import SHORTEST
from weft.model.columns import FloatArray, IntArray
from weft.rng import generator

Layers = list[FloatArray]
"""Weights (members, devices, in, out) and biases (members, devices, 1, out), in turn."""


@dataclass(eq=False)
class OnlineDqn:
    """Q-values of devices for a task, from features of zero or more; `pretrain`, then `choose` and `observe` in turn.

    Parameters
    ----------
    features, devices : how many
    members, hidden : size of the ensemble, and units in each of the two hidden layers of a network
    rate, updates, batch : of Adam (Kingma and Ba 2015): its step, steps after each task, transitions in each step
    memory, recent : online transitions that are kept, and those of them that fill half of the online part of a batch: the last ones
    offline : weight of an offline transition beside an online one: enough to remember, too little to argue with what is seen
    prior : weight of the fixed random functions
    seed : of the initial weights, the bootstrap and the draws

    Examples
    --------
    >>> import numpy as np
    >>> agent = OnlineDqn(1, 2, seed=1)
    >>> size = np.linspace(1.0, 9.0, 50)[:, None]
    >>> agent.pretrain(size, np.column_stack([2.0 * size[:, 0], size[:, 0]]), steps=200)
    >>> agent.best(size).tolist() == [1] * 50  # the second device takes half the time
    True
    """

    features: int
    devices: int
    members: int = 5
    hidden: int = 16
    rate: float = 3e-3
    updates: int = 4
    batch: int = 32
    memory: int = 100
    recent: int = 20
    offline: float = 0.05
    prior: float = 1.0
    seed: int = 0
    _layers: Layers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Draw the initial weights, and those of the fixed random functions."""
        rng = generator(self.seed, "dqn", "weights")
        widths = (self.features, self.hidden, self.hidden, 1)
        self._layers, self._fixed = (
            _drawn_layers(rng, (self.members, self.devices), widths) for _ in range(2)
        )
        self._adam = _Adam(self._layers, self.rate)
        self._rng = generator(self.seed, "dqn", "draws")
        self._centre, self._spread = np.zeros(self.features), np.ones(self.features)
        self._level, self._unit = 0.0, 1.0
        self._data: tuple[FloatArray, FloatArray] | None = None
        self._state = np.zeros((self.memory, self.features))
        self._action = np.zeros(self.memory, np.int64)
        self._reward = np.zeros(self.memory)
        self._weight = np.zeros((self.members, self.memory))
        self._seen = 0

    # -- deciding ----------------------------------------------------------------

    def values(self, features: ArrayLike) -> FloatArray:
        """(members, n, devices) Q-values of rows of features: minus the logarithm of the seconds."""
        x = self._inputs(features)
        q = _forward(self._layers, x)[-1] + self.prior * _forward(self._fixed, x)[-1]
        return np.asarray(self._level + self._unit * np.swapaxes(q[..., 0], 1, 2))

    def best(self, features: ArrayLike) -> IntArray:
        """(n,) the device the members prefer on average: what it would do without exploring."""
        return np.asarray(self.values(features).mean(axis=0).argmax(axis=1), np.int64)

    def choose(self, features: ArrayLike, allowed: ArrayLike | None = None) -> int:
        """A device for one task, by a member drawn for it; never one that is not `allowed`."""
        member = int(self._rng.integers(self.members))
        q = self.values(features)[member, 0]
        if allowed is not None:
            can = np.asarray(allowed, bool)
            if not can.any():
                raise InvalidInput("no device is allowed for the task")
            q = np.where(can, q, -np.inf)
        return int(q.argmax())

    # -- learning ----------------------------------------------------------------

    def pretrain(self, features: ArrayLike, seconds: ArrayLike, *, steps: int = 600) -> None:
        """Learn from offline data: (n, features) and (n, devices) seconds, all devices known."""
        rows, logs = (
            np.log1p(np.asarray(features, float)),
            -np.log(np.maximum(np.asarray(seconds, float), SHORTEST)),
        )
        if (
            rows.ndim != 2
            or rows.shape[1] != self.features
            or logs.shape != (len(rows), self.devices)
        ):
            raise InvalidInput(
                f"offline data has shapes {rows.shape} and {logs.shape}; expected (n, {self.features}) and (n, {self.devices})"
            )
        spread = rows.std(axis=0)
        self._centre, self._spread = rows.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._level, self._unit = float(logs.mean()), float(logs.std()) or 1.0
        self._data = (self._inputs(features), (logs - self._level) / self._unit)
        for _ in range(steps):
            x, y = self._drawn_offline(2 * self.batch)
            self._step(x, y, np.ones((1, *y.shape)))

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn from one task that took so long on the device that was chosen for it: its reward, its action, at once."""
        at = self._seen % self.memory
        self._state[at] = self._inputs(features)[0]
        self._action[at] = device
        self._reward[at] = (-np.log(max(seconds, SHORTEST)) - self._level) / self._unit
        self._weight[:, at] = self._rng.exponential(
            size=self.members
        )  # the Bayesian bootstrap (Rubin 1981): no member misses a task
        self._seen += 1
        for _ in range(self.updates):
            self._step(*self._mixed(at))

    def _mixed(self, newest: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Half offline, half online: the newest task, some of the last ones, some of all; weights are 0 for actions not taken."""
        picked = self._rng.integers(min(self._seen, self.memory), size=self.batch)
        near = self.batch // 2
        picked[:near] = (
            newest - self._rng.integers(min(self._seen, self.recent), size=near)
        ) % self.memory
        picked[0] = newest
        taken = np.arange(self.devices)[:, None] == self._action[picked]
        x, y = self._state[picked], np.where(taken, self._reward[picked], 0.0)
        weight = self._weight[:, None, picked] * taken
        if self._data is None:
            return x, y, weight
        old_x, old_y = self._drawn_offline(self.batch)
        joined = np.concatenate(
            [weight, np.full((self.members, *old_y.shape), self.offline)], axis=2
        )
        return np.concatenate([x, old_x]), np.concatenate([y, old_y], axis=1), joined

    def _drawn_offline(self, size: int) -> tuple[FloatArray, FloatArray]:
        assert self._data is not None
        picked = self._rng.integers(len(self._data[0]), size=size)
        return self._data[0][picked], self._data[1][picked].T

    def _step(self, x: FloatArray, y: FloatArray, weight: FloatArray) -> None:
        """One step of Adam towards `y` (devices, batch), weighted (members, devices, batch)."""
        target = y - self.prior * _forward(self._fixed, x)[-1][..., 0]
        self._adam.step(
            self._layers, _gradient(self._layers, x, target[..., None], weight[..., None])
        )

    def _inputs(self, features: ArrayLike) -> FloatArray:
        """Logarithms, standardised by the offline data; far out only the order of magnitude counts."""
        rows = (np.log1p(np.array(features, float, ndmin=2)) - self._centre) / self._spread
        return np.asarray(np.sign(rows) * np.log1p(np.abs(rows)))


def _drawn_layers(
    rng: np.random.Generator, nets: tuple[int, int], widths: tuple[int, ...]
) -> Layers:
    """He et al. (2015)."""
    layers: Layers = []
    for rows, columns in pairwise(widths):
        layers.append(rng.standard_normal((*nets, rows, columns)) * np.sqrt(2.0 / rows))
        layers.append(np.zeros((*nets, 1, columns)))
    return layers


class _Adam:
    def __init__(self, layers: Layers, rate: float) -> None:
        self.rate, self.time = rate, 0
        self.mean, self.square = (
            [np.zeros_like(a) for a in layers],
            [np.zeros_like(a) for a in layers],
        )

    def step(self, layers: Layers, gradient: Layers) -> None:
        """Kingma and Ba (2015), algorithm 1, with its usual constants."""
        self.time += 1
        scale = self.rate * np.sqrt(1 - 0.999**self.time) / (1 - 0.9**self.time)
        for a, g, m, v in zip(layers, gradient, self.mean, self.square, strict=True):
            m[...] += 0.1 * (g - m)
            v[...] += 0.001 * (g * g - v)
            a[...] -= scale * m / (np.sqrt(v) + 1e-8)


def _forward(layers: Layers, x: FloatArray) -> list[FloatArray]:
    """The inputs and what every layer makes of them; ReLU between, nothing after the last."""
    steps = [x]
    for k in range(0, len(layers), 2):
        x = x @ layers[k] + layers[k + 1]
        if k + 2 < len(layers):
            x = np.maximum(x, 0.0)
        steps.append(x)
    return steps


def _gradient(layers: Layers, x: FloatArray, y: FloatArray, weight: FloatArray) -> Layers:
    """Of half the mean weighted squared error, by the chain rule from the last layer back."""
    steps = _forward(layers, x)
    flow = weight * (steps[-1] - y) / x.shape[-2]
    gradient: Layers = []
    for k in range(len(layers) - 2, -1, -2):
        before = steps[k // 2]
        gradient[:0] = [np.swapaxes(before, -1, -2) @ flow, flow.sum(axis=-2, keepdims=True)]
        if k:
            flow = (flow @ np.swapaxes(layers[k], -1, -2)) * (before > 0)
    return gradient
