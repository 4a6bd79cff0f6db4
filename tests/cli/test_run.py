"""`weft run`, `weft profile` and `weft history`: output, and one clear line per error."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys

import pytest

import weft
from weft.cli.main import main
from weft.formats.model_file import save_model
from weft.policies.replanning.trained import replanning_model
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement

SCRIPT = """
import weft


@weft.task
def one(x):
    return x + 1


@weft.task(work=2.0)
def total(*values):
    return sum(values)


def build():
    return total(*(one(k) for k in range(6)))
"""


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "home" / "history.sqlite"))
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def script(tmp_path, request):
    path = (
        tmp_path / f"script_{request.node.name.split('[')[0]}.py"
    )  # a module of its own for each test
    path.write_text(SCRIPT)
    yield path
    sys.modules.pop(path.stem, None)
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


def run(capsys, *argv):
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_run_live_serves_a_page_and_says_where(script, capsys):
    code, out, err = run(capsys, "run", script, "--devices", "2", "--live", "--no-history")
    assert code == 0, err
    assert re.search(r"^live: http://127\.0\.0\.1:\d+/runs/live#token=\S{32}$", err, re.MULTILINE)
    assert "tasks 7 of 7" in out
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "run", script, "--live", "--port", port, "--no-history")
    assert code != 0
    assert f"port {port} cannot be used" in err


def test_run_prints_figures_chart_and_accuracy(script, capsys, tmp_path):
    page, gantt, out = (tmp_path / name for name in ("r.html", "g.svg", "t.json"))
    code, text, err = run(
        capsys,
        "run",
        script,
        "--devices",
        2,
        "--shadow",
        "eft",
        "--report",
        page,
        "--gantt",
        gantt,
        "--out",
        out,
        "--run-id",
        "first",
    )
    assert code == 0, err
    assert "tasks 7 of 7" in text
    assert "measured / predicted" in text
    assert "cpu0 |" in text
    assert "eft in the shadow: asked 7 times" in text
    assert "Predicted against measured" in page.read_text(encoding="utf-8")
    assert len(weft.formats.load_trace(out)) == 7
    assert (tmp_path / "runs" / "first" / "journal.jsonl").is_file()
    code, text, _ = run(capsys, "history")
    assert code == 0
    assert "total" in text


CHATTY = """
import os, signal
from pathlib import Path
import weft


@weft.task
def one(x):
    print("a task talks", x, flush=True)
    mark = Path(__file__).with_suffix(".mark")
    if x == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x + 1


def build():
    print("the script talks")
    return [one(k) for k in range(6)]
"""


@pytest.mark.parametrize(
    ("backend", "needs"), [("local", "weft"), ("dask", "distributed"), ("ray", "ray")]
)
def test_json_is_one_document_whatever_others_print(tmp_path, backend, needs):
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    path = tmp_path / "chatty.py"
    path.write_text(CHATTY)
    command = [
        sys.executable,
        "-m",
        "weft",
        "run",
        path,
        "--backend",
        backend,
        "--devices",
        "2",
        "--no-history",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["tasks"], found["failures"]) == (6, [])
    assert path.with_suffix(".mark").exists()  # a process was killed
    if backend == "local":  # elsewhere a task may run again before its first start was heard of
        assert found["executions"] >= 7
    assert "the script talks" in done.stderr


def test_run_takes_a_trained_policy_by_its_path(script, capsys, tmp_path):
    model = replanning_model("mine", "For a test.", [{"gap": 0.5}])
    save_model(model, tmp_path / "mine")
    code, text, err = run(
        capsys, "run", script, "--devices", 1, "--policy", tmp_path / "mine", "--no-history"
    )
    assert code == 0, err
    assert "mine" in text


def test_run_as_json_is_one_document(script, capsys):
    code, text, err = run(
        capsys,
        "run",
        script,
        "--devices",
        1,
        "--policy",
        "fifo",
        "--no-history",
        "--fixed",
        "--json",
    )
    assert code == 0, err
    found = json.loads(text)
    assert found["tasks"] == 7
    assert found["executions"] == 7
    assert found["failures"] == []
    assert found["predicted"] > 0


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["run", "nowhere.py"], "no such file"),
        (["run", "."], ".: this is a directory; give a file"),
        (["run", "SCRIPT", "--run-id", "lauf ü"], "run id 'lauf ü' must be letters"),
        (["run", "SCRIPT", "--run-id", ".x", "--json"], "run id '.x' must be letters"),
        (["run", "SCRIPT", "--policy", "hefft"], "did you mean 'heft'"),
        (["run", "SCRIPT", "--backend", "locl"], "did you mean 'local'"),
        (["run", "SCRIPT", "--timeout", "0"], "above 0"),
        (["run", "EMPTY"], "has no function build()"),
        (["run", "SCRIPT", "--live", "--port", "99999"], "--port: 99999 is above 65535"),
        (["serve", "--port", "65536"], "--port: 65536 is above 65535"),
        (["cascade", "serve", "c.toml", "--port", "-1"], "--port: -1 is below 0"),
        (["history", "--file", "nowhere.sqlite"], "no such history"),
        (["profile", "--quik"], "did you mean '--quick'"),
    ],
)
def test_what_is_wrong_is_one_line(argv, text, script, capsys, tmp_path):
    (tmp_path / "empty_script.py").write_text("")
    names = {"SCRIPT": str(script), "EMPTY": str(tmp_path / "empty_script.py")}
    code, out, err = run(capsys, *[names.get(a, a) for a in argv])
    assert code == 2
    assert out == ""
    assert text in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("source", "text", "frames"),
    [
        ("def build(x): return x", "build() is called without arguments: missing", 0),
        ("def build(:\n    pass", "the script failed: SyntaxError", 1),
        ("import sys\nsys.exit(0)", "called sys.exit(0), and nothing was run", 0),
        ("def build():\n    exit()", "called sys.exit(), and nothing was run", 0),
        ("import json\njson.loads('{')", "the script failed: json.decoder.JSONDecodeError", 1),
        ("def f(): return 1 / 0\ndef build(): return f()", "build() failed: ZeroDivision", 2),
        ("def build(): return open('gone.txt')", "No such file or directory: 'gone.txt'", 1),
        ("import weft\ndef build(): return weft.generate('?')", "unknown generator", 0),
    ],
)
def test_a_failing_script_shows_its_own_frames_and_one_line(source, text, frames, script, capsys):
    script.write_text(source)
    code, out, err = run(capsys, "run", script, "--no-history")
    assert (code, out) == (2, "")
    assert text in err.splitlines()[-1]
    places = re.findall('File "(.*)", line', err)
    assert places == [str(script)] * frames
    assert "importlib" not in err


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def f(:", "module 'measured_one' failed: SyntaxError"),
        ("def f(items): return 1 / 0", "'f' raised ZeroDivisionError for a list of 1 items"),
        ("def g(items): return items", "module 'measured_one' has no 'f'"),
    ],
)
def test_a_failing_function_of_profile_is_one_line(source, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measured_one.py").write_text(source)
    code, _, err = run(capsys, "profile", "--function", "measured_one:f", "--repeats", 1)
    sys.modules.pop("measured_one", None)
    assert code == 2
    assert text in err.splitlines()[-1]
    assert "weft/" not in err


def test_a_failing_task_is_told_in_one_go(script, capsys):
    script.write_text(SCRIPT.replace("return x + 1", "return 1 / x"))
    code, _, err = run(capsys, "run", script, "--devices", 1, "--no-history")
    assert code == 2
    assert "task 'one-0' failed on device 'cpu0': ZeroDivisionError" in err
    assert "not run because of it: 'total-0'" in err.splitlines()[-1]
    assert "return 1 / x" in err


def test_profile_measures_what_there_is(capsys, tmp_path):
    code, text, err = run(capsys, "profile", "--quick", "--json")
    assert code == 0, err
    found = json.loads(text)
    assert found["devices"][0]["kind"] == "cpu"
    measured = {m["what"]: m for m in found["measures"] if m["device"] == "cpu"}
    assert {
        "matrix product 256",
        "memory bandwidth",
        "copy 4096 B",
        "copy 64000000 B",
        "launch latency",
    } <= set(measured)
    assert all(0 < m["low"] <= m["median"] <= m["high"] for m in measured.values())
    assert (tmp_path / "home" / "profile.json").is_file()


def test_history_shows_drift(capsys):
    History().add([Measurement("gemm", "cpu", 1.0)] * 20 + [Measurement("gemm", "cpu", 2.0)] * 10)
    _, text, _ = run(capsys, "history")
    assert "2.00 times" in text


def test_history_shows_and_forgets(capsys, tmp_path):
    History().add([Measurement("gemm", "cpu", 0.5, work=3.0)] * 4, [("cpu", "cpu", 1e6, 1e-3)])
    code, text, _ = run(capsys, "history")
    assert code == 0
    assert "gemm" in text
    assert "500 ms" in text
    code, text, _ = run(capsys, "history", "--json")
    assert json.loads(text)["durations"][0]["count"] == 4
    code, text, _ = run(capsys, "history", "--clear")
    assert "is empty" in text
