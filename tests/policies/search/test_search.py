"""Search at every event: known answers, twins, the budget, copies and prices."""

import numpy as np
import pytest

import weft
from tests.support.by_view import Hidden, assert_same_by_view
from weft.errors import InvalidInput, Unsupported, WeftError
from weft.formats.model_file import save_model
from weft.generators import CONDITIONS, draw_instance
from weft.model import Scenario, Workload
from weft.model.machines.capacity import fluid_capacity
from weft.policies import simulate
from weft.policies.replanning.portfolio import PlanOptions
from weft.policies.replanning.prices import update_prices
from weft.policies.replanning.shrinkage import constant_arrays
from weft.policies.replanning.state import make_plan
from weft.policies.replanning.weights import weights_of
from weft.policies.search.anneal import anneal, begin_search, make_search_chain
from weft.policies.search.planning import SearchOptions, make_search, put_ahead
from weft.policies.search.policy import SearchPolicy, search_model
from weft.policies.search.residual import fill, make_residual
from weft.sim.kernel.order_moves import ANY
from weft.sim.kernel.tables import JOB_HERE, make_sim

PLANS = PlanOptions(window=160, affinity=True, early_exit=False)


def policy(**options):
    settings = {"work": 400.0, "first_work": 1_500.0, **options}
    return SearchPolicy("x", [{"trust": 1.0}, {"ahead": 1.0}], PLANS, SearchOptions(**settings))


EVERYTHING = {
    "planned_copies": True,
    "occupancy": 0.5,
    "finish_weight": 0.1,
    "job_moves": True,
    "sampled_jobs": 2,
}
"""Options beside the plain search."""


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_views_and_compiled_path_agree(condition, copies):
    for seed in range(2):
        case = (
            draw_instance(condition, seed=seed, jobs=5, tasks=(8, 15), load=0.9)
            if condition == "stream"
            else draw_instance(condition, seed=seed, tasks=(15, 30), ccr=[1.0, 5.0][seed])
        )
        assert_same_by_view(
            case.workload,
            policy(futures=1 + 2 * seed, copies=copies, **EVERYTHING if seed else {}),
            case.scenario,
        )


def test_the_same_seed_gives_the_same_trace_and_another_seed_another_search():
    case = draw_instance("noisy", seed=3, tasks=60, ccr=2.0)
    runs = [
        simulate(case.workload, policy(futures=3), scenario=case.scenario, seed=s)
        for s in (1, 1, 2)
    ]
    assert runs[0].finish.tobytes() == runs[1].finish.tobytes()
    assert runs[0].finish.tobytes() != runs[2].finish.tobytes()


class Recorded(SearchPolicy):
    """A search that records the end of its plan at each event."""

    def begin(self, workload, *, seed=0):
        super().begin(workload, seed=seed)
        self.ends = []

    def _choose(self, sim, portfolio, view):
        found = super()._choose(sim, portfolio, view)
        tasks, chain = self._search.left.size[0]["tasks"], self._search.chain
        if tasks > 1:
            self.ends.append(float(chain.finish[0, :tasks].max()))
        return found


@pytest.mark.parametrize("copies", [False, True])
def test_with_exact_costs_the_incumbent_never_gets_worse(copies):
    """A run ends no later than its first plan, and that no later than the plan without search.

    Without search (work 0), each event still takes the better of a new plan and the incumbent. So
    a run with search may end later than one without: after the first event their states differ,
    and so do the plans that are made in them (seed 3: by 0.01 %).
    """
    gains = []
    for seed in range(4):
        case = draw_instance("static", seed=seed, tasks=50, ccr=2.0)
        first, last = [], []
        for work in (0.0, 300.0, 10_000.0):
            settings = {"work": work, "first_work": 10 * work, "planned_copies": True}
            options = SearchOptions(copies=copies, **settings)
            own = Recorded("x", [{"trust": 1.0}, {"ahead": 1.0}], PLANS, options)
            trace = simulate(case.workload, Hidden(own), scenario=case.scenario)
            assert (np.diff(own.ends) <= 1e-9 * trace.makespan).all()
            first.append(own.ends[0])
            last.append(trace.makespan)
        assert max(first) <= first[0] * (1 + 1e-9)
        assert max(last) <= first[0] * (1 + 1e-9)
        gains.append(last[2] / last[0])
    assert np.mean(gains) < (1.0 if copies else 0.99)  # plans with copies leave less to gain


def test_search_finds_the_plan_that_heft_misses():
    """The first task takes 4 s on either device, the second 2 s on device 1, 9 s on device 0.

    HEFT takes the first device for the first task and ends at 13 s; the data moves for 10 s. Both
    on device 1 end at 6 s.
    """
    problem = weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0], bandwidth=1.0)
    plans = PlanOptions(early_exit=False)
    assert simulate(problem, "heft-replanned").makespan == 13.0
    assert simulate(problem, SearchPolicy("x", {}, plans)).makespan == 6.0


@pytest.mark.parametrize(
    ("transfer", "option", "makespans"),
    [
        # The second child waits for data until 4 s and ends at 9 s; with a copy of the parent,
        # which runs from 1 s to 2 s, it ends at 7 s.
        (3.0, "copies", [9.0, 7.0]),
        # Without copies in the plan both children stay on one device and end at 11 s, and no copy
        # is made. With a copy from 1 s to 2 s on the other device, the second ends at 7 s.
        (10.0, "planned_copies", [11.0, 7.0]),
    ],
)
def test_a_copy_replaces_a_wait(transfer, option, makespans):
    """One parent of 1 s and two children of 5 s, on two devices."""
    problem = weft.Problem.from_arrays(
        [[1.0, 1.0], [5.0, 5.0], [5.0, 5.0]], [[0, 1], [0, 2]], [transfer] * 2, bandwidth=1.0
    )
    traces = [
        simulate(problem, SearchPolicy("x", {}, PLANS, SearchOptions(**{option: copies})))
        for copies in (False, True)
    ]
    assert [trace.makespan for trace in traces] == makespans
    assert all(weft.check(problem, trace) == [] for trace in traces)


def test_a_plan_with_copies_is_no_promise_that_breaks():
    """With exact costs, runs with planned copies are valid and shorter on average."""
    gains = []
    for seed in range(6):
        case = draw_instance("static", seed=seed, tasks=40, ccr=5.0)
        plain, planned = (
            simulate(
                case.workload,
                policy(work=2_000.0, first_work=20_000.0, planned_copies=copies),
                scenario=case.scenario,
            )
            for copies in (False, True)
        )
        assert weft.check(case.workload, planned) == []
        gains.append(np.log(planned.makespan / plain.makespan))
    assert np.mean(gains) < 0.0


def test_a_short_job_passes_a_long_one():
    """On one device a chain of 10 s has the higher rank; a job of 1 s ends at 11 s behind it."""
    cluster = weft.Cluster(speed=[1.0], bandwidth=1.0)
    long = weft.Workflow(work=[5.0, 5.0], src=[0], dst=[1], data=[0.0])
    short = weft.Workflow(work=[0.5, 0.5], src=[0], dst=[1], data=[0.0])
    workload = Workload.of([weft.Problem.bind(w, cluster) for w in (long, short)])
    plans = PlanOptions(early_exit=False)
    found = [
        simulate(
            workload,
            SearchPolicy(
                "x", {}, plans, SearchOptions(work=0.0, first_work=0.0, job_moves=job_moves)
            ),
        ).job_finish.tolist()
        for job_moves in (False, True)
    ]
    assert found == [[10.0, 11.0], [11.0, 1.0]]


def test_one_job_passes_another_in_the_places_of_both():
    """Jobs 1 0 2 1 0 in the order: with job 0 ahead of job 1 they are 0 0 2 1 1."""
    workload = draw_instance("static", seed=0, tasks=5, ccr=1.0).workload
    sim = make_sim(workload, Scenario.of(workload), None, eager=True)
    search = make_search(workload, sim, 5, SearchOptions(), seed=0)
    search.left.size["tasks"], search.left.job[:5] = 5, [1, 0, 2, 1, 0]
    search.chain.best_order[:5] = np.arange(5)
    assert put_ahead(search, 0, 1)
    assert search.chain.order[:5].tolist() == [1, 4, 2, 0, 3]
    search.chain.best_order[:5] = search.chain.order[:5]
    assert not put_ahead(search, 0, 1)  # it is ahead already
    assert put_ahead(search, 1, 0)
    assert search.chain.order[:5].tolist() == [0, 3, 2, 1, 4]


def test_seconds_of_devices_have_a_price():
    case = draw_instance("static", seed=4, tasks=30, ccr=1.0)
    left, chain, sim = residual_of(case.workload, pinned=True)
    plain = begin_search(left, sim.grid, chain)
    left.price[:] = np.arange(len(left.price)) / 10.0
    left.size["finish_weight"] = 2.0
    busy = chain.finish[0] - chain.start[0]
    extra = (left.price[chain.device[0]] * busy).sum() + 2.0 * chain.finish[0].mean()
    assert begin_search(left, sim.grid, chain) == pytest.approx(plain + extra, rel=1e-12)


def test_lost_tasks_down_devices_and_empty_jobs():
    for seed in range(12):
        case = draw_instance("failing", seed=seed, jobs=2, tasks=(6, 14))
        trace = simulate(case.workload, policy(), scenario=case.scenario)
        assert weft.check(case.workload, trace) == []


def test_the_work_of_a_search_is_counted():
    """The search ends at its budget: at most one move more."""
    case = draw_instance("static", seed=1, tasks=80, ccr=1.0)
    left, chain, sim = residual_of(case.workload)
    begin_search(left, sim.grid, chain)
    before = chain.figures["work"][0]
    anneal(left, sim.grid, chain, 5_000.0, 0.0)
    most = 80 * (1 + 0.5 * case.workload.cluster.p)
    assert 5_000 <= chain.figures["work"][0] - before <= 5_000 + most + 1


def test_times_of_a_plan_equal_a_plain_version():
    for seed in range(5):
        case = draw_instance("static", seed=seed, tasks=25, ccr=1.0)
        left, chain, sim = residual_of(case.workload, pinned=True)
        value = begin_search(left, sim.grid, chain)
        assert value == pytest.approx(plain_value(left, chain, sim), rel=1e-12)


def residual_of(workload, *, pinned=False):
    """The problem that is left at time zero: all of it, in the order of the ranks."""
    sim = make_sim(workload, Scenario.of(workload), None, eager=True)
    sim.job["state"][:-1] = JOB_HERE
    weights, p = weights_of({}), workload.cluster.p
    plan = make_plan(workload, sim, weights, 10_000, np.zeros(p, np.int64))
    n = len(sim.inst)
    plan.sequence[:n], plan.state["planned"] = plan.inst["order"], n
    left = make_residual(workload, sim, n, 1, 0)
    plan.rate[:] = 1.0
    fill(sim, plan, left, n, 1, 0.0, True, 0)
    chain = make_search_chain(n, 1, p, 1)
    chain.order[:] = np.arange(n)
    chain.choice[:] = np.arange(n) % p if pinned else ANY
    return left, chain, sim


def plain_value(left, chain, sim):
    """Place the tasks one by one, each in the earliest gap of its device."""
    p = left.free.shape[1]
    busy = [[] for _ in range(p)]
    finish, on = {}, {}
    for t in chain.order.tolist():
        d = int(chain.choice[t])
        ready = left.free[0, d]
        for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
            u = int(left.pred[e])
            ready = max(
                ready, finish[u] + sim.grid[on[u], d] + left.pred_data[e] * sim.grid[p + on[u], d]
            )
        seconds = left.seconds[t, d]
        starts = [ready, *(end for _, end in busy[d] if end > ready)]
        start = min(s for s in starts if all(s + seconds <= a or s >= b for a, b in busy[d]))
        busy[d].append((start, start + seconds))
        finish[t], on[t] = start + seconds, d
    return max(finish.values())


def test_prices_are_dual_values_of_the_capacity():
    """At the dual optimum, the cheapest cost of a job at prices of sum 1 is 1 / capacity."""
    for seed in range(4):
        case = draw_instance("static", seed=seed, jobs=3, tasks=40)
        workload = case.workload
        sim = make_sim(workload, Scenario.of(workload), None, eager=True)
        sim.job["state"][:-1] = JOB_HERE
        p = workload.cluster.p
        plan = make_plan(workload, sim, weights_of({"price": 1.0}), 100, np.zeros(p, np.int64))
        assert update_prices(sim, plan)
        rows = np.flatnonzero(plan.row_work)
        per_work, demand = sim.grid[rows], plan.row_work[rows]
        cost = (demand * (per_work * plan.price / plan.price.sum()).min(axis=1)).sum()
        assert cost == pytest.approx(1.0 / fluid_capacity(per_work, demand), rel=0.05)
        assert cost <= 1.0 / fluid_capacity(per_work, demand) * (1 + 1e-9)


def test_a_job_alone_has_no_prices():
    case = draw_instance("static", seed=2, tasks=40)
    assert (
        simulate(case.workload, policy(), scenario=case.scenario).finish.tobytes()
        == simulate(
            case.workload, policy().with_weight("price", 3.0), scenario=case.scenario
        ).finish.tobytes()
    )


def test_a_search_policy_on_disk(tmp_path):
    arrays = constant_arrays((2.0, 5.0))
    card = save_model(
        search_model("mine", "a test", arrays, work=500.0, job_moves=True), tmp_path / "mine"
    )
    found = weft.load_policy(tmp_path / "mine")
    assert type(found) is SearchPolicy
    assert found.search_options == SearchOptions(work=500.0, job_moves=True)
    np.testing.assert_array_equal(found.shrinkage_network.w3, arrays["w3"])
    for old, new, words in (
        ('"work": 500.0', '"work": "much"', "work is 'much'; it must be like 8000.0"),
        ('"work": 500.0', '"wrok": 500.0', "wrok"),
        ('"futures": 1', '"futures": 0', "futures is 0"),
    ):
        (tmp_path / "bad.json").write_text(card.read_text().replace(old, new))
        (tmp_path / "bad.safetensors").write_bytes((tmp_path / "mine.safetensors").read_bytes())
        with pytest.raises(WeftError, match=words):
            weft.load_policy(tmp_path / "bad")


def test_refusals():
    with pytest.raises(InvalidInput, match="futures is 0"):
        SearchOptions(futures=0)
    with pytest.raises(InvalidInput, match="work is nan"):
        SearchOptions(work=float("nan"))
    conditional = Workload.of(
        weft.Problem.bind(weft.generate("conditional"), weft.gpu_cluster("2xV100"))
    )
    with pytest.raises(Unsupported, match="choices"):
        policy().begin(conditional)
