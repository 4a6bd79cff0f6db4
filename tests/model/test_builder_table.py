"""Problems from tables and workflows from networkx graphs."""

from __future__ import annotations

import pytest

from weft.errors import InvalidInput, UnknownName, WeftError
from weft.model import Cluster, Problem, Workflow
from weft.planners import plan

TEXT = """task,after,seconds:cpu,seconds:gpu,bytes
extract,,4,4,2e9
train,extract,40,5,1e8
score,train;extract,6,,1e6
"""
COLUMNS = {
    "task": ["extract", "train", "score"],
    "after": [None, "extract", "train|extract"],
    "seconds:cpu": [4.0, 40.0, 6.0],
    "seconds:gpu": [4.0, 5.0, float("nan")],
    "bytes": [2e9, 1e8, 1e6],
}


def table_from(form, tmp_path):
    if form == "csv":
        path = tmp_path / "etl.csv"
        path.write_text(TEXT)
        return path
    if form == "frame":
        return pytest.importorskip("pandas").DataFrame(COLUMNS)
    return COLUMNS


@pytest.mark.parametrize("form", ["csv", "frame", "dict"])
def test_a_table_becomes_a_problem(form, tmp_path):
    problem = Problem.from_table(table_from(form, tmp_path), bandwidth=1e9)
    assert problem.workflow.names == ("extract", "train", "score")
    assert problem.cluster.names == ("cpu", "gpu")
    assert problem.durations().tolist() == [[4.0, 4.0], [40.0, 5.0], [6.0, float("inf")]]
    pairs = zip(problem.workflow.src.tolist(), problem.workflow.dst.tolist(), strict=True)
    assert list(pairs) == [(0, 1), (0, 2), (1, 2)]
    assert problem.workflow.data.tolist() == [2e9, 2e9, 1e8]
    # extract and train on the gpu 4 + 5 s, 0.1 s to the cpu, score 6 s there
    assert plan(problem, "anytime", iterations=200).makespan == pytest.approx(15.1)


def test_one_column_of_seconds_needs_a_cluster():
    table = {"task": [1, 2], "after": [float("nan"), 1.0], "seconds": [2, 3], "cores": [1, 2]}
    problem = Problem.from_table(table, Cluster(speed=[1.0, 2.0], cores=[1, 2]))
    assert problem.workflow.names == ("1", "2")
    assert problem.durations().tolist() == [[2.0, 1.0], [float("inf"), 1.5]]
    with pytest.raises(InvalidInput, match="give cluster="):
        Problem.from_table(table)


def test_bytes_per_edge():
    table = {
        "task": ["a", "b", "c"],
        "after": ["", "", "a;b"],
        "after_bytes": ["", "", "10;20"],
        "seconds:cpu": [1, 1, 1],
    }
    assert Problem.from_table(table).workflow.data.tolist() == [10.0, 20.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": ["a", "a"]}, "task 'a' is given twice"),
        ({"task": ["a", ""]}, "row 2 has no task name"),
        ({"after": ["", "x"]}, "task 'b' comes after the unknown task 'x'"),
        ({"after": ["", "a,b"]}, "comes after the unknown task 'a,b'; separate tasks by ';'"),
        ({"after": ["b", "a"]}, "has a cycle"),
        ({"seconds": ["1", "soon"]}, "seconds of task 'b' is 'soon'; it must be a number"),
        ({"seconds": ["1", ""]}, "task 'b' has no seconds on any device"),
        ({"seconds": ["1"]}, "column 'seconds' has 1 rows"),
        ({"seconds": 3}, "column 'seconds' is 3; it must be a list"),
        ({"second": ["1", "2"]}, "unknown column 'second'; did you mean 'seconds'"),
        ({"cores": ["1", "1.5"]}, "cores of task 'b' is '1.5'; it must be a whole number"),
        ({"bytes": [1, 2], "after_bytes": ["", "1"]}, "keep one of them"),
        ({"after": ["", "a"], "after_bytes": ["", "1;2"]}, "its after_bytes has 2 entries"),
    ],
)
def test_bad_tables(change, message):
    table = {"task": ["a", "b"], "seconds": ["1", "2"], **change}
    with pytest.raises(WeftError, match=message):
        Problem.from_table(table, Cluster(speed=[1.0]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"seconds": [1.0]}, "no column 'task'"),
        ({"task": ["a"]}, "neither a column 'seconds' nor one per kind"),
        (7, "the table is of type int"),
        ("missing.csv", "missing.csv cannot be read"),
    ],
)
def test_no_tables(table, message):
    with pytest.raises(InvalidInput, match=message):
        Problem.from_table(table)


def test_a_csv_row_with_too_few_cells(tmp_path):
    (tmp_path / "x.csv").write_text("task,after,seconds:cpu\na,1\n")
    with pytest.raises(InvalidInput, match="row 1 has 2 cells, but there are 3 columns"):
        Problem.from_table(tmp_path / "x.csv")


def test_a_cluster_has_its_own_links():
    table = {"task": ["a"], "seconds": [1.0]}
    with pytest.raises(InvalidInput, match="leave out bandwidth"):
        Problem.from_table(table, Cluster(speed=[1.0]), bandwidth=1.0)


def test_a_networkx_graph_becomes_a_workflow():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph(name="etl")
    graph.add_node("a", seconds=2.0, kind="load")
    graph.add_node("b", durations={"cpu": 4, "gpu": 1}, memory=8)
    graph.add_edge("a", "b", data=1e6)
    workflow = Workflow.from_networkx(graph)
    assert (workflow.name, workflow.names, workflow.kinds) == ("etl", ("a", "b"), ("load", "task"))
    assert workflow.work.tolist() == [2.0, 0.0]
    assert workflow.durations["gpu"].tolist()[1] == 1.0
    assert workflow.data.tolist() == [1e6]
    graph.add_node("c")
    with pytest.raises(InvalidInput, match="node 'c' has neither seconds nor durations"):
        Workflow.from_networkx(graph)
    with pytest.raises(InvalidInput, match="must be directed"):
        Workflow.from_networkx(networkx.Graph())
    with pytest.raises(InvalidInput, match="type int; it must be a networkx"):
        Workflow.from_networkx(3)


def test_an_unknown_column_is_named():
    with pytest.raises(UnknownName, match="known: task, after, seconds"):
        Problem.from_table({"task": ["a"], "seconds": [1], "owner": ["me"]})


def _held(protocol, frame):
    """Return an object that offers a frame through one protocol only."""

    class Held:
        pass

    setattr(Held, protocol, lambda self, *args, **kwargs: getattr(frame, protocol)(*args, **kwargs))
    return Held()


ROWS = {"task": ["a", "b"], "after": ["", "a"], "seconds": [2.0, 3.0], "bytes": [8.0, None]}


def test_data_frames_of_other_libraries():
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    machines = Cluster(speed=[1.0])
    frame = polars.DataFrame(ROWS)
    frames = [frame, frame.lazy(), _held("__arrow_c_stream__", frame), pandas.DataFrame(ROWS)]
    frames.append(pandas.DataFrame(ROWS).convert_dtypes())  # its empty cells are pandas.NA
    if hasattr(pandas.DataFrame, "__dataframe__"):
        frames.append(_held("__dataframe__", pandas.DataFrame(ROWS)))
    for table in frames:
        problem = Problem.from_table(table, machines)
        assert problem.workflow.names == ("a", "b")
        assert problem.workflow.work.tolist() == [2.0, 3.0]
        assert problem.workflow.data.tolist() == [8.0]
    with pytest.raises(InvalidInput, match="the table is of type int"):
        Problem.from_table(5, machines)
