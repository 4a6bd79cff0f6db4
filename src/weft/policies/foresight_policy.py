"""Policies that plan everything in sight at every event: HEFT planned anew, its hand-made relatives, and any weights of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.model import Scenario, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.foresight import WEIGHTS, Desk, best_plan, live_by_best_plan, live_by_plan, plan_in_sight, rank_tasks
from weft.policies.policy import POLICIES
from weft.registry import closest
from weft.sim.ranks import mean_transfer
from weft.sim.tables import COMMITTED, DONE, JOB_ENDED, JOB_HERE, READY, WAITING, Sim, make_sim
from weft.sim.view import Decision, View

FAR = 2**31
"""Tasks planned at most, where there is no limit."""


def weights_of(given: Mapping[str, float]) -> FloatArray:
    """Return the array of named weights; those not named are 0, except that of the rank, which is 1.

    Examples
    --------
    >>> weights_of({"ahead": 0.5}).nonzero()[0].tolist() == [WEIGHTS.index("rank"), WEIGHTS.index("ahead")]
    True
    """
    weights = np.zeros(len(WEIGHTS))
    weights[WEIGHTS.index("rank")] = 1.0
    for name, value in given.items():
        if name not in WEIGHTS:
            raise UnknownName(f"unknown weight '{name}'{closest(name, WEIGHTS)}")
        if not np.isfinite(value):
            raise InvalidInput(f"weight '{name}' is {value}; it must be a finite number")
        weights[WEIGHTS.index(name)] = value
    return weights


def make_desk(workload: Workload, sim: Sim, weights: FloatArray, most: int) -> Desk:
    """Lay out what planning in sight needs for a simulation of this workload."""
    cluster, tasks, instances, jobs = workload.cluster, len(sim.task) - 1, len(sim.inst), workload.jobs
    p, kinds = cluster.p, len(sim.kind)
    names = list(dict.fromkeys(cluster.kinds))
    starts = np.concatenate(([0], np.cumsum([problem.n for problem in workload.problems]))).astype(np.int64)
    slots = min(most, instances) + 1
    power = np.asarray(cluster.power, float)
    desk = Desk(
        rank=np.zeros(tasks),
        ahead=np.zeros((tasks, p)),
        least=np.zeros(tasks),
        mean=np.zeros(tasks),
        order=np.zeros(instances, np.int64),
        cursor=np.zeros(jobs, np.int64),
        job=np.zeros((jobs, 4)),
        device=np.full(instances, -1, np.int64),
        start=np.full(instances, np.nan),
        finish=np.full(instances, np.nan),
        begins=np.zeros((p, slots)),
        ends=np.zeros((p, slots)),
        used=np.zeros(p, np.int64),
        first=np.full(p, -1, np.int64),
        free=np.zeros(p),
        busy=np.full(p, -1, np.int64),
        began=np.full(p, np.nan),
        power=power / power.mean() if power.sum() > 0 else np.ones(p),
        alike=np.array([names.index(kind) for kind in cluster.kinds], np.int64),
        seen=np.zeros((kinds, p, 2)),
        factor=np.ones((kinds, p)),
        heads=np.zeros((jobs, 2), np.int64),
        note=np.zeros(1, np.int64),
    )
    topological = np.concatenate([problem.workflow.order + at for problem, at in zip(workload.problems, starts, strict=False)])
    rank_tasks(sim, topological.astype(np.int64), desk, *mean_transfer(workload.problems[0]), weights)
    place = np.argsort(topological)
    # By rank, the highest first; equal ranks in topological order (a task without work ties with its child).
    spans = [(int(a), int(b)) for a, b in pairwise(starts)]
    orders = [np.lexsort((place[a:b], -desk.rank[a:b])) for a, b in spans]
    total = np.array([desk.mean[a:b].sum() for a, b in spans])
    for j, t in enumerate(workload.template.tolist()):
        first = int(workload.first_instance[j])
        desk.order[first : first + len(orders[t])] = first + orders[t]
    desk.job[:, 0], desk.job[:, 1], desk.job[:, 2] = workload.deadline, workload.priority, total[workload.template]
    return desk


class Foresight:
    """At every event, plan all tasks in sight by the weights, and start what the plan starts now.

    Parameters
    ----------
    name : what it is called
    weights : named in `weft.policies.foresight.WEIGHTS`; without any it is HEFT planned anew at every event
    most : how many tasks are planned, at most

    Examples
    --------
    >>> from weft.model import Problem
    >>> from weft.policies import simulate
    >>> problem = Problem.from_arrays([[3.0, 2.0], [1.0, 1.0], [1.0, 1.0]], [[0, 2]], [0.0])
    >>> simulate(problem, Foresight("mine", {"ahead": 1.0})).makespan
    3.0
    """

    def __init__(self, name: str, weights: Mapping[str, float], *, most: int = FAR) -> None:
        self.name, self.most = name, most
        self.weights = weights_of(weights)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Forget what was planned; workflows with choices are refused."""
        for problem in workload.problems:
            if problem.workflow.conditional:
                raise Unsupported(f"policy '{self.name}' does not plan workflow '{problem.name}': it has choices; try 'rank-first'")
        self._workload = workload
        self._mirror: Mirror | None = None
        self._next: list[Decision] = []
        self._moment: object = None

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation, compiled."""
        return live_by_plan(sim, self._desks(sim)[0], self.weights, self.most)

    def _desks(self, sim: Sim) -> tuple[Desk, ...]:
        return (make_desk(self._workload, sim, self.weights, self.most),)

    def decide(self, view: View) -> Decision | None:
        """Plan once a moment in which a device is idle; then hand out what the plan starts now."""
        if not view.idle.any():
            return None
        if self._mirror is None:
            sim = make_sim(self._workload, Scenario.of(self._workload), None, eager=view.eager)
            self._mirror = Mirror(sim, self._desks(sim))
        if self._moment != self._mirror.moment(view):
            self._moment = self._mirror.moment(view)
            self._mirror.look(view)
            self._next = self._choose(self._mirror, view)
        if not self._next:
            return None
        decision = self._next.pop(0)
        self._mirror.commit(decision)
        return decision

    def _choose(self, mirror: Mirror, view: View) -> list[Decision]:
        """What the plan starts now."""
        plan_in_sight(mirror.sim, mirror.desk, self.weights, self.most)
        return startable(mirror, mirror.desk.first, view)


class Portfolio(Foresight):
    """At every event, plan with each of several sets of weights, and start what the plan starts now that ends the jobs present the soonest.

    Examples
    --------
    >>> from weft.model import Problem
    >>> from weft.policies import simulate
    >>> problem = Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0])
    >>> simulate(problem, Portfolio("both", [{}, {"ahead": 1.0}])).makespan
    6.0
    """

    def __init__(self, name: str, weights: Sequence[Mapping[str, float]], *, most: int = FAR) -> None:
        if not weights:
            raise InvalidInput(f"policy '{name}' has no weights; give at least one set")
        super().__init__(name, weights[0], most=most)
        self.sets = tuple(weights_of(given) for given in weights)

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation, compiled."""
        return live_by_best_plan(sim, self._desks(sim), self.sets, self.most)

    def _desks(self, sim: Sim) -> tuple[Desk, ...]:
        return tuple(make_desk(self._workload, sim, weights, self.most) for weights in self.sets)

    def _choose(self, mirror: Mirror, view: View) -> list[Decision]:
        first = mirror.desks[best_plan(mirror.sim, mirror.desks, self.sets, self.most)].first
        return startable(mirror, first, view)


def startable(mirror: Mirror, first: IntArray, view: View) -> list[Decision]:
    """Of the first planned task of each device, those that can start now."""
    status = mirror.sim.inst["status"]
    return [Decision(i, d) for d, i in enumerate(first.tolist()) if i >= 0 and view.idle[d] and status[i] == READY]


class Mirror:
    """A simulation that is made to look like a view, so that compiled code which reads simulations can decide for real runs too."""

    def __init__(self, sim: Sim, desks: tuple[Desk, ...]) -> None:
        self.sim, self.desks, self.desk = sim, desks, desks[0]
        self._waits: list[int] = [-1] * len(sim.device)
        self._committed: BoolArray = np.zeros(len(sim.inst), bool)
        self._learned: BoolArray = np.zeros(len(sim.inst), bool)

    def moment(self, view: View) -> object:
        """Equal for two views exactly when nothing but our own decisions lies between them."""
        ended = int(np.count_nonzero(~np.isnan(view.finished_at)))
        ready = int(np.count_nonzero(self._committed)) - ended + len(view.ready)
        return view.now, ended, ready, view.pace.tobytes(), len(view.jobs)

    def commit(self, decision: Decision) -> None:
        """Remember what was handed out."""
        self._committed[decision.instance] = True
        self._waits[decision.device] = decision.instance

    def look(self, view: View) -> None:
        """Take over what the view shows."""
        sim, done = self.sim, ~np.isnan(view.finished_at)
        self._committed[view.ready] = False  # lost with a failed device
        self._committed |= done
        status = np.where(done, DONE, np.where(self._committed, COMMITTED, WAITING))
        status[view.ready] = READY
        sim.inst["status"], sim.inst["ran_on"], sim.inst["done_at"] = status, view.ran_on, view.finished_at
        sim.device["pace"], sim.world["now"] = view.pace, view.now
        self._look_at_jobs(view, done)
        self._look_at_ends(view, done)
        waits = [i if i >= 0 and status[i] == COMMITTED else -1 for i in self._waits]
        for desk in self.desks:
            desk.free[:], desk.busy[:] = view.free_at, np.where(view.running >= 0, view.running, waits)
            desk.began[:] = np.where(view.running >= 0, view.started_at[view.running], np.nan)

    def _look_at_jobs(self, view: View, done: BoolArray) -> None:
        job = self.sim.job
        left = np.add.reduceat((~done).astype(np.int64), job["first"][:-1]) if len(done) else np.zeros(len(job) - 1, np.int64)
        job["remaining"][:-1] = np.where(np.diff(job["first"]) > 0, left, 0)
        job["state"][:-1] = np.where(job["state"][:-1] == JOB_HERE, JOB_ENDED, job["state"][:-1])
        job["state"][view.jobs] = JOB_HERE

    def _look_at_ends(self, view: View, done: BoolArray) -> None:
        """Add what has ended to the executions, in the order the kernel would have."""
        new: IntArray = np.flatnonzero(done & ~self._learned)
        new = new[np.lexsort((view.ran_on[new], view.finished_at[new]))]
        self._learned[new] = True
        at = int(self.sim.world["executions"][0])
        rows = self.sim.execution[at : at + len(new)]
        rows["instance"], rows["device"], rows["status"] = new, view.ran_on[new], 0
        rows["start"], rows["finish"] = view.started_at[new], view.finished_at[new]
        self.sim.world["executions"] = at + len(new)


@POLICIES.register("heft-replanned")
def heft_replanned() -> Foresight:
    """HEFT planned anew at every event, from the estimates and the present pace of each device."""
    return Foresight("heft-replanned", {})


@POLICIES.register("heft-observed")
def heft_observed() -> Foresight:
    """HEFT planned anew at every event, estimates corrected by the durations observed so far."""
    return Foresight("heft-observed", {"trust": 1.0})


@POLICIES.register("heft-arrival")
def heft_arrival() -> Foresight:
    """HEFT planned anew at every event, job by job in order of arrival."""
    return Foresight("heft-arrival", {"age": 1e6})


@POLICIES.register("srw-replanned")
def srw_replanned() -> Foresight:
    """The job with the shortest remaining work first, by rank within it, planned anew at every event."""
    return Foresight("srw-replanned", {"work": 1.0, "rank": 1e-3})
