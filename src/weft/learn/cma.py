"""Separable CMA-ES (Ros and Hansen 2008): a normal distribution with one variance a number, moved towards the better half each time."""

from __future__ import annotations

import math

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray


class SeparableCma:
    """Ask for candidates, tell their costs.

    Parameters
    ----------
    start, spread : first mean and standard deviation of each number
    population : candidates in a generation

    Examples
    --------
    >>> search = SeparableCma(np.array([3.0, -2.0]), np.ones(2), population=8, rng=np.random.default_rng(0))
    >>> for _ in range(60):
    ...     candidates = search.ask()
    ...     search.tell(candidates, (candidates**2).sum(axis=1))
    >>> bool((abs(search.mean) < 0.01).all())
    True
    """

    def __init__(
        self, start: FloatArray, spread: FloatArray, *, population: int, rng: np.random.Generator
    ) -> None:
        if population < 4 or not (spread > 0).all():
            raise InvalidInput(
                f"evolution: population is {population} and the least spread {spread.min()}; they must be 4 or more, above 0"
            )
        n = len(start)
        self.mean, self._scale, self._rng, self.population = (
            start.astype(float).copy(),
            spread.astype(float),
            rng,
            population,
        )
        rank = np.log(population / 2 + 0.5) - np.log(np.arange(1, population // 2 + 1))
        self._share = rank / rank.sum()
        mass = 1.0 / float((self._share**2).sum())
        self._path_rate = (mass + 2) / (n + mass + 5)
        self._damping = 1 + self._path_rate + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1)
        self._slow = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self._one = min(1.0, (n + 2) / 3 * 2 / ((n + 1.3) ** 2 + mass))
        self._many = min(
            1 - self._one, (n + 2) / 3 * 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass)
        )
        self._mass, self._length = mass, math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._variance, self._step_path, self._path = np.ones(n), np.zeros(n), np.zeros(n)
        self.sigma = 1.0

    def ask(self) -> FloatArray:
        """(population, numbers) candidates."""
        steps = self._rng.standard_normal((self.population, len(self.mean))) * np.sqrt(
            self._variance
        )
        candidates: FloatArray = self.mean + self.sigma * steps * self._scale
        return candidates

    def tell(self, candidates: FloatArray, costs: FloatArray) -> None:
        """Move towards the candidates with the lowest costs."""
        best = np.argsort(costs, kind="stable")[: len(self._share)]
        steps = (candidates[best] - self.mean) / (self.sigma * self._scale)
        step = self._share @ steps
        self.mean = self.mean + self.sigma * self._scale * step
        pull = math.sqrt(self._path_rate * (2 - self._path_rate) * self._mass)
        self._step_path = (1 - self._path_rate) * self._step_path + pull * step / np.sqrt(
            self._variance
        )
        self._path = (1 - self._slow) * self._path + math.sqrt(
            self._slow * (2 - self._slow) * self._mass
        ) * step
        spread = self._share @ (steps * steps)
        self._variance = (
            (1 - self._one - self._many) * self._variance
            + self._one * self._path**2
            + self._many * spread
        )
        self.sigma *= math.exp(
            self._path_rate
            / self._damping
            * (float(np.linalg.norm(self._step_path)) / self._length - 1)
        )
