"""HEFT, CPOP, PEFT and other list planners, each a rank and a placement.

The rank orders the tasks, the placement chooses devices. Every rank of `RANKS` works with every
placement of `PLACEMENTS`; `COMBINATIONS` lists those that are planners by name. CPOP: Topcuoglu,
Hariri and Wu (2002), section 4.2; HEFT, PEFT, lookahead and DEFT have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists import duplication
from weft.planners.lists.common_link import common_link, insert, sorted_schedule
from weft.planners.lists.heft import no_pins
from weft.planners.lists.insertion import ANYWHERE, MCT, MET, OLB, append_in_order, as_schedule
from weft.planners.lists.loading import insert_with_setups, loading_of
from weft.planners.lists.lookahead import insert_looking_ahead
from weft.planners.lists.peft import insert_optimistically
from weft.planners.lists.ranks import RANKS, rank_order
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.planners.setups import likely_shares, with_mean_setups
from weft.registry import Registry
from weft.rng import generator
from weft.sim.kernel.ranks import mean_transfer, upward_rank
from weft.typed import typed_dataclass

PLACEMENTS: Registry[Schedule] = Registry("placement")
"""Name -> function of (problem, order of tasks, seed)."""

LOADING = ("earliest", "critical-path", "one-device", "round-robin", "random", "mct")
"""Placements that count the set-ups of devices."""


@typed_dataclass(frozen=True)
class ListPlanner:
    """A planner that takes tasks by a rank and places each by a placement.

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
        """Words of `SUPPORTED`."""
        if self.placement in LOADING:
            return QUICK | {"setups"}
        return QUICK | {"copies"} if self.placement == "duplicate" else QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        ranked = problem
        if problem.cluster.has_setup:
            ranked = with_mean_setups(problem, likely_shares(problem))
        order = rank_order(problem, RANKS.factory(self.rank)(ranked, seed))
        return Solution(PLACEMENTS.factory(self.placement)(problem, order, seed))


COMBINATIONS = {
    "heft": ("upward", "earliest", "HEFT: by upward rank, each at its earliest finish."),
    "heft-saga-mean": (
        "upward-saga",
        "earliest",
        "HEFT with the mean transfer of SAGA, which counts pairs of a device with itself.",
    ),
    "heft-node": ("upward", "one-node", "The best of HEFT on all devices and on single nodes."),
    "heft-deft": ("upward", "duplicate", "HEFT that may copy a parent to the device of its child."),
    "cpop": ("cpop", "critical-path", "CPOP: the critical path on one device."),
    "cpop-deft": ("cpop", "duplicate", "By CPOP's priority, with copies of parents."),
    "peft": ("optimistic", "optimistic", "PEFT: by the optimistic cost table."),
    "peft-deft": ("optimistic", "duplicate", "By PEFT's rank, with copies of parents."),
    "lookahead": ("upward", "lookahead", "HEFT that judges a device by when children finish."),
    "greedy": ("fifo", "earliest", "By task number, each at its earliest finish."),
    "fifo-deft": ("fifo", "duplicate", "By task number, with copies of parents."),
    "mct": ("fifo", "mct", "MCT: minimum completion time at the end of a device."),
    "met": ("fifo", "met", "MET: minimum execution time, whatever the queue."),
    "olb": ("fifo", "olb", "OLB: the device that is free first, whatever its speed."),
    "round-robin": ("fifo", "round-robin", "One device after the other, in turn."),
    "random": ("fifo", "random", "A random device for each task."),
    "single-device": ("fifo", "one-device", "All tasks on the device with the least total time."),
}
"""Name of a planner -> its rank, its placement and its description."""

for _name, (_rank, _placement, _summary) in COMBINATIONS.items():
    PLANNERS.register(_name, summary=_summary)(
        partial(ListPlanner, name=_name, rank=_rank, placement=_placement)
    )


def _insert(problem: Problem, order: IntArray, pin: IntArray, *, gaps: bool = True) -> Schedule:
    if problem.cluster.has_setup:
        loading = loading_of(problem)
        return as_schedule(insert_with_setups(problem.arrays, loading, order, pin, gaps))
    return sorted_schedule(insert(problem.arrays, order, pin))


@PLACEMENTS.register("earliest")
def _earliest(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Earliest finish, with insertion."""
    return _insert(problem, order, no_pins(problem))


@PLACEMENTS.register("critical-path")
def _critical_path(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The critical path on its fastest device, the rest by earliest finish."""
    return _insert(problem, order, pin_to_best(problem, critical_path(problem)))


@PLACEMENTS.register("optimistic")
def _optimistic(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Earliest finish plus the optimistic remaining time."""
    return as_schedule(insert_optimistically(problem, order))


@PLACEMENTS.register("lookahead")
def _lookahead(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device after which the children could finish first."""
    return as_schedule(insert_looking_ahead(problem.arrays, order))


@PLACEMENTS.register("duplicate")
def _duplicate(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Earliest finish, with a copy of one parent if that is earlier (DEFT)."""
    return duplication.as_schedule(duplication.insert_with_copies(problem.arrays, order))


@PLACEMENTS.register("one-device")
def _one_device(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """All tasks on the device with the least total time."""
    return _insert(problem, order, pin_to_best(problem, np.arange(problem.n)))


@PLACEMENTS.register("one-node")
def _one_node(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Earliest finish on all devices or on one of the four strongest nodes.

    The shortest of these schedules is taken. Tasks that a node cannot run go to any device.
    """
    a = problem.arrays
    link = common_link(a.latency, a.per_byte)
    placed = (
        insert(a._replace(per_work=per_work), order, no_pins(problem), link)
        for per_work in per_work_by_node(problem)
    )
    return sorted_schedule(min(placed, key=lambda rows: float(rows.finish.max(initial=0.0))))


@PLACEMENTS.register("round-robin")
def _round_robin(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """One device after the other."""
    return _insert(problem, order, pin_round_robin(problem, order))


@PLACEMENTS.register("random")
def _random(problem: Problem, order: IntArray, seed: int) -> Schedule:
    """A random device."""
    return _insert(problem, order, pin_at_random(problem, seed))


@PLACEMENTS.register("mct")
def _mct(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """Earliest finish at the end of a device."""
    if problem.cluster.has_setup:
        return _insert(problem, order, no_pins(problem), gaps=False)
    return as_schedule(append_in_order(problem.arrays, order, MCT))


@PLACEMENTS.register("met")
def _met(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device with the shortest duration, whatever its queue."""
    return as_schedule(append_in_order(problem.arrays, order, MET))


@PLACEMENTS.register("olb")
def _olb(problem: Problem, order: IntArray, _seed: int) -> Schedule:
    """The device that is free first, whatever its speed."""
    return as_schedule(append_in_order(problem.arrays, order, OLB))


# -- pins: devices that are chosen before placement --------------------------------


def critical_path(problem: Problem) -> IntArray:
    """Find the longest path with mean durations and transfers.

    Among equals the lowest numbers win. Topcuoglu et al. (2002), section 4.2, follow children whose
    priority equals the entry's. Following the upward rank finds the same path, but compares no sums
    that differ by rounding, and skips no task of the path.
    """
    if problem.n == 0:
        return np.zeros(0, np.int64)
    rank = upward_rank(problem)
    latency, per_byte = mean_transfer(problem)
    a = problem.arrays
    entries = np.flatnonzero(np.diff(a.pred_ptr) == 0)
    path = [int(entries[np.argmax(rank[entries])])]
    while a.succ_ptr[path[-1]] < a.succ_ptr[path[-1] + 1]:
        edges = slice(a.succ_ptr[path[-1]], a.succ_ptr[path[-1] + 1])
        children = a.succ[edges]
        length = latency + a.succ_data[edges] * per_byte + rank[children]
        path.append(int(children[np.argmax(length)]))
    return np.array(path, np.int64)


def pin_to_best(problem: Problem, tasks: IntArray) -> IntArray:
    """Pin tasks to the one device with the least total time for them.

    If no device can run them all, the device that can run most of them gets the ones it can run.
    """
    pin = no_pins(problem)
    if len(tasks):
        can = np.isfinite(problem.per_work)[problem.row[tasks]]
        per_work = np.where(can, problem.per_work[problem.row[tasks]], 0.0)
        total = (problem.work[tasks, None] * per_work).sum(axis=0)
        device = int(np.lexsort((total, -can.sum(axis=0)))[0])
        pin[tasks[can[:, device]]] = device
    return pin


def per_work_by_node(problem: Problem, *, most: int = 4) -> Iterator[FloatArray]:
    """Yield the seconds per unit of work on all devices, then on one node at a time.

    Work that no device of the node can run stays possible everywhere. Nodes with the least mean
    seconds for all work, divided by their number of devices, come first; `most` limits them.

    Examples
    --------
    >>> from weft.model import Cluster, Workflow
    >>> cluster = Cluster(speed=[1.0, 2.0, 4.0], nodes=("a", "a", "b"))
    >>> problem = Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[]), cluster)
    >>> [per_work.tolist() for per_work in per_work_by_node(problem)]
    [[[1.0, 0.5, 0.25]], [[inf, inf, 0.25]], [[1.0, 0.5, inf]]]
    """
    yield problem.per_work
    nodes, names = np.array(problem.cluster.nodes), list(dict.fromkeys(problem.cluster.nodes))
    if len(names) == 1 or problem.n == 0:
        return
    work = np.bincount(problem.row, problem.work, len(problem.per_work))
    can = np.isfinite(problem.per_work)
    slowest = np.nanmax(np.where(can, problem.per_work, np.nan))
    seconds = np.where(can, problem.per_work, slowest)
    area = {
        name: float((work @ seconds[:, nodes == name]).sum()) / np.count_nonzero(nodes == name) ** 2
        for name in names
    }
    for name in sorted(names, key=lambda name: area[name])[:most]:
        here = (nodes == name)[None, :]
        able = np.isfinite(np.where(here, problem.per_work, np.inf)).any(axis=1, keepdims=True)
        yield np.where(here | ~able, problem.per_work, np.inf)


def pin_round_robin(problem: Problem, order: IntArray) -> IntArray:
    """Pin the i-th task to device i modulo p, or to the next device that can run it."""
    pin = no_pins(problem)
    turn = np.arange(problem.n) % problem.p
    for _ in range(problem.p):
        open_ = pin[order] == ANYWHERE
        can = open_ & np.isfinite(problem.per_work[problem.row[order], turn])
        pin[order[can]] = turn[can]
        if bool((pin != ANYWHERE).all()):
            break
        turn = (turn + 1) % problem.p
    return pin


def pin_at_random(problem: Problem, seed: int) -> IntArray:
    """Pin each task to one of the devices that can run it, all equally likely."""
    can = np.isfinite(problem.per_work)
    able_first = np.argsort(~can, axis=1, kind="stable")
    draw = generator(seed, "device").random(problem.n)
    choice = (draw * can.sum(axis=1)[problem.row]).astype(np.int64)
    return np.asarray(able_first[problem.row, choice], np.int64)
