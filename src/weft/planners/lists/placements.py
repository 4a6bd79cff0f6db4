"""List planners: a rank says who comes first, a placement says where. Every combination of the two is a planner.

References: HEFT and CPOP, Topcuoglu, Hariri and Wu (2002); PEFT, Arabnejad and Barbosa (2014); lookahead, Bittencourt et al. (2010); DEFT,
see `duplication`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners.lists import duplication, immediate_mode, pins
from weft.planners.lists.insertion import as_schedule, insert_in_order
from weft.planners.lists.lookahead import insert_looking_ahead
from weft.planners.lists.optimistic import insert_optimistically
from weft.planners.lists.ranks import RANKS, rank_order
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.registry import Registry

PLACEMENTS: Registry[Schedule] = Registry("placement")
"""Name -> function of (problem, order of tasks, seed)."""


@dataclass(frozen=True)
class ListPlanner:
    """Tasks in the order of a rank, each to the device a placement chooses; see `RANKS` and `PLACEMENTS` for the names.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> ListPlanner(rank="level", placement="duplicate").solve(problem).schedule.makespan
    5.0
    """

    rank: str = "upward"
    placement: str = "earliest"
    name: str = "list"

    @property
    def supports(self) -> frozenset[str]:
        """Words of `FEATURES`."""
        return QUICK | {"copies"} if self.placement == "duplicate" else QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:  # noqa: ARG002
        """Plan the problem."""
        refuse_choices(problem, self.name)
        order = rank_order(problem, RANKS.factory(self.rank)(problem, seed))
        return Solution(PLACEMENTS.factory(self.placement)(problem, order, seed))


@PLACEMENTS.register("earliest")
def _earliest(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The earliest finish, with insertion."""
    return as_schedule(insert_in_order(problem.arrays, order, pins.nowhere(problem)))


@PLACEMENTS.register("critical-path")
def _critical_path(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The critical path on the device that takes least for it, the rest by earliest finish."""
    return as_schedule(
        insert_in_order(
            problem.arrays, order, pins.pin_to_best(problem, pins.critical_path(problem))
        )
    )


@PLACEMENTS.register("optimistic")
def _optimistic(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The earliest finish plus what is optimistically left."""
    return as_schedule(insert_optimistically(problem, order))


@PLACEMENTS.register("lookahead")
def _lookahead(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device after which the children could end soonest."""
    return as_schedule(insert_looking_ahead(problem.arrays, order))


@PLACEMENTS.register("duplicate")
def _duplicate(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The earliest finish, with a copy of one parent if that is sooner (DEFT)."""
    return duplication.as_schedule(duplication.insert_with_copies(problem.arrays, order))


@PLACEMENTS.register("one-device")
def _one_device(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Everything on the device that takes least for all."""
    return as_schedule(
        insert_in_order(problem.arrays, order, pins.pin_to_best(problem, np.arange(problem.n)))
    )


@PLACEMENTS.register("one-node")
def _one_node(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """By earliest finish on all devices, or on those of one of the four strongest nodes, whichever ends first.

    What a node cannot run goes anywhere.
    """
    placed = (
        insert_in_order(problem.arrays._replace(pace=pace), order, pins.nowhere(problem))
        for pace in pins.paces_by_node(problem)
    )
    return as_schedule(min(placed, key=lambda rows: float(rows.finish.max(initial=0.0))))


@PLACEMENTS.register("in-turn")
def _in_turn(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """One device after the other."""
    return as_schedule(insert_in_order(problem.arrays, order, pins.pin_in_turn(problem, order)))


@PLACEMENTS.register("random")
def _random(problem: Problem, order: IntArray, seed: int) -> Schedule:
    """Any device."""
    return as_schedule(insert_in_order(problem.arrays, order, pins.pin_at_random(problem, seed)))


@PLACEMENTS.register("completion")
def _completion(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The earliest finish at the end of a device."""
    return as_schedule(
        immediate_mode.append_in_order(problem.arrays, order, immediate_mode.COMPLETION)
    )


@PLACEMENTS.register("execution")
def _execution(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device that runs the task fastest, however long its queue."""
    return as_schedule(
        immediate_mode.append_in_order(problem.arrays, order, immediate_mode.EXECUTION)
    )


@PLACEMENTS.register("available")
def _available(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device that is free soonest, however slow."""
    return as_schedule(
        immediate_mode.append_in_order(problem.arrays, order, immediate_mode.AVAILABLE)
    )


COMBINATIONS = {
    "heft": ("upward", "earliest"),
    "heft-saga-mean": ("upward-self", "earliest"),
    "heft-node": ("upward", "one-node"),
    "heft-deft": ("upward", "duplicate"),
    "cpop": ("through", "critical-path"),
    "cpop-deft": ("through", "duplicate"),
    "peft": ("optimistic", "optimistic"),
    "peft-deft": ("optimistic", "duplicate"),
    "lookahead": ("upward", "lookahead"),
    "greedy": ("fifo", "earliest"),
    "fifo-deft": ("fifo", "duplicate"),
    "mct": ("fifo", "completion"),
    "met": ("fifo", "execution"),
    "olb": ("fifo", "available"),
    "round-robin": ("fifo", "in-turn"),
    "random": ("fifo", "random"),
    "fastest": ("fifo", "one-device"),
}
"""Name of a planner -> its rank and its placement."""

for _name, (_rank, _placement) in COMBINATIONS.items():
    PLANNERS.register(_name)(partial(ListPlanner, name=_name, rank=_rank, placement=_placement))
