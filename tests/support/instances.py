"""Problems, workflows and traces that several tests share, drawn ones, and refused files."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import formats
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow, Workload

READERS = {
    weft.Problem: formats.load,
    weft.Workflow: formats.load_workflow,
    weft.Cluster: formats.load_cluster,
    weft.Workload: formats.load_workload,
    weft.Schedule: formats.load_schedule,
    weft.Trace: formats.load_trace,
}


def schedule_of(*rows: tuple[int, int, float, float]) -> weft.Schedule:
    """Return a schedule of rows (task, device, start, finish); later rows of a task copy it."""
    task, device, start, finish = zip(*rows, strict=True)
    copy = [t in task[:row] for row, t in enumerate(task)]
    return weft.Schedule.of(task=task, device=device, start=start, finish=finish, copy=copy)


def topcuoglu() -> weft.Problem:
    """Return the ten tasks of Topcuoglu, Hariri and Wu (2002), figure 2, on three processors."""
    costs = [[14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10]]
    costs += [[13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16]]
    edges = {(0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14}
    edges |= {(1, 7): 19, (1, 8): 16, (2, 6): 23, (3, 7): 27, (3, 8): 23}
    edges |= {(4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11, (8, 9): 13}
    return weft.Problem.from_arrays(costs, list(edges), list(edges.values()), bandwidth=1.0)


def conditional_problem() -> weft.Problem:
    """Return a problem with a choice, durations, kinds and memory."""
    b = weft.WorkflowBuilder("cascade")
    b.task("small", work=1.0, memory=2.0)
    b.task("large", work=10.0, kind="net", durations={"A100": 0.5, "cpu": 9.0})
    b.choice("small", {"unsure": 0.25, "sure": 0.75})
    b.edge("small", "large", data=1e6, when="unsure")
    cluster = weft.Cluster(
        speed=[1.0, 2.0],
        kinds=("cpu", "A100"),
        bandwidth=1e9,
        throughput={"net": [np.nan, 4.0]},
        memory=[4.0, np.inf],
    )
    return weft.Problem.bind(b.build(), cluster)


def cut_trace() -> weft.Trace:
    """Return a trace of two jobs of the conditional problem, one of which was cut short."""
    workload = weft.Workload.of(conditional_problem(), arrival=[0.0, 1.0])
    ints = {key: np.array([0, 1], np.int64) for key in ("job", "device", "batch")}
    zeros = {key: np.zeros(2, np.int64) for key in ("task", "status")}
    clock = {key: np.array([0.0, 1.5]) for key in ("decided", "start", "finish")}
    return weft.Trace(
        workload=workload,
        scenario=weft.Scenario.of(workload, outcome=[0, 1], changes=[(1.0, 0, 2.0)]),
        copy=np.zeros(2, bool),
        job_finish=np.array([1.0, np.nan]),
        eager=True,
        policy="fifo",
        **ints,
        **zeros,
        **clock,
    )


def fan(width=4, kind="add"):
    """Return one -> width x add -> total."""
    b = weft.WorkflowBuilder("fan")
    b.task("one", work=1.0, kind="one")
    b.task("total", work=1.0, kind="total")
    for k in range(width):
        b.task(f"a{k}", work=1.0, kind=kind)
        b.edge("one", f"a{k}")
        b.edge(f"a{k}", "total")
    return b.build()


def chain(*names):
    """Return the tasks in a row, each of its own kind."""
    b = weft.WorkflowBuilder("chain")
    for name in names:
        b.task(name, work=1.0, kind=name)
    for u, v in pairwise(names):
        b.edge(u, v)
    return b.build()


DISTURBED = {"noise": 0.4, "bias": 0.3, "slowdowns": 1.0, "failures": 1.0, "cancellations": 0.2}
"""Options of `simulate` for a scenario in which everything happens."""


def batching_workload(seed: int) -> Workload:
    """Draw one to seven jobs of up to three problems on up to four devices, most of which batch."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    cluster = Cluster(
        speed=rng.uniform(0.5, 2.0, p),
        bandwidth=rng.uniform(1.0, 10.0),
        latency=rng.uniform(0.0, 0.3),
        batch=rng.integers(1, 5, p),
    )
    problems = [Problem.bind(_workflow(rng), cluster) for _ in range(int(rng.integers(1, 4)))]
    jobs = int(rng.integers(1, 8))
    arrival = np.sort(rng.uniform(0.0, 12.0, jobs))
    return Workload.of(problems, arrival=arrival, template=rng.integers(0, len(problems), jobs))


def _workflow(rng: np.random.Generator) -> Workflow:
    n, kinds = int(rng.integers(1, 14)), int(rng.integers(1, 4))
    pairs = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.25]
    return Workflow(
        work=rng.lognormal(0.0, 0.7, n),
        src=[u for u, _ in pairs],
        dst=[v for _, v in pairs],
        data=rng.uniform(0.0, 5.0, len(pairs)),
        kind=rng.integers(0, kinds, n),
        kinds=tuple(f"k{i}" for i in range(kinds)),
    )


def assert_refused(
    path: Path,
    content: str | bytes,
    complaint: str,
    reader: Callable[[Path], object] = formats.load,
) -> None:
    """Write a file and read it: the message is one short line that begins with its path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message
    assert "\n" not in message
    assert len(message) <= 400


def drawn_problem(n: int = 30, p: int = 4, ccr: float = 1.0, seed: int = 0) -> Problem:
    """Draw costs, and two parents of each task among the eight before it."""
    rng = np.random.default_rng(seed)
    edges = np.unique(
        [(int(rng.integers(max(0, v - 8), v)), v) for v in range(1, n) for _ in range(2)], axis=0
    )
    return Problem.from_arrays(
        rng.uniform(1, 9, (n, p)),
        edges,
        rng.uniform(0, 10 * ccr, len(edges)),
        bandwidth=rng.uniform(0.5, 2, (p, p)),
        latency=0.1,
    )
