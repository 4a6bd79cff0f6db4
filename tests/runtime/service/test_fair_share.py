"""Rules within a job decide as by their views; small tasks are held ahead."""

from __future__ import annotations

import time
from math import inf
from types import SimpleNamespace

import pytest
from hypothesis import given, settings

import weft
from tests.support.strategies import workloads
from weft.policies import POLICIES
from weft.runtime.deciders.rules import RuleWithinJob
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.fair_share import MOST_AHEAD, SHORT, FairShareDecider, Shares
from weft.runtime.service.session import ServiceSession

RULES = ("fifo", "depth-first", "shortest", "rank-first", "eft", "rank-eft")


def offered(policy, life, ready):
    """What a policy decides by views, each time without the instances it chose before."""
    left, found = list(ready), []
    while left and (decision := policy.decide(life.view(0.0, left))) is not None:
        found.append(decision)
        left.remove(decision.instance)
    return found


@pytest.mark.parametrize("name", RULES)
@given(workload=workloads(choices=False, batches=False, shared=True, setups=True))
@settings(max_examples=15, deadline=None)
def test_a_rule_decides_within_a_job_as_by_its_view(name, workload):
    policy, life = POLICIES.create(name), LiveLifecycle(workload)
    policy.begin(workload)
    rule = RuleWithinJob(policy)
    for job in range(workload.jobs):
        life.arrive(job, 0.0)
    for job in range(workload.jobs):
        ready = [i for i in life.ready if life.place[i][0] == job]
        if not ready:
            continue
        found = list(rule.decisions(life, ready, 0.0))
        assert found == offered(policy, life, ready)
        if found:  # the next job finds a device that is not free
            life.commit([found[0].instance], found[0].device, 0.0)
            if life.machines[found[0].device].running is None:
                life.begin(found[0].device, 0.0)


@pytest.mark.parametrize(("ahead", "expected"), [(1, [1, 1, 1]), (3, [3, 7, MOST_AHEAD])])
def test_a_device_that_finishes_many_groups_at_once_may_hold_more(ahead, expected):
    decider = FairShareDecider(POLICIES.create("eft"), Shares(), ahead=ahead)
    workload = weft.Workload.of(weft.Problem.from_arrays([[1.0]]))
    busy = SimpleNamespace(machines=[SimpleNamespace(slowdown=inf)], workload=workload)
    found = []
    for groups in (1, 5, 40):
        for _ in range(groups):
            decider.finished(busy, SimpleNamespace(device=0, members=[]), None, {})
        assert decider.decide(busy, 0.0) is None  # no device is up
        found.append(decider._may_hold(0))
    assert found == expected


def test_what_is_sent_ahead_is_shared_with_those_that_have_nothing_ready():
    jobs = [weft.Problem.from_arrays([[0.001]] * 20)]
    life = LiveLifecycle(weft.Workload.of(jobs, arrival=[0.0]))
    life.arrive(0, 0.0)
    waiting = ["large"]
    decider = FairShareDecider(
        POLICIES.create("eft"), Shares({"large": 4.0}), ahead=2, backlogged=lambda: waiting
    )
    decider.begin(life)
    decider.join(0, "small", 0, ())
    decider.shares.charge("small", 1.0)  # it leads 'large' by a second
    decider._at_once[0] = MOST_AHEAD  # its groups are tiny
    sent = 0
    while (decision := decider.decide(life, 0.0)) is not None:
        life.commit([decision.instance], decision.device, 0.0)
        sent += 1
    assert sent == 2  # only what a device holds anyway
    waiting.clear()  # no application waits
    while (decision := decider.decide(life, 0.0)) is not None:
        life.commit([decision.instance], decision.device, 0.0)
        sent += 1
    assert sent == MOST_AHEAD


@pytest.mark.parametrize(
    ("seconds", "held"), [(0.001, MOST_AHEAD), (SHORT / 4, 4), (SHORT / 2, 3), (1.0, 3)]
)
def test_a_device_holds_more_groups_only_if_all_of_them_are_short(seconds, held):
    life = LiveLifecycle(weft.Workload.of([weft.Problem.from_arrays([[seconds]] * 40)]))
    life.arrive(0, 0.0)
    decider = FairShareDecider(POLICIES.create("eft"), Shares(), ahead=3)
    decider.begin(life)
    decider.join(0, "a", 0, ())
    decider._at_once[0] = MOST_AHEAD  # the driver was slow for a while
    while (decision := decider.decide(life, 0.0)) is not None:
        life.commit([decision.instance], decision.device, 0.0)
    assert len(life.machines[0].queue) == held


def test_an_urgent_task_goes_to_its_device_though_others_fill_it():
    ordinary = weft.Problem.from_arrays([[0.01, 1.0]] * 10)
    urgent = weft.Problem.from_arrays([[0.01, 1.0]] * 5)
    workload = weft.Workload.of([ordinary, urgent], arrival=[0.0, 0.0], priority=[0.0, 1.0])
    life = LiveLifecycle(workload)
    decider = FairShareDecider(POLICIES.create("eft"), Shares(), ahead=2)
    decider.begin(life)
    for job in (0, 1):
        decider.join(job, "a", job, ())

    def sent() -> list[tuple[int, int]]:
        found = []
        while (decision := decider.decide(life, 0.0)) is not None:
            life.commit([decision.instance], decision.device, 0.0)
            found.append((life.place[decision.instance][0], decision.device))
        return found

    life.arrive(0, 0.0)
    assert sent() == [(0, 0)] * 2  # the second device is too slow
    life.arrive(1, 0.0)
    assert sent() == [(1, 0)] * 2  # at once, but no more of them than a device may hold


def test_an_application_whose_submissions_end_at_once_is_not_idle():
    session = ServiceSession.__new__(ServiceSession)
    session._priorities, session._running, session._jobs = {"a": []}, [], []
    session._recorder, session._busy = None, {"a"}
    session._decider = SimpleNamespace(join=lambda *_: None)
    shares = Shares()
    session.config = SimpleNamespace(shares=shares, reservations=None)
    shares.charge("b", 5.0)
    shares.charge("b", 1.0)  # 'b' was served when it had used 5 seconds
    item = SimpleNamespace(deliver=lambda _: None)
    waiting = SimpleNamespace(application="a", priority=0.0, number=0, item=item)
    session._join(waiting, 0)
    assert shares.used("a") == 0.0
    session._priorities["a"].clear()
    session._busy = set()
    session._join(waiting, 0)
    assert shares.used("a") == 5.0


def test_a_service_tells_when_a_task_starts():
    seen = []
    w = weft.Workflow(work=[1], src=[], dst=[], data=[], names=("nap",))
    with weft.runtime.LocalBackend(1) as devices, weft.Service(devices) as service:
        service.submit("a", w, functions={"nap": _nap}, watch=seen.append).result()
    kinds = [(event.kind, event.task) for event in seen]
    assert kinds == [("begun", ""), ("started", "nap"), ("finished", "nap")]


def _nap():
    time.sleep(0.5)
