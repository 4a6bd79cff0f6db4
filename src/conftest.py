"""Doctests of modules for packages that are not installed are left out."""

from importlib.util import find_spec

NEEDS = {"ray_serve": ("ray", "grpc", "fastapi"), "litellm_strategy": ("litellm",)}
collect_ignore = [
    f"weft/runtime/routers/{name}.py"
    for name, packages in NEEDS.items()
    if any(find_spec(package) is None for package in packages)
]
if find_spec("airflow") is None:
    collect_ignore.append("airflow_plugin_weft")
