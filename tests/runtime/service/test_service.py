"""The wait queue and the service: order, shares, budgets, several applications."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support import run_functions as f
from tests.support.waiting import WAIT_LIMIT
from weft.runtime import FakeBackend, LocalBackend, PolicyReplaced, RunOptions, TaskFailed
from weft.runtime.backends.protocol import DeviceAdded
from weft.runtime.service.budgets import Budget
from weft.runtime.service.queue import QueueFull, WaitQueue
from weft.runtime.service.service import Service
from weft.runtime.service.session import ServiceSession


def items(queue):
    return [queue.take().item for _ in range(len(queue))]


def test_priority_goes_first_then_shares_then_age():
    queue = WaitQueue()
    for name in ("a", "b"):
        for k in range(2):
            queue.put(name, f"{name}{k}")
    queue.put("b", "urgent", priority=1.0)
    # b has paid for the urgent one: a goes first among the others, and once more.
    assert items(queue) == ["urgent", "a0", "a1", "b0", "b1"]


def test_costs_count():
    queue = WaitQueue()
    queue.put("a", "a0", cost=3.0)
    for k in range(3):
        queue.put("b", f"b{k}", cost=1.0)
    queue.put("a", "a1", cost=1.0)
    assert items(queue) == [
        "a0",
        "b0",
        "b1",
        "b2",
        "a1",
    ]  # after a0, a has used 3: as much as b after three


def test_who_was_away_is_owed_nothing():
    queue = WaitQueue()
    for k in range(4):
        queue.put("a", f"a{k}")
    assert [queue.take().item for _ in range(3)] == ["a0", "a1", "a2"]
    for k in range(3):
        queue.put("late", f"late{k}")
        queue.put("a", f"a{k + 4}")
    assert items(queue) == ["late0", "a3", "late1", "a4", "late2", "a5", "a6"]


@given(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=2, max_size=4))
def test_shares_hold_whenever_all_want_more(shares):
    names = [f"app{i}" for i in range(len(shares))]
    queue = WaitQueue(10_000, shares=dict(zip(names, shares, strict=True)))
    for _ in range(200):
        for name in names:
            queue.put(name, name)
    served = Counter(queue.take().item for _ in range(100))
    for name, share in zip(names, shares, strict=True):
        assert abs(served[name] - 100 * share / sum(shares)) <= 2


def test_a_full_queue_pushes_back():
    queue = WaitQueue(capacity=2)
    queue.put("a", 0)
    queue.put("a", 1)
    with pytest.raises(QueueFull, match="'b' must submit again later"):
        queue.put("b", 2)
    waiter = threading.Thread(target=lambda: queue.put("b", 2, timeout=WAIT_LIMIT))
    waiter.start()
    assert queue.take().item == 0  # makes room
    waiter.join(WAIT_LIMIT)
    assert not waiter.is_alive()
    assert len(queue) == 2
    queue.close()
    with pytest.raises(QueueFull, match="closed"):
        queue.put("b", 3, timeout=None)


def test_a_removed_item_makes_room_and_costs_nothing():
    queue = WaitQueue(capacity=3)
    numbers = [queue.put("a", k, priority=float(k), cost=100.0) for k in range(2)]
    queue.put("b", "b")
    assert [queue.remove(number) for number in (*numbers, *numbers, 99)] == [True] * 2 + [False] * 3
    assert len(queue) == 1
    queue.put("a", "a", timeout=0.0)
    assert items(queue) == ["b", "a"]


def test_cancelled_submissions_take_no_places():
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    service = Service(FakeBackend(weft.Cluster(speed=[1.0])), capacity=2)

    def submitted(name):
        return service.submit(name, workflow, functions={"task": f.one}, timeout=0.0)

    first = [submitted("a") for _ in range(2)]
    assert all(future.cancel() for future in first)
    later = [submitted("b") for _ in range(2)]
    with service:
        pass  # runs what waits
    assert [future.cancelled() for future in (*first, *later)] == [True, True, False, False]


def test_nonsense_is_refused():
    with pytest.raises(weft.InvalidInput, match="capacity is 0"):
        WaitQueue(0)
    with pytest.raises(weft.InvalidInput, match="share of 'a'"):
        WaitQueue(shares={"a": 0.0})
    with pytest.raises(weft.InvalidInput, match="cost"):
        WaitQueue().put("a", 0, cost=0.0)
    with pytest.raises(IndexError):
        WaitQueue().take()
    with LocalBackend(1) as backend, pytest.raises(weft.UnknownName, match="did you mean 'eft'"):
        Service(backend, policy="efty")
    with pytest.raises(weft.InvalidInput, match="give a backend object"):
        Service("local")
    with pytest.raises(weft.InvalidInput, match="Budget: seconds is 'a'"):
        Budget("a", 1.0)


# -- the service, in virtual time ---------------------------------------------


class Scripted(FakeBackend):
    """Submits (time, application, seconds per task, options); records starts and results."""

    def __init__(self, script, *, devices=1, **options):
        super().__init__(weft.Cluster(speed=[1.0] * devices), **options)
        self.script = sorted(script, key=lambda entry: entry[0])
        self.ran, self.came = [], []

    def submit_due(self, now):
        while self.script and self.script[0][0] <= now:
            _, application, seconds, *rest = self.script.pop(0)
            workflow = weft.Workflow(work=seconds, src=[], dst=[], data=[], name=application)
            future = self.service.submit(
                application, workflow, functions={"task": print}, **(rest[0] if rest else {})
            )
            future.add_done_callback(
                lambda _, name=application: self.came.append((self._now, name))
            )
            self.futures.append(future)

    def serve(self, **options):
        """Run the script to its end; (start, application) of every task."""
        self.service, self.futures = Service(self, **options), []
        self.submit_due(0.0)
        with self.service:
            while self.futures:
                self.futures.pop(0).exception(60)
        return self.ran

    def wait(self, until):
        events = super().wait(min(until, self.script[0][0]) if self.script else until)
        if self.script and self.script[0][0] <= self._now:
            self.submit_due(self._now)
            events.append(
                DeviceAdded(0, self._now)
            )  # something must have happened, or nothing ever will
        return events

    def submit(self, order, device, priority):
        job = self.workload.task_of(order.members[0])[0]
        self.ran.append((self._now, self.workload.problem_of(job).workflow.name))
        super().submit(order, device, priority)


def test_a_submission_begins_while_others_run():
    # One device. a's three tasks of 2 are there at 0; b comes at 1, with one task of 1. At 2 a has
    # used 2 and b nothing: b, from 2 to 3.
    backend = Scripted([(0.0, "a", [2.0] * 3), (1.0, "b", [1.0])])
    assert backend.serve() == [(0.0, "a"), (2.0, "b"), (3.0, "a"), (5.0, "a")]
    assert backend.came == [(3.0, "b"), (7.0, "a")]  # each when it is done, not when all are


def test_the_highest_priority_gets_the_next_device():
    # Two devices: a's tasks of 2 take both at 0. At 1 an urgent one of a itself and, with an
    # ordinary one, b: urgent first, both at 2.
    backend = Scripted(
        [(0.0, "a", [2.0] * 6), (1.0, "b", [2.0]), (1.0, "a", [2.0] * 2, {"priority": 5.0})],
        devices=2,
    )
    # At 2: the two urgent tasks. At 4: b, which got nothing so far, and one of a's; at 6, 8: the
    # last three of a's.
    ran = backend.serve()
    assert [at for at, _ in ran] == [0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 8.0]
    assert [who for at, who in ran if at == 2.0] == ["a", "a"]
    assert sorted(who for at, who in ran if at == 4.0) == ["a", "b"]
    assert backend.came == [(4.0, "a"), (6.0, "b"), (10.0, "a")]


def test_devices_are_shared_by_shares():
    # Used over share, big 2 and small 1: 0 0 -> big 0.5 -> small 1 -> big 1 -> big (older) 1.5 ->
    # small 2 -> big.
    backend = Scripted([(0.0, "big", [1.0] * 4), (0.0, "small", [1.0] * 2)])
    ran = backend.serve(shares={"big": 2.0})
    assert [who for _, who in ran] == ["big", "small", "big", "big", "small", "big"]


def test_an_application_that_was_idle_is_owed_no_device_time():
    # a alone until b comes at 2.5. It starts from where a was when it was last served (2): b at 3,
    # then they alternate.
    backend = Scripted([(0.0, "a", [1.0] * 6), (2.5, "b", [1.0] * 3)])
    # At 3: a has used 3, b begins with 2 -> b (3), a is older at 3 to 3 -> a (4), b (4), a (5), b
    # (5), a.
    assert [who for _, who in backend.serve()] == ["a", "a", "a", "b", "a", "b", "a", "b", "a"]


def test_an_application_has_so_many_submissions_under_way():
    # Two of a's at a time; the third begins at 2, when one of the first has ended. Tasks of 1, one
    # device; b has a place of its own.
    script = [(0.0, "a", [1.0]), (0.0, "a", [1.0, 1.0]), (0.0, "a", [1.0]), (0.5, "b", [1.0])]
    backend = Scripted(script)
    assert backend.serve(max_concurrent=2) == [
        (0.0, "a"),
        (1.0, "b"),
        (2.0, "a"),
        (3.0, "a"),
        (4.0, "a"),
    ]
    assert backend.came == [(1.0, "a"), (2.0, "b"), (4.0, "a"), (5.0, "a")]


def test_posterior_budgets_carry_their_overdraft():
    # TimeGraph, C = 2 every T = 10, tasks of 3: 0 to 3 leaves -1; at 10 there is min(2, -1 + 2) = 1
    # > 0: 10 to 13 leaves -2; at 20
    # there is 0, not above zero; at 30 there is 2. The last one comes when the service is idle:
    # budgets live longer than that.
    backend = Scripted([(0.0, "app", [3.0]), (0.0, "app", [3.0]), (0.0, "app", [3.0])])
    assert backend.serve(budgets={"app": Budget(2.0, 10.0)}) == [
        (0.0, "app"),
        (10.0, "app"),
        (30.0, "app"),
    ]
    again = Scripted([(0.0, "app", [3.0])])
    again.service, again.futures = Service(again, budgets={"app": Budget(2.0, 10.0)}), []
    again.submit_due(0.0)
    with again.service:
        again.futures[0].result(WAIT_LIMIT)
        workflow = weft.Workflow(work=[3.0], src=[], dst=[], data=[], name="app")
        again.service.submit("app", workflow, functions={"task": print}).result(
            60
        )  # another busy period
    assert again.ran == [(0.0, "app"), (10.0, "app")]


def test_apriori_budgets_carry_over_too():
    # C = 5 every 10, tasks of 3: 5 >= 3, then 2 < 3 until 10, when there is min(5, 2 + 5) = 5
    # again: one a period.
    ran = Scripted([(0.0, "app", [3.0] * 3)]).serve(budgets={"app": Budget(5.0, 10.0, "apriori")})
    assert [at for at, _ in ran] == [0.0, 10.0, 20.0]


def test_a_budget_that_is_used_up_lets_the_others_by():
    # poor has 1 every 100. Its second task waits until 100; rich takes the device meanwhile,
    # whenever it comes.
    ran = Scripted([(0.0, "poor", [1.0] * 2), (0.0, "rich", [1.0]), (50.0, "rich", [1.0])]).serve(
        budgets={"poor": Budget(1.0, 100.0)}
    )
    assert ran == [(0.0, "poor"), (1.0, "rich"), (50.0, "rich"), (100.0, "poor")]


def test_what_was_sent_ahead_counts_against_the_budget():
    # Two devices, C = 2 every 10, tasks of 3: the first is predicted to use it up, so the second
    # does not start beside it.
    ran = Scripted([(0.0, "app", [3.0] * 2)], devices=2).serve(budgets={"app": Budget(2.0, 10.0)})
    assert ran == [(0.0, "app"), (10.0, "app")]


@pytest.mark.parametrize("on_error", ["continue", "stop"])
def test_a_failure_is_of_its_submission_alone(on_error):
    # Instance 1 is the second of a's three tasks. Going on, the third runs; stopped, it does not. b
    # is not concerned.
    backend = Scripted([(0.0, "a", [1.0] * 3), (0.0, "b", [1.0] * 2)], faults={1: ["raised"]})
    ran = backend.serve(options=RunOptions(on_error=on_error))
    assert [who for _, who in ran].count("a") == (3 if on_error == "continue" else 2)
    assert [who for _, who in ran].count("b") == 2


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from("abc"),
            st.lists(st.integers(1, 5), min_size=1, max_size=4),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_the_least_urgent_start_nothing_while_others_wait(script, devices):
    # The base has work for longer than the others come: whenever it gets a device, all that came
    # before has one, or had.
    others = [
        (float(at), who, [float(s) for s in tasks], {"priority": float(p)})
        for at, who, tasks, p in script
    ]
    backend = Scripted(
        [(0.0, "base", [1.0] * 30 * devices, {"priority": -1.0}), *others], devices=devices
    )
    ran = backend.serve(max_concurrent=100)
    assert len(ran) == 30 * devices + sum(len(tasks) for _, _, tasks, _ in others)
    for k, (at, who) in enumerate(ran):
        started = sum(name != "base" for _, name in ran[:k])
        assert who != "base" or started >= sum(
            len(tasks) for came, _, tasks, _ in others if came < at
        )
    assert (
        max(at for at, _ in backend.came)
        <= (30 * devices + sum(sum(tasks) for _, _, tasks, _ in others)) / devices + 5.0
    )


def test_a_policy_that_errs_is_replaced_and_devices_are_still_shared():
    class Mad:
        name = "mad"

        def begin(self, workload, *, seed=0):
            """Nothing to prepare."""

        def decide(self, view):
            raise RuntimeError("out of its mind")

    backend = Scripted([(0.0, "a", [2.0] * 3), (1.0, "b", [1.0])])
    with pytest.warns(PolicyReplaced, match="out of its mind"):
        assert backend.serve(policy=Mad()) == [(0.0, "a"), (2.0, "b"), (3.0, "a"), (5.0, "a")]


def test_a_full_service_pushes_back():
    service = Service(FakeBackend(weft.Cluster(speed=[1.0])), capacity=1)
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    service.submit("a", workflow, functions={"task": print})
    with pytest.raises(QueueFull, match="'b' must submit again later"):
        service.submit("b", workflow, functions={"task": print}, timeout=0.01)
    with service:  # runs what waits
        later = service.submit("b", workflow, functions={"task": print}, timeout=WAIT_LIMIT)
        assert later.result(WAIT_LIMIT)["t0"] in (
            0,
            1,
        )  # the number of the instance: the first of another busy period, or behind a's


@pytest.mark.parametrize("first", [True, False])
def test_a_task_that_fits_no_device_fails_for_its_submitter(first):
    # Whether it is the first of a busy period, or joins one.
    good = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    bad = weft.Workflow(work=[1.0], src=[], dst=[], data=[], memory=[9.0])
    service = Service(FakeBackend(weft.Cluster(speed=[1.0], memory=[1.0])))
    futures = {
        k: service.submit("a", bad if (k == 0) == first else good, functions={"task": print})
        for k in range(2)
    }
    with service:
        with pytest.raises(weft.InvalidInput):
            futures[0 if first else 1].result(WAIT_LIMIT)
        assert futures[1 if first else 0].result(WAIT_LIMIT) == {"t0": 0}
        assert service.submit("a", good, functions={"task": print}).result(WAIT_LIMIT)["t0"] >= 0


def test_what_waits_can_be_cancelled():
    service = Service(FakeBackend(weft.Cluster(speed=[1.0])))
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    gone, stays = (service.submit("a", workflow, functions={"task": print}) for _ in range(2))
    assert gone.cancel()
    with service:
        assert stays.result(WAIT_LIMIT) == {"t0": 0}
    with pytest.raises(weft.InvalidInput, match="max_concurrent is 0"):
        Service(service.backend, max_concurrent=0)


def test_exception_in_a_with_block_cancels_what_runs_and_waits(tmp_path):
    def interrupted():
        with LocalBackend(1) as backend, Service(backend) as service:
            for k in range(3):
                begun, never = tmp_path / f"begun{k}", tmp_path / "never"
                futures.append(service.submit("a", weft.task(f.begun_then_gated)(begun, never)))
            while not (tmp_path / "begun0").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt

    futures = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(future.cancelled() or future.exception(0) for future in futures)


# -- many submissions ---------------------------------------------------------


def test_shares_and_priorities_hold_under_saturation():
    # Three applications with more submissions than devices, shares 4, 2 and 1. While all have
    # work left, device time follows the shares within 5 %; what is urgent starts before the rest.
    rng = random.Random(5)
    shares = {"a": 4.0, "b": 2.0, "c": 1.0}
    script = [
        (0.0, name, [rng.choice([0.5, 1.0, 1.5, 2.0]) for _ in range(3)])
        for _ in range(150)
        for name in shares
    ]
    urgent = (100.0, "c", [1.0] * 4, {"priority": 9.0})
    used = Counter()

    class Measured(Scripted):
        def _ending(self, order, device, lane):
            name = self.workload.problem_of(self.workload.task_of(order.members[0])[0]).name
            if self._now <= 200.0:  # until then, every application has submissions that wait
                used[name] += self._now - lane.start
            return super()._ending(order, device, lane)

    backend = Measured([*script, urgent], devices=3)
    backend.serve(shares=shares, max_concurrent=4)
    for name, share in shares.items():
        assert used[name] / sum(used.values()) == pytest.approx(share / 7.0, rel=0.05)
    # Four urgent tasks on three devices whose tasks take at most 2.
    assert sum(100.0 <= at <= 103.0 and name == "c" for at, name in backend.ran) >= 4
    assert min(at for at, name in backend.came if name == "c" and at > 100.0) <= 104.0


def test_a_session_does_not_grow_with_its_submissions(monkeypatch):
    sizes, longest, add = [], [], ServiceSession._add

    def counted(self, driver, waiting):
        made = add(self, driver, waiting)
        sizes.append((driver.workload.jobs, driver.workload.instances, len(driver.life.place)))
        kept = [x for x in vars(driver.life).values() if isinstance(x, list | dict | set)]
        longest.append(max(map(len, kept)))
        return made

    monkeypatch.setattr(ServiceSession, "_add", counted)
    backend = Scripted([(0.0, "ab"[k % 2], [1.0] * (1 + k % 3)) for k in range(300)], devices=2)
    ran = backend.serve(max_concurrent=3)
    assert len(ran) == 600
    assert len(sizes) == 299  # all but the first joined one session
    # At most six run at once, of three sizes.
    assert max(jobs for jobs, *_ in sizes) <= 18
    assert all(instances == rows for _, instances, rows in sizes)
    assert max(longest) <= max(instances for _, instances, _ in sizes)


def test_sessions_change_when_too_many_rows_are_unused(monkeypatch):
    monkeypatch.setattr("weft.runtime.service.session.UNUSED", 20)
    backend = Scripted([(0.0, "a", [1.0] * k) for k in range(1, 12)])
    assert len(backend.serve(max_concurrent=1)) == 66
    assert len(backend.came) == 11


# -- and for real -------------------------------------------------------------


def test_several_applications_on_one_backend():
    with (
        LocalBackend(2) as backend,
        Service(backend, budgets={"thrifty": Budget(0.5, 0.5)}) as service,
    ):
        futures = [
            service.submit(name, f.plus(f.square(k), 1), priority=k)
            for k in range(5)
            for name in ("thrifty", "other")
        ]
        b = weft.WorkflowBuilder()
        b.task("bad", work=1.0)
        failing = service.submit("other", b.build(), functions={"task": f.raises})
        answers = [future.result(WAIT_LIMIT) for future in futures]
        with pytest.raises(TaskFailed, match="no 3"):
            failing.result(WAIT_LIMIT)
    assert answers == [{"plus-0": k * k + 1} for k in range(5) for _ in range(2)]
    assert multiprocessing.active_children() == []


def test_results_stay_apart_when_submissions_replace_others():
    """Many sizes, failures and branches in turn, each in the place of another."""
    heard = []
    with LocalBackend(2) as backend, Service(backend, max_concurrent=3) as service:
        jobs = []
        for k in range(60):
            what = (f.plus(f.square(k), 1), f.square(k), f.plus(f.square(k), f.square(k + 1)))
            if k % 10 == 7:
                one = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
                future = service.submit("app", one, functions={"task": f.raises})
                jobs.append((future, None))
            else:
                answer = (k * k + 1, k * k, k * k + (k + 1) ** 2)[k % 3]
                watch = heard.append if k == 0 else None
                jobs.append((service.submit("app", what[k % 3], watch=watch), answer))
        for future, answer in jobs:
            if answer is None:
                with pytest.raises(TaskFailed, match="no 3"):
                    future.result(WAIT_LIMIT)
            else:
                assert list(future.result(WAIT_LIMIT).values()) == [answer]
        assert not backend._results
    notified = [(e.kind, e.task, e.result) for e in heard if e.kind != "started"]
    assert notified == [("begun", "", None), ("finished", "square-0", 0), ("finished", "plus-0", 1)]


def test_a_late_small_one_does_not_wait_for_an_early_large_one(tmp_path):
    """The large one cannot end before the others did: its last task waits for a file."""
    gate = tmp_path / "gate"
    # One order per device and idle devices only: no small task queues behind the waiting one.
    options = RunOptions(window=1, on_error="continue")
    with LocalBackend(2) as backend, Service(backend, policy="fifo", options=options) as service:
        large = service.submit("batch", f.gated(str(gate), *[f.square(k) for k in range(50)]))
        while not backend._orders:
            time.sleep(0.005)
        small = service.submit("user", f.plus(f.square(3), 1))
        locked = service.submit(
            "user",
            weft.Workflow(work=[1.0], src=[], dst=[], data=[]),
            functions={"task": threading.Lock().acquire},
        )
        try:
            assert small.result(WAIT_LIMIT) == {"plus-0": 10}
            with pytest.raises(weft.InvalidInput, match="cannot be sent"):
                locked.result(WAIT_LIMIT)
        finally:
            gate.touch()
        assert large.result(WAIT_LIMIT) == {"gated-0": 50}
        assert not backend._results  # delivered results are dropped
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("options", 3.0),
        ("history", True),
        ("shares", 0),
        ("budgets", []),
        ("capacity", float("nan")),
        ("max_concurrent", 2.5),
    ],
)
def test_wrong_options_of_a_service_are_refused_where_they_are_given(option, value):
    with pytest.raises(weft.InvalidInput, match=f"^{option} is .* must be a"):
        Service(FakeBackend(weft.Cluster(speed=[1.0])), **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("application", 3), ("timeout", float("nan")), ("timeout", -1.0), ("watch", "print")],
)
def test_wrong_options_of_a_submission_are_refused(option, value):
    given = {"application": "a", option: value}
    with (
        Service(FakeBackend(weft.Cluster(speed=[1.0]))) as service,
        pytest.raises(weft.InvalidInput, match=f"^{option} is .* must be"),
    ):
        service.submit(what=weft.task(abs)(-1), **given)
    with pytest.raises(weft.InvalidInput, match="give one that submit returned"):
        service.cancel(3)


def test_a_session_that_cannot_begin_ends_its_submission_and_not_the_service(monkeypatch):
    begun = []

    def broken(self, *args, **options):
        begun.append(self)
        if len(begun) == 1:
            raise RuntimeError("no session")
        return original(self, *args, **options)

    original = ServiceSession.__init__
    monkeypatch.setattr(ServiceSession, "__init__", broken)
    with LocalBackend(1) as backend, Service(backend) as service:
        first = service.submit("a", weft.task(abs)(-1))
        with pytest.raises(RuntimeError, match="no session"):
            first.result(600.0)
        assert service.submit("a", weft.task(abs)(-2)).result(600.0) == {"abs-0": 2}
