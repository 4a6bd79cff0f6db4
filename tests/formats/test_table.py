"""The contract of every file format in the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import InvalidInput
from weft.formats import FORMATS, Recording
from weft.formats.loading import _read
from weft.formats.saving import to_text
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, Workflow, Workload

PROBLEM = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
WORKLOAD = Workload.of(PROBLEM, arrival=[0.0, 5.0])
OBJECTS = {
    Problem: PROBLEM,
    Workflow: PROBLEM.workflow,
    Cluster: PROBLEM.cluster,
    Workload: WORKLOAD,
    Schedule: Schedule.of(device=[1, 1], start=[0.0, 1.0], finish=[1.0, 5.0]),
    Trace: weft.simulate(WORKLOAD, "eft", scenario=Scenario.of(WORKLOAD)),
}
PLAIN = Problem.bind(
    Workflow(work=[2.0, 3.0], src=[0], dst=[1], data=[10.0]),
    Cluster(speed=[1.0], names=("n/0",), kinds=("cpu",), nodes=("n",)),
)
"""A problem that formats with one run time per task and machines of cores hold."""

LOSSY = ("dot", "wfformat", "wfformat-1.6", "dax", "chrome-trace")
"""Formats without a place for all that an object holds; `test_holding.py` compares the rest."""

_FILES = Path(__file__).parent / "samples"
SAMPLES = {
    "nextflow-trace": (_FILES / "nextflow.txt").read_text(),
    "slurm-sacct": (_FILES / "sacct.txt").read_text(),
    "snakemake": (_FILES / "benchmark.tsv").read_text(),
    "dask-stream": (_FILES / "dask_stream.json").read_text(),
    "otlp": (_FILES / "spans.json").read_text(),
    "task-table": "task,after,seconds:cpu,seconds:gpu,bytes\na,,4,1,2 GB\nb,a,2,,\n",
    "stg": "1\n0 0 0\n1 3 1 0\n2 0 1 1\n",
    "taskgraph-v1": json.dumps(
        {
            "format": "taskgraph-v1",
            "id": "x",
            "tasks": {"id": ["a"], "type": ["k"], "runtime_by_device": {"cpu": [1]}},
            "edges": {"src": [], "dst": [], "tiles": []},
        }
    ),
    "wfformat": json.dumps(
        {
            "schemaVersion": "1.5",
            "workflow": {
                "specification": {
                    "tasks": [{"name": "a", "id": "a", "parents": [], "children": []}],
                    "files": [],
                },
                "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 2.0}]},
            },
        }
    ),
    "static-graph": json.dumps(
        {"cost": [[2.0, 1.0]], "edges": [], "data": [], "bandwidth": [[0, 1], [1, 0]]}
    ),
}
READ = [name for name, row in FORMATS.items() if row.read]
WRITTEN = [(n, kind) for n, row in FORMATS.items() if row.write for kind in row.holds]


def test_the_table_is_what_list_formats_returns():
    assert weft.list_formats() == list(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_describes_its_format(name):
    row = FORMATS[name]
    assert row.name == name
    assert row.summary.endswith(("read.", "written."))
    assert row.holds
    assert all(suffix.startswith(".") for suffix in row.suffixes)
    assert row.read or row.write


@pytest.mark.parametrize(("name", "kind"), WRITTEN)
def test_a_written_object_is_recognised_and_read_back(name, kind, tmp_path):
    row, thing = FORMATS[name], OBJECTS[kind]
    if name in LOSSY and kind in (Problem, Workflow):
        thing = PLAIN if kind is Problem else PLAIN.workflow
    path = tmp_path / f"x{row.suffixes[0]}"
    weft.save(thing, path, problem=PROBLEM if kind is Schedule else None)
    again = tmp_path / f"again{row.suffixes[0]}"
    weft.save(thing, again, problem=PROBLEM if kind is Schedule else None)
    assert path.read_bytes() == again.read_bytes()
    if row.read:
        found = _read(path)
        if name in LOSSY:
            assert isinstance(found, Recording if name == "chrome-trace" else Workflow)
        else:
            assert to_text(found) == to_text(thing)


@pytest.mark.parametrize("name", [n for n in READ if not FORMATS[n].write])
def test_a_format_that_is_only_read_has_a_sample(name, tmp_path):
    row = FORMATS[name]
    path = tmp_path / f"x{row.suffixes[0]}"
    path.write_text(SAMPLES[name])
    assert isinstance(_read(path), row.holds)


@pytest.mark.parametrize("suffix", [".toml", ".dot", ".gv", ".stg", ".xml"])
def test_other_objects_are_refused_with_the_known_suffixes(suffix, tmp_path):
    refusal = rf"cannot be saved as '\{suffix}'; known: \.json, \.npz"
    with pytest.raises(InvalidInput, match=refusal):
        weft.save(WORKLOAD, tmp_path / f"x{suffix}")


def test_numbers_keep_their_bits(tmp_path):
    odd = Problem.from_arrays([[np.nextafter(1.0, 2.0)]])
    weft.save(odd, tmp_path / "x.json")
    assert weft.load(tmp_path / "x.json").per_work[0, 0] == np.nextafter(1.0, 2.0)
