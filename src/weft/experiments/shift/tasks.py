"""Tasks, physics and shifts of the hybrid-scheduler document: what was drawn how, and what takes how long.

The physics is the document's: CPU seconds are (size / 1000)^1.5 / (intensity + 0.5); a GPU is 1 + 3 x intensity times as fast,
but moving the task's memory there takes memory / 16,000 MB/s. No accelerator need be present: this is the device model.
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
    """A kind of workload: ranges that sizes, intensities and memories (MB) are drawn from, evenly."""

    size: tuple[int, int]
    intensity: tuple[float, float]
    memory: tuple[int, int]


BIASED = Mix((1000, 10_000), (0.8, 1.0), (10, 500))
"""What the models are trained on: the GPU is always best."""
SHIFTED = Mix((10, 100), (0.0, 0.1), (2000, 5000))
"""What they are tested on: the CPU is always best."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """Columns of tasks; `parents` holds the tasks each one waits for."""

    size: FloatArray
    intensity: FloatArray
    memory: FloatArray
    parents: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.size)

    @property
    def features(self) -> FloatArray:
        """(n, 3) what schedulers see: size, intensity, memory."""
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
    """(n,) seconds when a fraction of each task goes to the GPU: linear, so 0 or 1 is always best."""
    return np.asarray(fraction * seconds[:, GPU] + (1.0 - fraction) * seconds[:, CPU])


def document_tasks(
    count: int, mix: Mix, generator: np.random.RandomState, *, rate: float = 10.0
) -> Tasks:
    """Draw tasks as the document's generator does, in its order; `RandomState(99)` is numpy's global generator seeded with 99.

    A task: the gap to the next arrival, size, intensity, memory; then, with probability 0.2, 1 to 3 parents among the last 50 tasks.
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


# -- streams of tasks in which something changes ---------------------------------


@dataclass(frozen=True, eq=False)
class TaskSequence:
    """Tasks one after the other, what each takes on either device, and before which of them something changed at once."""

    name: str
    about: str
    features: FloatArray
    seconds: FloatArray
    changes: tuple[int, ...] = ()

    @property
    def optimal(self) -> FloatArray:
        """(n,) seconds of each task on the better device."""
        return np.asarray(self.seconds.min(axis=1))


def streams(test: Tasks, seed: int = 0) -> list[TaskSequence]:
    """What a learner has to survive: the shift of the document undone, done again and again, gradual, and devices that change."""
    return [_reversed(test, seed), _repeated(seed), _gradual(seed), _device(seed)]


def _reversed(test: Tasks, seed: int) -> TaskSequence:
    features = np.concatenate([test.features, _draw(BIASED, 250, seed, "reversed")])
    return _stream(
        "reversed",
        "the document's 500 tasks, then 250 of the training kind: the second shift undoes the first",
        features,
        (0, 500),
    )


def _repeated(seed: int) -> TaskSequence:
    parts = [_draw(mix, 200, seed, "repeated", k) for k, mix in enumerate((SHIFTED, BIASED) * 3)]
    return _stream(
        "repeated",
        "six shifts, 200 tasks each, there and back",
        np.concatenate(parts),
        tuple(range(0, 1200, 200)),
    )


def _gradual(seed: int) -> TaskSequence:
    """From the training kind to the test kind, in the exponents; the devices are equal somewhere on the way."""
    share = np.linspace(0.0, 1.0, 1000)[:, None]
    begin, end = _draw(BIASED, 1000, seed, "gradual", 0), _draw(SHIFTED, 1000, seed, "gradual", 1)
    end[:, 1] += 1e-3  # an intensity of nothing has no exponent
    return _stream(
        "gradual",
        "1000 tasks that drift from the training kind to the test kind",
        np.exp((1 - share) * np.log(begin) + share * np.log(end)),
    )


def _device(seed: int) -> TaskSequence:
    """Nothing about the tasks tells: the GPU itself is slow for a while."""
    plain = _stream(
        "device",
        "tasks of the training kind; the GPU is 30 times slower from task 250 to 500",
        _draw(BIASED, 1000, seed, "device"),
    )
    seconds = plain.seconds.copy()
    seconds[250:500, GPU] *= 30.0
    return TaskSequence(plain.name, plain.about, plain.features, seconds, (250, 500))


def _stream(
    name: str, about: str, features: FloatArray, changes: tuple[int, ...] = ()
) -> TaskSequence:
    return TaskSequence(name, about, features, Tasks(*features.T).seconds, changes)


def _draw(mix: Mix, count: int, seed: int, *names: str | int) -> FloatArray:
    rng = generator(seed, "shift", *names)
    return np.column_stack(
        [
            rng.integers(*mix.size, count),
            rng.uniform(*mix.intensity, count),
            rng.integers(*mix.memory, count),
        ]
    ).astype(float)


def within(
    stream_: TaskSequence, spent: FloatArray, change: int, *, after: int = 50, window: int = 50
) -> float:
    """Time spent over the optimum in a window that begins so many tasks after a change."""
    part = slice(change + after, change + after + window)
    return float(spent[part].sum() / stream_.optimal[part].sum())
