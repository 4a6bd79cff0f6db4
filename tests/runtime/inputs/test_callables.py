"""Whatever can be called can be a task, and goes to other processes by name or by value."""

from __future__ import annotations

import math
import pickle
import statistics
import threading
from functools import partial
from operator import add

import cloudpickle
import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from tests.support.instances import chain
from weft.runtime import LocalBackend, TaskFailed
from weft.runtime.inputs.functions import application_of


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return self.factor * x

    def __call__(self, x):
        return self.factor + x


def closure(y):
    def inner(x):
        return x + y

    return inner


@pytest.fixture(scope="module")
def one():
    with LocalBackend(1) as backend:
        yield backend


CALLABLES = {
    "imported": (math.sqrt, 9.0, 3.0, "sqrt"),
    "python": (statistics.mean, [1, 2, 3], 2, "mean"),
    "own": (f.add, 4, 5, "add"),
    "builtin": (len, "abc", 3, "len"),
    "numpy": (np.linalg.norm, [3.0, 4.0], 5.0, "norm"),
    "ufunc": (np.negative, 2.0, -2.0, "negative"),
    "method": (Scale(3).times, 4, 12, "times"),
    "builtin method": ("a-b".split, "-", ["a", "b"], "split"),
    "object": (Scale(3), 4, 7, "Scale"),
    "class": (complex, 2, 2 + 0j, "complex"),
    "partial": (partial(max, 7), 4, 7, "max"),
    "lambda": (lambda x: x * 2, 4, 8, "lambda"),
    "closure": (closure(5), 4, 9, "inner"),
    "task": (f.square, 4, 16, "square"),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_anything_that_can_be_called_is_a_task(one, name):
    function, argument, result, task = CALLABLES[name]
    promise = weft.task(function)(argument)
    assert repr(promise) == f"<promise of {task}>"
    trace = weft.run(promise, backend=one, history=False)
    assert trace.results == {f"{task}-0": result}


def test_a_task_is_pickled_by_name_only_where_it_is_found():
    assert pickle.loads(pickle.dumps(f.square)) is f.square
    again = pickle.loads(pickle.dumps(weft.task(f.add, kind="sum")))
    assert again.function is f.add
    assert again.settings == {"kind": "sum"}


def test_a_task_may_refer_to_itself():
    @weft.task
    def countdown(n):
        return n and countdown.function(n - 1)

    again = cloudpickle.loads(cloudpickle.dumps(countdown))
    assert again.function(3) == 0
    assert again.function.__closure__[0].cell_contents is again


def test_what_cannot_be_called_is_no_task():
    with pytest.raises(weft.InvalidInput, match="needs a function; not a int"):
        weft.task(3)


def test_a_function_that_cannot_be_sent_is_refused(one):
    lock = threading.Lock()
    with pytest.raises(weft.InvalidInput, match=r"function 'lambda' cannot be sent .*lock"):
        weft.run(chain("a"), functions={"a": lambda: lock}, backend=one, history=False)


def test_results_have_the_shape_of_the_promises(one):
    a, b = f.square(2), f.square(3)
    both = {"sum": f.plus(a, b), "parts": [a, (b, a)], "none": []}
    trace = weft.run(both, backend=one, history=False)
    assert trace.value == {"sum": 13, "parts": [4, (9, 4)], "none": []}
    assert (a.result(), both["sum"].result()) == (4, 13)
    assert weft.run(a, backend=one, history=False).value == 4


def test_a_promise_without_a_result_says_so(one):
    inner = f.square(2)
    failed, fine = weft.task(f.raises)(inner), f.square(3)
    with pytest.raises(weft.InvalidInput, match="<promise of square> has no result"):
        fine.result()
    trace = weft.run([failed, fine], backend=one, history=False, on_error="continue")
    assert trace.value == [None, 9]
    with pytest.raises(weft.InvalidInput, match="<promise of raises> has no result"):
        failed.result()


def test_a_promise_is_neither_true_nor_false():
    with pytest.raises(weft.InvalidInput, match="neither true nor false"):
        bool(f.square(2))


def test_items_of_promises_are_promises(one):
    both = weft.task(divmod)(17, 5)
    rows = weft.task(dict)(rows=[1, 2, 3])["rows"]
    shape = {"sum": weft.task(add)(both[0], both[1]), "rest": rows[1:], "item": rows[both[1]]}
    trace = weft.run({**shape, "both": both}, backend=one, history=False)
    assert trace.value == {"sum": 5, "rest": [2, 3], "item": 3, "both": (3, 2)}
    with pytest.raises(TaskFailed, match="KeyError: 'none'"):
        weft.run(weft.task(dict)()["none"], backend=one, history=False)


def test_a_promise_is_no_sequence():
    with pytest.raises(TypeError, match="not iterable"):
        _one, _two = f.square(2)
    with pytest.raises(TypeError, match="not a container"):
        assert 3 in f.square(2)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ([], "not a list without any of them"),
        ({}, "not a dict without any of them"),
        ({"a": 3}, "not a dict that holds a value of type int"),
        ([[f.square(1), "x"]], "not a list that holds a value of type str"),
        (3, "not a int"),
    ],
    ids=str,
)
def test_only_promises_are_run(one, what, words):
    with pytest.raises(weft.InvalidInput, match=f"weft runs .*; {words}$"):
        weft.run(what, backend=one, history=False)


def test_the_order_of_calls_is_kept():
    one = weft.task(f.one)
    earlier = one()
    later = one()
    app = application_of(weft.task(f.add)(later, earlier))
    # The graph is walked from its result, so the call made last comes first there.
    first, second, last = app.called
    assert second < first < last
