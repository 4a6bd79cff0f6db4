"""The strategies of the hybrid-scheduler document, and ours, under its accounting: one task after the other, times added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from weft.experiments.shift.tasks import (
    BIASED,
    CPU,
    FEATURES,
    GPU,
    LOGS,
    Tasks,
    TaskSequence,
    document_tasks,
    split_seconds,
)
from weft.learn.durations.bandit import EnsembleBandit
from weft.learn.durations.forest import Forest
from weft.learn.durations.hybrid import HybridChooser
from weft.learn.durations.model import DurationModel
from weft.model.columns import FloatArray, IntArray

FOREST_FEATURES = ("size", "intensity", "memory", "memory / (size + 1)", "intensity / (memory + 1)")


class Learner(Protocol):
    """A scheduler that decides, sees what came of it, and learns."""

    def choose(self, features: ArrayLike) -> int:
        """Return a device for a task."""
        ...

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn how long the task took there."""
        ...


@dataclass(frozen=True, eq=False)
class Played:
    """What became of a stream: seconds and device of each task."""

    seconds: FloatArray
    device: IntArray

    @property
    def total(self) -> float:
        """The document's "makespan": the sum of task times."""
        return float(self.seconds.sum())


def play(learner: Learner, features: FloatArray, seconds: FloatArray) -> Played:
    """Give a learner one task after the other; every second it spends counts, exploring or not."""
    spent, chosen = np.empty(len(features)), np.empty(len(features), np.int64)
    for i, row in enumerate(features):
        device = learner.choose(row)
        spent[i], chosen[i] = seconds[i, device], device
        learner.observe(row, device, float(spent[i]))
    return Played(spent, chosen)


# -- what does not learn ------------------------------------------------------------


def fixed_fractions(tasks: Tasks, generator: np.random.RandomState) -> dict[str, FloatArray]:
    """Share of each task on the GPU under the document's rules; `generator` goes on where the tasks ended."""
    n = len(tasks)
    return {
        "Offline Optimal": best_fractions(tasks, 21),
        "Round Robin": np.where(np.arange(n) % 2 == 0, 0.5, 0.3),
        "Random": generator.uniform(0.2, 0.8, n),
        "Greedy": tasks.intensity,
    }


def best_fractions(tasks: Tasks, count: int) -> FloatArray:
    """(n,) the best of evenly spaced fractions, the smaller of equals."""
    grid = np.linspace(0.0, 1.0, count)
    seconds = tasks.seconds
    return np.asarray(grid[np.stack([split_seconds(seconds, f) for f in grid]).argmin(axis=0)])


def forest_rows(features: FloatArray) -> FloatArray:
    """(n, 5) what the document's forest is shown."""
    size, intensity, memory = np.asarray(features, float).T
    return np.column_stack(
        [size, intensity, memory, memory / (size + 1.0), intensity / (memory + 1.0)]
    )


def train_forest(tasks: Tasks) -> Forest:
    """The document's forest: it learns the best of 11 fractions."""
    return Forest.train(
        forest_rows(tasks.features), best_fractions(tasks, 11), names=FOREST_FEATURES
    )


# -- what learns --------------------------------------------------------------------


def training_tasks(count: int = 1000) -> Tasks:
    """The biased offline data: both devices were timed on tasks the GPU is made for."""
    return document_tasks(count, BIASED, np.random.RandomState(42))


def train_models(tasks: Tasks) -> list[DurationModel]:
    """One time model of each device, the offline data as prior."""
    models = [DurationModel(FEATURES, logs=LOGS) for _ in (CPU, GPU)]
    for device, model in enumerate(models):
        model.fit(tasks.features, tasks.seconds[:, device])
    return models


def make_hybrid(tasks: Tasks, *, probing: float = 0.015) -> HybridChooser:
    """Ours, with nothing but the biased offline data."""
    return HybridChooser(train_models(tasks), probing=probing)


def make_dqn(tasks: Tasks, seed: int) -> EnsembleBandit:
    """The online DQN, pre-trained on the biased offline data."""
    agent = EnsembleBandit(len(FEATURES), 2, seed=seed)
    agent.pretrain(tasks.features, tasks.seconds)
    return agent


def play_stream(learner: Learner, stream: TaskSequence) -> Played:
    """Give a learner a stream."""
    return play(learner, stream.features, stream.seconds)
