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
from weft.run import LocalBackend, TaskFailed
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
