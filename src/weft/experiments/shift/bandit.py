"""A contextual bandit of networks that chooses a device per task and learns.

The source document calls it an online DQN. An action is a device; its reward is minus the logarithm
of the task's seconds (tasks of seconds and of milliseconds weigh alike, and the shortest time stays
the best). A decision does not change which tasks come next, so the discount is 0: there is no
bootstrapping and no target network.

Every device has a network of its own. With one trunk for all, learning about the used device moves
the others along: when it slows down, all devices look slower together, and the agent stays.

Exploration follows the uncertainty of the networks: a bootstrapped ensemble (Osband et al. 2016,
section 4), each member with its own weighting of the online data and its own fixed random prior
function (Osband et al. 2018, section 3), so that members differ where there is no data. For each
task one member is drawn and followed (Thompson sampling). Members may agree and be wrong, so there
is a floor: every device is tried at the start, and a small share of the tasks is placed at random.
The cost of exploring is part of the measured times. Half of every batch is offline data, so that
the members still fit it when a shift is undone.

Plain numpy: the members are small, and one matrix product serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray
from weft.policies.hybrid.features import SHORTEST
from weft.rng import generator

Layers = list[FloatArray]
"""Weights (members, devices, in, out) and biases (members, devices, 1, out), in turn."""

RATE, BATCH = 3e-3, 32
"""Learning rate of Adam, and observations per step."""
MEMORY, RECENT = 100, 20
"""Online observations that are stored, and the last ones, which fill half of their share."""
OFFLINE = 0.05
"""Weight of an offline observation relative to an online one."""
PRIOR = 1.0
"""Weight of the fixed random functions."""


@dataclass(eq=False)
class EnsembleBandit:
    """Values of devices for a task, from non-negative features.

    Call `pretrain` once, then `choose` and `observe` in turn.

    Parameters
    ----------
    features, devices : their numbers
    members, hidden : size of the ensemble, and units in each of the two hidden layers of a network
    updates : steps of Adam per task
    trials, floor : online tasks that every device gets first, in turn, and the probability of a
        random device after that
    seed : of the initial weights, the bootstrap and the draws

    Examples
    --------
    >>> import numpy as np
    >>> agent = EnsembleBandit(1, 2, seed=1)
    >>> size = np.linspace(1.0, 9.0, 50)[:, None]
    >>> agent.pretrain(size, np.column_stack([2.0 * size[:, 0], size[:, 0]]), steps=200)
    >>> agent.best(size).tolist() == [1] * 50  # the second device takes half the time
    True
    """

    features: int
    devices: int
    members: int = 5
    hidden: int = 16
    updates: int = 4
    trials: int = 2
    floor: float = 0.01
    seed: int = 0
    _layers: Layers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Draw the initial weights and the fixed random functions."""
        rng = generator(self.seed, "dqn", "weights")
        widths = (self.features, self.hidden, self.hidden, 1)
        self._layers, self._fixed = (
            _drawn_layers(rng, (self.members, self.devices), widths) for _ in range(2)
        )
        self._adam = _Adam(self._layers)
        self._rng = generator(self.seed, "dqn", "draws")
        self._centre, self._spread = np.zeros(self.features), np.ones(self.features)
        self._level, self._unit = 0.0, 1.0
        self._data: tuple[FloatArray, FloatArray] | None = None
        self._state = np.zeros((MEMORY, self.features))
        self._action = np.zeros(MEMORY, np.int64)
        self._reward = np.zeros(MEMORY)
        self._weight = np.zeros((self.members, MEMORY))
        self._seen = 0

    # -- deciding ----------------------------------------------------------------

    def values(self, features: ArrayLike) -> FloatArray:
        """Return (members, n, devices) values of rows of features: -log(seconds)."""
        x = self._inputs(features)
        q = _forward(self._layers, x)[-1] + PRIOR * _forward(self._fixed, x)[-1]
        return np.asarray(self._level + self._unit * np.swapaxes(q[..., 0], 1, 2))

    def best(self, features: ArrayLike) -> IntArray:
        """Return (n,) devices with the best mean value: the choice without exploration."""
        return np.asarray(self.values(features).mean(axis=0).argmax(axis=1), np.int64)

    def choose(self, features: ArrayLike, allowed: ArrayLike | None = None) -> int:
        """Choose an `allowed` device: the next to try, a random one, or a drawn member's."""
        can = np.ones(self.devices, bool) if allowed is None else np.asarray(allowed, bool)
        if not can.any():
            raise InvalidInput("no device is allowed for the task")
        devices = np.flatnonzero(can)
        if self._seen < self.trials * self.devices:
            return int(devices[self._seen % len(devices)])
        if self._rng.random() < self.floor:
            return int(self._rng.choice(devices))
        member = int(self._rng.integers(self.members))
        return int(np.where(can, self.values(features)[member, 0], -np.inf).argmax())

    # -- learning ----------------------------------------------------------------

    def pretrain(self, features: ArrayLike, seconds: ArrayLike, *, steps: int = 600) -> None:
        """Learn from offline data: (n, features), and (n, devices) seconds on all devices."""
        rows = np.log1p(np.asarray(features, float))
        logs = -np.log(np.maximum(np.asarray(seconds, float), SHORTEST))
        fits = rows.ndim == 2 and logs.shape == (len(rows), self.devices)
        if not fits or rows.shape[1] != self.features:
            raise InvalidInput(
                f"offline data has shapes {rows.shape} and {logs.shape}; "
                f"expected (n, {self.features}) and (n, {self.devices})"
            )
        spread = rows.std(axis=0)
        self._centre, self._spread = rows.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._level, self._unit = float(logs.mean()), float(logs.std()) or 1.0
        self._data = (self._inputs(features), (logs - self._level) / self._unit)
        for _ in range(steps):
            x, y = self._drawn_offline(2 * BATCH)
            self._step(x, y, np.ones((1, *y.shape)))

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn from the seconds of one task on the device chosen for it."""
        at = self._seen % MEMORY
        self._state[at] = self._inputs(features)[0]
        self._action[at] = device
        self._reward[at] = (-np.log(max(seconds, SHORTEST)) - self._level) / self._unit
        # Bayesian bootstrap (Rubin 1981, section 2): every member weighs every task.
        self._weight[:, at] = self._rng.exponential(size=self.members)
        self._seen += 1
        for _ in range(self.updates):
            self._step(*self._mixed(at))

    def _mixed(self, newest: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draw a batch: half offline, half online (the newest, recent and older tasks).

        Weights are 0 for actions that were not taken.
        """
        picked = self._rng.integers(min(self._seen, MEMORY), size=BATCH)
        near = BATCH // 2
        picked[:near] = (newest - self._rng.integers(min(self._seen, RECENT), size=near)) % MEMORY
        picked[0] = newest
        taken = np.arange(self.devices)[:, None] == self._action[picked]
        x, y = self._state[picked], np.where(taken, self._reward[picked], 0.0)
        weight = self._weight[:, None, picked] * taken
        if self._data is None:
            return x, y, weight
        old_x, old_y = self._drawn_offline(BATCH)
        old_weight = np.full((self.members, *old_y.shape), OFFLINE)
        joined = np.concatenate([weight, old_weight], axis=2)
        return np.concatenate([x, old_x]), np.concatenate([y, old_y], axis=1), joined

    def _drawn_offline(self, size: int) -> tuple[FloatArray, FloatArray]:
        assert self._data is not None
        picked = self._rng.integers(len(self._data[0]), size=size)
        return self._data[0][picked], self._data[1][picked].T

    def _step(self, x: FloatArray, y: FloatArray, weight: FloatArray) -> None:
        """Take one step of Adam to `y` (devices, batch).

        The weights are (members, devices, batch).
        """
        target = y - PRIOR * _forward(self._fixed, x)[-1][..., 0]
        self._adam.step(
            self._layers, _gradient(self._layers, x, target[..., None], weight[..., None])
        )

    def _inputs(self, features: ArrayLike) -> FloatArray:
        """Return logarithms, standardised by the offline data and compressed far from it."""
        rows = (np.log1p(np.array(features, float, ndmin=2)) - self._centre) / self._spread
        return np.asarray(np.sign(rows) * np.log1p(np.abs(rows)))


def _drawn_layers(
    rng: np.random.Generator, nets: tuple[int, int], widths: tuple[int, ...]
) -> Layers:
    """Draw initial weights (He et al. 2015, section 2.2)."""
    layers: Layers = []
    for rows, columns in pairwise(widths):
        layers.append(rng.standard_normal((*nets, rows, columns)) * np.sqrt(2.0 / rows))
        layers.append(np.zeros((*nets, 1, columns)))
    return layers


class _Adam:
    def __init__(self, layers: Layers) -> None:
        self.time = 0
        self.mean, self.square = ([np.zeros_like(a) for a in layers] for _ in range(2))

    def step(self, layers: Layers, gradient: Layers) -> None:
        """Take one step of Adam (Kingma and Ba 2015, algorithm 1, default constants)."""
        self.time += 1
        scale = RATE * np.sqrt(1 - 0.999**self.time) / (1 - 0.9**self.time)
        for a, g, m, v in zip(layers, gradient, self.mean, self.square, strict=True):
            m[...] += 0.1 * (g - m)
            v[...] += 0.001 * (g * g - v)
            a[...] -= scale * m / (np.sqrt(v) + 1e-8)


def _forward(layers: Layers, x: FloatArray) -> list[FloatArray]:
    """Return the inputs and the outputs of every layer; ReLU between layers."""
    steps = [x]
    for k in range(0, len(layers), 2):
        x = x @ layers[k] + layers[k + 1]
        if k + 2 < len(layers):
            x = np.maximum(x, 0.0)
        steps.append(x)
    return steps


def _gradient(layers: Layers, x: FloatArray, y: FloatArray, weight: FloatArray) -> Layers:
    """Return the gradient of half the weighted mean squared error (back-propagation)."""
    steps = _forward(layers, x)
    flow = weight * (steps[-1] - y) / x.shape[-2]
    gradient: Layers = []
    for k in range(len(layers) - 2, -1, -2):
        before = steps[k // 2]
        gradient[:0] = [np.swapaxes(before, -1, -2) @ flow, flow.sum(axis=-2, keepdims=True)]
        if k:
            flow = (flow @ np.swapaxes(layers[k], -1, -2)) * (before > 0)
    return gradient
