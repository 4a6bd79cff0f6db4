"""Kernel tables filled from views: compiled policies decide for real runs too."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import Unsupported
from weft.model import Scenario, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.sim.kernel.tables import (
    CANCELLED,
    COMMITTED,
    DONE,
    JOB_AHEAD,
    JOB_ENDED,
    JOB_HERE,
    READY,
    WAITING,
    make_sim,
)
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View

_SUCCESS, _COPY = 0, 1


def refuse_choices(workload: Workload, policy: str) -> None:
    """Refuse workflows with choices on behalf of a policy."""
    for problem in workload.problems:
        if problem.workflow.conditional:
            raise Unsupported(
                f"policy '{policy}' does not plan workflow '{problem.name}': it has choices; "
                "try 'rank-first'"
            )


class SimFromView:
    """A simulation whose tables show the same state as a view.

    Attributes
    ----------
    sim : the tables
    busy : (p,) the instance that each device runs or waits for, or -1
    began : (p,) start of the running instance of each device; NaN without one
    batches : whether any device runs several instances together
    """

    def __init__(self, workload: Workload, *, eager: bool = True, copies: bool = False) -> None:
        self.sim = make_sim(workload, Scenario.of(workload), None, eager=eager, copies=copies)
        self.busy: IntArray = np.full(len(self.sim.device), -1)
        self.began: FloatArray = np.full(len(self.sim.device), np.nan)
        self._waiting: IntArray = np.full(len(self.sim.device), -1)
        self._committed: BoolArray = np.zeros(len(self.sim.inst), bool)
        self._recorded: BoolArray = np.zeros(len(self.sim.inst), bool)
        self._copies = 0
        self._known: list[int] | None = None  # results to write at the next update
        self.batches = bool((workload.cluster.batch > 1).any())

    def state(self) -> dict[str, Any]:
        """Return all that a view does not show."""
        rows = self.sim.execution[: int(self.sim.world["executions"][0])]
        first = np.where(rows["status"] == _COPY, -1, rows["instance"])  # copies are in the view
        return {
            "committed": np.flatnonzero(self._committed).tolist(),
            "recorded": self._known or first,
            "waiting": self._waiting.tolist(),
        }

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state of the tables of an older workload."""
        self._committed[numbers.of(state["committed"])] = True
        self._known = numbers.of([i for i in state["recorded"] if i >= 0])
        waiting = [numbers.of([i]) if i >= 0 else [] for i in state["waiting"]]
        self._waiting = np.array([new[0] if new else -1 for new in waiting])

    def moment(self, view: View) -> object:
        """Return a value that changes with the state, but not with the policy's decisions."""
        ended = int(np.count_nonzero(~np.isnan(view.finished_at)))
        lost = int(np.count_nonzero(self._committed[view.ready]))
        held = int(np.count_nonzero(self._committed)) - lost
        return (
            view.now,
            ended,
            held - ended + len(view.ready),
            view.slowdown.tobytes(),
            len(view.jobs),
        )

    def commit(self, decision: Decision) -> None:
        """Record a decision of the policy."""
        self._committed[decision.instance] = True
        self._waiting[decision.device] = decision.instance

    def update(self, view: View) -> None:
        """Fill the tables from a view."""
        sim, done = self.sim, ~np.isnan(view.finished_at)
        self._committed[view.ready] = False  # lost with a failed device
        self._committed |= done
        self._update_jobs(view, done)
        if self.batches:
            self._link_batches(view, done)
        status = np.where(done, DONE, np.where(self._committed, COMMITTED, WAITING))
        status[view.ready] = READY
        status[(sim.job["state"][sim.inst["job"]] == JOB_ENDED) & ~done] = CANCELLED
        sim.inst["status"], sim.inst["ran_on"] = status, view.ran_on
        sim.inst["done_at"], sim.device["slowdown"] = view.finished_at, view.slowdown
        if view.loaded is not None:
            sim.loaded[: len(sim.device)] = view.loaded
            sim.device["stale"] = 1
        world = sim.world
        world["now"], world["ready"], world["eager"] = view.now, len(view.ready), view.eager
        if self._known is not None:
            self._add_results(view, np.array(self._known, np.int64))
            self._known = None
        self._add_results(view, np.flatnonzero(done & ~self._recorded))
        self._add_copies(view)
        # A lost instance may now wait for another device.
        waiting = self._waiting >= 0
        waiting[waiting] = status[self._waiting[waiting]] == COMMITTED
        self._waiting[~waiting] = -1
        running = view.running >= 0
        running[running] = ~done[view.running[running]]  # the copy of a task counts as waiting
        self.busy = np.where(running, view.running, self._waiting)
        self.began = np.where(running, view.started_at[view.running], np.nan)

    def _link_batches(self, view: View, done: BoolArray) -> None:
        """Mark members of running batches as committed; link them to the first one.

        A view names only the first member. The other members are of its kind and started with it;
        of equal batches that started together, the first has the lowest numbers.
        """
        sim, partner = self.sim, self.sim.inst["partner"]
        partner[:] = -1
        kind = sim.task["kind"][np.arange(len(sim.inst)) - sim.job["shift"][sim.inst["job"]]]
        free = ~done & ~np.isnan(view.started_at)
        free[view.running[view.running >= 0]] = free[view.ready] = False
        for d in np.flatnonzero(view.running >= 0).tolist():
            last = first = int(view.running[d])
            same = free & (kind == kind[first]) & (view.started_at == view.started_at[first])
            for i in np.flatnonzero(same)[: int(sim.device[d]["batch"]) - 1].tolist():
                partner[last], last = i, i
                free[i], self._committed[i] = False, True

    def _update_jobs(self, view: View, done: BoolArray) -> None:
        """Set the state of jobs: arrived ones that are not present have ended."""
        job = self.sim.job
        job["remaining"][:-1] = np.bincount(self.sim.inst["job"][~done], minlength=len(job) - 1)
        job["state"][:-1] = np.where(job["arrival"][:-1] <= view.now, JOB_ENDED, JOB_AHEAD)
        job["state"][view.jobs] = JOB_HERE

    def _add_results(self, view: View, new: IntArray) -> None:
        """Add new results to the executions, in the order of the kernel."""
        new = new[np.lexsort((view.ran_on[new], view.finished_at[new]))]
        self._recorded[new] = True
        at = self._room(len(new))
        rows = self.sim.execution[at : at + len(new)]
        rows["instance"], rows["device"], rows["status"] = new, view.ran_on[new], _SUCCESS
        rows["start"], rows["finish"] = view.started_at[new], view.finished_at[new]
        rows["before"] = -1
        self.sim.inst["result"][new] = at + np.arange(len(new))

    def _add_copies(self, view: View) -> None:
        """Chain the results of each instance, the newest first, if there are new copies."""
        count = sum(map(len, view.copies.values()))
        if count == self._copies:
            return
        self._copies = count
        for i, places in view.copies.items():
            before = -1
            for device, finish in ((view.ran_on[i], view.finished_at[i]), *places):
                x = self._room(1)
                row = self.sim.execution[x]
                row["instance"], row["status"], row["before"] = i, _COPY, before
                row["device"], row["finish"] = device, finish
                before = x
            self.sim.inst["result"][i] = before

    def _room(self, count: int) -> int:
        """Make room for executions; return the number of the first."""
        sim = self.sim
        at = int(sim.world["executions"][0])
        if at + count > len(sim.execution):
            more = np.zeros(len(sim.execution) + count, sim.execution.dtype)
            self.sim = sim._replace(execution=np.concatenate((sim.execution, more)))
        self.sim.world["executions"] = at + count
        return at
