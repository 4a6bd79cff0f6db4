"""The status of a service and of one of its runs, for live pages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from weft.runtime.service.budgets import Budget
from weft.runtime.service.session import ServiceSession
from weft.runtime.status import StatusReader, waiting_by_reason
from weft.runtime.web.runs import ActiveRun, RunTable
from weft.sim.story import OVER, State

SHOWN = 50
"""Newest runs on the page of a service."""


def service_status(
    runs: RunTable, shares: Mapping[str, float], budgets: Mapping[str, Budget | None]
) -> dict[str, Any]:
    """Return applications, devices, waiting tasks and the newest runs."""
    session, now = runs.service.session, runs.service.backend.clock()
    status: dict[str, Any] = {"now": now, "devices": [], "waiting": {}}
    left = dict[str, float]()
    if session is not None and session.driver is not None:
        life = session.driver.life
        with suppress(RuntimeError, IndexError):  # the service goes on while this looks at it
            status = StatusReader(count_busy=False).read(life, now).as_dict()
            left = _work_left(session)
    asked = sum(shares[name] for name in left) or 1.0
    counts = {(name, state): 0.0 for name in shares for state in ("waiting", "running")}
    counts |= {(key[0][1], key[1][1]): n for what, key, n in runs.gauges() if what == "weft_runs"}
    devices = max(len(status["devices"]), 1)
    rows = {
        name: {
            "share": share,
            "budget": None if (budget := budgets.get(name)) is None else asdict(budget),
            "left": runs.service.budget_left(name, now) if budget is not None else None,
            "running": counts[name, "running"],
            "waiting": counts[name, "waiting"],
            "eta": left[name] / (devices * share / asked) if name in left else None,
        }
        for name, share in shares.items()
    }
    listed = runs.store.listed(application=None, state=None, limit=SHOWN)
    known = {run["id"]: runs.active[run["id"]].facts for run in listed if run["id"] in runs.active}
    return {
        **status,
        "applications": rows,
        "runs": [{**r, **known.get(r["id"], {})} for r in listed],
    }


def _work_left(session: ServiceSession) -> dict[str, float]:
    """Return the estimated seconds of device time of what runs, by application."""
    assert session.driver is not None
    life, found = session.driver.life, dict[str, float]()
    for name, job in session.running():
        problem, first = life.workload.problem_of(job), life.instances(job).start
        seconds = problem.work * problem.best_pace[problem.row]
        over = (*OVER, State.CANCELLED)
        open_ = [i - first for i in life.instances(job) if life.stories.state[i] not in over]
        found[name] = found.get(name, 0.0) + float(seconds[open_].sum())
    return found


def run_status(runs: RunTable, run: ActiveRun) -> dict[str, Any] | None:
    """Return the status of a run in seconds since it began; None unless it runs."""
    session, begun = runs.service.session, run.facts.get("begun")
    if session is None or session.driver is None or begun is None or run.future is None:
        return None
    with suppress(RuntimeError, IndexError):  # the service goes on while this looks at it
        job, life = session.job_of(run.future), session.driver.life
        if job is None:
            return None
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
        return replace(
            whole,
            now=now,
            done=done,
            tasks=len(life.instances(job)),
            devices=tuple(devices),
            waiting=waiting,
        ).as_dict()
    return None
