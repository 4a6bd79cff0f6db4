"""Applications from workflows with functions, decorated functions and networkx graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from importlib import import_module
from operator import attrgetter
from typing import Any

from weft.errors import InvalidInput, UnknownName
from weft.model import Workflow, WorkflowBuilder
from weft.registry import closest
from weft.runtime.backends.calls import name_of
from weft.runtime.backends.local.worker import current_device
from weft.runtime.backends.protocol import Call, Input


@dataclass(frozen=True, eq=False)
class Application:
    """A workflow and the call of each task.

    Attributes
    ----------
    wanted : tasks whose results are returned
    collect : converts the results (task name -> value) to those that are returned
    shape : the promises as they were given, alone or in lists, tuples and dicts
    promised : task number of each promise in `shape`, by identity
    """

    workflow: Workflow
    calls: tuple[Call, ...]
    wanted: tuple[int, ...]
    collect: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    shape: Any = None
    promised: Mapping[int, int] = field(default_factory=dict)

    def deliver(self, results: Mapping[str, Any]) -> Any:
        """Store results in their promises; return them in the shape of these, None if missing."""
        if self.shape is None:
            return results
        for promise, _ in _promised(self.shape):
            name = self.workflow.task_name(self.promised[id(promise)])
            promise.outcome = (results[name],) if name in results else ()
        return _outcomes(self.shape)


def application_of(
    what: Any, functions: Mapping[str, Callable[..., Any]] | None = None
) -> Application:
    """Make an application of a workflow with functions, promises, Dask collections or a graph."""
    if isinstance(what, Application):
        return what
    if isinstance(what, Workflow):
        if functions is None:
            raise InvalidInput(
                f"workflow '{what.name}' has no functions: give functions={{task or "
                "kind: function}}"
            )
        return from_functions(what, functions)
    if functions is not None:
        raise InvalidInput(
            f"functions are given for a {type(what).__name__}; only a Workflow needs them"
        )
    if _only_promises(what) and any(True for _ in _promised(what)):
        return from_promises(what)
    collections = list(what) if isinstance(what, list | tuple) else [what]
    if collections and all(hasattr(type(x), "__dask_graph__") for x in collections):
        dask_graph = import_module("weft.runtime.inputs.dask_graph")
        return dask_graph.from_collections(collections)  # type: ignore[no-any-return]
    if hasattr(what, "nodes") and hasattr(what, "edges"):
        return from_networkx(what)
    known = "a Workflow with functions, calls of @weft.task, Dask collections, or a networkx graph"
    raise InvalidInput(f"weft runs {known}; not a {type(what).__name__}")


def from_functions(workflow: Workflow, functions: Mapping[str, Callable[..., Any]]) -> Application:
    """Bind each task to the function of its name or kind; it receives the parents' results.

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
    calls = []
    for task, (name, kind) in enumerate(zip(workflow.task_names, kinds, strict=True)):
        function = functions.get(name, functions.get(kind))
        if function is None:
            raise InvalidInput(
                f"task '{name}' (kind '{kind}') of workflow '{workflow.name}' has no function; "
                "give one by either name"
            )
        parents = int(workflow.pred_ptr[task + 1] - workflow.pred_ptr[task])
        calls.append(Call(function, tuple(Input(k) for k in range(parents))))
    return Application(workflow, tuple(calls), _sinks(workflow))


def from_networkx(graph: Any) -> Application:
    """Make an application of a directed networkx graph.

    Nodes have a ``function`` and may have ``work``, ``kind`` and ``memory``; edges may have
    ``data`` (bytes). Functions receive the results of their predecessors in the order of the
    graph's nodes.
    """
    builder = WorkflowBuilder(str(getattr(graph, "name", "") or "graph"))
    names = {node: str(node) for node in graph.nodes}
    functions: dict[str, Callable[..., Any]] = {}
    for node, facts in graph.nodes(data=True):
        if not callable(facts.get("function")):
            raise InvalidInput(
                f"node '{node}' has no function: graph.add_node({node!r}, function=...)"
            )
        functions[names[node]] = facts["function"]
        kind = str(facts.get("kind", name_of(facts["function"])))
        builder.task(
            names[node],
            work=float(facts.get("work", 0.0)),
            kind=kind,
            memory=float(facts.get("memory", 0.0)),
        )
    for u, v, facts in graph.edges(data=True):
        builder.edge(names[u], names[v], data=float(facts.get("data", 0.0)))
    return from_functions(builder.build(), functions)


# -- a decorator that builds the graph ----------------------------------------


class Task:
    """A decorated function: its calls are promises; inside a running task it is plain."""

    function: Callable[..., Any]
    options: dict[str, Any]
    __name__: str

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.__setstate__((function, dict(options)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a promise of the result."""
        return self.function(*args, **kwargs) if current_device() else Promise(self, args, kwargs)

    def __reduce__(self) -> Any:
        """Pickle by name if other processes find this task under it; otherwise by value.

        The state comes after the object, because a function may refer to its own task.
        """
        name = getattr(self.function, "__qualname__", "")
        if _imported(getattr(self.function, "__module__", None), name) is self:
            return name
        return new_task, (), (self.function, self.options)

    def __setstate__(self, state: tuple[Callable[..., Any], dict[str, Any]]) -> None:
        """Take function and options."""
        update_wrapper(self, state[0])
        self.function, self.options = state
        self.__name__ = name_of(self.function)


def new_task() -> Task:
    """Return a task whose state follows."""
    return Task.__new__(Task)


def _imported(module: str | None, name: str) -> Any:
    """Return what other processes import under a name; None: nothing."""
    if module is None or module == "__main__":
        return None
    try:
        return attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError):
        return None


class Body:
    """The function of a `Task`, as workers call it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.__name__ = task.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.task.function(*args, **kwargs)


class Promise:
    """The future result of a call of a `Task`, for other tasks and for `weft.run`."""

    def __init__(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.outcome: tuple[Any, ...] = ()
        """The result, after a run that was given this promise; empty: there is none."""

    def result(self) -> Any:
        """Return the result, after a `weft.run` that was given this promise."""
        if not self.outcome:
            raise InvalidInput(
                f"{self!r} has no result: give it to weft.run first; results of failed tasks, and "
                "of tasks that only other tasks need, are not kept"
            )
        return self.outcome[0]

    def __bool__(self) -> bool:
        """Refuse: the result is not known while the graph is built."""
        raise InvalidInput(
            f"{self!r} is neither true nor false before the run; test its result in a task, or use "
            "choices"
        )

    def when(self, branch: str) -> ConditionalPromise:
        """Return the promise for one branch; if it is not taken, the reader gets None."""
        return ConditionalPromise(self, branch)

    def __repr__(self) -> str:
        return f"<promise of {self.task.__name__}>"


@dataclass(frozen=True, eq=False)
class ConditionalPromise:
    """A promise that holds if the task takes a branch."""

    promise: Promise
    branch: str


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a function: its calls build a graph that `weft.run` executes.

    Anything that can be called will do: `weft.task(np.linalg.norm)`, a method, a lambda, a partial.
    Options: `kind` (calls of one kind have similar costs; default: the function's name), `work`
    (units of work), `memory` (bytes), and `choices` (label -> probability; the function returns the
    label of the branch it takes, or `Chosen(label, value)`).

    Examples
    --------
    >>> @task
    ... def double(x):
    ...     return 2 * x
    >>> double(double(3))
    <promise of double>
    """
    known = ("kind", "work", "memory", "choices")
    for name in options:
        if name not in known:
            raise UnknownName(f"unknown option '{name}' of weft.task{closest(name, known)}")
    return _task(function, options) if function is not None else lambda f: _task(f, options)


def _task(function: Any, options: Mapping[str, Any]) -> Task:
    if isinstance(function, Task):
        return Task(function.function, {**function.options, **options})
    if not callable(function):
        raise InvalidInput(f"weft.task needs a function; not a {type(function).__name__}")
    return Task(function, options)


def from_promises(what: Any) -> Application:
    """Build the graph of promises: a task per call, named after its function.

    They are given alone, or in lists, tuples and dicts.
    """
    promises = [promise for promise, _ in _promised(what)]
    order = _in_order(promises)
    number = {id(p): k for k, p in enumerate(order)}
    counts: dict[str, int] = {}
    names = []
    builder = WorkflowBuilder(promises[0].task.__name__)
    for promise in order:
        options, name = promise.task.options, promise.task.__name__
        counts[name] = counts.get(name, -1) + 1
        names.append(f"{name}-{counts[name]}")
        kind, work, memory = (
            options.get("kind", name),
            float(options.get("work", 0.0)),
            float(options.get("memory", 0.0)),
        )
        builder.task(names[-1], kind=kind, work=work, memory=memory)
        if "choices" in options:
            builder.choice(names[-1], options["choices"])
    calls = []
    bodies: dict[int, Body] = {}  # one per task, so that each function is pickled once
    for k, promise in enumerate(order):
        needs = _needs(promise, number, names[k])
        for parent, branch in sorted(needs.items()):
            builder.edge(names[parent], names[k], when=branch)
        slots = {parent: Input(e) for e, parent in enumerate(sorted(needs))}
        args, kwargs = _replaced((promise.args, promise.kwargs), number, slots)
        body = bodies.setdefault(id(promise.task), Body(promise.task))
        calls.append(Call(body, args, kwargs))
    promised = {id(p): number[id(p)] for p in promises}
    wanted = tuple(dict.fromkeys(promised.values()))
    return Application(builder.build(), tuple(calls), wanted, shape=what, promised=promised)


def _only_promises(what: Any) -> bool:
    if type(what) in (list, tuple, dict):
        return all(_only_promises(x) for x in (what.values() if type(what) is dict else what))
    return isinstance(what, Promise)


def _outcomes(shape: Any) -> Any:
    if type(shape) in (list, tuple):
        return type(shape)(_outcomes(x) for x in shape)
    if type(shape) is dict:
        return {key: _outcomes(x) for key, x in shape.items()}
    return shape.outcome[0] if shape.outcome else None


def _in_order(promises: Sequence[Promise]) -> list[Promise]:
    """Return every promise after those it needs, without recursion."""
    order: list[Promise] = []
    seen: dict[int, Promise] = {}
    stack: list[tuple[Promise, bool]] = [(p, False) for p in reversed(promises)]
    while stack:
        promise, ready = stack.pop()
        if ready:
            order.append(promise)
        elif id(promise) not in seen:
            seen[id(promise)] = promise
            stack.append((promise, True))
            stack.extend(
                (p, False) for p, _ in reversed(list(_promised((promise.args, promise.kwargs))))
            )
    return order


def _promised(value: Any) -> Iterator[tuple[Promise, str | None]]:
    if isinstance(value, Promise):
        yield value, None
    elif isinstance(value, ConditionalPromise):
        yield value.promise, value.branch
    elif type(value) in (list, tuple):
        for v in value:
            yield from _promised(v)
    elif type(value) is dict:
        for v in value.values():
            yield from _promised(v)


def _needs(promise: Promise, number: Mapping[int, int], name: str) -> dict[int, str | None]:
    needs: dict[int, str | None] = {}
    for parent, branch in _promised((promise.args, promise.kwargs)):
        k = number[id(parent)]
        if needs.setdefault(k, branch) != branch:
            raise InvalidInput(
                f"task '{name}' needs the same result under two conditions: {needs[k]!r} and "
                f"{branch!r}"
            )
    return needs


def _replaced(value: Any, number: Mapping[int, int], slots: Mapping[int, Input]) -> Any:
    if isinstance(value, Promise | ConditionalPromise):
        promise = value.promise if isinstance(value, ConditionalPromise) else value
        return slots[number[id(promise)]]
    if type(value) in (list, tuple):
        return type(value)(_replaced(v, number, slots) for v in value)
    if type(value) is dict:
        return {k: _replaced(v, number, slots) for k, v in value.items()}
    return value


def _sinks(workflow: Workflow) -> tuple[int, ...]:
    return tuple(t for t in range(workflow.n) if workflow.succ_ptr[t] == workflow.succ_ptr[t + 1])
