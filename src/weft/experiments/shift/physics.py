"""Further device models, and mixed sets in which no single device is best.

Each changes one thing: exponents of the size, floors of launches, noise, a third device, cliffs
where data no longer fits, and an oscillation with the size as tiles and waves of threads cause it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.experiments.shift.tasks import LINK, SHIFTED, Tasks, draw_tasks
from weft.model.columns import FloatArray, IntArray
from weft.rng import generator

SIZES, MEMORY = (50.0, 1000.0), (10.0, 5000.0)
"""Ranges of mixed sets, drawn evenly by logarithm; intensity is uniform from 0 to 1."""


def _document(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    return Tasks(size, intensity, memory).seconds


def _exponents(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    cpu, gpu = ((size / 1000.0) ** power / (intensity + 0.5) for power in (2.0, 1.2))
    return np.column_stack([cpu, gpu / (1.0 + 3.0 * intensity) + memory / LINK])


def _floors(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(_document(size, intensity, memory), [0.005, 0.05]))


def _three(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    seconds = _document(size, intensity, memory)
    third = seconds[:, 0] / (1.0 + 12.0 * intensity) + 0.02 + memory / (LINK / 4)
    return np.column_stack([seconds, third])


def _cliffs(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    slower = np.column_stack([np.where(size > 400, 4.0, 1.0), np.where(memory > 1000, 8.0, 1.0)])
    return np.asarray(_document(size, intensity, memory) * slower)


def _oscillation(size: FloatArray, intensity: FloatArray, memory: FloatArray) -> FloatArray:
    seconds = _document(size, intensity, memory).copy()
    seconds[:, 1] *= 2.0 ** np.sin(np.pi * np.log2(size))
    return seconds


@dataclass(frozen=True)
class Physics:
    """A device model: seconds of tasks on each device, and the noise of a measurement."""

    name: str
    about: str
    of: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    noise: float = 0.0

    def seconds(self, features: FloatArray) -> FloatArray:
        """Return (n, devices) seconds without noise."""
        return self.of(*np.asarray(features, float).T)


PHYSICS = (
    Physics("document", "the document's device model", _document),
    Physics("exponents", "seconds grow by size^2 on the CPU, by size^1.2 on the GPU", _exponents),
    Physics("floors", "no task is shorter than 5 ms (CPU) or 50 ms (GPU)", _floors),
    Physics("noise", "every execution varies, log-normal with sigma 0.3", _document, noise=0.3),
    Physics("three kinds", "a third device: 1 + 12 x intensity, link of 4 GB/s", _three),
    Physics("cliffs", "CPU 4 times slower above size 400, GPU 8 times above 1 GB", _cliffs),
    Physics("oscillation", "the GPU is up to 2 times faster and slower, by size", _oscillation),
)

PRODUCTS, COPIES = (64, 128, 256, 512, 1024), (100.0, 1000.0, 4000.0)


def profile_tasks() -> FloatArray:
    """Return (8, 3) features: products of square float32 matrices, and copies in MB.

    They are the profile of the devices.
    """
    products = [(n, 1.0, 3 * 4e-6 * n**2) for n in PRODUCTS]
    return np.array([*products, *((64.0, 0.0, memory) for memory in COPIES)], float)


@dataclass(frozen=True, eq=False)
class PhysicsCase:
    """A set of tasks under a device model, the biased offline data, and the profile."""

    physics: Physics
    features: FloatArray
    seconds: FloatArray
    best: IntArray
    offline: FloatArray
    offline_seconds: FloatArray
    profile_seconds: FloatArray

    @property
    def optimal(self) -> FloatArray:
        """(n,) seconds on the device with the least expected time, noise included."""
        return np.asarray(self.seconds[np.arange(len(self.best)), self.best])

    @property
    def single(self) -> float:
        """Time of the best single device over the optimum."""
        return float(self.seconds.sum(axis=0).min() / self.optimal.sum())


def draw_case(physics: Physics, offline: FloatArray, *, mixed: bool, seed: int) -> PhysicsCase:
    """Draw 500 tasks, mixed or as shifted as the document's, and their measurements."""
    features = _mixed(seed, physics.name) if mixed else draw_tasks(SHIFTED, 500, seed, "physics")
    noise = generator(seed, "shift", "noise", physics.name)

    def measured(rows: FloatArray) -> FloatArray:
        exact = physics.seconds(rows)
        sigma = physics.noise
        return exact * np.exp(noise.normal(-(sigma**2) / 2, sigma, exact.shape)) if sigma else exact

    return PhysicsCase(
        physics,
        features,
        measured(features),
        physics.seconds(features).argmin(axis=1),
        offline,
        measured(offline),
        measured(profile_tasks()),
    )


def _mixed(seed: int, name: str, count: int = 500) -> FloatArray:
    rng = generator(seed, "shift", "mixed", name)

    def even_by_log(low: float, high: float) -> FloatArray:
        return np.exp(rng.uniform(np.log(low), np.log(high), count))

    return np.column_stack([even_by_log(*SIZES), rng.uniform(0, 1, count), even_by_log(*MEMORY)])
