"""Traces of other engines: known answers, unknown columns, bad values, problems and machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft import formats
from weft.errors import InvalidInput
from weft.formats.traces.recording import MeasuredExecution, Recording, UnknownDependencies
from weft.model import Problem, Schedule

SAMPLES = Path(__file__).parents[1] / "samples"


def executions(name):
    return formats.load_recording(SAMPLES / name).executions


def facts(name, *fields):
    return [tuple(getattr(e, f) for f in fields) for e in executions(name)]


def test_nextflow():
    assert facts("nextflow.txt", "task", "kind", "seconds", "done") == [
        ("INDEX (genome)", "INDEX", 65.0, True),
        ("ALIGN (liver)", "ALIGN", 11.9, False),
        ("ALIGN (gut)", "ALIGN", 118.0, True),
        ("ALIGN (liver)", "ALIGN", 123.0, True),
        ("REPORT", "REPORT", 0.931, True),
    ]
    first = executions("nextflow.txt")[0]
    assert (first.memory, first.output) == (1.5 * 2**30, 412 * 2**20)
    assert first.start == 1770112800.25  # 2026-02-03 10:00:00.250 UTC


def test_nextflow_raw_values_are_milliseconds_and_bytes(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text(
        "name\tstatus\tprocess\tstart\trealtime\tcpus\tpeak_rss\twrite_bytes\thostname\n"
        "A (1)\tCOMPLETED\tNF:A\t1770112800250\t65000\t4\t1024\t77\tn7\n"
    )
    (found,) = formats.load_recording(path).executions
    assert (found.kind, found.seconds, found.start) == ("NF:A", 65.0, 1770112800.25)
    assert (found.cores, found.memory, found.output, found.host) == (4, 1024.0, 77.0, "n7")


def test_sacct_as_text_and_json():
    assert facts("sacct.txt", "task", "seconds", "host", "device", "cores", "done") == [
        ("prep-4101", 125.0, "n01", "cpu", 4, True),
        ("train-4102_1", 90000.0, "g01", "gpu", 8, True),  # a day and an hour
        ("train-4102_2", 600.0, "g02", "gpu", 8, False),
    ]
    assert executions("sacct.txt")[0].memory == 812344 * 1024  # of its step
    assert facts("sacct.json", "task", "seconds", "start", "host", "device", "cores") == [
        ("prep-4101", 125.0, 1770112800.0, "n01", "cpu", 4),
        ("train-4102", 90000.0, 1770112930.0, "g01", "gpu", 8),
    ]
    assert executions("sacct.json")[0].memory == 16384 * 2**20


def test_a_gpu_job_is_planned_on_a_gpu_only():
    with pytest.warns(UnknownDependencies, match="Slurm records no dependencies"):
        problem = formats.load(SAMPLES / "sacct.txt")
    assert problem.cluster.kinds == ("cpu", "gpu")
    assert problem.durations().tolist() == [[125.0, float("inf")], [float("inf"), 90000.0]]


def test_snakemake_benchmarks():
    assert facts("benchmark.tsv", "task", "kind", "seconds", "memory") == [
        ("count", "count", 0.11, 3.11 * 2**20),
        ("count-1", "count", 0.11, 3.35 * 2**20),
    ]
    assert facts("benchmark.jsonl", "kind", "seconds") == [("sum", 0.0052)]


def test_snakemake_records_have_dependencies():
    problem = formats.load(SAMPLES / "snakemake")
    names = problem.workflow.names
    edges = zip(problem.workflow.src.tolist(), problem.workflow.dst.tolist(), strict=True)
    assert {(names[s], names[d]) for s, d in edges} == {
        ("split", "count"),
        ("split", "count-1"),
        ("count", "sum"),
        ("count-1", "sum"),
    }
    assert problem.workflow.work[0] == pytest.approx(0.2075913)  # both outputs are one job
    with pytest.raises(InvalidInput, match="this is a directory"):
        formats.load(SAMPLES)


def test_dask_stream_and_report_agree():
    stream, report = executions("dask_stream.json"), executions("dask_report.html")
    assert [e.kind for e in stream] == ["load", "load", "size", "size", "total"]
    assert stream[1].output == 1001.0
    assert [e.task for e in report] == [e.task for e in stream]
    assert [e.seconds for e in report] == pytest.approx([e.seconds for e in stream])
    assert [e.start for e in report] == pytest.approx([e.start for e in stream])
    assert len(formats.load_recording(SAMPLES / "dask_stream.json").cluster().names) == 2


def test_a_report_may_hold_packed_columns(tmp_path):
    def packed(*values):
        import base64

        import numpy as np

        data = base64.b64encode(np.array(values, "<f8").tobytes()).decode()
        return {"type": "ndarray", "array": {"type": "bytes", "data": data}, "dtype": "float64"}

    columns = {
        "key": ["a-12345678", "a-12345678", "b-12345678"],
        "start": packed(500.0, 2000.0, 2750.0),
        "duration": packed(1000.0, 2000.0, 500.0),
        "worker": ["w", "w", "w"],
        "worker_thread": ["w-1", "w-1", "w-1"],
        "alpha": [0.4, 1, 1],  # the first is a transfer
        "color": ["red", "blue", "black"],  # the last failed
    }
    path = tmp_path / "report.html"
    path.write_text(f'<script type="application/json">{json.dumps([columns])}</script>')
    found = formats.load_recording(path).executions
    assert [(e.task, e.start, e.seconds, e.done) for e in found] == [
        ("a-12345678", 1.0, 2.0, True),
        ("b-12345678", 2.5, 0.5, False),
    ]
    path.write_text("<html><script>let a = 1</script></html>")
    with pytest.raises(InvalidInput, match="no performance report of Dask"):
        formats.load_recording(path)


def test_otlp_spans():
    assert facts("spans.json", "task", "seconds", "host", "parents", "done") == [
        ("extract", 10.5, "node-a", (), True),
        ("load", 4.0, "node-a", ("extract",), True),
        ("load-1", 5.0, "node-a", ("extract",), False),
    ]  # "nightly" contains the others


def test_otlp_lines(tmp_path):
    document = json.loads((SAMPLES / "spans.json").read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    lines = []
    for span in spans:
        document["resourceSpans"][0]["scopeSpans"][0]["spans"] = [span]
        lines.append(json.dumps(document))
    (tmp_path / "spans.jsonl").write_text("\n".join(lines))
    found = formats.load_recording(tmp_path / "spans.jsonl").executions
    assert found == executions("spans.json")


def test_chrome_events():
    assert facts("chrome.json", "task", "seconds", "host", "lane", "parents", "output") == [
        ("load", 2.0, "worker-a", "main", (), 4096.0),  # "decode" is inside it
        ("train", 5.0, "worker-a", "thread 2", ("load",), 0.0),
    ]


def test_long_names_of_threads_and_flows_stay_apart(tmp_path):
    lanes = [f"{'pool-' * 20}{i}" for i in range(2)]
    rows = [
        {"ph": "X", "name": f"{name}{i}", "pid": 1, "tid": lane, "ts": ts, "dur": 10}
        for name, ts in (("a", 0), ("b", 20))
        for i, lane in enumerate(lanes)
    ]
    rows += [
        {"ph": phase, "id": lane, "pid": 1, "tid": lane, "ts": ts}
        for phase, ts in (("s", 5), ("f", 25))
        for lane in lanes
    ]
    (tmp_path / "long.chrome.json").write_text(json.dumps(rows))
    found = {e.task: e for e in formats.load_recording(tmp_path / "long.chrome.json").executions}
    assert [found[task].parents for task in ("b0", "b1")] == [("a0",), ("a1",)]
    assert found["b0"].lane != found["b1"].lane


def test_own_chrome_traces_are_read_back(tmp_path):
    problem = Problem.from_arrays(
        [[2.0, 9.0], [9.0, 3.0]], [[0, 1]], [10.0], bandwidth=5.0, names=["a", "b"]
    )
    schedule = Schedule.of(device=[0, 1], start=[0.0, 4.0], finish=[2.0, 7.0])
    formats.save_chrome_trace(schedule, tmp_path / "x.chrome.json", problem=problem)
    found = formats.load(tmp_path / "x.chrome.json")
    assert found.workflow.names == ("a", "b")
    assert found.workflow.work.tolist() == pytest.approx([2.0, 3.0])
    assert found.workflow.data.tolist() == [10.0]
    assert weft.plan(found).makespan == pytest.approx(5.0)


def test_executions_that_overlap_need_as_many_devices():
    with pytest.warns(UnknownDependencies):
        problem = formats.load(SAMPLES / "nextflow.txt")
    assert problem.n == 4  # without the failed attempt
    assert problem.cluster.names == ("host/cpu0", "host/cpu1")


def test_a_given_cluster_replaces_the_recorded_machines():
    machines = weft.Cluster(speed=[1.0, 1.0, 1.0])
    assert formats.load(SAMPLES / "spans.json", cluster=machines).p == 3


HEAD = "name\tstatus\trealtime\tpeak_rss\n"
SACCT = "JobID|JobName|State|Elapsed|Start\n"
SPAN = (
    '{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "a", "name": "b", '
    '"startTimeUnixNano": "1", "endTimeUnixNano": "x"}]}]}]}'
)
BAD = {
    "nextflow duration": (
        "x.txt",
        HEAD + "a\tCOMPLETED\t5 parsecs\t-\n",
        "line 2, column 'realtime' is '5 parsecs'; it must be a duration",
    ),
    "nextflow memory": (
        "x.txt",
        HEAD + "a\tCOMPLETED\t5s\t-\nb\tCOMPLETED\t5s\tmuch\n",
        "line 3, column 'peak_rss' is 'much'; it must be a size",
    ),
    "nextflow cells": ("x.txt", HEAD + "a\tCOMPLETED\n", "line 2 has 2 cells, but there are 4"),
    "nothing finished": ("x.txt", HEAD + "a\tFAILED\t5s\t-\n", "no task of it has finished"),
    "sacct elapsed": (
        "x.txt",
        SACCT + "1|a|COMPLETED|-00:01|Unknown\n",
        "line 2, column 'elapsed' is '-00:01'; it must be a time",
    ),
    "sacct start": (
        "x.txt",
        SACCT + "1|a|COMPLETED|00:01:00|yesterday\n",
        "line 2, column 'start' is 'yesterday'; it must be a date",
    ),
    "sacct json": (
        "x.json",
        '{"meta": {}, "jobs": [{"job_id": 1, "time": {"elapsed": "soon"}}]}',
        "jobs[0].time.elapsed is 'soon'",
    ),
    "benchmark": (
        "x.tsv",
        "s\th:m:s\nquick\t0:00:00\n",
        "line 2, column 's' is 'quick'; it must be a number, 0 or more",
    ),
    "dask": (
        "x.json",
        '[{"key": "a", "startstops": [{"action": "compute", "start": 2, "stop": 1}]}]',
        "seconds of task 'a' is -1",
    ),
    "otlp": ("x.json", SPAN, "spans[0].endTimeUnixNano is 'x'; it must be nanoseconds"),
    "chrome": (
        "x.json",
        '[{"ph": "X", "name": "a", "ts": "early", "dur": 1}]',
        "traceEvents[0].ts is 'early'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_values_are_named_with_their_place(case, tmp_path):
    name, text, complaint = BAD[case]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        formats.load_workflow(path)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_unknown_columns_are_read_over(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("name\tstatus\trealtime\tmood\na\tCOMPLETED\t5s\tgood\n")
    assert formats.load_recording(path).executions[0].seconds == 5.0


def test_other_files_hold_no_recording(tmp_path):
    weft.save(weft.Cluster(speed=[1.0]), tmp_path / "c.json")
    with pytest.raises(InvalidInput, match="holds a cluster, not the record of an engine"):
        formats.load_recording(tmp_path / "c.json")
    with pytest.raises(InvalidInput, match="holds a record of Slurm, not a schedule"):
        formats.load_schedule(SAMPLES / "sacct.txt")


def test_tasks_of_several_cores_share_those_that_were_in_use_at_once():
    rows = [("a", 0.0, 4.0, 2), ("b", 1.0, 2.0, 3), ("c", 5.0, 1.0, 4)]
    made = tuple(
        MeasuredExecution(task, "k", seconds, start=start, host="n", cores=cores)
        for task, start, seconds, cores in rows
    )
    cluster = Recording("run", "engine", made).cluster()
    assert (cluster.p, cluster.capacity["cores"].tolist()) == (2, [5.0])
