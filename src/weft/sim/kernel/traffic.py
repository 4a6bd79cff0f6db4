"""Transfers between the nodes of a network, compiled.

See "Networks" in `docs/simulator.md`; `sim/traffic.py` is the twin. Rates change only when a
transfer starts or ends to move, so the kernel computes them once per moment, after its decisions.
"""

from __future__ import annotations

import numpy as np

from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.tables import ONE_PORT, Sim


@njit_noalloc
def send_inputs(sim: Sim, entry: int, d: int) -> None:
    """Begin the transfers of all inputs of a group that is committed to a device."""
    instance = sim.entry[entry].instance
    while instance >= 0:
        job = sim.inst[instance].job
        shift, g = sim.job[job].shift, task_of(sim, instance)
        for k in range(sim.task[g].pred, sim.task[g + 1].pred):
            e = sim.edge[k].back
            parent, choice = sim.edge[e].source + shift, sim.edge[e].choice
            if sim.inst[parent].result >= 0 and (
                choice < 0 or sim.outcome[sim.job[job].choice + choice] == sim.edge[e].branch
            ):
                begin_transfer(sim, instance, e, sim.inst[parent].ran_on, d)
        instance = sim.inst[instance].partner


@njit_noalloc
def begin_transfer(sim: Sim, instance: int, e: int, origin: int, d: int) -> None:
    """Send the data of an edge from one device to another, now."""
    now, data, p = sim.world[0].now, sim.edge[e].data, len(sim.device)
    a, b = sim.device[origin].node, sim.device[d].node
    if a == b:
        arrives = now + transfer_time(sim, origin, d, data)
        sim.inbound[instance].there = max(sim.inbound[instance].there, arrives)
        return
    f = sim.world[0].flows
    sim.world[0].flows = f + 1
    flow = sim.flow[f]
    flow.begin, flow.instance, flow.consumer = now, instance, instance
    flow.edge, flow.source, flow.target = e, origin, d
    if data == 0.0 or sim.grid[p + origin, d] == 0.0:
        flow.end = now + sim.grid[origin, d]
    elif sim.world[0].network == ONE_PORT:
        begin = max(now, sim.link[2 * a].free, sim.link[2 * b + 1].free)
        flow.end = begin + transfer_time(sim, origin, d, data)
        sim.link[2 * a].free = sim.link[2 * b + 1].free = flow.end
    else:
        flow.route = a * sim.world[0].nodes + b
        flow.since, flow.left, flow.rate, flow.end = now + sim.grid[origin, d], data, 0.0, np.inf
        sim.flow[sim.world[0].moving].active = f
        sim.world[0].moving += 1
        sim.world[0].reshare = 1
        sim.inbound[instance].moving += 1
        return
    sim.inbound[instance].there = max(sim.inbound[instance].there, flow.end)


@njit_noalloc
def drop_inputs(sim: Sim, instance: int) -> None:
    """Let an instance no longer wait for its transfers, which go on."""
    sim.inbound[instance].there = 0.0
    sim.inbound[instance].moving = 0
    for k in range(sim.world[0].moving):
        f = sim.flow[k].active
        if sim.flow[f].consumer == instance:
            sim.flow[f].consumer = -1


@njit_noalloc
def next_transfer(sim: Sim) -> float:
    """Return when the next transfer ends, or its latency does; inf: never."""
    if sim.world[0].reshare == 1:
        _share(sim)
    soonest = np.inf
    for k in range(sim.world[0].moving):
        flow = sim.flow[sim.flow[k].active]
        soonest = min(soonest, flow.end if flow.rate > 0.0 else flow.since)
    return soonest


@njit_noalloc
def end_transfers(sim: Sim) -> None:
    """End the transfers that are due; devices that wait for them look at their queues."""
    now, kept = sim.world[0].now, 0
    for k in range(sim.world[0].moving):
        f = sim.flow[k].active
        flow = sim.flow[f]
        if flow.rate > 0.0 and flow.end <= now:
            sim.world[0].reshare = 1
            if flow.consumer >= 0:
                mine = sim.inbound[flow.consumer]
                mine.moving -= 1
                mine.there = max(mine.there, flow.end)
                if sim.device[flow.target].running < 0:
                    sim.due[flow.target] = now
            continue
        if flow.rate == 0.0 and flow.since <= now:
            sim.world[0].reshare = 1
        sim.flow[kept].active = f
        kept += 1
    sim.world[0].moving = kept


@njit_inline
def _share(sim: Sim) -> None:
    """Give max-min fair rates to the transfers whose latency is over.

    Progressive filling: the link with the least share per transfer fixes the rates of its
    transfers, then the next link among the remaining rates and transfers, and so on.
    """
    now = sim.world[0].now
    sim.world[0].reshare = 0
    for x in range(len(sim.link)):
        sim.link[x].left, sim.link[x].flows = sim.link[x].rate, 0
    open_flows = 0
    for k in range(sim.world[0].moving):
        flow = sim.flow[sim.flow[k].active]
        flow.fixed = 1
        if flow.since <= now:
            flow.fixed = 0
            open_flows += 1
            for h in range(sim.route.shape[1]):
                x = sim.route[flow.route, h]
                if x >= 0:
                    sim.link[x].flows += 1
    level = 0.0
    while open_flows > 0:
        narrow, share = -1, np.inf
        for x in range(len(sim.link)):
            if sim.link[x].flows > 0 and sim.link[x].left / sim.link[x].flows < share:
                narrow, share = x, sim.link[x].left / sim.link[x].flows
        level = max(level, share)  # rounding must not lower the level
        for k in range(sim.world[0].moving):
            f = sim.flow[k].active
            if sim.flow[f].fixed == 0 and _uses(sim, f, narrow):
                open_flows -= 1
                _fix(sim, f, level)


@njit_inline
def _uses(sim: Sim, f: int, link: int) -> bool:
    for h in range(sim.route.shape[1]):  # noqa: SIM110  # a generator expression does not compile
        if sim.route[sim.flow[f].route, h] == link:
            return True
    return False


@njit_inline
def _fix(sim: Sim, f: int, rate: float) -> None:
    """Set the rate of a transfer; its end moves only if the rate changes."""
    now, flow = sim.world[0].now, sim.flow[f]
    flow.fixed = 1
    for h in range(sim.route.shape[1]):
        x = sim.route[flow.route, h]
        if x >= 0:
            sim.link[x].left -= rate
            sim.link[x].flows -= 1
    if rate != flow.rate:
        flow.left = max(flow.left - flow.rate * (now - flow.since), 0.0)
        flow.since, flow.rate = now, rate
        flow.end = now + flow.left / rate
