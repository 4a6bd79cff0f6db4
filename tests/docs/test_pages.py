"""The documentation: its code runs, its links lead somewhere, its tables are those of the data."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

import weft
from weft.formats.native.stream_toml import load_stream
from weft.planners import PLANNERS
from weft.policies import POLICIES

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (?:import \w|from \S+ import )", re.MULTILINE)
EXTRAS = {"grpc": "routers", "litellm": "routers", "ray": "ray"}
"""Modules of blocks that may be missing where the tests run -> extra of weft."""
SCRIPT = 'if __name__ == "__main__":'
WIDTH = 100


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page, padded so that tracebacks have the lines of the page."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: m.start(1)].count("\n") + m[1] for m in BLOCK.finditer(text)]


def _run_as_script(code: str, folder: Path) -> None:
    """Run a block that starts processes: they import its functions from a file."""
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def _tables_stay():
    """Take back what a page registers."""
    tables = [PLANNERS._factories, POLICIES._factories]
    known = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, known, strict=True):
        table.clear()
        table.update(entries)


@pytest.mark.parametrize("page", [p for p in PAGES if _blocks(p)], ids=_name)
@pytest.mark.usefixtures("_tables_stay")
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_HOME", str(tmp_path))
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "history.sqlite"))
    module = types.ModuleType("documentation")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    missing = []
    for code in _blocks(page):
        if SCRIPT in code:
            _run_as_script(code, tmp_path)
            continue
        try:
            exec(compile(code, _name(page), "exec"), vars(module))
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            missing.append(f"{error.name} (extra: {EXTRAS[error.name]})")
    if missing:
        pytest.skip(f"the blocks that need these did not run: {', '.join(missing)}")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_is_fenced(page):
    """Indented blocks would not run in the test above."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert INDENTED.findall(text) == []


def test_the_toml_of_the_pages_loads(tmp_path):
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    file = tmp_path / "example.toml"
    loaded = []
    for block in blocks:
        file.write_text(block, encoding="utf-8")
        is_cluster = "[[devices]]" in block
        loaded.append((weft.load_cluster if is_cluster else load_stream)(file).name)
    assert sorted(loaded) == ["inspection", "rented", "two nodes"]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http", "mailto")):
            assert (page.parent / target).exists(), f"{_name(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_prose_is_wrapped(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    # Rows of tables cannot be wrapped; neither can a long link.
    wide = [
        f"{_name(page)}:{number}"
        for number, line in enumerate(lines, 1)
        if len(line) > WIDTH and not line.startswith(("|", "[!", "<"))
    ]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_tables_are_those_of_the_data(page):
    filled = runpy.run_path(str(ROOT / "docs" / "make_results.py"))["filled"]
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "run: make docs"


def test_the_reference_has_every_public_name():
    hook = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["on_page_markdown"]
    text = hook((ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))
    missing = [name for name in weft.__all__ if f"::: weft.{name}\n" not in text]
    assert missing == ["__version__"]


def test_the_site_is_built_without_warnings(tmp_path):
    pytest.importorskip("mkdocs", reason="not installed: pip install 'weft-scheduling[docs]'")
    pytest.importorskip("mkdocstrings", reason="the same")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
