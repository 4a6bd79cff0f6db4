"""DEFT online: a task goes where it is expected to finish first, with or without one parent copied there.

Placement of Lachesis (Luo et al. 2021, arXiv 2103.06980) as we read it, on what is known at the moment: for each device that is up, the
expected finish as it is, and with the parent whose data comes last run there once more (its inputs come from the grandparents' results);
the smallest wins, among equals no copy, then the lower device. Copying another parent cannot help: the last one would still be waited for.

Dispatch is ours. At a moment the ready tasks are taken in the order a policy gives, and each is placed. Placed on an idle device, it is
committed. Placed on a busy one, it only reserves its time there for this moment, so that the tasks behind it see the device as
taken; it is asked for again at the next event, when more is known. Once every idle device has a task, the rest waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.errors import Unsupported
from weft.model import Scenario, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.sim.kernel.commit import commit, commit_with_copy, free_at, is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import input_arrival, task_of, transfer_time
from weft.sim.kernel.tables import DONE, JOB_AHEAD, JOB_HERE, READY, Sim, make_sim
from weft.sim.view import Decision, View

NONE = -1


class PlacementBuffers(NamedTuple):
    """Where the decisions of a moment are worked out.

    Attributes
    ----------
    free : (p,) when each device has finished what it has and what was placed on it at this moment
    idle : (p,) 1 for devices that wait for something to do
    key : (instances,) what ready instances are sorted by, the lowest first; ties by number
    ready : (instances,) the ready instances, in the order they are placed
    instance, device, copy : (instances,) the decisions; `copy` is -1 or the parent to copy
    sizes : (3,) how many are ready; how many decisions were made; how many were placed for that, the first ones
    """

    free: FloatArray
    key: FloatArray
    idle: IntArray
    ready: IntArray
    instance: IntArray
    device: IntArray
    copy: IntArray
    sizes: IntArray


def make_desk(workload: Workload) -> PlacementBuffers:
    """Memory for the decisions of a moment."""
    n, p = workload.instances, workload.cluster.p
    numbers = [np.zeros(size, np.int64) for size in (p, n, n, n, n, 3)]
    return PlacementBuffers(np.zeros(p), np.zeros(n), *numbers)


@njit_inline
def place(sim: Sim, instance: int, free: FloatArray) -> tuple[int, int, float]:
    """The device on which a ready instance should finish first, the parent to copy there (or -1), and that finish."""
    now, g = sim.world[0].now, task_of(sim, instance)
    best, best_copy, least = NONE, NONE, np.inf
    for d in range(len(free)):
        pace = sim.grid[sim.task[g].row, d]
        if pace == np.inf or free[d] == np.inf:
            continue
        begin, seconds = max(free[d], now), sim.task[g].work * pace * sim.device[d].pace
        if best >= 0 and begin + seconds >= least:
            continue
        last, latest, others = _inputs(sim, instance, d)
        finish, copy = max(begin, latest) + seconds, NONE
        if latest > begin:
            again = _copy_finish(sim, last, d, begin)
            if max(again, others) + seconds < finish:
                finish, copy = max(again, others) + seconds, last
        if finish < least or best < 0:
            best, best_copy, least = d, copy, finish
    return best, best_copy, least


@njit_inline
def _inputs(sim: Sim, instance: int, d: int) -> tuple[int, float, float]:
    """The parent whose data is last on a device, when that is, and when all others' data is there."""
    shift = sim.job[sim.inst[instance].job].shift
    g = instance - shift
    now, eager = sim.world[0].now, sim.world[0].eager == 1
    last, latest, others = NONE, 0.0, 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + shift
        soonest = np.inf
        x = sim.inst[parent].result
        while x >= 0:
            sent = sim.execution[x].finish if eager else max(sim.execution[x].finish, now)
            soonest = min(
                soonest, sent + transfer_time(sim, sim.execution[x].device, d, sim.edge[e].data)
            )
            x = sim.execution[x].before
        if soonest > latest or last < 0:
            last, latest, others = parent, soonest, latest
        else:
            others = max(others, soonest)
    return last, latest, others


@njit_inline
def _copy_finish(sim: Sim, parent: int, d: int, begin: float) -> float:
    g = task_of(sim, parent)
    pace = sim.grid[sim.task[g].row, d]
    if pace == np.inf:
        return np.inf
    there = max(begin, input_arrival(sim, parent, d, sim.world[0].now))
    return float(there + sim.task[g].work * pace * sim.device[d].pace)


@njit_inline
def dispatch(sim: Sim, desk: PlacementBuffers) -> None:
    """Place the ready instances in their order; write down those that go to an idle device."""
    waiting = 0
    for d in range(len(desk.idle)):
        waiting += desk.idle[d]
    made = placed = 0
    for k in range(desk.sizes[0]):
        if waiting == 0:
            break
        placed += 1
        instance = desk.ready[k]
        d, copy, finish = place(sim, instance, desk.free)
        if d < 0:
            continue
        desk.free[d] = finish
        if desk.idle[d] == 1:
            desk.idle[d] = 0
            waiting -= 1
            desk.instance[made], desk.device[made], desk.copy[made] = instance, d, copy
            made += 1
    desk.sizes[1], desk.sizes[2] = made, placed


@njit_inline
def look(sim: Sim, desk: PlacementBuffers) -> bool:
    """Write down what is ready (by number) and when devices are free; False when no device is idle."""
    any_idle = False
    for d in range(len(desk.free)):
        desk.free[d] = free_at(sim, d)
        desk.idle[d] = 1 if is_idle(sim, d) else 0
        any_idle = any_idle or desk.idle[d] == 1
    if not any_idle:
        return False
    found = 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            desk.ready[found] = sim.inst[sim.kind[kind].pool + k].pool
            found += 1
    desk.sizes[0] = found
    sort_ready(desk)
    return True


@njit_noalloc
def sort_ready(desk: PlacementBuffers) -> None:
    """Order the ready instances by (key, number): heap sort, in place."""
    ready, key, size = desk.ready, desk.key, desk.sizes[0]
    for root in range(size // 2 - 1, -1, -1):
        _sink(ready, key, root, size)
    for end in range(size - 1, 0, -1):
        ready[0], ready[end] = ready[end], ready[0]
        _sink(ready, key, 0, end)


@njit_inline
def _sink(ready: IntArray, key: FloatArray, at: int, size: int) -> None:
    mine = ready[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(key, ready[child], ready[child + 1]):
            child += 1
        if not _before(key, mine, ready[child]):
            break
        ready[at] = ready[child]
        at = child
    ready[at] = mine


@njit_inline
def _before(key: FloatArray, a: int, b: int) -> bool:
    return bool(key[a] < key[b] or (key[a] == key[b] and a < b))


@njit_inline
def carry_out(sim: Sim, desk: PlacementBuffers) -> None:
    """Commit what was decided; a batch may have taken some of it along."""
    for k in range(desk.sizes[1]):
        instance, d = desk.instance[k], desk.device[k]
        if sim.inst[instance].status != READY:
            continue
        if desk.copy[k] < 0:
            commit(sim, instance, d)
        else:
            commit_with_copy(sim, instance, d, desk.copy[k])


# -- seen through a view -----------------------------------------------------


class Mirror:
    """Tables that say what a view says: so that the same compiled code decides in simulations and in real runs."""

    def __init__(self, workload: Workload, policy: str) -> None:
        for problem in workload.problems:
            if problem.workflow.conditional:
                raise Unsupported(
                    f"policy '{policy}' does not place workflow '{problem.name}': it has choices; try 'rank-first'"
                )
        sim = make_sim(workload, Scenario.of(workload), None, eager=True, copies=True)
        self.sim = sim._replace(execution=np.zeros(4 * workload.instances + 1, sim.execution.dtype))
        self.desk = make_desk(workload)
        self._told = np.zeros(workload.instances, bool)
        self._copies = 0
        self._here = np.zeros(0, np.int64)

    def follow(self, view: View) -> None:
        """Take in what is new."""
        sim, desk = self.sim, self.desk
        sim.world[0]["now"], sim.world[0]["eager"] = view.now, view.eager
        sim.device["pace"] = view.pace
        news = np.flatnonzero(~np.isnan(view.finished_at) & ~self._told)
        for i in news.tolist():
            self._add_result(i, int(view.ran_on[i]), float(view.finished_at[i]))
        self._told[news] = True
        self._follow_copies(view)
        sim.inst["status"][news] = DONE
        sim.job["state"][:-1][self._here] = JOB_AHEAD  # gone, unless it is still there
        sim.job["state"][view.jobs] = JOB_HERE
        self._here = view.jobs
        desk.free[:], desk.idle[:] = view.free_at, view.idle
        desk.ready[: len(view.ready)] = view.ready
        desk.sizes[0] = len(view.ready)

    @staticmethod
    def moment_of(view: View) -> tuple[object, ...]:
        """What tells two moments apart, even at one time (a task may take no time): something ended, came, went or changed its pace."""
        ended = int(np.count_nonzero(~np.isnan(view.finished_at))) + sum(
            map(len, view.copies.values())
        )
        return view.now, ended, view.jobs.tobytes(), view.pace.tobytes()

    def _follow_copies(self, view: View) -> None:
        if sum(map(len, view.copies.values())) == self._copies:
            return
        for (
            i,
            places,
        ) in (
            view.copies.items()
        ):  # anew, in the order the simulator has them: the newest first in the chain
            self.sim.inst["result"][i] = -1
            for device, finish in ((int(view.ran_on[i]), float(view.finished_at[i])), *places):
                self._add_result(i, device, finish)
        self._copies = sum(map(len, view.copies.values()))

    def _add_result(self, instance: int, device: int, finish: float) -> None:
        sim = self.sim
        x = int(sim.world[0]["executions"])
        if x == len(sim.execution):
            sim = self.sim = sim._replace(
                execution=np.concatenate((sim.execution, np.zeros_like(sim.execution)))
            )
        sim.execution[x]["device"], sim.execution[x]["finish"] = device, finish
        sim.execution[x]["before"] = sim.inst["result"][instance]
        sim.inst["result"][instance] = x
        sim.world[0]["executions"] = x + 1


class DeftPolicy:
    """Ready tasks in some order, each placed by DEFT. This one: the oldest job first, its tasks by number."""

    name = "fifo-deft-online"
    copies = True

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Lay out the tables."""
        self._mirror = Mirror(workload, self.name)
        self._moment: tuple[object, ...] = ()
        self._pending: list[Decision] = []

    def decide(self, view: View) -> Decision | None:
        """Place everything once a moment, then hand out what can go to an idle device."""
        moment = self._mirror.moment_of(view)
        if moment != self._moment:
            self._moment, self._pending = moment, self._decisions(view)
        ready = set(view.ready.tolist())
        while self._pending:
            said = self._pending.pop(0)
            if said.instance in ready:
                return said
        return None

    def _decisions(self, view: View) -> list[Decision]:
        self._mirror.follow(view)
        if not view.idle.any():
            return []
        desk = self._mirror.desk
        self._order()
        count = int(desk.sizes[1])
        return [
            Decision(*map(int, row))
            for row in zip(
                desk.instance[:count], desk.device[:count], desk.copy[:count], strict=True
            )
        ]

    def _order(self) -> None:
        _dispatch(self._mirror.sim, self._mirror.desk)

    def live(self, sim: Sim) -> int:
        """Play a simulation to its end inside compiled code; the same decisions as `decide`."""
        return int(_play_fifo(sim, self._mirror.desk))


@njit_noalloc
def _dispatch(sim: Sim, desk: PlacementBuffers) -> None:
    dispatch(sim, desk)


@njit_noalloc
def _play_fifo(sim: Sim, desk: PlacementBuffers) -> int:
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready > 0 and look(sim, desk):
            dispatch(sim, desk)
            carry_out(sim, desk)


@POLICIES.register("fifo-deft-online", family="graph")
def fifo_deft_online() -> DeftPolicy:
    """The oldest job's ready task first, where it finishes first, with or without one parent copied there."""
    return DeftPolicy()
