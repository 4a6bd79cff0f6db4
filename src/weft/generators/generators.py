"""The table of generators, and `generate`: a workflow by name, size and seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.errors import InvalidInput
from weft.generators.arguments import whole
from weft.generators.ccr import scale_ccr
from weft.generators.clusters import gpu_cluster
from weft.model import Cluster, Problem, Workflow
from weft.registry import Entry, Registry, reject_unknown

GENERATORS: Registry[Workflow] = Registry("generator")

_SIZE: dict[str, str] = {}
"""Generator -> the option that makes it larger."""


def register_generator(
    name: str, *, size: str
) -> Callable[[Callable[..., Workflow]], Callable[..., Workflow]]:
    """Register a generator (a decorator); `size` is the option that sets its size."""
    _SIZE[name] = size
    return GENERATORS.register(name)


def generator_options(name: str) -> dict[str, Any]:
    """The options of a generator and their defaults, as `generate` takes them.

    Examples
    --------
    >>> generator_options("bag")
    {'tasks': 100, 'work': 1.0, 'sigma': 0.5, 'ccr': None}
    """
    parameters = inspect.signature(GENERATORS.factory(name)).parameters
    own = {p.name: p.default for p in parameters.values() if p.name != "seed"}
    return {**own, **{key: None for key in ("ccr", "tasks") if key not in own}}


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
    reject_unknown(options, list(generator_options(name)), f"generator '{name}'")
    seed = whole(seed, "seed", least=0)
    make = GENERATORS.factory(name)
    own = inspect.signature(make).parameters
    extra = {key: options.pop(key, None) for key in ("ccr", "tasks") if key not in own}
    if extra.get("tasks") is not None:
        options = {
            **options,
            _SIZE[name]: _largest_size(name, whole(extra["tasks"], "tasks"), options),
        }
    workflow = make(seed=seed, **options)
    return workflow if extra.get("ccr") is None else scale_ccr(workflow, extra["ccr"])


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


def _largest_size(name: str, tasks: int, options: dict[str, Any]) -> int:
    """Return the largest size with at most so many tasks, by doubling and bisection."""
    if _SIZE[name] in options:
        raise InvalidInput(f"give generator '{name}' either tasks or {_SIZE[name]}, not both")

    def count(size: int) -> int:
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


def list_generators() -> list[Entry]:
    """List all generators: names with `.summary`.

    Examples
    --------
    >>> "cholesky" in list_generators()
    True
    """
    return GENERATORS.entries()
