"""The status of a service and of one of its runs, for live pages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.service import Service
from weft.runtime.service.session import ServiceSession
from weft.runtime.status import StatusReader, waiting_by_reason
from weft.runtime.web.runs import ActiveRun, RunTable
from weft.runtime.web.state import ApplicationLimits
from weft.sim.story import OVER, State

SHOWN = 50
"""Newest runs on the page of a service."""


def service_status(runs: RunTable, applications: Mapping[str, ApplicationLimits]) -> dict[str, Any]:
    """Return applications, devices, waiting tasks and the newest runs."""
    session, now = runs.service.session, runs.service.backend.clock()
    status: dict[str, Any] = {"now": now, "devices": [], "waiting": {}}
    left = dict[str, float]()
    if session is not None and session.driver is not None:
        life = session.driver.life
        with suppress(RuntimeError, IndexError):  # the service goes on while this looks at it
            status = StatusReader(count_busy=False).read(life, now).as_dict()
            left = _work_left(session)
        runs.waiting.look(now, lambda: status["waiting"])
    asked = sum(applications[name].share for name in left) or 1.0
    counts = {(name, state): 0.0 for name in applications for state in ("waiting", "running")}
    counts |= {(key[0][1], key[1][1]): n for what, key, n in runs.gauges() if what == "weft_runs"}
    devices = max(len(status["devices"]), 1)
    rows = {
        name: {
            "share": one.share,
            "budget": None if one.budget is None else asdict(one.budget),
            "left": None if one.budget is None else runs.service.budget_left(name, now),
            "running": counts[name, "running"],
            "waiting": counts[name, "waiting"],
            "eta": left[name] / (devices * one.share / asked) if name in left else None,
        }
        for name, one in applications.items()
    }
    listed = runs.store.listed(application=None, state=None, limit=SHOWN)
    for run in listed:
        if (active := runs.active.get(run["id"])) is not None:
            run.update(active.shown(full=runs.store.full))
            run.pop("results", None)
    return {**status, "applications": rows, "runs": listed}


def _work_left(session: ServiceSession) -> dict[str, float]:
    """Return the estimated seconds of device time of what runs, by application."""
    assert session.driver is not None
    life, found = session.driver.life, dict[str, float]()
    for name, job in session.running():
        problem, first = life.workload.problem_of(job), life.instances(job).start
        seconds = problem.work * problem.best_per_work[problem.row]
        over = (*OVER, State.CANCELLED)
        open_ = [i - first for i in life.instances(job) if life.stories.state[i] not in over]
        found[name] = found.get(name, 0.0) + float(seconds[open_].sum())
    return found


def job_of(runs: RunTable, run: ActiveRun) -> tuple[LiveLifecycle, int] | None:
    """Return the life cycle of a run's session, and its job; None unless it runs."""
    session, future = runs.service.session, run.future
    if session is None or session.driver is None or future is None:
        return None
    job = session.job_of(future)
    return None if job is None else (session.driver.life, job)


def crowding(service: Service, run: ActiveRun) -> float:
    """Return the factor by which the runs beside a run prolong it.

    If no more tasks are ready than there are devices, no run waits. Otherwise a run gets its
    application's share of the devices, divided by the runs of the application.
    """
    session = service.session
    if session is None or session.driver is None:
        return 1.0
    life, active = session.driver.life, Counter[str]()
    for name, _ in session.running():
        active[name] += 1
    mine = run.facts["application"]
    waiting = waiting_by_reason(life)
    busy = sum(machine.running is not None for machine in life.machines)
    wanted = busy + waiting.get("for a device", 0) + waiting.get("in queues", 0)
    shares = service.queue.shares.of
    asked = sum(shares.get(name, 1.0) for name in active)
    part = shares.get(mine, 1.0) / asked / active[mine] if active[mine] else 1.0
    return max(1.0, min(1.0 / part, wanted / max(len(life.machines), 1)))


def run_status(runs: RunTable, run: ActiveRun) -> dict[str, Any] | None:
    """Return the status of a run in seconds since it began; None unless it runs."""
    begun = run.facts.get("begun")
    with suppress(RuntimeError, IndexError):  # the service goes on while this looks at it
        place = job_of(runs, run)
        if place is None or begun is None:
            return None
        life, job = place
        clock, now = runs.service.backend.clock(), time.time() - begun
        whole = StatusReader(count_busy=False).read(life, clock)
        devices = []
        for device, machine in zip(whole.devices, list(life.machines), strict=True):
            group = machine.running
            mine = group is not None and group.members and life.place[group.members[0]][0] == job
            if device.since is None or device.expected is None:
                devices.append(device)
            elif not mine:
                devices.append(replace(device, task="another run", since=None, expected=None))
            else:
                shift = clock - now
                moved = (device.since - shift, device.expected - shift)
                devices.append(replace(device, since=moved[0], expected=moved[1]))
        done, waiting = life.over(job), waiting_by_reason(life, life.instances(job))
        run.waiting.look(now, lambda: waiting)
        return replace(
            whole,
            now=now,
            done=done,
            tasks=len(life.instances(job)),
            devices=tuple(devices),
            waiting=waiting,
        ).as_dict()
    return None
