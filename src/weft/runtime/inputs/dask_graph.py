"""Applications from Dask collections, after Dask's optimisation.

Dask has several forms of graphs. `dask.optimize` and the protocol of collections give the graph in
any of them; Dask's own conversion makes callable nodes with dependencies. This module reads only
that form.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from weft.errors import InvalidInput, MissingExtra, Unsupported
from weft.model import WorkflowBuilder
from weft.runtime.backends.protocol import Call, Input
from weft.runtime.inputs.functions import Application, in_order

Key = Hashable

Part = tuple[str, Any, Any, tuple[Any, ...]]
"""Name of a result, its keys (nested lists), and the function that makes it, with arguments."""


class Node:
    """A node of a Dask graph, pickled as Dask does it (with lambdas)."""

    def __init__(self, node: Any, keys: Sequence[Key]) -> None:
        self.node = node
        self.keys = tuple(keys)

    def __reduce__(self) -> Any:
        """Pickle by value if needed."""
        from distributed.protocol.pickle import dumps

        return _node, (dumps((self.node, self.keys)),)


def _node(data: bytes) -> Node:
    from distributed.protocol.pickle import loads

    return Node(*loads(data))


def evaluate(node: Node, *values: Any) -> Any:
    """Call a node with its inputs."""
    return node.node(dict(zip(node.keys, values, strict=True)))


class ResultAssembler:
    """Function from the results of keys to the values of collections."""

    def __init__(self, parts: Sequence[Part], names: Mapping[Key, str]) -> None:
        self._parts = parts
        self._names = names

    def __call__(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every complete collection."""
        values = {}
        for name, keys, finish, extra in self._parts:
            if all(self._names[key] in results for key in _flat(keys)):
                values[name] = finish(self._nested(keys, results), *extra)
        return values

    def _nested(self, keys: Any, results: Mapping[str, Any]) -> Any:
        if isinstance(keys, list):
            return [self._nested(key, results) for key in keys]
        return results[self._names[keys]]


def from_collections(collections: Sequence[Any]) -> Application:
    """Make an application of Dask collections.

    Results are named "result", or "result-0", "result-1" and so on. Tasks keep their Dask names and
    groups; aliases are left out.

    Examples
    --------
    >>> import dask
    >>> app = from_collections([dask.delayed(max)(dask.delayed(len)("abc"), 2)])
    >>> app.workflow.n, app.collect({app.workflow.task_name(app.wanted[0]): 3})
    (2, {'result': 3})
    """
    dask = _dask()
    optimised = dask.optimize(*collections)
    graph: dict[Key, Any] = {}
    for collection in optimised:
        graph.update(dict(collection.__dask_graph__()))
    single = len(optimised) == 1
    parts = [
        (
            "result" if single else f"result-{k}",
            collection.__dask_keys__(),
            *collection.__dask_postcompute__(),
        )
        for k, collection in enumerate(optimised)
    ]
    return _application(graph, parts)


def from_graph(graph: Any, keys: Any) -> Application:
    """Make an application of a Dask graph.

    Its result is named "result" and has tuples in the shape of `keys`.

    Examples
    --------
    >>> app = from_graph({"x": 1, "y": (max, "x", 2)}, ["y"])
    >>> app.workflow.n, app.collect({"y": 2})
    (1, {'result': (2,)})
    """
    _dask()
    graph = graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph
    return _application(dict(graph), [("result", keys, _as_tuples, ())])


def _as_tuples(nested: Any) -> Any:
    return tuple(_as_tuples(x) for x in nested) if type(nested) is list else nested


def _dask() -> Any:
    try:
        import dask
        import dask._task_spec
    except ImportError as error:
        raise MissingExtra("dask 2025.1 or newer", "dask") from error
    return dask


def _application(graph: Mapping[Key, Any], parts: Sequence[Part]) -> Application:
    from dask._task_spec import Alias, DataNode, convert_legacy_graph
    from dask.utils import key_split

    nodes = convert_legacy_graph(graph)
    _refuse_futures(nodes)
    meant = {key: _meant(key, nodes, Alias) for key in nodes}
    needs = {
        key: [meant[k] for k in sorted(node.dependencies, key=str)]
        for key, node in nodes.items()
        if meant[key] == key
    }
    asked = [key for _, keys, _, _ in parts for key in _flat(keys)]
    inline = _inlined(nodes, needs, {meant[key] for key in asked}, DataNode)
    ordered = in_order([meant[key] for key in asked], needs.__getitem__)
    order = [key for key in ordered if key not in inline]
    if not order:
        raise InvalidInput("the Dask collections have no tasks: there is nothing to run")
    number = {key: k for k, key in enumerate(order)}
    builder = WorkflowBuilder("dask")
    for key in order:
        builder.task(_name(key), kind=key_split(key))
    calls = []
    for key in order:
        parents = sorted({number[k] for k in needs[key] if k not in inline})
        for parent in parents:
            builder.edge(_name(order[parent]), _name(key))
        slot = {order[parent]: Input(e) for e, parent in enumerate(parents)}
        reads = sorted(nodes[key].dependencies, key=str)
        values = [slot[meant[k]] if meant[k] in slot else nodes[meant[k]]({}) for k in reads]
        calls.append(Call(evaluate, (Node(nodes[key], reads), *values)))
    names = {key: _name(meant[key]) for key in asked}
    wanted = tuple(dict.fromkeys(number[meant[key]] for key in asked))
    return Application(builder.build(), tuple(calls), wanted, ResultAssembler(parts, names))


def _name(key: Key) -> str:
    return key if isinstance(key, str) else str(key)


def _flat(keys: Any) -> list[Key]:
    return [key for part in keys for key in _flat(part)] if isinstance(keys, list) else [keys]


def _meant(key: Key, nodes: Mapping[Key, Any], alias: type) -> Key:
    while isinstance(nodes[key], alias):
        key = nodes[key].target
    return key


def _inlined(
    nodes: Mapping[Key, Any], needs: Mapping[Key, Sequence[Key]], asked: set[Key], data: type
) -> set[Key]:
    """Return the data nodes with one reader.

    Those with several stay tasks, sent once per worker.
    """
    readers: dict[Key, int] = {}
    for key in needs:
        for parent in dict.fromkeys(needs[key]):
            readers[parent] = readers.get(parent, 0) + 1
    return {
        key
        for key in needs
        if isinstance(nodes[key], data) and readers.get(key) == 1 and key not in asked
    }


def _refuse_futures(nodes: Mapping[Key, Any]) -> None:
    """Refuse persisted collections, whose tasks are futures or missing."""
    for key, node in nodes.items():
        held = type(getattr(node, "value", None)).__module__.partition(".")[0] == "distributed"
        for lost in (
            [key] if held else sorted((k for k in node.dependencies if k not in nodes), key=str)
        ):
            raise Unsupported(
                f"task '{_name(lost)}' was persisted and is a future now; give weft.run the "
                "collection as it was before"
            )
