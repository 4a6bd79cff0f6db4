"""Episodes of decisions, and the memory that training draws them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.model.columns import Float32Array, FloatArray, IntArray
from weft.sim.kernel.jit import njit_noalloc

if TYPE_CHECKING:
    from weft.learn.dqn import DqnSettings


class Episode(NamedTuple):
    """Decisions of one episode."""

    stage: IntArray  # (decisions,)
    chosen: Float32Array  # (decisions, features) of the chosen candidate
    kept: IntArray  # (decisions,) number of candidates kept
    shown: IntArray  # (decisions,) place of the demonstrated one among the kept ones, or -1
    candidates: Float32Array  # (decisions, candidates, features)
    reward: FloatArray  # (decisions, terms) after the decision


def make_episode(decisions: int, candidates: int, features: int, terms: int) -> Episode:
    """Allocate an episode."""
    return Episode(
        stage=np.zeros(decisions, np.int64),
        chosen=np.zeros((decisions, features), np.float32),
        kept=np.zeros(decisions, np.int64),
        shown=np.full(decisions, -1),
        candidates=np.zeros((decisions, candidates, features), np.float32),
        reward=np.zeros((decisions, terms)),
    )


class SumTree:
    """A tree that draws places in proportion to their priority.

    Schaul et al. (2016), section B.2.1.

    Examples
    --------
    >>> tree = SumTree(4)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.draw(np.array([0.1, 0.3, 0.9])).tolist()  # 0.4, 1.2 and 3.6 of 4
    (4.0, [0, 2, 2])
    """

    def __init__(self, size: int) -> None:
        self.leaves = 1 << max(size - 1, 0).bit_length()
        self._sum = np.zeros(2 * self.leaves)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._sum[1])

    def set(self, places: IntArray, priorities: FloatArray) -> None:
        """Set the priorities of places."""
        _set(self._sum, self.leaves, places.astype(np.int64), priorities.astype(np.float64))

    def draw(self, shares: FloatArray) -> IntArray:
        """Return the places at which shares (0 to 1) of the total fall."""
        places = np.empty(len(shares), np.int64)
        _draw(self._sum, self.leaves, shares.astype(np.float64), places)
        return places

    def priority(self, places: IntArray) -> FloatArray:
        """Return the priorities of places."""
        found: FloatArray = self._sum[places + self.leaves]
        return found


@njit_noalloc
def _set(tree: FloatArray, leaves: int, places: IntArray, priorities: FloatArray) -> None:
    for k in range(len(places)):
        node = places[k] + leaves
        tree[node] = priorities[k]
        node //= 2
        while node >= 1:  # sum the children, as adding differences would add up rounding errors
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2


@njit_noalloc
def _draw(tree: FloatArray, leaves: int, shares: FloatArray, places: IntArray) -> None:
    for k in range(len(shares)):
        left, node = shares[k] * tree[1], 1
        while node < leaves:
            node *= 2
            if left >= tree[node] and tree[node + 1] > 0.0:
                left -= tree[node]
                node += 1
        places[k] = node - leaves


class ReplayMemory:
    """A ring of transitions with priorities.

    A later state is stored as the transition that begins there. That transition is newer than the
    ones that refer to it, so it is overwritten after them.
    """

    def __init__(self, settings: DqnSettings, features: int) -> None:
        self._settings, size = settings, settings.memory
        self.size, self.held, self._at, self._highest = size, 0, 0, 1.0
        self.episode = make_episode(size, settings.candidates, features, 0)
        self.gain, self.discount = np.zeros(size), np.zeros(size)
        self.later = np.zeros(size, np.int64)
        self._tree = SumTree(size)

    def add(self, episode: Episode, reward: FloatArray) -> None:
        """Add the first `len(reward)` decisions of an episode, with their n-step returns."""
        count, steps, discount = len(reward), self._settings.steps, self._settings.discount
        places = (self._at + np.arange(count)) % self.size
        for name in ("stage", "chosen", "kept", "shown", "candidates"):
            getattr(self.episode, name)[places] = getattr(episode, name)[:count]
        ahead = np.zeros(count + steps)
        ahead[:count] = reward
        gain = np.zeros(count)
        for k in range(steps):
            gain += discount**k * ahead[k : k + count]
        after = np.arange(count) + steps
        self.gain[places] = gain
        self.discount[places] = np.where(after < count, discount**steps, 0.0)
        self.later[places] = (self._at + np.minimum(after, count - 1)) % self.size
        self._tree.set(places, np.full(count, self._highest))
        self._at = int((self._at + count) % self.size)
        self.held = min(self.held + count, self.size)

    def draw(self, beta: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw a batch of places, with their importance weights."""
        batch = self._settings.batch
        shares = (np.arange(batch) + rng.random(batch)) / batch
        places = self._tree.draw(np.minimum(shares, 1.0 - 1e-12))
        weight = (self._tree.priority(places) / self._tree.total * self.held) ** -beta
        return places, weight / weight.max()

    def set_errors(self, places: IntArray, error: FloatArray) -> None:
        """Set the priorities of places by their errors."""
        priority = (np.abs(error) + 1e-3) ** self._settings.alpha
        self._highest = max(self._highest, float(priority.max()))
        self._tree.set(places, priority)

    def state(self, places: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        """Return stage, candidates, and the mask of the candidates, as tensors."""
        count, candidates = self.episode.kept[places], self.episode.candidates[places]
        mask = np.arange(candidates.shape[1]) < count[:, None]
        stage = torch.from_numpy(self.episode.stage[places])
        return stage, torch.from_numpy(candidates), torch.from_numpy(mask)
