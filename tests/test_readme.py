"""The code in the documentation runs, and the reference can be made."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import types
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/getting_started.md",
    "docs/concepts.md",
    "docs/add_a_planner.md",
    "docs/design.md",
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

BLOCKS = [
    pytest.param(code, id=f"{page}:{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall((ROOT / page).read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_code_blocks_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("documentation")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    table = weft.planners.PLANNERS._factories
    known = dict(table)
    try:
        exec(compile(code, "documentation", "exec"), vars(module))
    finally:
        table.clear()
        table.update(known)


@pytest.mark.parametrize("page", sorted([*PAGES, "CONTRIBUTING.md", "docs/simulator.md"]))
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http", "mailto")):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_reference_can_be_made(tmp_path):
    pages = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["main"](tmp_path)
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    functions = [
        name
        for name in weft.__all__
        if name[0] != "_" and name not in ("planners", "policies", "generate")
    ]
    assert [name for name in functions if f"### `{name}`" not in text] == []
    for page in pages:
        for code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if code.startswith("class"):
                ast.parse(code.rstrip() + ": ...")
