"""Strategies of the document and learners; task times are added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from weft.experiments.shift.bandit import EnsembleBandit
from weft.experiments.shift.chooser import HybridChooser
from weft.experiments.shift.forest import Forest
from weft.experiments.shift.physics import PhysicsCase, profile_tasks
from weft.experiments.shift.tasks import (
    BIASED,
    FEATURES,
    LOGS,
    SHIFTED,
    Tasks,
    TaskSequence,
    document_tasks,
    split_seconds,
)
from weft.learn.durations.model import DurationModel
from weft.model.columns import FloatArray, IntArray
from weft.policies.hybrid.duration_process import DurationProcess

TASKS = 500
FOREST_FEATURES = ("size", "intensity", "memory", "memory / (size + 1)", "intensity / (memory + 1)")


class Learner(Protocol):
    """A scheduler that learns from the durations of the tasks it placed."""

    def choose(self, features: ArrayLike) -> int:
        """Return a device for a task."""
        ...

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn how long the task took there."""
        ...


@dataclass(frozen=True, eq=False)
class RunResult:
    """Seconds and device of each task."""

    seconds: FloatArray
    device: IntArray

    @property
    def total(self) -> float:
        """The document's "makespan": the sum of task times."""
        return float(self.seconds.sum())


def run_learner(learner: Learner, tasks: Tasks | TaskSequence | PhysicsCase) -> RunResult:
    """Give tasks to a learner one after the other; time spent on exploration counts."""
    features, seconds = tasks.features, tasks.seconds
    spent, chosen = np.empty(len(features)), np.empty(len(features), np.int64)
    for i, row in enumerate(features):
        device = learner.choose(row)
        spent[i], chosen[i] = seconds[i, device], device
        learner.observe(row, device, float(spent[i]))
    return RunResult(spent, chosen)


# -- fixed strategies ------------------------------------------------------------------


def fixed_fractions(tasks: Tasks, generator: np.random.RandomState) -> dict[str, FloatArray]:
    """Return the share of each task on the GPU under the document's rules.

    `generator` is in the state after drawing the tasks.
    """
    n = len(tasks)
    return {
        "Offline Optimal": best_fractions(tasks, 21),
        "Round Robin": np.where(np.arange(n) % 2 == 0, 0.5, 0.3),
        "Random": generator.uniform(0.2, 0.8, n),
        "Greedy": tasks.intensity,
    }


def best_fractions(tasks: Tasks, count: int) -> FloatArray:
    """Return (n,) the best of `count` evenly spaced fractions, the smallest on ties."""
    grid = np.linspace(0.0, 1.0, count)
    seconds = tasks.seconds
    return np.asarray(grid[np.stack([split_seconds(seconds, f) for f in grid]).argmin(axis=0)])


def forest_rows(features: FloatArray) -> FloatArray:
    """Return (n, 5) inputs of the document's forest."""
    size, intensity, memory = np.asarray(features, float).T
    return np.column_stack(
        [size, intensity, memory, memory / (size + 1.0), intensity / (memory + 1.0)]
    )


def forest_fractions(forest: Forest, features: FloatArray) -> FloatArray:
    """Return (n,) the shares on the GPU that a forest predicts."""
    return forest.predict(forest_rows(features))


def train_forest(tasks: Tasks) -> Forest:
    """Train the document's forest, which predicts the best of 11 fractions."""
    return Forest.train(
        forest_rows(tasks.features), best_fractions(tasks, 11), names=FOREST_FEATURES
    )


# -- learners --------------------------------------------------------------------------


def training_tasks(count: int = 1000) -> Tasks:
    """Return the biased offline data: both devices timed on tasks that suit the GPU."""
    return document_tasks(count, BIASED, np.random.RandomState(42))


def shifted_tasks(generator: np.random.RandomState, count: int = TASKS) -> Tasks:
    """Return tasks as the document tests with, which suit the CPU."""
    return document_tasks(count, SHIFTED, generator)


UNITS = (1.0, 1.0 / 3.0, 1.0)
"""Differences of log size, intensity and log memory over which durations may differ."""


def train_models(
    features: FloatArray, seconds: FloatArray, profile: FloatArray | None = None
) -> list[DurationProcess]:
    """Return one model per device, fitted to offline data and the devices' profile."""
    models = [DurationProcess(FEATURES, LOGS, units=UNITS) for _ in seconds.T]
    for device, model in enumerate(models):
        model.fit(features, seconds[:, device])
        if profile is not None:
            model.profile(profile_tasks(), profile[:, device])
    return models


def make_hybrid(tasks: Tasks, *, probing: float = 0.015) -> HybridChooser:
    """Return models of the biased offline data and the profile that learn online."""
    profile = Tasks(*profile_tasks().T).seconds
    return HybridChooser(train_models(tasks.features, tasks.seconds, profile), probing=probing)


def make_trend(features: FloatArray, seconds: FloatArray) -> HybridChooser:
    """Return the chooser with a linear trend alone, for comparison."""
    models = [DurationModel(FEATURES, logs=LOGS) for _ in seconds.T]
    for device, model in enumerate(models):
        model.fit(features, seconds[:, device])
    return HybridChooser(models, bonus=0.0)


def make_bandit(tasks: Tasks, seed: int) -> EnsembleBandit:
    """Return the document's online DQN, pre-trained on the biased offline data."""
    return pretrain_bandit(tasks.features, tasks.seconds, seed)


def pretrain_bandit(features: FloatArray, seconds: FloatArray, seed: int) -> EnsembleBandit:
    """Return a bandit that has learned from offline data."""
    agent = EnsembleBandit(len(FEATURES), seconds.shape[1], seed=seed)
    agent.pretrain(features, seconds)
    return agent
