"""HEFT as a static plan per job, made when the job arrives.

Topcuoglu, Hariri and Wu (2002): tasks by upward rank, each on the device that finishes it first, in
the earliest gap. The plan starts when the devices are free of committed and planned tasks. For HEFT
planned at every event see `policies/replanning/policy.py`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from weft.model import Scenario, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.policies.replanning.placement import place_task
from weft.policies.replanning.portfolio import UNLIMITED
from weft.policies.replanning.state import PlanState, make_plan
from weft.policies.replanning.weights import weights_of
from weft.policies.rules import per_instance
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.ranks import upward_rank
from weft.sim.kernel.sim_from_view import refuse_choices
from weft.sim.kernel.tables import Sim, make_sim
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View
from weft.typed import typed_class


@typed_class
class StaticHeft:
    """HEFT as a static plan per job, behind the tasks planned before.

    Noise, slowdowns and failures do not change the plan: tasks wait for their device and their
    turn.
    """

    name = "heft"

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Rank every task; no job is planned yet."""
        refuse_choices(workload, self.name)
        self._sim = make_sim(workload, Scenario.of(workload), None, eager=True)
        one_group = np.zeros(workload.cluster.p, np.int64)
        self._weights = weights_of({})
        self._plan = make_plan(workload, self._sim, self._weights, UNLIMITED, one_group)
        self._inst = self._plan.inst
        ranks = [upward_rank(problem) for problem in workload.problems]
        places = [np.argsort(problem.workflow.order) for problem in workload.problems]
        rank, place = per_instance(workload, ranks), per_instance(workload, places)
        # Equal ranks in topological order: a task without work ties with its child.
        self._order = np.lexsort((np.arange(len(rank)), place, -rank))
        self._batches = bool((workload.cluster.batch > 1).any())
        self._committed = np.zeros(workload.instances, bool)
        self._planned = np.zeros(workload.jobs, bool)
        self._queues: list[deque[int]] = [deque() for _ in range(workload.cluster.p)]

    def state(self) -> dict[str, Any]:
        """Return the plans of the jobs, and the tasks that are not committed yet."""
        return {
            "plan": [self._inst[key].tolist() for key in ("start", "finish", "device")],
            "committed": np.flatnonzero(self._committed).tolist(),
            "planned": self._planned.tolist(),
            "queues": [list(queue) for queue in self._queues],
        }

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        stay = np.flatnonzero(numbers.instances >= 0)
        for key, column in zip(("start", "finish", "device"), state["plan"], strict=True):
            self._inst[key][: len(stay)] = np.asarray(column)[stay]
        self._committed[numbers.of(state["committed"])] = True
        self._planned[: len(numbers.jobs)] = np.asarray(state["planned"], bool)[numbers.jobs]
        self._queues = [deque(numbers.of(queue)) for queue in state["queues"]]

    def decide(self, view: View) -> Decision | None:
        """Plan the jobs that have arrived, then commit ready tasks in planned order."""
        for job in view.jobs[~self._planned[view.jobs]].tolist():
            self._planned[job] = True
            self._plan_job(view, job)
        # The task at the head of a device's plan, or a task lost with a failed device.
        up, where = np.isfinite(view.slowdown), self._inst["device"][view.ready]
        able = view.ready[up[where] & self._committed[view.ready]].tolist()
        ready, here = set(view.ready.tolist()), set(view.jobs.tolist())
        for d in np.flatnonzero(up).tolist():
            self._drop_ended(view, self._queues[d], here)
            if self._queues[d] and self._queues[d][0] in ready:
                able.append(self._queues[d][0])
        if not able:
            return None
        instance = min(able)
        d = int(self._inst["device"][instance])
        if not self._committed[instance]:
            self._queues[d].popleft()
            self._committed[instance] = True
        return Decision(instance, d)

    def _plan_job(self, view: View, job: int) -> None:
        first, last = view.workload.first_instance[job : job + 2]
        mine = self._order[(self._order >= first) & (self._order < last)]
        finish = self._inst["finish"]
        behind = [max((finish[i] for i in queue), default=0.0) for queue in self._queues]
        free = np.where(np.isinf(view.free_at), view.now, view.free_at)
        self._plan.device["free"] = np.maximum(free, behind)
        _place_in_order(self._sim, self._plan, self._weights, mine)
        for instance in mine[np.argsort(self._inst["start"][mine], kind="stable")].tolist():
            self._queues[self._inst["device"][instance]].append(instance)

    def _drop_ended(self, view: View, queue: deque[int], here: set[int]) -> None:
        """Drop tasks of cancelled jobs, and tasks that joined the batch of another one."""
        while queue:
            job, task = view.workload.task_of(queue[0])
            joined = self._batches and self._joined(view, job, task)
            if job in here and not joined:
                return
            self._committed[queue.popleft()] = True

    @staticmethod
    def _joined(view: View, job: int, task: int) -> bool:
        """Return whether a queued task is committed: not ready, but all parents ended."""
        first = int(view.workload.first_instance[job])
        if first + task in view.ready:
            return False
        parents = view.workload.problem_of(job).workflow.parents(task)
        return not np.isnan(view.finished_at[first + parents]).any()


@njit_noalloc
def _place_in_order(sim: Sim, plan: PlanState, weights: FloatArray, instances: IntArray) -> None:
    for d in range(len(plan.device)):
        plan.device[d].used, plan.device[d].first = 0, -1
    for i in instances:
        place_task(sim, plan, weights, i)


@POLICIES.register("heft", family="replanning")
def static_heft() -> StaticHeft:
    """HEFT's plan of each job, made when the job arrives and kept."""
    return StaticHeft()
