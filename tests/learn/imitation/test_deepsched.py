"""DeepSched's networks: shapes, agreement of the runtimes, training."""

from __future__ import annotations

import json
from itertools import repeat

import numpy as np
import pytest

# ruff: noqa: E402  # imports that need torch
torch = pytest.importorskip(
    "torch", reason="networks need torch: pip install 'weft-scheduling[learn]'"
)
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'weft-scheduling[learn]'")

from weft.cli.main import BAD_INPUT, DONE, main
from weft.errors import InvalidInput
from weft.experiments.imitation import paper
from weft.experiments.imitation.paper import PaperNet
from weft.experiments.imitation.runtimes import (
    net_of,
    onnx_runtime,
    plan_through,
    torch_runtime,
    write_paper_onnx,
)
from weft.experiments.onnx_session import onnx_session
from weft.learn.imitation.deepsched import data
from weft.learn.imitation.deepsched.examples import example_of, stacked
from weft.learn.imitation.deepsched.training import DeepSchedSettings, train
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.imitation.deepsched.features import task_features
from weft.planners.imitation.deepsched.network import bundled_network, encode, load_network
from weft.planners.imitation.deepsched.planner import plan_rows

# -- ours ------------------------------------------------------------------------------


def test_torch_onnx_and_compiled_agree(tmp_path):
    net, problem = bundled_network(), data.draw_problem(11, tasks=80, devices=7)
    rows = task_features(problem).rows
    by_torch, by_onnx = torch_runtime(net_of(net)), onnx_runtime(net, tmp_path)
    assert np.allclose(by_torch[0](rows), encode(net, rows), rtol=1e-4, atol=1e-4)
    assert np.allclose(by_onnx[0](rows), encode(net, rows), rtol=1e-4, atol=1e-4)
    context, pairs = encode(net, rows)[0, 3:].copy(), example_of(problem, steps=5).pairs[3]
    assert np.allclose(
        by_torch[1](context, pairs), by_onnx[1](context, pairs), rtol=1e-4, atol=1e-4
    )
    expected = plan_rows(problem, net)
    for runtime in (by_torch, by_onnx):
        found = plan_through(problem, *runtime)
        assert np.array_equal(found.device, expected.device)
        assert np.array_equal(found.start, expected.start)


def test_the_torch_module_gives_its_arrays_back():
    net = bundled_network()
    assert all(np.array_equal(a, b) for a, b in zip(net_of(net).network(), net, strict=True))


def test_a_learner_on_a_problem_with_one_answer():
    # One device takes a tenth of the time of the others for every task, and nothing ever moves: it
    # is always right while it is free.
    fast = np.full((30, 4), 10.0)
    fast[:, 2] = 1.0
    problem = Problem.from_arrays(fast, [[t, t + 1] for t in range(29)], 0.0, bandwidth=1.0)
    example = example_of(problem, steps=30)
    assert example.good[:, 2].all()
    assert example.good.sum() == 30
    made = train(DeepSchedSettings(batches=60, validate=60), examples=repeat(stacked([example])))
    assert made.curve[-1]["agreement"] == 1.0
    assert (plan_rows(problem, made.best).device == 2).all()


def test_training_is_repeatable():
    examples = [
        stacked([example_of(data.draw_problem(s, tasks=30, devices=3), steps=20)])
        for s in range(12)
    ]
    one, two = (
        train(DeepSchedSettings(batches=4, validate=4), seed=1, examples=iter(examples))
        for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one.best, two.best, strict=True))
    assert one.curve[0]["score"] == two.curve[0]["score"]


def test_train_from_the_command_line(tmp_path, capsys):
    assert main(["train", "deepsched", "--batches", "2", "--out", str(tmp_path), "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["trainings"][0]["batches"] == 2
    problem = data.draw_problem(1, tasks=20, devices=3)
    made = plan(problem, "deepsched", weights=found["file"])
    assert check(problem, made.schedule) == []
    assert load_network(found["file"]).vote.size == 16
    assert main(["train", "deepsched", "--batches", "0"]) == BAD_INPUT


# -- the document's ----------------------------------------------------------------------


def test_paper_shapes_and_padding():
    problem = data.draw_problem(2, tasks=12, devices=4)
    machines, tasks = paper.inputs_of(problem, 20)
    assert (machines.shape, tasks.shape) == ((3, 4), (20, 7))
    assert not tasks[12:].any()
    # Arrival and priority: entry tasks can start at 0, and the highest upward rank is 1.
    assert (tasks[:12, 0].min(), tasks[:12, 5].max()) == (0.0, 1.0)
    assert (tasks[:12, 5] > 0).all()
    sample = paper.sample_of(problem, 20)
    assert (sample.machine[12:] == -1).all()
    assert sample.times.max() == 1.0
    with pytest.raises(InvalidInput, match="12 tasks; this network was made for 10"):
        paper.inputs_of(problem, 10)


def test_the_paper_network_reads_two_numbers_a_task():
    # Machine and times are a function of the two stacked numbers alone: as many inputs as outputs
    # of the 1x1 convolutions say.
    net = PaperNet(tasks=9, machines=5)
    assert net.classifier.weight.shape == (5, 2, 1)
    assert net.regressor.weight.shape == (2, 2, 1)
    # Only the last state of the GRU counts: 32 numbers for all tasks.
    assert net.task_full.weight.shape == (9, 32)


def test_padding_does_not_count_in_the_paper_loss():
    net = PaperNet(tasks=20, machines=4)
    sample = paper.sample_of(data.draw_problem(2, tasks=12, devices=4), 20)
    columns = [torch.as_tensor(np.stack([column])) for column in sample]
    one = paper.paper_loss(net, *columns)
    columns[3][:, :, 12:] = 99.0
    assert paper.paper_loss(net, *columns).item() == one.item()


def test_paper_learns_the_one_machine_and_decodes_validly(tmp_path):
    # Machine 1 takes a tenth of the time of the others and tasks form a chain: HEFT uses no other.
    seconds = np.full((10, 3), 10.0)
    seconds[:, 1] = 1.0
    chain = Problem.from_arrays(seconds, [[t, t + 1] for t in range(9)], 0.0, bandwidth=1.0)
    samples = [paper.sample_of(chain, 12)] * 4 * 60
    net = paper.train_paper(samples, steps=60, batch=4, learning_rate=1e-2)
    schedule = paper.paper_schedule(chain, net)
    assert (schedule.device == 1).all()
    assert check(chain, schedule) == []
    other = data.draw_problem(4, tasks=12, devices=3)
    assert check(other, paper.paper_schedule(other, net)) == []
    machines, tasks = paper.inputs_of(other, 12)
    session = onnx_session(write_paper_onnx(net, tmp_path / "paper.onnx"))
    by_onnx = session.run(None, {"machines": machines[None], "tasks": tasks[None]})
    for a, b in zip(paper.paper_answer(net, machines, tasks), by_onnx, strict=True):
        assert np.allclose(a, b[0], rtol=1e-4, atol=1e-5)
