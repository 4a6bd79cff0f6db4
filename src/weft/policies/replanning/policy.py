"""Policies that plan everything in sight at every event: HEFT planned anew, its hand-made relatives, and any weights of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.model import Scenario, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.policies.replanning.placement import KEYS, RANK, WEIGHTS
from weft.policies.replanning.portfolio import (
    AIMS,
    FAR,
    SIGHT,
    Plans,
    live_by_plans,
    make_plans,
    plan_anew,
)
from weft.registry import closest
from weft.sim.kernel.tables import (
    CANCELLED,
    COMMITTED,
    DONE,
    JOB_AHEAD,
    JOB_ENDED,
    JOB_HERE,
    READY,
    WAITING,
    Sim,
    make_sim,
)
from weft.sim.view import Decision, View


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


def _known_aim(aim: str) -> str:
    if aim not in AIMS:
        raise UnknownName(f"unknown aim '{aim}'{closest(aim, AIMS)}")
    return aim


def _by_rank_alone(weights: FloatArray) -> FloatArray:
    changed = weights.copy()
    changed[list(KEYS)] = 0.0
    changed[RANK] = 1.0
    return changed


class ReplanningPolicy:
    """At every event, plan all tasks in sight by the weights, and start what the plan starts now.

    Parameters
    ----------
    name : what it is called
    weights : named in `weft.policies.replanning.placement.WEIGHTS`; without any it is HEFT planned anew at every event. Of several sets, the one is
        followed whose plan promises the earliest completion of the jobs present; see `weft.policies.replanning.portfolio`.
    most : how many tasks are planned on 16 devices, at most; on fewer devices as many more
    challengers : how many other sets are tried at every event
    aim : "completion" of jobs, on average, or the "makespan" of all; then jobs have no keys, and tasks go by rank alone
    homes : whether there are plans, by the first set of weights, in which every job stays on a node (if there are several), or on a device

    Examples
    --------
    >>> from weft.model import Problem
    >>> from weft.policies import simulate
    >>> problem = Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0])
    >>> [simulate(problem, ReplanningPolicy("mine", weights)).makespan for weights in ({}, {"ahead": 1.0}, [{}, {"ahead": 1.0}])]
    [13.0, 6.0, 6.0]
    """

    def __init__(
        self,
        name: str,
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        most: int = FAR,
        challengers: int = 1,
        aim: str = "completion",
        homes: bool = False,
    ) -> None:
        given = [weights] if isinstance(weights, Mapping) else weights
        if not given:
            raise InvalidInput(f"policy '{name}' has no weights; give at least one set")
        if challengers < 0:
            raise InvalidInput(
                f"policy '{name}': challengers is {challengers}; it must be 0 or more"
            )
        self.name, self.most, self.challengers, self.homes = name, most, challengers, homes
        self.sets = tuple(weights_of(each) for each in given)
        self.aim = _known_aim(aim)
        self.moves = (0, 0)

    def aimed_at(self, aim: str) -> Self:
        """The same policy with another aim."""
        other = copy(self)
        other.aim = _known_aim(aim)
        return other

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Forget what was planned; workflows with choices are refused."""
        for problem in workload.problems:
            if problem.workflow.conditional:
                raise Unsupported(
                    f"policy '{self.name}' does not plan workflow '{problem.name}': it has choices; try 'rank-first'"
                )
        self._workload = workload
        self._mirror: Mirror | None = None
        self._next: list[Decision] = []
        self._moment: object = None

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation, compiled."""
        return self.live_by(sim, self.plans(sim))

    def live_by(self, sim: Sim, plans: Plans) -> int:
        """Do so with plans that have been laid out."""
        return live_by_plans(sim, plans)

    def plans(self, sim: Sim) -> Plans:
        """Lay out the plans of a simulation: what is worked out once for a workload."""
        sets = (
            self.sets
            if self.aim == "completion"
            else [_by_rank_alone(weights) for weights in self.sets]
        )
        return make_plans(
            self._workload,
            sim,
            sets,
            most=self.most,
            challengers=self.challengers,
            aim=self.aim,
            moves=self.moves,
            homes=self.homes,
        )

    def decide(self, view: View) -> Decision | None:
        """Plan once a moment in which a device is idle; then hand out what the plan starts now."""
        if not view.idle.any():
            return None
        if self._mirror is None:
            sim = make_sim(self._workload, Scenario.of(self._workload), None, eager=view.eager)
            self._mirror = Mirror(sim, self.plans(sim))
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
        """What the plan starts now: of the first planned task of each device, those that can start."""
        first, status = (
            mirror.plans.stack.first[plan_anew(mirror.sim, mirror.plans)],
            mirror.sim.inst["status"],
        )
        return [
            Decision(i, d)
            for d, i in enumerate(first.tolist())
            if i >= 0 and view.idle[d] and status[i] == READY
        ]


class Mirror:
    """A simulation that is made to look like a view, so that compiled code which reads simulations can decide for real runs too."""

    def __init__(self, sim: Sim, plans: Plans) -> None:
        self.sim, self.plans = sim, plans
        self._waits: list[int] = [-1] * len(sim.device)
        self._committed: BoolArray = np.zeros(len(sim.inst), bool)
        self._learned: BoolArray = np.zeros(len(sim.inst), bool)

    def moment(self, view: View) -> object:
        """Equal for two views exactly when nothing but our own decisions lies between them."""
        ended = int(np.count_nonzero(~np.isnan(view.finished_at)))
        held = int(np.count_nonzero(self._committed)) - int(
            np.count_nonzero(self._committed[view.ready])
        )  # less what was lost
        return view.now, ended, held - ended + len(view.ready), view.pace.tobytes(), len(view.jobs)

    def commit(self, decision: Decision) -> None:
        """Remember what was handed out."""
        self._committed[decision.instance] = True
        self._waits[decision.device] = decision.instance

    def look(self, view: View) -> None:
        """Take over what the view shows."""
        sim, done = self.sim, ~np.isnan(view.finished_at)
        self._committed[view.ready] = False  # lost with a failed device
        self._committed |= done
        self._look_at_jobs(view, done)
        status = np.where(done, DONE, np.where(self._committed, COMMITTED, WAITING))
        status[view.ready] = READY
        status[(sim.job["state"][sim.inst["job"]] == JOB_ENDED) & ~done] = CANCELLED
        sim.inst["status"], sim.inst["ran_on"], sim.inst["done_at"] = (
            status,
            view.ran_on,
            view.finished_at,
        )
        sim.device["pace"], sim.world["now"], sim.world["ready"] = (
            view.pace,
            view.now,
            len(view.ready),
        )
        self._look_at_ends(view, done)
        self._waits = [
            i if i >= 0 and status[i] == COMMITTED else -1 for i in self._waits
        ]  # what was lost may wait elsewhere by now
        stack = self.plans.stack
        stack.free[:], stack.busy[:] = (
            view.free_at,
            np.where(view.running >= 0, view.running, self._waits),
        )
        stack.began[:] = np.where(view.running >= 0, view.started_at[view.running], np.nan)

    def _look_at_jobs(self, view: View, done: BoolArray) -> None:
        """Jobs that have come and are not here any more have ended, one way or another; those without tasks at once."""
        job = self.sim.job
        job["remaining"][:-1] = np.bincount(self.sim.inst["job"][~done], minlength=len(job) - 1)
        job["state"][:-1] = np.where(job["arrival"][:-1] <= view.now, JOB_ENDED, JOB_AHEAD)
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


@POLICIES.register("heft-replanned", family="replanning")
def heft_replanned() -> ReplanningPolicy:
    """HEFT planned anew at every event, from the estimates and the present pace of each device."""
    return ReplanningPolicy("heft-replanned", {})


@POLICIES.register("heft-observed", family="replanning")
def heft_observed() -> ReplanningPolicy:
    """HEFT planned anew at every event, estimates corrected by the durations observed so far."""
    return ReplanningPolicy("heft-observed", {"trust": 1.0})


@POLICIES.register("heft-affinity", family="replanning")
def heft_homes() -> ReplanningPolicy:
    """HEFT planned anew at every event, on all devices or with every job on a node or on a device, whichever promises more.

    While more tasks wait than are in sight it is plain HEFT.
    """
    return ReplanningPolicy("heft-affinity", {}, most=SIGHT, homes=True)


@POLICIES.register("heft-arrival", family="replanning")
def heft_arrival() -> ReplanningPolicy:
    """HEFT planned anew at every event, job by job in order of arrival."""
    return ReplanningPolicy("heft-arrival", {"age": 1e6})


@POLICIES.register("srpt-affinity", family="replanning")
def srw_homes() -> ReplanningPolicy:
    """The job with the shortest remaining work first, on all devices or with every job on a node or on a device; see `heft-affinity`."""
    return ReplanningPolicy("srpt-affinity", {"work": 1.0, "rank": 1e-3}, most=SIGHT, homes=True)


@POLICIES.register("srpt-replanned", family="replanning")
def srw_replanned() -> ReplanningPolicy:
    """The job with the shortest remaining work first, by rank within it, planned anew at every event."""
    return ReplanningPolicy("srpt-replanned", {"work": 1.0, "rank": 1e-3})
