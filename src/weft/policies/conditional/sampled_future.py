"""What may come next, imagined: the present of a step-wise simulation with futures that are drawn, not known.

The jobs that are here are copied into a small simulation; jobs that will come, and the branches nobody has seen yet, are drawn from the
arrival process and from the estimates of the policy that plays. Nothing of the real future is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, in_ticks
from weft.rng import generator
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import DONE, JOB_HERE, SKIPPED, Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.step import BatchTables, StepState, chance_of, sim_of, state_of

DRAWS = 1 << 18
"""Random numbers laid in beforehand; they are gone through again and again."""
TRIES = 20
PRISTINE, PRESENT, TRIAL = range(3)
"""Simulations of an imagination: untouched, as things stand, and the one futures are played in."""


class FutureSampler(NamedTuple):
    """Room for `size` jobs in three simulations, and what futures are drawn from."""

    fleet: BatchTables
    gap: FloatArray  # (DRAWS,) ticks between jobs
    chance: FloatArray  # (DRAWS,) uniform in [0, 1)
    memoryless: bool  # gaps count from now, not from the last arrival
    branch: IntArray  # (choices, branches) an edge of the branch, or -1
    chooser: IntArray  # (choices,) the task that chooses
    place: IntArray  # (room,) number of a real job's copy
    at: IntArray  # (3,) next gap, next chance, oldest open job


def imagine(stream: ConditionalStream, like: StepBatch, *, room: int, seed: int) -> FutureSampler:
    """Make room for the jobs of a stream that is stepped and shown as in another fleet."""
    fleet = StepBatch(stream.with_jobs(room), 3, like.options)
    for s in range(3):
        fleet.place(s, np.full(room, np.inf), np.zeros((room, len(stream.drift)), np.int64))
    choices = stream.problem.workflow.choices
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
        fleet=fleet.tables,
        gap=_gaps(stream, rng),
        chance=rng.random(DRAWS),
        memoryless=stream.arrivals.process in {"poisson", "trace"},
        branch=branch,
        chooser=np.array(choices.task, np.int64),
        place=np.zeros(room, np.int64),
        at=np.zeros(3, np.int64),
    )


def _gaps(stream: ConditionalStream, rng: np.random.Generator) -> FloatArray:
    """Gaps in ticks; of a trace, which nobody knows beforehand, as if it were a Poisson process of the same rate."""
    arrivals, gap = stream.arrivals, in_ticks(stream.arrivals.gap, stream.tick)
    if arrivals.process == "regular":
        return np.full(DRAWS, gap)
    if arrivals.process == "normal":
        return rng.normal(gap, in_ticks(arrivals.deviation, stream.tick), DRAWS)
    if gap == 0:
        gap = float(np.ptp(arrivals.times)) / max(len(arrivals.times) - 1, 1) / stream.tick
    return rng.exponential(gap, DRAWS)


# -- the present ---------------------------------------------------------------------


@njit_inline
def limited(sim: Sim, jobs: int) -> Sim:
    """The same simulation with the first jobs only."""
    return Sim(
        sim.world,
        sim.task,
        sim.edge,
        sim.job[: jobs + 1],
        sim.inst,
        sim.entry,
        sim.kind,
        sim.device,
        sim.due,
        sim.execution,
        sim.change,
        sim.grid,
        sim.outcome,
    )


@njit_noalloc
def take_in(sim: Sim, desk: StepState, mind: FutureSampler, ahead: int) -> int:
    """Copy what is here into the present; returns the number of its jobs, `ahead` of them still to come, or 0 when there is no room."""
    blank, here, mine = (
        sim_of(mind.fleet, PRISTINE),
        sim_of(mind.fleet, PRESENT),
        state_of(mind.fleet, PRESENT),
    )
    tasks = len(sim.task) - 1
    room, last = len(mind.place), sim.world[0].next_arrival
    if mind.at[2] > last:
        mind.at[2] = 0  # another simulation
    while mind.at[2] < last and sim.job[mind.at[2]].state != JOB_HERE:
        mind.at[2] += 1
    oldest = mind.at[2]
    if last - oldest > room:
        return 0
    live = 0
    for j in range(oldest, last):
        if sim.job[j].state == JOB_HERE:
            if live + ahead >= room:
                return 0
            mind.place[j - oldest] = live
            _copy_job(sim, here, blank, j, live, tasks)
            live += 1
    total = live + ahead
    for i in range(live, total):
        here.job[i] = blank.job[i]
        for t in range(i * tasks, (i + 1) * tasks):
            here.inst[t] = blank.inst[t]
            here.entry[t] = blank.entry[t]
    _link(sim, here, oldest, live, mind.place, tasks)
    here.world[0] = sim.world[0]
    here.world[0].next_arrival = live
    here.world[0].next_change = 0
    here.world[0].next_cancel = 0
    here.world[0].open_jobs = total
    here.world[0].executions = 0
    for at in range(len(desk.estimate)):
        mine.estimate[at] = desk.estimate[at]
    for at in range(len(desk.seen)):
        mine.seen[at] = desk.seen[at]
    mine.counters[0].memory = desk.counters[0].memory
    mine.counters[0].scanned = 0
    mine.counters[0].fresh = 1
    return total


@njit_inline
def _copy_job(sim: Sim, here: Sim, blank: Sim, j: int, i: int, tasks: int) -> None:
    """Job j of the simulation is to be job i here; what its choices will come to stays unknown."""
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
        here.inst[
            first + t
        ].result = -1  # what is done has arrived: transfers on the way are not imagined
        here.entry[first + t] = blank.entry[first + t]
    choices = sim.job[j + 1].choice - sim.job[j].choice
    for c in range(choices):
        here.outcome[choice + c] = -1


@njit_inline
def _moved(sim: Sim, instance: int, oldest: int, place: IntArray, tasks: int) -> int:
    """Number of an instance's copy."""
    if instance < 0:
        return -1
    job = sim.inst[instance].job
    return int(place[job - oldest] * tasks + instance - sim.job[job].first)


@njit_inline
def _link(sim: Sim, here: Sim, oldest: int, live: int, place: IntArray, tasks: int) -> None:
    """Queues, groups and units: the same ones, by the numbers of the copies."""
    for i in range(live * tasks):
        if here.inst[i].partner >= 0:
            here.inst[i].partner = (
                _moved(sim, here.inst[i].partner, oldest, place, tasks)
                if _is_here(sim, here.inst[i].partner)
                else -1
            )
    for k in range(len(sim.kind)):
        here.kind[k].ready = sim.kind[k].ready
        for j in range(sim.kind[k].ready):
            here.inst[here.kind[k].pool + j].pool = _moved(
                sim, sim.inst[sim.kind[k].pool + j].pool, oldest, place, tasks
            )
    for d in range(len(sim.device)):
        here.device[d] = sim.device[d]
        here.due[d] = sim.due[d]
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
def _is_here(sim: Sim, instance: int) -> bool:
    return bool(sim.job[sim.inst[instance].job].state == JOB_HERE)


# -- futures -------------------------------------------------------------------------


@njit_noalloc
def draw_scenario(sim: Sim, mind: FutureSampler, jobs: int, ahead: int) -> None:
    """Draw arrivals, and the branches of all choices that have not been made."""
    here, mine = sim_of(mind.fleet, PRESENT), state_of(mind.fleet, PRESENT)
    live, now = jobs - ahead, here.world[0].now
    last = now
    if not mind.memoryless:
        came = sim.world[0].next_arrival
        last = sim.job[came - 1].arrival if came > 0 else 0.0
    first = True
    for i in range(live, jobs):
        gap = _next(mind.gap, mind.at, 0)
        if first:
            for _ in range(TRIES):
                if last + gap > now:
                    break
                gap = _next(mind.gap, mind.at, 0)
            first = False
        last = max(last + max(gap, 0.0), now)  # jobs come in order; a normal gap may be negative
        here.job[i].arrival = last
    choices, oldest = len(mind.chooser), mind.at[2]
    real = oldest
    for i in range(jobs):
        if i < live:
            while sim.job[real].state != JOB_HERE:
                real += 1
        for c in range(choices):
            status = here.inst[here.job[i].first + mind.chooser[c]].status
            if i < live and (status == DONE or status == SKIPPED):  # noqa: PLR1714, SIM109 (a set would allocate)
                here.outcome[here.job[i].choice + c] = sim.outcome[sim.job[real].choice + c]
            else:
                here.outcome[here.job[i].choice + c] = _branch(mine, mind, c)
        if i < live:
            real += 1


@njit_inline
def _next(numbers: FloatArray, at: IntArray, which: int) -> float:
    value = numbers[at[which]]
    at[which] = (at[which] + 1) % len(numbers)
    return float(value)


@njit_inline
def _branch(desk: StepState, mind: FutureSampler, choice: int) -> int:
    """A branch by what is known of its probability; what is left over belongs to a branch without edges."""
    left, other = _next(mind.chance, mind.at, 1), 0
    for b in range(mind.branch.shape[1]):
        if mind.branch[choice, b] < 0:
            other = b
            continue
        left -= chance_of(desk, mind.branch[choice, b])
        if left < 0.0:
            return b
    return other


@njit_noalloc
def begin_trial(mind: FutureSampler, jobs: int) -> None:
    """Copy the present, with the future drawn for it, into the trial."""
    here, there = sim_of(mind.fleet, PRESENT), sim_of(mind.fleet, TRIAL)
    mine, its = state_of(mind.fleet, PRESENT), state_of(mind.fleet, TRIAL)
    tasks = len(here.task) - 1
    there.world[0] = here.world[0]
    for i in range(jobs):
        there.job[i] = here.job[i]
    for i in range(jobs * tasks):
        there.inst[i] = here.inst[i]
        there.entry[i] = here.entry[i]
    for k in range(len(here.kind)):
        there.kind[k] = here.kind[k]
        base = here.kind[k].pool
        for j in range(here.kind[k].ready):
            there.inst[base + j].pool = here.inst[base + j].pool
    for d in range(len(here.device)):
        there.device[d] = here.device[d]
        there.due[d] = here.due[d]
    for i in range(jobs * len(mind.chooser)):
        there.outcome[i] = here.outcome[i]
    for at in range(len(mine.estimate)):
        its.estimate[at] = mine.estimate[at]
    for at in range(len(mine.seen)):
        its.seen[at] = mine.seen[at]
    its.counters[0] = mine.counters[0]
