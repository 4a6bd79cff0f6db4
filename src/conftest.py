"""Doctests of decorated functions; none of modules of missing packages."""

import doctest
import inspect
from importlib.util import find_spec

NEEDS = {"ray_serve": ("ray", "grpc", "fastapi"), "litellm_strategy": ("litellm",)}
collect_ignore = [
    f"weft/runtime/routers/{name}.py"
    for name, packages in NEEDS.items()
    if any(find_spec(package) is None for package in packages)
]
if find_spec("airflow") is None:
    collect_ignore.append("airflow_plugin_weft")

_from_module = doctest.DocTestFinder._from_module  # noqa: SLF001  # no public way


def _is_of_module(finder: doctest.DocTestFinder, module: object, found: object) -> bool:
    """Look behind decorators: else doctest sees functions of another module."""
    plain = inspect.unwrap(found) if callable(found) else found
    return bool(_from_module(finder, module, plain))


doctest.DocTestFinder._from_module = _is_of_module  # noqa: SLF001  # no public way
