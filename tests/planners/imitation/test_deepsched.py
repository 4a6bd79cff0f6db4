"""The planner `deepsched`: valid schedules with any network, and equal bits in all runtimes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import problems
from weft.errors import InvalidInput
from weft.experiments.imitation import job_lists
from weft.formats.model_file import find_model, read_model
from weft.learn.imitation.deepsched import data
from weft.learn.imitation.deepsched.examples import example_of, stacked
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.imitation.deepsched.features import PAIR_FEATURES, TASK_FEATURES, task_features
from weft.planners.imitation.deepsched.network import (
    HEADS,
    DeepNetwork,
    bundled_network,
    encode,
    network_of,
    save_network,
)
from weft.planners.imitation.deepsched.planner import plan_rows
from weft.planners.lists.insertion import as_schedule
from weft.planners.planner import PLANNERS


def random_network(seed: int, *, wide: int = 5, hidden: int = 3) -> DeepNetwork:
    rng = np.random.default_rng(seed)
    f, out, pairs = len(TASK_FEATURES), HEADS + hidden, len(PAIR_FEATURES)
    shapes = (
        (f,),
        (f,),
        (f, wide),
        (wide,),
        (wide, wide),
        (wide,),
        (wide, out),
        (f, out),
        (out,),
        (hidden, pairs),
        (hidden,),
        (pairs,),
    )
    return network_of(
        {
            name: rng.normal(size=shape)
            for name, shape in zip(DeepNetwork._fields, shapes, strict=True)
        }
    )


# -- decoding ------------------------------------------------------------------------


@given(problems(), st.integers(0, 1000))
@settings(max_examples=40)
def test_any_network_gives_a_valid_schedule(problem, seed):
    schedule = as_schedule(plan_rows(problem, random_network(seed)))
    assert check(problem, schedule) == []
    assert len(schedule) == problem.n


@given(problems(min_tasks=1))
@settings(max_examples=40)
def test_features_are_finite_and_free_of_units(problem):
    found = task_features(problem)
    assert np.isfinite(found.rows).all()
    assert (found.scale > 0).all()
    # Seconds doubled: powers of two keep every bit.
    c = problem.cluster
    slow = Problem.from_arrays(
        problem.durations() * 2,
        np.stack([problem.workflow.src, problem.workflow.dst], axis=1),
        problem.workflow.data,
        bandwidth=np.where(np.isinf(c.bandwidth), np.inf, c.bandwidth / 2),
        latency=c.latency * 2,
    )
    plain = Problem.from_arrays(
        problem.durations(),
        np.stack([problem.workflow.src, problem.workflow.dst], axis=1),
        problem.workflow.data,
        bandwidth=c.bandwidth,
        latency=c.latency,
    )
    assert np.allclose(task_features(slow).rows, task_features(plain).rows, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_bundled_network_stays_close_to_heft(seed):
    problem = data.draw_problem(seed, tasks=300, devices=8)
    ratio = (
        plan(problem, "deepsched").schedule.finish.mean()
        / plan(problem, "heft").schedule.finish.mean()
    )
    assert ratio < 1.15  # a single problem; the mean over many is in docs/results/imitation.md


def test_weights_from_a_file(tmp_path):
    path = save_network(random_network(1), tmp_path / "mine", {})
    problem = data.draw_problem(1, tasks=40, devices=3)
    own = PLANNERS.create("deepsched", weights=str(path)).solve(problem).schedule
    assert check(problem, own) == []
    assert np.array_equal(own.start, plan_rows(problem, random_network(1)).start)


def test_broken_weights_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        PLANNERS.create("deepsched", weights=str(tmp_path / "gone.safetensors")).solve(
            Problem.from_arrays([[1.0]])
        )
    arrays = random_network(0)._asdict()
    with pytest.raises(InvalidInput, match="'vote' has shape"):
        network_of(arrays | {"vote": np.zeros((3, 1))})
    with pytest.raises(InvalidInput, match="not finite"):
        network_of(arrays | {"direct": np.full(len(PAIR_FEATURES), np.nan)})
    with pytest.raises(InvalidInput, match="expected"):
        network_of({k: v for k, v in arrays.items() if k != "skip"})


def test_the_card_says_how_it_was_trained():
    card = read_model(find_model("deepsched"))
    assert card.settings["task_features"] == list(TASK_FEATURES)
    assert card.settings["pair_features"] == list(PAIR_FEATURES)
    assert card.training["cpu_seconds"] < 3600
    assert card.training["score"] < 1.03


# -- data ----------------------------------------------------------------------------


def test_the_stream_is_the_same_every_time_and_from_anywhere():
    one = [p for p, _ in zip(data.problem_stream(5, largest=200), range(6), strict=False)]
    two = [p for p, _ in zip(data.problem_stream(5, first=3, largest=200), range(3), strict=False)]
    for a, b in zip(one[3:], two, strict=True):
        assert np.array_equal(a.per_work, b.per_work)
        assert np.array_equal(a.workflow.data, b.workflow.data)
        assert np.array_equal(a.work, b.work)


def test_drawn_lists_have_the_statistics_of_the_real_ones():
    lists = [data.draw_job_list(seed) for seed in range(60)]
    logs = [np.log(jobs.burst) for jobs in lists]
    assert np.mean([log.mean() for log in logs]) == pytest.approx(6.0, abs=1.0)
    assert np.mean([log.std() for log in logs]) == pytest.approx(2.65, abs=0.6)
    assert np.mean([len(np.unique(jobs.arrival)) / len(jobs) for jobs in lists]) == pytest.approx(
        13.2 / 251, abs=0.03
    )
    assert all((np.diff(jobs.arrival) >= 0).all() for jobs in lists)


def test_real_lists(data_lists):
    assert len(data_lists) == 92
    jobs = next(iter(data_lists.values()))
    workload = job_lists.list_workload(jobs, data.draw_cluster(0, 4), ccr=0.5, seed=0)
    assert workload.instances == len(jobs)
    assert workload.jobs == len(np.unique(jobs.arrival))


@pytest.fixture(name="data_lists")
def _data_lists():
    from tests.support.programs import data_dir

    path = data_dir() / "deepsched_jobs" / "dev" / "job_lists.json.gz"
    if not path.is_file():
        pytest.skip(f"no job lists at {path}")
    return job_lists.read_job_lists(path)


def test_broken_lists_are_refused(tmp_path):
    path = tmp_path / "lists.json"
    for text in (
        "[]",
        "{",
        '{"format": "other"}',
        '{"format": "job-lists-v1"}',
        '{"format": "job-lists-v1", "lists": {"a": {}}}',
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInput, match="lists"):
            job_lists.read_job_lists(path)


# -- examples ---------------------------------------------------------------------------


def test_features_are_the_same_bits_in_training_and_in_use():
    # A network that only reads start + seconds plans as HEFT does, so the planner meets exactly the
    # states of the training example.
    problem = data.draw_problem(3, tasks=60, devices=5)
    f, hidden = len(TASK_FEATURES), 1
    arrays = {name: np.zeros(1) for name in DeepNetwork._fields}
    arrays |= {
        "mean": np.zeros(f),
        "scale": np.ones(f),
        "first": np.zeros((f, 1)),
        "second": np.zeros((1, 1)),
    }
    arrays |= {
        "out": np.zeros((1, HEADS + hidden)),
        "out_bias": np.zeros(HEADS + hidden),
        "skip": np.zeros((f, HEADS + hidden)),
    }
    arrays["skip"][0, 0] = 1.0  # priority: the upward rank
    arrays |= {
        "pair": np.zeros((1, len(PAIR_FEATURES))),
        "direct": np.array([0.0, -1.0, 0.0, -1.0]),
    }
    rows = plan_rows(problem, network_of(arrays))
    assert np.array_equal(rows.device, plan(problem, "heft").schedule.device)
    example = example_of(problem, steps=problem.n)
    order = np.argsort(-task_features(problem).rows[:, 0], kind="stable")
    assert np.array_equal(example.tasks, task_features(problem).rows[order])
    assert example.good[np.arange(problem.n), rows.device[order]].all()


def test_examples_are_padded_with_devices_that_cannot_run():
    both = stacked(
        [
            example_of(data.draw_problem(s, tasks=20, devices=p), steps=7)
            for s, p in ((0, 2), (1, 6))
        ]
    )
    assert both.pairs.shape == (14, len(PAIR_FEATURES), 6)
    assert not both.can[:7, 2:].any()
    assert not (both.good & ~both.can).any()
    assert both.good.any(axis=1).all()
    assert ((both.targets >= 0) & (both.targets[:, :1] <= 1)).all()


def test_a_stray_example_still_says_what_heft_would_do():
    # Two equal devices, independent equal tasks: whatever came before, the emptier device is right.
    problem = Problem.from_arrays(np.ones((12, 2)))
    example = example_of(problem, steps=12, stray=0.8, seed=3)
    free = example.pairs[:, PAIR_FEATURES.index("free")]
    for row, good in zip(free, example.good, strict=True):
        assert good.tolist() == (row == row.min()).tolist()


def test_encode_is_what_the_arrays_say():
    net, rows = (
        random_network(2),
        np.random.default_rng(0).normal(size=(9, len(TASK_FEATURES))).astype(np.float32),
    )
    x = (rows - net.mean) * net.scale
    hidden = np.maximum(
        np.maximum(x @ net.first + net.first_bias, 0) @ net.second + net.second_bias, 0
    )
    assert np.allclose(
        encode(net, rows), hidden @ net.out + x @ net.skip + net.out_bias, rtol=1e-4, atol=1e-3
    )
    assert bundled_network() is bundled_network()
