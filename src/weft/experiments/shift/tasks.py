"""Tasks, device model and shifts of the hybrid-scheduler document.

CPU seconds are (size / 1000)^1.5 / (intensity + 0.5). A GPU is 1 + 3 x intensity times as fast, but
the transfer of the task's memory takes memory / (16,000 MB/s). No accelerator is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.columns import FloatArray
from weft.rng import generator

FEATURES = ("size", "intensity", "memory")
LOGS = ("size", "memory")
CPU, GPU = 0, 1
LINK = 16_000.0
"""MB/s to the GPU: PCI Express 3.0 x16, as in the document."""


@dataclass(frozen=True)
class Mix:
    """A kind of workload: uniform ranges of size, intensity and memory (MB)."""

    size: tuple[int, int]
    intensity: tuple[float, float]
    memory: tuple[int, int]


BIASED = Mix((1000, 10_000), (0.8, 1.0), (10, 500))
"""Training tasks: the GPU is always better."""
SHIFTED = Mix((10, 100), (0.0, 0.1), (2000, 5000))
"""Test tasks: the CPU is always better."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """Columns of tasks; `parents` has the predecessors of each task."""

    size: FloatArray
    intensity: FloatArray
    memory: FloatArray
    parents: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.size)

    @property
    def features(self) -> FloatArray:
        """(n, 3) inputs of the schedulers: size, intensity, memory."""
        return np.column_stack([self.size, self.intensity, self.memory])

    @property
    def seconds(self) -> FloatArray:
        """(n, 2) on the CPU and on the GPU, transfer included.

        Examples
        --------
        >>> task = Tasks(np.array([1000.0]), np.array([0.5]), np.array([1600.0]))
        >>> task.seconds.tolist()  # 1 / 1; 1 / 2.5 + 0.1
        [[1.0, 0.5]]
        """
        cpu = (self.size / 1000.0) ** 1.5 / (self.intensity + 0.5)
        return np.column_stack([cpu, cpu / (1.0 + 3.0 * self.intensity) + self.memory / LINK])


def split_seconds(seconds: FloatArray, fraction: FloatArray | float) -> FloatArray:
    """Return (n,) seconds with a fraction of each task on the GPU."""
    return np.asarray(fraction * seconds[:, GPU] + (1.0 - fraction) * seconds[:, CPU])


def document_tasks(
    count: int, mix: Mix, generator: np.random.RandomState, *, rate: float = 10.0
) -> Tasks:
    """Draw tasks in the order of the document's generator.

    Per task: the gap to the next arrival, size, intensity, memory; then, with probability 0.2, 1 to
    3 parents among the last 50 tasks. `RandomState(99)` equals numpy's global generator, seed 99.
    """
    rows, parents = [], []
    for i in range(count):
        generator.exponential(1.0 / rate)
        rows.append(
            (
                generator.randint(*mix.size),
                generator.uniform(*mix.intensity),
                generator.randint(*mix.memory),
            )
        )
        mine: tuple[int, ...] = ()
        if i > 0 and generator.random_sample() < 0.2:
            near = np.arange(max(0, i - 50), i)
            chosen = generator.choice(
                near, size=min(int(generator.randint(1, 4)), len(near)), replace=False
            )
            mine = tuple(int(k) for k in chosen)
        parents.append(mine)
    columns = np.array(rows, float)
    return Tasks(columns[:, 0], columns[:, 1], columns[:, 2], tuple(parents))


# -- sequences in which something changes ----------------------------------------------


@dataclass(frozen=True, eq=False)
class TaskSequence:
    """Tasks in order, their seconds on both devices, and changes."""

    name: str
    about: str
    features: FloatArray
    seconds: FloatArray
    changes: tuple[int, ...] = ()

    @property
    def optimal(self) -> FloatArray:
        """(n,) seconds of each task on the better device."""
        return np.asarray(self.seconds.min(axis=1))


def sequences(test: Tasks, seed: int = 0) -> list[TaskSequence]:
    """Return sequences with undone, repeated and gradual shifts, a slow device."""
    return [_reversed(test, seed), _repeated(seed), _gradual(seed), _device(seed)]


def _reversed(test: Tasks, seed: int) -> TaskSequence:
    features = np.concatenate([test.features, draw_tasks(BIASED, 250, seed, "reversed")])
    return _sequence(
        "reversed",
        "the document's 500 tasks, then 250 training tasks: the second shift undoes the first",
        features,
        (0, 500),
    )


def _repeated(seed: int) -> TaskSequence:
    parts = [
        draw_tasks(mix, 200, seed, "repeated", k) for k, mix in enumerate((SHIFTED, BIASED) * 3)
    ]
    return _sequence(
        "repeated",
        "six shifts between test and training tasks, 200 tasks each",
        np.concatenate(parts),
        tuple(range(0, 1200, 200)),
    )


def _gradual(seed: int) -> TaskSequence:
    """Interpolate logarithms from training to test tasks."""
    share = np.linspace(0.0, 1.0, 1000)[:, None]
    begin, end = (
        draw_tasks(BIASED, 1000, seed, "gradual", 0),
        draw_tasks(SHIFTED, 1000, seed, "gradual", 1),
    )
    end[:, 1] += 1e-3  # zero has no logarithm
    return _sequence(
        "gradual",
        "1000 tasks that drift from training tasks to test tasks",
        np.exp((1 - share) * np.log(begin) + share * np.log(end)),
    )


def _device(seed: int) -> TaskSequence:
    """Slow down the GPU for a while; the features do not show it."""
    plain = _sequence(
        "device",
        "training tasks; the GPU is 30 times slower from task 250 to 500",
        draw_tasks(BIASED, 1000, seed, "device"),
    )
    seconds = plain.seconds.copy()
    seconds[250:500, GPU] *= 30.0
    return TaskSequence(plain.name, plain.about, plain.features, seconds, (250, 500))


def _sequence(
    name: str, about: str, features: FloatArray, changes: tuple[int, ...] = ()
) -> TaskSequence:
    return TaskSequence(name, about, features, Tasks(*features.T).seconds, changes)


def draw_tasks(mix: Mix, count: int, seed: int, *names: str | int) -> FloatArray:
    """Draw (count, 3) features of a mix."""
    rng = generator(seed, "shift", *names)
    return np.column_stack(
        [
            rng.integers(*mix.size, count),
            rng.uniform(*mix.intensity, count),
            rng.integers(*mix.memory, count),
        ]
    ).astype(float)
