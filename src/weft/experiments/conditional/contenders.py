"""Who takes part in the experiment on conditional task graphs: rules, and the learned policies that are shipped; one run of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from weft.errors import Unsupported, WeftError
from weft.formats.model_file import bundled_models
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import (
    MAX_STEPS_PER_JOB,
    WINDOW,
    options_of,
    play_out,
    reads_pairs,
)
from weft.policies.conditional.index import index_for
from weft.policies.conditional.networks import working_space
from weft.policies.conditional.pair_policy import PairPolicy
from weft.policies.conditional.rules import RULES, ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork, read_network
from weft.sim.vector.batch import Idle, StepBatch, StepOptions

Group = Literal["paper rule", "rule", "fixed", "adaptive"]
EXPECTED = tuple(
    f"conditional-{name}"
    for name in ("pi0", "pi1", "pi2", "pi3", "pi4", "best", "any", "paper-best")
)
"""Policies the experiment asks for."""
PAPER_RULES = ("unit-fifo", "unit-mru", "unit-depth-first")


@dataclass(frozen=True, eq=False)
class StreamContender:
    """A rule or a learned policy, with what it is shown."""

    name: str
    group: Group
    who: ConditionalRule | TrainedNetwork | PairPolicy
    options: StepOptions

    @property
    def trained_waiting(self) -> str | None:
        """The semantics of waiting a policy was trained with; a rule has none."""
        if isinstance(self.who, PairPolicy):
            return "event"
        return (
            self.who.environment.get("idle", "event")
            if isinstance(self.who, TrainedNetwork)
            else None
        )

    def remembering(self, window: float, name: str) -> StreamContender:
        """The same one, with an estimate over another number of outcomes."""
        return replace(self, name=name, options=replace(self.options, window=window))


@dataclass(frozen=True, eq=False)
class StreamEntrants:
    """All who take part; policies that were asked for and are not there; and those that are there but cannot play, with the reason."""

    contenders: list[StreamContender]
    missing: list[str]
    left_out: dict[str, str]

    def find(self, name: str) -> StreamContender | None:
        """The contender of a name, if it is there."""
        return next((c for c in self.contenders if c.name == name), None)


def gather(stream: ConditionalStream) -> StreamEntrants:
    """Rules, and every shipped policy for conditional streams that fits this one."""
    contenders = [_rule(name) for name in RULES if name != "index"]
    index = index_for(stream.name)
    if index is not None:
        contenders.append(StreamContender("index", "rule", index, StepOptions(window=WINDOW)))
    left_out = {}
    there = [name for name in bundled_models() if name.startswith("conditional-")]
    for name in sorted(
        there, key=lambda n: (n not in EXPECTED, EXPECTED.index(n) if n in EXPECTED else 0, n)
    ):
        try:
            contenders.append(_learned(name, stream))
        except WeftError as error:
            left_out[short(name)] = str(error)
    return StreamEntrants(
        contenders, [short(name) for name in EXPECTED if name not in there], left_out
    )


def short(name: str) -> str:
    """A policy's name without the topic.

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
    fleet = StepBatch(stream.with_jobs(1), 1, options)
    wanted = (fleet.observation_size, fleet.units, fleet.kinds + 1)
    if wanted != (int(network.sizes[0]), network.units, network.actions):
        raise Unsupported(
            f"it reads {network.sizes[0]} numbers and is made for {network.units} units and {network.actions - 1} kinds"
        )
    fixed = isinstance(policy.environment.get("probability"), int | float)
    return StreamContender(short(name), "fixed" if fixed else "adaptive", policy, options)


# -- one run ---------------------------------------------------------------------------


@dataclass(eq=False)
class Usage:
    """What units did, added up over runs: ticks in all, then by unit (and kind of task)."""

    units: int
    kinds: int
    span: float = 0.0
    task_ticks: FloatArray = field(init=False)
    busy_ticks: FloatArray = field(init=False)
    tasks: FloatArray = field(init=False)
    batches: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Begin at zero."""
        self.task_ticks, self.busy_ticks = np.zeros(self.units), np.zeros(self.units)
        self.tasks, self.batches = (
            np.zeros((self.units, self.kinds)),
            np.zeros((self.units, self.kinds)),
        )

    def add(self, fleet: StepBatch) -> None:
        """Add a run that has ended. Members of a batch share its number, so each stands for 1 / size of it."""
        sim = fleet.tables.sim
        world = sim.world[0, 0]
        runs = sim.execution[0, : world["executions"]]
        device, ticks = runs["device"], runs["finish"] - runs["start"]
        part = 1.0 / np.bincount(runs["batch"])[runs["batch"]]
        cell = device * self.kinds + sim.task["kind"][runs["instance"] % fleet.stream.problem.n]
        self.span += float(world["now"])
        self.task_ticks += np.bincount(device, weights=ticks, minlength=self.units)
        self.busy_ticks += np.bincount(device, weights=ticks * part, minlength=self.units)
        self.tasks += np.bincount(cell, minlength=self.tasks.size).reshape(self.tasks.shape)
        self.batches += np.bincount(cell, weights=part, minlength=self.tasks.size).reshape(
            self.tasks.shape
        )

    def numbers(self) -> list[float]:
        """All of it in one row."""
        parts = (
            np.array([self.span]),
            self.task_ticks,
            self.busy_ticks,
            self.tasks.reshape(-1),
            self.batches.reshape(-1),
        )
        return [float(f"{x:.12g}") for x in np.concatenate(parts)]

    def add_numbers(self, row: Sequence[float]) -> None:
        """Add what `numbers` gave of another run."""
        cells = self.units * self.kinds
        parts = np.split(np.asarray(row, float), np.cumsum([1, self.units, self.units, cells]))
        self.span += float(parts[0][0])
        self.task_ticks += parts[1]
        self.busy_ticks += parts[2]
        self.tasks += parts[3].reshape(self.tasks.shape)
        self.batches += parts[4].reshape(self.batches.shape)


class StreamEvaluator:
    """Plays contenders on draws of one stream; simulations are laid out once for each way of showing it."""

    def __init__(self, stream: ConditionalStream) -> None:
        self.stream = stream
        self._fleets: dict[StepOptions, StepBatch] = {}
        fleet = StepBatch(stream.with_jobs(1), 1)
        self.kinds = list(fleet.kind_names)
        self.units = _like_units(stream.problem.cluster.names, fleet.tables.state.group)
        """Name -> numbers of units that are alike, together."""

    def usage(self) -> Usage:
        """Counts at zero."""
        return Usage(self.stream.problem.p, len(self.kinds))

    def play(
        self, contender: StreamContender, waiting: Idle, draw: tuple[FloatArray, IntArray]
    ) -> StepBatch | None:
        """Play to the end; the simulation as it then stands, or None where the policy never finishes."""
        options = replace(contender.options, idle=waiting)
        if options not in self._fleets:
            self._fleets[options] = StepBatch(self.stream, 1, options)
        fleet = self._fleets[options]
        fleet.place(0, *draw)
        if isinstance(contender.who, ConditionalRule | PairPolicy):
            contender.who.play(fleet)
            return fleet
        return fleet if _play_learned(contender.who, fleet) else None


def _like_units(names: Sequence[str], group: IntArray) -> dict[str, list[int]]:
    units = {}
    for g in range(int(group.max()) + 1):
        own = np.flatnonzero(group == g).tolist()
        units[names[own[0]] if len(own) == 1 else names[own[0]].rstrip("0123456789") + "s"] = own
    return units


def _play_learned(policy: TrainedNetwork, fleet: StepBatch) -> bool:
    network = policy.network
    seen = np.zeros(fleet.observation_size, np.float32)
    mask = np.zeros((fleet.units, fleet.kinds + 1), np.bool_)
    remaining, action = np.zeros(fleet.kinds, np.int64), np.zeros(fleet.units, np.int64)
    capacity = np.array(fleet.stream.problem.cluster.batch, np.int64)
    most = MAX_STEPS_PER_JOB * fleet.stream.jobs + 1000
    return (
        play_out(
            fleet.tables,
            0,
            network,
            capacity,
            seen,
            mask,
            remaining,
            working_space(network),
            action,
            most,
        )
        >= 0
    )


# -- intervals -------------------------------------------------------------------------


def half_width(values: FloatArray | Sequence[float]) -> float:
    """Half the 95 % confidence interval of a mean by the t distribution; NaN for fewer than two values.

    Examples
    --------
    >>> round(half_width([1.0, 3.0]), 3)  # deviation of the mean 1, t(0.975, 1) = 12.706
    12.706
    """
    column = np.asarray(values, float)
    if len(column) < 2 or not np.isfinite(column).all():
        return float("nan")
    from scipy.stats import t

    return float(t.ppf(0.975, len(column) - 1) * column.std(ddof=1) / np.sqrt(len(column)))


def number(value: float | np.floating | None) -> float | None:
    """A number JSON can hold; None for what is not finite."""
    return float(value) if value is not None and np.isfinite(value) else None
