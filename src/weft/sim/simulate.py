"""Simulations of plans, rules and policies, under one scenario or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import InvalidInput, Stuck
from weft.model import Scenario, Schedule, Trace, Transfers, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray, frozen, offsets
from weft.model.trace import DONE as X_DONE
from weft.model.trace import beside_originals
from weft.sim.kernel.commit import block, commit, commit_with_copy, free_at, is_idle
from weft.sim.kernel.events import MOMENT, STUCK, advance
from weft.sim.kernel.jit import njit, njit_noalloc
from weft.sim.kernel.rules import replay, run_to_end
from weft.sim.kernel.setup import setup_seconds
from weft.sim.kernel.tables import DONE, JOB_HERE, READY, Sim, make_sim
from weft.sim.rule import Rule
from weft.sim.view import Block, CompiledPolicy, Decision, Policy, View

DecisionSource = Policy | Rule | Schedule | Sequence[Schedule]
"""A policy, a priority rule, or a plan to replay (one schedule per problem of the workload)."""


def simulate(
    workload: Workload,
    decider: DecisionSource,
    *,
    scenario: Scenario | None = None,
    eager: bool = True,
    seed: int = 0,
) -> Trace:
    """Simulate a workload.

    Without a scenario only the branches are drawn, by the seed.

    Examples
    --------
    >>> from weft.model import Problem
    >>> workload = Workload.of(Problem.from_arrays([[3.0, 2.0], [1.0, 1.0]], [[0, 1]], [0.0]))
    >>> simulate(workload, Rule("fifo", "fastest", np.zeros(2))).makespan
    3.0
    """
    scenario = scenario or Scenario.draw(workload, seed=seed)
    if isinstance(decider, Rule | Schedule | Sequence):
        guide = [decider] if isinstance(decider, Schedule) else decider
        sim = make_sim(workload, scenario, guide, eager=eager)
        answer = run_to_end(sim) if isinstance(decider, Rule) else replay(sim)
    else:
        decider.begin(workload, seed=seed)
        copies = getattr(decider, "copies", False)
        sim = make_sim(workload, scenario, None, eager=eager, copies=copies)
        answer = (
            decider.live(sim)
            if isinstance(decider, CompiledPolicy)
            else _run_policy(workload, decider, sim)
        )
    if answer == STUCK:
        raise _stuck(workload, decider, sim)
    return _trace(workload, scenario, sim, policy=_name(decider))


def _name(decider: DecisionSource) -> str:
    return "replay" if isinstance(decider, Schedule | Sequence) else decider.name


# -- a policy in Python ------------------------------------------------------


def _run_policy(workload: Workload, policy: Policy, sim: Sim) -> int:
    views = _ViewFactory(workload, sim)
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        while sim.world[0]["ready"] > 0:
            decision = policy.decide(views.view())
            if decision is None:
                break
            if isinstance(decision, Block):
                block(sim, decision.device, decision.until)
                continue
            ready = (
                0 <= decision.instance < len(sim.inst)
                and sim.inst["status"][decision.instance] == READY
            )
            refuse_decision(
                workload, policy.name, decision, ready=bool(ready), slowdown=sim.device["slowdown"]
            )
            if decision.copy < 0:
                commit(sim, decision.instance, decision.device)
            else:
                refuse_copy(workload, policy.name, decision, sim)
                commit_with_copy(sim, decision.instance, decision.device, decision.copy)


def refuse_copy(workload: Workload, policy: str, decision: Decision, sim: Sim) -> None:
    """Raise `InvalidInput` for an impossible copy, naming policy, task and device."""
    job, task = workload.task_of(decision.instance)
    workflow, first = workload.problem_of(job).workflow, int(workload.first_instance[job])
    what = (
        f"policy '{policy}' decided to copy instance {decision.copy} "
        f"ahead of task '{workflow.task_name(task)}' of job {job}"
    )
    device = workload.cluster.names[decision.device]
    if not sim.world[0]["copies"]:
        raise InvalidInput(
            f"{what}, but there is no room for copies: "
            "give the policy the attribute 'copies = True'"
        )
    if decision.copy - first not in workflow.parents(task):
        raise InvalidInput(f"{what}, which is not one of its parents")
    if sim.inst["status"][decision.copy] != DONE:
        raise InvalidInput(f"{what}, which is not done yet")
    if np.isinf(workload.problem_of(job).duration(decision.copy - first, decision.device)):
        raise InvalidInput(f"{what} on device '{device}', which cannot run it")


def refuse_decision(
    workload: Workload, policy: str, decision: Decision, *, ready: bool, slowdown: FloatArray
) -> None:
    """Raise `InvalidInput` for an impossible decision, naming policy, task and device."""
    if not 0 <= decision.instance < workload.instances:
        raise InvalidInput(
            f"policy '{policy}' chose instance {decision.instance}, "
            f"but there are {workload.instances}"
        )
    if not 0 <= decision.device < workload.cluster.p:
        raise InvalidInput(
            f"policy '{policy}' chose device {decision.device}, but there are {workload.cluster.p}"
        )
    job, task = workload.task_of(decision.instance)
    name = workload.problem_of(job).workflow.task_name(task)
    what = f"policy '{policy}' sent task '{name}' of job {job}"
    device = workload.cluster.names[decision.device]
    if not ready:
        raise InvalidInput(f"{what} to device '{device}', but the task is not ready")
    if np.isinf(slowdown[decision.device]):
        raise InvalidInput(f"{what} to device '{device}', which is down")
    if np.isinf(workload.problem_of(job).duration(task, decision.device)):
        raise InvalidInput(f"{what} to device '{device}', which cannot run it")


class _ViewFactory:
    """Views of one simulation; their columns are shared with the kernel, read-only."""

    def __init__(self, workload: Workload, sim: Sim) -> None:
        self.workload, self.sim, self.eager = workload, sim, bool(sim.world[0]["eager"])
        self.chooser = choosers(workload)
        self.started, self.known = np.full(len(sim.inst), np.nan), np.zeros(1, np.int64)
        self.ran_on, self.done_at, self.slowdown = (
            frozen(sim.inst["ran_on"]),
            frozen(sim.inst["done_at"]),
            frozen(sim.device["slowdown"]),
        )

    def _started(self) -> FloatArray:
        _note_starts(self.sim, self.started, self.known)
        return frozen(self.started.view())

    def view(self) -> View:
        sim = self.sim
        running = sim.device["running"]
        return View(
            workload=self.workload,
            now=float(sim.world[0]["now"]),
            ready=_ready(sim),
            free_at=_free_all(sim),
            idle=_idle_all(sim),
            slowdown=self.slowdown,
            ran_on=self.ran_on,
            finished_at=self.done_at,
            started_at=self._started(),
            running=np.where(running >= 0, sim.entry["instance"][running], -1),
            jobs=np.flatnonzero(sim.job["state"][:-1] == JOB_HERE),
            eager=self.eager,
            outcome=np.where(np.isnan(self.done_at[self.chooser]), -1, sim.outcome)
            if len(self.chooser)
            else None,
            copies=self._copies() if sim.world[0]["copies"] else {},
            room=sim.room[: len(sim.room) // 2].copy() if sim.need.shape[1] else None,
            **self._setup(),
        )

    def _setup(self) -> dict[str, Any]:
        """Return the loaded kinds of devices and the set-up of each kind.

        `free_at` must have updated all devices.
        """
        if self.sim.world[0]["setup"] < 0:
            return {}
        now = self.sim.loaded[: len(self.sim.device)].copy()
        return {"loaded": now, "setup": _setup_all(self.sim)}

    def _copies(self) -> dict[int, list[tuple[int, float]]]:
        rows = self.sim.execution[: self.sim.world[0]["executions"]]
        found: dict[int, list[tuple[int, float]]] = {}
        for row in rows[(rows["copy"] == 1) & (rows["status"] == X_DONE)]:
            found.setdefault(int(row["instance"]), []).append(
                (int(row["device"]), float(row["finish"]))
            )
        return found


@njit_noalloc
def _note_starts(sim: Sim, started: FloatArray, known: IntArray) -> None:
    """Add the starts of running groups and of executions since the last call."""
    for x in range(known[0], sim.world[0].executions):
        i = sim.execution[x].instance
        if (
            sim.execution[x].status == 0
            and sim.execution[x].copy == 0
            and sim.execution[x].finish == sim.inst[i].done_at
        ):
            started[i] = sim.execution[x].start
        elif sim.execution[x].copy == 0 and np.isnan(sim.inst[i].done_at):
            started[i] = np.nan  # lost or cancelled
    known[0] = sim.world[0].executions
    for d in range(len(sim.device)):
        entry = sim.device[d].running
        if entry < 0 or sim.entry[entry].copy == 1:
            continue
        i = sim.entry[entry].instance
        while i >= 0:
            started[i] = sim.device[d].start
            i = sim.inst[i].partner


def choosers(workload: Workload) -> IntArray:
    """Return the instance whose end decides each choice: (choices over all jobs,)."""
    owners = [p.workflow.choices.task for p in workload.problems]
    parts = [
        owners[t] + workload.first_instance[j]
        for j, t in enumerate(workload.template.tolist())
        if len(owners[t])
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts])


@njit
def _ready(sim: Sim) -> IntArray:
    found = np.empty(sim.world[0].ready, np.int64)
    at = 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            found[at] = sim.inst[sim.kind[kind].pool + k].pool
            at += 1
    found.sort()
    return found


@njit
def _free_all(sim: Sim) -> FloatArray:
    free = np.empty(len(sim.device))
    for d in range(len(free)):
        free[d] = free_at(sim, d)
    return free


@njit
def _setup_all(sim: Sim) -> FloatArray:
    seconds = np.empty((len(sim.kind), len(sim.device)))
    for d in range(len(sim.device)):
        for kind in range(len(sim.kind)):
            seconds[kind, d] = setup_seconds(sim, len(sim.device) + d, d, kind)
    return seconds


@njit
def _idle_all(sim: Sim) -> BoolArray:
    idle = np.empty(len(sim.device), np.bool_)
    for d in range(len(idle)):
        idle[d] = is_idle(sim, d)
    return idle


# -- results ------------------------------------------------------------------


def _trace(workload: Workload, scenario: Scenario, sim: Sim, *, policy: str) -> Trace:
    x = sim.execution[: sim.world[0]["executions"]]
    job = sim.inst["job"][x["instance"]]
    return Trace(
        workload=workload,
        scenario=scenario,
        job=job,
        task=x["instance"] - sim.job["first"][job],
        device=x["device"],
        decided=x["decided"],
        start=x["start"],
        finish=x["finish"],
        status=x["status"],
        batch=x["batch"],
        copy=beside_originals(
            x["instance"], x["status"], x["device"], x["finish"], x["copy"].astype(bool)
        ),
        job_finish=frozen(np.array(sim.job["finish"][:-1])),
        eager=bool(sim.world[0]["eager"]),
        policy=policy,
        transfers=_transfers(workload, sim) if len(sim.link) else None,
    )


def _transfers(workload: Workload, sim: Sim) -> Transfers:
    rows = sim.flow[: sim.world[0]["flows"]]
    job = sim.inst["job"][rows["instance"]]
    first = offsets([p.m for p in workload.problems])[workload.template[job]]
    moving = np.zeros(len(rows), bool)
    moving[sim.flow["active"][: sim.world[0]["moving"]]] = True
    return Transfers(
        job=job,
        edge=rows["edge"] - first,
        source=rows["source"],
        target=rows["target"],
        begin=rows["begin"],
        end=np.where(moving, np.nan, rows["end"]),
    )


def _stuck(workload: Workload, decider: DecisionSource, sim: Sim) -> Stuck:
    left = int(np.isnan(sim.job["finish"][:-1]).sum())
    down = [workload.cluster.names[d] for d in np.flatnonzero(np.isinf(sim.device["slowdown"]))]
    why = (
        f"devices down: {', '.join(down)}"
        if down
        else f"{sim.world[0]['ready']} tasks are ready and '{_name(decider)}' waits"
    )
    return Stuck(
        f"at {sim.world[0]['now']:g} s no task runs and no event is due, "
        f"but {left} of {workload.jobs} jobs are not finished ({why})"
    )
