"""The table of generators, and `generate`: a workflow by name, size and seed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from weft.arguments import whole
from weft.errors import InvalidInput
from weft.generators.ccr import scale_ccr
from weft.generators.machines.clusters import gpu_cluster
from weft.generators.sketch import Sketch
from weft.model import Cluster, Problem, Workflow
from weft.registry import Entry, Registry, reject_unknown
from weft.typed import typed

P = ParamSpec("P")

GENERATORS: Registry[Workflow] = Registry("generator", listing="weft list generators")

_SIZE: dict[str, str] = {}
"""Generator -> the option that makes it larger."""

_ESTIMATE: dict[str, Callable[..., int]] = {}
"""Generator -> estimate of the tasks (or edges, if there are more) that its options make."""

MAX_TASKS = 5_000_000
"""The most tasks that `generate` makes; the variable WEFT_MAX_TASKS raises it."""


def register_generator(
    name: str, *, size: str, estimate: Callable[..., int]
) -> Callable[[Callable[P, Workflow]], Callable[P, Workflow]]:
    """Register a generator (a decorator).

    `size` is the option that sets its size. `estimate` takes some of the options and returns the
    approximate number of tasks, so that a size which exhausts memory is refused first.
    Options that the generator does not have are refused with the closest one, also where it is
    called directly.
    """
    _SIZE[name], _ESTIMATE[name] = size, estimate

    def enter(draw: Callable[P, Workflow]) -> Callable[P, Workflow]:
        make = typed(draw)
        GENERATORS.register(name)(make)
        return make

    return enter


def register_sketch(
    name: str,
    *,
    size: str,
    estimate: Callable[..., int],
    sigma: float = 0.5,
    sketch: Callable[[str], Sketch] = Sketch,
) -> Callable[[Callable[..., None]], Callable[..., Workflow]]:
    """Register a generator that adds tasks and edges to a sketch (a decorator).

    The sketch is the first argument of the function. The generator makes the sketch itself. Its
    options are those of the function, then `sigma`, the standard deviation of the logarithm of
    sizes, with the default given here, and `seed`.
    """

    def enter(draw: Callable[..., None]) -> Callable[..., Workflow]:
        @wraps(draw)
        def make(*, sigma: float = sigma, seed: int = 0, **options: Any) -> Workflow:
            empty = sketch(name)
            draw(empty, **options)
            return empty.drawn(sigma=sigma, seed=seed)

        _, *own = inspect.signature(draw).parameters.values()
        *more, _ = inspect.signature(make, follow_wrapped=False).parameters.values()
        shown = inspect.Signature([*own, *more])
        make.__signature__ = shown  # type: ignore[attr-defined]  # functions have attributes
        return register_generator(name, size=size, estimate=estimate)(make)

    return enter


def extends(
    base: Callable[..., Workflow], **defaults: Any
) -> Callable[[Callable[..., Workflow]], Callable[..., Workflow]]:
    """Give a generator with ``**options`` those of another one, with these defaults."""

    def extend(draw: Callable[..., Workflow]) -> Callable[..., Workflow]:
        *own, _ = inspect.signature(draw).parameters.values()
        named = {p.name for p in own}
        more = (p for p in inspect.signature(base).parameters.values() if p.name not in named)
        changed = (p.replace(default=defaults.get(p.name, p.default)) for p in more)
        signature = inspect.Signature([*own, *changed])

        @wraps(draw)
        def make(**options: Any) -> Workflow:
            reject_unknown(options, signature.parameters, draw.__qualname__)  # not those of `base`
            return draw(**defaults | options)

        make.__signature__ = signature  # type: ignore[attr-defined]  # functions have attributes
        return make

    return extend


@typed
def generator_options(name: str) -> dict[str, Any]:
    """Return the options of a generator and their defaults, as `generate` takes them.

    Examples
    --------
    >>> generator_options("bag")
    {'tasks': 100, 'work': 1.0, 'sigma': 0.5, 'ccr': None}
    """
    parameters = inspect.signature(GENERATORS.factory(name)).parameters
    own = {p.name: p.default for p in parameters.values() if p.name != "seed"}
    return {**own, **{key: None for key in ("ccr", "tasks") if key not in own}}


@typed
def generate(name: str, *, seed: int = 0, **options: Any) -> Workflow:
    """Make a workflow by name.

    Besides its own options every generator takes `tasks`, the most tasks it may have (it becomes as
    large as its shape allows), and `ccr`, the communication to computation ratio on devices of
    speed 1 and links of 1 GB/s.

    Examples
    --------
    >>> generate("cholesky", tiles=4).n, generate("cholesky", tasks=100).n
    (20, 84)
    >>> generate("fork_join", widht=3)
    Traceback (most recent call last):
    ...
    weft.errors.UnknownName: generator 'fork_join' has no option 'widht'; did you mean 'width'?
    """
    reject_unknown(options, (*generator_options(name), "seed"), f"generator '{name}'")
    seed = whole(seed, "seed", least=0)
    make = GENERATORS.factory(name)
    own = inspect.signature(make).parameters
    extra = {key: options.pop(key, None) for key in ("ccr", "tasks") if key not in own}
    if extra.get("tasks") is not None:
        tasks = whole(extra["tasks"], "tasks")
        refuse_huge(tasks, "a workflow")
        options = {**options, _SIZE[name]: _largest_size(name, tasks, options)}
    refuse_huge(estimated_tasks(name, options), f"generator '{name}' with these options")
    workflow = make(seed=seed, **options)
    return workflow if extra.get("ccr") is None else scale_ccr(workflow, extra["ccr"])


@typed
def generate_problem(
    name: str, cluster: Cluster | str, *, seed: int = 0, ccr: float | None = None, **options: Any
) -> Problem:
    """Make a workflow by name and bind it to a cluster, e.g. ``"4xV100+2xT4"``.

    With `ccr`, or where the generator has a CCR of its own, the ratio holds on this very cluster.

    Examples
    --------
    >>> problem = generate_problem("montage", "4xV100+2xT4", tasks=50)
    >>> problem.n, problem.p
    (48, 6)
    """
    machines = gpu_cluster(cluster) if isinstance(cluster, str) else cluster
    workflow = generate(name, seed=seed, **options)
    wanted = generator_options(name)["ccr"] if ccr is None else ccr
    return Problem.bind(
        workflow if wanted is None else scale_ccr(workflow, wanted, machines), machines
    )


def estimated_tasks(name: str, options: Mapping[str, Any]) -> int:
    """Return the approximate number of tasks; options that are no numbers count as 1.

    Examples
    --------
    >>> estimated_tasks("cholesky", {"tiles": 100_000_000})
    166666671666666700000000
    """
    defaults, estimate = generator_options(name), _ESTIMATE[name]
    given = {key: options.get(key, defaults[key]) for key in inspect.signature(estimate).parameters}
    return estimate(**{key: _positive(value) for key, value in given.items()})


def _positive(value: object) -> int:
    return max(1, int(value.__index__())) if hasattr(value, "__index__") else 1


def refuse_huge(tasks: int, what: str) -> None:
    """Refuse more tasks than WEFT_MAX_TASKS, before memory is taken."""
    text = os.environ.get("WEFT_MAX_TASKS", "").strip() or str(MAX_TASKS)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput(f"WEFT_MAX_TASKS is {text[:60]!r}; it must be a whole number")
    if tasks > int(text):
        many = f"about {tasks}" if tasks < 10**15 else "more than 1e15"
        raise InvalidInput(
            f"{what} has {many} tasks or edges; at most {text} are made; raise the limit "
            "with WEFT_MAX_TASKS"
        )


def tree_size(depth: int, arity: int) -> int:
    """Return the tasks of a full tree, or a number beyond any limit where it is deep."""
    if arity == 1:
        return depth
    return 10**18 if depth > 60 else (arity**depth - 1) // (arity - 1)


def _largest_size(name: str, tasks: int, options: dict[str, Any]) -> int:
    """Return the largest size with at most `tasks` tasks, by doubling and bisection."""
    if _SIZE[name] in options:
        raise InvalidInput(f"give generator '{name}' either tasks or {_SIZE[name]}, not both")

    def count(size: int) -> int:
        estimated = estimated_tasks(name, {**options, _SIZE[name]: size})
        if estimated > 4 * max(tasks, 1000):
            return estimated
        return GENERATORS.create(name, **options, **{_SIZE[name]: size}).n

    low = next((size for size in (1, 2) if _exists(count, size)), 2)
    if count(low) > tasks:
        raise InvalidInput(f"tasks is {tasks}, but the smallest '{name}' has {count(low)} tasks")
    high = low + 1
    while count(high) <= tasks:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= tasks else (low, middle)
    return low


def _exists(count: Callable[[int], int], size: int) -> bool:
    try:
        count(size)
    except InvalidInput:
        return False
    return True


@typed
def list_generators() -> list[Entry]:
    """List all generators: names with `.summary`."""
    return GENERATORS.entries()
