"""Calls of every public entry with wrong shapes, numbers out of range and objects of others.

`python -m tests.fuzz.wrong_shapes` prints a line per call: its outcome. Compiled code
checks no index, so a call that is not refused may end the process; the last line then names it.
"""

# ruff: noqa: T201  # it prints
from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import weft
from weft.learn.conditional.env import ConditionalEnv, ConditionalVectorEnv
from weft.learn.workflow.env import WorkflowEnv
from weft.sim.reference import simulate_reference

Case = tuple[str, Callable[[], object]]

SMALL = weft.Problem.from_arrays(
    [[2.0, 1.0], [3.0, 4.0], [1.0, 1.0]], [[0, 1], [0, 2]], [10.0, 20.0], bandwidth=5.0
)
LARGE = weft.Problem.from_arrays(np.ones((20, 6)), [[k, k + 1] for k in range(19)], np.ones(19))
STREAM = "conditional-paper"

WITHOUT_ARRAYS = {
    *("errors", "InvalidInput", "MissingExtra", "Stuck", "UnknownName", "Unsupported", "WeftError"),
    *("list_formats", "list_generators", "list_planners", "list_policies", "__version__"),
    *("load", "load_cluster", "load_recording", "load_workload"),  # files: tests/fuzz
    *("Planner", "Policy", "View", "Setup", "Port", "Trunk", "Topology", "Variant", "Transfers"),
    *("AddDevice", "RemoveDevice", "DeviceSpeed", "Bandwidth", "Latency", "parse_change"),
    *("Attack", "Comparison", "Explanation", "Forecast", "Sizing", "Tornado", "WhatIf"),  # results
    *("Cascade", "CascadeDescription", "Stage", "UnitProcess", "Service", "register_joblib"),
    *("Executor", "get", "task", "generate", "gpu_cluster", "WorkflowBuilder", "Device"),
    *("size", "PlanCache", "compare_explanations"),  # problems and explanations as a whole
}
"""Public names that take neither arrays nor numbers of tasks and devices to compiled code."""


def schedules() -> Iterator[tuple[str, weft.Schedule]]:
    """Schedules that are not for the small problem."""
    times = {"start": [0, 1, 2], "finish": [1, 2, 3]}
    along = np.arange(20.0)
    other = weft.Schedule.of(device=np.arange(20) % 6, start=along, finish=along + 1.0)
    yield "of another problem", other
    for d in (2, 10**6, -1, -(10**6)):
        yield f"on device {d}", weft.Schedule.of(device=[0, d, 1], **times)
    for t in (3, 10**9, -1, -(10**9)):
        yield f"of task {t}", weft.Schedule.of(task=[0, t, 1], device=[0, 0, 1], **times)
    yield "of one task", weft.Schedule.of(device=[0], start=[0], finish=[1])
    yield "with a task twice", weft.Schedule.of(task=[0, 1, 1], device=[0, 0, 1], **times)


def by_schedule(folder: Path) -> Iterator[Case]:
    """Entries that take a schedule or a plan."""
    right = weft.Schedule.of(device=[1, 0, 1], start=[0.0, 3.0, 1.0], finish=[1.0, 6.0, 2.0])
    assert weft.check(SMALL, right) == []
    plan = weft.Plan(SMALL, right, "mine", 0.0)
    for name, s in schedules():
        other = replace(plan, schedule=s)
        whole = name not in ("of one task", "with a task twice")  # rows as such are right
        yield f"simulate, schedule {name}", partial(weft.simulate, SMALL, s)
        yield f"simulate, plan {name}", partial(weft.simulate, SMALL, other)
        yield f"compare, schedule {name}", partial(weft.compare, [SMALL], [s])
        yield f"replan, plan {name}", partial(weft.replan, other, lost="d0")
        yield f"check, schedule {name}", partial(violations, s)
        yield f"run, schedule {name}", partial(run, s)
        if whole:
            yield f"explain, schedule {name}", partial(weft.explain, s, SMALL)
            yield (
                f"save_gantt, schedule {name}",
                partial(weft.save_gantt, s, folder / "x.html", SMALL),
            )
            yield f"forecast, plan {name}", partial(weft.forecast, other)
            yield f"RunState, plan {name}", partial(weft.RunState.before, other)
            yield f"Plan, start {name}", partial(weft.plan, SMALL, "anytime", start=s, iterations=5)
    columns = {"device": np.zeros(1, int), "start": np.zeros(2), "finish": np.ones(5)}
    rest = {"task": np.arange(3), "copy": np.zeros(3, bool)}
    yield "Schedule, columns", partial(weft.Schedule, **columns, **rest)
    yield "replan, longer", partial(weft.replan, plan, longer={10**6: 2.0})
    yield "replan, longer below 0", partial(weft.replan, plan, longer={-(10**6): 2.0})
    yield "whatif, Faster", partial(weft.whatif, SMALL, [weft.Faster("t99", 2.0)])
    yield "tornado, a plan", partial(weft.tornado, plan)


def violations(schedule: weft.Schedule) -> None:
    """Raise if the oracle finds violations, as it must."""
    if weft.check(SMALL, schedule):
        raise weft.InvalidInput("violations")


def run(schedule: weft.Schedule) -> None:
    functions = dict.fromkeys(("t0", "t1", "t2"), print)
    weft.run(SMALL.workflow, functions=functions, policy=schedule, devices=2, history=False)


def by_scenario() -> Iterator[Case]:
    """Entries that take a scenario or a trace."""
    small, large = weft.Workload.of(SMALL), weft.Workload.of(LARGE, arrival=[0.0, 5.0])
    mine, other = weft.Scenario.draw(small), weft.Scenario.draw(large)
    for policy in ("fifo", "heft-replanned"):
        yield (
            f"simulate by {policy}, scenario",
            partial(weft.simulate, SMALL, policy, scenario=other),
        )
        yield (
            f"simulate by {policy}, small scenario",
            partial(weft.simulate, large, policy, scenario=mine),
        )
    wrong = {"outcome": np.zeros(5, int), "factor": np.ones(1), "bias": np.ones((9, 9))}
    wrong |= {"cancel": np.ones(0), "change_device": np.array([99]), "change_time": np.ones(2)}
    for name, column in wrong.items():
        future = replace(other, **{name: column})
        yield f"Scenario, {name}", partial(weft.simulate, large, "fifo", scenario=future)
    rows = {"change_time": np.ones(1), "change_slowdown": np.ones(1)}
    for d in (6, 10**6, -1):
        future = replace(other, change_device=np.array([d]), **rows)
        yield f"Scenario, device {d}", partial(weft.simulate, large, "fifo", scenario=future)
    case = SimpleNamespace(workload=small, scenario=other)
    yield "Scenario, environment", lambda: WorkflowEnv(draw=lambda seed: case).reset(seed=1)
    trace = simulate_reference(large, weft.load_policy("fifo").rule(large), scenario=other)
    yield "check, Trace of another workload", lambda: _raise_if(weft.check(small, trace))
    for name in ("task", "device", "job"):
        for by in (10**6, -(10**6)):
            odd = replace(trace, **{name: getattr(trace, name) + by})
            yield f"check, Trace, {name} {by}", lambda t=odd: _raise_if(weft.check(large, t))
    yield "Workload, template", partial(weft.Workload.of, SMALL, template=[5])
    yield "simulate_stream, template", partial(weft.simulate_stream, SMALL, [(0.0, 99)], "fifo")
    yield "simulate_stream, below 0", partial(weft.simulate_stream, SMALL, [(0.0, -5)], "fifo")


def _raise_if(found: object) -> None:
    if found:
        raise weft.InvalidInput("violations")


class Fixed:
    """A policy that always decides the same."""

    name = "fixed"

    def __init__(self, *decision: int) -> None:
        self.decision = weft.Decision(*decision)

    def begin(self, workload: object, *, seed: int = 0) -> None:
        """Begin."""

    def decide(self, view: object) -> weft.Decision:
        """Decide."""
        return self.decision


def by_decision() -> Iterator[Case]:
    """Decisions, actions and events with numbers out of range."""
    for numbers in ((10**9, 0), (-(10**9), 0), (0, 10**9), (0, -5), (0, 0, 10**9)):
        yield f"Decision {numbers}", partial(weft.simulate, SMALL, Fixed(*numbers))
    for policy in ("conditional-pi4", "index", "rollout"):
        yield f"load_policy {policy}, another stream", partial(weft.simulate, LARGE, policy)
    network = weft.load_policy("conditional-pi4")
    few = (np.zeros(3), np.ones((1, 2), bool), np.ones(1, np.int64), np.ones(1, np.int64))
    yield "load_policy, observation", lambda: network.act(*few)
    vector = ConditionalVectorEnv(3, jobs=5)
    vector.reset(seed=1)
    units = vector.batch.units
    for actions in (np.zeros((1, units)), np.full((3, units), 99), np.full((3, units), -1)):
        yield (
            f"environments, actions {actions.shape} {actions.flat[0]}",
            partial(vector.step, actions),
        )
    one, workflow = ConditionalEnv(jobs=5), WorkflowEnv(tasks=12)
    one.reset(seed=1)
    workflow.reset(seed=1)
    for action in (-(10**7), 10**7, -1):
        yield f"environment, action {action}", partial(workflow.step, action)
        yield f"environment, unit {action}", partial(one.step, np.full(units, action))
    yield from by_event()


def by_event() -> Iterator[Case]:
    """Events of a session."""

    def session() -> tuple[weft.Session, weft.Assignment]:
        made = weft.Session(SMALL.cluster, "fifo", workflows=[SMALL])
        made.arrived(at=0.0)
        return made, made.decide(at=0.0)[0]

    def finished(device: str, tasks: object) -> None:
        wrong = weft.Assignment(device, tasks)  # type: ignore[arg-type]  # any shape
        session()[0].finished(wrong, at=1.0)

    order = session()[1]
    yield "Assignment, device", partial(finished, "none", order.tasks)
    yield "Assignment, job", partial(finished, order.device, ((99, "t0"),))
    yield "Assignment, task", partial(finished, order.device, ((0, "t99"),))
    yield "Session, outcomes", lambda: session()[0].finished(order, [1, 2, 3, 4], at=1.0)
    yield "Session, job", lambda: session()[0].cancelled(10**6)
    yield "Session, device", lambda: session()[0].device_lost("none")
    yield "Session, another cluster", lambda: session()[0].arrived(LARGE, at=1.0)


def by_arrays(folder: Path) -> Iterator[Case]:
    """Arrays of wrong shapes."""
    good = {"durations": [[2.0, 1.0], [3.0, 4.0]], "edges": [[0, 1]], "data": [1.0]}
    wrong = {"durations": [[1.0, 2.0]], "edges": [[0, 5]], "data": [1.0, 2.0]}
    wrong |= {"bandwidth": np.ones((3, 3)), "latency": np.ones((1, 5)), "names": ["a"]}
    wrong |= {"devices": ["x"]}
    for name, value in wrong.items():
        yield f"Problem, {name}", partial(weft.Problem.from_arrays, **{**good, name: value})
    yield "Problem, three axes", partial(weft.Problem.from_arrays, np.ones((2, 2, 2)))
    yield "Problem, no device", partial(weft.Problem.from_arrays, np.ones((2, 0)))
    edge = {"work": [1, 1], "data": [0]}
    for src, dst in (([0], [9]), ([0, 1], [1]), ([0.5], [1]), ([-1], [1])):
        yield f"Workflow, edge {src} {dst}", partial(weft.Workflow, **edge, src=src, dst=dst)
    yield "Workflow, kind", partial(weft.Workflow, **edge, src=[0], dst=[1], kind=[5, -3])
    yield "Links, a matrix", partial(weft.Links, bandwidth=np.ones((5, 5)))
    yield "Cluster, bandwidth", partial(weft.Cluster, speed=[1.0], bandwidth=np.ones((5, 5)))
    yield (
        "plan, Problem of other machines",
        lambda: weft.plan(replace(SMALL, cluster=LARGE.cluster)),
    )
    yield "plan, Problem of other tasks", lambda: weft.plan(replace(SMALL, workflow=LARGE.workflow))
    yield "attack, tasks", partial(weft.attack, "heft", "cpop", tasks=-1, steps=1)
    yield "save, a list", partial(weft.save, [1], folder / "x.json")
    yield "export_onnx, fifo", partial(weft.export_onnx, "fifo", folder / "x.onnx")


def cases(folder: Path) -> list[Case]:
    """Return all of them; each begins with the public name that it is about."""
    return [*by_schedule(folder), *by_scenario(), *by_decision(), *by_arrays(folder)]


def main() -> None:
    """Print a line per call: its name, and the exception that refused it."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, call in cases(Path(folder)):
            if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                continue
            print(name, end=" -> ", flush=True)
            try:
                print("returned", type(call()).__name__, flush=True)
            except weft.WeftError as error:
                print("refused:", " ".join(str(error).split())[:100], flush=True)
            except Exception as error:  # noqa: BLE001  # the very thing that is looked for
                print(type(error).__name__, " ".join(str(error).split())[:100], flush=True)


if __name__ == "__main__":
    main()
