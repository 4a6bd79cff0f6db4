"""Contenders of the conditional experiment, and the evaluator that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from weft.errors import Unsupported
from weft.formats.model_file import bundled_models
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import WINDOW, options_of, reads_pairs, run_batch
from weft.policies.conditional.index import index_for
from weft.policies.conditional.pair_network import PairPolicy
from weft.policies.conditional.rules import RULES, ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork, read_network
from weft.sim.vector.batch import Idle, StepBatch, StepOptions

ContenderGroup = Literal["paper rule", "rule", "fixed", "adaptive"]
ORDER = ("pi0", "pi1", "pi2", "pi3", "pi4", "best", "any", "paper-best")
"""Order of the policies in tables and figures."""
PAPER_RULES = ("unit-fifo", "unit-mru", "unit-depth-first")


@dataclass(frozen=True, eq=False)
class StreamContender:
    """A rule or a learned policy, with its observation options."""

    name: str
    group: ContenderGroup
    who: ConditionalRule | TrainedNetwork | PairPolicy
    options: StepOptions

    @property
    def trained_waiting(self) -> str | None:
        """The waiting semantics of the training; None for rules."""
        if isinstance(self.who, PairPolicy):
            return "event"
        return (
            self.who.environment.get("idle", "event")
            if isinstance(self.who, TrainedNetwork)
            else None
        )

    def remembering(self, window: float, name: str) -> StreamContender:
        """Return a copy that estimates probabilities over another number of outcomes."""
        return replace(self, name=name, options=replace(self.options, window=window))


def contenders(stream: ConditionalStream) -> dict[str, StreamContender]:
    """Return all rules and every bundled policy for conditional streams, by name."""
    every = [_rule(name) for name in RULES if name != "index"]
    index = index_for(stream.name)
    if index is not None:
        every.append(StreamContender("index", "rule", index, StepOptions(window=WINDOW)))
    bundled = [name for name in bundled_models() if name.startswith("conditional-")]
    every += [_learned(name, stream) for name in sorted(bundled, key=_place)]
    return {contender.name: contender for contender in every}


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(short(name)) if short(name) in ORDER else len(ORDER)), name


def short(name: str) -> str:
    """Return a policy's name without the prefix.

    Examples
    --------
    >>> short("conditional-pi4")
    'pi4'
    """
    return name.removeprefix("conditional-")


def _rule(name: str) -> StreamContender:
    return StreamContender(
        name,
        "paper rule" if name in PAPER_RULES else "rule",
        ConditionalRule(name),
        StepOptions(window=WINDOW),
    )


def _learned(name: str, stream: ConditionalStream) -> StreamContender:
    policy = read_network(name)
    if reads_pairs(policy):
        return StreamContender(
            short(name), "adaptive", PairPolicy(policy.network, name), options_of(policy)
        )
    options, network = options_of(policy), policy.network
    batch = StepBatch(stream.with_jobs(1), 1, options)
    wanted = (batch.observation_size, batch.units, batch.kinds + 1)
    if wanted != (int(network.sizes[0]), network.units, network.actions):
        raise Unsupported(
            f"policy '{name}' reads {network.sizes[0]} numbers for {network.units} units and "
            f"{network.actions - 1} kinds of task; stream '{stream.name}' has other sizes"
        )
    fixed = isinstance(policy.environment.get("probability"), int | float)
    return StreamContender(short(name), "fixed" if fixed else "adaptive", policy, options)


# -- runs -----------------------------------------------------------------------------


@dataclass(eq=False)
class Usage:
    """Usage of the units by task kind, summed over runs."""

    units: int
    kinds: int
    span: float = 0.0
    task_ticks: FloatArray = field(init=False)
    busy_ticks: FloatArray = field(init=False)
    tasks: FloatArray = field(init=False)
    batches: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start all sums at zero."""
        self.task_ticks, self.busy_ticks = np.zeros(self.units), np.zeros(self.units)
        self.tasks, self.batches = (
            np.zeros((self.units, self.kinds)),
            np.zeros((self.units, self.kinds)),
        )

    def add(self, batch: StepBatch) -> None:
        """Add a finished run; a task in a batch counts as 1 / size of the batch."""
        sim = batch.tables.sim
        world = sim.world[0, 0]
        runs = sim.execution[0, : world["executions"]]
        device, ticks = runs["device"], runs["finish"] - runs["start"]
        part = 1.0 / np.bincount(runs["batch"])[runs["batch"]]
        cell = device * self.kinds + sim.task["kind"][runs["instance"] % batch.stream.problem.n]
        self.span += float(world["now"])
        self.task_ticks += np.bincount(device, weights=ticks, minlength=self.units)
        self.busy_ticks += np.bincount(device, weights=ticks * part, minlength=self.units)
        self.tasks += np.bincount(cell, minlength=self.tasks.size).reshape(self.tasks.shape)
        self.batches += np.bincount(cell, weights=part, minlength=self.tasks.size).reshape(
            self.tasks.shape
        )

    def numbers(self) -> list[float]:
        """Return all sums in one row."""
        parts = (
            np.array([self.span]),
            self.task_ticks,
            self.busy_ticks,
            self.tasks.reshape(-1),
            self.batches.reshape(-1),
        )
        return [float(f"{x:.12g}") for x in np.concatenate(parts)]

    def add_numbers(self, row: Sequence[float]) -> None:
        """Add the row of another run."""
        cells = self.units * self.kinds
        parts = np.split(np.asarray(row, float), np.cumsum([1, self.units, self.units, cells]))
        self.span += float(parts[0][0])
        self.task_ticks += parts[1]
        self.busy_ticks += parts[2]
        self.tasks += parts[3].reshape(self.tasks.shape)
        self.batches += parts[4].reshape(self.batches.shape)


class StreamEvaluator:
    """Runs contenders on draws of one stream."""

    def __init__(self, stream: ConditionalStream) -> None:
        self.stream = stream
        self._batches: dict[StepOptions, StepBatch] = {}
        batch = StepBatch(stream.with_jobs(1), 1)
        self.kinds = list(batch.kind_names)
        self.units = _equal_units(stream.problem.cluster.names, batch.tables.state.group)
        """Name -> indices of equal units."""

    def usage(self) -> Usage:
        """Return empty usage counts."""
        return Usage(self.stream.problem.p, len(self.kinds))

    def run(
        self, contender: StreamContender, waiting: Idle, draw: tuple[FloatArray, IntArray]
    ) -> StepBatch | None:
        """Run to the end; return the simulation, or None if unfinished."""
        options = replace(contender.options, idle=waiting)
        if options not in self._batches:
            self._batches[options] = StepBatch(self.stream, 1, options)
        batch = self._batches[options]
        batch.place(0, *draw)
        if isinstance(contender.who, ConditionalRule | PairPolicy):
            contender.who.run(batch)
            return batch
        return batch if run_batch(contender.who.network, batch) else None


def _equal_units(names: Sequence[str], group: IntArray) -> dict[str, list[int]]:
    units = {}
    for g in range(int(group.max()) + 1):
        own = np.flatnonzero(group == g).tolist()
        units[names[own[0]] if len(own) == 1 else names[own[0]].rstrip("0123456789") + "s"] = own
    return units


# -- numbers ---------------------------------------------------------------------------


def number(value: float | np.floating | None) -> float | None:
    """Return a float for JSON; None if the value is missing or not finite."""
    return float(value) if value is not None and np.isfinite(value) else None
