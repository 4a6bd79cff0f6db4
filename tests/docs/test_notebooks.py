"""The tutorial notebooks run from top to bottom, and their results are shown as HTML or SVG."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/tutorials/notebooks").glob("*.ipynb"))


def run_cell(source: str, names: dict) -> object:
    """Run a cell as a notebook does; return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    )


def test_there_are_four():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict = {"__name__": "__main__"}
    shown = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        value = run_cell("".join(cell["source"]), names)
        for form in ("_repr_html_", "_repr_svg_"):
            if hasattr(value, form):
                shown += len(getattr(value, form)()) > 200
    assert shown >= 2
