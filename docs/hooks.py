"""A hook of mkdocs: the reference page lists the public names of each package, read from it."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = re.compile(r"<!-- names: ([\w.]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each marker by one entry per public name; mkdocstrings renders them."""
    return NAMES.sub(lambda m: _entries(m[1]), markdown)


def public_names(package: str) -> list[str]:
    """Return the names of a package's `__all__`, without those that `weft` itself offers."""
    names = getattr(importlib.import_module(package), "__all__", [])
    top = [] if package == "weft" else importlib.import_module("weft").__all__
    return [name for name in names if name not in top and not name.startswith("__")]


def _entries(package: str) -> str:
    found = [_entry(package, name) for name in public_names(package)]
    return "\n".join(found) or _contents(package)


def _entry(package: str, name: str) -> str:
    if _file(package, name) is not None:
        return f"- `{package}.{name}`: {_summary(package, name)}"
    return f"\n::: {package}.{name}\n"


def _file(package: str, name: str) -> Path | None:
    """Return the source of a module of the package, without importing it; it may need an extra."""
    folder = Path(_path(importlib.import_module(package)))
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.exists() and not _defines(folder, name):
            return path
    return None


def _defines(folder: Path, name: str) -> bool:
    """Whether the package imports an object of this name: then the name is not the module."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    stub = folder / "__init__.pyi"
    nodes = list(ast.walk(tree)) + (
        list(ast.walk(ast.parse(stub.read_text(encoding="utf-8")))) if stub.exists() else []
    )
    imported = [a for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names]
    return any((a.asname or a.name) == name for a in imported)


def _path(package: ModuleType) -> str:
    return next(iter(package.__path__))


def _summary(package: str, name: str) -> str:
    path = _file(package, name)
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    return (text or "").split("\n")[0]


def _contents(package: str) -> str:
    """Return the docstring of a package without public names: its table of contents."""
    return importlib.import_module(package).__doc__ or ""
