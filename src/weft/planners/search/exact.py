"""The planner `exact`: a constraint model for CP-SAT, with a bound.

`anytime` gives it a warm start. Times are whole numbers of ticks; a tick is a power of two of
seconds. Durations and transfers are rounded down to ticks. The starts of any schedule, rounded
down, satisfy this model, so a bound for the model holds for the problem. The schedule itself is
decoded again with exact times from the order and the devices of the solution. A tick is so short
(2^-40 of the makespan) that an optimum of the model is an optimum of the problem within the
tolerance of `Plan.status`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weft.arguments import whole
from weft.errors import MissingExtra
from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import device_heads, device_tails, lower_bound, rounding_slack
from weft.planners.colocation import colocation_bound
from weft.planners.objective import Objective
from weft.planners.packing import pack
from weft.planners.planner import EXACT, PLANNERS, QUICK, Solution, refuse_choices
from weft.planners.search.anytime import MOST_THREADS, Anytime
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import decode, make_decoder
from weft.typed import typed_dataclass

DEFAULT_EFFORT = 0.2
"""Effort without a time limit, in the solver's deterministic time: 0.2 is a few seconds."""

WARM_SHARE, WARM_SECONDS = 0.15, 3.0
"""Share of the time limit, and most seconds, for the warm start."""

INTERLEAVED = 8
"""Threads of the solver if it must be deterministic: their number decides its strategies."""

SHARES = 10**9
"""A capacity in whole numbers; needs are rounded down to shares of it."""

TICK_BITS = 40
"""The warm start's makespan is about 2^TICK_BITS ticks."""
MOST_TICKS = 1 << (TICK_BITS + 4)
"""Limit of one number in the model, so that sums of all numbers stay below 2^63."""
LARGEST_EXPONENT = 1000
"""Limit of the ticks per second: a makespan near zero, as of tasks without work, needs few."""

MODEL_CELLS = 200_000
"""Most edges x devices x devices of a model; above it, the warm start is the result."""


CELL_SECONDS, BUILD_SHARE = 1e-5, 0.5
"""Seconds to build the model per edge and pair of devices, rounded up, and the largest share of the
remaining time for that."""


@PLANNERS.register("exact")
@typed_dataclass(frozen=True)
class Exact:
    """The shortest schedule, or the best within the time limit, with a proven bound.

    Without a time limit the solver has a fixed effort and its threads wait for each other, so that
    the same seed and number of threads give the same result on any machine.

    Parameters
    ----------
    threads : threads of the solver; None: one per core, or without a time limit 8

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> Exact().solve(problem, seconds=1.0).schedule.makespan
    5.0
    """

    threads: int | None = None
    name: str = "exact"
    supports: ClassVar[frozenset[str]] = QUICK | {"seconds", "proof", "capacities"}

    def __post_init__(self) -> None:
        """Check the options."""
        if self.threads is not None:
            whole(self.threads, "threads", most=MOST_THREADS)

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        solver_module = load_solver()
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        clock = Clock(seconds)
        first = None if seconds is None else min(WARM_SHARE * seconds, WARM_SECONDS)
        start = Anytime(threads=self.threads)
        warm = start.solve(problem, seconds=first, seed=seed).schedule
        if problem.shared and not problem.contended:
            warm = pack(problem, warm)
        bound = lower_bound(problem)
        if warm.makespan > bound * (1 + EXACT):
            bound = colocation_bound(problem, bound)
        cells = problem.m * problem.p * problem.p + problem.n * problem.p
        small = cells <= MODEL_CELLS and cells * CELL_SECONDS < BUILD_SHARE * clock.left()
        if warm.makespan <= bound * (1 + EXACT) or not small:
            return Solution(warm, bound)
        model = ConstraintModel.of(solver_module, problem, warm, bound)
        return model.solve(clock, threads=self.threads, seed=seed)


def load_solver() -> Any:
    """Import OR-Tools, or say how to install it."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingExtra("ortools", "exact") from None
    return cp_model


class Lanes(NamedTuple):
    """Devices that appear several times in a model: column k is device k // copies."""

    copies: int
    node: IntArray  # (devices,)
    need: FloatArray  # (n, copies, capacities)
    room: FloatArray  # (nodes, capacities)


@dataclass
class ConstraintModel:
    """The constraint model of a problem, in ticks."""

    library: Any
    problem: Problem
    warm: Schedule
    bound: float
    scale: float
    model: Any
    start: list[Any]
    on: list[dict[int, Any]]
    makespan: Any
    lanes: Lanes

    @classmethod
    def of(
        cls,
        library: Any,
        problem: Problem,
        warm: Schedule,
        bound: float,
        *,
        lanes: Lanes | None = None,
    ) -> ConstraintModel:
        """Build the model of a problem; with `lanes`, these have its capacities."""
        length = max(warm.makespan, math.ulp(0.0))
        scale = 2.0 ** min(TICK_BITS - math.ceil(math.log2(length)), LARGEST_EXPONENT)
        model = library.CpModel()
        top = math.floor(warm.makespan * scale)
        start = [model.new_int_var(0, top, "") for _ in range(problem.n)]
        able = np.isfinite(problem.per_work)[problem.row]
        on = [
            {int(d): model.new_bool_var("") for d in np.flatnonzero(able[t])}
            for t in range(problem.n)
        ]
        makespan = model.new_int_var(math.floor(bound * scale), top, "")
        own = lanes or Lanes(1, problem.cluster.node, problem.needs[:, None, :], problem.room)
        made = cls(library, problem, warm, bound, scale, model, start, on, makespan, own)
        made._add_tasks()
        made._add_edges()
        made._hint()
        model.minimize(makespan)
        return made

    def ticks(self, seconds: float) -> int:
        """Round seconds down to ticks; the product is exact, as a tick is a power of two.

        Seconds far beyond the makespan are cut off: such a choice is impossible in any case.
        """
        return math.floor(min(seconds * self.scale, MOST_TICKS))

    def _add_tasks(self) -> None:
        problem, model = self.problem, self.model
        heads, tails = device_heads(problem), device_tails(problem)
        intervals: list[list[tuple[int, Any]]] = [[] for _ in range(problem.p)]
        for t in range(problem.n):
            model.add_exactly_one(self.on[t].values())
            for d, here in self.on[t].items():
                interval = model.new_optional_fixed_size_interval_var(
                    self.start[t], self.ticks(problem.duration(t, d)), here, ""
                )
                intervals[d].append((t, interval))
            rest = {
                d: self.ticks(problem.duration(t, d) + float(tails[t, min(d, tails.shape[1] - 1)]))
                for d in self.on[t]
            }
            model.add(
                self.makespan
                >= self.start[t] + sum(rest[d] * here for d, here in self.on[t].items())
            )
            model.add(
                self.start[t]
                >= sum(self.ticks(float(heads[t, d])) * here for d, here in self.on[t].items())
            )
        self._add_capacities(intervals)
        for first in range(0, problem.p, self.lanes.copies):
            same = range(first, first + self.lanes.copies)
            model.add_no_overlap([interval for d in same for _, interval in intervals[d]])
            model.add(
                self.makespan
                >= sum(
                    self.ticks(problem.duration(t, d)) * self.on[t][d]
                    for t in range(problem.n)
                    for d in same
                    if d in self.on[t]
                )
            )

    def _add_capacities(self, intervals: list[list[tuple[int, Any]]]) -> None:
        """Limit what runs on a node at any time; shares of a capacity are rounded down."""
        copies, node, need, rooms = self.lanes
        for (n, c), room in np.ndenumerate(rooms):
            if np.isinf(room):
                continue
            here = [
                (interval, need[t, d % copies, c])
                for d in range(self.problem.p)
                if node[d // copies] == n
                for t, interval in intervals[d]
            ]
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = [math.floor(x / room * SHARES) if x else 0 for _, x in here]
            self.model.add_cumulative([interval for interval, _ in here], shares, SHARES)

    def _add_edges(self) -> None:
        problem, model = self.problem, self.model
        for e, (u, v) in enumerate(
            zip(problem.workflow.src.tolist(), problem.workflow.dst.tolist(), strict=True)
        ):
            pairs = {
                (a, b): self.ticks(problem.transfer(e, a, b))
                for a in self.on[u]
                for b in self.on[v]
                if a != b
            }
            length = sum(
                self.ticks(problem.duration(u, d)) * here for d, here in self.on[u].items()
            )
            least = min(pairs.values(), default=0)
            if not pairs or max(pairs.values()) == 0:
                model.add(self.start[v] >= self.start[u] + length)
                continue
            apart = model.new_bool_var("")
            model.add(self.start[v] >= self.start[u] + length + least * apart)
            for a, here in self.on[u].items():
                there = self.on[v].get(a)
                model.add_bool_or(
                    [here.Not(), apart] if there is None else [here.Not(), there, apart]
                )
                if there is not None:
                    model.add_bool_or([here.Not(), there.Not(), apart.Not()])
            for (a, b), ticks in pairs.items():
                if ticks > least:
                    gap = self.ticks(problem.duration(u, a)) + ticks
                    model.add(self.start[v] >= self.start[u] + gap).only_enforce_if(
                        self.on[u][a], self.on[v][b]
                    )

    def _hint(self) -> None:
        for t in range(self.problem.n):
            self.model.add_hint(self.start[t], self.ticks(float(self.warm.start[t])))
            for d, here in self.on[t].items():
                self.model.add_hint(here, int(self.warm.device[t] == d))

    def solve(self, clock: Clock, *, threads: int | None, seed: int) -> Solution:
        """Run the solver for the remaining time."""
        ticks, device, bound = self.search(clock, threads=threads, seed=seed)
        if ticks is None or device is None:
            return Solution(self.warm, min(bound, self.warm.makespan))
        best = min(self._rebuild(ticks, device), self.warm, key=lambda s: s.makespan)
        return Solution(best, bound)

    def search(
        self, clock: Clock, *, threads: int | None, seed: int
    ) -> tuple[IntArray | None, IntArray | None, float]:
        """Return the starts and devices that the solver finds, or None, and a lower bound."""
        solver = self.library.CpSolver()
        if clock.seconds is None:
            solver.parameters.max_deterministic_time = DEFAULT_EFFORT
            solver.parameters.interleave_search = True
            solver.parameters.num_workers = threads or INTERLEAVED
        else:
            solver.parameters.max_time_in_seconds = max(0.01, 0.95 * clock.left())
            solver.parameters.num_workers = threads or os.cpu_count() or 1
        solver.parameters.random_seed = seed % 2**31
        status = solver.solve(self.model)
        found = solver.best_objective_bound / self.scale * rounding_slack(self.problem)
        bound = max(self.bound, found)
        if status not in {self.library.OPTIMAL, self.library.FEASIBLE}:
            return None, None, bound
        device = [next(d for d, here in on.items() if solver.boolean_value(here)) for on in self.on]
        ticks = np.array([solver.value(x) for x in self.start])
        return ticks, np.array(device, np.int64), bound

    def _rebuild(self, ticks: IntArray, device: IntArray) -> Schedule:
        """Decode the order and devices of the solution with exact times."""
        problem = self.problem
        if problem.shared:
            seconds = ticks / self.scale
            return pack(problem, Schedule.of(device=device, start=seconds, finish=seconds))
        order = np.lexsort((problem.workflow.place, ticks)).astype(np.int64)
        w = make_decoder(problem.n, problem.p)
        tail: FloatArray = np.zeros((problem.n, 1))
        decode(problem.arrays, Objective.of("makespan").compiled(problem), order, device, tail, w)
        return Schedule.of(device=w.device, start=w.start, finish=w.finish)
