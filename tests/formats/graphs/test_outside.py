"""Formats of others: taskgraph-v1, WfFormat, static graphs, STG, DOT, Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import weft
from tests.support.instances import assert_refused
from tests.support.strategies import clusters, workflows
from weft import formats
from weft.errors import InvalidInput
from weft.formats.graphs.dot import AssumedWork
from weft.formats.loading import ReferenceSpeed

MACHINES = weft.Cluster(speed=[1.0, 2.0], bandwidth=1.25e9)


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("outside")


def _edges(workflow: weft.Workflow) -> dict[tuple[str, str], float]:
    ends = zip(workflow.src.tolist(), workflow.dst.tolist(), workflow.data.tolist(), strict=True)
    return {(workflow.task_name(s), workflow.task_name(d)): data for s, d, data in ends}


@pytest.mark.parametrize("folder_name", ["wfinstances", "ml_dags", "tiled_dags"])
def test_taskgraph_loads_all_and_agrees_with_the_index(data, folder_name):
    root = data / folder_name / "dev"
    index = json.loads((root / "index.json").read_text())
    rows = {row["id"]: row for row in index}
    paths = sorted(root.rglob("*.json.gz"))
    assert len(paths) == len(rows)
    for path in paths:
        problem = formats.load(path, cluster=None if folder_name == "tiled_dags" else MACHINES)
        row = rows[problem.name]
        assert (problem.n, problem.m) == (row["n_tasks"], row["n_edges"])
        if folder_name != "tiled_dags":
            assert problem.workflow.work.sum() == pytest.approx(row["total_work"], rel=1e-5)


def test_tiled_graph(data):
    problem = formats.load(data / "tiled_dags" / "dev" / "cholesky_02.json.gz")
    assert problem.cluster.names == ("cpu", "gpu")
    assert problem.durations().tolist() == [[18.0, 11.0], [52.0, 8.0], [57.0, 2.0], [18.0, 11.0]]
    assert problem.workflow.data.tolist() == [0.0, 0.0, 0.0]
    sized = formats.load(
        data / "tiled_dags" / "dev" / "cholesky_02.json.gz", tile_bytes=960 * 960 * 8
    )
    assert sized.workflow.data.tolist() == [7372800.0] * 3
    with pytest.raises(InvalidInput, match="tile_bytes is -1"):
        formats.load(data / "tiled_dags" / "dev" / "cholesky_02.json.gz", tile_bytes=-1)


def test_wfformat_equals_taskgraph(data):
    samples = sorted((data / "wfinstances" / "wfformat_samples").glob("*.json.gz"))
    index = json.loads((data / "wfinstances" / "dev" / "index.json").read_text())
    where = {Path(row["path"]).name: row["path"] for row in index}
    assert len(samples) == 12
    for path in samples:
        ours = formats.load_workflow(path)
        theirs = formats.load_workflow(data / "wfinstances" / "dev" / where[path.name])
        assert (ours.n, ours.m) == (theirs.n, theirs.m)
        place = {name: t for t, name in enumerate(theirs.names)}
        match = np.array([place[name] for name in ours.names])
        for column in ("work", "memory", "cores"):
            assert np.array_equal(getattr(ours, column), getattr(theirs, column)[match]), (
                path.name,
                column,
            )
        assert [ours.kinds[k] for k in ours.kind] == [theirs.kinds[k] for k in theirs.kind[match]]
        assert _edges(ours) == _edges(theirs)


def test_static_graphs(data):
    paths = [
        p
        for p in sorted((data / "static_graphs").iterdir())
        if p.suffix in {".json", ".npz"} and p.name != "results.json"
    ]
    assert len(paths) == 32
    for path in paths:
        assert formats.load(path).n > 0
    classic = formats.load(data / "static_graphs" / "topcuoglu10.json")
    assert (classic.n, classic.m, classic.p) == (10, 15, 3)
    assert classic.durations()[0].tolist() == [14.0, 16.0, 9.0]
    assert classic.transfer(0, 0, 1) == 18.0
    assert classic.transfer(0, 1, 1) == 0.0
    large = formats.load(data / "static_graphs" / "L_n1000_P32.npz")
    assert (large.n, large.p, large.per_work.shape) == (
        1000,
        32,
        (1, 32),
    )  # work / speed stays in that form


def _wfformat(**changes):
    tasks = [
        {
            "name": "cut_ID01",
            "id": "cut_ID01",
            "parents": [],
            "children": ["sew_ID02"],
            "inputFiles": ["in"],
            "outputFiles": ["a", "b", "c"],
        },
        {
            "name": "sew_ID02",
            "id": "sew_ID02",
            "parents": ["cut_ID01"],
            "children": [],
            "inputFiles": ["a", "c"],
            "outputFiles": [],
        },
    ]
    files = [
        {"id": name, "sizeInBytes": size}
        for name, size in (("in", 1000), ("a", 1), ("b", 10), ("c", 100))
    ]
    runs = [
        {"id": "cut_ID01", "runtimeInSeconds": 2.5, "memoryInBytes": 7, "coreCount": 1.5},
        {"id": "sew_ID02", "runtimeInSeconds": 3},
    ]
    document = {
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": tasks, "files": files},
            "execution": {"tasks": runs},
        },
    }
    for key, value in changes.items():
        part = document["workflow"]
        *path, last = key.split("__")
        for step in path:
            part = part[int(step) if step.isdigit() else step]
        part[last] = value
    return json.dumps(document)


def test_wfformat_by_hand(folder):
    (folder / "wf.json").write_text(_wfformat())
    workflow = formats.load_workflow(folder / "wf.json")
    assert workflow.name == "wf"
    assert workflow.data.tolist() == [101.0]  # files a and c: 1 + 100 bytes
    assert workflow.kinds == ("cut", "sew")
    assert (workflow.work.tolist(), workflow.memory.tolist(), workflow.cores.tolist()) == (
        [2.5, 3.0],
        [7.0, 0.0],
        [2, 1],
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"specification__tasks__0__children": ["sew_ID03"]},
            "name the unknown task 'sew_ID03'; did you mean 'sew_ID02'",
        ),
        ({"specification__tasks__0__parents": ["sew_ID02"]}, "has a cycle"),
        ({"specification__tasks__1__inputFiles": ["aa"]}, "name the unknown file 'aa'"),
        ({"specification__tasks__1__id": "cut_ID01"}, "task 'cut_ID01' is given twice"),
        ({"specification__files__1__sizeInBytes": -4}, "size of file 'a' is -4.0"),
        ({"specification__files__1__sizeInBytes": "x"}, "size of file 'a' is 'x'"),
        ({"execution__tasks__0__runtimeInSeconds": -1}, "work of task 'cut_ID01' is -1.0"),
        (
            {
                "execution__tasks__0__runtimeInSeconds": None,
                "execution__tasks__1__runtimeInSeconds": "soon",
            },
            "task 'sew_ID02' is 'soon'",
        ),
        (
            {"execution__tasks__0__id": "cutt_ID01"},
            "unknown task 'cutt_ID01'; did you mean 'cut_ID01'",
        ),
        ({"execution": None}, "workflow.execution is missing"),
        ({"specification": None}, "only 1.5"),
        (
            {"specification__tasks": 3},
            "workflow.specification.tasks is 3; it must be a list of objects",
        ),
        (
            {"specification__tasks__0__id": 3},
            "workflow.specification.tasks[0].id is 3; it must be a string",
        ),
    ],
)
def test_wfformat_refuses(changes, complaint, folder):
    (folder / "bad.json").write_text(_wfformat(**changes))
    with pytest.raises(InvalidInput) as caught:
        formats.load_workflow(folder / "bad.json")
    assert complaint in str(caught.value)


STG = """3
0 0 0
1 4 1 0
2 6 1 0   # a comment
3 5 2 1 2
4 0 1 3
# the lines that describe the graph in the original set
#   and more of them
"""


def test_stg(folder):
    (folder / "a.stg").write_text(STG)
    workflow = formats.load_workflow(folder / "a.stg")
    assert (workflow.n, workflow.m, workflow.work.tolist()) == (5, 5, [0.0, 4.0, 6.0, 5.0, 0.0])
    assert set(_edges(workflow)) == {("0", "1"), ("0", "2"), ("1", "3"), ("2", "3"), ("3", "4")}
    (folder / "a.txt").write_text(STG)
    assert formats.load_workflow(folder / "a.txt").n == 5  # detected by its content


def test_stg_with_communication(folder):
    (folder / "c.stg").write_text("1\n0 0 0\n1 4 1 0 7\n2 0 2 0 1 1 2.5\n")
    assert _edges(formats.load_workflow(folder / "c.stg")) == {
        ("0", "1"): 7.0,
        ("0", "2"): 1.0,
        ("1", "2"): 2.5,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2 3\n0 0 0\n", "its first line must be the number of tasks alone"),
        ("9\n0 0 0\n", "declares 9 tasks"),
        ("1\n1 0 0\n", "line 2 is task '1'; task 0 was expected"),
        ("1\n0 x 0\n", "line 2: time of task 0 is 'x'"),
        ("1\n0 -3 0\n", "work of task '0' is -3.0"),
        ("1\n0 nan 0\n", "work of task '0' is nan"),
        ("1\n0 1\n", "line 2 (task 0) has 2 entries"),
        ("1\n0 1 3 0\n", "line 2 (task 0) declares 3 predecessors, but 1 entries follow"),
        ("2\n0 1 0\n1 1 1 7\n", "line 3: task 1 names the unknown predecessor 7"),
        ("2\n0 1 1 1\n1 1 1 0\n", "has a cycle"),
        ("1\n0 1 1 0\n", "depends on itself"),
        ("2\n0 1 0\n1 1 2 0 0\n", "is given twice"),
    ],
)
def test_stg_refuses(text, complaint, folder):
    (folder / "bad.stg").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        formats.load_workflow(folder / "bad.stg")
    assert complaint in str(caught.value)


DOT = """/* a drawing */ strict digraph "my flow" {
  rankdir=LR; node [shape=box, work=2]; edge [color=red]
  # a preprocessor line
  a [kind=conv memory="2 GB"];  // one
  a -> b:in -> c [data="1 kB"];
  subgraph cluster_x { node [work=9]; d; "e f" }
  a -> d [label="18"]; d -> "e f" [label="to e"]; b -> d [bytes=.5]
}
"""


def test_dot(folder):
    (folder / "a.dot").write_text(DOT)
    workflow = formats.load_workflow(folder / "a.dot")
    assert workflow.name == "my flow"
    assert workflow.names == ("a", "b", "c", "d", "e f")
    assert workflow.work.tolist() == [2.0, 2.0, 2.0, 9.0, 9.0]
    assert workflow.memory.tolist() == [2e9, 0.0, 0.0, 0.0, 0.0]
    assert [workflow.kinds[k] for k in workflow.kind] == ["conv", "task", "task", "task", "task"]
    assert _edges(workflow) == {
        ("a", "b"): 1000.0,
        ("b", "c"): 1000.0,
        ("a", "d"): 18.0,
        ("d", "e f"): 0.0,
        ("b", "d"): 0.5,
    }


def test_dot_without_work_has_one_unit_each(folder):
    (folder / "plain").write_text("digraph { a -> b }")
    with pytest.warns(AssumedWork, match=r"every task counts as 1 s .* a \[work=2.5\]"):
        found = formats.load_workflow(folder / "plain")
    assert found.work.tolist() == [1.0, 1.0]


def test_dot_labels_are_names(folder):
    nodes = r'0 [label="all", work=1] 1 [label="map\nsample: A", work=1] 2 [work=1]'
    twins = r'3 [label="sort", work=1] 4 [label="sort", work=1] 5 [label="\N", work=1]'
    (folder / "labels.dot").write_text(f"digraph {{ {nodes} {twins} 1 -> 0 }}")
    found = formats.load_workflow(folder / "labels.dot")
    assert found.names == ("all", "map sample: A", "2", "sort (3)", "sort (4)", "5")
    assert _edges(found) == {("map sample: A", "all"): 0.0}


def test_recorded_seconds_on_devices_of_another_scale(folder):
    (folder / "wf.json").write_text(_wfformat())
    with pytest.warns(ReferenceSpeed, match="'fast' of speed 15.7 takes 1/15.7 of them"):
        formats.load(folder / "wf.json", weft.Cluster(speed=[15.7], names=("fast",), cores=[9]))
    formats.load(folder / "wf.json", weft.Cluster(speed=[1.0, 2.0], cores=[9, 9]))  # no warning


@given(workflow=clusters().flatmap(workflows))
@settings(max_examples=30)
def test_dot_round_trip(workflow, folder):
    formats.save(workflow, folder / "w.gv")
    found = formats.load_workflow(folder / "w.gv")
    assert found.name == workflow.name
    assert found.names == (workflow.names if workflow.n else ())
    for column in ("work", "memory", "cores", "src", "dst", "data"):
        assert np.array_equal(getattr(found, column), getattr(workflow, column))
    assert [found.kinds[k] for k in found.kind] == [workflow.kinds[k] for k in workflow.kind]
    assert set(found.durations) == set(workflow.durations)
    assert all(
        np.array_equal(found.durations[k], workflow.durations[k], equal_nan=True)
        for k in workflow.durations
    )


def test_dot_refuses_branches(folder):
    b = weft.WorkflowBuilder()
    b.task("a", work=1.0)
    b.task("b", work=1.0)
    b.choice("a", {"yes": 0.25, "no": 0.75})
    b.edge("a", "b", when="yes")
    with pytest.raises(InvalidInput, match="has choices, which dot cannot hold"):
        formats.save(b.build(), folder / "branch.dot")
    (folder / "branch.dot").write_text('digraph { a [work=1] b [work=1] a -> b [when="yes"] }')
    with pytest.raises(InvalidInput, match="belongs to a branch"):
        formats.load_workflow(folder / "branch.dot")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("graph { a -- b }", "must begin with 'digraph'"),
        ("digraph { a -- b }", "line 1: a name was expected"),
        ("digraph { a -> b", "line 1: a name was expected, the end of the file found"),
        ("digraph {\n a [work=1\n", "line 3: a name was expected"),
        ("digraph { a [label=<b>] }", "HTML labels"),
        ("digraph { a -> {b c} }", "an edge to a group of nodes is not read"),
        ("digraph { a [work=x] }", "work of task 'a' is 'x'"),
        ("digraph { a [work=-1] }", "work of task 'a' is -1.0"),
        ("digraph { a [work=1]; b }", "task 'b' has no work, while task 'a' has"),
        ("digraph { a [memory=much] }", "memory of task 'a' is 'much'"),
        ("digraph { a [cores=-1] }", "cores of task 'a' is -1.0"),
        ("digraph { a -> b [data=heavy] }", "data of edge 'a' -> 'b' is 'heavy'"),
        ("digraph { a -> b -> a }", "has a cycle"),
        ("digraph { a -> b; a -> b }", "is given twice"),
        ('digraph { a [durations="[1]"] }', "durations of task 'a' is a list"),
        ('digraph { a [durations="{\\"x\\": [[1]]}"] }', "durations of task 'a'"),
        ("digraph { } }", "follows the end of the graph"),
        ("digraph " + "{" * 50_000, "the end of the file found"),
    ],
)
def test_dot_refuses(text, complaint, folder):
    assert_refused(folder / "bad.dot", text, complaint, formats.load_workflow)


def _chrome_events(document, phase):
    return [e for e in document["traceEvents"] if e["ph"] == phase]


def test_chrome_trace_of_a_schedule(folder):
    workflow = weft.Workflow(
        work=[2.0, 3.0, 1.0],
        src=[0, 0],
        dst=[1, 2],
        data=[8.0, 4.0],
        kinds=("a", "b"),
        kind=[0, 1, 1],
    )
    cluster = weft.Cluster(
        speed=[1.0, 1.0], nodes=("n0", "n1"), kinds=("cpu", "gpu"), bandwidth=8.0
    )
    problem = weft.Problem.bind(workflow, cluster)
    schedule = weft.Schedule.of(device=[0, 1, 0], start=[0.0, 3.0, 2.0], finish=[2.0, 6.0, 3.0])
    formats.save_chrome_trace(schedule, folder / "s.json", problem=problem)
    document = json.loads((folder / "s.json").read_text())
    names = {(e["name"], e["pid"], e["tid"]): e["args"] for e in _chrome_events(document, "M")}
    assert names["process_name", 1, 0] == {"name": "n0"}
    assert names["thread_name", 2, 2] == {"name": "d1 (gpu)"}
    slices = [
        (e["name"], e["cat"], e["pid"], e["tid"], e["ts"], e["dur"])
        for e in _chrome_events(document, "X")
    ]
    assert slices == [
        ("t0", "a", 1, 1, 0.0, 2e6),
        ("t1", "b", 2, 2, 3e6, 3e6),
        ("t2", "b", 1, 1, 2e6, 1e6),
    ]
    # One arrow: t0 -> t1 goes to the other device, t0 -> t2 stays.
    (begin,), (end,) = _chrome_events(document, "s"), _chrome_events(document, "f")
    assert (begin["id"], begin["tid"], begin["args"]) == (end["id"], 1, {"bytes": 8.0})
    assert (end["tid"], end["ts"], end["bp"]) == (2, 3e6, "e")
    assert 0.0 < begin["ts"] < 2e6
    formats.save(schedule, folder / "s.chrome.json", problem=problem)
    assert (folder / "s.chrome.json").read_bytes() == (folder / "s.json").read_bytes()
    assert not _chrome_events(formats.chrome_trace(schedule, problem, flows=False), "s")


def test_chrome_trace_of_a_trace(folder):
    b = weft.WorkflowBuilder()
    for name in ("ask", "left", "join"):
        b.task(name, work=1.0)
    b.choice("ask", {"yes": 0.5, "no": 0.5})
    b.edge("ask", "left", when="yes")
    b.edge("ask", "join", when="no")
    b.edge("left", "join")
    problem = weft.Problem.bind(b.build(), weft.Cluster(speed=[1.0, 1.0]))
    workload = weft.Workload.of(problem, arrival=[0.0, 1.0])
    columns = {
        "job": [0, 0, 0],
        "task": [0, 1, 2],
        "device": [0, 1, 0],
        "status": [0, 1, 0],
        "batch": [0, 1, 2],
    }
    clock = {"decided": [0.0, 1.0, 2.0], "start": [0.0, 1.0, 2.0], "finish": [1.0, 2.0, 3.0]}
    trace = weft.Trace(
        workload=workload,
        scenario=weft.Scenario.of(workload, outcome=[0, 0]),
        copy=np.zeros(3, bool),
        job_finish=np.array([3.0, np.nan]),
        **{k: np.array(v, np.int64) for k, v in columns.items()},
        **{k: np.array(v) for k, v in clock.items()},
    )
    formats.save(trace, folder / "t.chrome.json")
    document = json.loads((folder / "t.chrome.json").read_text())
    events = _chrome_events(document, "X")
    assert [(e["name"], e["args"]["status"], e["args"]["job"]) for e in events] == [
        ("ask", "done", 0),
        ("left", "lost", 0),
        ("join", "done", 0),
    ]
    # ask -> left moved; ask -> join was not taken; left -> join has no finished sender.
    assert [(e["ts"], e["tid"]) for e in _chrome_events(document, "f")] == [(1e6, 2)]


def test_chrome_trace_refuses():
    schedule = weft.Schedule.of(device=[3], start=[0.0], finish=[1.0])
    with pytest.raises(InvalidInput, match="needs its problem"):
        formats.chrome_trace(schedule)
    with pytest.raises(InvalidInput, match="is of device 3, but 'problem' has 1 devices"):
        formats.chrome_trace(schedule, weft.Problem.from_arrays([[1.0]]))
