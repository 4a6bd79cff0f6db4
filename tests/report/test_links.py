"""Whatever weft writes goes to the named file, never through a symbolic link to another one."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.formats.parsing.source import write_file
from weft.report.causes.notebook import Picture
from weft.report.page import Section, write_report
from weft.runtime import History
from weft.runtime.costs.history import HistoryUnusable
from weft.runtime.costs.history_files import export_history
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.profiler import save_profile
from weft.runtime.web.store import RunStore

PROBLEM = weft.Problem.from_arrays([[1.0, 2.0]])
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
