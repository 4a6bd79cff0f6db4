"""Batches that take longer when fuller: known answers, the oracle, formats, the capacity bound."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weft
from weft.formats.native.cluster_toml import read_cluster_toml, write_cluster_toml
from weft.formats.native.stream_toml import read_stream_toml
from weft.model.machines.capacity import offered_load
from weft.sim.reference import simulate_reference
from weft.sim.rule import Rule


def _workload(curve: object, *, jobs: int = 4, batch: int = 4) -> weft.Workload:
    """Return jobs of one task of two seconds, all at time 0, on one device that batches."""
    device = weft.Device("gpu", batch=batch, batch_curve=curve)
    workflow = weft.Workflow(work=[2.0], src=[], dst=[], data=[], kinds=("detect",))
    problem = weft.Problem.bind(workflow, weft.Cluster.of([device]))
    return weft.Workload.of(problem, arrival=np.zeros(jobs))


@pytest.mark.parametrize(
    ("curve", "makespan"),
    [
        ({}, 2.0),  # four at once, as long as one
        ({"detect": 0.25}, 3.5),  # 2 s x (1 + 3 x 0.25)
        ({"*": [1.0, 1.1, 1.8, 3.0]}, 4.4),  # pairs have the least time per task: 2 x 2 s x 1.1
        ({"detect": 1.0}, 8.0),  # nothing is gained: one at a time
        ({"other": 1.0}, 2.0),  # the curve of another kind
    ],
)
def test_a_batch_takes_as_long_as_its_curve_says(curve, makespan):
    workload = _workload(curve)
    trace = weft.simulate(workload, "fifo")
    twin = simulate_reference(workload, Rule("fifo", "first", np.zeros(4)))
    assert trace.makespan == pytest.approx(makespan, rel=1e-12)
    assert np.array_equal(trace.finish, twin.finish)
    assert weft.check(workload, trace) == []


def test_the_oracle_refuses_a_batch_without_its_curve():
    constant = weft.simulate(_workload({}), "fifo")
    curved = _workload({"detect": 0.25})
    violations = weft.check(curved, dataclasses.replace(constant, workload=curved))
    assert {v.rule for v in violations} == {"wrong duration"}


def test_the_oracle_refuses_a_batch_larger_than_pays():
    full = weft.simulate(_workload({"detect": [1.0, 1.1, 1.5, 1.6]}), "fifo")
    steep = _workload({"detect": [1.0, 1.1, 1.7, 2.6]})
    violations = weft.check(steep, dataclasses.replace(full, workload=steep))
    assert "capacity" in {v.rule for v in violations}


@pytest.mark.parametrize(
    ("curve", "complaint"),
    [
        ({"detect": [1.0, 2.0]}, "has 2 numbers; give one for each batch size from 1 to 4"),
        ({"detect": [2.0, 2.0, 2.0, 2.0]}, "is 2 for 1 tasks; it must be 1"),
        ({"detect": [1.0, np.nan, 2.0, 2.0]}, "is nan for 2 tasks"),
        ({"detect": -0.5}, "is 0 for 3 tasks"),
    ],
)
def test_bad_curves_are_refused(curve, complaint):
    with pytest.raises(weft.InvalidInput, match=complaint):
        _workload(curve)


def test_a_curve_of_a_huge_batch_is_refused_before_memory_is_taken():
    with pytest.raises(weft.InvalidInput, match="at most 10000 sizes"):
        _workload({"detect": 0.5}, batch=2**40)


def test_curves_survive_files(tmp_path):
    devices = [
        weft.Device("a", batch=3, batch_curve={"detect": [1.0, 1.25, 1.75], "*": 0.1}),
        weft.Device("b", batch=2),
    ]
    cluster = weft.Cluster.of(devices)
    again = read_cluster_toml(write_cluster_toml(cluster).decode(), name="x")
    weft.save(cluster, tmp_path / "c.json")
    weft.save(cluster, tmp_path / "c.npz")
    kinds = ["detect", "read"]
    expected = cluster.batch_growth(kinds)
    assert expected[0].tolist() == [[1.0, 1.25, 1.75], [1.0, 1.0, 1.0]]
    for other in (again, *map(weft.load_cluster, (tmp_path / "c.json", tmp_path / "c.npz"))):
        assert np.array_equal(other.batch_growth(kinds), expected)


STREAM = """
jobs = 200
[arrivals]
process = "poisson"
gap = "30 ms"
[[tasks]]
name = "detect"
time = "20 ms"
[[units]]
name = "gpu"
batch = 4
{curve}
"""


@pytest.mark.parametrize(
    ("curve", "load"),
    [
        ("", 20 / 30 / 4),
        ("batch_curve = 0.5", 20 / 30 * 2.5 / 4),  # four take 1 + 3 x 0.5 times as long as one
        ("batch_curve = {detect = [1, 1.2, 2.4, 3.6]}", 20 / 30 * 1.2 / 2),  # pairs
        ("batch_curve = {detect = [1, 1.2]}", 20 / 30 * 1.2 / 2),  # no more than pairs
        ("batch_curve = [1]", 20 / 30),  # one at a time
    ],
)
def test_the_load_of_a_stream_counts_the_curve(curve, load):
    stream = read_stream_toml(STREAM.format(curve=curve), name="line")
    assert offered_load(stream) == pytest.approx(load, rel=1e-9)


@pytest.mark.parametrize(
    "text", ["batch_curve = 'x'", "batch_curve = [1, 2, 3, 4, 5, 6, 7, 8, 9]", "batch_curve = -1"]
)
def test_bad_curves_in_files_are_refused(text):
    with pytest.raises(weft.InvalidInput):
        read_stream_toml(STREAM.format(curve=text), name="line")
