"""One decision by search: improve the best known plan, start its first tasks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Workload
from weft.model.columns import IntArray
from weft.policies.graph.deft import commit_choice
from weft.policies.replanning.feedback import observed_spread
from weft.policies.replanning.portfolio import Portfolio, advance_to_decision, replan
from weft.policies.replanning.state import PlanState, plan_at
from weft.policies.search.anneal import (
    PlanChain,
    anneal,
    begin_search,
    keep_best,
    make_search_chain,
)
from weft.policies.search.residual import Residual, fill, make_residual
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.order_moves import ANY
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import JOB_HERE, READY, RecordTable, Sim
from weft.sim.renumbering import Renumbering
from weft.typed import typed_dataclass

SEARCH_CELLS = 10_000
"""Most tasks x devices of the window for which there is a search; beyond, the best plan decides."""

LARGE_WORK = 1e8
"""The work of an event is at most this over the tasks left, which matters from thousands on."""

JOB_WORK = 60_000.0
"""Placements after which each of the two ways to move whole jobs ends."""

LEAST_SPREAD = 0.02
"""Least spread of durations for sampled futures; below it, only the expected future counts."""

STATE = record(
    "work first_work temperature occupancy finish_weight",
    "futures planned_copies job_moves pinned sampled_jobs window kept arrived gone",
)
# The first fields are `SearchOptions`. kept: tasks of the incumbent; arrived: jobs at that time;
# gone: jobs that have left the tables


@typed_dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search at every event.

    Parameters
    ----------
    work : placements of tasks per event, in all futures together; 10,000 take about 1 ms
    first_work : placements at an event at which a job has arrived
    futures : number of futures in which a plan is judged: the expected one, and sampled ones. While
        durations are as estimated, there is only the expected one
    temperature : first temperature of the annealing, as a share of the value; 0: no plan gets worse
    copies : whether a device may run a parent again instead of waiting for its data
    planned_copies : whether plans contain such copies; if not, a copy is decided when a task starts
    occupancy : in streams, the cost of using a device for a second, since jobs that will come wait
        for it: this number of job seconds, divided by the number of devices
    job_moves : whether to try each job ahead of all others, behind them, and ahead of each other
        one
    pinned : whether the search starts with each task on its device in the plan, not on the device
        of its earliest finish; a placement then takes less work
    sampled_jobs : number of future jobs in the sampled futures of a stream: copies of jobs that
        have arrived, at the observed rate
    finish_weight : weight of the mean finish of the tasks, beside the end of a job
    """

    work: float = 8_000.0
    first_work: float = 200_000.0
    futures: int = 1
    temperature: float = 0.0
    copies: bool = True
    planned_copies: bool = False
    occupancy: float = 0.0
    finish_weight: float = 0.0
    job_moves: bool = False
    pinned: bool = False
    sampled_jobs: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name in (option.name for option in fields(self) if type(option.default) is not bool):
            value, least = getattr(self, name), 1 if name == "futures" else 0
            if not least <= value < 1e15:
                raise InvalidInput(f"{name} is {value}; it must be a finite number from {least}")


class IncumbentSearch(NamedTuple):
    """The incumbent and all memory of the search."""

    state: RecordTable  # (1,)
    left: Residual
    chain: PlanChain
    order: IntArray  # (instances,) the tasks of the incumbent
    choice: IntArray  # (instances,) their devices, or ANY
    seen: IntArray  # (instances,) storage
    stack: IntArray  # (tasks,) storage
    first: IntArray  # (p,) the task that each device starts first, or NONE


def make_search(
    workload: Workload, sim: Sim, tasks: int, options: SearchOptions, *, seed: int
) -> IncumbentSearch:
    """Allocate a search over at most `tasks` tasks at a time."""
    tasks, p = min(tasks, len(sim.inst)), workload.cluster.p
    state = np.zeros(1, STATE)
    for name in state.dtype.names or ():
        state[name] = getattr(options, name, 0)
    state["planned_copies"] = options.copies and options.planned_copies
    state["window"] = tasks
    left = make_residual(
        workload, sim, tasks, options.futures, seed, sampled_jobs=options.sampled_jobs
    )
    return IncumbentSearch(
        state=state,
        left=left,
        chain=make_search_chain(
            len(left.instance), workload.jobs + options.sampled_jobs, p, options.futures
        ),
        order=np.zeros(len(sim.inst), np.int64),
        choice=np.full(len(sim.inst), ANY),
        seen=np.zeros(len(left.instance), np.int64),
        stack=np.zeros(len(left.instance), np.int64),
        first=np.full(p, NONE),
    )


def search_state(search: IncumbentSearch) -> dict[str, Any]:
    """Return the incumbent and the state of the random numbers."""
    kept = int(search.state["kept"][0])
    return {
        "order": search.order[:kept].tolist(),
        "choice": search.choice.copy(),
        "arrived": int(search.state["arrived"][0]),
        "gone": int(search.state["gone"][0]),
        "random": search.left.random.copy(),
    }


def resume_search(search: IncumbentSearch, state: dict[str, Any], numbers: Renumbering) -> None:
    """Go on from the state of a search."""
    kept = numbers.of(state["order"])
    stay = np.flatnonzero(numbers.instances >= 0)
    search.order[: len(kept)], search.state["kept"] = kept, len(kept)
    search.choice[: len(stay)] = state["choice"][stay]
    search.left.random[:] = state["random"]
    search.state["arrived"] = state["arrived"] - numbers.gone.sum()
    search.state["gone"] = state["gone"] + numbers.gone.sum()


@njit_noalloc
def search_from(sim: Sim, portfolio: Portfolio, search: IncumbentSearch, m: int) -> None:
    """Improve the better of plan `m` and the incumbent; fill in `search.first`."""
    state, left, chain = search.state[0], search.left, search.chain
    plan, makespan = plan_at(portfolio.stack, m), portfolio.state[0].makespan == 1
    for d in range(len(search.first)):
        search.first[d] = plan.device[d].first
    count, square, _, bias, _ = observed_spread(plan)
    spread = np.sqrt(max(square - bias, 0.0) / max(count, 1.0))
    futures = state.futures if spread > LEAST_SPREAD else 1
    if plan.state[0].planned < 2 or plan.state[0].planned * len(sim.device) > SEARCH_CELLS:
        return
    _weigh_occupancy(sim, plan, search, portfolio.state[0].arrived + state.gone)
    left.size[0].finish_weight, left.size[0].copies = state.finish_weight, state.planned_copies
    fill(sim, plan, left, state.window, futures, spread, makespan, state.sampled_jobs)
    if left.size[0].tasks < 2:
        return
    chain.figures[0].best = np.inf
    _start_from_plan(sim, plan, search, True)
    _start_from_plan(sim, plan, search, False)
    _start_from_incumbent(sim, search)
    if chain.figures[0].best == np.inf:  # a task has no device now
        return
    if state.job_moves == 1 and left.size[0].present > 1:
        _move_jobs(sim, search)
        _swap_jobs(sim, search)
    _take_best(search)
    begin_search(left, sim.grid, chain)
    if state.pinned == 1:
        for t in range(left.size[0].tasks):
            chain.choice[t] = chain.device[0, t]
        keep_best(left, chain)
    new_job = state.arrived != portfolio.state[0].arrived
    state.arrived = portfolio.state[0].arrived
    work = state.first_work if new_job else min(state.work, LARGE_WORK / _tasks_left(sim))
    anneal(left, sim.grid, chain, work, state.temperature)
    _take_best(search)
    begin_search(left, sim.grid, chain)
    _store(search)


@njit_inline
def _tasks_left(sim: Sim) -> int:
    left = 1
    for j in range(len(sim.job) - 1):
        left += sim.job[j].remaining if sim.job[j].state == JOB_HERE else 0
    return left


@njit_inline
def _weigh_occupancy(sim: Sim, plan: PlanState, search: IncumbentSearch, arrived: int) -> None:
    """Set the price of a second of each device; it is 0 until two jobs have arrived.

    The price stands for the jobs that will come.
    """
    left, p, weight = search.left, len(sim.device), search.state[0].occupancy
    for d in range(p):
        priced = plan.price[d] if plan.state[0].priced > 0 else 1.0
        left.price[d] = weight * priced / p if arrived > 1 else 0.0


@njit_inline
def _start_from_plan(sim: Sim, plan: PlanState, search: IncumbentSearch, pinned: bool) -> None:
    """Try the order of a plan, with its devices or with those of the earliest finish."""
    left, chain = search.left, search.chain
    for t in range(left.size[0].tasks):
        chain.order[t] = t
        device = plan.inst[left.instance[t]].device if pinned and left.base[t] == NONE else ANY
        chain.choice[t] = device if device >= 0 and left.seconds[t, device] < np.inf else ANY
    if begin_search(left, sim.grid, chain) < chain.figures[0].best:
        keep_best(left, chain)


@njit_noalloc
def _start_from_incumbent(sim: Sim, search: IncumbentSearch) -> None:
    """Try the incumbent, without the tasks that were committed.

    New tasks go in front, those of sampled jobs behind.
    """
    left, chain, n = search.left, search.chain, search.left.size[0].real
    for t in range(n):
        search.seen[t] = 0
    for at in range(search.state[0].kept):
        t = left.number[search.order[at]]
        if t != NONE:
            search.seen[t] = 1
    count = 0
    for t in range(n):
        if search.seen[t] == 0:
            search.choice[left.instance[t]] = ANY
            search.stack[count] = t
            count += 1
    if count == n:
        return
    for at in range(search.state[0].kept):
        t = left.number[search.order[at]]
        if t != NONE:
            search.stack[count] = t
            count += 1
    for t in range(n, left.size[0].tasks):
        search.stack[t] = t
    _order_parents_first(search)
    for t in range(left.size[0].tasks):
        d = search.choice[left.instance[t]] if t < n else ANY
        chain.choice[t] = d if d >= 0 and left.seconds[t, d] < np.inf else ANY
    if begin_search(left, sim.grid, chain) < chain.figures[0].best:
        keep_best(left, chain)


@njit_noalloc
def _move_jobs(sim: Sim, search: IncumbentSearch) -> None:
    """Try each job ahead of all others, on its devices or any, and behind them.

    Jobs have no edges between them, so parents stay ahead of their children. Single tasks would
    have to pass the tasks of another job one by one, and each step alone makes the plan worse. The
    trials end after `JOB_WORK` placements.
    """
    left, chain, n = search.left, search.chain, search.left.size[0].tasks
    most = chain.figures[0].work + JOB_WORK
    for job in range(left.size[0].present):
        for way in range(3 if chain.figures[0].work < most else 0):
            placed = 0
            for turn in range(2):
                first = turn == (1 if way == 2 else 0)
                for at in range(n):
                    t = chain.best_order[at]
                    if (left.job[t] == job) == first:
                        chain.order[placed] = t
                        placed += 1
            for t in range(n):
                free = way == 1 and left.job[t] == job
                chain.choice[t] = ANY if free else chain.best_choice[t]
            if begin_search(left, sim.grid, chain) < chain.figures[0].best:
                keep_best(left, chain)


@njit_noalloc
def _swap_jobs(sim: Sim, search: IncumbentSearch) -> None:
    """Try each job ahead of each other one, on their devices or any.

    The tasks of the two jobs share the places that both had in the order; tasks of other jobs stay.
    The trials end after `JOB_WORK` placements.
    """
    left, chain, n = search.left, search.chain, search.left.size[0].tasks
    most, jobs = chain.figures[0].work + JOB_WORK, left.size[0].present
    for pair in range(jobs * jobs):
        ahead, behind = pair // jobs, pair % jobs
        for way in range(2 if ahead != behind and chain.figures[0].work < most else 0):
            if not put_ahead(search, ahead, behind):
                continue
            for t in range(n):
                free = way == 1 and left.job[t] in (ahead, behind)
                chain.choice[t] = ANY if free else chain.best_choice[t]
            if begin_search(left, sim.grid, chain) < chain.figures[0].best:
                keep_best(left, chain)


@njit_noalloc
def put_ahead(search: IncumbentSearch, ahead: int, behind: int) -> bool:
    """Fill in the best order with a job ahead of another; return whether it differs."""
    left, chain, n = search.left, search.chain, search.left.size[0].tasks
    job, source, differs = ahead, 0, False
    for at in range(n):
        t = chain.best_order[at]
        if left.job[t] in (ahead, behind):
            while left.job[chain.best_order[source]] != job:
                source += 1
                if source == n:
                    source, job = 0, behind
            t = chain.best_order[source]
            source += 1
            if source == n:
                source, job = 0, behind
        differs = differs or chain.best_order[at] != t
        chain.order[at] = t
    return differs


@njit_noalloc
def _order_parents_first(search: IncumbentSearch) -> None:
    """Fill in the order from `stack`, with each task moved behind its parents."""
    left, chain, n = search.left, search.chain, search.left.size[0].tasks
    for t in range(n):
        search.seen[t] = 0
    placed = 0
    for at in range(n):
        t = search.stack[at]
        while search.seen[search.stack[at]] == 0:
            waits = NONE
            for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
                if search.seen[left.pred[e]] == 0:
                    waits = left.pred[e]
                    break
            if waits != NONE:
                t = waits
            else:
                chain.order[placed], search.seen[t] = t, 1
                placed += 1
                t = search.stack[at]


@njit_inline
def _take_best(search: IncumbentSearch) -> None:
    chain = search.chain
    for t in range(search.left.size[0].tasks):
        chain.order[t], chain.choice[t] = chain.best_order[t], chain.best_choice[t]


@njit_inline
def _store(search: IncumbentSearch) -> None:
    """Keep the plan as the incumbent; fill in the first task of each device."""
    left, chain, state = search.left, search.chain, search.state[0]
    state.kept = 0
    for d in range(len(search.first)):
        search.first[d] = NONE
    for at in range(left.size[0].tasks):
        t = chain.order[at]
        if left.base[t] != NONE:
            continue
        i, d = left.instance[t], chain.device[0, t]
        search.order[state.kept], search.choice[i] = i, chain.choice[t]
        state.kept += 1
        other = search.first[d]
        if other == NONE or chain.start[0, t] < chain.start[0, left.number[other]]:
            search.first[d] = i


@njit_noalloc
def run_by_search(sim: Sim, portfolio: Portfolio, search: IncumbentSearch) -> int:
    """Simulate to the end; return ENDED or STUCK."""
    while True:
        answer = advance_to_decision(sim, portfolio)
        if answer != MOMENT:
            return answer
        search_from(sim, portfolio, search, replan(sim, portfolio))
        for d in range(len(sim.device)):
            i = search.first[d]
            if i >= 0 and sim.inst[i].status == READY and is_idle(sim, d):
                commit_choice(sim, i, d)
