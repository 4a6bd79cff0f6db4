"""Write docs/reference/*.md from the docstrings: ``python docs/make_reference.py [FOLDER]``.

The source is read, not imported, so nothing has to be installed and nothing is compiled.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "weft"

PARTS = {
    "weft": "The public names",
    "model": "Pure data: workflows, clusters, problems, workloads, scenarios, schedules, traces; the oracle; metrics",
    "formats": "Reading and writing files",
    "generate": "Workflows, clusters and workloads made by rule",
    "sim": "The simulator",
    "planners": "A plan beforehand",
    "policies": "One decision at a time",
    "learn": "Environments and learners",
    "run": "Real execution",
    "report": "Tables, charts, pages",
    "experiments": "Measurements",
    "cli": "The command line",
}

Named = ast.ClassDef | ast.FunctionDef


def main(folder: Path) -> list[Path]:
    """Write one page a part; return the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {part: text for part in PARTS if (text := page(part))}
    written = []
    for part, text in {**pages, "index": index(list(pages))}.items():
        path = folder / f"{part}.md"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def index(parts: list[str]) -> str:
    lines = ["# Reference", "", "Made from the docstrings by `make docs`.", ""]
    return "\n".join([*lines, *(f"- [{part}]({part}.md): {PARTS[part]}" for part in parts)]) + "\n"


def page(part: str) -> str:
    """One part of the package, file by file."""
    files = sorted(SOURCE.glob("*.py")) if part == "weft" else sorted((SOURCE / part).rglob("*.py"))
    blocks = [block for path in files if (block := file_block(path))]
    return f"# {PARTS[part]}\n\n" + "\n\n".join(blocks) + "\n" if blocks else ""


def file_block(path: Path) -> str:
    """The docstring of a file and its public names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = list(public(tree))
    about = ast.get_docstring(tree) or ""
    if not named and path.name != "__init__.py":
        return ""
    title = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )
    return "\n\n".join([f"## `{title}`", about, *(name_block(node) for node in named)]).rstrip()


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Named]:
    """Classes and functions without a leading underscore and with a docstring."""
    for node in tree.body:
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node)
        ):
            yield node


def name_block(node: Named) -> str:
    """Signature and docstring of a class with its methods, or of a function."""
    if isinstance(node, ast.FunctionDef):
        return f"### `{node.name}`\n\n{signature(node)}\n\n{docstring(node)}"
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    head = (
        f"```python\nclass {node.name}({bases})\n```"
        if bases
        else f"```python\nclass {node.name}\n```"
    )
    members = [
        f"**`{node.name}.{m.name}`** {first_line(m)}"
        for m in public(node)
        if isinstance(m, ast.FunctionDef)
    ]
    return "\n\n".join([f"### `{node.name}`", head, docstring(node), *members])


def signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"```python\n{node.name}({ast.unparse(node.args)}){returns}\n```"


def docstring(node: Named) -> str:
    """The docstring; NumPy sections and examples are laid out as they stand."""
    text = ast.get_docstring(node) or ""
    head, _, rest = text.partition("\n")
    return f"{head}\n\n```text\n{rest.strip()}\n```" if rest.strip() else head


def first_line(node: ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n", maxsplit=1)[0]


if __name__ == "__main__":
    pages = main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
    print(f"{len(pages)} pages in {pages[0].parent}")
