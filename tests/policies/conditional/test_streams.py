"""Streams: files and their errors, arrivals, drifting probabilities, load, published draws."""

import warnings

import numpy as np
import pytest

from tests.support.instances import assert_refused
from tests.support.streams import INSPECTION
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.formats.native.stream_toml import (
    UnstableLoad,
    load_stream,
    read_stream_toml,
    stream_names,
)
from weft.generators.conditional import conditional_paper
from weft.model.conditional_stream import Arrivals, ConditionalStream, ProbabilityDrift, in_ticks
from weft.model.machines.capacity import offered_load


def test_the_paper_by_name_is_the_generated_problem():
    stream, problem = load_stream("conditional-paper"), conditional_paper()
    assert "conditional-paper" in stream_names()
    np.testing.assert_array_equal(stream.problem.durations(), problem.durations())
    np.testing.assert_array_equal(stream.problem.cluster.batch, problem.cluster.batch)
    assert [stream.watched, stream.tick, stream.jobs] == [(1,), 0.001, 10000]


def test_a_file():
    stream = read_stream_toml(INSPECTION, name="line")
    w = stream.problem.workflow
    assert (stream.name, w.names, w.kinds) == (
        "line",
        ("look", "sort", "explain"),
        ("look", "model", "explain"),
    )
    assert stream.problem.cluster.names == ("gpu0", "gpu1")
    assert stream.problem.durations().tolist() == [[0.005] * 2, [0.0025] * 2, [0.02] * 2]
    assert w.choices.labels == ("odd", "fine")
    workload, scenario = stream.draw(7)
    assert workload.jobs == 50
    again = stream.draw(7)
    np.testing.assert_array_equal(workload.arrival, again[0].arrival)
    np.testing.assert_array_equal(scenario.outcome, again[1].outcome)


REFUSED = {
    "jobs = 50": {
        "jobs = 0": "jobs is 0; it must be a whole number, 1 or more",
        "jobs = 4294967296": "jobs is 4294967296; it must be at most 2147483647",
        "jobs = ": "is not valid TOML",
    },
    "[arrivals]": {
        'start = "sort"\n[arrivals]': "task 'look' is never reached from sort",
        'start = "lok"\n[arrivals]': "unknown task 'lok'; did you mean 'look'?",
        'start = ["look", "sort"]\n[arrivals]': (
            "a job begins with task 'sort', so no other task may lead to it"
        ),
    },
    'process = "poisson"': {
        'process = "poison"': "unknown arrival process 'poison'; did you mean 'poisson'?"
    },
    'gap = "20 ms"': {
        "gap = 0": "the gap between arrivals is 0.0",
        'gap = "20 mm"': "'mm' is no unit of seconds",
    },
    'time = "10 ms"': {"time = -1": "tasks[0].time is -1.0"},
    'then = ["sort"]\n': {"": "task 'sort' is never reached from look"},
    'memory = "2 GB"': {'memory = "5 GB"': "task 'explain' fits no device"},
    'task = "sort"': {'task = "sotr"': "'sotr' names an unknown task; did you mean 'sort'?"},
    "fine = 0.75}": {
        "fine = 0.7}": "probabilities of odd, fine add up to 0.95; they must add up to 1",
        "fine = nan}": "add up to nan",
    },
    'leads_to = {odd = ["explain"], fine = []}\n': {"": "branch 'odd' of task 'sort' is no task"},
    '["explain"]': {'["explian"]': "names the unknown task 'explian'; did you mean 'explain'?"},
    "leads_to = {odd": {"leads_to = {odt": "unknown branch 'odt'; did you mean 'odd'?"},
    "estimate = true": {
        "spread = 0.1": "unknown key 'spread' in choices[0]",
        'change = "setps"': "choices[0].change is 'setps'; did you mean 'steps'?",
        'change = "walk"\nlow = 0.9\nhigh = 0.1': "cannot move between 0.9 and 0.1",
        'change = "steps"\nat = [{time = "0 s", branches = {odd = 1, fine = 0}}]': (
            "every change needs a later time than the one before"
        ),
        'change = "ramps"\nat = [{time = "1 s", branches = {odd = 1}}]': (
            "must have the branches odd, fine"
        ),
    },
    "[[units]]": {"[[unit]]": "unknown key 'unit'; did you mean 'units'?"},
    "coefficient = 0.5": {
        "coefficient = 0": "units[0].coefficient is 0.0; it must be a finite number above zero"
    },
    "coefficient": {
        "coeficient": "unknown key 'coeficient' in units[0]; did you mean 'coefficient'?"
    },
    "batch = 4": {"batch = 0": "units[0].batch is 0; it must be a whole number, 1 or more"},
    "batch = 4\n": {"": "unit 'gpu' has no batch"},
}
"""A part of the file -> what stands there instead -> the complaint."""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [(old, new, message) for old, news in REFUSED.items() for new, message in news.items()],
)
def test_errors_name_the_key_and_the_remedy(old, new, message, tmp_path):
    assert old in INSPECTION
    assert_refused(tmp_path / "bad.toml", INSPECTION.replace(old, new), message, load_stream)


def test_no_tasks_and_no_such_stream(tmp_path):
    with pytest.raises(InvalidInput, match="has no tasks"):
        read_stream_toml("jobs = 1\n[arrivals]\ngap = 1", name="x")
    with pytest.raises(UnknownName, match="did you mean 'conditional-paper'"):
        load_stream("conditional-papr")
    with pytest.raises(InvalidInput, match=r"none\.toml: there is no such file"):
        load_stream(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "weft-workflow-1"}', "holds JSON, not a stream; a stream is a TOML file"),
        ("<adag/>", "; a stream is a TOML file with [[tasks]] and [[units]]"),
        ("[[units]\n", "is not valid TOML: Expected"),
        ("[[devices]]\nname = 'a'\n", "holds a cluster, not a stream; a stream is a TOML file"),
    ],
)
def test_files_of_other_content_are_named(text, message, tmp_path):
    assert_refused(tmp_path / "other.toml", text, message, load_stream)


def test_an_unstable_load_is_a_warning_with_the_number(tmp_path):
    # 10 ms + 5 ms + a quarter of 40 ms = 25 ms of work at coefficient 0.5, in batches of 4 (of
    # explain: 2, by memory), on two units: (15 / 4 + 10 / 2) * 0.5 / 2 = 2.1875 ms of each unit per
    # job. A gap of 20 ms is a load of 0.109, a gap of 1 ms is one of 2.19.
    assert offered_load(read_stream_toml(INSPECTION, name="x")) == pytest.approx(2.1875 / 20)
    file = tmp_path / "busy.toml"
    file.write_text(INSPECTION.replace('gap = "20 ms"', 'gap = "1 ms"'))
    with pytest.warns(UnstableLoad, match="the load is 2.19 times the capacity of the units"):
        load_stream(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_stream("conditional-paper")


def test_load_of_the_paper():
    # p(c) = 1: A, B, then C, or D and E: 3.5 short tasks per job. With batches the GPUs run 0.5 and
    # 1 of them per ms, the CPUs 0.125 each: 1.75 per ms, against 3.5 / 8.
    stream = load_stream("conditional-paper")
    assert offered_load(stream.with_probability("D", [1.0, 0.0])) == pytest.approx(3.5 / 8 / 1.75)
    assert offered_load(
        stream.with_drift("D", ProbabilityDrift("uniform", np.array([[0.5, 0.5]])))
    ) == pytest.approx(offered_load(stream.with_probability("D", [0.0, 1.0])))


def test_authors_draws():
    arrival, outcome = load_stream("conditional-paper").draw_ticks(1, authors=True)
    np.testing.assert_allclose(
        arrival[:6], [14.4974, 20.0504, 25.9377, 29.6458, 39.9013, 41.1074], atol=1e-4
    )  # sorted
    to_c, to_e = outcome[:, 0] == 0, outcome[:, 1] == 0
    assert [int(x.sum()) for x in (to_c, ~to_c & to_e, ~to_c & ~to_e)] == [5080, 2471, 2449]


def test_authors_draws_are_for_cascades():
    with pytest.raises(Unsupported, match="normal gaps"):
        read_stream_toml(INSPECTION, name="x").draw(1, authors=True)
    wide = INSPECTION.replace('"poisson"', '"normal"').replace(
        'then = ["sort"]', 'then = ["sort", "explain"]'
    )
    with pytest.raises(Unsupported, match="one task of a job at a time"):
        read_stream_toml(wide, name="x").draw(1, authors=True)


@pytest.mark.parametrize("process", ["regular", "normal", "poisson"])
def test_arrivals(process):
    times = Arrivals(process, gap=0.008, deviation=0.004).draw(
        20000, np.random.default_rng(1), tick=0.001
    )
    assert times[-1] / 20000 == pytest.approx(8.0, rel=0.03)
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0


def test_traces():
    rng = np.random.default_rng(0)
    assert Arrivals("trace", gap=0.0, times=(3.0, 1.0, 2.5)).draw(3, rng).tolist() == [
        1.0,
        2.5,
        3.0,
    ]
    assert Arrivals("trace", gap=1.0, times=(3.0, 1.0, 2.5)).draw(3, rng, tick=0.5).tolist() == [
        0.0,
        3.0,
        4.0,
    ]  # stretched to a gap of 1 s
    with pytest.raises(InvalidInput, match="cannot give 4 jobs"):
        Arrivals("trace", gap=0.0, times=(3.0, 1.0, 2.5)).draw(4, rng)
    with pytest.raises(InvalidInput, match="needs 'times'"):
        Arrivals("trace")


def test_drifts():
    rng = np.random.default_rng(0)
    at = np.array([0.0, 1.0, 1.5, 2.0, 9.0])
    rows, times = np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([0.0, 2.0])
    assert ProbabilityDrift("steps", rows, times).at(at, rng)[:, 0].tolist() == [
        0.2,
        0.2,
        0.2,
        0.6,
        0.6,
    ]
    np.testing.assert_allclose(
        ProbabilityDrift("ramps", rows, times).at(at, rng)[:, 0], [0.2, 0.4, 0.5, 0.6, 0.6]
    )
    start = np.array([[0.5, 0.3, 0.2]])
    uniform = ProbabilityDrift("uniform", start, low=0.1, high=0.4).at(at, rng)
    assert (uniform == uniform[0]).all()
    assert 0.1 <= uniform[0, 0] <= 0.4
    assert uniform[0, 1] / uniform[0, 2] == pytest.approx(1.5)
    walk = ProbabilityDrift("walk", start, spread=0.5, low=0.1, high=0.9).at(np.arange(2000.0), rng)
    assert walk[:, 0].min() >= 0.1
    assert walk[:, 0].max() <= 0.9
    assert np.ptp(walk[:, 0]) > 0.7
    np.testing.assert_allclose(walk.sum(axis=1), 1.0)


def test_outcomes_follow_their_probabilities():
    stream = load_stream("conditional-paper").with_drift(
        "D", ProbabilityDrift("steps", np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.0, 40.0]))
    )
    arrival, outcome = stream.draw_ticks(2)
    early = arrival < 40_000
    assert (outcome[early, 1] == 0).mean() == pytest.approx(0.9, abs=0.02)
    assert (outcome[~early, 1] == 0).mean() == pytest.approx(0.2, abs=0.02)
    assert (outcome[:, 0] == 0).mean() == pytest.approx(0.5, abs=0.02)


def test_streams_that_do_not_fit_together():
    paper = load_stream("conditional-paper")
    with pytest.raises(InvalidInput, match="has 2 choices but 0 drifts"):
        ConditionalStream(paper.problem, paper.arrivals, (), 5)
    with pytest.raises(InvalidInput, match="has 2 branches, its drift 3"):
        paper.with_probability("D", [0.2, 0.3, 0.5])
    with pytest.raises(UnknownName, match="task 'A' of stream"):
        paper.with_probability("A", [1.0])
    with pytest.raises(InvalidInput, match="jobs is 0; it must be a whole number, 1 or more"):
        paper.with_jobs(0)


def test_ticks_are_whole_where_they_should_be():
    assert [in_ticks(x, 0.001) for x in (0.008, 0.01, 0.08, 0.1, 0.0003)] == [
        8.0,
        10.0,
        80.0,
        100.0,
        0.3,
    ]
