"""Broken files: one clear line that names the file, and never a traceback."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.fuzz.seeds.corpus import DOT, STATIC, STG, TASK_TABLE, TASKGRAPH, WFFORMAT
from tests.fuzz.seeds.toml_files import MACHINES_TOML
from tests.support.instances import assert_refused, conditional_problem, cut_trace
from weft import formats
from weft.errors import InvalidInput, WeftError
from weft.formats.model_file import read_model
from weft.formats.native.stream_toml import load_stream
from weft.model import Cluster, Schedule, Workflow

# A change of one letter may take the costs from a DOT graph.
pytestmark = pytest.mark.filterwarnings("ignore::weft.formats.graphs.dot.AssumedWork")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("broken")


def _problem(**changes) -> str:
    """A sound problem as JSON, with some keys of its workflow and its cluster changed."""
    document = {
        "format": "weft-problem-1",
        "workflow": {
            "names": ["a", "b"],
            "work": [1.0, 2.0],
            "src": [0],
            "dst": [1],
            "data": [8.0],
        },
        "cluster": {"speed": [1.0, 2.0], "bandwidth": 4.0},
    }
    for key, value in changes.items():
        part = (
            "cluster"
            if key in {"speed", "bandwidth", "latency", "throughput", "throughput_kinds", "nodes"}
            else "workflow"
        )
        document[part][key] = value
    return json.dumps(document)


def test_sound(folder):
    (folder / "sound.json").write_text(_problem())
    assert formats.load(folder / "sound.json").n == 2


def test_missing_file_and_directory(folder):
    with pytest.raises(InvalidInput, match=r"nowhere\.json: there is no such file"):
        formats.load(folder / "nowhere.json")
    with pytest.raises(InvalidInput, match="this is a directory"):
        formats.load(folder)
    with pytest.raises(InvalidInput, match="no such file"):
        formats.load(folder / "nowhere.json", cluster=Cluster(speed=[1.0]))
    with pytest.raises(InvalidInput, match=r"nowhere\.toml: there is no such file"):
        formats.load(folder / "sound.json", cluster=folder / "nowhere.toml")
    with pytest.raises(InvalidInput, match="cluster is 3; it must be a path or a Cluster"):
        formats.load(folder / "sound.json", cluster=3)
    with pytest.raises(InvalidInput, match="cannot be read"):
        formats.load("a\0b")


def test_a_failure_of_the_system_is_named_without_path_and_number(folder):
    with pytest.raises(InvalidInput) as caught:
        formats.load("x" * 300)
    assert str(caught.value) == f"{'x' * 300}: cannot be read: File name too long"
    with pytest.raises(InvalidInput) as caught:
        formats.save(Cluster(speed=[1.0]), folder / "no" / "c.json")
    lost = folder / "no" / "c.json"
    assert str(caught.value) == f"{lost}: cannot be written: No such file or directory"
    with pytest.raises(InvalidInput) as caught:
        weft.Problem.from_table(lost)
    assert str(caught.value) == f"{lost} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "the file is empty"),
        (" \n ", "the file is empty"),
        (_problem()[:100], "is not valid JSON"),
        ("{" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 10 + "]" * 10, "the content is a list of 1 entries; it must be an object"),
        (
            '{"format": "weft-problem-1", "workflow": {"work": ' + "[" * 10 + "]" * 10 + "}}",
            "workflow.work[0] is a list",
        ),
        ("3", "the content is 3; it must be an object"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": NaN}', "NaN is not a number; write null"),
        ('{"a": -Infinity}', "-Infinity is not a number;"),
        ('{"a": ' + "9" * 5000 + "}", "is not valid JSON"),
        ("{}", "is of no known format"),
        ('{"format": "weft-problem-2"}', "format 'weft-problem-2' is unknown"),
        (
            '{"format": "taskgraph-v2"}',
            "unknown format 'taskgraph-v2'; did you mean 'taskgraph-v1'",
        ),
        ('{"format": 3}', "format is 3; it must be a string"),
        ('{"format": "weft-problem-1"}', "key 'workflow' is missing"),
        ('{"format": "weft-problem-1", "workflow": 3}', "workflow is 3; it must be an object"),
        (b"\xff\xfe\x00garbage", "is neither text nor a known binary format (byte 0xff at 0)"),
        (b"\x1f\x8bgarbage", "the gzip data is"),
        (gzip.compress(_problem().encode(), mtime=0)[:60], "the gzip data is cut short"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"PK\x03\x04garbage", "is a damaged NPZ file"),
    ],
)
def test_files_that_are_no_file(content, complaint, folder):
    assert_refused(folder / "bad.json", content, complaint)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"work": "abc"}, "workflow.work[0] is 'abc'; it must be a number"),
        ({"work": [1, "2"]}, "workflow.work[1] is '2'; it must be a number"),
        ({"work": [1, True]}, "workflow.work[1] is true; it must be a number"),
        ({"work": [1, None]}, "work of task 'b' is nan"),
        ({"work": [1, "inf"]}, "work of task 'b' is inf"),
        ({"work": [1, -2]}, "work of task 'b' is -2.0"),
        ({"work": {"a": 1}}, "workflow.work is an object of 1 entries"),
        ({"work": [1, 10**400]}, "workflow.work holds a number too large"),
        ({"work": [1]}, "has 1 tasks but 2 task names"),
        ({"work": [1, 1e308], "memory": 0}, ""),
        ({"names": ["a", "a"]}, "task 'a' is given twice"),
        ({"names": ["a", 3]}, "workflow.names[1] is 3; it must be a string"),
        ({"names": ["a", "\ud800"]}, "not valid Unicode"),
        ({"names": "ab"}, "workflow.names is 'ab'; it must be a list of strings"),
        ({"name": ["x"]}, "workflow.name is a list"),
        ({"src": [7]}, "edge 0 has the source 7, but there are 2 tasks"),
        ({"dst": [-1]}, "edge 0 has the target -1"),
        ({"src": [0.5]}, "workflow.src[0] is 0.5; it must be a whole number"),
        ({"src": [10**30]}, "workflow.src holds a whole number too large"),
        ({"src": [1e30]}, "workflow.src[0] is 1e+30"),
        ({"src": [1]}, "task 'b' depends on itself"),
        (
            {"src": [0, 1], "dst": [1, 0], "data": 0},
            "has a cycle: task 'a' -> task 'b' -> task 'a'",
        ),
        ({"src": [0, 0], "dst": [1, 1], "data": 0}, "is given twice"),
        ({"src": [0, 1]}, "edge targets has shape (1,), expected (2,)"),
        ({"data": [-5]}, "data of edge task 'a' -> task 'b' is -5.0"),
        ({"data": [1e300]}, ""),
        ({"kind": [0, 5]}, "kind of task 'b' is 5"),
        ({"cores": [1, 64]}, "task 'b' fits no device of 'cluster'"),
        ({"memory": [1, None]}, "memory of task 'b' is nan"),
        ({"durations": [[1, 2]]}, "workflow.durations is given without workflow.duration_devices"),
        (
            {"duration_devices": ["d0"], "durations": [[1, 2], [3]]},
            "workflow.durations[1] is a list of 1 entries; it must be a row of 2",
        ),
        ({"duration_devices": ["d0"], "durations": [[1, 2], [3, 4]]}, "it must have 1 rows"),
        ({"duration_devices": ["d0", "d0"], "durations": [[1, 2], [3, 4]]}, "is given twice"),
        ({"duration_devices": ["d7"], "durations": [[1, 2]]}, "task 'a' fits no device"),
        (
            {"duration_devices": ["d0"], "durations": [[1, -2]]},
            "duration on 'd0' of task 'b' is -2.0",
        ),
        ({"choices": {}}, "key 'task' is missing in workflow.choices"),
        ({"speed": []}, "cluster 'cluster' has no devices"),
        ({"speed": [1, 0]}, "speed of device 'd1' is 0.0"),
        ({"speed": [1, 5e-324]}, ""),
        ({"speed": [5e-324, 5e-324]}, "task 'a' fits no device"),
        (
            {"speed": [1e-200, 1], "work": [1e200, 1]},
            "task 'a' takes more seconds than a float can hold",
        ),
        ({"bandwidth": 5e-324}, "takes more seconds than a float can hold"),
        ({"bandwidth": [[1, 2]]}, "bandwidth has shape (1, 2), expected (2, 2)"),
        ({"latency": -1}, "latency of link 'd0' -> 'd1' is -1.0"),
        ({"throughput_kinds": ["task"], "throughput": [[0, 0]]}, "task 'a' fits no device"),
        ({"nodes": ["n0"]}, "has 2 devices but 1 device nodes"),
        ({"wrok": 3}, "unknown key 'wrok' in workflow; did you mean 'work'"),
    ],
)
def test_problems_with_a_wrong_value(changes, complaint, folder):
    path = folder / "wrong.json"
    if complaint:
        assert_refused(path, _problem(**changes), complaint)
    else:  # odd, but sound
        path.write_text(_problem(**changes))
        assert np.isfinite(formats.load(path).durations()).any()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"first": [0, 9]}, "workflow.choices.first must rise from 0 to the number of branches, 2"),
        ({"first": [0]}, "must rise from 0"),
        ({"first": 0}, "must rise from 0"),
        ({"labels": ["x"]}, "has 1 entries, but there are 2 branches"),
        ({"labels": ["x", "x"]}, "label of choice 0 'x' is given twice"),
        ({"probability": [0.5, 0.6]}, "have probabilities [0.5, 0.6]"),
        ({"task": [5]}, "choice 0 belongs to task 5"),
        ({"task": [1]}, "but its choice belongs to task 'large'"),
        ({"edge_choice": [3]}, "branch 0 of choice 3, which does not exist"),
        ({"edge_choice": [0, 0]}, "are for 2 edges, but there are"),
        ({"edge_branch": [5]}, "branch 5 of choice 0"),
        ({"odd": 1}, "unknown key 'odd' in workflow.choices"),
    ],
)
def test_choices_with_a_wrong_value(changes, complaint, folder):
    document = json.loads(formats.to_text(conditional_problem()))
    document["workflow"]["choices"] |= changes
    assert_refused(folder / "choices.json", json.dumps(document), complaint)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"job": [0, 7]}, "job[1] is 7; it must be a number from 0 to 1"),
        ({"task": [0, 2]}, "task[1] is 2; it must be a number from 0 to 1"),
        ({"device": [0, -1]}, "device[1] is -1"),
        ({"status": [0, 3]}, "status[1] is 3"),
        ({"start": [0.0, None]}, "start[1] is not a finite time"),
        ({"start": [0.0]}, "start has shape (1,), expected (2,)"),
        ({"copy": [0, 1]}, "copy[0] is 0; it must be true or false"),
        ({"copy": [True]}, "copy has 1 entries"),
        ({"eager": 1}, "eager is 1; it must be true or false"),
        ({"job_finish": [1.0]}, "job_finish has shape (1,), expected (2,)"),
        ({"scenario": {"outcome": [0, 5]}}, "the outcome of choice 1 is branch 5"),
        ({"scenario": {"change_time": [1.0]}}, "must have the same length"),
        ({"workload": {}}, "key 'clusters' is missing in workload"),
    ],
)
def test_traces_with_a_wrong_value(changes, complaint, folder):
    document = json.loads(formats.to_text(cut_trace())) | changes
    assert_refused(folder / "trace.json", json.dumps(document), complaint, formats.load_trace)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"task": [-1]}, "task[0] is -1"),
        ({"device": [0, 1]}, "device has 2 entries, task has 1"),
        ({"start": ["inf"]}, "times must be finite"),
        ({"finish": [1, 2]}, "finish has shape (2,), expected (1,)"),
        ({"copy": [True, False]}, "copy has 2 entries"),
    ],
)
def test_schedules_with_a_wrong_value(changes, complaint, folder):
    document = {
        "format": "weft-schedule-1",
        "task": [0],
        "device": [0],
        "start": [0.0],
        "finish": [1.0],
    } | changes
    assert_refused(folder / "schedule.json", json.dumps(document), complaint, formats.load_schedule)


def _npz(**columns) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **columns)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            _npz(format="weft-workflow-1", work=np.array([1.0, {}], object)),
            "'work.npy' holds pickled objects, which are never loaded",
        ),
        (_npz(format="weft-workflow-1", work=np.array([1j])), "'work.npy' holds complex128"),
        (
            _npz(format="weft-workflow-1", work=np.ones((2, 2))),
            "work is an array of float64 of shape (2, 2)",
        ),
        (_npz(format="weft-workflow-1", work=np.array(["a"])), "work is an array of <U1"),
        (
            _npz(format="weft-workflow-1", work=[1.0], names=[3]),
            "names is an array of int64 of shape (1,); it must hold text",
        ),
        (
            _npz(format="weft-workflow-1", work=[1.0], cores=[0.5]),
            "cores[0] is 0.5; it must be a whole number",
        ),
        (
            _npz(format="weft-workflow-1", work=[1.0], cores=np.array([2**64 - 1], np.uint64)),
            "too large",
        ),
        (_npz(format=3), "format is an array of int64 of shape (); it must hold text"),
        (
            _npz(**{"format": "weft-problem-1", "workflow": [1.0], "workflow/work": [1.0]}),
            "is both a column and a folder",
        ),
        (
            _npz(**{"format": "weft-workload-1", "clusters/1/speed": [1.0]}),
            "clusters must have the entries 0 to 0",
        ),
        (_npz(a=[1.0])[:-30], "is a damaged NPZ file"),
        (_npz(a=[1.0])[:30], "is a damaged NPZ file"),
    ],
)
def test_archives_with_a_wrong_value(content, complaint, folder):
    assert_refused(folder / "bad.npz", content, complaint)


def test_an_archive_that_lies_about_its_size(folder):
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("work.npy", member.getvalue())
    assert_refused(folder / "liar.npz", stream.getvalue(), "but has 0 bytes")


def test_a_fitting_device_is_missing(folder):
    formats.save(
        Workflow(work=[1.0], src=[], dst=[], data=[], memory=[8e9], names=("big",)),
        folder / "big.json",
    )
    with pytest.raises(
        InvalidInput,
        match=r"big\.json: task 'big' fits no device of 'small': it needs 8e\+09 bytes of memory",
    ):
        formats.load(folder / "big.json", cluster=Cluster(speed=[1.0], memory=[4e9], name="small"))


def test_a_file_of_a_name_that_is_too_long_is_not_written(folder):
    with pytest.raises(weft.InvalidInput, match="cannot be written: File name too long"):
        weft.save(weft.Problem.from_arrays([[1.0]]), folder / f"{'x' * 300}.json")


def test_a_long_name_does_not_make_a_long_message(folder):
    assert_refused(folder / "long.json", _problem(names=["x" * 100_000] * 2), "task 'xxx")


# -- fuzzing ------------------------------------------------------------------

TILED = TASKGRAPH | {"edges": {"src": [0], "dst": [1], "tiles": [1]}}


@pytest.fixture(scope="module", name="sound")
def _sound(folder):
    """Valid files of every format: (name, bytes)."""
    texts = {"stg": STG, "dot": DOT, "toml": MACHINES_TOML, "csv": TASK_TABLE}
    made = {name: text.encode() for name, text in texts.items()}
    for i, document in enumerate((TILED, STATIC, WFFORMAT)):
        made[f"{i}.json"] = json.dumps(document).encode()
    things = [
        conditional_problem(),
        cut_trace(),
        Schedule.of(device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0]),
    ]
    for i, thing in enumerate(things):
        for suffix in ("json", "npz", "json.gz"):
            path = folder / f"sound{i}.{suffix}"
            formats.save(thing, path)
            made[f"own{i}.{suffix}"] = path.read_bytes()
    return sorted(made.items())


READERS = (
    formats.load,
    formats.load_workflow,
    formats.load_cluster,
    formats.load_workload,
    formats.load_schedule,
    formats.load_trace,
)


def _read_with_all(path):
    messages = []
    for reader in READERS:
        try:
            reader(path)
        except WeftError as error:
            messages.append(str(error))
    assert all(message.startswith(f"{path}: ") and "\n" not in message for message in messages)


@st.composite
def mutations(draw):
    """Cut, overwrite, insert, repeat: a function from bytes to bytes."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["cut", "set", "insert", "drop", "repeat"]),
                st.floats(0, 1, exclude_max=True),
                st.binary(min_size=1, max_size=4),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def mutate(content: bytes) -> bytes:
        for what, share, patch in steps:
            at = int(share * len(content))
            if what == "cut":
                content = content[:at]
            elif what == "set":
                content = content[:at] + patch + content[at + len(patch) :]
            elif what == "insert":
                content = content[:at] + patch + content[at:]
            elif what == "drop":
                content = content[:at] + content[at + len(patch) :]
            else:
                content = content[:at] + content[at : at + 20] * 2 + content[at + 20 :]
        return content

    return mutate


@given(which=st.integers(0, 14), mutate=mutations())
@settings(max_examples=300)
def test_mutated_bytes_raise_nothing_else(which, mutate, sound, folder):
    name, content = sound[which]
    path = folder / f"mutated.{name}"
    path.write_bytes(mutate(content))
    _read_with_all(path)


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(
        [
            0,
            -1,
            1,
            2**63,
            10**400,
            1e308,
            -0.0,
            5e-324,
            "inf",
            "-inf",
            "x",
            "",
            "\ud800",
            [],
            {},
            [[]],
            [None],
            [[1]],
            ["a", "b"],
            [1, 2],
        ]
    ),
)


def _places(document, path=()):
    """The path of every value in a document."""
    found = [path] if path else []
    entries = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in entries:
        found += _places(value, (*path, key))
    return found


@given(which=st.integers(0, 5), data=st.data())
@settings(max_examples=400)
def test_replaced_values_raise_nothing_else(which, data, folder):
    thing = [
        TILED,
        STATIC,
        WFFORMAT,
        conditional_problem(),
        cut_trace(),
        Schedule.of(device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0]),
    ][which]
    document = json.loads(json.dumps(thing) if isinstance(thing, dict) else formats.to_text(thing))
    for _ in range(data.draw(st.integers(1, 2))):
        places = _places(document)
        *path, last = data.draw(st.sampled_from(places))
        part = document
        for key in path:
            part = part[key]
        part[last] = data.draw(odd)
    path = folder / "replaced.json"
    path.write_text(json.dumps(document))
    _read_with_all(path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "\ud800"])
@pytest.mark.parametrize(
    "read", [formats.load, formats.load_cluster, load_stream, read_model, weft.load_policy]
)
def test_names_that_no_file_can_have(name, read):
    with pytest.raises(WeftError) as refused:
        read(Path(name))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600
