"""Separable CMA-ES (Ros and Hansen 2008, "A Simple Modification in CMA-ES").

A normal distribution with one variance per number moves towards the better half of each generation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray


class SeparableCma:
    """An ask-and-tell minimiser.

    Parameters
    ----------
    start, spread : initial mean and standard deviation of each number
    population : candidates per generation
    guarded : take three precautions for noisy costs: cap the learning rates of the variances at
        0.5; suspend the path of the variances while the path of the step size is too long (Hansen
        2016, "The CMA Evolution Strategy: A Tutorial", appendix A, h_sigma); and update from the
        drawn steps, not from the candidates passed to `tell`. All numbers then share one `spread`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> search = SeparableCma(np.array([3.0, -2.0]), np.ones(2), population=8, rng=rng)
    >>> for _ in range(60):
    ...     costs = search.improve(lambda candidate: (candidate**2).sum())
    >>> bool((abs(search.mean) < 0.01).all())
    True
    """

    def __init__(
        self,
        start: FloatArray,
        spread: FloatArray | float,
        *,
        population: int,
        rng: np.random.Generator,
        guarded: bool = False,
    ) -> None:
        scale = np.asarray(spread, float)
        if population < 4 or not (scale > 0).all():
            raise InvalidInput(
                f"CMA-ES: population is {population} and the least spread {scale.min()}; they must "
                "be 4 or more, and above 0"
            )
        n = len(start)
        self.mean, self.population = start.astype(float).copy(), population
        self.sigma = float(scale) if guarded else 1.0
        self._scale: FloatArray = np.ones(n) if guarded else scale
        self._rng, self._guarded = rng, guarded
        rank = math.log(population / 2 + 0.5) - np.log(np.arange(1, population // 2 + 1))
        self._share: FloatArray = rank / rank.sum()
        mass = 1.0 / float((self._share**2).sum())
        self._mass, self._length = mass, math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._step_rate = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + self._step_rate
        self._path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
        cap = 0.5 if guarded else 1.0
        faster = (n + 2) / 3  # n variances are learned faster than a full matrix: Ros and Hansen
        self._one = min(cap, faster * 2 / ((n + 1.3) ** 2 + mass))
        many = faster * 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass)
        self._many = min(cap, 1 - self._one, many)
        self._variance, self._step_path, self._path = np.ones(n), np.zeros(n), np.zeros(n)
        self._drawn = np.zeros((population, n))
        self._generation = 0

    def ask(self) -> FloatArray:
        """Return (population, numbers) candidates."""
        self._drawn = self._rng.standard_normal((self.population, len(self.mean)))
        colour, white, _ = self._factors()
        candidates: FloatArray = (
            self.mean + self.sigma * colour * (self._drawn * white) * self._scale
        )
        return candidates

    def tell(self, candidates: FloatArray, costs: FloatArray) -> None:
        """Move towards the candidates with the lowest costs."""
        self._generation += 1
        colour, white, variance = self._factors()
        best = np.argsort(costs, kind="stable")[: len(self._share)]
        steps = (
            self._drawn[best]
            if self._guarded
            else (candidates[best] - self.mean) / (self.sigma * self._scale)
        )
        step = self._share @ steps
        self.mean = self.mean + self.sigma * colour * self._scale * step
        c, slow = self._step_rate, self._path_rate
        pull = math.sqrt(c * (2 - c) * self._mass)
        self._step_path = (1 - c) * self._step_path + pull * step / white
        length = float(np.linalg.norm(self._step_path))
        push = 0.0 if self._stalled(length) else math.sqrt(slow * (2 - slow) * self._mass)
        self._path = (1 - slow) * self._path + push * colour * step
        spread = self._share @ (variance * steps**2)
        self._variance = (
            (1 - self._one - self._many) * self._variance
            + self._one * self._path**2
            + self._many * spread
        )
        self.sigma *= math.exp(c / self._damping * (length / self._length - 1))

    def improve(self, cost: Callable[[FloatArray], float]) -> FloatArray:
        """Run a generation; return the costs of its candidates."""
        candidates = self.ask()
        costs = np.array([cost(candidate) for candidate in candidates])
        self.tell(candidates, costs)
        return costs

    def _factors(self) -> tuple[FloatArray | float, FloatArray | float, FloatArray | float]:
        """Return factors of steps, divisors of steps, and variances of steps.

        If guarded, steps are stored as standard normal numbers; otherwise they include the
        deviations of the distribution.
        """
        root = np.sqrt(self._variance)
        return (root, 1.0, self._variance) if self._guarded else (1.0, root, 1.0)

    def _stalled(self, length: float) -> bool:
        if not self._guarded:
            return False
        start = math.sqrt(1 - (1 - self._step_rate) ** (2 * self._generation))
        return not length / start < (1.4 + 2 / (len(self.mean) + 1)) * self._length
