"""A killed run continues from its journal, whatever happened to its writer."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import weft
from tests.support import run_functions as f
from tests.support.programs import read_journal
from tests.support.waiting import WAIT_LIMIT
from weft.runtime import FakeBackend, LocalBackend, TaskFailed
from weft.runtime.backends.payload import PREFIX
from weft.runtime.journal import Journal, fingerprint
from weft.runtime.private_files import lock

ROOT = Path(__file__).parents[2]


def ladder(marks, width=3, depth=6):
    """Return `depth` layers of `width` marked tasks; each layer needs all of the one before."""
    below = [f.marked(str(marks), f"0-{k}", 1) for k in range(width)]
    for level in range(1, depth):
        below = [f.marked(str(marks), f"{level}-{k}", *below) for k in range(width)]
    return f.marked(str(marks), "top", *below)


def expected(width=3, depth=6):
    value = 2
    for _ in range(1, depth):
        value = width * value + 1
    return width * value + 1


def calls(marks):
    return Counter(path.name.split(".")[0] for path in marks.iterdir())


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
import weft
from tests.runtime.test_journal import ladder

if __name__ == "__main__":
    options = dict(devices=2, history=False, run_id="killed", folder={folder!r})
    trace = weft.run(ladder({marks!r}), policy="heft", **options)
    print(list(trace.results.values())[0])
"""


def test_a_killed_driver_leaves_nothing_and_continues(tmp_path, marks):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(root=str(ROOT), marks=str(marks), folder=str(tmp_path / "runs"))
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    driver = subprocess.Popen([sys.executable, str(script)], env=environment)
    deadline = time.monotonic() + 2400
    path = tmp_path / "runs" / "killed" / "journal.jsonl"
    while _finished(path) < 3 and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = calls(marks)
    finished = _finished(path)
    assert finished >= 3
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert int(done.stdout) == expected()
    after = calls(marks)
    assert set(after) == {f"{level}-{k}" for level in range(6) for k in range(3)} | {"top"}
    # Only what ran when the driver was killed may have run twice: at most one task on each of two
    # devices and what was sent ahead.
    again = [name for name in before if after[name] > before[name]]
    assert len(again) <= len(before) - finished
    _nothing_left(driver.pid)


def _finished(journal):
    return sum(line["event"] == "finished" for line in read_journal(journal))


def _nothing_left(pid):
    """No worker of a dead driver is alive, none of its memory is taken."""
    deadline = time.monotonic() + WAIT_LIMIT
    memory = Path("/dev/shm")
    while time.monotonic() < deadline:
        if not list(memory.glob(f"{PREFIX}{pid}-*")):
            return
        time.sleep(0.05)
    raise AssertionError(f"files of process {pid} are left in {memory}")


def test_finished_tasks_are_not_run_again(tmp_path, marks):
    work = ladder(marks, width=2, depth=2)
    with LocalBackend(2) as backend:
        options = {
            "backend": backend,
            "history": False,
            "run_id": "one",
            "folder": tmp_path / "runs",
        }
        first = weft.run(work, **options)
        with pytest.warns(UserWarning, match="'one' is finished: its stored results are returned"):
            second = weft.run(work, **options)
        assert first.results == second.results == {"marked-4": expected(2, 2)}
        assert set(calls(marks).values()) == {1}
        assert len(second) == len(first) == 5
        assert weft.check(second.workload, second) == []
        with pytest.warns(UserWarning, match="kept no results: 5 finished tasks run again"):
            weft.run(work, **{**options, "keep": False})
        with pytest.raises(weft.InvalidInput, match="was of another workflow"):
            weft.run(ladder(marks, width=1), **options)
    assert multiprocessing.active_children() == []


def test_a_failed_run_continues_after_the_fault_is_mended(tmp_path):
    with LocalBackend(1) as backend:
        b = weft.WorkflowBuilder()
        b.task("one", work=1.0, kind="one")
        b.task("flaky", work=1.0, kind="flaky")
        b.edge("one", "flaky")
        options = {"backend": backend, "history": False, "run_id": "mended", "folder": tmp_path}
        with pytest.raises(TaskFailed, match="no 3"):
            weft.run(b.build(), functions={"one": f.one, "flaky": f.raises}, **options)
        lines = len(list(read_journal(tmp_path / "mended" / "journal.jsonl")))
        trace = weft.run(b.build(), functions={"one": f.one, "flaky": f.add}, **options)
        assert trace.results == {"flaky": 2}
        written = list(read_journal(tmp_path / "mended" / "journal.jsonl"))[lines:]
        assert [x["instance"] for x in written if x["event"] == "finished"] == [1]  # not `one`


# -- what has changed runs again ----------------------------------------------


def test_tasks_with_changed_arguments_and_their_descendants_run_again(tmp_path, marks):
    def graph(value):
        left = f.marked(str(marks), "left", value)
        right = f.marked(str(marks), "right", 1)
        return f.marked(str(marks), "top", left, right)

    with LocalBackend(1) as backend:
        options = {"backend": backend, "history": False, "run_id": "x", "folder": tmp_path / "runs"}
        assert weft.run(graph(0), **options).results == {"marked-2": 4}
        with pytest.warns(UserWarning, match="2 of its finished tasks, or their inputs, changed"):
            assert weft.run(graph(100), **options).results == {"marked-2": 104}
    assert calls(marks) == {"left": 2, "right": 1, "top": 2}
    assert len(list((tmp_path / "runs" / "x").glob("*.result"))) == 3


def workload():
    return weft.Workload.of(weft.Problem.from_arrays([[1.0], [1.0]], [[0, 1]]))


LINE = {
    "event": "finished",
    "instance": 0,
    "device": "d0",
    "decided": 0,
    "start": 0,
    "finish": 1.5,
    "outcomes": {},
    "result": "0-.result",
}


def journal(folder, name="run", **options):
    return Journal(folder, name, workload(), FakeBackend(workload().cluster), **options)


def test_a_line_that_was_cut_off_is_ignored(tmp_path):
    first = journal(tmp_path)
    first._write(**LINE)
    first.close()
    with (tmp_path / "run" / "journal.jsonl").open("a") as file:
        file.write('{"event": "finished", "inst')
    FakeBackend(workload().cluster).store(0, tmp_path / "run" / "0-.result")
    again = journal(tmp_path)
    entries, reasons = again.usable(wanted=[0])
    assert ([entry.instance for entry in entries], reasons, again.damaged) == ([0], [], 0)
    assert again.last == 1.5
    again._write("ended")
    again.close()
    assert [x["event"] for x in read_journal(again.path)] == ["begun", "finished", "ended"]


def test_a_result_that_is_gone_is_made_again(tmp_path):
    first = journal(tmp_path)
    first._write(**LINE)
    first.close()
    again = journal(tmp_path)
    entries, (reason,) = again.usable(wanted=[0])
    assert entries == []
    assert reason.endswith("is missing")
    again.close()


def test_one_process_at_a_time(tmp_path):
    first = journal(tmp_path)
    with pytest.raises(weft.InvalidInput, match="under way in another process"):
        journal(tmp_path)
    first.close()
    journal(tmp_path).close()


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a b", "x" * 200])
def test_a_run_id_is_a_plain_name(tmp_path, name):
    with pytest.raises(weft.InvalidInput, match="run id"):
        journal(tmp_path, name)


def test_a_run_promises_nothing_before_its_name_is_known_to_be_good(tmp_path, capsys):
    call = f.marked(str(tmp_path), "once", 1)
    given = {"devices": 1, "history": False, "folder": tmp_path, "progress": True}
    with pytest.raises(weft.InvalidInput, match="run id 'a b' must be letters"):
        weft.run(call, run_id="a b", **given)
    (tmp_path / "taken").mkdir(mode=0o700)
    with (tmp_path / "taken" / "journal.jsonl").open("ab") as held:
        lock(held, "")
        with pytest.raises(weft.InvalidInput, match="run 'taken' is under way in another process"):
            weft.run(call, run_id="taken", **given)
    assert "keeps every result" not in capsys.readouterr().err
    weft.run(call, run_id="taken", **given)
    assert "run 'taken' keeps every result" in capsys.readouterr().err


def test_a_journal_of_another_version_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    head = {"event": "begun", "version": 99, "run": "run", "workload": fingerprint(workload())}
    (tmp_path / "run" / "journal.jsonl").write_text(json.dumps(head) + "\n")
    with pytest.raises(weft.InvalidInput, match="another weft"):
        journal(tmp_path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "nothing is kept: a run that is killed starts from the beginning"),
        ({"run_id": "a"}, "run 'a' keeps every result: .* no finished task runs again"),
        ({"run_id": "a", "progress": False}, "run 'a' keeps every result: .* no finished task"),
        ({"run_id": "a", "keep": False}, "results are not kept: finished tasks run again"),
        (
            {"run_id": "a", "policy": weft.Schedule.of(device=[0], start=[0], finish=[1])},
            "a schedule cannot be continued: finished tasks run again",
        ),
    ],
    ids=["no id", "kept", "no progress", "not kept", "schedule"],
)
def test_a_run_says_what_it_promises(options, text, tmp_path, capsys, caplog):
    caplog.set_level("INFO", "weft")
    backend = FakeBackend(weft.Cluster(speed=[1.0]))
    b = weft.WorkflowBuilder()
    b.task("one", work=1.0)
    weft.run(
        b.build(),
        functions={"one": f.one},
        backend=backend,
        history=False,
        folder=tmp_path,
        **{"progress": True, **options},
    )
    assert re.search(text, capsys.readouterr().err)
    assert re.search(text, caplog.text)
