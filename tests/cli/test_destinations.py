"""Files and folders to write: refused before the work if they cannot be written."""

from __future__ import annotations

import errno
import os
import sys

import pytest

import weft
from weft.cli.main import main
from weft.cli.values import output

SCRIPT = """
from pathlib import Path
import weft


@weft.task
def one(x):
    return x + 1


def build():
    Path(__file__).with_suffix(".begun").touch()
    return one(1)
"""

FILE, FOLDER = "file.json is not writable", "folder 'ro' is not writable"
REFUSED = [
    ("plan FLOW --gpus 2xT4 --out ro/p.json", f"--out: ro/p.json: {FOLDER}; give another"),
    ("plan FLOW --gpus 2xT4 --out file.json", f"--out: {FILE}; give another file"),
    ("plan FLOW --gpus 2xT4 --gantt ro/p.html", FOLDER),
    ("plan FLOW --gpus 2xT4 --chrome link.json", "link.json: it is a symbolic link, which weft"),
    ("simulate FLOW --gpus 2xT4 --out ro/t.npz", FOLDER),
    ("compare FLOW --gpus 2xT4 --report ro/c.html", FOLDER),
    ("run script_of_destinations.py --out ro/t.json", FOLDER),
    ("run script_of_destinations.py --report ro/t.html", FOLDER),
    ("generate montage --out ro/m.json", FOLDER),
    ("generate montage --out no/m.json", "no/m.json: there is no folder 'no'"),
    ("history --export ro/h.csv", FOLDER),
    ("arena --improve ro/library.json", FOLDER),
    ("arena --export ro/instances", FOLDER),
    ("export slurm FLOW --gpus 2xT4 --out ro/jobs", FOLDER),
    ("compile heft --into flow.json", "flow.json is a file; give a folder"),
    ("reproduce conditional --quick --out ro/a/b", f"--out: ro/a/b: {FOLDER}; give another path"),
    ("cascade serve c.toml --measured ro/m.toml", FOLDER),
    ("cascade measure c.toml lines -o ro/m.toml", FOLDER),
    ("cascade tune c.toml -o ro/deep/own", FOLDER),
    ("train conditional --out ro/trained", FOLDER),
    ("train conditional --out flow.json", "--out: flow.json is a file; give a folder"),
    ("train conditional --out flow.json/a", "'flow.json' is a file, and no folder can be made"),
    ("train rollouts --start conditional-pi0 --keep ro", FOLDER),
    ("train tuned-list --out ro", FOLDER),
    ("train deepsched --out ro/x", FOLDER),
    ("train workflow FLOW --gpus 2xT4 --out ro", FOLDER),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder `ro` and a file `file.json` that may not be written, also not by root."""
    monkeypatch.chdir(tmp_path)
    weft.save(weft.generate("fork_join", width=2, stages=1, seed=1), tmp_path / "flow.json")
    (tmp_path / "ro").mkdir()
    (tmp_path / "file.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("file.json")
    (tmp_path / "script_of_destinations.py").write_text(SCRIPT)
    allowed = os.access

    def access(path, mode, **more):
        return str(path) not in {"ro", "file.json"} and allowed(path, mode, **more)

    monkeypatch.setattr(os, "access", access)
    yield tmp_path
    sys.modules.pop("script_of_destinations", None)
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


@pytest.mark.parametrize(("line", "text"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_cannot_be_written_is_refused_before_the_work(line, text, here, capsys):
    before = sorted(here.rglob("*"))
    code = main(line.replace("FLOW", "flow.json").split())
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert sorted(here.rglob("*")) == before


def test_the_default_folder_of_models_is_checked_too(here, capsys):
    (here / "trained").write_text("a file")
    assert main(["train", "conditional"]) == 2
    assert "trained is a file; give a folder" in capsys.readouterr().err


def test_the_links_of_the_system_are_files_to_write():
    assert str(output("/dev/stdout")) == "/dev/stdout"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("run script_of_destinations.py --devices 1 --no-history --out full.json", "tasks 1 of 1"),
        ("plan flow.json --gpus 2xT4 --gantt full.html", "heft: makespan"),
        ("simulate flow.json --gpus 2xT4 --out full.json", "policy fifo"),
        ("compare flow.json --gpus 2xT4 --report full.html", "heft"),
        ("plan flow.json --gpus 2xT4 --out full.json --json", '"makespan"'),
    ],
)
def test_a_full_disk_takes_nothing_of_what_is_shown(line, shown, here, monkeypatch, capsys):
    opened = os.open

    def full(path, *args, **more):
        if str(path).startswith("full"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", full)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert shown in out
    assert "wrote" not in out
    name = next(word for word in line.split() if word.startswith("full"))
    assert err.endswith(f"weft: {name}: cannot be written: No space left on device\n")
