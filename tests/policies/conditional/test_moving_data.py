"""Rollouts where data moves: results stay where they are, transfers go on."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.networks import rollout_tables
from tests.support.streams import any_stream, on_network
from weft.model import Cluster, Problem, Scenario, Topology, Workload
from weft.model.check import check
from weft.model.conditional_stream import ConditionalStream, ticked
from weft.policies import simulate
from weft.policies.conditional.evaluate import WINDOW, task_name
from weft.policies.conditional.proposer import make_proposer
from weft.policies.conditional.rollout import Rollout, continue_rollout
from weft.policies.conditional.rules import FEATURES, INDEX, ConditionalRule, choose_one
from weft.policies.conditional.sampled_future import PRESENT, load_state, make_sampler
from weft.policies.conditional.view_policy import RuleViewPolicy
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import JOB_HERE
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.vector.state import sim_of, state_of
from weft.sim.vector.step import act, proceed

JOBS = 20


@njit_noalloc
def roll_out_and_run(tables, rollout, outcome, steps, actions, cost):
    """Write the cost of the index after some steps: in a rollout with the real future, and really.

    Return the transfers and the results of open jobs that the rollout began with, or -1.
    """
    sim, state = sim_of(tables, 0), state_of(tables, 0)
    sampler, weights = rollout.sampler, rollout.weights
    answer = proceed(sim, state)
    for _ in range(steps):
        if answer != MOMENT:
            return -1, -1
        choose_one(sim, state, INDEX, weights, actions[0])
        answer = act(sim, state, actions[0])
    arrived, total = sim.world[0].next_arrival, len(sim.job) - 1
    jobs = load_state(sim, state, sampler, total - arrived)
    here, copied = sim_of(sampler.tables, PRESENT), 0
    for j in range(total):
        if j >= arrived or sim.job[j].state == JOB_HERE:
            here.job[copied].arrival = sim.job[j].arrival
            for c in range(outcome.shape[1]):
                here.outcome[copied * outcome.shape[1] + c] = outcome[j, c]
            copied += 1
    moving, results = here.world[0].moving, here.world[0].executions
    choose_one(sim, state, INDEX, weights, actions[0])
    cost[0] = continue_rollout(rollout, jobs, actions[0], actions[1])
    while answer == MOMENT:
        answer = act(sim, state, actions[0])
        cost[1] += state.counters[0].cost
        choose_one(sim, state, INDEX, weights, actions[0])
    return moving, results


def with_links(stream: ConditionalStream, rng: np.random.Generator) -> ConditionalStream:
    """Return the stream with data on its edges and links between its units."""
    w, c = stream.problem.workflow, stream.problem.cluster
    flow = replace(w, data=rng.integers(0, 6, w.m).astype(float), choices=w.choices)
    cluster = replace(c, bandwidth=rng.uniform(0.5, 2.0, (c.p, c.p)), latency=0.5)
    return replace(stream, problem=Problem.bind(flow, cluster))


def with_curves(stream: ConditionalStream, rng: np.random.Generator) -> ConditionalStream:
    """Return the stream with links and batch curves: the kernel is that of networks."""
    linked = with_links(stream, rng)
    w, c = linked.problem.workflow, linked.problem.cluster
    return replace(linked, problem=Problem.bind(w, replace(c, batch_curve=curve(c))))


def curve(cluster: Cluster):
    return {"*": np.tile(1.0 + 0.25 * np.arange(cluster.batch.max()), (cluster.p, 1))}


def on_slow_network(stream: ConditionalStream, rng: np.random.Generator) -> ConditionalStream:
    """Return the stream on a network on which data is often on its way."""
    moved = on_network(stream, rng)
    w = moved.problem.workflow
    slow = replace(w, data=5.0 * w.data, choices=w.choices)
    return replace(moved, problem=Problem.bind(slow, moved.problem.cluster))


def with_everything(stream: ConditionalStream, rng: np.random.Generator) -> ConditionalStream:
    """Return the stream on a network of two nodes, with set-ups, batch curves and licences."""
    moved = on_slow_network(stream, rng)
    w, c = moved.problem.workflow, moved.problem.cluster
    flow = replace(w, needs={"licence": rng.integers(0, 3, w.n)}, choices=w.choices)
    nodes = ("n0", "n1", "n1")[: c.p]
    cluster = replace(
        c,
        nodes=nodes,
        network=Topology.star(tuple(dict.fromkeys(nodes)), up=2.0, down=1.0, latency=0.25),
        setup={"*": np.tile([1.5, 1.0, 0.0], (c.p, 1))},
        cache=1.0,
        batch_curve=curve(c),
        capacity={"licence": [3.0] * len(set(nodes))},
    )
    return replace(moved, problem=Problem.bind(flow, cluster))


MACHINES = {
    "links": with_links,
    "links and curves": with_curves,
    "network": on_slow_network,
    "everything": with_everything,
}


def drawn(seed: int, machines: str, waiting: str = "") -> tuple[ConditionalStream, StepBatch]:
    rng = np.random.default_rng(seed)
    stream = MACHINES[machines](any_stream(rng, jobs=JOBS), rng)
    waiting = waiting or ("event" if seed % 2 else "block")
    return stream, StepBatch(stream, 1, StepOptions(idle=waiting, idle_seconds=3.0, window=WINDOW))


def index_weights(batch: StepBatch, seed: int):
    shape = int(batch.tables.state.group.max()) + 1, batch.kinds, len(FEATURES)
    return np.random.default_rng(seed).normal(0.3, 1.0, shape)


@pytest.mark.parametrize("machines", ["links and curves", "network", "everything"])
def test_with_the_real_future_a_rollout_costs_as_much_as_the_run(machines):
    met = np.zeros(2, int)
    for seed in range(40):
        stream, batch = drawn(seed, machines)
        arrival, outcome = stream.draw_ticks(seed)
        batch.place(0, arrival, outcome)
        sampler = make_sampler(stream, batch, room=2 * JOBS, seed=0)
        actions, cost = np.zeros((2, batch.units), np.int64), np.zeros(2)
        base, weights = make_proposer(None, batch), index_weights(batch, seed)
        rollout = rollout_tables(sampler, weights, base, units=batch.units, ahead=1)
        begun = roll_out_and_run(batch.tables, rollout, outcome, 3 + seed % 7, actions, cost)
        if begun[0] >= 0:
            assert cost[0] == cost[1]
            met += (np.array(begun) > 0) & (cost[0] > 0.0)
    assert met[1] > 10  # cases in which open jobs have data on units
    assert met[0] > 3 or machines == "links and curves"  # and transfers on their way


def test_rollouts_run_where_data_moves():
    stream, batch = drawn(3, "links")
    batch.place(0, *stream.draw_ticks(3))
    steps, _, _, futures = Rollout(weights=index_weights(batch, 3), most=8).run(batch)[0]
    assert np.isfinite(batch.jct(0)).all()
    assert 0 < steps < futures


def seconds_by_view(stream: ConditionalStream, policy, arrival, outcome):
    workload = Workload.of(
        ticked(stream.problem, stream.tick),
        arrival=arrival,
        template=np.zeros(stream.jobs, np.int64),
    )
    scenario = Scenario.of(workload, outcome=outcome.reshape(-1))
    trace = simulate(workload, policy, scenario=scenario)
    assert check(workload, trace) == []
    return trace.job_completion * stream.tick


def test_views_show_units_that_wait_for_data_as_busy():
    for seed in range(0, 40, 3):
        stream, batch = drawn(seed, "links", waiting="event")
        watched = tuple(task_name(stream, c) for c in stream.watched)
        rule = ConditionalRule("index", index_weights(batch, seed), watched)
        arrival, outcome = stream.draw_ticks(seed)
        batch.place(0, arrival, outcome)
        rule.run(batch)
        by_view = seconds_by_view(stream, RuleViewPolicy(rule), arrival, outcome)
        np.testing.assert_allclose(by_view, batch.jct(0), rtol=1e-9, atol=1e-9)
