"""State of step-wise simulations: options and estimates.

It is beside the tables of the event kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.commit import free_at
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable, Sim

CONFIG = record(
    "idle_ticks slowest prior tick span age_scale queue_scale",
    "blocking ages estimate units detail",
)
# slowest: least weight of a new outcome, 1 / window; span: ticks of a typical task; blocking: a
# unit that waits is held for `idle_ticks`; estimate, units, detail: parts of the observation
WATCH = record("", "choice slot branches")  # a choice to estimate; its first place in `estimate`
CHANCE = record("nominal", "slot first last")
# of an edge: slot -1: `nominal`; slot -2: 1 minus the estimates first to last; else estimate[slot]
COUNTERS = record("cost elapsed", "scanned fresh memory")
# fresh: estimates changed since `remaining` was computed; memory: last kind chosen by a rule


class StepState(NamedTuple):
    """Options and estimates beside the simulation.

    `estimate`, `seen`, `remaining`, `coming`, `counters` and `scratch` belong to one simulation.
    """

    config: RecordTable  # (1,)
    watch: RecordTable
    watch_ptr: IntArray  # (tasks + 1,) the watched choices of each task
    chance: RecordTable  # (edges,)
    order: IntArray  # (tasks,) topological
    duration: FloatArray  # (tasks, units) ticks, inf where a task cannot run
    depth: IntArray  # (kinds,) place in the order of Depth-First, deepest last
    group: IntArray  # (units,) identical units share a number
    estimate: FloatArray
    seen: IntArray
    remaining: FloatArray  # (tasks,) expected ticks to the end of the job on the fastest units
    coming: FloatArray  # (kinds,) tasks expected to become ready soon
    counters: RecordTable  # (1,)
    scratch: IntArray


class BatchTables(NamedTuple):
    """Many simulations: tables that differ between them have one more axis in front."""

    sim: Sim
    state: StepState


@njit_inline
def sim_of(batch: BatchTables, s: int) -> Sim:
    """Return the tables of one simulation."""
    f = batch.sim
    return Sim(
        world=f.world[s],
        task=f.task,
        edge=f.edge,
        job=f.job[s],
        inst=f.inst[s],
        entry=f.entry[s],
        kind=f.kind[s],
        device=f.device[s],
        due=f.due[s],
        execution=f.execution[s],
        change=f.change,
        grid=f.grid,
        outcome=f.outcome[s],
        need=f.need,
        room=f.room[s],
        flow=f.flow[s],
        link=f.link[s],
        inbound=f.inbound[s],
        route=f.route,
        loaded=f.loaded[s],
        extended=f.extended,
    )


@njit_inline
def state_of(batch: BatchTables, s: int) -> StepState:
    """Return the step state of one simulation."""
    f = batch.state
    return StepState(
        config=f.config,
        watch=f.watch,
        watch_ptr=f.watch_ptr,
        chance=f.chance,
        order=f.order,
        duration=f.duration,
        depth=f.depth,
        group=f.group,
        estimate=f.estimate[s],
        seen=f.seen[s],
        remaining=f.remaining[s],
        coming=f.coming[s],
        counters=f.counters[s],
        scratch=f.scratch[s],
    )


@njit_inline
def jobs_here(sim: Sim) -> int:
    """Return the number of jobs in the system (streams cancel no job)."""
    return int(sim.world[0].next_arrival - (len(sim.job) - 1 - sim.world[0].open_jobs))


@njit_inline
def members(sim: Sim, d: int) -> int:
    """Return the number of tasks in the running batch of a unit."""
    size, instance = 0, sim.entry[sim.device[d].running].instance
    while instance >= 0:
        size, instance = size + 1, sim.inst[instance].partner
    return size


@njit_inline
def busy_for(sim: Sim, d: int) -> float:
    """Return the ticks until a unit is expected to be free."""
    until = sim.device[d].blocked_until
    if sim.device[d].head >= 0:  # its batch waits for data or room
        until = _queue_end(sim, d)
    elif sim.device[d].running >= 0:
        until = max(until, sim.device[d].expected)
    return float(max(until - sim.world[0].now, 0.0))


@njit_noalloc
def _queue_end(sim: Sim, d: int) -> float:
    return free_at(sim, d)
