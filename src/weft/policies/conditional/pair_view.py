"""The network over pairs, decided by a `View` in one compiled call per decision.

`read_view` fills in the same numbers as `pair_network.read_simulation`; a test compares them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.errors import Unsupported
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers, offsets
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.networks import Network
from weft.policies.conditional.pair_network import (
    SOON,
    PairPolicy,
    PairState,
    choose_pairs,
    make_pair_state,
)
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.conditional.view_policy import chosen_kinds
from weft.policies.rules import task_kinds
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import RecordTable
from weft.sim.renumbering import Renumbering
from weft.sim.vector.state import CHANCE
from weft.sim.vector.step import chance_of
from weft.sim.view import View


class TaskTables(NamedTuple):
    """The tasks of all problems of a workload, numbered through, with estimates."""

    task: IntArray  # (instances,)
    job: IntArray  # (instances,)
    problem: IntArray  # (tasks,)
    kind: IntArray  # (tasks,)
    seconds: FloatArray  # (tasks, units)
    order: IntArray  # (tasks,) topological
    first: BoolArray  # (tasks,) whether it has no parents
    succ: IntArray  # (tasks + 1,)
    target: IntArray  # (edges,)
    chance: RecordTable  # (edges,)
    estimate: FloatArray  # of branches
    visit: FloatArray  # (tasks,) how often a job runs it
    remaining: FloatArray  # (tasks,) expected seconds to the end of the job
    gone: IntArray  # (problems,) jobs that arrived and left the workload
    rate: FloatArray  # (problems,) arrivals per second
    members: IntArray  # (units, largest batch) instances of the last batches, -1 behind them


class SeenUnits(NamedTuple):
    """The columns of a view that a decision reads."""

    ready: IntArray
    idle: BoolArray
    free_at: FloatArray
    running: IntArray
    arrival: FloatArray
    deadline: FloatArray
    priority: FloatArray
    template: IntArray


class PairNetworkPolicy(NetworkPolicy):
    """A network over pairs, for any workload, that estimates all choices."""

    def __init__(self, learned: TrainedNetwork, *, tick: float = 1.0) -> None:
        super().__init__(learned, tick=tick)
        self.stepwise = PairPolicy(learned.network, learned.name)

    def act(
        self, observation: Numbers, mask: BoolArray, remaining: IntArray, capacity: IntArray
    ) -> IntArray:
        """Refuse: this policy reads pairs of unit and kind, not one observation."""
        raise Unsupported(f"policy '{self.name}' reads no single observation; use decide")

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Reset all estimates."""
        super().begin(workload, seed=seed)
        self._pairs = make_pair_state(workload)
        self._actions = np.zeros(workload.cluster.p, np.int64)
        self._tables = _task_tables(workload, self._job, self._estimate, self._slots())

    def state(self) -> dict[str, Any]:
        """Return also how many jobs of each problem left."""
        return {**super().state(), "gone": self._tables.gone.tolist()}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        known = len(state["gone"])
        self._tables.gone[:known] = state["gone"] + numbers.gone[:known]

    def _choose(self, view: View) -> list[tuple[int, int]]:
        self._learn_outcomes(view)
        if not view.idle.any():
            return []
        for d in np.flatnonzero(view.running >= 0).tolist():
            row, members = self._tables.members[d], self._members[d]
            row[: len(members)], row[len(members) :] = members, -1
        w = view.workload
        columns = (w.arrival, w.deadline, w.priority, w.template)
        seen = SeenUnits(view.ready, view.idle, view.free_at, view.running, *columns)
        jobs, pairs = len(view.jobs), self._pairs
        if view.setup is not None:
            pairs.setup[:] = view.setup
        choose_by_view(
            pairs, self._tables, seen, view.now, self._typical, jobs,
            self.network, self._space, self._actions,
        )  # fmt: skip
        return chosen_kinds(view, self._actions)

    def _slots(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return, by (problem, choice), its branches and its first estimate."""
        return {(p, choice): (branches, slot) for p, _, choice, branches, slot in self._watched}

    def _watched_names(self) -> None:
        return None

    def _check_fits(self, workload: Workload) -> None:
        """Accept any workload."""


def _task_tables(
    workload: Workload,
    job: IntArray,
    estimate: FloatArray,
    slots: dict[tuple[int, int], tuple[int, int]],
) -> TaskTables:
    flows = [problem.workflow for problem in workload.problems]
    first_task, first_edge = offsets([w.n for w in flows]), offsets([w.m for w in flows])
    tasks, units = int(first_task[-1]), workload.cluster.p
    within = np.arange(len(job)) - workload.first_instance[job]
    chance = np.zeros(int(first_edge[-1]), CHANCE)
    for p, w in enumerate(flows):
        for e in range(w.m):
            choice, branch = int(w.choices.edge_choice[e]), int(w.choices.edge_branch[e])
            branches, slot = slots[p, choice] if choice >= 0 else (0, -1)
            last = choice >= 0 and branch == branches - 1
            at = -1 if choice < 0 else -2 if last else slot + branch
            chance[first_edge[p] + e] = 1.0, at, slot, slot + branches - 1
    return TaskTables(
        task=first_task[workload.template[job]] + within,
        job=job,
        problem=np.repeat(np.arange(len(flows)), [w.n for w in flows]),
        kind=_joined(task_kinds(workload)),
        seconds=np.concatenate(
            [np.zeros((0, units)), *(problem.durations() for problem in workload.problems)]
        ),
        order=_joined([first + w.order for first, w in zip(first_task, flows, strict=False)]),
        first=np.concatenate([np.zeros(0, bool), *(np.diff(w.pred_ptr) == 0 for w in flows)]),
        succ=np.append(
            _joined([b + w.succ_ptr[:-1] for b, w in zip(first_edge, flows, strict=False)]),
            first_edge[-1],
        ),
        target=_joined([first + w.dst for first, w in zip(first_task, flows, strict=False)]),
        chance=chance,
        estimate=estimate,
        visit=np.zeros(tasks),
        remaining=np.zeros(tasks),
        gone=np.zeros(len(flows), np.int64),
        rate=np.zeros(len(flows)),
        members=np.full((units, int(workload.batch_limit.max(initial=1))), -1),
    )


def _joined(columns: list[Any]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *columns]).astype(np.int64)


@njit_noalloc
def choose_by_view(
    pairs: PairState,
    tables: TaskTables,
    seen: SeenUnits,
    now: float,
    span: float,
    jobs: int,
    network: Network,
    space: Numbers,
    actions: IntArray,
) -> None:
    """Choose a kind, or the number of kinds to wait, for each unit."""
    _look_ahead(tables)
    _read_queues(pairs, tables, seen, now)
    _read_units(pairs, tables, seen, now, span)
    arrived = _read_arrivals(pairs, tables, seen, now)
    busy = False  # runs a task, or waits for its data
    for d in range(len(seen.idle)):
        busy = busy or (not seen.idle[d] and seen.free_at[d] < np.inf)
    pairs.context[0].span, pairs.context[0].jobs = span, jobs
    pairs.context[0].may_wait = 1 if busy or arrived < len(seen.arrival) else 0
    choose_pairs(pairs, network, space, actions)


@njit_inline
def _chance(tables: TaskTables, edge: int) -> float:
    return chance_of(tables, edge)  # type: ignore[arg-type]  # it has the columns that are read


@njit_inline
def _look_ahead(tables: TaskTables) -> None:
    """Update the expected time to the end of the job, and runs of each task per job."""
    for t in range(len(tables.order)):
        tables.visit[t] = 1.0 if tables.first[t] else 0.0
    for at in range(len(tables.order)):
        t = tables.order[at]
        for e in range(tables.succ[t], tables.succ[t + 1]):
            v = tables.target[e]
            taken = tables.visit[t] * _chance(tables, e)
            tables.visit[v] = 1.0 - (1.0 - tables.visit[v]) * (1.0 - taken)
    for at in range(len(tables.order) - 1, -1, -1):
        t = tables.order[at]
        total = np.inf
        for d in range(tables.seconds.shape[1]):
            total = min(total, tables.seconds[t, d])
        for e in range(tables.succ[t], tables.succ[t + 1]):
            total += _chance(tables, e) * tables.remaining[tables.target[e]]
        tables.remaining[t] = total


@njit_inline
def _read_queues(pairs: PairState, tables: TaskTables, seen: SeenUnits, now: float) -> None:
    """Fill in queues, ages and durations; ready instances are in order of their jobs."""
    for k in range(len(pairs.left)):
        pairs.left[k], pairs.age[k], pairs.remaining[k] = 0, 0.0, 0.0
        for d in range(len(seen.idle)):
            pairs.duration[k, d] = np.inf
    for at in range(len(seen.ready)):
        i = seen.ready[at]
        t = tables.task[i]
        k = tables.kind[t]
        if pairs.left[k] == 0:
            pairs.age[k] = now - seen.arrival[tables.job[i]]
            pairs.left_time[k] = seen.deadline[tables.job[i]] - now
            pairs.priority[k] = seen.priority[tables.job[i]]
            pairs.remaining[k] = tables.remaining[t]
        for d in range(len(seen.idle)):
            if pairs.duration[k, d] == np.inf:
                pairs.duration[k, d] = tables.seconds[t, d]
        pairs.left[k] += 1


@njit_inline
def _read_units(
    pairs: PairState, tables: TaskTables, seen: SeenUnits, now: float, span: float
) -> None:
    """Fill in units, and the tasks that become ready soon."""
    for k in range(len(pairs.coming)):
        pairs.coming[k] = 0.0
    for d in range(len(seen.idle)):
        pairs.idle[d] = seen.idle[d]
        pairs.busy[d] = max(seen.free_at[d] - now, 0.0)
        pairs.running[d] = -1
        if seen.running[d] < 0:
            continue
        pairs.running[d] = tables.kind[tables.task[seen.running[d]]]
        if pairs.busy[d] > SOON * span:
            continue
        for at in range(tables.members.shape[1]):
            i = tables.members[d, at]
            if i < 0:
                break
            t = tables.task[i]
            for e in range(tables.succ[t], tables.succ[t + 1]):
                pairs.coming[tables.kind[tables.target[e]]] += _chance(tables, e)


@njit_inline
def _read_arrivals(pairs: PairState, tables: TaskTables, seen: SeenUnits, now: float) -> int:
    """Fill in the tasks expected per time; return the number of arrived jobs."""
    for p in range(len(tables.rate)):
        tables.rate[p] = tables.gone[p]
    arrived = 0
    while arrived < len(seen.arrival) and seen.arrival[arrived] <= now:
        tables.rate[seen.template[arrived]] += 1.0
        arrived += 1
    for k in range(len(pairs.flow)):
        pairs.flow[k] = 0.0
    for t in range(len(tables.visit)):
        rate = tables.rate[tables.problem[t]] / now if now > 0 else 0.0
        pairs.flow[tables.kind[t]] += tables.visit[t] * rate
    return arrived
