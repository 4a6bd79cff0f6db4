"""Sampled futures of a step-wise simulation, for rollouts.

The jobs in the system are copied into a small simulation, with the places of their data and the
transfers on their way. Further arrivals are drawn from the arrival process, and open choices from
the estimates of the policy. The real future is not read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, in_ticks
from weft.rng import generator
from weft.sim.kernel.extensions import capacities, has_network
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import DONE, JOB_HERE, SKIPPED, RecordTable, Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.state import BatchTables, StepState, sim_of, state_of
from weft.sim.vector.step import chance_of

DRAWS = 1 << 18
"""Random numbers drawn in advance; they are used cyclically."""
MAX_REDRAWS = 20
"""Most draws of a gap until the next arrival lies in the future."""
BLANK, PRESENT, ROLLOUT = range(3)
"""Simulations of a sampler: as allocated, the copied state, and the one that rollouts run in."""

CURSOR = record("", "gap chance oldest")
# next gap and next chance to use; oldest: the first job that is open


class FutureSampler(NamedTuple):
    """Three simulations with room for some jobs, and random numbers to sample futures."""

    tables: BatchTables
    gap: FloatArray  # (DRAWS,) ticks between jobs
    chance: FloatArray  # (DRAWS,) uniform in [0, 1)
    memoryless: bool  # gaps count from now, not from the last arrival
    moves: bool  # data takes time from unit to unit
    branch: IntArray  # (choices, branches) an edge of the branch, or -1
    chooser: IntArray  # (choices,) the task that makes the choice
    place: IntArray  # (room,) the copy of each job from the oldest open one
    cursor: RecordTable  # (1,)


def make_sampler(
    stream: ConditionalStream, like: StepBatch, *, room: int, seed: int
) -> FutureSampler:
    """Allocate a sampler for a stream, with the step options of another batch."""
    batch = StepBatch(stream.with_jobs(room), 3, like.options)
    for s in range(3):
        batch.place(s, np.full(room, np.inf), np.zeros((room, len(stream.drift)), np.int64))
    choices, cluster = stream.problem.workflow.choices, stream.problem.cluster
    branch = np.full(
        (len(choices), max((len(choices.branches(c)) for c in range(len(choices))), default=1)),
        -1,
        np.int64,
    )
    for e in range(stream.problem.m):
        if choices.edge_choice[e] >= 0:
            branch[choices.edge_choice[e], choices.edge_branch[e]] = e
    rng = generator(seed, "imagination")
    return FutureSampler(
        tables=batch.tables,
        gap=_gaps(stream, rng),
        chance=rng.random(DRAWS),
        memoryless=stream.arrivals.process in {"poisson", "trace"},
        moves=bool(cluster.latency.any() or cluster.per_byte.any()),
        branch=branch,
        chooser=np.array(choices.task, np.int64),
        place=np.zeros(room, np.int64),
        cursor=np.zeros(1, CURSOR),
    )


def _gaps(stream: ConditionalStream, rng: np.random.Generator) -> FloatArray:
    """Draw gaps in ticks; in place of a trace, those of a Poisson process of its rate."""
    arrivals, gap = stream.arrivals, in_ticks(stream.arrivals.gap, stream.tick)
    if arrivals.process == "regular":
        return np.full(DRAWS, gap)
    if arrivals.process == "normal":
        return rng.normal(gap, in_ticks(arrivals.deviation, stream.tick), DRAWS)
    if gap == 0:
        gap = float(np.ptp(arrivals.times)) / max(len(arrivals.times) - 1, 1) / stream.tick
    return rng.exponential(gap, DRAWS)


# -- copied state --------------------------------------------------------------------


@njit_inline
def with_first_jobs(sim: Sim, jobs: int) -> Sim:
    """Return the simulation with the first jobs only."""
    return Sim(
        world=sim.world,
        task=sim.task,
        edge=sim.edge,
        job=sim.job[: jobs + 1],
        inst=sim.inst,
        entry=sim.entry,
        kind=sim.kind,
        device=sim.device,
        due=sim.due,
        execution=sim.execution,
        change=sim.change,
        grid=sim.grid,
        outcome=sim.outcome,
        need=sim.need,
        room=sim.room,
        flow=sim.flow,
        link=sim.link,
        inbound=sim.inbound,
        route=sim.route,
        loaded=sim.loaded,
        extended=sim.extended,
    )


@njit_noalloc
def load_state(sim: Sim, state: StepState, sampler: FutureSampler, ahead: int) -> int:
    """Copy the state of a simulation; return the jobs, or 0 if there is no room.

    The last `ahead` of these jobs are still to arrive.
    """
    blank, here = sim_of(sampler.tables, BLANK), sim_of(sampler.tables, PRESENT)
    here_state = state_of(sampler.tables, PRESENT)
    tasks = len(sim.task) - 1
    room, last = len(sampler.place), sim.world[0].next_arrival
    if sampler.cursor[0].oldest > last:
        sampler.cursor[0].oldest = 0  # another simulation
    while sampler.cursor[0].oldest < last and sim.job[sampler.cursor[0].oldest].state != JOB_HERE:
        sampler.cursor[0].oldest += 1
    oldest = sampler.cursor[0].oldest
    if last - oldest > room:
        return 0
    here.world[0] = sim.world[0]
    here.world[0].executions = 0
    live = 0
    for j in range(oldest, last):
        if sim.job[j].state == JOB_HERE:
            if live + ahead >= room:
                return 0
            sampler.place[j - oldest] = live
            _copy_job(sim, here, blank, j, live, tasks)
            if sampler.moves:
                _copy_results(sim, here, j, live, tasks)
            live += 1
    total = live + ahead
    for i in range(live, total):
        here.job[i] = blank.job[i]
        for t in range(i * tasks, (i + 1) * tasks):
            here.inst[t] = blank.inst[t]
            here.entry[t] = blank.entry[t]
            if has_network(sim):
                here.inbound[t] = blank.inbound[t]
    _link(sim, here, oldest, live, sampler.place, tasks)
    _copy_room(sim, here)
    if has_network(sim):
        _load_transfers(sim, here, oldest, sampler.place, tasks)
    here.world[0].next_arrival = live
    here.world[0].next_change = 0
    here.world[0].next_cancel = 0
    here.world[0].open_jobs = total
    for at in range(len(state.estimate)):
        here_state.estimate[at] = state.estimate[at]
    for at in range(len(state.seen)):
        here_state.seen[at] = state.seen[at]
    here_state.counters[0].memory = state.counters[0].memory
    here_state.counters[0].scanned = here.world[0].executions
    here_state.counters[0].fresh = 1
    return total


@njit_inline
def _copy_job(sim: Sim, here: Sim, blank: Sim, j: int, i: int, tasks: int) -> None:
    """Copy job j of the simulation to job i; outcomes of its choices stay unknown."""
    first, choice = blank.job[i].first, blank.job[i].choice
    shift, entry = blank.job[i].shift, blank.job[i].entry
    here.job[i] = sim.job[j]
    here.job[i].first = first
    here.job[i].choice = choice
    here.job[i].shift = shift
    here.job[i].entry = entry
    here.job[i].called_off = i
    real = sim.job[j].first
    for t in range(tasks):
        here.inst[first + t] = sim.inst[real + t]
        here.inst[first + t].job = i
        here.inst[first + t].result = -1
        here.entry[first + t] = blank.entry[first + t]
        if has_network(sim):
            here.inbound[first + t] = sim.inbound[real + t]
    choices = sim.job[j + 1].choice - sim.job[j].choice
    for c in range(choices):
        here.outcome[choice + c] = -1


@njit_noalloc
def _copy_results(sim: Sim, here: Sim, j: int, i: int, tasks: int) -> None:
    """Copy where and when the tasks of job j ended: their data is there."""
    for t in range(tasks):
        result = sim.inst[sim.job[j].first + t].result
        if result >= 0:
            x, instance = here.world[0].executions, here.job[i].first + t
            here.world[0].executions = x + 1
            here.execution[x] = sim.execution[result]
            here.execution[x].instance = instance
            here.execution[x].before = -1  # streams have no copies of tasks
            here.inst[instance].result = x


@njit_inline
def _moved(sim: Sim, instance: int, oldest: int, place: IntArray, tasks: int) -> int:
    """Return the number of the copy of an instance."""
    if instance < 0:
        return -1
    job = sim.inst[instance].job
    return int(place[job - oldest] * tasks + instance - sim.job[job].first)


@njit_inline
def _link(sim: Sim, here: Sim, oldest: int, live: int, place: IntArray, tasks: int) -> None:
    """Copy batches, queues and units, with the numbers of the copies."""
    for i in range(live * tasks):
        partner = here.inst[i].partner
        if partner >= 0:
            present = sim.job[sim.inst[partner].job].state == JOB_HERE
            moved = _moved(sim, partner, oldest, place, tasks) if present else -1
            here.inst[i].partner = moved
    for k in range(len(sim.kind)):
        here.kind[k].ready = sim.kind[k].ready
        for j in range(sim.kind[k].ready):
            here.inst[here.kind[k].pool + j].pool = _moved(
                sim, sim.inst[sim.kind[k].pool + j].pool, oldest, place, tasks
            )
    for d in range(len(sim.device)):
        here.device[d] = sim.device[d]
        here.due[d] = sim.due[d]
        _copy_loaded(sim, here, d)
        here.device[d].running = _moved(sim, sim.device[d].running, oldest, place, tasks)
        here.device[d].head = _moved(sim, sim.device[d].head, oldest, place, tasks)
        here.device[d].tail = _moved(sim, sim.device[d].tail, oldest, place, tasks)
        entry = sim.device[d].head
        while entry >= 0:
            here.entry[_moved(sim, entry, oldest, place, tasks)].next = _moved(
                sim, sim.entry[entry].next, oldest, place, tasks
            )
            entry = sim.entry[entry].next


@njit_inline
def _copy_loaded(sim: Sim, there: Sim, d: int) -> None:
    """Copy what a unit has loaded, now and behind its queue."""
    for row in (d, len(sim.device) + d):
        for k in range(sim.loaded.shape[1]):
            there.loaded[row, k] = sim.loaded[row, k]


@njit_inline
def _copy_room(sim: Sim, there: Sim) -> None:
    """Copy the amounts left of the capacities of nodes."""
    for node in range(len(sim.room)):
        for c in range(capacities(sim)):
            there.room[node, c] = sim.room[node, c]


@njit_noalloc
def _load_transfers(sim: Sim, here: Sim, oldest: int, place: IntArray, tasks: int) -> None:
    """Copy the transfers that move, and how long ports are taken."""
    for x in range(len(sim.link)):
        here.link[x] = sim.link[x]
    moving = sim.world[0].moving
    for k in range(moving):
        f = sim.flow[k].active
        here.flow[k] = sim.flow[f]
        here.flow[k].active = k
        here.flow[k].consumer = _moved(sim, sim.flow[f].consumer, oldest, place, tasks)
    here.world[0].flows = moving


# -- sampled future ------------------------------------------------------------------


@njit_noalloc
def sample_future(sim: Sim, sampler: FutureSampler, jobs: int, ahead: int) -> None:
    """Draw arrivals, and the branches of all open choices."""
    here, here_state = sim_of(sampler.tables, PRESENT), state_of(sampler.tables, PRESENT)
    live, now = jobs - ahead, here.world[0].now
    last = now
    if not sampler.memoryless:
        arrived = sim.world[0].next_arrival
        last = sim.job[arrived - 1].arrival if arrived > 0 else 0.0
    first = True
    for i in range(live, jobs):
        gap = _next_gap(sampler)
        if first:
            for _ in range(MAX_REDRAWS):
                if last + gap > now:
                    break
                gap = _next_gap(sampler)
            first = False
        last = max(last + max(gap, 0.0), now)  # in order: a normal gap may be negative
        here.job[i].arrival = last
    choices, oldest = len(sampler.chooser), sampler.cursor[0].oldest
    real = oldest
    for i in range(jobs):
        if i < live:
            while sim.job[real].state != JOB_HERE:
                real += 1
        for c in range(choices):
            status = here.inst[here.job[i].first + sampler.chooser[c]].status
            made = status == DONE or status == SKIPPED  # noqa: PLR1714  # a set would allocate
            if i < live and made:
                here.outcome[here.job[i].choice + c] = sim.outcome[sim.job[real].choice + c]
            else:
                here.outcome[here.job[i].choice + c] = _draw_branch(here_state, sampler, c)
        if i < live:
            real += 1


@njit_inline
def _next_gap(sampler: FutureSampler) -> float:
    at = sampler.cursor[0].gap
    sampler.cursor[0].gap = (at + 1) % len(sampler.gap)
    return float(sampler.gap[at])


@njit_inline
def _next_chance(sampler: FutureSampler) -> float:
    at = sampler.cursor[0].chance
    sampler.cursor[0].chance = (at + 1) % len(sampler.chance)
    return float(sampler.chance[at])


@njit_inline
def _draw_branch(state: StepState, sampler: FutureSampler, choice: int) -> int:
    """Draw a branch by its estimated probability; a branch without edges has the rest."""
    left, other = _next_chance(sampler), 0
    for b in range(sampler.branch.shape[1]):
        if sampler.branch[choice, b] < 0:
            other = b
            continue
        left -= chance_of(state, sampler.branch[choice, b])
        if left < 0.0:
            return b
    return other


@njit_noalloc
def start_rollout(sampler: FutureSampler, jobs: int) -> None:
    """Copy the state, with its sampled future, into the simulation of the rollout."""
    here, there = sim_of(sampler.tables, PRESENT), sim_of(sampler.tables, ROLLOUT)
    here_state, there_state = state_of(sampler.tables, PRESENT), state_of(sampler.tables, ROLLOUT)
    tasks = len(here.task) - 1
    there.world[0] = here.world[0]
    for i in range(jobs):
        there.job[i] = here.job[i]
    for i in range(jobs * tasks):
        there.inst[i] = here.inst[i]
        there.entry[i] = here.entry[i]
    for x in range(here.world[0].executions):
        there.execution[x] = here.execution[x]
    _copy_room(here, there)
    if has_network(here):
        _copy_transfers(here, there, jobs * tasks)
    for k in range(len(here.kind)):
        there.kind[k] = here.kind[k]
        base = here.kind[k].pool
        for j in range(here.kind[k].ready):
            there.inst[base + j].pool = here.inst[base + j].pool
    for d in range(len(here.device)):
        there.device[d] = here.device[d]
        there.due[d] = here.due[d]
        _copy_loaded(here, there, d)
    for i in range(jobs * len(sampler.chooser)):
        there.outcome[i] = here.outcome[i]
    for at in range(len(here_state.estimate)):
        there_state.estimate[at] = here_state.estimate[at]
    for at in range(len(here_state.seen)):
        there_state.seen[at] = here_state.seen[at]
    there_state.counters[0] = here_state.counters[0]


@njit_noalloc
def _copy_transfers(here: Sim, there: Sim, instances: int) -> None:
    for x in range(len(here.link)):
        there.link[x] = here.link[x]
    for f in range(here.world[0].flows):
        there.flow[f] = here.flow[f]
    for i in range(instances):
        there.inbound[i] = here.inbound[i]
