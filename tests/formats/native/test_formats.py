"""weft's own JSON, NPZ and TOML: exact round trips, equal bytes, `load` and `save`."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.instances import READERS, assert_refused
from tests.support.strategies import clusters, futures, problems, workloads
from weft import formats
from weft.errors import InvalidInput, UnknownName, WeftError
from weft.formats.native.cluster_toml import read_cluster_toml
from weft.model import (
    Choices,
    Cluster,
    Device,
    Links,
    Problem,
    Scenario,
    Schedule,
    Trace,
    Workflow,
    Workload,
)

SAMPLES = Path(__file__).parents[1] / "samples"

ways = pytest.mark.parametrize("suffix", [".json", ".npz", ".json.gz"])


def same(a: object, b: object) -> bool:
    """Equality to the last bit, NaN equal to NaN, over every field of every part."""
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple)
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return a == b


def again(thing: Any, folder: Path, suffix: str) -> Any:
    """Save twice, demand equal bytes, and load."""
    one, two = folder / f"one{suffix}", folder / f"two{suffix}"
    formats.save(thing, one)
    formats.save(thing, two)
    assert one.read_bytes() == two.read_bytes()
    return READERS[type(thing)](one)


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@ways
@given(problem=problems(choices=True, batches=True))
@settings(max_examples=25)
def test_problem_round_trip(problem, suffix, folder):
    assert same(again(problem, folder, suffix), problem)


@ways
@given(workload=workloads())
@settings(max_examples=15)
def test_workload_round_trip(workload, suffix, folder):
    assert same(again(workload, folder, suffix), workload)


@st.composite
def traces(draw):
    workload, scenario = draw(futures(min_tasks=1))
    rows = draw(st.integers(0, 6))
    job = np.array([draw(st.integers(0, workload.jobs - 1)) for _ in range(rows)], np.int64)
    sizes = np.diff(workload.first_instance)
    times = st.floats(0.0, 1e6)
    whole = {
        "job": job,
        "task": np.array([draw(st.integers(0, sizes[j] - 1)) for j in job], np.int64),
        "device": np.array(
            [draw(st.integers(0, workload.cluster.p - 1)) for _ in range(rows)], np.int64
        ),
        "status": np.array([draw(st.integers(0, 2)) for _ in range(rows)], np.int64),
        "batch": np.arange(rows, dtype=np.int64),
        "copy": np.array([draw(st.booleans()) for _ in range(rows)], bool),
    }
    clock = {
        key: np.array([draw(times) for _ in range(rows)], float)
        for key in ("decided", "start", "finish")
    }
    clock["finish"] = np.maximum(clock["start"], clock["finish"])
    ends = np.array([draw(st.one_of(st.just(np.nan), times)) for _ in range(workload.jobs)], float)
    return Trace(
        workload=workload,
        scenario=scenario,
        job_finish=ends,
        eager=draw(st.booleans()),
        policy="fifo",
        measured=draw(st.booleans()),
        **whole,
        **clock,
    )


@ways
@given(trace=traces())
@settings(max_examples=15)
def test_trace_round_trip(trace, suffix, folder):
    assert same(again(trace, folder, suffix), trace)


@ways
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.floats(-1e300, 1e300), st.booleans()),
        max_size=8,
    )
)
@settings(max_examples=15)
def test_schedule_round_trip(rows, suffix, folder):
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    schedule = Schedule.of(
        task=columns[0],
        device=columns[1],
        start=columns[2],
        finish=columns[2],
        copy=np.array(columns[3], bool),
    )
    assert same(again(schedule, folder, suffix), schedule)


@pytest.mark.parametrize("suffix", [".json", ".npz", ".toml", ".toml.gz"])
@given(cluster=clusters(batches=True))
@settings(max_examples=25)
def test_cluster_round_trip(cluster, suffix, folder):
    found = again(cluster, folder, suffix)
    if suffix.startswith(".toml"):  # a column of NaN alone says nothing, and TOML does not say it
        kept = {k: v for k, v in cluster.throughput.items() if not np.isnan(v).all()}
        assert set(found.throughput) == set(kept)
        assert all(np.array_equal(found.throughput[k], kept[k], equal_nan=True) for k in kept)
        object.__setattr__(found, "throughput", cluster.throughput)
    assert same(found, cluster)


def test_numbers_keep_their_bits(folder):
    # The smallest and largest floats, one without a short decimal form, and minus zero (which
    # equals zero, but has other bits).
    work = [5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1 / 3, -0.0, 0.0]
    workflow = Workflow(
        work=work,
        src=[],
        dst=[],
        data=[],
        names=('a"b\\c', "ü€😀", "with\nnewline", "", " ", "\x7f"),
    )
    for suffix in (".json", ".npz", ".dot"):
        found = again(workflow, folder, suffix)
        assert found.work.tobytes() == workflow.work.tobytes()
        assert found.names == workflow.names


def test_json_is_strict_and_flat(folder):
    cluster = Cluster(speed=[1.0, 2.0], throughput={"conv": [np.nan, 3.0]})
    workflow = Workflow(
        work=[1.0, 2.0],
        src=[0],
        dst=[1],
        data=[8.0],
        durations={"d0": [np.nan, 1.0], "d1": [1.0, 1.0]},
    )
    formats.save(Problem.bind(workflow, cluster), folder / "strict.json")
    document = json.loads((folder / "strict.json").read_text(), parse_constant=pytest.fail)
    assert document["format"] == "weft-problem-1"
    assert document["cluster"]["memory"] == "inf"
    assert document["cluster"]["bandwidth"] == "inf"
    assert document["cluster"]["throughput"] == [[None, 3.0]]
    assert document["workflow"]["durations"] == [[None, 1.0], [1.0, 1.0]]


def test_npz_has_the_same_keys_and_no_pickles(folder):
    problem = Problem.from_arrays([[1.0, 2.0]], name="tiny")
    formats.save(problem, folder / "same.npz")
    with np.load(folder / "same.npz", allow_pickle=False) as archive:
        assert str(archive["format"]) == "weft-problem-1"
        assert archive["workflow/durations"].tolist() == [[1.0], [2.0]]
        assert archive["cluster/names"].tolist() == ["d0", "d1"]


def test_a_small_file_by_hand(folder):
    (folder / "hand.json").write_text(
        '{"format": "weft-problem-1", '
        '"workflow": {"work": [4, 6], "src": [0], "dst": [1], "data": 10},'
        ' "cluster": {"speed": [1, 2], "bandwidth": 5}}'
    )
    problem = formats.load(folder / "hand.json")
    assert problem.durations().tolist() == [[4.0, 2.0], [6.0, 3.0]]  # work / speed
    assert problem.transfer(0, 0, 1) == 2.0  # 10 bytes at 5 bytes per second


def test_gzip_is_told_by_content(folder):
    formats.save(Problem.from_arrays([[1.0]]), folder / "plain.json")
    (folder / "packed.json").write_bytes(gzip.compress((folder / "plain.json").read_bytes()))
    assert formats.load(folder / "packed.json").n == 1


def test_cluster_argument(folder):
    workflow = Workflow(work=[6.0], src=[], dst=[], data=[])
    formats.save(workflow, folder / "w.json")
    formats.save(Cluster(speed=[3.0]), folder / "c.toml")
    assert formats.load(folder / "w.json", cluster=folder / "c.toml").duration(0, 0) == 2.0
    assert formats.load(str(folder / "w.json"), str(folder / "c.toml")).duration(0, 0) == 2.0
    assert formats.load(folder / "w.json", cluster=Cluster(speed=[2.0])).duration(0, 0) == 3.0
    with pytest.raises(InvalidInput, match=r"w\.json: holds a workflow without machines"):
        formats.load(folder / "w.json")


def test_a_given_cluster_takes_the_place_of_the_files_own(folder):
    formats.save(Problem.from_arrays(work=[6.0], speed=[1.0]), folder / "own.json")
    assert formats.load(
        folder / "own.json", cluster=Cluster(speed=[2.0, 3.0])
    ).durations().tolist() == [[3.0, 2.0]]


def test_durations_by_device_kind_bring_their_own_machines(folder):
    workflow = Workflow(
        work=[0.0], src=[], dst=[], data=[], durations={"cpu": [4.0], "gpu": [1.0]}, cores=[3]
    )
    formats.save(workflow, folder / "kinds.json")
    problem = formats.load(folder / "kinds.json")
    assert problem.cluster.kinds == ("cpu", "gpu")
    assert problem.durations().tolist() == [[4.0, 1.0]]


def test_parts_of_a_file(folder):
    problem = Problem.from_arrays([[1.0, 2.0]])
    formats.save(problem, folder / "whole.json")
    assert same(formats.load_workflow(folder / "whole.json"), problem.workflow)
    assert same(formats.load_cluster(folder / "whole.json"), problem.cluster)
    assert formats.load_workload(folder / "whole.json").jobs == 1
    complaint = r"holds a problem, not a trace; read it with weft plan \(in Python: weft\.load\)"
    with pytest.raises(InvalidInput, match=complaint):
        formats.load_trace(folder / "whole.json")
    formats.save(problem.cluster, folder / "machines.toml")
    with pytest.raises(InvalidInput, match="holds a cluster, not a workflow; give it as --cluster"):
        formats.load(folder / "machines.toml")


def test_schedule_with_names(folder):
    problem = Problem.from_arrays([[1.0, 2.0]])
    schedule = Schedule.of(device=[1], start=[0.0], finish=[2.0])
    formats.save(schedule, folder / "named.json", problem=problem)
    document = json.loads((folder / "named.json").read_text())
    assert (document["task_name"], document["device_name"]) == (["t0"], ["d1"])
    assert same(formats.load_schedule(folder / "named.json"), schedule)
    with pytest.raises(InvalidInput, match="is of device 5"):
        formats.save(
            Schedule.of(device=[5], start=[0.0], finish=[1.0]), folder / "x.json", problem=problem
        )


def test_to_text_is_what_json_files_hold(folder):
    problem = Problem.from_arrays([[1.0, 2.0]])
    formats.save(problem, folder / "text.json")
    assert formats.to_text(problem) == (folder / "text.json").read_text()


def test_save_refuses(folder):
    problem = Problem.from_arrays([[1.0]])
    with pytest.raises(
        InvalidInput,
        match=r"a Problem cannot be saved as '\.yaml'; known: \.json, \.npz, \.wfformat\.json",
    ):
        formats.save(problem, folder / "x.yaml")
    with pytest.raises(InvalidInput, match="cannot be written"):
        formats.save(problem, folder / "no" / "such" / "x.json")
    with pytest.raises(InvalidInput, match="a dict cannot be saved"):
        formats.save({}, folder / "x.json")
    with pytest.raises(InvalidInput, match="last NUL"):
        formats.save(
            Workflow(work=[1.0], src=[], dst=[], data=[], names=("a\0",)), folder / "x.npz"
        )


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_measured_costs_survive(folder, suffix):
    plain = Problem.bind(
        Workflow(work=[1.0, 2.0], src=[0], dst=[1], data=[8.0]), Cluster(speed=[1.0, 2.0])
    )
    per_work = np.array([[0.5, np.inf], [3.0, 0.25]])
    measured = Problem(plain.workflow, plain.cluster, plain.work, np.array([1, 0]), per_work)
    formats.save(measured, folder / f"x{suffix}")
    again = formats.load(folder / f"x{suffix}")
    assert np.array_equal(again.durations(), measured.durations())
    formats.save(weft.simulate(measured, "eft"), folder / f"y{suffix}")
    trace = formats.load_trace(folder / f"y{suffix}")
    assert np.array_equal(trace.workload.problems[0].durations(), measured.durations())
    assert weft.check(trace.workload, trace) == []


def test_keys_of_files_stay_whatever_the_fields_are_called(folder):
    plain = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    measured = Problem(plain.workflow, plain.cluster, plain.work, plain.row, plain.per_work * 2)
    future = Scenario.of(Workload.of(measured), changes=[(0.5, 1, 2.0)])
    formats.save(weft.simulate(measured, "eft", scenario=future), folder / "x.json")
    content = json.loads((folder / "x.json").read_text())
    assert content["scenario"]["change_pace"] == [2.0]
    assert set(content["workload"]["workflows"][0]["costs"]) == {"work", "row", "pace"}
    trace = formats.load_trace(folder / "x.json")
    assert trace.scenario.change_slowdown.tolist() == [2.0]
    assert np.array_equal(trace.workload.problems[0].per_work, measured.per_work)


@pytest.mark.parametrize(
    "costs", [{"row": [0, 5]}, {"row": [-1, 0]}, {"pace": [[1.0]]}, {"work": [-1.0, 1.0]}, {"x": 1}]
)
def test_wrong_costs_are_refused(folder, costs):
    plain = Problem.bind(
        Workflow(work=[1.0, 2.0], src=[0], dst=[1], data=[8.0]), Cluster(speed=[1.0, 2.0])
    )
    bent = Problem(plain.workflow, plain.cluster, plain.work, plain.row, plain.per_work * 2)
    formats.save(bent, folder / "x.json")
    content = json.loads((folder / "x.json").read_text())
    content["workflow"]["costs"] |= costs
    (folder / "x.json").write_text(json.dumps(content))
    with pytest.raises(WeftError):
        formats.load(folder / "x.json")


def test_choices_survive_edges_in_any_order(folder):
    # Task 0 chooses between 1 and 2; the edges are given backwards, so their branches must move
    # with them.
    choices = Choices(
        task=np.array([0]),
        first=np.array([0, 2]),
        probability=np.array([0.25, 0.75]),
        labels=("left", "right"),
        edge_choice=np.array([-1, 0, 0]),
        edge_branch=np.array([0, 1, 0]),
    )
    workflow = Workflow(
        work=[1.0] * 4, src=[2, 0, 0], dst=[3, 2, 1], data=[0.0] * 3, choices=choices
    )
    for suffix in (".json", ".npz"):
        found = again(workflow, folder, suffix)
        assert [
            (int(d), int(c), int(b))
            for d, c, b in zip(
                found.dst, found.choices.edge_choice, found.choices.edge_branch, strict=True
            )
        ] == [(1, 0, 0), (2, 0, 1), (3, -1, 0)]


def test_cluster_toml():
    expected = Cluster.of(
        [
            *(
                Device(
                    f"a100-{i}",
                    kind="A100",
                    node="n0",
                    speed=9.7,
                    throughput={"conv": 20.0, "sort": 0.0},
                    memory=40 * 1024.0**3,
                    batch=8,
                    power=400.0,
                    idle_power=50.0,
                    price=4.5,  # 3.5, and half of the node's 2
                )
                for i in range(2)
            ),
            Device("cpu-0", kind="cpu", node="n1", cores=16),
        ],
        Links(
            bandwidth=12.5e9, latency=5e-6, node_bandwidth=300e9, node_latency=0.0
        ),  # 100 Gbit/s = 12.5 GB/s
        name="two nodes",
    )
    assert same(formats.load_cluster(SAMPLES / "two_nodes.toml"), expected)


def test_prices_of_devices_and_nodes(folder):
    text = (
        '[nodes.n0]\nprice = "6 /h"\n'
        '[[devices]]\ncount = 2\nnode = "n0"\nprice = 0.5\n[[devices]]\nnode = "n1"\nkind = "k"\n'
    )
    cluster = read_cluster_toml(text, name="priced")
    assert cluster.price.tolist() == [3.5, 3.5, 0.0]  # 0.5 and half of 6
    for suffix in (".toml", ".json"):
        assert same(again(cluster, folder, suffix), cluster)


def test_cluster_toml_with_matrices(folder):
    (folder / "m.toml").write_text(
        '[links]\nbandwidth = [[0, "1 kB/s"], [250, 7]]\nlatency = [[0, 1], [2, 0]]\n'
        '[[devices]]\nname="a"\n[[devices]]\nname="b"\n'
    )
    cluster = formats.load_cluster(folder / "m.toml")
    assert (cluster.transfer_time(0, 1, 500.0), cluster.transfer_time(1, 0, 500.0)) == (
        1.5,
        4.0,
    )  # 1 + 500/1000, 2 + 500/250
    assert cluster.name == "m"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bandwith = 3\n[[devices]]", "unknown key 'bandwith'"),
        (
            "[links]\nbandwith = 3\n[[devices]]",
            "unknown key 'bandwith' in links; did you mean 'bandwidth'",
        ),
        ("[[devices]]\n[nodes.n9]\nprice = 1", "unknown key 'n9' in nodes; known: node0"),
        ("[[devices]]\nprice = -1", "price of device 'device-0' is -1"),
        ("[[devices]]\nmemery = 3", "unknown key 'memery' in devices[0]; did you mean 'memory'"),
        ("[[devices]]\nmemory = '3 GX'", "devices[0].memory is '3 GX'; 'GX' is no unit of bytes"),
        ("[[devices]]\nmemory = '3 s'", "'s' is no unit of bytes"),
        (
            "[[devices]]\nmemory = true",
            'devices[0].memory is true; it must be a number or a string such as "40 GB"',
        ),
        ("[[devices]]\nmemory = 1e999", "the number '1e999' is too large"),
        ("[[devices]]\nmemory = '9e999 GB'", "too large to be used"),
        ("[[devices]]\nspeed = 0", "speed of device 'device-0' is 0.0"),
        ("[[devices]]\nspeed = nan", "speed of device 'device-0' is nan"),
        ("[[devices]]\ncores = 1.5", "devices[0].cores is 1.5; it must be a whole number"),
        ("[[devices]]\ncount = 0", "devices[0].count is 0"),
        ("[[devices]]\ncount = 1000000000", "a cluster of 1000000000 devices takes"),
        ("[[devices]]\nthroughput = 3", "devices[0].throughput is 3; it must be an object"),
        ("[[devices]]\nname = 'a'\n[[devices]]\nname = 'a'", "device 'a' is given twice"),
        (
            "[links]\nbandwidth = [[1]]\nnode_bandwidth = 2\n[[devices]]",
            "has no meaning beside a matrix",
        ),
        (
            "[links]\nbandwidth = [[1, 2], [3, 4]]\n[[devices]]",
            "bandwidth has shape (2, 2), expected (1, 1)",
        ),
        (
            "[links]\nbandwidth = -1\n[[devices]]\n[[devices]]",
            "bandwidth of link 'device-0' -> 'device-1' is -1.0",
        ),
        ("devices = []", "has no devices"),
        ("devices = 3", "devices is 3; it must be a list of objects"),
        ("name = 'x'", "key 'devices' is missing"),
        ("[[devices]", "is not valid TOML"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("x = " + "9" * 5000, "is not valid TOML"),
    ],
)
def test_cluster_toml_refuses(text, complaint, folder):
    assert_refused(folder / "bad.toml", text, complaint, formats.load_cluster)


def test_unknown_key_is_an_unknown_name(folder):
    (folder / "bad.json").write_text('{"format": "weft-workflow-1", "work": [], "memmory": 3}')
    with pytest.raises(UnknownName, match="unknown key 'memmory'; did you mean 'memory'"):
        formats.load(folder / "bad.json")


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_the_largest_size_of_the_literature(folder, suffix):
    rng = np.random.default_rng(1)
    n, m = 84_654, 200_000
    pairs = np.unique(np.sort(rng.integers(0, n, (m, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    workflow = Workflow(
        work=rng.lognormal(size=n),
        src=pairs[:, 0],
        dst=pairs[:, 1],
        data=rng.random(len(pairs)) * 1e9,
    )
    problem = Problem.bind(workflow, Cluster(speed=rng.random(188) + 0.5, bandwidth=1e9))
    formats.save(problem, folder / f"large{suffix}")
    assert same(formats.load(folder / f"large{suffix}"), problem)
