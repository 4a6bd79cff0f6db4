"""`ConditionalStream`: a problem that arrives repeatedly, with drifting choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.arguments import whole
from weft.errors import InvalidInput, UnknownName
from weft.model.columns import FloatArray, IntArray, frozen
from weft.model.machines.setup import SECONDS
from weft.model.network.topology import Topology
from weft.model.problem import Problem
from weft.model.scenario import Scenario
from weft.model.workload import Workload
from weft.registry import closest
from weft.rng import generator

PROCESSES = ("regular", "normal", "poisson", "trace")
LONGEST_GAP = 1e200
"""Upper limit of the seconds between arrivals, so that their sums stay finite."""
WIDEST = 1e100
"""Upper limit of the spread of a walk of probabilities, so that sums of steps stay finite."""
DRIFTS = ("fixed", "steps", "ramps", "walk", "uniform")


@dataclass(frozen=True)
class Arrivals:
    """The arrivals of jobs.

    Parameters
    ----------
    process : `regular`, `normal` (gaps), `poisson` or `trace`
    gap : mean seconds between jobs; a trace is stretched to this mean gap (0: unchanged)
    deviation : of normal gaps, in seconds; a negative gap moves a job before the previous one
    times : of a trace, in seconds
    """

    process: str = "regular"
    gap: float = 1.0
    deviation: float = 0.0
    times: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse processes that never end, or never begin."""
        if self.process not in PROCESSES:
            raise UnknownName(
                f"unknown arrival process '{self.process}'{closest(self.process, PROCESSES)}"
            )
        if not 0 <= self.gap < LONGEST_GAP or (self.gap == 0 and self.process != "trace"):
            raise InvalidInput(
                f"the gap between arrivals is {self.gap}; it must be a finite number above zero, "
                f"below {LONGEST_GAP:g}"
            )
        if not 0 <= self.deviation < LONGEST_GAP:
            raise InvalidInput(
                f"the deviation of the gaps is {self.deviation}; it must be a finite number, zero "
                f"or more, below {LONGEST_GAP:g}"
            )
        if self.process == "trace" and (
            not self.times or not all(0 <= t < np.inf for t in self.times)
        ):
            raise InvalidInput("a trace of arrivals needs 'times': finite numbers, zero or more")

    def draw(self, jobs: int, rng: np.random.Generator, *, tick: float = 1.0) -> FloatArray:
        """Draw arrival times in ticks, sorted, none before zero."""
        gap, deviation = in_ticks(self.gap, tick), in_ticks(self.deviation, tick)
        if self.process == "regular":
            return gap * np.arange(1.0, jobs + 1.0)
        if self.process == "poisson":
            return np.cumsum(rng.exponential(gap, jobs))
        if self.process == "normal":
            return np.sort(
                np.maximum(np.cumsum(rng.normal(gap, deviation, jobs)), 0.0), kind="stable"
            )
        if len(self.times) < jobs:
            raise InvalidInput(
                f"a trace of {len(self.times)} arrivals cannot give {jobs} jobs; ask for fewer jobs"
            )
        times = np.sort(np.asarray(self.times, float), kind="stable")[:jobs] / tick
        span = float(times[-1] - times[0])
        return (times - times[0]) * (gap * (jobs - 1) / span) if gap > 0 and span > 0 else times


@dataclass(frozen=True, eq=False)
class ProbabilityDrift:
    """The probabilities of one choice over time; jobs draw branches at their arrival.

    Parameters
    ----------
    kind : `fixed`; `steps` (a row holds from its time on); `ramps` (linear between rows); `walk`
        (the first branch moves by a normal step of deviation `spread` * sqrt(seconds since the last
        job), reflected at `low` and `high`; the others keep their ratios); `uniform` (the first
        branch is drawn once per run, between `low` and `high`)
    probability : (k, branches) one row per time in `times`; for the other kinds a single row, which
            holds throughout or at the beginning
    times : (k,) seconds
    """

    kind: str
    probability: FloatArray
    times: FloatArray = dataclasses.field(default_factory=lambda: np.zeros(1))
    spread: float = 0.0
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Refuse rows that are no probabilities and limits that are no range."""
        if self.kind not in DRIFTS:
            raise UnknownName(
                f"unknown change of probabilities '{self.kind}'{closest(self.kind, DRIFTS)}"
            )
        for row in self.probability:
            if not (row >= 0).all() or abs(float(row.sum()) - 1.0) > 1e-9:
                raise InvalidInput(
                    f"probabilities {row.tolist()} add up to {row.sum():g}; they must not be "
                    "negative and must add up to 1"
                )
        if (np.diff(self.times) <= 0).any() or len(self.times) != len(self.probability):
            raise InvalidInput(
                f"probabilities change at {self.times.tolist()} s; every change needs a later time "
                "than the one before"
            )
        if not 0 <= self.low <= self.high <= 1 or not 0 <= self.spread < WIDEST:
            raise InvalidInput(
                f"a probability cannot move between {self.low} and {self.high} with spread "
                f"{self.spread}"
            )

    def at(self, arrival: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return (jobs, branches) probabilities at the arrivals, given in seconds."""
        start = self.probability[0]
        if self.kind == "fixed":
            return np.broadcast_to(start, (len(arrival), len(start)))
        if self.kind == "steps":
            return self.probability[
                np.maximum(np.searchsorted(self.times, arrival, side="right") - 1, 0)
            ]
        if self.kind == "ramps":
            return np.stack(
                [np.interp(arrival, self.times, column) for column in self.probability.T], axis=1
            )
        if self.kind == "uniform":
            return with_first(start, np.full(len(arrival), rng.uniform(self.low, self.high)))
        return with_first(start, self._walk(arrival, rng))

    def _walk(self, arrival: FloatArray, rng: np.random.Generator) -> FloatArray:
        moves = (
            rng.standard_normal(len(arrival)) * self.spread * np.sqrt(np.diff(arrival, prepend=0.0))
        )
        width = self.high - self.low
        if width == 0:
            return np.full(len(arrival), self.low)
        # Reflection at both walls is the folded free walk: a triangle wave of period 2 * width.
        away = np.mod(float(self.probability[0, 0]) - self.low + np.cumsum(moves), 2 * width)
        return self.low + np.minimum(away, 2 * width - away)


def with_first(start: FloatArray, first: FloatArray) -> FloatArray:
    """Return (x, branches) probabilities with a new first; others keep their ratios."""
    rest, total = start[1:], start[1:].sum()
    rest = rest / total if total > 0 else np.full(len(rest), 1.0 / max(len(rest), 1))
    return np.concatenate((first[:, None], (1.0 - first)[:, None] * rest[None, :]), axis=1)


@dataclass(frozen=True, eq=False)
class ConditionalStream:
    """A problem with choices, its arrivals and its drifts; `draw` gives one future.

    Parameters
    ----------
    drift : one for each choice of the workflow
    watched : numbers of the choices whose probabilities are estimated from outcomes
    tick : seconds in one unit of the clock of step-wise simulations. With 1 ms, whole milliseconds
        add up exactly, so events that are due together stay together; sums of 0.01 s would not be
        exact.
    deadline : seconds after its arrival by which a job should be finished
    priority : of its jobs, the higher the more important
    """

    problem: Problem
    arrivals: Arrivals
    drift: tuple[ProbabilityDrift, ...]
    jobs: int
    watched: tuple[int, ...] = ()
    tick: float = 1.0
    name: str = "stream"
    deadline: float = np.inf
    priority: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a stream whose parts do not fit each other."""
        choices = self.problem.workflow.choices
        if len(self.drift) != len(choices):
            raise InvalidInput(
                f"stream '{self.name}' has {len(choices)} choices but {len(self.drift)} drifts"
            )
        for c, drift in enumerate(self.drift):
            if drift.probability.shape[1] != len(choices.branches(c)):
                raise InvalidInput(
                    f"choice {c} of '{self.name}' has {len(choices.branches(c))} branches, its "
                    f"drift {drift.probability.shape[1]}"
                )
        if self.jobs < 1:
            raise InvalidInput(f"stream '{self.name}' has {self.jobs} jobs; it needs at least one")
        if not 0 < self.tick < np.inf:
            raise InvalidInput(
                f"the tick of '{self.name}' is {self.tick} s; it must be a finite number above zero"
            )
        if not self.deadline > 0:
            raise InvalidInput(
                f"the deadline of '{self.name}' is {self.deadline} s; it must be above zero"
            )

    def with_probability(self, task: str, probability: Sequence[float]) -> ConditionalStream:
        """Return the same stream with fixed probabilities for the choice of a task."""
        return self.with_drift(task, ProbabilityDrift("fixed", np.array([probability], float)))

    def with_drift(self, task: str, drift: ProbabilityDrift) -> ConditionalStream:
        """Return the same stream with another drift for the choice of a task."""
        w = self.problem.workflow
        owners = [w.task_name(int(t)) for t in w.choices.task]
        if task not in owners:
            raise UnknownName(
                f"task '{task}' of stream '{self.name}' chooses nothing{closest(task, owners)}"
            )
        return dataclasses.replace(
            self,
            drift=tuple(drift if o == task else d for o, d in zip(owners, self.drift, strict=True)),
        )

    def with_jobs(self, jobs: int) -> ConditionalStream:
        """Return the same stream with another number of jobs."""
        return dataclasses.replace(self, jobs=whole(jobs, "jobs"))

    def draw(self, seed: int, *, authors: bool = False) -> tuple[Workload, Scenario]:
        """Draw one future: the jobs, and the branches they take.

        `authors` draws as a published simulator does; see `weft.model.published_draws`.
        """
        ticks, outcome = self.draw_ticks(seed, authors=authors)
        workload = Workload.of(
            self.problem,
            arrival=ticks * self.tick,
            template=np.zeros(self.jobs, np.int64),
            deadline=ticks * self.tick + self.deadline,
            priority=self.priority,
            name=self.name,
        )
        return workload, Scenario.of(workload, outcome=outcome.reshape(-1))

    def draw_ticks(self, seed: int, *, authors: bool = False) -> tuple[FloatArray, IntArray]:
        """Draw (jobs,) arrivals in ticks, sorted, and (jobs, choices) branches taken."""
        if authors:
            from weft.model.published_draws import draw_as_published

            return draw_as_published(self, seed)
        arrival = self.arrivals.draw(
            self.jobs, generator(seed, "arrivals", self.arrivals.process), tick=self.tick
        )
        share = self.probabilities(arrival * self.tick, seed)
        draws = generator(seed, "outcomes").random((self.jobs, len(self.drift)))
        outcome = np.zeros(draws.shape, np.int64)
        for c, rows in enumerate(share):
            outcome[:, c] = (np.cumsum(rows, axis=1)[:, :-1] <= draws[:, c, None]).sum(axis=1)
        return arrival, outcome

    def probabilities(self, arrival: FloatArray, seed: int) -> list[FloatArray]:
        """Return the (jobs, branches) probabilities of each choice at arrivals in seconds."""
        return [
            drift.at(arrival, generator(seed, "drift", c)) for c, drift in enumerate(self.drift)
        ]


SEEDS_APART = 1_000_003
"""Difference between the seeds of streams that are drawn together."""


@dataclass(frozen=True, eq=False)
class SharedStreams:
    """Several streams on the same units: other graphs, rates and service levels.

    Tasks of the same kind share batches and set-ups, whatever their stream.
    """

    streams: tuple[ConditionalStream, ...]
    name: str = "streams"

    def __post_init__(self) -> None:
        """Refuse streams on different units."""
        if not self.streams:
            raise InvalidInput(f"'{self.name}' has no streams; give at least one")
        for other in self.streams[1:]:
            if other.problem.cluster is not self.streams[0].problem.cluster:
                raise InvalidInput(
                    f"streams '{self.streams[0].name}' and '{other.name}' of '{self.name}' are on "
                    "different units; bind both to the same cluster"
                )

    def draw(self, seed: int) -> tuple[Workload, Scenario]:
        """Draw one future of all streams; job j is of stream `template[j]`."""
        drawn = [s.draw(seed + k * SEEDS_APART) for k, s in enumerate(self.streams)]
        of = np.repeat(np.arange(len(drawn)), [w.jobs for w, _ in drawn])
        columns = {
            key: np.concatenate([getattr(w, key) for w, _ in drawn])
            for key in ("arrival", "deadline", "priority")
        }
        order = np.argsort(columns["arrival"], kind="stable")
        workload = Workload.of(
            [s.problem for s in self.streams],
            template=of[order],
            name=self.name,
            **{key: column[order] for key, column in columns.items()},
        )
        rows = [
            row for w, scenario in drawn for row in np.split(scenario.outcome, w.first_choice[1:-1])
        ]
        outcome = np.concatenate([np.zeros(0, np.int64), *(rows[j] for j in order.tolist())])
        return workload, Scenario.of(workload, outcome=outcome)


def in_ticks(seconds: FloatArray | float, tick: float) -> float:
    """Convert seconds to ticks; remove rounding errors of whole numbers."""
    return float(np.round(seconds / tick, 9))


def _ticked_setup(rows: FloatArray, tick: float) -> FloatArray:
    made = rows.copy()
    made[:, SECONDS] = np.round(rows[:, SECONDS] / tick, 9)
    return made


def _ticked_network(network: Topology | None, tick: float) -> Topology | None:
    if network is None:
        return None
    ports = {
        node: dataclasses.replace(p, up=p.up * tick, down=p.down * tick, latency=p.latency / tick)
        for node, p in network.ports.items()
    }
    trunks = [
        dataclasses.replace(t, bandwidth=t.bandwidth * tick, latency=t.latency / tick)
        for t in network.trunks
    ]
    return Topology(ports, trunks, network.sharing)


def ticked(problem: Problem, tick: float) -> Problem:
    """Return the same problem on a clock that counts ticks."""
    if tick == 1.0:
        return problem
    cluster = dataclasses.replace(
        problem.cluster,
        latency=problem.cluster.latency / tick,
        bandwidth=problem.cluster.bandwidth * tick,
        switch=np.round(problem.cluster.switch / tick, 9),
        setup={k: _ticked_setup(rows, tick) for k, rows in problem.cluster.setup.items()},
        network=_ticked_network(problem.cluster.network, tick),
    )
    return dataclasses.replace(
        problem,
        cluster=cluster,
        work=frozen(np.ones(problem.n)),
        row=frozen(np.arange(problem.n, dtype=np.int64)),
        per_work=frozen(np.round(problem.durations() / tick, 9)),
    )
