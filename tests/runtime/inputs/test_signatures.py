"""Arguments of tasks that do not fit their functions are refused before a run."""

from __future__ import annotations

from functools import partial, wraps

import networkx as nx
import pytest

import weft
from tests.support.instances import chain
from weft.errors import InvalidInput
from weft.runtime.inputs.functions import application_of


def load(path):
    return path


def join(a, b=None, /, *, sep):
    return sep.join([a, b])


def injected(function):
    """Return a function that gives the first argument itself."""

    @wraps(function)
    def inner(*args, **kwargs):
        return function("given", *args, **kwargs)

    return inner


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ({"one": load, "two": len}, "task 'one' calls 'load' with no arguments: .*'path'"),
        ({"one": dict, "two": join}, r"task 'two' calls 'join' .* parents \(1\): .*'sep'"),
        ({"one": dict, "two": lambda: 0}, "task 'two' calls 'lambda' .*: too many positional"),
        ({"one": weft.task(load), "two": len}, "task 'one' calls 'load'"),
    ],
)
def test_functions_of_a_workflow(functions, why):
    with pytest.raises(InvalidInput, match=why):
        weft.run(chain("one", "two"), functions=functions, backend=None)  # no device starts


def test_nodes_of_a_graph():
    graph = nx.DiGraph()
    graph.add_node("first", function=dict)
    graph.add_node("second", function=partial(join, sep=","))
    graph.add_edge("first", "second")
    assert len(application_of(graph).calls) == 2
    graph.add_node("third", function=load)
    with pytest.raises(InvalidInput, match="task 'third' calls 'load' with no arguments: missing"):
        application_of(graph)


def test_calls_of_tasks():
    text, joined = weft.task(load), weft.task(join)
    application_of(joined(text("a"), text("b"), sep=","))
    for call, why in (
        (text(), "task 'load-0' calls 'load': missing a required argument: 'path'"),
        (text("a", mode="r"), "got an unexpected keyword argument 'mode'"),
        (joined(text("a"), text("b")), "task 'join-0' calls 'join': .*'sep'"),
    ):
        with pytest.raises(InvalidInput, match=why):
            weft.run(call, backend=None)


def test_calls_of_variants():
    ways = [weft.Variant("small", seconds=1.0), weft.Variant("large", seconds=2.0)]
    task = weft.task(load, variants=ways, calls={"large": lambda: 0})
    with pytest.raises(InvalidInput, match="task 'load-0' calls 'lambda': too many positional"):
        application_of(task("a"))


@pytest.mark.parametrize("function", [dict, print, injected(join), max, partial(int, base=2)])
def test_what_cannot_be_known_is_called(function):
    application_of(weft.task(function)("1"))
