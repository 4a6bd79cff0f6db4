"""The hybrid-scheduler document: its numbers to the second decimal, and learners that adapt."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.errors import InvalidInput
from weft.experiments.shift import runs
from weft.experiments.shift.bandit import EnsembleBandit, _forward, _gradient
from weft.experiments.shift.chooser import HybridChooser
from weft.experiments.shift.contenders import (
    fixed_fractions,
    forest_fractions,
    make_bandit,
    make_hybrid,
    make_trend,
    run_learner,
    shifted_tasks,
    train_forest,
    training_tasks,
)
from weft.experiments.shift.physics import PHYSICS, draw_case, profile_tasks
from weft.experiments.shift.queues import cluster_problem, hybrid_policy
from weft.experiments.shift.runs import physics_row
from weft.experiments.shift.statistics import within
from weft.experiments.shift.tasks import CPU, GPU, Tasks, TaskSequence, sequences, split_seconds
from weft.learn.durations.model import DurationModel
from weft.model import Workload


@pytest.fixture(scope="module")
def training() -> Tasks:
    return training_tasks()


@pytest.fixture(scope="module")
def test_set() -> tuple[Tasks, np.random.RandomState]:
    generator = np.random.RandomState(99)
    return shifted_tasks(generator), generator


@pytest.fixture(scope="module")
def tasks(test_set) -> Tasks:
    return test_set[0]


def first(tasks: Tasks, count: int) -> TaskSequence:
    return TaskSequence("", "", tasks.features[:count], tasks.seconds[:count])


# -- the document ---------------------------------------------------------------


def test_the_first_tasks_are_the_documents(tasks):
    assert (tasks.size[:2].tolist(), tasks.memory[:2].tolist()) == ([67.0, 79.0], [3768.0, 4967.0])
    assert tasks.intensity[:2].round(4).tolist() == [0.0832, 0.0193]
    assert tasks.seconds[:2, CPU].round(5).tolist() == [0.02974, 0.04276]


def test_physics_of_one_task():
    # (4000 / 1000)^1.5 / (1.5 + 0.5) = 4 s; speedup 1 + 3 * 1.5 = 5.5; 8000 MB / 16000 MB/s = 0.5
    # s.
    task = Tasks(np.array([4000.0]), np.array([1.5]), np.array([8000.0]))
    assert task.seconds[0].tolist() == [4.0, 4.0 / 5.5 + 0.5]
    assert split_seconds(task.seconds, 0.25)[0] == pytest.approx(0.25 * (4 / 5.5 + 0.5) + 0.75 * 4)


def test_the_rows_that_do_not_learn_match_to_the_second_decimal(test_set):
    tasks, _ = test_set
    generator = np.random.RandomState(99)
    shifted_tasks(generator)  # the stream goes on where the tasks ended
    totals = {
        name: round(float(split_seconds(tasks.seconds, f).sum()), 2)
        for name, f in fixed_fractions(tasks, generator).items()
    }
    assert totals == {
        "Offline Optimal": 12.97,
        "Round Robin": 56.87,
        "Random": 67.14,
        "Greedy": 18.3,
    }


def test_the_forest_stays_on_the_gpu(training, tasks):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: learn)")
    fraction = forest_fractions(train_forest(training), tasks.features)
    assert round(float(split_seconds(tasks.seconds, fraction).sum()), 2) == 122.92


# -- learners ---------------------------------------------------------------------


def test_hybrid_is_within_five_percent_of_optimal(training, tasks):
    assert run_learner(make_hybrid(training), tasks).total <= 13.6


def test_the_dqn_tries_every_device_even_if_its_members_agree():
    # The second device is always slower in the offline data, so no member would choose it.
    agent = EnsembleBandit(1, 2, seed=3, floor=0.0)
    size = np.linspace(1.0, 9.0, 50)[:, None]
    agent.pretrain(size, np.column_stack([size[:, 0], 50.0 * size[:, 0]]), steps=200)
    chosen = []
    for row in size[:20]:
        device = agent.choose(row)
        agent.observe(row, device, float(row[0] * (1.0, 50.0)[device]))
        chosen.append(device)
    assert chosen == [0, 1, 0, 1] + [0] * 16
    always = EnsembleBandit(1, 3, seed=3, trials=0, floor=1.0)
    assert {always.choose([1.0]) for _ in range(50)} == {0, 1, 2}


def test_the_dqn_starts_on_the_gpu_and_leaves_it(training, tasks):
    totals = []
    for seed in range(3):
        agent = make_bandit(training, seed)
        assert (agent.best(tasks.features) == GPU).all()
        totals.append(run_learner(agent, first(tasks, 200)).total)
    rest = float(tasks.seconds[200:, CPU].sum())
    assert np.mean(totals) + rest <= 18.0  # nothing is left to explore by then


def test_after_a_reversed_shift_hybrid_is_back_within_fifty_tasks(training, tasks):
    for stream in sequences(tasks)[:2]:
        spent = run_learner(make_hybrid(training), stream).seconds
        assert len(stream.changes) >= 2
        for change in stream.changes:
            assert within(stream, spent, change) <= 1.1


def test_hybrid_survives_a_drift_and_a_slow_device(training, tasks):
    _, _, gradual, device = sequences(tasks)
    assert run_learner(make_hybrid(training), gradual).total <= 1.05 * gradual.optimal.sum()
    spent = run_learner(make_hybrid(training), device).seconds
    assert within(device, spent, 250) <= 1.25


def test_probes_keep_to_their_budget():
    # Two devices, one ten times slower for ever: a probe loses 9 times the task, so 0.02 a task
    # allows one in 450.
    def model(seconds: float) -> DurationModel:
        made = DurationModel(("size",), logs=("size",))
        made.fit([[1.0], [2.0], [4.0]], np.array([1.0, 2.0, 4.0]) * seconds)
        return made

    chooser = HybridChooser([model(1.0), model(10.0)], probing=0.02, drift=1.0)
    tasks = TaskSequence("", "", np.full((2000, 1), 2.0), np.tile([2.0, 20.0], (2000, 1)))
    result = run_learner(chooser, tasks)
    assert 1 <= chooser.probes <= 2000 * 0.02 / 9 + 1
    assert chooser.probe_seconds == pytest.approx(18.0 * chooser.probes, rel=0.05)
    assert int(result.device.sum()) == chooser.probes
    silent = HybridChooser([model(1.0), model(10.0)], probing=0.0, drift=1.0)
    assert run_learner(silent, tasks).device.sum() == 0


def test_a_device_that_is_not_allowed_is_never_chosen(training, tasks):
    agent = make_bandit(training, 0)
    assert all(agent.choose(row, allowed=[True, False]) == CPU for row in tasks.features[:50])
    with pytest.raises(InvalidInput, match="no device"):
        agent.choose(tasks.features[0], allowed=[False, False])


def test_the_gradient_is_the_slope():
    agent = EnsembleBandit(2, 3, members=2, hidden=4, seed=5)
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(6, 2)), rng.normal(size=(2, 3, 6, 1)), rng.random((2, 3, 6, 1))
    layers = agent._layers

    def loss() -> float:
        return float((weight * (_forward(layers, x)[-1] - y) ** 2).sum()) / 2 / len(x)

    for layer, slope in zip(layers, _gradient(layers, x, y, weight), strict=True):
        at = tuple(s // 2 for s in layer.shape)
        before, step = layer[at], 1e-6
        layer[at] = before + step
        up = loss()
        layer[at] = before - step
        down = loss()
        layer[at] = before
        assert slope[at] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-8)


def test_the_same_seed_learns_the_same(training, tasks):
    one, other = (run_learner(make_bandit(training, 7), first(tasks, 60)) for _ in range(2))
    assert one.device.tolist() == other.device.tolist()


# -- with queues and parallelism ----------------------------------------------------


def test_hybrid_in_the_simulator_beats_what_never_learns(training, tasks):
    problem = cluster_problem(tasks)
    workload = Workload.of(problem)
    traces = {
        name: weft.simulate(workload, hybrid_policy(training, tasks, learning=name == "hybrid"))
        for name in ("hybrid", "offline")
    }
    for trace in traces.values():
        assert weft.check(workload, trace) == []
    assert traces["hybrid"].makespan < 0.97 * traces["offline"].makespan
    assert (
        traces["hybrid"].makespan < weft.plan(problem, "heft").makespan
    )  # which knows every duration


# -- other device models ------------------------------------------------------------


def test_no_single_device_is_best_in_a_mixed_set(training):
    for physics in PHYSICS:
        case = draw_case(physics, training.features, mixed=True, seed=3)
        assert case.single > 1.1, physics.name
        assert len(np.unique(case.best)) == case.seconds.shape[1], physics.name
        assert (case.optimal <= case.seconds.min(axis=1) + 1e-12).all() or physics.noise


def test_device_models_by_hand():
    by_name = {physics.name: physics for physics in PHYSICS}
    # Size 1000, intensity 0.5: 1 s on the CPU; 1 / 2.5 s and 1600 MB / 16000 MB/s on the GPU.
    row = np.array([[1000.0, 0.5, 1600.0]])
    assert by_name["document"].seconds(row).tolist() == [[1.0, 0.5]]
    assert by_name["cliffs"].seconds(row).tolist() == [[4.0, 4.0]]
    three = by_name["three kinds"].seconds(row)[0, 2]
    assert three == pytest.approx(1 / 7 + 0.02 + 0.4)
    assert by_name["floors"].seconds(np.array([[10.0, 0.0, 1.0]])).tolist() == [[0.005, 0.05]]
    # log2(2^8.5) pi = 8.5 pi: the sine is 1, and the GPU takes twice its time.
    crest = np.array([[2.0**8.5, 0.5, 1600.0]])
    plain, doubled = (by_name[n].seconds(crest)[0, 1] for n in ("document", "oscillation"))
    assert doubled == pytest.approx(2 * plain)
    assert profile_tasks().shape == (8, 3)


@pytest.mark.parametrize("name", ["cliffs", "three kinds"])
def test_hybrid_is_near_the_optimum_on_mixed_tasks(training, name):
    (physics,) = (p for p in PHYSICS if p.name == name)
    row = physics_row(physics, training=training, mixed=True, draws=1, first=77)
    over = row["over_optimal"]
    assert 1.0 <= over["hybrid"] <= 1.15
    assert over["hybrid"] < over["trend only"]
    assert over["hybrid"] < over["best single device"]


# -- the verb -----------------------------------------------------------------------


def test_the_verb_writes_results_and_a_page(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: learn)")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: report)")

    def small_agent(tasks: Tasks, seed: int) -> EnsembleBandit:  # it need not be good here
        agent = EnsembleBandit(3, 2, members=1, hidden=4, updates=1, seed=seed)
        agent.pretrain(tasks.features, tasks.seconds, steps=20)
        return agent

    def small_hybrid(tasks: Tasks, *, probing: float = 0.015) -> HybridChooser:
        chooser = make_trend(tasks.features, tasks.seconds)
        chooser.probing = probing
        return chooser

    monkeypatch.setattr(runs, "SEEDS", 2)
    monkeypatch.setattr(runs, "make_hybrid", small_hybrid)
    monkeypatch.setattr(runs, "make_bandit", small_agent)
    monkeypatch.setattr(runs, "PHYSICS", PHYSICS[-1:])
    monkeypatch.setattr(runs, "MIXED_DRAWS", 1)
    monkeypatch.setattr(runs, "SHIFTED_DRAWS", 1)
    monkeypatch.setattr(runs, "FRESH", range(101, 102))
    monkeypatch.setattr(runs, "PROBING", (0.015,))
    assert main(["reproduce", "shift", "--quick", "--out", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "results.json").read_text())
    rows = {row["strategy"]: row for row in printed["strategies"]}
    assert {
        name: round(rows[name]["makespan"], 2)
        for name, seconds in runs.DOCUMENT.items()
        if name != "RL Agent (DQN)"
    } == {name: seconds for name, seconds in runs.DOCUMENT.items() if name != "RL Agent (DQN)"}
    tables = json.loads((tmp_path / "out" / "page.json").read_text())["tables"]
    assert tables["tail"]["rows"][0][0] == 2
    assert tables["physics"]["rows"][0][0] == "oscillation"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Regret" in page
    assert "122.92" in page


def test_an_unknown_experiment_is_refused_with_the_closest(capsys):
    assert main(["reproduce", "shfit"]) == 2
    assert "did you mean 'shift'?" in capsys.readouterr().err
