"""HEFT as a static plan, made when a job arrives. Planned anew at every event, it is in `policies/replanning/policy.py`.

Topcuoglu, Hariri and Wu (2002): tasks by upward rank, each on the device that finishes it first, gaps filled. Here the plan
starts from what is known at the moment: what runs and when it should end, where finished results lie, which devices are up. Data
moves as the simulator says (by default as soon as it exists); expected times are the estimates at the present pace of each device.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from weft.errors import Unsupported
from weft.model import Scenario, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.sim.kernel.jit import njit
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.ranks import upward_rank
from weft.sim.kernel.tables import Sim, make_sim
from weft.sim.view import Decision, View


class StaticHeft:
    """HEFT as a static plan: each job is planned when it arrives, behind what was planned before, and the plan is kept.

    Noise, slowdowns and failures do not change it: tasks wait for their device and their turn.
    """

    name = "heft"

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Rank every task once; no job is planned yet."""
        for problem in workload.problems:
            if problem.workflow.conditional:
                raise Unsupported(
                    f"policy '{self.name}' does not plan workflow '{problem.name}': it has choices; try 'rank-first'"
                )
        self._tables = make_sim(workload, Scenario.of(workload), None, eager=True)
        ranks = [upward_rank(problem) for problem in workload.problems]
        places = [np.argsort(problem.workflow.order) for problem in workload.problems]
        rank = np.concatenate([np.zeros(0), *(ranks[t] for t in workload.template)])
        place = np.concatenate([np.zeros(0, np.int64), *(places[t] for t in workload.template)])
        # By rank, the highest first; equal ranks in topological order (a task without work ties with its child), then by number.
        self._order = np.lexsort((np.arange(len(rank)), place, -rank))
        self._committed = np.zeros(workload.instances, bool)
        self._device = np.full(workload.instances, -1, np.int64)
        self._start = np.full(workload.instances, np.nan)
        self._finish = np.full(workload.instances, np.nan)
        self._planned = np.zeros(workload.jobs, bool)
        self._queues: list[deque[int]] = [deque() for _ in range(workload.cluster.p)]

    def _plan(self, view: View, instances: IntArray, pace: FloatArray, free: FloatArray) -> None:
        _plan_from_here(
            self._tables,
            instances,
            free,
            pace,
            view.ran_on,
            view.finished_at,
            self._device,
            self._start,
            self._finish,
        )

    def decide(self, view: View) -> Decision | None:
        """Plan the jobs that have arrived, then commit what is ready in the order of the plan."""
        for job in view.jobs[~self._planned[view.jobs]].tolist():
            self._planned[job] = True
            self._plan_job(view, job)
        for (
            instance
        ) in view.ready.tolist():  # lost with a failed device, or next in its device's queue
            d = int(self._device[instance])
            if np.isinf(view.pace[d]):
                continue
            if self._committed[instance]:
                return Decision(instance, d)
            queue = self._queues[d]
            self._drop_ended(view, queue)
            if queue[0] == instance:
                queue.popleft()
                self._committed[instance] = True
                return Decision(instance, d)
        return None

    def _plan_job(self, view: View, job: int) -> None:
        first, last = view.workload.first_instance[job : job + 2]
        mine = self._order[(self._order >= first) & (self._order < last)]
        behind = np.array(
            [max((self._finish[i] for i in queue), default=0.0) for queue in self._queues]
        )
        free = np.maximum(np.where(np.isinf(view.free_at), view.now, view.free_at), behind)
        self._plan(view, mine, np.ones_like(view.pace), free)
        for instance in mine[np.argsort(self._start[mine], kind="stable")].tolist():
            self._queues[self._device[instance]].append(instance)

    @staticmethod
    def _drop_ended(view: View, queue: deque[int]) -> None:
        while (
            int(np.searchsorted(view.workload.first_instance, queue[0], side="right")) - 1
            not in view.jobs
        ):
            queue.popleft()  # its job was called off


@njit
def _plan_from_here(
    sim: Sim,
    instances: IntArray,
    free: FloatArray,
    pace: FloatArray,
    ran_on: IntArray,
    finished_at: FloatArray,
    device: IntArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """Place instances, in the order given, on the device that finishes them first, in the first gap that fits.

    Reads where parents ran (`ran_on`, `finished_at`) or are planned to run (`device`, `finish`), and writes the latter. A task no
    device can run now (all that could are down), or whose parent has no place, gets device -1.
    """
    p = len(free)
    begins = np.empty((p, len(instances) + 1))
    ends = np.empty((p, len(instances) + 1))
    used = np.zeros(p, np.int64)
    for i in instances:
        g = task_of(sim, i)
        shift = i - g
        best, best_start, best_finish, best_at = -1, np.inf, np.inf, 0
        for d in range(p):
            if sim.grid[sim.task[g].row, d] == np.inf or free[d] == np.inf:
                continue
            seconds = sim.task[g].work * sim.grid[sim.task[g].row, d] * pace[d]
            at = free[d]
            for k in range(sim.task[g].pred, sim.task[g + 1].pred):
                e = sim.edge[k].back
                parent = sim.edge[e].source + shift
                if np.isnan(finished_at[parent]):
                    origin, done = device[parent], finish[parent]
                else:
                    origin, done = ran_on[parent], finished_at[parent]
                at = max(
                    at,
                    np.inf
                    if origin < 0
                    else done + transfer_time(sim, origin, d, sim.edge[e].data),
                )
            slot = used[d]
            for k in range(used[d]):
                if at + seconds <= begins[d, k]:
                    slot = k
                    break
                at = max(at, ends[d, k])
            if at + seconds < best_finish:
                best, best_start, best_finish, best_at = d, at, at + seconds, slot
        device[i], start[i], finish[i] = best, best_start, best_finish
        if best >= 0:
            for k in range(used[best], best_at, -1):
                begins[best, k], ends[best, k] = begins[best, k - 1], ends[best, k - 1]
            begins[best, best_at], ends[best, best_at] = best_start, best_finish
            used[best] += 1


@POLICIES.register("heft", family="replanning")
def heft_once() -> StaticHeft:
    """HEFT's plan of each job, made when it arrives and kept."""
    return StaticHeft()
