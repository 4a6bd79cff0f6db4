"""Whatever weft writes goes to the named file, never through a symbolic link to another one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.experiments.shift.forest import LEAF, NODE, Forest, write_onnx
from weft.formats.parsing.source import write_file
from weft.planners.whatif import tornado
from weft.report.answers import save_tornado
from weft.report.page import Section, write_report
from weft.report.pages.notebook import Picture
from weft.runtime import History
from weft.runtime.costs.history import HistoryUnusable
from weft.runtime.costs.history_files import export_history
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.profiler import save_profile
from weft.runtime.web.store import RunStore

PROBLEM = weft.Problem.from_arrays([[1.0, 2.0]])
NODES = np.array([(0.5, 2, 0), (10.0, 0, LEAF), (20.0, 0, LEAF)], NODE)
FOREST = Forest(("x",), NODES, np.array([0]), centre=np.zeros(1), spread=np.ones(1))
SCHEDULE = weft.Schedule.of(device=[0], start=[0.0], finish=[1.0])


def _history(folder: Path) -> History:
    history = History(folder / "history.sqlite")
    history.add([Measurement("gemm", "cpu", 1.0)])
    return history


WRITERS = {
    "report.html": lambda path: write_report(path, title="t", sections=[Section("s", [])]),
    "gantt.html": lambda path: weft.save_gantt(SCHEDULE, path, PROBLEM),
    "gantt.svg": lambda path: weft.save_gantt(SCHEDULE, path, PROBLEM),
    "gantt.png": lambda path: weft.save_gantt(SCHEDULE, path, PROBLEM),
    "notebook.svg": lambda path: Picture("<svg/>").save(path),
    "plan.json": lambda path: weft.save(SCHEDULE, path, problem=PROBLEM),
    "history.json": lambda path: export_history(_history(path.parent), path),
    "history.csv": lambda path: export_history(_history(path.parent), path),
    "profile.json": lambda path: save_profile([], [], path),
    "tornado.svg": lambda path: save_tornado(tornado(PROBLEM), path),
    "forest.onnx": lambda path: write_onnx(FOREST, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_not_followed(tmp_path, name):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / name).symlink_to(target)
    with pytest.raises(weft.InvalidInput, match=rf"{name}: cannot be written: it is a symbolic"):
        WRITERS[name](tmp_path / name)
    assert target.read_text() == "mine"
    (tmp_path / name).unlink()
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_links_in_shared_memory_are_not_those_of_the_system():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        target, link = Path(place, "precious"), Path(place, "link.json")
        target.write_text("mine")
        link.symlink_to(target)
        with pytest.raises(weft.InvalidInput, match="it is a symbolic"):
            write_file(link, "text")
        assert target.read_text() == "mine"


def test_the_links_of_the_system_are_followed():
    assert write_file(Path("/dev/null"), "text") == Path("/dev/null")


def test_a_server_and_a_history_follow_no_links(tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    for name in ("runs.db", "lock"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).symlink_to(target)
        with pytest.raises(weft.InvalidInput, match="a symbolic link, which weft does not follow"):
            RunStore(folder)
    (tmp_path / "history.sqlite").symlink_to(tmp_path / "elsewhere.sqlite")
    with pytest.raises(HistoryUnusable, match="a symbolic link, which weft does not follow"):
        History(tmp_path / "history.sqlite")
    assert not (tmp_path / "elsewhere.sqlite").exists()
    assert target.read_text() == "mine"
