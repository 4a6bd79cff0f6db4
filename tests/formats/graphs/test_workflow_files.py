"""WfFormat with its machines, and DAX: in, out and in again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import weft
from tests.support.strategies import problems
from weft import formats
from weft.errors import InvalidInput, UnknownName
from weft.model import Cluster, Problem, Workflow

SAMPLES = Path(__file__).parents[1] / "samples"
SHIPPED = SAMPLES / "wfformat-1.6.json"


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("workflow_files")


def test_the_machines_of_a_wfformat_file():
    problem = formats.load(SHIPPED)
    # The largest task needs 1.5, so 2 cores: the tasks of a machine share its cores.
    nodes = problem.cluster.nodes
    assert {node: nodes.count(node) for node in nodes} == {"m1": 2, "m2": 4}
    assert problem.cluster.capacity["cores"].tolist() == [2.0, 4.0]
    assert set(problem.cluster.memory.tolist()) == {8e9, np.inf}
    assert weft.check(problem, weft.plan(problem, "heft")) == []
    assert problem.cluster.name == "2 machines of the file"
    assert problem.workflow.memory.tolist() == [4096.0, 0.0]
    assert formats.load_cluster(SHIPPED).names == problem.cluster.names
    assert formats.load(SHIPPED, cluster=Cluster(speed=[1.0], cores=[2])).p == 1


def test_tasks_share_the_memory_of_their_machine_where_it_is_short(folder):
    document = json.loads(SHIPPED.read_text())
    for task in document["workflow"]["execution"]["tasks"]:
        task |= {"memoryInBytes": 5_000_000_000, "coreCount": 1}
    document["workflow"]["execution"]["machines"].pop()
    path = folder / "memory.json"
    path.write_text(json.dumps(document))
    problem = formats.load(path)
    assert {k: v.tolist() for k, v in problem.cluster.capacity.items()} == {"memory": [8e9]}
    assert problem.contended
    formats.save(problem, path := folder / "again.wfformat.json")
    assert formats.load(path).cluster.capacity["memory"].tolist() == [8e9]


def test_real_files_have_machines(data):
    bwa = data / "wfinstances" / "wfformat_samples" / "bwa-chameleon-large-001.json.gz"
    assert formats.load(bwa).p == 96  # four machines of 24 cores


def test_bad_machines_are_named(folder):
    document = json.loads(SHIPPED.read_text())
    document["workflow"]["execution"]["machines"][1]["cpu"]["coreCount"] = -4
    (folder / "bad.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=r"machines\[1\]\.cpu\.coreCount must be a whole number"):
        formats.load(folder / "bad.json")
    assert formats.load_workflow(folder / "bad.json").n == 2  # machines are not needed here


def _edges(workflow):
    ends = zip(workflow.src.tolist(), workflow.dst.tolist(), workflow.data.tolist(), strict=True)
    return {(workflow.task_name(s), workflow.task_name(d)): data for s, d, data in ends}


@pytest.mark.parametrize("suffix", [".wfformat.json", ".wfformat-1.6.json", ".dax"])
@given(problem=problems())
@settings(max_examples=15)
def test_round_trip(problem, suffix, folder):
    workflow = problem.workflow
    plain = Workflow(
        work=workflow.work,
        src=workflow.src,
        dst=workflow.dst,
        data=np.ceil(workflow.data),
        cores=workflow.cores,
        memory=np.ceil(workflow.memory),
    )
    path = folder / f"x{suffix}"
    formats.save(plain, path)
    found = formats.load_workflow(path)
    assert found.work.tolist() == plain.work.tolist()
    assert found.cores.tolist() == plain.cores.tolist()
    assert found.memory.tolist() == plain.memory.tolist()
    assert _edges(found) == _edges(plain)


def test_wfformat_is_written_with_machines(folder):
    workflow = Workflow(work=[1.0, 2.0], src=[0], dst=[1], data=[7.0], cores=[2, 1])
    names = ("n/0", "n/1", "m/0")
    cluster = Cluster(
        speed=[1.0, 1.0, 1.0],
        names=names,
        kinds=("cpu",) * 3,
        nodes=("n", "n", "m"),
        cores=[1, 1, 2],
        memory=[9.0, 9.0, np.inf],
        capacity={"cores": {"n": 2.0}},
    )
    path = folder / "named.wfformat-1.6.json"
    formats.save(Problem.bind(workflow, cluster), path)
    document = json.loads(path.read_text())
    machines = document["workflow"]["execution"]["machines"]
    assert machines == [
        {"nodeName": "n", "cpu": {"coreCount": 2}, "memoryInBytes": 9},
        {"nodeName": "m"},
    ]
    found = formats.load(path).cluster
    assert formats.to_text(found) == formats.to_text(cluster)


@pytest.mark.parametrize("suffix", [".wfformat.json", ".dax"])
def test_what_a_format_cannot_hold_is_refused(suffix, folder):
    workflow = Problem.from_arrays([[1.0, 2.0]]).workflow
    with pytest.raises(InvalidInput, match="has durations by device"):
        formats.save(workflow, folder / f"no{suffix}")


def test_dax():
    workflow = formats.load_workflow(SAMPLES / "diamond.dax")
    assert workflow.name == "diamond"
    assert workflow.work.tolist() == [12.5, 3.0, 4.0, 1.25]
    assert workflow.kinds == ("preprocess", "findrange", "analyze")
    assert workflow.cores.tolist() == [1, 2, 1, 1]
    assert list(_edges(workflow).values()) == [2000.0, 3000.0, 50.0, 60.0]


BOMB = """<?xml version="1.0"?><!DOCTYPE adag [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<adag name="&b;"/>"""
OUTSIDE = '<!DOCTYPE adag [<!ENTITY f SYSTEM "file:///etc/hostname">]><adag name="&f;"/>'
JOB = '<adag><job id="a" runtime="{}"/></adag>'
BAD = {
    "entities": (BOMB, "has a document type"),
    "an external entity": (OUTSIDE, "has a document type"),
    "broken": ("<adag><a></adag>", "is not valid XML"),
    "other XML": ("<svg/>", "its root is 'svg', not 'adag'"),
    "no run time": ('<adag><job id="a"/></adag>', "job 'a' has no run time"),
    "bad run time": (JOB.format("soon"), "runtime of job 'a' is 'soon'"),
    "negative": (JOB.format("-1"), "work"),
    "depth": ("<adag>" + "<x>" * 300 + "</x>" * 300 + "</adag>", "nested too deeply"),
    "unknown parent": (
        '<adag><job id="a" runtime="1"/><child ref="a"><parent ref="b"/></child></adag>',
        "names the unknown job 'b'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_dax_is_refused(case, folder):
    text, complaint = BAD[case]
    path = folder / "bad.dax"
    path.write_text(text)
    with pytest.raises((InvalidInput, UnknownName)) as caught:
        formats.load_workflow(path)
    assert complaint in str(caught.value)
