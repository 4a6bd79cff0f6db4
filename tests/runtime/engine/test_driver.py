"""The driver on a scripted fake backend: retries, timeouts, lost devices, plans, budgets."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.strategies import problems
from weft.errors import Stuck
from weft.model import Cluster, Problem, Scenario, Workload
from weft.model.trace import CANCELLED, DONE, LOST
from weft.planners import PLANNERS
from weft.runtime import FakeBackend, RunOptions, TaskFailed
from weft.runtime.backends.protocol import DeviceAdded
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.deciders.plan import PlanDecider, remaining_problem
from weft.runtime.deciders.policy import PolicyDecider, greedy
from weft.runtime.deciders.shadow import ShadowedDecider
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.budgets import Budget, Reservations


def drive(
    workload,
    *,
    scenario=None,
    decider=None,
    modelled=False,
    drift=None,
    reservations=None,
    faults=None,
    hangs=(),
    **options,
):
    backend = FakeBackend(workload.cluster, scenario, modelled=modelled, faults=faults, hangs=hangs)
    backend.begin(workload, None)
    life = LiveLifecycle(workload, modelled=modelled)
    driver = Driver(
        life,
        backend,
        decider or greedy(),
        options=RunOptions(**options),
        drift=drift,
        reservations=reservations,
    )
    driver.run()
    return driver, driver.trace(), backend


def heft(**options):
    return PlanDecider(PLANNERS.create("heft"), **options)


def independent(seconds, devices=1, jobs=1):
    return Workload.of(
        Problem.from_arrays(np.repeat(np.array(seconds, float)[:, None], devices, axis=1)),
        arrival=[0.0] * jobs,
    )


# -- failures -----------------------------------------------------------------


def test_back_off_doubles():
    driver, trace, _ = drive(
        independent([1.0]), faults={0: ["raised", "raised"]}, retries=2, backoff=0.5
    )
    # 0 to 1 fails; half a second; 1.5 to 2.5 fails; one second; 3.5 to 4.5 is done.
    assert trace.start.tolist() == [0.0, 1.5, 3.5]
    assert trace.status.tolist() == [LOST, LOST, DONE]
    assert not driver.failures


def test_other_tasks_run_while_one_backs_off():
    _, trace, _ = drive(independent([1.0, 1.0]), faults={0: ["raised"]}, retries=1, backoff=5.0)
    assert trace.task.tolist() == [0, 1, 0]
    assert trace.start.tolist() == [0.0, 1.0, 6.0]


@pytest.mark.parametrize("decider", [greedy, heft], ids=["policy", "plan"])
def test_what_depends_on_a_failure_is_called_off_and_the_rest_goes_on(decider):
    # 0 -> 1 -> 2 and 3, all one second on one device; 0 always fails.
    workload = Workload.of(Problem.from_arrays(np.ones((4, 1)), [[0, 1], [1, 2]]))
    driver, trace, _ = drive(
        workload,
        decider=decider(),
        faults={0: ["raised"] * 9},
        retries=1,
        backoff=0.25,
        on_error="continue",
    )
    (failure,) = driver.failures
    assert failure.attempts == 2
    assert failure.dependents == ("t1", "t2")
    assert set(trace.task[trace.status == DONE].tolist()) == {3}
    assert np.isnan(trace.job_finish).all()
    assert weft.check(workload, trace) == []


def test_an_error_stops_everything_if_asked():
    driver, trace, _ = drive(independent([1.0, 5.0, 5.0], devices=2), faults={0: ["raised"]})
    assert [failure.task for failure in driver.failures] == ["t0"]
    assert sorted(trace.status.tolist()) == [LOST, CANCELLED]
    assert trace.finish.max() == 1.0
    assert weft.check(trace.workload, trace) == []


def test_a_task_that_hangs_meets_its_limit_and_others_do_not():
    workload = independent([1.0, 1.0])
    with pytest.raises(Stuck):
        drive(workload, hangs=[0])
    backend = FakeBackend(workload.cluster, modelled=False, hangs=[0])
    calls = []
    backend.cancel = calls.append
    backend.begin(workload, None)
    driver = Driver(
        LiveLifecycle(workload), backend, greedy(), options=RunOptions(timeout={"t0": 3.0})
    )
    with pytest.raises(Stuck):
        driver.run()  # this backend only takes notes
    assert calls == [0]
    assert backend.clock() == 3.0


def test_a_task_that_kills_its_device_again_and_again_is_blamed():
    workload = independent([2.0, 1.0])
    changes = [
        (at + step, 0, slowdown)
        for at in (1.0, 2.0, 3.0)
        for step, slowdown in ((0.0, inf), (0.5, 1.0))
    ]
    driver, trace, _ = drive(
        workload, scenario=Scenario.of(workload, changes=changes), crashes=3, on_error="continue"
    )
    assert driver.failures[0].fault == "killed"
    assert "3 times" in driver.failures[0].text
    # 0 runs 0-1, 1.5-2, 2.5-3, all lost; 1 runs 3.5-4.5.
    assert trace.start.tolist() == [0.0, 1.5, 2.5, 3.5]
    assert trace.status.tolist() == [LOST, LOST, LOST, DONE]


def test_the_window_bounds_what_a_device_has():
    _, _, backend = drive(independent([1.0] * 6), window=2)
    assert [at for at, *_ in backend.submitted] == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_story_of_a_task_is_kept():
    driver, *_ = drive(independent([1.0]), faults={0: ["raised"]}, retries=1)
    chapters = [f"{chapter.state} {chapter.note}" for chapter in driver.life.stories.of(0)]
    assert "lost scripted: raised" in chapters
    assert chapters[-1].startswith("done")


def test_terms_that_make_no_sense_are_refused():
    for bad in ({"window": 0}, {"retries": -1}, {"crashes": 0}, {"on_error": "ignore"}):
        with pytest.raises(weft.InvalidInput):
            RunOptions(**bad)


def test_a_batch_that_lost_a_member_reports_on_the_others():
    # Two jobs of one task with a choice, in one batch of 2 s; the first job is cancelled at 1. The
    # branch of the other is its own.
    b = weft.WorkflowBuilder()
    b.task("choose", work=2.0)
    b.choice("choose", {"left": 0.5, "right": 0.5})
    problem = Problem.bind(b.build(), weft.Cluster(speed=[1.0], batch=[2]))
    workload = Workload.of(problem, arrival=[0.0, 0.0])
    scenario = Scenario.of(workload, outcome=[0, 1], cancel=[1.0, inf])
    backend = FakeBackend(workload.cluster, scenario)
    backend.begin(workload, None)
    driver = Driver(
        LiveLifecycle(workload, modelled=True), backend, greedy(), cancels=scenario.cancel.tolist()
    )
    driver.run()
    assert driver.failures == []
    assert driver.life.outcome.tolist() == [-1, 1]


# -- plan mode ----------------------------------------------------------------


@settings(max_examples=60)
@given(problems(min_tasks=1), st.sampled_from(["heft", "cpop", "min-min", "round-robin"]))
def test_a_plan_runs_as_planned_when_nothing_happens(problem, name):
    made = weft.plan(problem, name)
    decider = PlanDecider(PLANNERS.create(name))
    workload = Workload.of(problem)
    backend = FakeBackend(problem.cluster)
    backend.begin(workload, None)
    driver = Driver(LiveLifecycle(workload, modelled=True), backend, decider)
    driver.run()
    trace = driver.trace()
    order = np.argsort(trace.task)
    assert decider.plans == 1
    assert weft.check(problem, trace) == []
    np.testing.assert_array_equal(trace.device[order], made.schedule.device)
    assert (
        trace.finish[order] <= made.schedule.finish + 1e-9
    ).all()  # starting as soon as possible in the planned order


def test_a_lost_device_makes_a_new_plan():
    # Four tasks of 2 s on two devices, two each; device 1 fails at 1 and never comes back.
    workload = independent([2.0] * 4, devices=2)
    decider = heft(ahead=1)
    scenario = Scenario.of(workload, changes=[(1.0, 1, inf)])
    driver, trace, _ = drive(workload, scenario=scenario, decider=decider)
    assert decider.plans > 1
    done = trace.status == DONE
    assert (trace.device[done] == 0).all()
    assert trace.makespan == 8.0
    assert not driver.replaced


def test_a_device_that_comes_up_makes_a_new_plan():
    # Device 1 is down at first and comes at 1, when device 0 is busy until 4: two of the three that
    # are left go to device 1, 1 to 3 and 3 to 5, one to device 0, 4 to 6. A plan that left out the
    # running task would give two to device 0, until 8.
    workload = independent([4.0, 2.0, 2.0, 2.0], devices=2)
    decider = heft(ahead=1)
    trace = drive(
        workload,
        scenario=Scenario.of(workload, changes=[(0.0, 1, inf), (1.0, 1, 1.0)]),
        decider=decider,
    )[1]
    assert trace.makespan == 6.0
    assert sorted(trace.device.tolist()) == [0, 0, 1, 1]


class Growing(FakeBackend):
    """A second device appears when the clock says 1, and no estimate mentions it before."""

    def devices(self):
        return self.cluster if self._now < 1.0 else Cluster(speed=[1.0, 1.0])

    def wait(self, until):
        if len(self._lanes) == 1 and self._now < 1.0 <= min(self._lanes[0].end, until):
            self._now = 1.0
            self._lanes.append(type(self._lanes[0])())
            return [*self._taken(), DeviceAdded(1, 1.0)]
        return super().wait(until)

    def _seconds(self, order, device):  # the same on both
        return super()._seconds(order, 0)


@pytest.mark.parametrize(
    "make",
    [lambda: heft(ahead=1), greedy, lambda: PolicyDecider(weft.policies.POLICIES.create("eft"))],
)
def test_a_device_nobody_knew_of_is_used(make):
    # As above, but the second device is new: the run grows, and the trace tells of both.
    def on(cluster):
        return Workload.of(
            Problem.bind(weft.Workflow(work=[4.0, 2.0, 2.0, 2.0], src=[], dst=[], data=[]), cluster)
        )

    workload = on(Cluster(speed=[1.0]))
    backend = Growing(workload.cluster, modelled=False)
    backend.begin(workload, None)
    watched = ShadowedDecider(make(), weft.policies.POLICIES.create("eft"))
    driver = Driver(
        LiveLifecycle(workload),
        backend,
        watched,
        options=RunOptions(window=1),
        drift=DriftDetector(workload),
        grown=on,
    )
    driver.run()
    trace = driver.trace()
    assert trace.workload.cluster.p == 2
    assert weft.check(trace.workload, trace) == []
    if isinstance(watched.decider, PlanDecider):
        assert (
            trace.makespan == 6.0
        )  # a rule has committed all four to the first device before the second came
    assert watched.report().erred == 0
    assert trace.scenario.change_device.tolist() == [1, 1]


def test_a_device_nobody_knew_of_is_left_alone_where_nothing_can_grow():
    workload = Workload.of(
        Problem.bind(weft.Workflow(work=[2.0] * 2, src=[], dst=[], data=[]), Cluster(speed=[1.0]))
    )
    backend = Growing(workload.cluster, modelled=False)
    backend.begin(workload, None)
    driver = Driver(LiveLifecycle(workload), backend, greedy())
    driver.run()
    assert driver.trace().makespan == 4.0


def test_estimates_that_were_wrong_are_corrected_and_planned_again():
    # Estimated: device 1 twice as fast. In truth it takes ten times as long, so nearly everything
    # must move to device 0.
    workload = Workload.of(Problem.from_arrays(np.tile([2.0, 1.0], (30, 1))))
    scenario = Scenario.of(workload, bias=np.array([[1.0, 10.0]]))
    fixed = drive(workload, scenario=scenario, decider=heft(ahead=1, replan=False))[1]
    decider = heft(ahead=1)
    adapted = drive(
        workload, scenario=scenario, decider=decider, drift=DriftDetector(workload, least=2)
    )[1]
    assert fixed.makespan == 200.0  # HEFT gives 20 tasks to device 1, of 10 s each
    assert decider.plans > 1
    # Two tasks of 10 s are enough to learn it, up to three more are under way: 60 s at most,
    # against 30 * 2 = 60 on device 0 alone.
    assert adapted.makespan <= 60.0
    assert (
        adapted.workload.problems[0].durations() == [2.0, 1.0]
    ).all()  # the trace keeps what was predicted


def test_what_is_left_knows_where_results_are():
    # 0 -> 1, 0 -> 2: 0 is done on device 1, 1 runs there; 2 is left. Edge data 4 bytes at 1 a
    # second.
    problem = Problem.from_arrays(
        [[9.0, 3.0], [9.0, 5.0], [2.0, 2.0]], [[0, 1], [0, 2]], [4.0, 4.0], bandwidth=1.0
    )
    life = LiveLifecycle(Workload.of(problem))
    life.arrive(0, 0.0)
    life.commit([0], 1, 0.0)
    life.begin(1, 0.0)
    life.finish(1, 3.0)
    life.commit([1], 1, 3.0)
    life.begin(1, 3.0)
    left = remaining_problem(life, [2], 3.0)
    # Then stubs: what runs on device 1, for another 5 s, and the result of task 0.
    assert left.durations()[1:].tolist() == [[inf, 5.0], [inf, 0.0]]
    assert (
        weft.plan(left, "heft").makespan == 6.0
    )  # on device 0: 4 s for the data and 2; device 1 is not free before 5: 7
    life.commit([2], 1, 3.0)
    assert remaining_problem(life, [], 3.0).durations().tolist() == [
        [inf, 5.0],
        [inf, 2.0],
    ]  # one after the other
    assert weft.plan(remaining_problem(life, [], 3.0), "heft").makespan == 7.0


def test_tasks_that_cost_the_same_share_a_row_of_a_new_plan():
    # A matrix of 100,000 tasks and 64 devices took more memory than the rest of a run.
    work = [1.0] * 40 + [2.0] * 10
    problem = Problem.from_arrays(work=work, speed=[1.0, 2.0], edges=[[0, i] for i in range(1, 50)])
    life = LiveLifecycle(Workload.of(problem))
    life.arrive(0, 0.0)
    life.commit([0], 1, 0.0)
    life.begin(1, 0.0)
    life.finish(1, 0.5)
    left = remaining_problem(life, list(range(1, 50)), 0.5)
    assert (left.n, left.per_work.tolist()) == (50, [[1.0, 0.5], [2.0, 1.0], [inf, 0.0]])
    assert left.workflow.src.tolist() == [49] * 49
    assert (left.durations()[:49] == problem.durations()[1:]).all()


# -- budgets ------------------------------------------------------------------


def budgeted(seconds, budget, *, modelled=True):
    workload = independent(seconds)
    return drive(
        workload, reservations=Reservations(["app"], {"app": budget}), modelled=modelled, window=1
    )[1]


@pytest.mark.parametrize("modelled", [True, False])
def test_posterior_enforcement_carries_the_overdraft(modelled):
    # Budget 2 every 10. 0: 2 > 0, runs to 3, leaves -1. At 10: min(2, -1 + 2) = 1 > 0, runs to 13,
    # leaves -2. At 20: 0, not above zero.
    # At 30: 2, runs.
    trace = budgeted([3.0] * 3, Budget(2.0, 10.0), modelled=modelled)
    assert trace.start.tolist() == [0.0, 10.0, 30.0]


def test_apriori_enforcement_asks_for_the_predicted_cost():
    # Budget 5 every 10, tasks of 3: one fits (5 >= 3), then 2 < 3 until 10: min(5, 2 + 5) = 5. So
    # one a period.
    assert budgeted([3.0] * 3, Budget(5.0, 10.0, "apriori")).start.tolist() == [0.0, 10.0, 20.0]
    # Posterior lets the second start with 2 left; at 10 there is min(5, -1 + 5) = 4.
    assert budgeted([3.0] * 3, Budget(5.0, 10.0)).start.tolist() == [0.0, 3.0, 10.0]


def test_a_task_dearer_than_its_whole_budget_starts_with_a_full_one():
    # 6 > 5, but the budget is full: it runs and leaves -1. At 10: 4, not full and not enough. At
    # 20: 5, full.
    assert budgeted([6.0] * 2, Budget(5.0, 10.0, "apriori")).start.tolist() == [0.0, 20.0]


def test_a_budget_binds_its_own_application_only():
    workload = independent([1.0, 1.0], jobs=2)
    book = Reservations(["poor", "rich"], {"poor": Budget(1.0, 100.0)})
    trace = drive(workload, reservations=book, modelled=True)[1]
    # One queue on one device: what waits for its budget holds up those behind it, as in TimeGraph's
    # queue of a device.
    assert trace.job.tolist().count(1) == 2
    assert trace.makespan == pytest.approx(103.0)
    assert book.left("poor", 103.0) == 0.0


def test_a_failed_attempt_is_charged_and_a_lost_one_too():
    workload = independent([1.0])
    book = Reservations(["app"], {"app": Budget(5.0, 100.0)})
    drive(workload, reservations=book, faults={0: ["raised"]}, retries=1)
    assert book.left("app", 3.0) == 3.0  # 5 - 1 - 1
    book = Reservations(["app"], {"app": Budget(5.0, 100.0)})
    drive(
        workload,
        reservations=book,
        scenario=Scenario.of(workload, changes=[(0.5, 0, inf), (1.0, 0, 1.0)]),
    )
    assert book.left("app", 3.0) == 3.5  # 5 - 0.5 - 1


def test_budgets_that_make_no_sense_are_refused():
    for bad in ((0.0, 1.0, "posterior"), (1.0, inf, "posterior"), (1.0, 1.0, "never")):
        with pytest.raises(weft.InvalidInput):
            Budget(*bad)


# -- the rest -----------------------------------------------------------------


def test_a_stopped_run_says_what_failed(tmp_path):
    b = weft.WorkflowBuilder()
    b.task("a", work=1.0)
    cluster = weft.Cluster(speed=[1.0])
    backend = FakeBackend(cluster, modelled=False, faults={0: ["raised"]})
    with pytest.raises(
        TaskFailed,
        match="task 'a' failed on device 'd0': scripted: raised; "
        "inputs: none; nothing depends on it",
    ) as caught:
        weft.run(b.build(), functions={"a": print}, backend=backend, history=False)
    assert caught.value.trace.status.tolist() == [LOST]


def test_policy_deciders_keep_their_name():
    assert PolicyDecider(weft.policies.POLICIES.create("fifo")).name == "fifo"
