"""Histories by project, function and size of arguments; files of measurements; older files."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.runtime import History
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import KEPT_SIZES
from weft.runtime.costs.keys import argument_sizes, function_identity
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.project import default_path, project_folder
from weft.runtime.costs.recorder import Recorder
from weft.runtime.inputs.functions import application_of

CLUSTER = weft.Cluster(speed=[1.0, 1.0], kinds=("cpu", "cpu"))


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.sqlite")


def work(seconds):
    return seconds


# -- projects -----------------------------------------------------------------


def test_the_nearest_marker_is_the_project(tmp_path, monkeypatch):
    inner = tmp_path / "repository" / "package" / "deep"
    inner.mkdir(parents=True)
    assert project_folder(inner) == inner
    (tmp_path / "repository" / ".git").mkdir()
    assert project_folder(inner) == tmp_path / "repository"
    (tmp_path / "repository" / "package" / "pyproject.toml").touch()
    assert project_folder(inner) == tmp_path / "repository" / "package"
    monkeypatch.delenv("WEFT_HISTORY", raising=False)
    monkeypatch.chdir(inner)  # pytest is an installed command, so its folder does not count
    assert default_path() == default_path(tmp_path / "repository" / "package")
    assert default_path() != default_path(tmp_path)
    assert default_path().name.startswith("package-")
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "one.sqlite"))
    assert default_path() == tmp_path / "one.sqlite"


def test_two_projects_have_two_histories_wherever_they_are_started(tmp_path):
    for name, count in (("one", 2), ("two", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(
            "from weft.runtime import History\n"
            "from weft.runtime.costs.history import Measurement\n"
            f"History().add([Measurement('load', 'cpu', 1.0)] * {count})\n"
            "print(len(History().tasks))\n"
        )
    environment = {"XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONPATH": ":".join(sys.path)}
    counts = [
        subprocess.run(
            [sys.executable, f"{name}/main.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("one", "two")
    ]
    assert counts == ["2\n", "3\n"]


# -- functions ----------------------------------------------------------------


def test_functions_of_one_name_are_told_apart(history):
    other = partial(json.dumps, indent=1)
    assert function_identity(other) == "json.dumps"
    assert function_identity(work) == "tests.runtime.costs.test_projects.work"
    dumps, own = weft.task(json.dumps), weft.task(_dumps)
    app = application_of([dumps(1), own(1)])
    history.add([Measurement("json.dumps", "cpu", 0.01), Measurement(app.functions[1], "cpu", 0.5)])
    assert app.workflow.kinds == ("dumps", app.functions[1])
    problem = estimated_problem(app.workflow, CLUSTER, history, keys=app.keys)
    assert problem.durations()[:, 0].tolist() == [0.01, 0.5]


def _dumps(_):
    return ""


_dumps.__name__ = "dumps"


def test_a_kind_that_is_given_is_the_name_of_the_measurements():
    app = application_of(weft.task(work, kind="sleep")(1.0))
    assert app.functions == ("sleep",)


# -- sizes of arguments -------------------------------------------------------


class Odd:
    def __len__(self):
        raise RuntimeError("no length")


def test_sizes_are_values_lengths_and_bytes():
    args = (2, 1.5, True, "short", "x" * 300, [1, 2], np.zeros(10), np.float64(3.0))
    assert argument_sizes(args, {}) == (
        *(("0", 2.0), ("1", 1.5), ("2", 1.0), ("4", 300.0), ("5", 2.0), ("6", 80.0)),
    )
    assert argument_sizes((np.float64(3.0), 10**400, float("nan"), Odd(), None), {"k": {}}) == (
        ("0", 3.0),
        ("k", 0.0),
    )


def test_one_long_call_and_twelve_short_ones_are_planned_right_on_the_second_run(history):
    task = weft.task(work)
    app = application_of([task(0.1) for _ in range(12)] + [task(1.5)])
    recorder = Recorder(history, [app.workflow], [app.keys])
    first = estimated_problem(app.workflow, CLUSTER, history, keys=app.keys)
    assert len(set(first.durations().ravel().tolist())) == 1  # nothing is known
    life = _life(first)
    for i, call in enumerate(app.calls):
        recorder.finished(life, _Group([i]), _end(i, call.args[0]), {})
    recorder.ended(life, 3.0)
    second = estimated_problem(app.workflow, CLUSTER, history, keys=app.keys)
    assert second.durations()[:, 0].round(9).tolist() == [0.1] * 12 + [1.5]
    assert weft.plan(second, "heft").makespan == pytest.approx(1.5)  # 12 * 0.1 = 1.2 beside it


def _life(problem):
    from weft.model import Workload
    from weft.runtime.engine.live_lifecycle import LiveLifecycle

    return LiveLifecycle(Workload.of(problem))


class _Group:
    def __init__(self, members):
        self.members = members


def _end(number, seconds):
    from weft.runtime.backends.protocol import Finished

    return Finished(number, 0, 0.0, seconds, (8.0,))


def test_a_size_between_the_measured_ones_is_predicted(history):
    # seconds = n / 1000 for lists of n numbers; a second argument says nothing.
    history.add(
        [
            Measurement("f", "cpu", n / 1000, sizes=(("0", float(n)), ("seed", float(n * 7 % 13))))
            for n in (100, 200, 400, 800, 1600, 3200)
        ]
    )
    app = application_of(weft.task(work, kind="f")([0] * 1000))
    found = estimated_problem(app.workflow, CLUSTER, history, keys=app.keys)
    assert found.durations()[0, 0] == pytest.approx(1.0, rel=0.3)


def test_a_task_measured_on_one_device_keeps_its_size_on_another(history):
    cluster = weft.Cluster(speed=[1.0, 2.0], kinds=("cpu", "gpu"))
    history.add([Measurement("f", "cpu", s, sizes=(("0", s),)) for s in (0.1, 1.5)])
    app = application_of([weft.task(work, kind="f")(s) for s in (0.1, 1.5)])
    found = estimated_problem(app.workflow, cluster, history, keys=app.keys).durations()
    np.testing.assert_allclose(found, [[0.1, 0.05], [1.5, 0.75]])


def test_measurements_with_sizes_are_bounded(history):
    for part in range(3):
        history.add(
            [
                Measurement("f", "cpu", 1.0, sizes=(("0", float(part * 1000 + k)),))
                for k in range(1000)
            ]
        )
    assert len(history.tasks) == KEPT_SIZES
    assert history.tasks[0].sizes == (("0", 1000.0),)  # the oldest are gone


# -- files --------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json", "sqlite"])
def test_what_is_exported_is_imported_once(history, tmp_path, suffix):
    history.add(
        [Measurement('a "b", c', "cpu", 0.5, 2.0, 3.0, 4.0, (("0", 1.5), ("depth", -2.0)))] * 2,
        [("cpu", "gpu", 1e6, 1e-3)],
    )
    file = history.path if suffix == "sqlite" else tmp_path / f"out.{suffix}"
    if suffix != "sqlite":
        assert history.export_to(file) == 3
    other = History(tmp_path / "other.sqlite")
    assert other.import_from(file) == 3
    assert other.tasks == history.tasks
    assert other.transfers == history.transfers
    assert other.import_from(file) == 0


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "kind,device\nf,cpu\n", "needs the columns kind, device and seconds"),
        ("a.csv", "kind,device,seconds\nf,cpu,1\nf,cpu,soon\n", "measurement 2: seconds must be"),
        ("a.csv", "kind,device,seconds\nf,,1\n", "measurement 1: 'device' is missing"),
        ("a.csv", "kind,device,seconds\nf,cpu,-1\n", "seconds must be a finite number"),
        ("a.csv", "kind,device,seconds,sizes\nf,cpu,1,[2]\n", "sizes must be an object"),
        ("a.json", "[]", "its format is not"),
        ("a.json", "[" * 100_000, "is no history"),
        ("a.json", '{"format": "weft-history-1", "tasks": [3]}', "a list of objects"),
        ("a.json", '{"format": "weft-history-1", "links": [{"source": 3}]}', "measurement 1"),
        ("a.txt", "", "read from .csv, .json or .sqlite"),
        ("none.csv", None, "there is no such file"),
    ],
)
def test_bad_files_are_refused_and_nothing_is_added(history, tmp_path, name, text, reason):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(weft.InvalidInput, match=reason.replace("[", r"\[")):
        history.import_from(tmp_path / name)
    assert history.tasks == []


def test_a_folder_is_no_measurements(history, tmp_path):
    with pytest.raises(weft.InvalidInput, match="this is a directory; give a file"):
        history.import_from(tmp_path)


def test_columns_of_other_programs_are_left_out(history, tmp_path):
    (tmp_path / "own.csv").write_text("host,kind,device,seconds\nx,fit,cpu,2.5\n")
    assert history.import_from(tmp_path / "own.csv") == 1
    assert history.predict("fit", "cpu") == 2.5


def test_the_command_exports_and_imports(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WEFT_HISTORY", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "own").mkdir()
    History(default_path(tmp_path / "own")).add([Measurement("fit", "cpu", 2.5)])
    file = str(tmp_path / "out.csv")
    assert main(["history", "--project", str(tmp_path / "own"), "--export", file]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["history", "--import", file]) == 0
    assert "1 new measurements" in capsys.readouterr().err
    assert History(default_path(tmp_path)).predict("fit", "cpu") == 2.5
    assert main(["history", "--project", str(tmp_path / "nowhere")]) == 2
    assert main(["history", "--export", str(tmp_path / "out.xml")]) == 2


def test_a_file_of_the_first_schema_is_upgraded_and_keeps_its_rows(tmp_path):
    path = tmp_path / "old.sqlite"
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE task (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, device TEXT NOT NULL,
          work REAL NOT NULL, data REAL NOT NULL, seconds REAL NOT NULL, output REAL NOT NULL,
          at REAL NOT NULL);
        CREATE TABLE link (id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL,
          data REAL NOT NULL, seconds REAL NOT NULL, at REAL NOT NULL);
        INSERT INTO task VALUES (1, 'load', 'cpu', 0, 0, 0.25, 0, 0);
        PRAGMA user_version = 1;
        """
    )
    db.close()
    history = History(path)
    assert history.predict("load", "cpu") == 0.25
    history.add([Measurement("load", "cpu", 0.25, sizes=(("0", 1.0),))])
    assert [row.sizes for row in History(path).tasks] == [(), (("0", 1.0),)]
