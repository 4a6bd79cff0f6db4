"""Rules of step-wise streams that decide by a `View`.

The view is written into the tables of a simulation, so that the same compiled rule decides in
`weft evaluate`, in `weft.simulate` and in real runs.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np

from weft.errors import Unsupported
from weft.model import Problem, Scenario, Workload
from weft.model.columns import IntArray
from weft.model.conditional_stream import Arrivals, ConditionalStream, ProbabilityDrift
from weft.policies.conditional.evaluate import WINDOW
from weft.policies.conditional.rules import RULES, ConditionalRule, choose_one
from weft.policies.rules import per_instance, task_kinds
from weft.sim.kernel.tables import JOB_AHEAD, JOB_HERE, make_sim
from weft.sim.renumbering import Renumbering
from weft.sim.vector.batch import StepOptions, make_state
from weft.sim.vector.step import read_outcomes
from weft.sim.view import Decision, View


class UnitPolicy:
    """A policy that chooses kinds for all idle units, then commits task by task."""

    reads_arrivals = True  # from the workload of each view: jobs may be added between decisions
    idle_units_only = True  # without an idle unit there is nothing to decide
    name: str
    _kind: IntArray  # of each instance
    _batch: IntArray  # largest batch of each unit
    _limit: IntArray  # (kinds, units) the most tasks of a batch
    _members: list[list[int]]  # instances of the last batch of each unit
    _pending: list[tuple[int, int]]  # units and kinds that are chosen and not committed
    _moment: object  # of the last choice

    def _begin_units(self, workload: Workload) -> None:
        self._kind = per_instance(workload, task_kinds(workload))
        self._batch = np.asarray(workload.cluster.batch, np.int64).copy()
        self._limit = workload.batch_limit
        self._members = [[] for _ in range(workload.cluster.p)]
        self._pending, self._moment = [], None

    def state(self) -> dict[str, Any]:
        """Return the last batch of each unit."""
        return {"members": [list(members) for members in self._members]}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        self._members = [numbers.of(members) for members in state["members"]]

    def decide(self, view: View) -> Decision | None:
        """Commit the next chosen task, or choose again if anything happened since."""
        moment = view.moment()
        if moment != self._moment:
            self._pending, self._moment = self._choose(view), moment
        while self._pending:
            device, kind = self._pending.pop(0)
            ready = self._runnable(view, kind, device)
            if ready:
                self._members[device] = ready[: int(self._limit[kind, device])]
                return Decision(ready[0], device)
        return None

    def _choose(self, view: View) -> list[tuple[int, int]]:
        """Return units and the kinds they take."""
        raise NotImplementedError

    def _runnable(self, view: View, kind: int, device: int) -> list[int]:
        mine = view.ready[self._kind[view.ready] == kind].tolist()
        return [i for i in mine if view.duration(i, device) < np.inf]


def chosen_kinds(view: View, actions: IntArray) -> list[tuple[int, int]]:
    """Return the idle units that do not wait, with their kinds."""
    kinds = len(view.workload.kinds)
    chosen = zip(view.idle.tolist(), actions.tolist(), strict=True)
    return [(d, kind) for d, (idle, kind) in enumerate(chosen) if idle and kind < kinds]


class RuleViewPolicy(UnitPolicy):
    """A rule for conditional streams. Units wait until the next event."""

    def __init__(self, rule: ConditionalRule) -> None:
        self.stepwise = rule
        self.name = rule.name

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Reset all estimates."""
        if len(workload.problems) != 1:
            raise Unsupported(
                f"policy '{self.name}' is for jobs of one workflow; "
                f"'{workload.name}' has {len(workload.problems)}; try 'conditional-any'"
            )
        problem = workload.problems[0]
        self._sim = make_sim(workload, Scenario.of(workload), None, eager=True)
        self._state = make_state(
            _conditional_stream(workload, problem, self.stepwise.watched),
            self._sim,
            StepOptions(idle="event", window=WINDOW),
        )
        self.stepwise.check_shape(self._state.group, len(workload.kinds), workload.name)
        self._begin_units(workload)
        self._pools: list[int] = self._sim.kind["pool"].tolist()
        self._jobs = self._sim.job["arrival"][:-1], self._sim.job["state"][:-1]
        self._runs = np.isfinite(problem.durations())
        self._tasks = problem.n
        self._reported = np.zeros(workload.instances, bool)
        self._actions = np.zeros(workload.cluster.p, np.int64)

    def state(self) -> dict[str, Any]:
        """Return the last batch of each unit, the last kinds, and the estimates."""
        return {
            **super().state(),
            "last_kind": self._sim.device["last_kind"].tolist(),
            "estimate": self._state.estimate.tolist(),
            "seen": self._state.seen.tolist(),
            "memory": int(self._state.counters["memory"][0]),
            "reported": np.flatnonzero(self._reported).tolist(),
        }

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        self._sim.device["last_kind"] = state["last_kind"]
        self._state.estimate[:], self._state.seen[:] = state["estimate"], state["seen"]
        self._state.counters["memory"] = state["memory"]
        self._reported[numbers.of(state["reported"])] = True

    def _runnable(self, view: View, kind: int, device: int) -> list[int]:
        mine = view.ready[self._kind[view.ready] == kind]
        runnable: list[int] = mine[self._runs[mine % self._tasks, device]].tolist()
        return runnable

    def _choose(self, view: View) -> list[tuple[int, int]]:
        if not view.idle.any():
            return []
        self._write_view(view)
        rule = self.stepwise
        choose_one(self._sim, self._state, RULES.index(rule.name), rule.weights, self._actions)
        return chosen_kinds(view, self._actions)

    def _write_view(self, view: View) -> None:
        """Write what the view shows into the tables that the rule reads."""
        sim = self._sim
        pools: list[list[int]] = [[] for _ in self._pools]
        for i, kind in zip(view.ready.tolist(), self._kind[view.ready].tolist(), strict=True):
            pools[kind].append(i)
        for base, mine in zip(self._pools, pools, strict=True):
            if mine:
                sim.inst["pool"][base : base + len(mine)] = mine  # sorted numbers are a heap
        sim.kind["ready"] = [len(mine) for mine in pools]
        arrival, state = self._jobs
        arrived = int(view.workload.arrival.searchsorted(view.now, side="right"))
        arrival[:], state[:arrived], state[arrived:] = view.workload.arrival, JOB_HERE, JOB_AHEAD
        world = sim.world[0]
        world["now"], world["ready"], world["next_arrival"] = view.now, len(view.ready), arrived
        self._write_devices(view)
        self._write_outcomes(view)

    def _write_devices(self, view: View) -> None:
        sim, device = self._sim, self._sim.device
        device["slowdown"], device["head"] = view.slowdown, -1
        if view.loaded is not None:
            sim.loaded[: len(device)] = view.loaded
        now, idle, free = view.now, view.idle.tolist(), view.free_at.tolist()
        running = view.running.tolist()
        expected = [end if isfinite(end) else now for end in free]
        device["running"] = -1
        device["expected"] = expected
        device["blocked_until"] = [
            now if waits else end for waits, end in zip(idle, expected, strict=True)
        ]
        sim.due[:] = [  # the end of a wait for data is an event, too
            inf if waits or end == inf else max(end, now)
            for waits, end in zip(idle, free, strict=True)
        ]
        for d, i in enumerate(running):
            if i >= 0:
                members = self._members[d] or [i]
                device[d]["running"] = members[0]  # without a plan, entry i is instance i
                sim.inst["partner"][members] = [*members[1:], -1]
                device[d]["last_kind"] = self._kind[members[0]]

    def _write_outcomes(self, view: View) -> None:
        """Append the tasks finished since the last call, in order; update estimates."""
        new = (~np.isnan(view.finished_at) > self._reported).nonzero()[0]
        if not len(new) or view.outcome is None:
            return
        self._reported[new] = True
        if len(new) > 1:
            new = new[np.lexsort((view.ran_on[new], view.finished_at[new]))]
        at = int(self._sim.world["executions"][0])
        rows = self._sim.execution[at : at + len(new)]
        rows["instance"], rows["device"], rows["status"] = new, view.ran_on[new], 0
        self._sim.world["executions"] = at + len(new)
        np.copyto(self._sim.outcome, view.outcome, where=view.outcome >= 0)
        read_outcomes(self._sim, self._state)


def _conditional_stream(
    workload: Workload, problem: Problem, watched: tuple[str, ...] | None
) -> ConditionalStream:
    """Return a stream with the workload's graph; its arrivals are not used."""
    w = problem.workflow
    owners = [w.task_name(int(t)) for t in w.choices.task]
    numbers = [c for c, owner in enumerate(owners) if watched is None or owner in watched]
    drift = [
        ProbabilityDrift("fixed", w.choices.probability[w.choices.branches(c)][None, :])
        for c in range(len(w.choices))
    ]
    return ConditionalStream(
        problem,
        Arrivals("regular", gap=1.0),
        tuple(drift),
        jobs=max(workload.jobs, 1),
        watched=tuple(numbers),
        name=workload.name,
    )
