"""Batch curves of a user's own functions: they are run at several batch sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from weft.errors import InvalidInput

GOOD_FIT = 0.05
"""Largest relative error of the line alpha + beta x b that is written instead of a table."""

MOST_TASKS = 100_000
"""Largest batch that is measured."""


@dataclass(frozen=True)
class BatchProfile:
    """Seconds of a function by batch size: medians, and a line alpha + beta x b.

    Attributes
    ----------
    sizes, seconds : measured batch sizes, the first is 1, and their median seconds
    cold : seconds of the very first call, a batch of one
    alpha, beta : seconds per batch and per task; `error` : largest relative error of that line
    """

    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    cold: float
    alpha: float
    beta: float
    error: float

    @property
    def growth(self) -> tuple[float, ...]:
        """Seconds of each measured size over those of one task."""
        return tuple(s / self.seconds[0] for s in self.seconds)

    def curve(self, largest: int | None = None) -> float | list[float]:
        """Return the batch curve: a number if a line fits, else a table of 1 to `largest`."""
        if self.error <= GOOD_FIT:
            return round(self.beta / (self.alpha + self.beta), 4)
        every = np.arange(1, (largest or self.sizes[-1]) + 1)
        table = np.interp(every, self.sizes, self.growth)
        return [round(float(g), 4) for g in table]

    def toml(self) -> str:
        """Return the lines of a unit or device."""
        kind, ms = json.dumps(self.name), 1000.0
        beyond = self.cold - self.seconds[0]
        lines = [f"# {self.name}: one task takes {ms * self.seconds[0]:.4g} ms"]
        lines += [f"batch = {self.sizes[-1]}", f"batch_curve = {{{kind} = {self.curve()}}}"]
        if beyond > 0.2 * self.seconds[0]:
            lines.append(f'setup = {{{kind} = "{ms * beyond:.4g} ms"}}')
        return "\n".join(lines) + "\n"


def profile_batches(
    function: Callable[[list[Any]], Any],
    item: Any,
    *,
    sizes: Sequence[int] = (1, 2, 4, 8),
    repeats: int = 5,
    name: str = "task",
    clock: Callable[[], float] = time.perf_counter,
) -> BatchProfile:
    """Run a function on lists of 1, 2, ... equal items; measure the first call apart.

    Sizes take turns, so that a machine that slows down does not distort the curve.

    Examples
    --------
    >>> now = [0.0]
    >>> def detect(items):
    ...     now[0] += 0.010 + 0.002 * len(items)
    >>> found = profile_batches(detect, None, clock=lambda: now[0])
    >>> found.curve()  # 2 / 12: what each further task adds
    0.1667
    """
    wanted = sorted({1, *map(int, sizes)})
    if wanted[0] < 1 or wanted[-1] > MOST_TASKS or len(wanted) < 2 or repeats < 1:
        raise InvalidInput(
            f"batch sizes are {list(sizes)} and repeats {repeats}; give at least one size above "
            f"1, none above {MOST_TASKS}, and one repeat or more"
        )

    def seconds(size: int) -> float:
        begin = clock()
        try:
            function([item] * size)
        except Exception as error:
            raise InvalidInput(
                f"'{name}' raised {type(error).__name__} for a list of {size} items: {error}"
            ) from error
        return max(clock() - begin, 1e-9)

    cold = seconds(1)
    found: dict[int, list[float]] = {size: [] for size in wanted}
    for _ in range(repeats):
        for size in wanted:
            found[size].append(seconds(size))
    return fitted(name, {size: median(values) for size, values in found.items()}, cold)


def fitted(name: str, seconds: dict[int, float], cold: float) -> BatchProfile:
    """Return a profile with the line that fits best, by relative error."""
    sizes, values = np.array(list(seconds), float), np.array(list(seconds.values()))
    columns = np.column_stack((np.ones(len(sizes)), sizes)) / values[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    alpha, beta = max(float(alpha), 0.0), max(float(beta), 0.0)
    line = alpha + beta * sizes
    error = float(np.abs(line / values - 1.0).max())
    return BatchProfile(name, tuple(seconds), tuple(values.tolist()), cold, alpha, beta, error)
