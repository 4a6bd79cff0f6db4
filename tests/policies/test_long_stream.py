"""Streams in parts: the same figures as the whole stream in one simulation."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import weft
from weft.formats.model_file import save_model
from weft.policies.long_stream import StreamSummary, simulate_stream
from weft.policies.replanning.trained import replanning_model


def templates():
    rng = np.random.default_rng(3)
    made = []
    for n in (3, 5, 8):
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.4]
        made.append(weft.Problem.from_arrays(rng.uniform(1, 4, (n, 3)), pairs, bandwidth=1e9))
    return [weft.Problem.bind(p.workflow, made[0].cluster) for p in made]


def jobs(count, gap):
    rng = np.random.default_rng(5)
    arrival = np.cumsum(rng.exponential(gap, count))
    return arrival, rng.integers(0, 3, count)


@pytest.mark.parametrize("policy", ["fifo", "eft"])
@pytest.mark.parametrize("gap", [6.0, 9.0])
def test_parts_give_the_figures_of_the_whole(policy, gap):
    problems, (arrival, template) = templates(), jobs(400, gap)
    found = simulate_stream(problems, zip(arrival, template, strict=True), policy, part=32)
    whole = weft.simulate(weft.Workload.of(problems, arrival=arrival, template=template), policy)
    assert found.parts > 3
    assert (found.jobs, found.tasks) == (400, len(whole))
    assert found.end == whole.job_finish.max()  # to the last bit
    np.testing.assert_allclose(found.jct, float(whole.jct), rtol=1e-12)
    assert found.jct_max == (whole.job_finish - arrival).max()
    np.testing.assert_allclose(found.busy, whole.busy, rtol=1e-12)


def test_a_part_grows_until_there_is_an_idle_moment():
    """Ten jobs of 1 s arrive at once, every 100 s; a part of four has no idle moment."""
    problem = weft.Problem.from_arrays([[1.0]])
    bursts = ((100.0 * k, 0) for k in range(50) for _ in range(10))
    found = simulate_stream(problem, bursts, part=4)
    assert (found.jobs, found.end, found.jct_max) == (500, 4910.0, 10.0)
    assert found.jct == pytest.approx(5.5)


def test_an_endless_stream_is_read_as_needed():
    """The arrivals are an iterator without end: only the jobs of the parts are read."""
    read = 0

    def endless():
        nonlocal read
        while True:
            yield 2.0 * read, 0
            read += 1

    seen: list[int] = []

    def stop(summary: StreamSummary) -> None:
        seen.append(summary.jobs)
        if len(seen) == 5:
            raise StopIteration

    with pytest.raises(StopIteration):
        simulate_stream(weft.Problem.from_arrays([[1.0]]), endless(), part=10, progress=stop)
    assert seen == [9, 18, 27, 36, 45]  # the tenth job of each part is simulated again
    assert read <= 56


def test_what_cannot_be_cut_is_refused(tmp_path):
    problem = weft.Problem.from_arrays([[2.0]])
    with pytest.raises(weft.WeftError, match="cannot keep up with this stream"):
        simulate_stream(problem, ((float(k), 0) for k in range(1000)), part=10, most=100)
    with pytest.raises(weft.InvalidInput, match="follows one at"):
        simulate_stream(problem, [(5.0, 0), (1.0, 0)])
    with pytest.raises(weft.Unsupported, match="needs a rule"):
        simulate_stream(problem, [(0.0, 0)], "heft-replanned")
    path = save_model(replanning_model("mine", "", [{"ahead": 0.5}]), tmp_path / "mine")
    for policy in (path, str(path), weft.load_policy(path)):
        with pytest.raises(weft.Unsupported, match="policy 'mine' may depend on the past; a"):
            simulate_stream(problem, [(0.0, 0)], policy)
    with pytest.raises(weft.errors.UnknownName, match="did you mean 'fifo'"):
        simulate_stream(problem, [(0.0, 0)], "fifoo")
    with pytest.raises(weft.InvalidInput, match="part is 0"):
        simulate_stream(problem, islice([(0.0, 0)], 1), part=0)
    assert simulate_stream(problem, []).jobs == 0
