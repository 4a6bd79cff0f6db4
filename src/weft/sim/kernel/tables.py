"""The memory of one simulation: tables that the kernel reads and writes.

Templates are concatenated; a *global task* is a task of a template in that numbering. Tables are
numpy record arrays, so that the kernel reads ``sim.inst[i].pending``, and few, because every call
between compiled functions passes all of them. Many simulations at once are the same tables with
one more axis in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Unsupported
from weft.model import Problem, Scenario, Schedule, Workload
from weft.model.columns import FloatArray, IntArray, offsets
from weft.model.machines.setup import PINNED
from weft.sim.kernel.records import record as _record
from weft.sim.rule import PLACEMENTS, Rule

RecordTable = NDArray[Any]

WAITING, READY, COMMITTED, RUNNING, DONE, SKIPPED, CANCELLED = range(7)
JOB_AHEAD, JOB_HERE, JOB_ENDED, JOB_CANCELLED = range(4)
OUTSIDE, REPLAY = -1, -2
"""Modes besides a rule's placements: decisions from outside the kernel, or from a plan."""
FAIR, ONE_PORT = 1, 2
"""How transfers share the links of a network; 0: there is none."""
MOST_TRANSFERS = 50_000_000
"""Largest table of transfers; the system gives memory only to transfers that begin."""


# One more row than tasks and jobs: ranges up to the begin of the next one need no special case.
TASK = _record("work memory", "row kind succ pred")
# row in `grid`; first outgoing edge; first incoming place in `edge.back`
EDGE = _record("data", "source target choice branch back")  # `back`: edge numbers sorted by target
JOB = _record("arrival cancel finish", "first shift choice entry state remaining called_off")
# first instance; instance - shift = global task; first choice; first plan entry;
# `called_off`: jobs by time of cancellation
INST = _record(
    "key factor decided done_at", "job status pending taken place partner ran_on result pool aside"
)
# pending, taken: incoming edges; place: in the pool; partner: next member of the group; result:
# newest finished execution; pool, aside: storage of the heaps and of instances put aside
ENTRY = _record("", "instance device copy next")
# elements of device queues: the first instance of a group, or a plan row. With room for copies,
# entry `instances + i` is the copy ahead of instance i, or -1.
KIND = _record("", "pool ready")  # where the heap of the kind begins, and its size
DEVICE = _record(
    "memory slowdown blocked_until start expected free",
    "batch running head tail stale last_kind group node",
)
EXECUTION = _record("decided start finish", "instance device status batch copy before")
CHANGE = _record("time slowdown", "device")
FLOW = _record(
    "begin since left rate end", "instance consumer edge source target route fixed active"
)
# transfers between nodes as they begin: `left` bytes at `since` and the `rate` from then on, 0 in
# the latency before; consumer: the instance that waits for it, or -1; fixed: whether its rate is
# fixed in this round; `active`: storage of the list of transfers that move
LINK = _record("rate left free", "flows")
INBOUND = _record("there", "moving device")
# per instance: arrival of the latest input so far, transfers on their way, the device in a plan
# curve: first row of the batch curves in `grid`, or -1; sizes: their largest batch; setup: first
# row of the set-ups in `grid`, or -1
WORLD = _record(
    "now",
    "next_arrival next_change next_cancel open_jobs executions groups ready decisions "
    "mode eager copies curve sizes network nodes flows moving reshare setup",
)


class Sim(NamedTuple):
    """One simulation.

    `grid` has one column per device: p rows of latency, p rows of seconds per byte, one row of bias
    per kind, then the rows of seconds per unit of work (`task.row` points there). If batches take
    longer when fuller, a block of rows per kind follows: the most tasks of a batch, then its
    seconds over those of one task, for 1, 2, ... tasks. If devices have a set-up, its rows come
    last: seconds, bytes and 1 if pinned, per kind; then the bytes of the cache; then the seconds of
    a switch.
    """

    world: RecordTable  # (1,)
    task: RecordTable
    edge: RecordTable
    job: RecordTable
    inst: RecordTable
    entry: RecordTable
    kind: RecordTable
    device: RecordTable
    due: FloatArray  # (p,) when each device finishes its group or looks at its queue again
    execution: RecordTable
    change: RecordTable
    grid: FloatArray
    outcome: IntArray
    need: FloatArray  # (tasks, capacities) amounts that tasks take of the capacities of their node
    room: FloatArray  # (nodes, capacities) amounts left, then the whole amounts
    flow: RecordTable
    link: RecordTable
    inbound: RecordTable
    route: IntArray  # (nodes * nodes, longest) links from node to node; -1: none
    # (p, kinds + 1) when each kind was last used, counted from 1 per device, 0: not loaded; and the
    # kind of the last group, or -1. Then the same after the queue of each device. No columns
    # without set-up
    loaded: IntArray
    extended: int | None  # None: plain machines, see `sim/kernel/extensions.py`


CHANGING = (
    *("world", "job", "inst", "entry", "kind", "device", "due", "room", "link", "inbound"),
    "loaded",
)
"""Tables that a simulation changes, beside `execution` and `flow`, to which it appends."""


def copy_sim(sim: Sim) -> Sim:
    """Copy a simulation at its present state."""
    own = (*CHANGING, "execution", "flow")
    return sim._replace(**{name: getattr(sim, name).copy() for name in own})


def make_sim(
    workload: Workload,
    scenario: Scenario,
    guide: Rule | Sequence[Schedule] | None,
    *,
    eager: bool,
    copies: bool = False,
) -> Sim:
    """Make a simulation at time zero.

    The guide is a rule, a plan (one schedule per problem) or None: decisions from outside. With
    `copies` there is room for a copy of a parent ahead of every instance.
    """
    task, edge = _tasks(workload), _edges(workload)
    plans = (
        _plan_rows(workload, guide) if guide is not None and not isinstance(guide, Rule) else None
    )
    job = _jobs(workload, scenario, [len(rows) for rows in plans] if plans is not None else None)
    inst = _instances(
        workload, scenario, task, job, guide.keys if isinstance(guide, Rule) else None
    )
    change = np.zeros(len(scenario.change_time), CHANGE)
    change["time"], change["slowdown"], change["device"] = (
        scenario.change_time,
        scenario.change_slowdown,
        scenario.change_device,
    )
    down = scenario.change_device[np.isinf(scenario.change_slowdown)]
    entry = _entries(workload, job, plans, copies=copies)
    world = np.zeros(1, WORLD)
    network = workload.cluster.network
    world["open_jobs"], world["eager"] = workload.jobs, eager and network is None
    world["mode"] = (
        PLACEMENTS.index(guide.placement)
        if isinstance(guide, Rule)
        else OUTSIDE
        if guide is None
        else REPLAY
    )
    world["copies"] = copies
    if network is not None:
        refuse_copies(copies=copies or any(rows["copy"].any() for rows in plans or ()))
        world["network"] = ONE_PORT if network.one_port else FAIR
        world["nodes"] = len(workload.cluster.node_names)
    curves, setups = _batch_curves(workload), _setups(workload)
    rows = (
        2 * workload.cluster.p
        + len(workload.kinds)
        + sum(len(p.per_work) for p in workload.problems)
    )
    world["curve"] = rows if len(curves) else -1
    world["setup"] = rows + len(curves) if len(setups) else -1
    world["sizes"] = workload.cluster.batch.max()
    need = np.concatenate([p.needs for p in workload.problems])
    extended = network is not None or need.shape[1] or len(curves) or len(setups)
    return Sim(
        world=world,
        task=task,
        edge=edge,
        job=job,
        inst=inst,
        entry=entry,
        kind=_kinds(workload, task, inst, job),
        device=_devices(workload),
        due=np.full(workload.cluster.p, np.inf),
        # Each entry ends once, and a failure loses one group and possibly the copy ahead of it.
        execution=np.zeros(
            len(entry) + int(workload.cluster.batch[down].sum()) + copies * len(down), EXECUTION
        ),
        change=change,
        grid=np.concatenate([_grid(workload, scenario), curves, setups]),
        outcome=np.array(scenario.outcome),
        need=need,
        room=np.concatenate([workload.problems[0].room] * 2),
        **_network(workload, int(np.isinf(scenario.change_slowdown).sum())),
        loaded=np.concatenate([_loaded(workload)] * 2),
        extended=1 if extended else None,
    )


def refuse_copies(*, copies: bool) -> None:
    """Refuse copies of tasks on a network."""
    if copies:
        raise Unsupported(
            "copies of tasks are not simulated on a network; choose a planner or policy without "
            "copies, or independent links"
        )


def _network(workload: Workload, failures: int) -> dict[str, Any]:
    """Return the tables of transfers; each failure may repeat all transfers."""
    routes = workload.cluster.routes
    if routes is None:
        empty = {"flow": FLOW, "link": LINK, "inbound": INBOUND}
        tables: dict[str, Any] = {key: np.zeros(0, dtype) for key, dtype in empty.items()}
        return tables | {"route": np.zeros((0, 0), np.int64)}
    edges = int(np.array([p.m for p in workload.problems], np.int64)[workload.template].sum())
    rows = edges * (1 + failures)
    if rows > MOST_TRANSFERS:
        raise Unsupported(
            f"{edges} edges and {failures} failures may make {rows} transfers; a simulation on a "
            f"network has room for {MOST_TRANSFERS}"
        )
    link = np.zeros(len(routes.rate), LINK)
    link["rate"] = routes.rate
    return {
        "flow": np.zeros(rows, FLOW),
        "link": link,
        "inbound": np.zeros(workload.instances, INBOUND),
        "route": np.array(
            routes.path.reshape(len(routes.path) ** 2, -1 if routes.path.size else 0)
        ),
    }


def _tasks(workload: Workload) -> RecordTable:
    table = np.zeros(sum(p.n for p in workload.problems) + 1, TASK)
    kinds = {name: k for k, name in enumerate(workload.kinds)}
    t = e = 0
    row = 2 * workload.cluster.p + len(kinds)
    for problem in workload.problems:
        w, part = problem.workflow, table[t : t + problem.n]
        part["work"], part["memory"], part["row"] = problem.work, w.memory, problem.row + row
        part["kind"] = np.array([kinds[k] for k in w.kinds], np.int64)[w.kind]
        part["succ"], part["pred"] = w.succ_ptr[:-1] + e, w.pred_ptr[:-1] + e
        t, e, row = t + w.n, e + w.m, row + len(problem.per_work)
    table[-1:]["succ"] = table[-1:]["pred"] = e
    return table


def _edges(workload: Workload) -> RecordTable:
    table = np.zeros(sum(p.m for p in workload.problems), EDGE)
    t = e = 0
    for problem in workload.problems:
        w, part = problem.workflow, table[e : e + problem.m]
        part["data"], part["source"], part["target"] = w.data, w.src + t, w.dst + t
        part["choice"], part["branch"], part["back"] = (
            w.choices.edge_choice,
            w.choices.edge_branch,
            w.pred_edge + e,
        )
        t, e = t + w.n, e + w.m
    return table


def _jobs(workload: Workload, scenario: Scenario, plan_sizes: list[int] | None) -> RecordTable:
    table = np.zeros(workload.jobs + 1, JOB)
    table["first"], table["choice"] = workload.first_instance, workload.first_choice
    part = table[:-1]
    part["arrival"], part["cancel"], part["finish"] = workload.arrival, scenario.cancel, np.nan
    part["shift"] = part["first"] - offsets([p.n for p in workload.problems])[workload.template]
    part["remaining"] = np.diff(table["first"])
    part["called_off"] = np.argsort(scenario.cancel, kind="stable")
    if plan_sizes is not None:
        table["entry"][1:] = np.cumsum(np.array(plan_sizes, np.int64)[workload.template])
    return table


def _instances(
    workload: Workload,
    scenario: Scenario,
    task: RecordTable,
    job: RecordTable,
    keys: FloatArray | None,
) -> RecordTable:
    table = np.zeros(workload.instances, INST)
    table["job"] = np.repeat(np.arange(workload.jobs), job["remaining"][:-1])
    table["factor"], table["decided"], table["done_at"] = scenario.factor, np.nan, np.nan
    table["place"] = table["partner"] = table["ran_on"] = table["result"] = -1
    table["key"] = 0.0 if keys is None else keys
    incoming = np.diff(task["pred"])
    table["pending"] = incoming[np.arange(len(table)) - job["shift"][table["job"]]]
    return table


def _entries(
    workload: Workload, job: RecordTable, plans: list[RecordTable] | None, *, copies: bool
) -> RecordTable:
    """Return the entries of queues; without a plan, entry i begins with instance i."""
    if plans is None:
        n = workload.instances
        table = np.zeros(2 * n if copies else n, ENTRY)
        table["instance"][:n], table["instance"][n:], table["copy"][n:] = np.arange(n), -1, 1
    else:
        table = np.concatenate([np.zeros(0, ENTRY), *(plans[t] for t in workload.template)])
        table["instance"] += np.repeat(job["first"][:-1], np.diff(job["entry"]))
    table["next"] = -1
    return table


def _kinds(
    workload: Workload, task: RecordTable, inst: RecordTable, job: RecordTable
) -> RecordTable:
    table = np.zeros(len(workload.kinds), KIND)
    kind = task["kind"][np.arange(len(inst)) - job["shift"][inst["job"]]]
    sizes = np.bincount(kind, minlength=len(table))
    table["pool"] = np.cumsum(sizes) - sizes
    return table


def _devices(workload: Workload) -> RecordTable:
    table = np.zeros(workload.cluster.p, DEVICE)
    table["memory"], table["batch"] = workload.cluster.memory, workload.cluster.batch
    table["slowdown"], table["blocked_until"], table["expected"] = 1.0, -np.inf, -np.inf
    table["node"] = workload.cluster.node
    table["running"] = table["head"] = table["tail"] = table["last_kind"] = -1
    table["stale"] = 1
    return table


def _grid(workload: Workload, scenario: Scenario) -> FloatArray:
    c = workload.cluster
    return np.concatenate(
        [c.latency, c.per_byte, scenario.bias, *(p.per_work for p in workload.problems)]
    )


def _batch_curves(workload: Workload) -> FloatArray:
    """Return the rows of batch curves; none if batches take as long as one task."""
    if not workload.cluster.batch_curve:
        return np.zeros((0, workload.cluster.p))
    limit = workload.batch_limit[:, None, :].astype(np.float64)
    growth = workload.batch_growth.transpose(0, 2, 1)
    return np.concatenate((limit, growth), axis=1).reshape(-1, workload.cluster.p)


def _setups(workload: Workload) -> FloatArray:
    """Return the rows of set-ups; none if nothing needs one."""
    c = workload.cluster
    if not c.has_setup:
        return np.zeros((0, c.p))
    rows = workload.setup.transpose(0, 2, 1).reshape(-1, c.p)
    return np.concatenate((rows, c.cache[None, :], c.switch[None, :]))


def _loaded(workload: Workload) -> IntArray:
    """Return the kinds loaded at time zero, the pinned ones: (p, kinds + 1)."""
    p, kinds = workload.cluster.p, len(workload.kinds)
    table = np.zeros((p, kinds + 1 if workload.cluster.has_setup else 0), np.int64)
    if workload.cluster.has_setup:
        table[:, :kinds], table[:, kinds] = workload.setup[:, :, PINNED].T > 0, -1
    return table


def replay_order(problem: Problem, schedule: Schedule) -> IntArray:
    """Return the rows of a schedule in the order of commitment.

    The order is by start, finish, place in the topological order and row.
    """
    place = problem.workflow.place[schedule.task]
    return np.lexsort((np.arange(len(schedule)), place, schedule.finish, schedule.start))


def _plan_rows(workload: Workload, schedules: Sequence[Schedule]) -> list[RecordTable]:
    """Return the entries of each schedule; `instance` counts from the job's first."""
    if len(schedules) != len(workload.problems):
        raise InvalidInput(
            f"{len(schedules)} schedules were given for {len(workload.problems)} problems; "
            "replay needs one for each"
        )
    plans = []
    for schedule, problem in zip(schedules, workload.problems, strict=True):
        _refuse_strange_rows(schedule, problem)
        order = replay_order(problem, schedule)
        rows = np.zeros(len(schedule), ENTRY)
        rows["instance"], rows["device"] = schedule.task[order], schedule.device[order]
        rows["copy"] = schedule.copy[order]
        plans.append(rows)
    return plans


def _refuse_strange_rows(schedule: Schedule, problem: Problem) -> None:
    schedule.refuse_other_problem(problem)
    originals = np.bincount(schedule.task[~schedule.copy], minlength=problem.n)
    if (originals != 1).any():
        raise InvalidInput(
            f"the schedule to replay does not hold every task of '{problem.name}' exactly once"
        )
    misplaced = np.flatnonzero(
        np.isinf(problem.per_work[problem.row[schedule.task], schedule.device])
    )
    if len(misplaced):
        task, device = (
            schedule.task[misplaced[0]],
            problem.cluster.names[schedule.device[misplaced[0]]],
        )
        raise InvalidInput(
            f"the schedule to replay puts task '{problem.workflow.task_name(task)}' "
            f"on device '{device}', which cannot run it"
        )
