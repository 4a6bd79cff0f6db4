"""Schedules, traces, a run and a page for the tests of reports, and a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import weft
from weft.report.gantt.html import gantt_html
from weft.runtime.backends.fake import FakeBackend
from weft.runtime.web.live.board import LiveBoard

EVIL = "</script><img src=x onerror=document.documentElement.dataset.hacked=1>&amp;'\""
"""A name that breaks out of scripts, attributes and elements wherever it is not escaped."""


def in_order(problem: weft.Problem) -> weft.Schedule:
    """Tasks in topological order, each on the device where it ends first."""
    w, free = problem.workflow, np.zeros(problem.p)
    device, start, finish = np.zeros(problem.n, int), np.zeros(problem.n), np.zeros(problem.n)
    for t in w.order.tolist():
        edges = w.pred_edge[w.pred_ptr[t] : w.pred_ptr[t + 1]].tolist()
        arrivals = [
            max(
                [
                    float(free[d]),
                    *(
                        finish[w.src[e]] + problem.transfer(e, int(device[w.src[e]]), d)
                        for e in edges
                    ),
                ]
            )
            for d in range(problem.p)
        ]
        ends = [arrivals[d] + problem.duration(t, d) for d in range(problem.p)]
        best = int(np.argmin(ends))
        device[t], start[t], finish[t], free[best] = best, arrivals[best], ends[best], ends[best]
    return weft.Schedule.of(device=device, start=start, finish=finish)


def layered(tasks: int, devices: int, *, seed: int = 0) -> weft.Problem:
    """Random layers of about sqrt(tasks) tasks, three kinds, two nodes."""
    rng, width = np.random.default_rng(seed), max(2, int(tasks**0.5))
    pairs = [
        (v - v % width - width + u, v)
        for v in range(width, tasks)
        for u in rng.choice(width, size=int(rng.integers(1, 3)), replace=False)
    ]
    workflow = weft.Workflow(
        work=rng.lognormal(1, 0.5, tasks),
        src=[u for u, _ in pairs],
        dst=[v for _, v in pairs],
        data=rng.uniform(1e6, 9e6, len(pairs)),
        kind=np.arange(tasks) % 3,
        kinds=("red", "green", "blue"),
        name="layered",
    )
    names = [weft.Device(f"d{i}", node=f"n{i % 2}", speed=1.0 + i % 2) for i in range(devices)]
    return weft.Problem.bind(
        workflow, weft.Cluster.of(names, weft.Links(bandwidth=1e7, node_bandwidth=1e8))
    )


def diamond(name: str = "a") -> tuple[weft.Problem, weft.Schedule]:
    """Four tasks on two devices: a -> b, c -> d; 1 byte per second, b and d run where a ran.

    a 0..2 on d0, b 2..5 on d0, c arrives at d1 at 2 + 4 = 6 and runs 6..7, its result is back at 7
    + 1 = 8, d 8..9 on d0.
    """
    b = weft.WorkflowBuilder("diamond")
    for task, seconds in ((name, 2.0), ("b", 3.0), ("c", 1.0), ("d", 1.0)):
        b.task(task, work=seconds, kind=f"kind {task}")
    b.edge(name, "b", data=9.0)
    b.edge(name, "c", data=4.0)
    b.edge("b", "d", data=9.0)
    b.edge("c", "d", data=1.0)
    problem = weft.Problem.bind(b.build(), weft.Cluster(speed=[1.0, 1.0], bandwidth=1.0))
    return problem, weft.Schedule.of(device=[0, 0, 1, 0], start=[0, 2, 6, 8], finish=[2, 5, 7, 9])


def eventful() -> weft.Trace:
    """Three jobs with a choice, a batch, a copy, losses, a failure and a slowdown."""
    b = weft.WorkflowBuilder("cascade")
    b.task("small", work=2.0, kind="small")
    b.task("large", work=4.0, kind="large")
    b.choice("small", {"unsure": 0.25, "sure": 0.75})
    b.edge("small", "large", data=1.0, when="unsure")
    devices = [
        weft.Device("g0", node="n0", batch=4),
        weft.Device("h0", node="n1", batch=4),
        weft.Device("g1", node="n0"),
    ]
    workload = weft.Workload.of(
        weft.Problem.bind(b.build(), weft.Cluster.of(devices, weft.Links(bandwidth=1.0))),
        arrival=[0.0, 0.0, 1.0],
    )
    changes = [(3.0, 1, np.inf), (4.0, 1, 1.0), (6.0, 0, 2.0)]
    scenario = weft.Scenario.of(
        workload, outcome=[0, 0, 1], changes=changes, cancel=[np.inf, np.inf, 5.0]
    )
    # job, task, device, start, finish, status, batch, copy
    rows = [
        (0, 0, 0, 0, 2, 0, 0, 0),
        (1, 0, 0, 0, 2, 0, 0, 0),
        (0, 1, 0, 2, 6, 0, 1, 0),
        (1, 1, 1, 2.5, 3, 1, 2, 0),
        (2, 0, 2, 4, 5, 2, 3, 0),
        (1, 1, 0, 6, 10, 0, 4, 0),
        (1, 1, 2, 7, 11, 0, 5, 1),
    ]
    table = np.array(rows, float)
    integer = {
        key: table[:, k].astype(np.int64)
        for k, key in ((0, "job"), (1, "task"), (2, "device"), (5, "status"), (6, "batch"))
    }
    return weft.Trace(
        workload=workload,
        scenario=scenario,
        decided=table[:, 3],
        start=table[:, 3],
        finish=table[:, 4],
        copy=table[:, 7].astype(bool),
        job_finish=np.array([6.0, 10.0, np.nan]),
        policy="by hand",
        **integer,
    )


def scripted(board: LiveBoard) -> weft.Trace:
    """Run ten tasks on three devices of which one is lost for a while."""
    costs = np.arange(1.0, 31.0).reshape(10, 3)
    problem = weft.Problem.from_arrays(costs, [[0, 5], [1, 5], [5, 9], [2, 9]])
    future = weft.Scenario.of(weft.Workload.of(problem), changes=[(4.0, 1, np.inf), (9.0, 1, 1.0)])
    backend = FakeBackend(problem.cluster, future)
    functions = dict.fromkeys(problem.workflow.task_names, int)
    trace = weft.run(
        problem.workflow, functions=functions, backend=backend, history=False, live=board
    )
    board.finish("done", trace)
    return trace


def evil_page() -> str:
    """Return the page of a plan in which every name is `EVIL`."""
    workflow = weft.Workflow(
        work=[1, 1], src=[0], dst=[1], data=[1], names=(EVIL, "b"), kinds=(EVIL,), name=EVIL
    )
    problem = weft.Problem.bind(
        workflow, weft.Cluster(speed=[1.0], names=(EVIL,), nodes=(EVIL,), kinds=(EVIL,))
    )
    return gantt_html(
        weft.Schedule.of(device=[0, 0], start=[0, 1], finish=[1, 2]), problem, title=EVIL
    )


class Page(HTMLParser):
    """A page as a browser reads it: elements, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script":
            self.scripts[-1] += data
