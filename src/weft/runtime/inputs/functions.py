"""Applications from workflows with functions, promises and networkx graphs.

Decorated functions make the promises.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, TypeVar

from weft.errors import InvalidInput, UnknownName
from weft.model import Workflow, WorkflowBuilder
from weft.model.variants import Variant, variants_by_task
from weft.registry import closest
from weft.runtime.backends.calls import name_of
from weft.runtime.backends.local.worker import current_device, replaced
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.costs.keys import CostKey, argument_sizes, function_identity
from weft.runtime.inputs.commands import function_of
from weft.runtime.inputs.promises import (
    Body,
    ConditionalPromise,
    Promise,
    Task,
    calls_of,
    device_of,
    kind_of,
    needs_of,
    number_of,
    others_in,
    outcomes_in,
    promised_in,
    variants_in,
)
from weft.runtime.inputs.signatures import Signatures
from weft.typed import typed_dataclass

T = TypeVar("T", bound=Hashable)

Function = Callable[..., Any] | Sequence[str]
"""A function, or a command as [program, argument, ...]."""

Functions = Mapping[str, Function | Mapping[str, Function]]
"""Task or kind -> its function; or, for tasks with variants, variant -> function."""


@typed_dataclass(frozen=True, eq=False)
class Application:
    """A workflow and the call of each task.

    Attributes
    ----------
    wanted : tasks whose results are returned
    collect : converts the results (task name -> value) to those that are returned
    shape : the promises as they were given, alone or in lists, tuples and dicts
    promised : identity of each promise in `shape` -> its task number
    functions : per task, the name of its measurements; empty: the kinds of the workflow
    devices : per task, name or kind of the device it needs ("": any); empty: no task needs one
    ways : task -> variant -> its call, for tasks with variants that call other functions
    called : per task, a number that grows in the order of the user's calls; empty: it is not known
    """

    workflow: Workflow
    calls: tuple[Call, ...]
    wanted: tuple[int, ...]
    collect: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    shape: Any = None
    promised: Mapping[int, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ways: Mapping[int, Mapping[str, Call]] = field(default_factory=dict)
    called: tuple[int, ...] = ()

    @cached_property
    def keys(self) -> list[CostKey]:
        """The key of each task in the history."""
        kinds = self.functions or [self.workflow.kinds[k] for k in self.workflow.kind.tolist()]
        made: dict[tuple[str, int], CostKey] = {}
        for kind, call in zip(kinds, self.calls, strict=True):
            if (kind, id(call)) not in made:
                made[kind, id(call)] = CostKey(kind, argument_sizes(call.args, call.kwargs))
        return [made[kind, id(call)] for kind, call in zip(kinds, self.calls, strict=True)]

    def deliver(self, results: Mapping[str, Any]) -> Any:
        """Store results in their promises; return them in the shape of the promises.

        Missing results are None.
        """
        if self.shape is None:
            return results
        for promise, _ in promised_in(self.shape):
            name = self.workflow.task_name(self.promised[id(promise)])
            promise.outcome = (results[name],) if name in results else ()
        return outcomes_in(self.shape)


def application_of(what: Any, functions: Functions | None = None) -> Application:
    """Make an application of a workflow with functions, promises, Dask or a graph."""
    if isinstance(what, Application):
        return what
    if isinstance(what, Workflow):
        if functions is None:
            raise InvalidInput(
                f"workflow '{what.name}' has no functions; give functions={{task: function}}"
            )
        return from_functions(what, functions)
    if functions is not None:
        raise InvalidInput(
            f"functions are given for a {type(what).__name__}; only a Workflow needs them"
        )
    others = [type(x).__name__ for x in others_in(what)]
    if not others and any(True for _ in promised_in(what)):
        return from_promises(what)
    collections = list(what) if isinstance(what, list | tuple) else [what]
    if collections and all(hasattr(type(x), "__dask_graph__") for x in collections):
        dask_graph = import_module("weft.runtime.inputs.dask_graph")
        made: Application = dask_graph.from_collections(collections)
        return made
    if hasattr(what, "nodes") and hasattr(what, "edges"):
        return from_networkx(what)
    if isinstance(what, Task):
        raise InvalidInput(
            f"weft runs calls of functions; '{what.__name__}' is a function: call it first"
        )
    known = "a Workflow with functions, calls of @weft.task, Dask collections, or a networkx graph"
    holds = ""
    if type(what) in (list, tuple, dict):
        holds = f" that holds a value of type {others[0]}" if others else " without any of them"
    plain = ""
    if current_device():
        plain = "; inside a task, calls of @weft.task run at once and need no weft.run"
    raise InvalidInput(f"weft runs {known}; not a {type(what).__name__}{holds}{plain}")


def from_functions(workflow: Workflow, functions: Functions) -> Application:
    """Bind each task to the function or command of its name or kind.

    A function receives the parents' results. A task with variants may have a function for each.

    Examples
    --------
    >>> w = Workflow(work=[1, 1], src=[0], dst=[1], data=[0], names=("load", "show"))
    >>> from_functions(w, {"load": dict, "show": len}).calls[1].args
    (Input(edge=0),)
    """
    kinds = [workflow.kinds[k] for k in workflow.kind.tolist()]
    known = [*workflow.task_names, *workflow.kinds]
    for name in functions:
        if name not in known:
            raise UnknownName(
                f"'{name}' is no task or kind of workflow '{workflow.name}'{closest(name, known)}"
            )
    made = {
        name: {way: function_of(one, f"{name}, {way}") for way, one in given.items()}
        if isinstance(given, Mapping)
        else function_of(given, name)
        for name, given in functions.items()
    }
    shared: dict[tuple[int, int], Call] = {}
    """Identity of a function and number of inputs -> the call."""
    signatures = Signatures()

    def call(task: str, function: Callable[..., Any], parents: int) -> Call:
        shape = (id(function), parents)
        if shape not in shared:
            body = function.function if isinstance(function, Task) else function
            given = f"the results of its parents ({parents})" if parents else "no arguments"
            signatures.refuse_misfit(task, body, parents, (), given)
            shared[shape] = Call(function, tuple(Input(k) for k in range(parents)))
        return shared[shape]

    calls, ways, variants = [], {}, variants_by_task(workflow)
    for task, (name, kind) in enumerate(zip(workflow.task_names, kinds, strict=True)):
        function = made.get(name, made.get(kind))
        if function is None:
            raise InvalidInput(
                f"task '{name}' (kind '{kind}') of workflow '{workflow.name}' has no function; "
                "give one by either name"
            )
        parents = int(workflow.pred_ptr[task + 1] - workflow.pred_ptr[task])
        if isinstance(function, Mapping):
            _check_ways(name, function, variants.get(task, ()), whole=True)
            ways[task] = {way: call(name, one, parents) for way, one in function.items()}
            function = next(iter(function.values()))
        calls.append(call(name, function, parents))
    return Application(workflow, tuple(calls), _sinks(workflow), ways=ways)


def _check_ways(
    task: str, functions: Mapping[str, Any], variants: Sequence[Variant], *, whole: bool
) -> None:
    """Refuse functions of unknown variants; with `whole`, variants without function."""
    known = [way.name for way in variants]
    for name in functions:
        if name not in known:
            raise UnknownName(
                f"task '{task}' has a function for variant '{name}', and no such "
                f"variant{closest(str(name), known)}"
            )
    missing = [name for name in known if name not in functions]
    if whole and (missing or not known):
        raise InvalidInput(f"variant '{missing[0]}' of task '{task}' has no function")


def from_networkx(graph: Any) -> Application:
    """Make an application of a directed networkx graph.

    Nodes have a ``function`` and may have ``work``, ``kind``, ``memory``, ``cores`` and ``needs``;
    edges may have ``data`` (bytes). Functions receive the results of their predecessors in the
    order of the graph's nodes.
    """
    builder = WorkflowBuilder(str(getattr(graph, "name", "") or "graph"))
    names = {node: str(node) for node in graph.nodes}
    functions: dict[str, Callable[..., Any]] = {}
    named: list[str] = []
    for node, facts in graph.nodes(data=True):
        if not callable(facts.get("function")):
            raise InvalidInput(
                f"node '{node}' has no function: graph.add_node({node!r}, function=...)"
            )
        functions[names[node]] = facts["function"]
        kind = str(facts.get("kind", name_of(facts["function"])))
        named.append(str(facts.get("kind", function_identity(facts["function"]))))
        builder.task(
            names[node],
            work=float(facts.get("work", 0.0)),
            kind=kind,
            memory=float(facts.get("memory", 0.0)),
            cores=int(number_of(facts, "cores", names[node], 1)),
            needs=needs_of(facts, names[node]),
        )
    for u, v, facts in graph.edges(data=True):
        builder.edge(names[u], names[v], data=float(facts.get("data", 0.0)))
    return replace(from_functions(builder.build(), functions), functions=tuple(named))


# -- promises -----------------------------------------------------------------


def from_promises(what: Any) -> Application:
    """Build the graph of promises: a task per call, named after its function.

    They are given alone, or in lists, tuples and dicts.
    """
    promises = [promise for promise, _ in promised_in(what)]
    order = in_order(promises, _inputs)
    number = {id(p): k for k, p in enumerate(order)}
    counts: dict[str, int] = {}
    owners: dict[str, str] = {}
    """Kind -> the function it belongs to: functions of one name have kinds of their own."""
    names, functions, devices = [], [], []
    variants: dict[str, tuple[Variant, ...]] = {}
    builder = WorkflowBuilder(promises[0].task.__name__)
    for promise in order:
        options, name = promise.task.settings, promise.task.__name__
        counts[name] = counts.get(name, -1) + 1
        names.append(f"{name}-{counts[name]}")
        functions.append(kind_of(options, name, function_identity(promise.task.function)))
        devices.append(device_of(options, names[-1]))
        shown = kind_of(options, name, name)
        kind = shown if owners.setdefault(shown, functions[-1]) == functions[-1] else functions[-1]
        builder.task(
            names[-1],
            kind=kind,
            work=number_of(options, "work", names[-1], 0.0),
            memory=number_of(options, "memory", names[-1], 0.0),
            cores=int(number_of(options, "cores", names[-1], 1)),
            needs=needs_of(options, names[-1]),
        )
        if "choices" in options:
            builder.choice(names[-1], options["choices"])
        if found := variants_in(options, names[-1]):
            variants[names[-1]] = found
    calls = []
    bodies: dict[int, Body] = {}  # one per task, so that each function is pickled once
    ways: dict[int, dict[str, Call]] = {}
    signatures = Signatures()
    for k, promise in enumerate(order):
        needs = _needs(promise, number, names[k])
        for parent, branch in sorted(needs.items()):
            builder.edge(names[parent], names[k], when=branch)
        slots = {parent: Input(e) for e, parent in enumerate(sorted(needs))}
        args, kwargs = replaced((promise.args, promise.kwargs), partial(_slot, number, slots))
        signatures.refuse_misfit(names[k], promise.task.function, len(args), kwargs)
        body = bodies.setdefault(id(promise.task), Body(promise.task))
        calls.append(Call(body, args, kwargs))
        others = calls_of(promise.task.settings, names[k])
        _check_ways(names[k], others, variants.get(names[k], ()), whole=False)
        for way, function in others.items():
            signatures.refuse_misfit(names[k], function, len(args), kwargs)
            other = bodies.setdefault(id(function), Body(Task(function, {})))
            ways.setdefault(k, {})[way] = Call(other, args, kwargs)
    promised = {id(p): number[id(p)] for p in promises}
    wanted = tuple(dict.fromkeys(promised.values()))
    workflow = builder.build()
    if variants:
        workflow = replace(workflow, variants=variants, choices=workflow.choices)
    return Application(
        workflow,
        tuple(calls),
        wanted,
        shape=what,
        promised=promised,
        functions=tuple(functions),
        devices=tuple(devices) if any(devices) else (),
        ways=ways,
        called=tuple(promise.number for promise in order),
    )


def in_order(goals: Sequence[T], needs: Callable[[T], Sequence[T]]) -> list[T]:
    """Return the goals and all that they need, each after its needs.

    It does not recurse.

    Examples
    --------
    >>> in_order(["c"], {"a": [], "b": ["a"], "c": ["b", "a"]}.__getitem__)
    ['a', 'b', 'c']
    """
    order: list[T] = []
    seen: set[T] = set()
    stack = [(goal, False) for goal in reversed(goals)]
    while stack:
        one, ready = stack.pop()
        if ready:
            order.append(one)
        elif one not in seen:
            seen.add(one)
            stack.append((one, True))
            stack.extend((other, False) for other in reversed(needs(one)))
    return order


def _inputs(promise: Promise) -> list[Promise]:
    return [parent for parent, _ in promised_in((promise.args, promise.kwargs))]


def _needs(promise: Promise, number: Mapping[int, int], name: str) -> dict[int, str | None]:
    needs: dict[int, str | None] = {}
    for parent, branch in promised_in((promise.args, promise.kwargs)):
        k = number[id(parent)]
        if needs.setdefault(k, branch) != branch:
            raise InvalidInput(
                f"task '{name}' needs the same result under two conditions: {needs[k]!r} and "
                f"{branch!r}"
            )
    return needs


def _slot(number: Mapping[int, int], slots: Mapping[int, Input], value: Any) -> Any:
    """Return the input in the place of a promise; any other value as it is."""
    promise = value.promise if isinstance(value, ConditionalPromise) else value
    return slots[number[id(promise)]] if isinstance(promise, Promise) else value


def _sinks(workflow: Workflow) -> tuple[int, ...]:
    return tuple(t for t in range(workflow.n) if workflow.succ_ptr[t] == workflow.succ_ptr[t + 1])
