"""Task graphs on machines that differ: plan, simulate, learn, run.

The public names are listed in `__init__.pyi` and load when they are first used, so that
``import weft`` costs numpy and no more.

- `model`: workflows, clusters, problems, schedules and traces; the oracle; explanations
- `formats`, `generators`: files to read and write; graphs, clusters and streams to draw
- `sim`: the simulator, compiled and as its slow reference
- `planners`: a plan beforehand; `policies`: one decision at a time
- `learn`: training of policies; `runtime`: real runs, sessions and services
- `report`: comparisons, statistics, charts and pages; `experiments`: published results repeated
- `cli`: the command `weft`; `__main__` runs it
- `errors`, `registry`, `rng`: exceptions, tables of names, random numbers
- `arguments`, `typed`: checks of options and of their types; `display`: objects in notebooks
- `progress`: callbacks of long work
- `gymnasium_import`: registers the environments once gymnasium is imported

Examples
--------
>>> import weft
>>> problem = weft.Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
>>> plan = weft.plan(problem, "heft")
>>> plan.makespan, weft.check(problem, plan)
(5.0, [])
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import lazy_loader

from weft.gymnasium_import import RegisteringFinder

__version__ = "0.1.0"

_load, _names, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*_public, "__version__"])  # noqa: PLE0605  # read from the stub


if "gymnasium" in sys.modules:
    import_module("weft.learn")
else:
    sys.meta_path.insert(0, RegisteringFinder())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        from weft.registry import closest

        raise AttributeError(f"module 'weft' has no attribute '{name}'{closest(name, __all__)}")
    return _load(name)


def __dir__() -> list[str]:
    return list(__all__)
