"""The wait queue and the service behind it: order, shares, room, and several applications on one backend."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import run_functions as f

import weft
from weft.run import FakeBackend, LocalBackend, TaskFailed
from weft.run.queue import QueueFull, WaitQueue
from weft.run.reservations import Budget
from weft.run.service import Service


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
    assert items(queue) == ["a0", "b0", "b1", "b2", "a1"]  # after a0, a has used 3: as much as b after three


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
    with pytest.raises(QueueFull, match="'b' has to wait"):
        queue.put("b", 2)
    waiter = threading.Thread(target=lambda: queue.put("b", 2, timeout=30.0))
    waiter.start()
    assert queue.take().item == 0  # makes room
    waiter.join(30.0)
    assert not waiter.is_alive()
    assert len(queue) == 2
    queue.close()
    with pytest.raises(QueueFull, match="closed"):
        queue.put("b", 3, timeout=None)


def test_nonsense_is_refused():
    with pytest.raises(weft.InvalidInput, match="room for 0"):
        WaitQueue(0)
    with pytest.raises(weft.InvalidInput, match="share of 'a'"):
        WaitQueue(shares={"a": 0.0})
    with pytest.raises(weft.InvalidInput, match="cost"):
        WaitQueue().put("a", 0, cost=0.0)
    with pytest.raises(IndexError):
        WaitQueue().take()


# -- the service, in virtual time ---------------------------------------------


def served(submissions, *, seconds, devices=1, **options):
    """Run submissions (application, priority), each one task of so many seconds, one after the other; (start, application) of each."""
    backend = FakeBackend(weft.Cluster(speed=[1.0] * devices))
    service = Service(backend, together=1, **options)
    names = []
    for application, priority in submissions:
        workflow = weft.Workflow(work=[seconds], src=[], dst=[], data=[], name=application)
        names.append(service.submit(application, workflow, functions={"task": print}, priority=priority))
    order = []
    run = service._run
    service._run = lambda batch: (order.append(batch[0].application), run(batch))
    with service:
        for future in names:
            future.result(60)
    return list(zip([at for at, *_ in backend.submitted], order, strict=True))


def test_posterior_budgets_carry_their_overdraft_from_round_to_round():
    # TimeGraph, C = 2 every T = 10, tasks of 3: 0 to 3 leaves -1; at 10 there is min(2, -1 + 2) = 1 > 0: 10 to 13 leaves -2; at 20
    # there is 0, not above zero; at 30 there is 2.
    starts = served([("app", 0.0)] * 3, seconds=3.0, budgets={"app": Budget(2.0, 10.0)})
    assert [at for at, _ in starts] == [0.0, 10.0, 30.0]


def test_apriori_budgets_carry_over_too():
    # C = 5 every 10, tasks of 3: 5 >= 3, then 2 < 3 until 10, when there is min(5, 2 + 5) = 5 again: one a period.
    starts = served([("app", 0.0)] * 3, seconds=3.0, budgets={"app": Budget(5.0, 10.0, "apriori")})
    assert [at for at, _ in starts] == [0.0, 10.0, 20.0]


def test_rounds_go_by_priority_then_by_share():
    # b's urgent one first, so b has used 1 and a nothing: a. Then both have used 1, and the oldest is b's; then a, with 1 against 2.
    starts = served([("a", 0.0), ("b", 0.0), ("a", 0.0), ("b", 0.0), ("b", 9.0)], seconds=1.0)
    assert [who for _, who in starts] == ["b", "a", "b", "a", "b"]
    assert [at for at, _ in starts] == [0.0, 1.0, 2.0, 3.0, 4.0]
    # With twice the share, two of big for one of small once both wait: used 0, 0 -> big 0.5 -> small 1 -> big 1 -> big (0.5 < 1) ...
    queue = WaitQueue(shares={"big": 2.0})
    starts = served([("big", 0.0)] * 4 + [("small", 0.0)] * 2, seconds=1.0, queue=queue)
    assert [who for _, who in starts] == ["big", "small", "big", "big", "small", "big"]


def test_a_full_service_pushes_back():
    service = Service(FakeBackend(weft.Cluster(speed=[1.0])), queue=WaitQueue(1))
    workflow = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    service.submit("a", workflow, functions={"task": print})
    with pytest.raises(QueueFull, match="'b' has to wait"):
        service.submit("b", workflow, functions={"task": print}, timeout=0.01)
    with service:  # runs what waits
        later = service.submit("b", workflow, functions={"task": print}, timeout=30.0)
        assert later.result(60) == {"t0": 0}


def test_several_applications_on_one_backend():
    with LocalBackend(2) as backend, Service(backend, budgets={"thrifty": Budget(0.5, 0.5)}) as service:
        futures = [service.submit(name, f.plus(f.square(k), 1), priority=k) for k in range(5) for name in ("thrifty", "other")]
        b = weft.WorkflowBuilder()
        b.task("bad", work=1.0)
        failing = service.submit("other", b.build(), functions={"task": f.raises})
        answers = [future.result(60) for future in futures]
        with pytest.raises(TaskFailed, match="no 3"):
            failing.result(60)
    assert answers == [{"plus-0": k * k + 1} for k in range(5) for _ in range(2)]
    assert multiprocessing.active_children() == []
