"""DEFT online: earliest finish, with or without a copy of one parent.

Placement of Lachesis (Luo et al. 2021, arXiv 2103.06980) as we read it, on the present state. Each
device that is up has two expected finishes: one without a copy, and one if the parent whose data
arrives last runs there once more (on the grandparents' results). The earliest finish wins; among
equals the one without a copy, then the lower device. A copy of another parent cannot help: the task
would still wait for the last one.

Dispatch is ours. At an event the ready tasks are placed in the order of a policy. A task on an idle
device is committed. A task on a busy device only reserves its time there for this event, so that
later tasks see the device as taken; the next event decides again. Once every idle device has a
task, the others wait.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.sim.kernel.commit import any_idle, commit, commit_with_copy, free_at, is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import input_arrival, task_of, transfer_time
from weft.sim.kernel.records import record
from weft.sim.kernel.sim_from_view import SimFromView, refuse_choices
from weft.sim.kernel.tables import READY, RecordTable, Sim
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View
from weft.typed import typed_class

NONE = -1
COUNTS = record("", "ready decisions placed")
"""Numbers of ready tasks, of decisions, and of ready tasks (the first ones) that were placed."""


class PlacementBuffers(NamedTuple):
    """Buffers for the decisions of one event."""

    free: FloatArray  # (p,) when a device ends its tasks, and those placed at this event
    key: FloatArray  # (instances,) sort key of ready instances, the lowest first; ties by number
    idle: IntArray  # (p,) 1: idle
    ready: IntArray  # (instances,) ready instances, in the order of placement
    instance: IntArray  # (instances,) decisions: instance, device, and the parent to copy or -1
    device: IntArray
    copy: IntArray
    counts: RecordTable  # (1,)


def make_buffers(workload: Workload) -> PlacementBuffers:
    """Allocate the buffers."""
    n, p = workload.instances, workload.cluster.p
    return PlacementBuffers(
        free=np.zeros(p),
        key=np.zeros(n),
        idle=np.zeros(p, np.int64),
        ready=np.zeros(n, np.int64),
        instance=np.zeros(n, np.int64),
        device=np.zeros(n, np.int64),
        copy=np.zeros(n, np.int64),
        counts=np.zeros(1, COUNTS),
    )


@njit_inline
def place(sim: Sim, instance: int, free: FloatArray) -> tuple[int, int, float]:
    """Return the device of the earliest finish, the parent to copy, and the finish."""
    now, g = sim.world[0].now, task_of(sim, instance)
    best, best_copy, least = NONE, NONE, np.inf
    for d in range(len(free)):
        per_work = sim.grid[sim.task[g].row, d]
        if per_work == np.inf or free[d] == np.inf:
            continue
        begin, seconds = max(free[d], now), sim.task[g].work * per_work * sim.device[d].slowdown
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
    """Return the last parent to arrive, its arrival, and that of all others."""
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
            seconds = transfer_time(sim, sim.execution[x].device, d, sim.edge[e].data)
            soonest = min(soonest, sent + seconds)
            x = sim.execution[x].before
        if soonest > latest or last < 0:
            last, latest, others = parent, soonest, latest
        else:
            others = max(others, soonest)
    return last, latest, others


@njit_inline
def _copy_finish(sim: Sim, parent: int, d: int, begin: float) -> float:
    g = task_of(sim, parent)
    per_work = sim.grid[sim.task[g].row, d]
    if per_work == np.inf:
        return np.inf
    there = max(begin, input_arrival(sim, parent, d, sim.world[0].now))
    return float(there + sim.task[g].work * per_work * sim.device[d].slowdown)


@njit_inline
def useful_copy(sim: Sim, instance: int, d: int) -> int:
    """Return the parent to copy ahead of an instance on an idle device, or NONE.

    A copy is useful if its data exists before the data of the original arrives.
    """
    now = sim.world[0].now
    last, latest, others = _inputs(sim, instance, d)
    if latest <= now or others >= latest:
        return NONE
    return last if _copy_finish(sim, last, d, now) < latest else NONE


@njit_noalloc
def commit_choice(sim: Sim, instance: int, d: int) -> None:
    """Commit a task, with a copy of a parent ahead of it if that fits and helps."""
    copy = useful_copy(sim, instance, d) if sim.world[0].copies == 1 else NONE
    if copy == NONE:
        commit(sim, instance, d)
    else:
        commit_with_copy(sim, instance, d, copy)


@njit_inline
def dispatch(sim: Sim, buffers: PlacementBuffers) -> None:
    """Place the ready instances in order; record those that go to an idle device."""
    waiting = 0
    for d in range(len(buffers.idle)):
        waiting += buffers.idle[d]
    made = placed = 0
    for k in range(buffers.counts[0].ready):
        if waiting == 0:
            break
        placed += 1
        instance = buffers.ready[k]
        d, copy, finish = place(sim, instance, buffers.free)
        if d < 0:
            continue
        buffers.free[d] = finish
        if buffers.idle[d] == 1:
            buffers.idle[d] = 0
            waiting -= 1
            buffers.instance[made], buffers.device[made], buffers.copy[made] = instance, d, copy
            made += 1
    buffers.counts[0].decisions, buffers.counts[0].placed = made, placed


@njit_inline
def observe(sim: Sim, buffers: PlacementBuffers) -> bool:
    """List the ready instances, and when devices are free; False if none is idle."""
    if not any_idle(sim):
        return False
    for d in range(len(buffers.free)):
        buffers.free[d] = free_at(sim, d)
        buffers.idle[d] = 1 if is_idle(sim, d) else 0
    found = 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            buffers.ready[found] = sim.inst[sim.kind[kind].pool + k].pool
            found += 1
    buffers.counts[0].ready = found
    sort_ready(buffers)
    return True


@njit_noalloc
def sort_ready(buffers: PlacementBuffers) -> None:
    """Order the ready instances by (key, number): heap sort, in place."""
    ready, key, size = buffers.ready, buffers.key, buffers.counts[0].ready
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
def commit_decisions(sim: Sim, buffers: PlacementBuffers) -> None:
    """Commit the decisions, except those that a batch has committed already."""
    for k in range(buffers.counts[0].decisions):
        instance, d = buffers.instance[k], buffers.device[k]
        if sim.inst[instance].status != READY:
            continue
        if buffers.copy[k] < 0:
            commit(sim, instance, d)
        else:
            commit_with_copy(sim, instance, d, buffers.copy[k])


@typed_class
class DeftPolicy:
    """Place ready tasks by DEFT, the oldest job first, its tasks by number."""

    name = "fifo-deft-online"
    copies = True

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Allocate the tables; refuse workflows with choices."""
        refuse_choices(workload, self.name)
        self._tables = SimFromView(workload, copies=True)
        self._buffers = make_buffers(workload)
        self._moment: tuple[object, ...] = ()
        self._pending: list[Decision] = []

    def state(self) -> dict[str, Any]:
        """Return all that a view does not show."""
        return self._tables.state()

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        self._tables.resume(state, numbers)

    def decide(self, view: View) -> Decision | None:
        """Place all ready tasks once per moment, then return the decisions one by one."""
        moment = view.moment()
        if moment != self._moment:
            self._moment, self._pending = moment, self._decisions(view)
        while self._pending:
            decision = self._pending.pop(0)
            at = int(np.searchsorted(view.ready, decision.instance))
            if at < len(view.ready) and view.ready[at] == decision.instance:
                return decision
        return None

    def _decisions(self, view: View) -> list[Decision]:
        buffers = self._buffers
        self._tables.update(view)
        buffers.free[:], buffers.idle[:] = view.free_at, view.idle
        buffers.ready[: len(view.ready)] = view.ready
        buffers.counts["ready"] = len(view.ready)
        if not view.idle.any():
            return []
        self._place()
        count = int(buffers.counts["decisions"][0])
        columns = (buffers.instance, buffers.device, buffers.copy)
        rows = zip(*(column[:count].tolist() for column in columns), strict=True)
        return [Decision(*row) for row in rows]

    def _place(self) -> None:
        dispatch(self._tables.sim, self._buffers)

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation in compiled code; the same ones as `decide`."""
        return int(_run_fifo(sim, self._buffers))


@njit_noalloc
def _run_fifo(sim: Sim, buffers: PlacementBuffers) -> int:
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready > 0 and observe(sim, buffers):
            dispatch(sim, buffers)
            commit_decisions(sim, buffers)


@POLICIES.register("fifo-deft-online", family="graph")
def fifo_deft_online() -> DeftPolicy:
    """The oldest job's task first, placed by DEFT."""
    return DeftPolicy()
