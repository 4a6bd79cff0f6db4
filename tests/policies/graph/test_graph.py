"""DEFT online and the graph networks that pick for it: Decima and Lachesis."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.strategies import futures
from tests.support.twins import assert_same
from weft.errors import InvalidInput, Stuck, Unsupported
from weft.generators.instances import CONDITIONS, Instance, draw_instance
from weft.learn.workflow.graph import GraphSettings, advantages, train_graph, validation_instances
from weft.learn.workflow.graph_episodes import EXPERT, run_instance
from weft.learn.workflow.graph_module import GraphModule, make_batch, make_forest, order_likelihood
from weft.model import Problem, Scenario, WorkflowBuilder, Workload
from weft.model.check import check
from weft.policies.graph.deft import DeftPolicy
from weft.policies.graph.network import graph_arrays_of, graph_network_of
from weft.policies.graph.passes import make_graph_state, task_features
from weft.policies.graph.policy import GraphPolicy, TrainedGraph, save_graph
from weft.policies.load import load_policy
from weft.sim.kernel.tables import make_sim
from weft.sim.reference import simulate_reference
from weft.sim.simulate import simulate

KINDS = ("decima", "lachesis")


def untrained(kind, seed=0):
    module = GraphModule(kind, seed)
    return GraphPolicy(TrainedGraph(kind, kind, module.network(), {}))


POLICIES = {
    "fifo-deft-online": DeftPolicy,
    **{kind: (lambda kind=kind: untrained(kind)) for kind in KINDS},
}


class OneByOne:
    """A policy without its compiled path: asked through views."""

    copies = True

    def __init__(self, policy):
        self.policy, self.name = policy, policy.name

    def begin(self, workload, *, seed=0):
        self.policy.begin(workload, seed=seed)

    def decide(self, view):
        return self.policy.decide(view)


def test_deft_copies_a_parent_when_that_is_sooner():
    # a takes 1 s on d0. b follows there: 1 + 5 = 6. c on d0 would end at 11; on d1 a's data (10 s)
    # at 1 + 10 + 5 = 16; with a copied to d1 (from 1 to 2) at 2 + 5 = 7.
    problem = Problem.from_arrays(
        [[1.0, 1.0], [5.0, 5.0], [5.0, 5.0]], [[0, 1], [0, 2]], [10.0, 10.0], bandwidth=1.0
    )
    workload = Workload.of(problem)
    trace = simulate(workload, DeftPolicy())
    assert check(workload, trace) == []
    rows = list(
        zip(
            trace.task.tolist(),
            trace.device.tolist(),
            trace.start.tolist(),
            trace.finish.tolist(),
            trace.copy.tolist(),
            strict=True,
        )
    )
    assert rows == [
        (0, 0, 0.0, 1.0, False),
        (1, 0, 1.0, 6.0, False),
        (0, 1, 1.0, 2.0, True),
        (2, 1, 2.0, 7.0, False),
    ]


def test_deft_makes_no_copy_that_gains_nothing():
    # Moving a's data takes as long as running a again: both end at 7, so no copy is made.
    problem = Problem.from_arrays(
        [[1.0, 1.0], [5.0, 5.0], [5.0, 5.0]], [[0, 1], [0, 2]], [1.0, 1.0], bandwidth=1.0
    )
    trace = simulate(Workload.of(problem), DeftPolicy())
    assert trace.makespan == 7.0
    assert not trace.copy.any()


def test_copies_help_where_data_is_dear():
    ratios, copies = [], 0
    for seed in range(6):
        case = draw_instance("static", seed=seed, tasks=40, ccr=5.0)
        trace = simulate(case.workload, DeftPolicy(), scenario=case.scenario)
        assert check(case.workload, trace) == []
        copies += int(trace.copy.sum())
        ratios.append(
            trace.makespan
            / simulate(case.workload, _fifo_eft(case.workload), scenario=case.scenario).makespan
        )
    assert copies > 0
    assert np.mean(ratios) < 1


def _fifo_eft(workload):
    from weft.sim.rule import Rule

    return Rule("eft", "eft", np.zeros(workload.instances))


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(futures(choices=False), st.booleans())
def test_compiled_decisions_are_those_of_views(name, future, eager):
    workload, scenario = future
    try:
        fast = simulate(workload, POLICIES[name](), scenario=scenario, eager=eager)
    except Stuck:
        with pytest.raises(Stuck):
            simulate_reference(workload, OneByOne(POLICIES[name]()), scenario=scenario, eager=eager)
        return
    assert_same(
        fast, simulate(workload, OneByOne(POLICIES[name]()), scenario=scenario, eager=eager)
    )
    assert_same(
        fast,
        simulate_reference(workload, OneByOne(POLICIES[name]()), scenario=scenario, eager=eager),
    )
    assert check(workload, fast) == []


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_compiled_decisions_are_those_of_views_on_gpu_clusters(name, condition):
    case = draw_instance(
        condition, seed=5, tasks=25, jobs=4 if condition == "stream" else 1, ccr=3.0
    )
    fast = simulate(case.workload, POLICIES[name](), scenario=case.scenario)
    assert_same(fast, simulate(case.workload, OneByOne(POLICIES[name]()), scenario=case.scenario))
    assert check(case.workload, fast) == []


def test_choices_are_refused():
    builder = WorkflowBuilder("branching")
    builder.task("a", work=1.0)
    builder.task("b", work=1.0)
    builder.choice("a", {"yes": 0.5, "no": 0.5})
    builder.edge("a", "b", when="yes")
    from weft.model import Cluster

    workload = Workload.of(Problem.bind(builder.build(), Cluster(speed=[1.0])))
    with pytest.raises(Unsupported, match="branching"):
        simulate(workload, DeftPolicy())


# -- networks ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_torch_rates_as_compiled_code_does(kind):
    module = GraphModule(kind, 1)
    cases = validation_instances(each=1)
    rng = np.random.default_rng(0)
    pairs = [run_instance(case, module.network(), kind, rng, times=2) for case in cases]
    forest = make_forest(cases, [board for _, board in pairs])
    batch = make_batch(cases, [runs for runs, _ in pairs], forest)
    with torch.no_grad():
        found = module(forest, batch).numpy()
    expected = np.concatenate([run.score for runs, _ in pairs for run in runs])
    assert len(expected) > 1000
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbering_of_tasks_does_not_matter(kind):
    rng = np.random.default_rng(4)
    n, p = 12, 3
    durations = rng.uniform(1, 5, (n, p))
    edges = np.array([(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < 0.3])
    data = rng.uniform(0, 4, len(edges))
    new = rng.permutation(n)
    renumbered = np.empty_like(durations)
    renumbered[new] = durations
    problems = [
        Problem.from_arrays(durations, edges, data, bandwidth=1.0),
        Problem.from_arrays(renumbered, new[edges], data, bandwidth=1.0),
    ]
    network = GraphModule(kind, 2).network()
    boards = []
    for problem in problems:
        workload = Workload.of(problem)
        boards.append(
            make_graph_state(
                workload, network, make_sim(workload, Scenario.of(workload), None, eager=True), kind
            )
        )
    np.testing.assert_allclose(
        task_features(problems[1], kind)[new],
        task_features(problems[0], kind),
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_allclose(boards[1].embedding[new], boards[0].embedding, rtol=1e-4, atol=1e-5)
    traces = [simulate(Workload.of(problem), untrained(kind, 2)) for problem in problems]
    assert traces[0].makespan == pytest.approx(traces[1].makespan)


def test_a_network_that_does_not_fit_is_refused():
    arrays = graph_arrays_of(GraphModule("decima", 0).network())
    with pytest.raises(InvalidInput, match="message"):
        graph_network_of(
            {name: array for name, array in arrays.items() if not name.startswith("message")}
        )
    with pytest.raises(InvalidInput, match="fit together"):
        graph_network_of(
            arrays
            | {
                "update.1.weight": np.zeros((9, 16), np.float32),
                "update.1.bias": np.zeros(9, np.float32),
            }
        )


def test_files_round_trip(tmp_path):
    learned = TrainedGraph(
        "mine", "lachesis", GraphModule("lachesis", 3).network(), {"seed": 3}, "for a test"
    )
    path = save_graph(learned, tmp_path / "mine")
    again = load_policy(path).learned
    assert (again.name, again.kind, again.training, again.about) == (
        "mine",
        "lachesis",
        {"seed": 3},
        "for a test",
    )
    for name, array in graph_arrays_of(learned.network).items():
        np.testing.assert_array_equal(graph_arrays_of(again.network)[name], array)
    path.write_text(path.read_text().replace('"lachesis"', '"decima"'))
    with pytest.raises(InvalidInput, match="decima"):
        load_policy(path)


# -- learning ----------------------------------------------------------------


def test_likelihood_of_an_order():
    # Ratings 1, 0, 2 drawn in the order third, first, second, of which two were placed:
    # log softmax(2 | 1, 0, 2) + log softmax(1 | 1, 0).
    case = draw_instance("static", seed=1, tasks=30)
    runs, board = run_instance(
        case, GraphModule("decima", 0).network(), "decima", np.random.default_rng(0), times=1
    )
    batch = make_batch([case], [runs], make_forest([case], [board]))
    one = batch._replace(
        time=torch.zeros(1),
        placed=torch.tensor([2]),
        row_event=torch.zeros(3, dtype=torch.int64),
        place=torch.tensor([1, 2, 0]),
    )
    likelihood, _ = order_likelihood(torch.tensor([1.0, 0.0, 2.0]), one)
    expected = 2 - np.log(np.exp(1) + 1 + np.exp(2)) + 1 - np.log(np.exp(1) + 1)
    assert likelihood.item() == pytest.approx(expected, rel=1e-5)


def test_advantages_cancel_over_the_plays_of_a_case():
    case = draw_instance("stream", seed=2, tasks=10, jobs=3)
    runs, _ = run_instance(
        case, GraphModule("decima", 0).network(), "decima", np.random.default_rng(0), times=4
    )
    first = [
        advantage[0] for advantage in advantages(case, runs)
    ]  # all begin at the same time with the same jobs ahead
    assert np.ptp(first) > 0
    assert sum(first) == pytest.approx(0.0, abs=1e-12)


def _short_and_long(settings_, seed, update, progress):
    """Six jobs of one task on one device, half of them ten times as long: short ones go first."""
    problems = [Problem.from_arrays([[seconds]]) for seconds in (10.0, 1.0, 10.0, 1.0, 10.0, 1.0)]
    problems = [replace(problem, cluster=problems[0].cluster) for problem in problems]
    workload = Workload.of(problems, template=np.arange(6), arrival=np.zeros(6))
    return [Instance(workload, Scenario.of(workload))] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_learns_to_let_the_short_jobs_go_first(kind):
    learned = train_graph(
        kind,
        settings=GraphSettings(updates=40, imitation=0, runs=8, rate=5e-3, every=100),
        seed=1,
        draw=_short_and_long,
    )
    case = _short_and_long(None, 0, 0, 0)[0]
    trace = simulate(case.workload, GraphPolicy(learned), scenario=case.scenario)
    assert trace.job.tolist()[:3] == [1, 3, 5]  # 1 + 2 + 3 + 13 + 23 + 33 seconds is the least
    assert float(trace.jct) * 6 == pytest.approx(75.0)


def test_imitation_and_same_seed_same_network():
    small = GraphSettings(updates=1, imitation=3, runs=2, small=(8, 10), jobs=(2, 2))
    one, two = (
        train_graph("decima", settings=small, seed=7, validation=validation_instances(each=1))
        for _ in range(2)
    )
    assert (
        one.training["curve"] == two.training["curve"]
    )  # the record also says how long it took: that differs
    for name, array in graph_arrays_of(one.network).items():
        np.testing.assert_array_equal(array, graph_arrays_of(two.network)[name])


def test_the_teacher_takes_the_job_with_the_least_work_left_first():
    case = _short_and_long(None, 0, 0, 0)[0]
    runs, _ = run_instance(
        case,
        GraphModule("decima", 0).network(),
        "decima",
        np.random.default_rng(0),
        times=1,
        by=EXPERT,
    )
    assert runs[0].job_finish.tolist() == [13.0, 1.0, 23.0, 2.0, 33.0, 3.0]
