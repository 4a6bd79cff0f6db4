"""A sound call of every public function, constructor and method that takes a user's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Any

from networkx import DiGraph

import weft
from weft.formats.native.stream_toml import load_stream
from weft.learn.conditional.env import ConditionalEnv, ConditionalVectorEnv
from weft.learn.workflow.env import WorkflowEnv
from weft.runtime.backends.fake import FakeBackend

PROBLEM = weft.Problem.from_arrays(
    [[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]], [[0, 1], [0, 2]], [1.0, 2.0], bandwidth=1.0
)
STREAM = weft.Workload.of(PROBLEM, arrival=[0.0, 1.0])
SIZED = weft.Problem.bind(
    weft.generate("fork_join"), weft.Cluster(speed=[1.0, 2.0], price=[1.0, 3.0])
)
CLUSTER = weft.gpu_cluster("1xV100+1xT4")
TABLE = {"task": ["a"], "seconds:cpu": [1.0]}
GRAPH = DiGraph()
GRAPH.add_node("a", seconds=1.0)
PAPER, STAGE = load_stream("conditional-paper"), weft.Stage(list)
CASCADE = weft.CascadeDescription(PAPER, dict.fromkeys("ABCDEF", STAGE))

NOT_CALLED = {
    *("Assignment", "Attack", "Comparison", "Decision", "Explanation", "Forecast", "Plan"),
    *("Sizing", "Tornado", "Trace", "Transfers", "View", "WhatIf"),  # results
    *("Planner", "Policy"),  # protocols
    *("errors", "InvalidInput", "MissingExtra", "Stuck", "UnknownName", "Unsupported", "WeftError"),
    *("list_formats", "list_generators", "list_planners", "list_policies", "register_joblib"),
    *("get", "__version__"),  # Dask calls get
}
"""Public names that take no values of users; `tests.fuzz.wrong_shapes` has the columns of some."""

Call = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def calls(folder: Path) -> Iterator[Call]:
    """Sound calls: (name, function, arguments, options that keep it short)."""
    plan, trace = weft.plan(PROBLEM, "heft"), weft.simulate(PROBLEM, "eft")
    why = weft.explain(plan)
    yield "plan", weft.plan, (PROBLEM, "heft"), {}
    yield "plan anytime", weft.plan, (PROBLEM, "anytime"), {"seconds": 0.01}
    yield "replan", weft.replan, (plan,), {"lost": "d0"}
    yield "check", weft.check, (PROBLEM, plan), {}
    yield "simulate", weft.simulate, (PROBLEM, "eft"), {}
    yield "simulate_stream", weft.simulate_stream, (PROBLEM, [(0.0, 0), (9.0, 0)], "eft"), {}
    yield "compare", weft.compare, ([PROBLEM], ["heft", "eft"]), {}
    yield "explain", weft.explain, (plan,), {}
    yield "explain trace", weft.explain, (trace, PROBLEM), {}
    yield "compare_explanations", weft.compare_explanations, (why, why), {}
    yield "whatif", weft.whatif, (PROBLEM, ["remove d0"]), {}
    yield "tornado", weft.tornado, (PROBLEM,), {}
    yield "forecast", weft.forecast, (plan,), {"past": [trace] * 3, "samples": 20}
    yield "generate", weft.generate, ("layered",), {"tasks": 10}
    yield "gpu_cluster", weft.gpu_cluster, ("1xV100",), {}
    yield "load", weft.load, (folder / "nothing.json",), {}
    yield "load_cluster", weft.load_cluster, (folder / "nothing.toml",), {}
    yield "load_workload", weft.load_workload, (folder / "nothing.toml",), {}
    yield "load_recording", weft.load_recording, (folder / "nothing.json",), {}
    yield "load_policy", weft.load_policy, ("eft",), {}
    yield "save", weft.save, (plan, folder / "plan.json"), {}
    yield "save_gantt", weft.save_gantt, (plan, folder / "plan.html"), {}
    yield "Problem.from_arrays", weft.Problem.from_arrays, ([[1.0, 2.0]],), {}
    yield "Problem.bind", weft.Problem.bind, (PROBLEM.workflow, PROBLEM.cluster), {}
    yield "Workload.of", weft.Workload.of, (PROBLEM,), {}
    yield "Scenario.draw", weft.Scenario.draw, (STREAM,), {}
    yield "Scenario.of", weft.Scenario.of, (STREAM,), {}
    yield "Schedule.of", weft.Schedule.of, (), {"device": [0], "start": [0.0], "finish": [1.0]}
    yield "Cluster", weft.Cluster, (), {"speed": [1.0, 2.0]}
    yield "Cluster.host", weft.Cluster.host, (), {"cores": 2}
    yield "Session", weft.Session, (CLUSTER, "eft"), {}
    yield "attack", weft.attack, ("heft", "cpop"), {"runs": 1, "steps": 2}
    yield "size", weft.size, (SIZED,), {"deadline": 100.0}
    yield "run", _run, (PROBLEM.workflow,), {}
    yield "parse_change", weft.parse_change, ("remove d0",), {}
    yield "task", weft.task, (len,), {}
    yield "export_onnx", weft.export_onnx, ("conditional-pi0", folder / "policy.onnx"), {}
    yield from constructors()
    yield from methods(folder)


def constructors() -> Iterator[Call]:
    """Values that users describe, each in the first call that reads it."""
    node = weft.Device("d0")
    for change in (
        *(
            weft.AddDevice(SIZED.cluster.kinds[0]),
            weft.RemoveDevice("d0"),
            weft.DeviceSpeed("d0", 2.0),
        ),
        *(weft.Faster("sync", 2.0), weft.Bandwidth(2.0), weft.Latency(2.0)),
    ):
        kind = type(change)
        given = tuple(getattr(change, f.name) for f in fields(change) if f.default is MISSING)
        yield kind.__name__, then(kind, lambda c: weft.whatif(SIZED, c)), given, {}
    yield "Device", then(weft.Device, lambda d: weft.Cluster.of([d])), ("d0",), {}
    yield "Links", then(weft.Links, lambda x: weft.Cluster.of([node], x)), (), {}
    yield "Setup", then(weft.Setup, lambda s: weft.Device("d", setup={"task": s})), (1.0,), {}
    yield "Setup of a device", then(weft.Setup, _cluster_with), (1.0,), {}
    yield "Port", then(weft.Port, lambda p: _network({"n": p})), (), {}
    yield "Trunk", then(weft.Trunk, lambda x: _network({}, [x])), ("a", "b", 1.0), {}
    yield "Topology", then(weft.Topology, lambda x: x.routes(("n",))), ({"n": weft.Port()},), {}
    yield "Topology.star", weft.Topology.star, (["n"], 1e9), {}
    yield "Topology.racks", weft.Topology.racks, ({"a": ["n"]}, 1e9), {}
    yield "Cluster.of", weft.Cluster.of, ([node],), {}
    yield "Variant", then(weft.Variant, _with_variant), ("wide",), {}
    yield "Workflow", weft.Workflow, ([1.0, 2.0], [0], [1], [0.0]), {}
    yield "Workflow.from_networkx", weft.Workflow.from_networkx, (GRAPH,), {}
    yield "WorkflowBuilder", then(weft.WorkflowBuilder, lambda b: b.build()), (), {}
    yield ("Problem.from_table", weft.Problem.from_table, (TABLE,), {})
    yield "PlanCache", weft.PlanCache, (), {}
    yield "Stage", then(weft.Stage, _cascade), (print,), {}
    yield "UnitProcess", then(weft.UnitProcess, lambda u: _cascade(units={"CPU": u})), (), {}
    yield "CascadeDescription", weft.CascadeDescription, (PAPER, CASCADE.stages), {}
    yield "Executor", then(weft.Executor, lambda x: x.shutdown()), (), {"history": False}
    yield "Service", weft.Service, (FakeBackend(CLUSTER),), {}
    yield "Cascade", then(weft.Cascade, lambda c: c.close()), (CASCADE,), {}


def methods(folder: Path) -> Iterator[Call]:
    """Methods, each of a new object."""
    plan, trace = weft.plan(PROBLEM, "heft"), weft.simulate(PROBLEM, "eft")
    yield "PlanCache.plan", of_new(weft.PlanCache, "plan"), (PROBLEM,), {}
    yield "RunState.before", weft.RunState.before, (plan,), {}
    yield "RunState.during", weft.RunState.during, (plan, trace, 1.0), {}
    yield "WorkflowBuilder.task", of_new(_builder, "task", then="build"), ("c",), {}
    yield "WorkflowBuilder.edge", of_new(_builder, "edge", then="build"), ("a", "b"), {}
    choice = {"yes": 0.5, "no": 0.5}
    yield "WorkflowBuilder.choice", of_new(_builder, "choice", then="build"), ("a", choice), {}
    for verb, given in (("cancelled", (0,)), ("device_lost", ("d0",)), ("slowed", ("d0", 2.0))):
        yield f"Session.{verb}", of_new(_session, verb, then="decide"), given, {}
    yield "Session.arrived", of_new(_session, "arrived", then="decide"), (PROBLEM,), {}
    yield "Session.decide", of_new(_session, "decide"), (), {}
    yield "Session.replace_policy", of_new(_session, "replace_policy"), ("heft",), {}
    yield "Session.save", of_new(_session, "save"), (folder / "session.json",), {}


def environments() -> Iterator[Call]:
    """Environments for learners, which Gymnasium makes by their names."""
    yield "ConditionalEnv", ConditionalEnv, (), {"jobs": 3}
    yield "ConditionalVectorEnv", ConditionalVectorEnv, (2,), {"jobs": 3}
    yield "WorkflowEnv", then(WorkflowEnv, lambda env: env.reset(seed=0)), (), {"tasks": 5}
    yield "ConditionalEnv.step", of_new(_env, "step"), ([0, 0, 0, 0],), {}


def then(make: Callable[..., Any], use: Callable[[Any], object]) -> Callable[..., object]:
    """Return a function with the signature of a constructor that uses what it makes."""

    @wraps(make)
    def call(*given: Any, **options: Any) -> object:
        return use(make(*given, **options))

    return call


def of_new(make: Callable[[], Any], method: str, then: str = "") -> Callable[..., object]:
    """Return a method of an object that is made for each call; `then` names one to call after."""

    @wraps(getattr(make(), method))
    def call(*given: Any, **options: Any) -> object:
        made = make()
        found = getattr(made, method)(*given, **options)
        return getattr(made, then)() if then else found

    return call


def _env() -> ConditionalEnv:
    env = ConditionalEnv(jobs=3)
    env.reset(seed=0)
    return env


@wraps(weft.run)
def _run(*given: Any, **options: Any) -> object:
    functions = dict.fromkeys(PROBLEM.workflow.task_names, int)
    usual = {"functions": functions, "backend": FakeBackend(PROBLEM.cluster), "history": False}
    return weft.run(*given, **{**usual, **options})


def _network(ports: Mapping[str, weft.Port], trunks: Sequence[weft.Trunk] = ()) -> object:
    return weft.Topology(ports, trunks).routes(tuple(ports))


def _cluster_with(setup: weft.Setup) -> object:
    return weft.Cluster.of([weft.Device("d0", setup={"task": setup})])


def _with_variant(variant: weft.Variant) -> object:
    builder = weft.WorkflowBuilder()
    builder.task("a", work=1.0, variants=[variant])
    return weft.plan(weft.Problem.bind(builder.build(), CLUSTER), "heft")


def _cascade(stage: weft.Stage = STAGE, units: Mapping[str, weft.UnitProcess] | None = None) -> Any:
    stages = dict.fromkeys(PAPER.problem.workflow.task_names, stage)
    return weft.CascadeDescription(PAPER, stages, units or {}).devices()


def _builder() -> weft.WorkflowBuilder:
    builder = weft.WorkflowBuilder()
    builder.task("a")
    builder.task("b")
    return builder


def _session() -> weft.Session:
    session = weft.Session(PROBLEM.cluster, "eft")
    session.arrived(PROBLEM, at=0.0)
    return session
