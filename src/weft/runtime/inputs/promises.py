"""`weft.task`: a decorator whose calls are promises, which build the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from itertools import count
from math import inf, nan
from operator import attrgetter, getitem
from typing import Any

from weft.arguments import as_float, shown
from weft.errors import InvalidInput, UnknownName
from weft.model.variants import Variant
from weft.registry import closest
from weft.runtime.backends.calls import name_of
from weft.runtime.backends.local.worker import current_device, replaced
from weft.runtime.costs.keys import GPU

OPTIONS = (
    "kind",
    "work",
    "memory",
    "cores",
    "needs",
    "device",
    "gpu",
    "choices",
    "variants",
    "calls",
)
"""Options of a task."""

MOST_NESTED = 300
"""Levels of lists, tuples and dicts in arguments; Python pickles a few more."""


class Task:
    """A decorated function: a call returns a promise, or in a running task the result."""

    function: Callable[..., Any]
    settings: dict[str, Any]
    __name__: str

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.__setstate__((function, dict(options)))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return a promise of the result."""
        return self.function(*args, **kwargs) if current_device() else Promise(self, args, kwargs)

    def options(self, **options: Any) -> Task:
        """Return the same task with other options, for a single call; see `task`.

        Examples
        --------
        >>> area = task(lambda a, b: a * b, work=1.0)
        >>> area.options(work=30.0, memory=8e9)(5, 6)
        <promise of lambda>
        """
        return _task(self, options)

    def __reduce__(self) -> Any:
        """Pickle by name if other processes find this task by its name, else by value.

        The state comes after the object, because a function may refer to its own task.
        """
        name = getattr(self.function, "__qualname__", "")
        if _imported(getattr(self.function, "__module__", None), name) is self:
            return name
        return new_task, (), (self.function, self.settings)

    def __setstate__(self, state: tuple[Callable[..., Any], dict[str, Any]]) -> None:
        """Take function and options."""
        # Attributes of a decorated class belong to its objects, not to the task.
        updated = () if isinstance(state[0], type) else ("__dict__",)
        update_wrapper(self, state[0], updated=updated)
        self.function, self.settings = state
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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.task.function(*args, **kwargs)


_NUMBERS = count()


class Promise:
    """The future result of a call of a `Task`, for other tasks and for `weft.run`."""

    def __init__(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.number = next(_NUMBERS)
        """Its place among all calls of this process."""
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

    def __getitem__(self, key: Any) -> Promise:
        """Return the promise of an item of the result, which is a task of its own.

        Examples
        --------
        >>> load = task(lambda: {"x": [1, 2]})
        >>> load()["x"][0]
        <promise of getitem>
        """
        return Promise(_ITEM, (self, key), {})

    __iter__ = None
    """The number of items is not known before the run."""
    __contains__ = None

    def when(self, branch: str) -> ConditionalPromise:
        """Return the promise for one branch; if it is not taken, the reader gets None."""
        return ConditionalPromise(self, branch)

    def __repr__(self) -> str:
        return f"<promise of {self.task.__name__}>"


_ITEM = Task(getitem, {})


@dataclass(frozen=True, eq=False)
class ConditionalPromise:
    """A promise that holds if the task takes a branch."""

    promise: Promise
    branch: str


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a function: its calls build a graph that `weft.run` executes.

    Anything that can be called will do: `weft.task(np.linalg.norm)`, a method, a lambda, a partial.

    Options, also for one call, as in `f.options(work=3, device="gpu")(x)`:

    - kind: calls of one kind share their measurements; by default those of one function
    - work: units of work; used until the function has been measured
    - memory: bytes the task needs on its device, or takes of its node's capacity
    - cores: processor cores the task needs on its device, or takes of its node's capacity
    - needs: capacity of a node -> amount that the task takes while it runs, as {"licence": 1}
    - device: name or kind of the device the task must run on
    - gpu: True: it must run on a device with "gpu" or "cuda" in its name or kind
    - choices: label -> probability; the function returns the label of the branch it takes, or
      `Chosen(label, value)`
    - variants: a list of `weft.Variant`, of which the plan chooses one
    - calls: variant -> the function that runs it; the decorated one runs all others

    Examples
    --------
    >>> @task
    ... def double(x):
    ...     return 2 * x
    >>> double(double(3))
    <promise of double>
    """
    return _task(function, options) if function is not None else lambda f: _task(f, options)


def _task(function: Any, options: Mapping[str, Any]) -> Task:
    for name in options:
        if name not in OPTIONS:
            raise UnknownName(f"unknown option '{name}' of a task{closest(name, OPTIONS)}")
    if isinstance(function, Task):
        return Task(function.function, {**function.settings, **options})
    if not callable(function):
        raise InvalidInput(f"weft.task needs a function; not a {type(function).__name__}")
    return Task(function, options)


def number_of(options: Mapping[str, Any], name: str, task: str, default: float) -> float:
    """Return an option that is a number; refuse other values."""
    value = options.get(name, default)
    least = 1 if name == "cores" else 0
    number = as_float(value) if type(value) in (int, float) else nan
    if not least <= number < inf or (name == "cores" and number != int(number)):
        rule = "a whole number, 1 or more" if name == "cores" else "a finite number, zero or more"
        raise InvalidInput(f"{name} of task '{task}' is {shown(value)}; it must be {rule}")
    return number


def needs_of(options: Mapping[str, Any], task: str) -> dict[str, float]:
    """Return the amounts of capacities that a task takes."""
    given = _dict_in(options, "needs", task, "such as {'licence': 1}")
    return {str(name): number_of(given, name, task, 0.0) for name in given}


def calls_of(options: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """Return the functions of the variants of a task."""
    return _dict_in(options, "calls", task, "variant -> function")


def _dict_in(options: Mapping[str, Any], name: str, task: str, form: str) -> Mapping[str, Any]:
    given = options.get(name)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} of task '{task}' is {shown(given)}; it must be a dict, {form}")
    return given


def kind_of(options: Mapping[str, Any], task: str, default: str) -> str:
    """Return the kind of a task."""
    given = options.get("kind")
    if given is None:
        return default
    if not isinstance(given, str):
        raise InvalidInput(f"kind of task '{task}' is {shown(given)}; it must be a text")
    return given


def variants_in(options: Mapping[str, Any], task: str) -> tuple[Variant, ...]:
    """Return the variants of a task."""
    given = options.get("variants")
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or not all(isinstance(x, Variant) for x in given):
        raise InvalidInput(
            f"variants of task '{task}' is {shown(given)}; it must be a list of weft.Variant"
        )
    return tuple(given)


def device_of(options: Mapping[str, Any], task: str) -> str:
    """Return the device a task needs; empty: any."""
    device, gpu = options.get("device", ""), options.get("gpu", False)
    if not isinstance(device, str) or not isinstance(gpu, bool | int):
        raise InvalidInput(
            f"task '{task}' has device={device!r} and gpu={gpu!r}; they must be the name or kind "
            "of a device, and True or False"
        )
    return device or (GPU if gpu else "")


def others_in(what: Any) -> Iterator[Any]:
    """Return the values that are not promises, alone or in lists, tuples and dicts."""
    return (value for value in _leaves(what) if not isinstance(value, Promise))


def _leaves(what: Any) -> Iterator[Any]:
    """Return the values in lists, tuples and dicts, in order; refuse cycles.

    Without recursion: a list that contains itself would exceed Python's limit.
    """
    path, stack = [0], [iter((what,))]
    while stack:
        for value in stack[-1]:
            if type(value) not in (list, tuple, dict):
                yield value
                continue
            _refuse_endless(value, path)
            path.append(id(value))
            stack.append(iter(value.values() if type(value) is dict else value))
            break
        else:
            stack.pop()
            path.pop()


def _refuse_endless(value: Any, path: list[int]) -> None:
    kind = type(value).__name__
    if id(value) in path:
        raise InvalidInput(f"a {kind} given to a task or to weft.run contains itself; remove it")
    if len(path) > MOST_NESTED:
        raise InvalidInput(
            f"a {kind} given to a task or to weft.run is nested deeper than {MOST_NESTED} levels; "
            "give a flat one"
        )


def outcomes_in(shape: Any) -> Any:
    """Return the results of promises in their shape, None where there is none."""
    return replaced(shape, lambda promise: promise.outcome[0] if promise.outcome else None)


def promised_in(value: Any) -> Iterator[tuple[Promise, str | None]]:
    """Return the promises in a value, each with its branch, if it has one."""
    for found in _leaves(value):
        if isinstance(found, Promise):
            yield found, None
        elif isinstance(found, ConditionalPromise):
            yield found.promise, found.branch
