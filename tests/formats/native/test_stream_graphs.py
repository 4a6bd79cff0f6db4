"""Graphs of stream files: fan-out and join, bounded loops, transfers between units."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.formats.native.stream_toml import read_stream_toml, read_streams_toml
from weft.learn.conditional.scores import service_figures, shared_completions
from weft.model.conditional_stream import SEEDS_APART
from weft.model.machines.capacity import run_probability
from weft.policies.conditional.rules import ConditionalRule
from weft.sim.vector.batch import StepBatch

HEAD = 'jobs = 400\ntick = "1 ms"\n[arrivals]\ngap = "200 ms"\n'
UNIT = '[[units]]\nname = "unit"\nbatch = 1\n'


def task(name: str, time: str = '"10 ms"', *, of: str = "tasks", **keys: str) -> str:
    lines = [f'name = "{name}"', f"time = {time}", *(f"{k} = {v}" for k, v in keys.items())]
    return f"[[{of}]]\n" + "\n".join(lines) + "\n"


def rule_jct(stream, rule: str = "unit-fifo") -> np.ndarray:
    batch = StepBatch(stream, 1)
    batch.place(0, *stream.draw_ticks(1))
    ConditionalRule(rule).run(batch)
    return batch.jct(0)


def test_fan_out_and_join():
    split = task("split", then='["left", "right"]') + task("left", then='"join"')
    text = HEAD + split + task("right", '"30 ms"', then='"join"') + task("join")
    stream = read_stream_toml(text + '[[units]]\nname = "u"\ncount = 2\nbatch = 1\n', name="x")
    # 10 ms, then 10 ms beside 30 ms, then 10 ms.
    assert rule_jct(stream) == pytest.approx(np.full(400, 0.05))
    assert rule_jct(read_stream_toml(text + UNIT, name="x")) == pytest.approx(np.full(400, 0.06))


def test_a_loop_runs_a_task_again_at_most_so_many_times():
    text = HEAD + task("refine", repeat="{most = 3, again = 0.5}", then='"save"') + task("save")
    stream = read_stream_toml(text + UNIT, name="x")
    workflow = stream.problem.workflow
    assert [workflow.task_name(t) for t in range(4)] == ["refine", "refine~2", "refine~3", "save"]
    often = run_probability(workflow, [d.probability[0] for d in stream.drift])
    assert often == pytest.approx([1.0, 0.5, 0.25, 1.0], abs=0.03)
    assert {workflow.kinds[k] for k in workflow.kind[:3].tolist()} == {"refine"}
    rounds = np.round(rule_jct(stream) / 0.01).astype(int) - 1
    assert set(rounds.tolist()) == {1, 2, 3}
    assert rounds.mean() == pytest.approx(1.75, abs=0.12)
    workload, scenario = stream.draw(1)
    assert weft.check(workload, weft.simulate(workload, "eft", scenario=scenario)) == []


def test_a_loop_stands_beside_choices_with_estimates():
    choice = '[[choices]]\ntask = "b"\nbranches = {c = 0.3, d = 0.7}\nestimate = true\n'
    text = HEAD + task("a", repeat="{most = 2, again = 0.1}", then='"b"')
    text += task("b") + task("c") + task("d") + choice + UNIT
    stream = read_stream_toml(text, name="x")
    workflow = stream.problem.workflow
    owners = [workflow.task_name(int(t)) for t in workflow.choices.task]
    assert [owners[c] for c in stream.watched] == ["b"]
    shares = {o: d.probability[0].tolist() for o, d in zip(owners, stream.drift, strict=True)}
    assert shares == {"b": [0.3, 0.7], "a": [0.1, 0.9]}


@pytest.mark.parametrize(
    ("repeat", "complaint"),
    [
        ("{most = 0, again = 0.5}", "most is 0"),
        ("{most = 2, again = 1.5}", "it must be 0 to 1"),
        ("{most = 1000, again = 0.5}", "at most 100"),
        ("{most = 2}", "again"),
    ],
)
def test_bad_loops_are_refused(repeat, complaint):
    with pytest.raises(weft.WeftError, match=complaint):
        read_stream_toml(HEAD + task("a", repeat=repeat, then='"b"') + task("b") + UNIT, name="x")


def test_results_of_negative_size_are_refused():
    with pytest.raises(weft.WeftError, match="data"):
        read_stream_toml(HEAD + task("a", output='"-1 B"', then='"b"') + task("b") + UNIT, name="x")


def test_results_move_between_units():
    near = task("a", '{x = "10 ms", y = "1 s"}', output='"1 MB"', then='"b"')
    text = HEAD + near + task("b", '{x = "1 s", y = "10 ms"}')
    text += '[[units]]\nname = "x"\nbatch = 1\n[[units]]\nname = "y"\nbatch = 1\n'
    moved = text + '[links]\nbandwidth = "100 MB/s"\nlatency = "2 ms"\n'
    for source, expected in ((text, 0.02), (moved, 0.032)):
        stream = read_stream_toml(source, name="x")
        workload, scenario = stream.draw(1)
        trace = weft.simulate(workload, "eft", scenario=scenario)
        assert trace.job_completion == pytest.approx(np.full(400, expected))
        assert weft.check(workload, trace) == []
    assert rule_jct(read_stream_toml(moved, name="x"), "batch-aware").min() >= 0.032 - 1e-9


def of_stream(name: str, time: str) -> str:
    return task(name, time, of="streams.tasks")


ALARMS = """[[streams]]
name = "alarms"
jobs = 100
deadline = "45 ms"
priority = 1
arrivals = {process = "poisson", gap = "60 ms"}
""" + of_stream("scan", '"20 ms"')
ARCHIVE = (
    """[[streams]]
name = "archive"
jobs = 60
deadline = "10 s"
arrivals = {gap = "100 ms"}
"""
    + of_stream("read", '"15 ms"')
    + of_stream("scan", '"20 ms"')
    + of_stream("drop", '"1 ms"')
)
CHOICE = '[[streams.choices]]\ntask = "read"\nbranches = {scan = 0.7, drop = 0.3}\n'
SHARED = 'tick = "1 ms"\n[[units]]\nname = "gpu"\nbatch = 2\n' + ALARMS + ARCHIVE + CHOICE


def test_several_streams_share_units():
    shared = read_streams_toml(SHARED, name="x")
    workload, scenario = shared.draw(1)
    assert np.bincount(workload.template).tolist() == [100, 60]
    for k, stream in enumerate(shared.streams):  # each stream is drawn as if it were alone
        alone, future = stream.draw(1 + k * SEEDS_APART)
        mine = np.flatnonzero(workload.template == k)
        assert np.array_equal(workload.arrival[mine], alone.arrival)
        assert np.array_equal(workload.deadline[mine], alone.deadline)
        choices = workload.first_choice
        own = [scenario.outcome[choices[j] : choices[j + 1]] for j in mine.tolist()]
        assert np.array_equal(np.concatenate(own), future.outcome)
    trace = weft.simulate(workload, "edf", scenario=scenario)
    assert weft.check(workload, trace) == []
    groups = {}
    for batch, job in zip(trace.batch.tolist(), trace.job.tolist(), strict=True):
        groups.setdefault(batch, set()).add(int(workload.template[job]))
    assert {0, 1} in groups.values()  # tasks of one kind share a batch
    by_deadline = shared_completions("edf", shared, [1])
    in_time = [
        service_figures(rows[0], stream.deadline)["in_time"]
        for rows, stream in zip(by_deadline, shared.streams, strict=True)
    ]
    late = service_figures(shared_completions("fifo", shared, [1])[0][0], 0.045)["in_time"]
    assert in_time[1] == 1.0
    assert in_time[0] > late


def test_a_file_of_several_streams_is_evaluated(tmp_path, capsys):
    (tmp_path / "two.toml").write_text(SHARED)
    arguments = ["--stream", str(tmp_path / "two.toml"), "--seeds", "2"]
    assert main(["evaluate", "edf", "conditional-any", *arguments]) == 0
    shown = capsys.readouterr().out
    assert "alarms" in shown
    assert "% of jobs in time" in shown
    assert main(["evaluate", "edf", *arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["stream"] for row in rows] == ["alarms", "archive"]
    assert main(["evaluate", "unit-fifo", *arguments]) != 0
    assert "is for jobs of one workflow" in capsys.readouterr().err
    with pytest.raises(weft.InvalidInput, match="several streams"):
        read_stream_toml(SHARED, name="x")
    with pytest.raises(weft.InvalidInput, match="same name"):
        read_streams_toml(SHARED.replace("archive", "alarms"), name="x")
