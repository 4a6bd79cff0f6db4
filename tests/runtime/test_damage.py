"""Damaged and foreign files of a run: the tasks run again, and nothing foreign is loaded."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from weft.runtime import LocalBackend
from weft.runtime.backends import payload, result_file
from weft.runtime.private_files import private_folder, state_folder


@pytest.fixture(scope="module")
def backend():
    with LocalBackend(1) as backend:
        yield backend


class Bomb:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def chain_of_three(marks):
    first = f.marked(str(marks), "first", 1)
    return f.marked(str(marks), "last", f.marked(str(marks), "middle", first))


def counts(marks):
    names = [path.name.split(".")[0] for path in marks.iterdir()]
    return [names.count(name) for name in ("first", "middle", "last")]


def swapped(path):
    path.write_bytes((path.parent / "0-x").read_bytes())


def foreign(path):
    path.write_bytes(bytes(32) + pickle.dumps(Bomb(path.parent / "exploded")))


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_link(path):
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


DAMAGE = {
    **{f"cut to {n}": lambda path, n=n: os.truncate(path, n) for n in (0, 4, 8, 12, 20, 40)},
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "garbage": lambda path: path.write_bytes(b"\xff" * 100),
    "the result of another task": swapped,
    "a pickle of another program": foreign,
    "a folder": a_folder,
    "a link": a_link,
    "a pipe": a_pipe,
    "gone": lambda path: path.unlink(),
}


@pytest.fixture(scope="module")
def finished(backend, tmp_path_factory):
    """A run of three tasks that is over: its marks and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "marks").mkdir()
    work = chain_of_three(folder / "marks")
    weft.run(work, backend=backend, history=False, run_id="one", folder=folder)
    return folder, work


@pytest.fixture
def again(finished, backend):
    """Restore the finished run; return its folder, and a function that runs it again."""
    folder, work = finished
    shutil.rmtree(folder / "saved", ignore_errors=True)
    shutil.copytree(folder / "one", folder / "saved")
    options = {"backend": backend, "history": False, "run_id": "one", "folder": folder}
    yield folder, lambda: weft.run(work, **options)
    shutil.rmtree(folder / "one")
    (folder / "saved").rename(folder / "one")


def result_of(folder, instance):
    (path,) = (folder / "one").glob(f"{instance}-*.result")
    return path


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_result_is_made_again(again, kind):
    folder, run = again
    shutil.copy(result_of(folder, 0), folder / "one" / "0-x")
    before = counts(folder / "marks")
    DAMAGE[kind](result_of(folder, 2))
    with pytest.warns(UserWarning, match="1 kept results cannot be used; 1 finished tasks run ag"):
        assert list(run().results.values()) == [4]
    assert counts(folder / "marks") == [before[0], before[1], before[2] + 1]
    assert not (folder / "one" / "exploded").exists()


def test_a_damaged_result_that_nobody_reads_does_not_matter(again):
    folder, run = again
    before = counts(folder / "marks")
    result_of(folder, 0).write_bytes(b"")
    with pytest.warns(UserWarning, match="is finished: its stored results are returned"):
        assert list(run().results.values()) == [4]
    assert counts(folder / "marks") == before


def test_what_depends_on_a_damaged_result_runs_again(again):
    folder, run = again
    before = counts(folder / "marks")
    result_of(folder, 1).write_bytes(b"")
    result_of(folder, 2).unlink()
    with pytest.warns(UserWarning, match="2 kept results cannot be used; 2 finished tasks run ag"):
        assert list(run().results.values()) == [4]
    assert counts(folder / "marks") == [before[0], before[1] + 1, before[2] + 1]


def entry(folder):
    lines = (folder / "one" / "journal.jsonl").read_text().splitlines()
    (at,) = (k for k, line in enumerate(lines) if '"instance": 2' in line)
    return lines, at


@pytest.mark.parametrize(
    "change",
    [
        {"result": {"a": 1}},
        {"result": "../../x"},
        {"result": "0-x.result"},
        {"instance": 99},
        {"instance": -1},
        {"instance": "two"},
        {"instance": None},
        {"outcomes": [1]},
        {"outcomes": {"0": 0}},
        {"start": "late"},
        {"start": float("nan")},
        {"finish": -1.0},
        {"finish": 10**400},
        {"mark": ["x"]},
        {"mark": "../x"},
    ],
    ids=lambda change: f"{change}"[:30],
)
def test_a_line_of_wrong_types_is_skipped(again, change):
    folder, run = again
    lines, at = entry(folder)
    lines[at] = json.dumps({**json.loads(lines[at]), **change})
    (folder / "one" / "journal.jsonl").write_text("\n".join(lines) + "\n")
    before = counts(folder / "marks")
    with pytest.warns(UserWarning, match="1 lines of .* are damaged"):
        assert list(run().results.values()) == [4]
    assert counts(folder / "marks") == [before[0], before[1], before[2] + 1]


@pytest.mark.parametrize("instance", [0, 1])
@pytest.mark.parametrize(("start", "finish"), [(None, 50.0), (None, 1e300), (0.0, None)])
def test_times_that_cannot_be_give_a_valid_trace(again, instance, start, finish):
    folder, run = again
    path = folder / "one" / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    line = next(line for line in lines if line.get("instance") == instance)
    line |= {"start": line["start"] if start is None else start}
    line |= {"finish": line["finish"] if finish is None else finish, "decided": 0.0}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = run()
    assert list(trace.results.values()) == [4]
    assert not weft.check(trace.workload, trace)


def test_a_task_that_ran_again_is_not_repeated_a_third_time(again):
    folder, run = again
    journal = folder / "one" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    lines[1] = "damaged"  # of the first task: all of them run again
    journal.write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match=r"1 lines of .* are damaged"):
        run()
    before = counts(folder / "marks")
    with pytest.warns(UserWarning, match=r"1 lines of .* are damaged"):
        assert list(run().results.values()) == [4]
    assert counts(folder / "marks") == before


@pytest.mark.parametrize("line", ["[" * 200_000, '{"a":' * 200_000, "\x00", "17", "{"])
def test_a_line_that_is_no_entry_is_skipped(again, line):
    folder, run = again
    lines, at = entry(folder)
    lines[at] = line
    before = counts(folder / "marks")
    (folder / "one" / "journal.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="1 lines of .* are damaged"):
        assert list(run().results.values()) == [4]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert list(run().results.values()) == [4]
    assert len(warned) == 1  # the damaged line; all tasks have another one
    assert counts(folder / "marks") == [before[0], before[1], before[2] + 1]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda run: (shutil.rmtree(run), run.write_text("")), "is a file, not a folder"),
        (lambda run: (run.rename(run.parent / "o"), run.symlink_to("o")), "is a symbolic link"),
        (lambda run: a_folder(run / "journal.jsonl"), "Is a directory"),
        (lambda run: a_link(run / "journal.jsonl"), "symbolic link, which weft does not follow"),
        (lambda run: a_pipe(run / "journal.jsonl"), "is a device or pipe"),
        (lambda run: (run / "journal.jsonl").write_text("?\n"), "first line is damaged"),
    ],
    ids=["a file", "a link", "a folder", "a linked journal", "a pipe", "no head"],
)
def test_a_folder_that_cannot_be_used_is_refused_in_one_line(finished, backend, damage, text):
    folder, work = finished
    copy = folder / "copies" / "one"
    shutil.rmtree(folder / "copies", ignore_errors=True)
    shutil.copytree(folder / "one", copy)
    damage(copy)
    with pytest.raises(weft.InvalidInput, match=text) as error:
        weft.run(work, backend=backend, history=False, run_id="one", folder=copy.parent)
    assert "\n" not in str(error.value)
    assert "cannot be the name" not in str(error.value)


def test_only_the_user_can_read_what_is_kept(finished):
    folder, _ = finished
    (folder / "one").chmod(0o755)
    private_folder(folder / "one")
    assert stat.S_IMODE((folder / "one").stat().st_mode) == 0o700
    kept = [*(folder / "one").iterdir(), state_folder() / "key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert len(kept) == 5


def test_the_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(weft.InvalidInput, match="not to you"):
        private_folder(tmp_path / "one")


def test_a_key_of_another_user_opens_nothing(tmp_path, monkeypatch):
    result_file.save(payload.Payload(pickle.dumps(7)), tmp_path / "a.result")
    assert result_file.damage(tmp_path / "a.result") == ""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert "is damaged, or not written by you" in result_file.damage(tmp_path / "a.result")
    with pytest.raises(weft.InvalidInput, match="not written by you"):
        result_file.load(tmp_path / "a.result", tmp_path / "buffers")
    (tmp_path / "state" / "weft" / "key").write_bytes(b"short")
    with pytest.raises(weft.WeftError, match="key: is damaged; remove it"):
        result_file.damage(tmp_path / "a.result")


def test_payloads_are_never_written_through_a_link_or_over_a_file(tmp_path):
    target = tmp_path / "target"
    (tmp_path / "made-before").symlink_to(target)
    with pytest.raises(OSError, match="exists"):
        payload.pack(np.ones(100_000), tmp_path / "made-before")
    assert not target.exists()


def test_a_payload_goes_to_a_private_folder_on_disk_if_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(payload, "_disk", lambda: tmp_path)
    folder = payload.make_folder()
    full = payload._write_at

    def write_at(path, buffers):
        if path.parent == folder:
            raise OSError(28, "No space left on device")
        return full(path, buffers)

    monkeypatch.setattr(payload, "_write_at", write_at)
    packed = payload.pack(np.arange(100_000), folder / "p")
    assert Path(packed.path).parent == tmp_path / folder.name
    assert stat.S_IMODE((tmp_path / folder.name).stat().st_mode) == 0o700
    assert payload.unpack(packed)[-1] == 99_999
    payload.remove_folder(folder)
    assert list(tmp_path.iterdir()) == []
