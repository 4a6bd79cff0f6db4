"""Files that stand for far more memory or time than their size: refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.bombs import npz_of_zeros
from weft import formats
from weft.errors import InvalidInput
from weft.formats.graphs.callgraph import load_callgraph
from weft.formats.native.stream_toml import load_stream
from weft.formats.parsing import limits, source
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.source import one_line
from weft.registry import closest

STREAM = """
jobs = 10
[arrivals]
gap = 1
[[tasks]]
name = "a"
time = 1
[[units]]
name = "u"
batch = 1
count = {count}
"""
CALLED_WITHIN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
from weft import formats
from weft.errors import WeftError
from weft.formats.native.stream_toml import load_stream
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {reader}(sys.argv[1])
except WeftError as error:
    print(error)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert after - before < {kilobytes}, (before, after)
"""


def _gzipped(pieces) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as stream:
        for piece, times in pieces:
            for _ in range(times):
                stream.write(piece)
    return made.getvalue()


def _nested(levels: int) -> str:
    opened = "".join(f"subgraph {{ node [a{i}=1] " for i in range(levels))
    return f"digraph {{ {opened} x {'}' * levels} }}"


BOMBS = {
    "spaces.json.gz": lambda: _gzipped([(b"{", 1), (b" " * 2**20, 400), (b"}", 1)]),
    "zeros.json.gz": lambda: _gzipped([(b"[", 1), (b"0," * 2**19, 100), (b"0]", 1)]),
    "lists.json.gz": lambda: _gzipped([(b"[", 1), (b"[]," * 2**18, 100), (b"0]", 1)]),
    "zeros.npz": lambda: npz_of_zeros(50 * 2**20),
    "cluster.json": lambda: json.dumps({"format": "weft-cluster-1", "speed": [1] * 15_000}),
    "cluster.toml": lambda: "[[devices]]\ncount = 5000",
    "kinds.json": lambda: json.dumps(
        {
            "format": "weft-workflow-1",
            "work": [1],
            "duration_devices": [f"d{i}" for i in range(12_000)],
            "durations": [[1]] * 12_000,
        }
    ),
    "attributes.dot": lambda: (
        "digraph { node ["
        + ",".join(f"a{i}=1" for i in range(3000))
        + "] "
        + ";".join(f"n{i}" for i in range(15_000))
        + "}"
    ),
    "durations.dot": lambda: (
        'digraph { node [durations="{'
        + ",".join(f"'d{i}':1" for i in range(3000)).replace("'", '\\"')
        + '}"] '
        + ";".join(f"n{i}" for i in range(15_000))
        + "}"
    ),
    "nested.dot": lambda: _nested(15_000),
    "stops.dot": lambda: "digraph {" + ";" * 2_000_000 + "}",
    "hashes.json": lambda: "#" * 28 + "\n{}",
    "comments": lambda: "/*" + "*" * 100_000 + "{",
    "spaced.stg": lambda: "1" + "\n " * 50_000 + "x",
    "quantity.toml": lambda: f'[[devices]]\nmemory = "{"1" * 20_000}x1"',
    "key.toml": lambda: "a." * 20_000 + "a = 1",
    "same_key.json": lambda: "{" + "".join(f'"k{i}":0,' for i in range(50_000)) + '"k49999":0}',
}
ACCEPTED = {"attributes.dot", "nested.dot", "stops.dot"}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_time_and_memory(name, tmp_path):
    path = tmp_path / name
    content = BOMBS[name]()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reader = "formats.load_workflow"
    if "cluster" in name or name.endswith(".toml"):
        reader = "formats.load_cluster"
    if name == "kinds.json":
        reader = "formats.load"
    said = _within(reader, path)
    assert (said == []) == (name in ACCEPTED), said
    assert len(said) <= 1
    if name in {"spaces.json.gz", "zeros.npz"}:
        assert "the most that is read; raise the limit with WEFT_MAX_BYTES" in said[0]
    if name in {"zeros.json.gz", "cluster.json", "cluster.toml", "kinds.json", "durations.dot"}:
        assert "at most 16777216 are read; raise the limit with WEFT_MAX_CELLS" in said[0]


def _within(reader: str, path: Path) -> list[str]:
    """Read a file in a process of its own with a bound on processor time and memory."""
    script = CALLED_WITHIN.format(reader=reader, seconds=10, kilobytes=200_000)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("count", [5000, 10_000, 2**31 - 1])
def test_units_of_a_stream_are_counted_first(count, tmp_path):
    path = tmp_path / "stream.toml"
    path.write_text(STREAM.format(count=count))
    with pytest.raises(InvalidInput, match=f"a cluster of {count} devices takes .* WEFT_MAX_CELLS"):
        load_stream(path)


def test_limits_are_raised_by_variables(tmp_path, monkeypatch):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"format": "weft-cluster-1", "speed": [1] * 20}))
    monkeypatch.setenv("WEFT_MAX_CELLS", "1000")
    with pytest.raises(InvalidInput, match="20 devices takes 1600 cells; at most 1000"):
        formats.load_cluster(path)
    monkeypatch.setenv("WEFT_MAX_CELLS", "1600")
    assert formats.load_cluster(path).p == 20
    monkeypatch.setenv("WEFT_MAX_BYTES", "50")
    with pytest.raises(InvalidInput, match="has more than 50 bytes when unpacked"):
        formats.load_cluster(path)
    monkeypatch.setenv("WEFT_MAX_BYTES", "many")
    with pytest.raises(InvalidInput, match="WEFT_MAX_BYTES is 'many'; it must be a whole number"):
        formats.load_cluster(path)


def test_a_workflow_of_too_many_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_MAX_CELLS", "120")
    (tmp_path / "w.json").write_text(json.dumps({"format": "weft-workflow-1", "work": [1] * 20}))
    with pytest.raises(InvalidInput, match="a workflow of 20 tasks and 0 edges takes 160 cells"):
        formats.load_workflow(tmp_path / "w.json")


MANY = {
    "entries.json": '{"format": "weft-workflow-1", "work": [' + "1," * 800 + "1]}",
    "texts.json": '{"format": "weft-workflow-1", "work": 1, "names": [' + '"a",' * 500 + '"b"]}',
    "marked.json": "\ufeff[" + "0," * 800 + "0]",
    "keys.json": "{" + "".join(f'"k{i}":0,' for i in range(130)) + '"a":0}',
    "events.json": '{"traceEvents": [' + '{"ph":"i"},' * 40 + "{}]}",
    "lines.stg": "99\n" + "0 0 0\n" * 80,
    "returns.stg": "99\n" + "\r" * 80,
    "separators.stg": "99\n" + "\x1e\u2028" * 40,
    "words.stg": "1\n" + "0 " * 300 + "\n" + "0 " * 300,
    "rows.txt": "name\tstatus\trealtime\n" + "a\tCOMPLETED\t1s\n" * 40,
    "returns.txt": "name\tstatus\trealtime\n" + "\r" * 40,
    "rows.csv": "task,after,seconds\n" + "a,,1\n" * 40,
    "cells.csv": "task,after,seconds\na,,1" + "," * 200,
    "spans.jsonl": '{"resourceSpans": []}\n' * 40,
    "runs.jsonl": '{"s": 1, "h:m:s": "0"}\n' * 40,
    "scripts.html": '<script type="application/json">[{},{},{},{}]</script>' * 20,
    "nodes.dot": "digraph {" + "a;" * 80 + "}",
    "edges.dot": "digraph {a" + "->b" * 80 + "}",
    "attributes.dax": "<adag " + " ".join(f'a{i}=""' for i in range(200)) + "/>",
    "returns.dax": "<adag>" + "\r" * 2500 + "</adag>",
    "elements.dax": "<adag>" + "<job/>" * 40 + "</adag>",
    "text.toml": 'name = "' + "a" * 1200 + '"',
    "escapes.toml": 'name = "' + "\\n" * 130 + '"',
    "parts.toml": "a." * 130 + "a = 1",
}
"""Texts of more parts than 2,000 cells hold."""


@pytest.mark.parametrize("name", MANY)
def test_the_parts_of_a_text_are_counted_first(name, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(MANY[name].encode())
    monkeypatch.setenv("WEFT_MAX_CELLS", "2000")
    with pytest.raises(InvalidInput, match=r"takes .* at most 2000 are read; raise the limit"):
        formats.load(tmp_path / name)


@pytest.mark.parametrize(
    "column", [np.zeros(3000, np.int8), np.zeros(3000, np.bool_), np.full(500, "a"), "U0"]
)
def test_the_entries_of_an_archive_are_counted_first(column, tmp_path, monkeypatch):
    array = np.ndarray(10**9, "U0") if isinstance(column, str) else column
    made = io.BytesIO()
    facts = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(made, facts)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("format.npy", made.getvalue() + (array.tobytes() if array.nbytes else b""))
    monkeypatch.setenv("WEFT_MAX_CELLS", "2000")
    with pytest.raises(InvalidInput, match="an archive of this size takes"):
        formats.load(tmp_path / "a.npz")


def test_the_members_of_an_archive_are_counted_first(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for i in range(40):
            archive.writestr(f"{i}.npy", b"")
    monkeypatch.setenv("WEFT_MAX_CELLS", "2000")
    with pytest.raises(InvalidInput, match="an archive of 40 members takes 2560 cells"):
        formats.load(tmp_path / "a.npz")


def test_a_pipe_without_a_writer_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.stg")
    monkeypatch.setattr(source, "PIPE_SECONDS", 0.05)
    with pytest.raises(InvalidInput, match=r"this is a pipe that no process wrote to for 0\.05 s"):
        formats.load_workflow(tmp_path / "a.stg")


@pytest.mark.parametrize("text", ["1\n0 0 0\n1 5 1 0\n2 0 1 1\n", ""])
def test_a_pipe_with_a_writer_is_read(text, tmp_path):
    path = tmp_path / "a.stg"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    try:
        if text:
            assert formats.load_workflow(path).n == 3
        else:
            with pytest.raises(InvalidInput, match="the file is empty"):
                formats.load_workflow(path)
    finally:
        writer.join()


@pytest.mark.parametrize("text", ["1" * 20_000 + "x1", "1" + " " * 100_000 + "1", "1" * 5000])
def test_long_quantities_are_refused(text):
    with pytest.raises(InvalidInput, match="it must be a number"):
        quantity(text, "bytes", "memory")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5e3 ms", 1.5), (" .5 s ", 0.5), ("1.", 1.0), ("+2h", 7200.0), ("1e2", 100.0)],
)
def test_quantities_that_are_read(text, seconds):
    assert quantity(text, "seconds", "time") == seconds


@pytest.mark.parametrize("text", ["1e5000", "1 2", "1e", "1e1e1", "1s2", "", "-", ".", "e5", "s"])
def test_quantities_that_are_refused(text):
    with pytest.raises(InvalidInput):
        quantity(text, "seconds", "time")


def test_messages_are_safe_for_a_terminal():
    assert one_line("a\x1b[31m\x07 \ud800 \u202e b\n c") == ("a\\x1b[31m\\x07 \\ud800 \\u202e b c")
    assert len(one_line("\x1b" * 10**6)) == 400


def test_the_closest_of_many_long_names():
    names = [f"{'a' * 60}_{i:05d}" for i in range(5000)]
    assert closest(names[77] + "x", names[:78]).startswith("; did you mean 'aaa")
    assert closest("zzz", names).endswith(", ... (5000 in all)")
    assert closest("n4999x", [f"n{i}" for i in range(5000)]) == "; did you mean 'n4999'?"


def test_huge_whole_numbers_are_described(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(f"[[devices]]\ncount = 0x{'f' * 5000}")
    with pytest.raises(InvalidInput, match="count is a whole number of 20000 bits"):
        formats.load_cluster(path)


def test_nesting_inside_strings_does_not_count(tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"format": "weft-workflow-1", "name": "[" * 300, "work": [1.0]}))
    assert formats.load_workflow(path).name == "[" * 300
    path.write_text("[" * (limits.MAX_DEPTH + 1))
    with pytest.raises(InvalidInput, match="nested too deeply to be read: at most 200"):
        formats.load_workflow(path)


CALLS = {
    "format": "conditional-graph-v1",
    "id": "g",
    "nodes": {"name": ["a", "b"]},
    "edges": {"src": [0], "dst": [1], "prob_given_src": [0.5]},
    "variants": [{"edges": [0], "count": 3}],
}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("edges", {"src": [[0], [0, 1]], "dst": [1], "prob_given_src": [0.5]}),
        ("edges", {"src": ["x"], "dst": [1], "prob_given_src": [0.5]}),
        ("edges", {"src": [None], "dst": [1], "prob_given_src": [0.5]}),
        ("edges", {"src": 0, "dst": 1, "prob_given_src": 0.5}),
        ("edges", {"src": ["inf"], "dst": [1], "prob_given_src": [0.5]}),
        ("edges", {"src": [0], "dst": [1], "prob_given_src": None}),
        ("variants", [{"edges": [[0]], "count": 1}]),
        ("variants", [{"edges": {}, "count": 1}]),
        ("variants", [{"edges": [0], "count": "many"}]),
        ("variants", [{"edges": [0], "count": [1]}]),
        ("variants", [{"edges": [0], "count": -1}]),
        ("variants", [{"edges": [0], "count": 10**400}]),
    ],
)
def test_broken_call_graphs_are_refused(part, value, tmp_path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(CALLS))
    assert load_callgraph(path).counts.tolist() == [3.0]
    path.write_text(json.dumps({**CALLS, part: value}))
    with pytest.raises(InvalidInput):
        load_callgraph(path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"start": [-1.0]}, "start[0] is -1.0; it must be zero or more"),
        ({"finish": [0.5]}, "finish[0] is 0.5; it must be at or after its start"),
    ],
)
def test_traces_whose_times_run_backwards_are_refused(change, complaint, tmp_path):
    problem = {"work": [1.0], "src": [], "dst": []}
    document = {
        "format": "weft-trace-1",
        "workload": {"clusters": [{"speed": [1.0]}], "workflows": [problem], "template": [0]},
        "scenario": {},
        **{key: [0] for key in ("job", "task", "device", "status", "batch", "decided")},
        "start": [1.0],
        "finish": [2.0],
        "job_finish": [2.0],
    }
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    assert formats.load_trace(path).finish.tolist() == [2.0]
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(InvalidInput) as caught:
        formats.load_trace(path)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("time = 1", "time = 1e200\nthen = 'b'\n[[tasks]]\nname = 'b'\ntime = 1e-200"),
        ("count = 2", "count = 2\n[[choices]]\ntask='a'\nbranches={b=1}\nleads_to={b=[5]}"),
        ("count = 2", "count = 2\n[[choices]]\ntask='a'\nbranches={b=1}\nleads_to={b=5}"),
        ("count = 2", f"count = 0x{'f' * 5000}"),
    ],
)
def test_broken_streams_are_refused(old, new, tmp_path):
    path = tmp_path / "stream.toml"
    path.write_text(STREAM.format(count=2).replace(old, new))
    with pytest.raises(InvalidInput) as caught:
        load_stream(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_damaged_text_of_an_archive_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    made = io.BytesIO()
    text = np.array([0x110000], np.uint32).view("<U1")
    np.savez(made, format=np.array("weft-cluster-1"), speed=np.ones(1), names=text)
    path.write_bytes(made.getvalue())
    with pytest.raises(InvalidInput, match="holds text with codes that are no characters"):
        formats.load_cluster(path)
