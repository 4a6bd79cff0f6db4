"""Histories that cannot be used cost a run nothing but one warning."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import warnings

import pytest

import weft
from weft.errors import InvalidInput
from weft.model import Workflow
from weft.runtime import History
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import HistoryUnusable, history_for_run
from weft.runtime.costs.history_files import FORMAT
from weft.runtime.costs.measurements import Measurement
from weft.runtime.costs.recorder import keep_measurements

CLUSTER = weft.Cluster(speed=[1.0], kinds=("cpu",))
WORKFLOW = Workflow(work=[1.0], src=[], dst=[], data=[], kinds=("gemm",))


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "history.sqlite"
    History(found).add(
        [Measurement("gemm", "cpu", 0.5, 1.0, sizes=(("0", k),)) for k in range(50)],
        [("cpu", "gpu", 1e6, 1e-3)] * 5,
    )
    return found


def used(path):
    """Do what a run does with its history; return the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        history = history_for_run(path)
        estimated_problem(WORKFLOW, CLUSTER, history)
        if history is not None:
            keep_measurements(history, [Measurement("gemm", "cpu", 1.0)])
    return [str(w.message) for w in seen]


def test_a_whole_history_gives_no_warning(path):
    assert used(path) == []
    assert len(History(path).tasks) == 51


def test_random_bytes_anywhere_give_one_warning_or_none(path):
    whole = path.read_bytes()
    rng = random.Random(3)
    damaged = 0
    for k in range(40):
        bad = bytearray(whole)
        for _ in range(40):
            bad[rng.randrange(100 if k % 2 else len(bad))] = rng.randrange(256)
        path.write_bytes(bad)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        seen = used(path)
        assert len(seen) <= 1
        damaged += len(seen)
        if "newer weft" not in "".join(seen):
            History(path)  # what is there now can be used
        for left in path.parent.glob("*.damaged-*"):
            left.unlink()
    assert damaged >= 20


def test_a_damaged_file_is_set_aside_under_a_name_that_is_told(path):
    content = b"not a database at all" * 100
    path.write_bytes(content)
    (seen,) = used(path)
    (aside,) = path.parent.glob("history.sqlite.damaged-*")
    assert str(aside) in seen
    assert aside.read_bytes() == content
    assert [row.seconds for row in History(path).tasks] == [1.0]


def test_values_that_no_run_writes_count_as_damage(path):
    for statement in (
        "UPDATE task SET seconds = 'soon' WHERE id = 3",
        "UPDATE task SET seconds = -1 WHERE id = 3",
        "UPDATE task SET sizes = '[1' WHERE id = 3",
        "UPDATE task SET kind = x'ff' WHERE id = 3",
        "DROP TABLE link",
    ):
        copy = path.with_name("copy.sqlite")
        shutil.copy(path, copy)
        db = sqlite3.connect(copy)
        db.execute(statement)
        db.commit()
        db.close()
        with pytest.raises(HistoryUnusable, match="is no history of weft") as found:
            History(copy)
        assert found.value.damaged
        copy.unlink()


def test_a_folder_stays_where_it_is(tmp_path):
    (seen,) = used(tmp_path)
    assert "the run goes on without a history" in seen
    assert tmp_path.is_dir()


def test_a_path_below_a_file_is_told(path):
    (seen,) = used(path / "deeper" / "history.sqlite")
    assert "without a history" in seen


def test_a_full_disk_is_told():
    (seen,) = used("/dev/full/history.sqlite")
    assert "without a history" in seen


def test_a_file_that_cannot_be_written_is_read(path):
    # A trigger stands for a full disk or a read-only file, which root may write all the same.
    db = sqlite3.connect(path)
    db.execute("CREATE TRIGGER full BEFORE INSERT ON task BEGIN SELECT RAISE(ABORT, 'full'); END")
    db.close()
    (seen,) = used(path)
    assert "could not be kept" in seen
    assert "full" in seen
    assert History(path).predict("gemm", "cpu", work=1.0) == 0.5


def test_locks_are_waited_for_two_seconds_in_total(path, monkeypatch):
    db = sqlite3.connect(path)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    waits = []
    connect = sqlite3.connect

    def counted(*args, timeout, **options):
        waits.append(timeout)
        return connect(*args, timeout=timeout, **options)

    monkeypatch.setattr(sqlite3, "connect", counted)
    (seen,) = used(path)
    db.close()
    assert "another process has locked it" in seen
    assert 0.5 <= sum(waits) <= 2.0
    assert path.exists()  # not set aside: it is in use


def test_a_run_goes_on_without_its_history(path):
    path.write_bytes(b"damaged" * 1000)
    with pytest.warns(UserWarning, match="set aside"):
        trace = weft.run(WORKFLOW, functions={"gemm": int}, devices=1, history=path)
    assert trace.results == {"t0": 0}
    assert len(History(path).tasks) == 1


@pytest.mark.parametrize("path", ["a" * 5000, "a\0b"], ids=["too long", "null"])
def test_what_cannot_be_a_file_is_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="the run goes on without a history"):
        assert weft.run(weft.task(abs)(-1), devices=1, history=path).value == 1
    with pytest.raises(weft.InvalidInput, match="there is no such file"):
        weft.run(weft.task(abs)(-1), devices=path, history=False)
    with pytest.raises(weft.InvalidInput, match="cannot be read"):
        weft.Problem.from_table(path)


def test_an_empty_path_is_refused():
    for make in (History, history_for_run):
        with pytest.raises(weft.InvalidInput, match="the path of the history is empty"):
            make("")


@pytest.mark.parametrize("sizes", ["[" * 5000, '{"a": 1' + "0" * 400 + "}", '{"a": NaN}', "[1]"])
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_an_exported_history_with_odd_sizes_is_refused(sizes, suffix, tmp_path):
    quoted = sizes.replace('"', '""')
    row = {"kind": "gemm", "device": "cpu", "seconds": 1.0, "sizes": sizes}
    text = (
        f'kind,device,seconds,sizes\ngemm,cpu,1,"{quoted}"\n'
        if suffix == ".csv"
        else json.dumps({"format": FORMAT, "tasks": [row]})
    )
    (tmp_path / f"odd{suffix}").write_text(text)
    with pytest.raises(InvalidInput, match="measurement 1: sizes must be an object of numbers"):
        History(tmp_path / "history.sqlite").import_from(tmp_path / f"odd{suffix}")
