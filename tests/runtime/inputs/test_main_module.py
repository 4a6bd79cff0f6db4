"""Functions and classes of `__main__`: scripts, `python -c`, archives, notebooks and others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipapp

import pytest

from tests.support.waiting import WAIT_LIMIT

PROGRAM = """
import dataclasses
import sys

import weft

print("begun")
OFFSET = 10


@dataclasses.dataclass
class Point:
    x: int


def helper(x):
    return x + OFFSET


@weft.task
def shift(p, by=0):
    return Point(helper(p.x) + by)


@weft.task
def fact(n):
    return 1 if n == 0 else n * fact(n - 1)


@weft.task
def total(*points):
    assert all(isinstance(p, Point) for p in points)
    return Point(sum(p.x for p in points))


last = total(shift(Point(1)), shift(shift(Point(2)), by=fact(3)))
trace = weft.run([last, weft.task(lambda x: [x, Point])(5)], devices=1, history=False)
point, (five, kind) = trace.results.values()
assert isinstance(point, Point) and kind is Point and five == 5
print(point)
"""

EXPECTED = "begun\nPoint(x=39)\n"


def python(*arguments, **options):
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_of_the_command_line_runs():
    assert python("-c", PROGRAM) == EXPECTED


def test_a_program_of_standard_input_runs():
    assert python("-", input=PROGRAM) == EXPECTED


def test_a_script_needs_no_guard_and_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    assert python(str(script)) == EXPECTED


def test_workers_import_from_the_folder_of_the_script(tmp_path):
    (tmp_path / "mine.py").write_text("def three():\n    return 3\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import weft, mine\n"
        "print(weft.run(weft.task(mine.three)(), devices=1, history=False).results)\n"
    )
    assert python(str(script), cwd="/") == "{'three-0': 3}\n"


def test_a_zipped_application_runs(tmp_path):
    source = tmp_path / "application"
    source.mkdir()
    (source / "__main__.py").write_text("import mine\n" + PROGRAM + "print(mine.done())\n")
    (source / "mine.py").write_text(
        "import weft\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "def done():\n"
        "    return weft.run(weft.task(double)(4), devices=1, history=False).results\n"
    )
    archive = tmp_path / "application.pyz"
    zipapp.create_archive(source, archive)
    assert python(str(archive), cwd="/") == EXPECTED + "{'double-0': 8}\n"


def test_a_test_of_pytest_runs_its_own_functions(tmp_path):
    lines = PROGRAM.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("last = "))
    body = ["", "", "def test_tasks():", *(f"    {line}" for line in lines[first:])]
    file = tmp_path / "test_mine.py"
    file.write_text("\n".join([*lines[:first], *body]) + "\n    assert point.x == 39\n")
    assert "1 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel")),
    reason="nbclient, nbformat and ipykernel are not installed",
)
def test_a_notebook_runs():
    import nbclient
    import nbformat

    definitions, _, calls = PROGRAM.partition("last = ")
    cells = [definitions, "last = " + calls]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(notebook, timeout=WAIT_LIMIT, startup_timeout=WAIT_LIMIT)
    client.execute()
    printed = "".join(o.text for c in notebook.cells for o in c.outputs if o.name == "stdout")
    assert printed == EXPECTED
