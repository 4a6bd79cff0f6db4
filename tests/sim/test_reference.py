"""The reference simulator against answers computed by hand (see the comments)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.instances import schedule_of
from tests.support.strategies import futures, problems
from weft.errors import InvalidInput, Stuck, UnknownName
from weft.model import Cluster, Problem, Scenario, Schedule, Trace, WorkflowBuilder, Workload
from weft.model.check import check
from weft.model.trace import CANCELLED, DONE, LOST
from weft.sim.device_state import Start, Wake
from weft.sim.lifecycle import Lifecycle
from weft.sim.reference import simulate_reference
from weft.sim.rule import PLACEMENTS, Rule
from weft.sim.story import ImpossibleTransition, State
from weft.sim.view import Block, Decision, View


@dataclass
class Script:
    """Commit instances in the given order, as soon as ready and, if wanted, on idle devices."""

    moves: list[tuple[int, int]]
    when_idle: bool = False
    name: str = "script"
    left: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        self.left = list(self.moves)

    def decide(self, view: View) -> Decision | None:
        for move in self.left:
            if move[0] in view.ready and (view.idle[move[1]] or not self.when_idle):
                self.left.remove(move)
                return Decision(*move)
        return None


@dataclass
class Stubborn:
    """Says one thing, always."""

    word: object
    name: str = "stubborn"

    def begin(self, workload: Workload, *, seed: int = 0) -> None: ...

    def decide(self, view: View) -> object:
        return self.word


def rule(workload: Workload, placement: str = "first", keys: object = None) -> Rule:
    return Rule(
        placement,
        placement,
        np.zeros(workload.instances) if keys is None else np.asarray(keys, float),
    )


def rows(trace: Trace) -> list[tuple[int, int, int, float, float]]:
    """(job, task, device, start, finish), by start."""
    return list(
        zip(
            *(getattr(trace, c).tolist() for c in ("job", "task", "device", "start", "finish")),
            strict=True,
        )
    )


def same(a: Trace, b: Trace) -> bool:
    columns = all(getattr(a, c).tobytes() == getattr(b, c).tobytes() for c in Trace.columns())
    return columns and a.job_finish.tobytes() == b.job_finish.tobytes()


def one(durations: object, edges: object = (), data: object = 0.0, **options: object) -> Workload:
    rate = options.pop("bandwidth", 1.0)
    return Workload.of(Problem.from_arrays(durations, edges, data, bandwidth=rate, **options))


CHAIN = {
    "durations": [[2.0, 9.0], [9.0, 3.0], [9.0, 1.0]],
    "edges": [[0, 1], [1, 2]],
    "data": [10.0, 10.0],
}


def test_chain_with_a_transfer():
    # t0 on d0: 0 to 2. 10 bytes at 5 a second after 1 s of latency: 2 + (1 + 2) = 5. t1 on d1: 5 to
    # 8, t2 there at once: 8 to 9.
    workload = one(**CHAIN, bandwidth=5.0, latency=1.0)
    trace = simulate_reference(workload, Script([(0, 0), (1, 1), (2, 1)]))
    assert rows(trace) == [(0, 0, 0, 0.0, 2.0), (0, 1, 1, 5.0, 8.0), (0, 2, 1, 8.0, 9.0)]
    assert trace.job_finish.tolist() == [9.0]
    assert trace.decided.tolist() == [0.0, 2.0, 8.0]
    assert trace.batch.tolist() == [0, 1, 2]
    assert trace.policy == "script"


@pytest.mark.parametrize(("eager", "start"), [(True, 5.0), (False, 7.0)])
def test_eager_data_leaves_when_made_lazy_data_when_asked_for(eager, start):
    # t2 keeps d1 busy until 4; t1 is committed then. Its input was made on d0 at 2 and takes 3: at
    # 2 + 3 = 5, or lazily at 4 + 3 = 7.
    workload = one(
        [[2.0, 9.0], [9.0, 3.0], [9.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0, latency=1.0
    )
    trace = simulate_reference(
        workload, Script([(0, 0), (2, 1), (1, 1)], when_idle=True), eager=eager
    )
    assert rows(trace)[-1] == (0, 1, 1, start, start + 3.0)
    assert trace.decided[-1] == 4.0
    assert trace.eager is eager


def tasks(*specs: dict, cluster: Cluster, name: str = "tasks") -> Problem:
    builder = WorkflowBuilder(name)
    for i, spec in enumerate(specs):
        builder.task(f"t{i}", **spec)
    return Problem.bind(builder.build(), cluster)


def test_a_batch_takes_as_long_as_its_longest():
    # Two at a time: (2, 3) take 3; the third starts at 3 and takes 4.
    problem = tasks(
        {"work": 2.0}, {"work": 3.0}, {"work": 4.0}, cluster=Cluster(speed=[1.0], batch=2)
    )
    workload = Workload.of(problem)
    trace = simulate_reference(workload, rule(workload))
    assert rows(trace) == [(0, 0, 0, 0.0, 3.0), (0, 1, 0, 0.0, 3.0), (0, 2, 0, 3.0, 7.0)]
    assert trace.batch.tolist() == [0, 0, 1]
    # Keys order the batch: t2 leads, t1 joins. max(4, 3) = 4, then 2 more.
    assert [r[1:] for r in rows(simulate_reference(workload, rule(workload, keys=[2, 1, 0])))] == [
        (1, 0, 0.0, 4.0),
        (2, 0, 0.0, 4.0),
        (0, 0, 4.0, 6.0),
    ]


def test_a_batch_is_of_one_kind_and_stops_at_the_memory_limit():
    # t1 is of another kind. t0 and t2 fill 2 + 2 = 4 bytes; t3 would make 5, and t4, which would
    # fit, stands behind it.
    device = Cluster(speed=[1.0], batch=4, memory=4.0)
    specs = [(1.0, "a", 2.0), (1.0, "b", 0.0), (1.0, "a", 2.0), (1.0, "a", 1.0), (1.0, "a", 0.0)]
    workload = Workload.of(
        tasks(*({"work": w, "kind": k, "memory": m} for w, k, m in specs), cluster=device)
    )
    trace = simulate_reference(workload, rule(workload))
    assert [(t, b) for t, b in zip(trace.task.tolist(), trace.batch.tolist(), strict=True)] == [
        (0, 0),
        (2, 0),
        (1, 1),
        (3, 2),
        (4, 2),
    ]


def conditional(data: float = 0.0) -> Workload:
    """a -> b (x) or c (y); b, c -> j; a -> j directly when y."""
    builder = WorkflowBuilder("choice")
    for name, work in (("a", 1.0), ("b", 2.0), ("c", 10.0), ("d", 1.0), ("j", 1.0)):
        builder.task(name, work=work)
    builder.choice("a", {"x": 0.5, "y": 0.5})
    builder.edge("a", "b", when="x")
    builder.edge("a", "c", when="y")
    builder.edge("c", "d")
    builder.edge("a", "j", data=data, when="y")
    builder.edge("b", "j")
    builder.edge("d", "j")
    return Workload.of(Problem.bind(builder.build(), Cluster(speed=[1.0, 1.0], bandwidth=1.0)))


def test_a_choice_skips_a_branch_and_the_join_goes_on():
    # x: a 0-1, b 1-3, j 3-4; c and d are skipped. y: a 0-1, c 1-11, d 11-12, j 12-13; b is skipped.
    workload = conditional()
    by_x = simulate_reference(workload, rule(workload), scenario=Scenario.of(workload, outcome=[0]))
    assert [r[1:] for r in rows(by_x)] == [(0, 0, 0.0, 1.0), (1, 0, 1.0, 3.0), (4, 0, 3.0, 4.0)]
    by_y = simulate_reference(workload, rule(workload), scenario=Scenario.of(workload, outcome=[1]))
    assert [r[1:] for r in rows(by_y)] == [
        (0, 0, 0.0, 1.0),
        (2, 0, 1.0, 11.0),
        (3, 0, 11.0, 12.0),
        (4, 0, 12.0, 13.0),
    ]
    assert by_y.job_finish.tolist() == [13.0]


def test_an_edge_that_is_not_taken_carries_no_data():
    # j on d1 needs b's data (none) at 3; a's 100 bytes would come at 101, but that edge is not
    # taken. Policies see the same.
    workload = conditional(data=100.0)
    seen = []

    class Watching(Script):
        def decide(self, view: View) -> Decision | None:
            if 4 in view.ready:
                seen.append(view.arrival(4, 1))
                assert view.arrivals(4).tolist() == [view.arrival(4, d) for d in range(2)]
            return super().decide(view)

    script = Watching([(0, 0), (1, 0), (4, 1)])
    trace = simulate_reference(workload, script, scenario=Scenario.of(workload, outcome=[0]))
    assert rows(trace)[-1] == (0, 4, 1, 3.0, 4.0)
    assert seen == [3.0]


def test_a_failure_loses_the_work():
    # 10 s from 0; the device is down from 4 to 7; again from 7 to 17. The next task waits for it.
    workload = one([[10.0], [1.0]])
    trace = simulate_reference(
        workload,
        rule(workload),
        scenario=Scenario.of(workload, changes=[(4, 0, np.inf), (7, 0, 1)]),
    )
    assert rows(trace) == [(0, 0, 0, 0.0, 4.0), (0, 0, 0, 7.0, 17.0), (0, 1, 0, 17.0, 18.0)]
    assert trace.status.tolist() == [LOST, DONE, DONE]


def test_a_failure_frees_the_queue_for_other_devices():
    # Both tasks are committed to d0. It fails at 4: t0 (lost) and t1 (queued) are ready again; d1
    # does them: 4 to 10, 10 to 11.
    workload = one([[5.0, 6.0], [1.0, 1.0]])
    script = Script([(0, 0), (1, 0), (0, 1), (1, 1)])
    trace = simulate_reference(
        workload, script, scenario=Scenario.of(workload, changes=[(4, 0, np.inf)])
    )
    assert rows(trace) == [(0, 0, 0, 0.0, 4.0), (0, 0, 1, 4.0, 10.0), (0, 1, 1, 10.0, 11.0)]


def test_under_replay_a_lost_group_runs_again_on_its_device():
    # As above, but the plan is kept: down from 4 to 6, then t0 from 6 to 11, t1 from 11 to 12.
    workload = one([[5.0, 6.0], [1.0, 1.0]])
    plan = Schedule.of(device=[0, 0], start=[0.0, 5.0], finish=[5.0, 6.0])
    trace = simulate_reference(
        workload, plan, scenario=Scenario.of(workload, changes=[(4, 0, np.inf), (6, 0, 1)])
    )
    assert rows(trace) == [(0, 0, 0, 0.0, 4.0), (0, 0, 0, 6.0, 11.0), (0, 1, 0, 11.0, 12.0)]


def test_results_stay_readable_after_a_failure():
    # t0 ends on d0 at 1, d0 fails at 1 for good; its byte reaches d1 at 2.
    workload = one([[1.0, 9.0], [9.0, 1.0]], [[0, 1]], [1.0])
    trace = simulate_reference(
        workload, Script([(0, 0), (1, 1)]), scenario=Scenario.of(workload, changes=[(1, 0, np.inf)])
    )
    assert rows(trace)[-1] == (0, 1, 1, 2.0, 3.0)


def test_a_slowdown_stretches_what_runs():
    # At 4, 6 of 10 s are left; slowed they take 12: 4 + 6 * 2 = 16. A second task then takes 2 *
    # 1: 18.
    workload = one([[10.0], [1.0]])
    trace = simulate_reference(
        workload, rule(workload), scenario=Scenario.of(workload, changes=[(4, 0, 2)])
    )
    assert trace.finish.tolist() == [16.0, 18.0]
    # Back to 1 at 10: 6 of the 12 s are left at slowdown 2, which is 3 s: 13.
    trace = simulate_reference(
        workload, rule(workload), scenario=Scenario.of(workload, changes=[(4, 0, 2), (10, 0, 1)])
    )
    assert trace.finish.tolist() == [13.0, 14.0]


def test_factors_and_bias_multiply():
    # 2 s * factor 1.5 * bias 2 * slowdown 3 = 18.
    workload = one([[2.0]])
    scenario = Scenario.of(workload, factor=1.5, bias=2.0, changes=[(0, 0, 3)])
    assert simulate_reference(workload, rule(workload), scenario=scenario).finish.tolist() == [18.0]


def test_what_a_policy_expects_follows_the_slowdown_but_not_the_noise():
    # Estimated 10 s, really 20; 1 s more is queued: expected 11 at first. Slowed by 2 from 4 on:
    # 4 + 6 * 2 = 16, plus 2 * 1: 18. Really t0 ends at 4 + 16 * 2 = 36, then 2 s for each of the
    # others.
    workload = one([[10.0, 99.0], [1.0, 99.0], [1.0, 99.0]])
    seen = []

    class Late(Script):
        def decide(self, view: View) -> Decision | None:
            seen.append(
                (
                    view.now,
                    view.free_at.tolist(),
                    view.idle.tolist(),
                    view.running.tolist(),
                    view.finish(2, 0),
                )
            )
            return None if len(self.left) == 1 and view.now < 4 else super().decide(view)

    scenario = Scenario.of(workload, factor=[2.0, 1.0, 1.0], changes=[(4, 0, 2)])
    trace = simulate_reference(workload, Late([(0, 0), (1, 0), (2, 0)]), scenario=scenario)
    assert seen[2:] == [
        (0.0, [11.0, 0.0], [False, True], [0, -1], 12.0),
        (4.0, [18.0, 4.0], [False, True], [0, -1], 20.0),
    ]
    assert trace.finish.tolist() == [36.0, 38.0, 40.0]


def test_cancelling_one_job_of_a_batch():
    # 4 s and 6 s run together until 6. Job 1 is cancelled at 3: its row ends there, job 0 goes on
    # to 6. Job 2 starts at 6.
    problem = tasks({"work": 4.0}, cluster=(cluster := Cluster(speed=[1.0], batch=2)))
    longer = tasks({"work": 6.0}, cluster=cluster)
    workload = Workload.of([problem, longer, problem])
    trace = simulate_reference(
        workload, rule(workload), scenario=Scenario.of(workload, cancel=[np.inf, 3.0, np.inf])
    )
    assert rows(trace) == [(0, 0, 0, 0.0, 6.0), (1, 0, 0, 0.0, 3.0), (2, 0, 0, 6.0, 10.0)]
    assert trace.status.tolist() == [DONE, CANCELLED, DONE]
    assert np.array_equal(trace.job_finish, [6.0, np.nan, 10.0], equal_nan=True)
    # When job 0 is cancelled at 5 as well, no job is left: the device is free at 5.
    trace = simulate_reference(
        workload, rule(workload), scenario=Scenario.of(workload, cancel=[5.0, 3.0, np.inf])
    )
    assert rows(trace)[-1] == (2, 0, 0, 5.0, 9.0)
    assert trace.status.tolist() == [CANCELLED, CANCELLED, DONE]


def test_a_job_cancelled_at_its_arrival_never_arrives():
    workload = Workload.of(Problem.from_arrays([[1.0]]), arrival=[0.0, 2.0])
    trace = simulate_reference(
        workload, rule(workload), scenario=Scenario.of(workload, cancel=[np.inf, 2.0])
    )
    assert len(trace) == 1
    assert np.isnan(trace.job_finish[1])


def test_replay_with_a_copy_saves_the_transfer():
    # t0 runs on both devices, 0 to 2; t1 follows on d1 at 2 (from d0 its 10 bytes would come at
    # 12).
    workload = one([[2.0, 2.0], [3.0, 3.0]], [[0, 1]], [10.0])
    plan = schedule_of((0, 0, 0.0, 2.0), (0, 1, 0.0, 2.0), (1, 1, 2.0, 5.0))
    trace = simulate_reference(workload, plan)
    assert rows(trace) == [(0, 0, 0, 0.0, 2.0), (0, 0, 1, 0.0, 2.0), (0, 1, 1, 2.0, 5.0)]
    assert trace.copy.tolist() == [False, True, False]
    assert trace.decided.tolist() == [0.0, 0.0, 0.0]


def test_a_later_copy_wakes_its_device_sooner():
    # t1 waits on d1 for 10 bytes from d0 (2 + 10 = 12), until the copy of t0 on d2 ends at 4, one
    # second away: 4 + 1 = 5.
    bandwidth = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 10.0, 1.0]]
    workload = one([[2.0, 9.0, 4.0], [9.0, 3.0, 9.0]], [[0, 1]], [10.0], bandwidth=bandwidth)
    plan = schedule_of((0, 0, 0.0, 2.0), (0, 2, 0.0, 4.0), (1, 1, 5.0, 8.0))
    assert rows(simulate_reference(workload, plan))[-1] == (0, 1, 1, 5.0, 8.0)


def test_replay_drops_the_rows_of_skipped_tasks():
    # x is taken, so c and d never run: b 1-3 on d1 (a's edge has no data), j 3-4 on d0, whose queue
    # was a, c, d, j.
    workload = conditional()
    plan = Schedule.of(device=[0, 1, 0, 0, 0], start=[0, 1, 1, 11, 12], finish=[1, 3, 11, 12, 13])
    trace = simulate_reference(workload, plan, scenario=Scenario.of(workload, outcome=[0]))
    assert [r[1:] for r in rows(trace)] == [(0, 0, 0.0, 1.0), (1, 1, 1.0, 3.0), (4, 0, 3.0, 4.0)]


def test_two_templates_are_replayed_by_two_schedules():
    cluster = Cluster(speed=[1.0])
    workload = Workload.of(
        [tasks({"work": 2.0}, cluster=cluster), tasks({"work": 3.0}, cluster=cluster)],
        template=[0, 1, 0],
        arrival=[0, 1, 2],
    )
    plans = [Schedule.of(device=[0], start=[0.0], finish=[w]) for w in (2.0, 3.0)]
    # 0-2, 2-5, 5-7: each job is queued when it arrives.
    trace = simulate_reference(workload, plans)
    assert trace.finish.tolist() == [2.0, 5.0, 7.0]
    assert trace.decided.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(InvalidInput, match="1 schedules are given for the 2 problems"):
        simulate_reference(workload, plans[0])


def test_zero_seconds_and_no_tasks():
    # A chain of three zero-second tasks is over at its arrival, 3; so is a job without tasks.
    chain = Problem.from_arrays([[0.0], [0.0], [0.0]], [[0, 1], [1, 2]])
    workload = Workload.of(chain, arrival=[3.0])
    trace = simulate_reference(workload, rule(workload))
    assert trace.finish.tolist() == [3.0, 3.0, 3.0]
    assert trace.batch.tolist() == [0, 1, 2]
    assert trace.job_finish.tolist() == [3.0]
    empty = Workload.of(Problem.from_arrays(np.zeros((0, 1))), arrival=[2.0])
    assert simulate_reference(empty, rule(empty)).job_finish.tolist() == [2.0]


def test_most_recently_used_stays_with_its_kind():
    # Kinds a, b, c in order of appearance. One device: a (t0, t3), then the next kind, b (t1, t4),
    # then c (t2).
    specs = [{"work": 1.0, "kind": kind} for kind in "abcab"]
    workload = Workload.of(tasks(*specs, cluster=Cluster(speed=[1.0])))
    assert simulate_reference(workload, rule(workload, "mru")).task.tolist() == [0, 3, 1, 4, 2]
    # Within a kind the keys decide.
    assert simulate_reference(
        workload, rule(workload, "mru", keys=[1, 1, 0, 0, 0])
    ).task.tolist() == [3, 0, 4, 1, 2]


def test_most_recently_used_goes_round():
    # Jobs: c at 0, then a and b at 0.5. The device begins with kind 0, finds only c (kind 2); after
    # c come a (kind 0), b (kind 1).
    cluster = Cluster(speed=[1.0])
    abc = [tasks({"work": 1.0, "kind": kind}, cluster=cluster) for kind in "abc"]
    workload = Workload.of(abc, template=[2, 1, 0], arrival=[0.0, 0.5, 0.5])
    assert simulate_reference(workload, rule(workload, "mru")).job.tolist() == [0, 2, 1]


def test_every_placement():
    # t0 runs on d0 until 2 (d1 and d2 cannot). Then t1: 4, 3 or 1 s on d0, d1, d2; its 10 bytes
    # take 1 s to d1, 10 s to d2.
    bandwidth = [[1.0, 10.0, 1.0]] * 3
    workload = one([[2.0, np.inf, np.inf], [4.0, 3.0, 1.0]], [[0, 1]], [10.0], bandwidth=bandwidth)
    expected = {
        "first": (0, 2.0, 6.0),
        "fastest": (2, 12.0, 13.0),  # 1 s is shortest, but the data comes at 2 + 10
        "earliest": (0, 2.0, 6.0),  # 6 on d0; 2 + 1 + 3 = 6 on d1: the lower number; 13 on d2
        "eft": (0, 2.0, 6.0),
        "mru": (0, 2.0, 6.0),
    }
    assert set(expected) == set(PLACEMENTS)
    for placement, row in expected.items():
        assert rows(simulate_reference(workload, rule(workload, placement)))[-1][2:] == row


def test_eft_queues_where_earliest_takes_the_idle_device():
    # t0 takes d0 (1 s, or 9 on d1). t1 too: 1 + 1 = 2 on d0 is before 9 on d1, for `eft`;
    # `earliest` sees only d1 idle.
    workload = one([[1.0, 9.0], [1.0, 9.0]])
    assert rows(simulate_reference(workload, rule(workload, "eft")))[-1] == (0, 1, 0, 1.0, 2.0)
    assert rows(simulate_reference(workload, rule(workload, "earliest")))[-1] == (0, 1, 1, 0.0, 9.0)


def test_fastest_goes_by_the_present_slowdown():
    # d0 is three times as slow: 2 * 3 = 6 against 5 on d1.
    workload = one([[2.0, 5.0]])
    trace = simulate_reference(
        workload, rule(workload, "fastest"), scenario=Scenario.of(workload, changes=[(0, 0, 3)])
    )
    assert rows(trace) == [(0, 0, 1, 0.0, 5.0)]


def test_a_rule_takes_the_first_instance_that_finds_a_device():
    # t0 has the lower key but runs on d1 only, which is down until 5; t1 goes to d0 meanwhile.
    workload = one([[np.inf, 1.0], [2.0, 1.0]])
    trace = simulate_reference(
        workload,
        rule(workload, "eft"),
        scenario=Scenario.of(workload, changes=[(0, 1, np.inf), (5, 1, 1)]),
    )
    assert rows(trace) == [(0, 1, 0, 0.0, 2.0), (0, 0, 1, 5.0, 6.0)]


def test_keys_order_a_rule():
    workload = one([[1.0], [1.0], [1.0]])
    assert simulate_reference(workload, rule(workload, keys=[2, 1, 0])).task.tolist() == [2, 1, 0]
    with pytest.raises(InvalidInput, match="has 1 keys, but 'problem' has 3 instances"):
        simulate_reference(workload, Rule("short", "first", np.zeros(1)))
    with pytest.raises(UnknownName, match="did you mean 'eft'"):
        Rule("typo", "etf", np.zeros(3))
    with pytest.raises(InvalidInput, match="NaN"):
        Rule("odd", "eft", np.array([np.nan]))


def test_a_blocked_device_wakes_up():
    # Blocked until 3 with nothing queued: the policy is asked again at 3. It blocks until 5 and
    # queues both: 5 to 6, 6 to 8.
    class Blocking(Script):
        def decide(self, view: View) -> Decision | Block | None:
            if view.idle[0]:
                return Block(0, 3.0 if view.now == 0 else 5.0)
            return super().decide(view) if view.now == 3 else None

    workload = one([[1.0], [2.0]])
    trace = simulate_reference(workload, Blocking([(0, 0), (1, 0)]))
    assert rows(trace) == [(0, 0, 0, 5.0, 6.0), (0, 1, 0, 6.0, 8.0)]
    assert trace.decided.tolist() == [3.0, 3.0]
    with pytest.raises(InvalidInput, match="'stubborn' blocks device 'd0' until 0"):
        simulate_reference(workload, Stubborn(Block(0, 0.0)))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            Decision(1, 0),
            (
                r"policy 'stubborn' commits task 't1' of job 0 \(instance 1\) to device 'd0' at 0: "
                r"it is waiting, not ready"
            ),
        ),
        (Decision(0, 1), "task 't0' of job 0 .* to device 'd1' at 0: device 'd1' cannot run it"),
        (Decision(0, 2), "to device 'd2' at 0: device 'd2' is down"),
        (Decision(0, 3), "to device 3; there are devices 0 to 2"),
        (Decision(0, -1), "to device -1; there are devices 0 to 2"),
        (Decision(7, 0), "commits instance 7 to device 'd0' at 0: there are instances 0 to 1"),
        (Decision(-1, 0), "commits instance -1 to device 'd0'"),
        (Block(9, 1.0), "blocks device 9"),
        ("t0", "returned 't0'; it must return a Decision"),
    ],
)
def test_wrong_decisions_are_named(word, message):
    workload = one([[1.0, np.inf, 1.0], [1.0, 1.0, 1.0]], [[0, 1]])
    with pytest.raises(InvalidInput, match=message):
        simulate_reference(
            workload, Stubborn(word), scenario=Scenario.of(workload, changes=[(0, 2, np.inf)])
        )


def test_stuck_says_what_is_left_and_why():
    workload = one([[1.0, 1.0], [1.0, 1.0]], [[0, 1]])
    with pytest.raises(
        Stuck,
        match="'stubborn' is stuck at 0: 1 jobs and 2 tasks are left; "
        "task 't0' of job 0 is ready and the policy waits",
    ):
        simulate_reference(workload, Stubborn(None))
    down = Scenario.of(workload, changes=[(0, 0, np.inf), (0, 1, np.inf)])
    with pytest.raises(Stuck, match=r"down for good: d0, d1"):
        simulate_reference(workload, rule(workload), scenario=down)
    wrong_order = Schedule.of(device=[0, 0], start=[5.0, 0.0], finish=[6.0, 1.0])
    with pytest.raises(
        Stuck,
        match="'t0' of job 0 is queued on device 'd0' behind task 't1' of job 0, "
        "which is not ready",
    ):
        simulate_reference(workload, wrong_order)
    missing = Schedule.of(task=[1], device=[0], start=[0.0], finish=[1.0])
    with pytest.raises(Stuck, match="'t0' of job 0 is ready, and no row of the schedule runs it"):
        simulate_reference(workload, missing)
    both = Schedule.of(device=[0, 0], start=[0.0, 1.0], finish=[1.0, 2.0])
    with pytest.raises(Stuck, match="queued on device 'd0', which is down for good"):
        simulate_reference(workload, both, scenario=down)


def test_schedules_that_do_not_fit_are_refused():
    workload = one([[1.0, np.inf]])
    with pytest.raises(InvalidInput, match="puts task 't0' on device 'd1', which cannot run it"):
        simulate_reference(workload, Schedule.of(device=[1], start=[0.0], finish=[1.0]))
    with pytest.raises(InvalidInput, match="puts task 0 on device 5"):
        simulate_reference(workload, Schedule.of(device=[5], start=[0.0], finish=[1.0]))


# -- the life cycle by itself ------------------------------------------------


def test_a_life_told():
    # t0 on d0 is lost at 1 and done again by 4; t1 on d1 waits for 10 bytes at 5 a second: 4 + 2 =
    # 6.
    life = Lifecycle(one([[2.0, 9.0], [9.0, 3.0]], [[0, 1]], [10.0], bandwidth=5.0))
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.0)
    assert isinstance(life.start_due(0, 0.0), Start)
    life.lose(0, 1.0, "out of memory")
    assert life.ready == [0]
    life.commit([0], 0, 2.0)
    assert isinstance(life.start_due(0, 2.0), Start)
    assert life.start_due(0, 3.0) is None
    life.finish(0, 4.0)
    life.commit([1], 1, 4.0)
    assert life.start_due(1, 4.0) == Wake(1, 6.0)
    assert life.free_at(1, 4.0) == 9.0
    assert isinstance(life.start_due(1, 6.0), Start)
    life.finish(1, 9.5)
    assert life.jobs_left == 0
    assert life.job_finish == [9.5]
    chapters = [(c.time, str(c.state), c.note) for c in life.stories.of(0)]
    assert chapters == [
        (0.0, "ready", "arrived"),
        (0.0, "committed", "to device 'd0'"),
        (0.0, "running", "on 'd0'"),
        (1.0, "lost", "out of memory"),
        (1.0, "retried", ""),
        (2.0, "committed", "to device 'd0'"),
        (2.0, "running", "on 'd0'"),
        (4.0, "done", ""),
    ]
    assert [c.state for c in life.stories.of(1)] == [
        State.READY,
        State.COMMITTED,
        State.TRANSFERRING,
        State.RUNNING,
        State.DONE,
    ]


def test_impossible_events_carry_the_story():
    life = Lifecycle(one([[2.0, np.inf], [9.0, 3.0]], [[0, 1]]))
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.5)
    with pytest.raises(
        ImpossibleTransition,
        match=r"'t0' of job 0 cannot be committed at 1: it is committed"
        r".*0 ready \(arrived\); 0.5 comm",
    ) as error:
        life.commit([0], 0, 1.0)
    assert [c.state for c in error.value.story] == [State.READY, State.COMMITTED]
    with pytest.raises(
        ImpossibleTransition, match="ended on device 'd1' at 1, but nothing runs there"
    ):
        life.finish(1, 1.0)
    with pytest.raises(
        ImpossibleTransition, match="'t0' of job 0 cannot be ready at 2: it is committed"
    ):
        life.arrive(0, 2.0)
    with pytest.raises(
        ImpossibleTransition,
        match="'t1' of job 0 cannot be committed at 2: it is waiting, not ready",
    ):
        life.commit([1], 1, 2.0)


def test_the_end_of_a_choosing_task_must_tell_its_branch():
    life = Lifecycle(conditional())
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.0)
    life.start_due(0, 0.0)
    assert life.choices_of(0) == [0]
    assert life.choices_of(1) == []
    with pytest.raises(
        InvalidInput,
        match="task 'a' of job 0 ended with no branch for choice 0; it has branches 0 to 1",
    ):
        life.finish(0, 1.0)


def test_cancelling_empties_queues_and_tells_which_devices_stopped():
    workload = Workload.of(Problem.from_arrays([[2.0, 2.0], [2.0, 2.0]]), arrival=[0.0, 0.0])
    life = Lifecycle(workload)
    for job in (0, 1):
        life.arrive(job, 0.0)
    for instance, device in ((0, 0), (2, 1), (1, 1)):
        life.commit([instance], device, 0.0)
        life.start_due(device, 0.0)
    assert life.cancel(0, 1.0) == [0]  # t0 ran on d0; t1 was queued on d1 behind the other job
    assert life.idle(0, 1.0)
    assert life.free_at(1, 1.0) == 2.0
    assert life.ready == [3]
    assert life.cancel(0, 1.5) == []


# -- properties -------------------------------------------------------------


@given(futures(), st.sampled_from(PLACEMENTS), st.booleans(), st.integers(0, 2))
def test_traces_are_valid_and_the_same_bytes_again(future, placement, eager, spread):
    workload, scenario = future
    keys = np.arange(workload.instances) * 7 % 5 * spread
    first = simulate_reference(
        workload, rule(workload, placement, keys), scenario=scenario, eager=eager
    )
    again = simulate_reference(
        workload, rule(workload, placement, keys), scenario=scenario, eager=eager
    )
    assert same(first, again)
    assert check(workload, first) == []
    assert np.isfinite(first.job_finish[np.isinf(scenario.cancel)]).all()


@dataclass
class FromView:
    """The rules `first`, `fastest`, `earliest` and `eft` with equal keys, from views alone."""

    placement: str
    name: str = "from view"

    def begin(self, workload: Workload, *, seed: int = 0) -> None: ...

    def decide(self, view: View) -> Decision | None:
        score = {"first": lambda i, d: d, "fastest": view.duration}.get(self.placement, view.finish)
        for i in view.ready.tolist():
            open_ = np.isfinite(view.slowdown) if self.placement == "eft" else view.idle
            devices = [d for d in np.flatnonzero(open_).tolist() if view.duration(i, d) < np.inf]
            if self.placement != "eft":
                devices = [d for d in devices if view.has_room(i, d)]
            if devices:
                return Decision(i, min(devices, key=lambda d: score(i, d)))
        return None


@given(futures(), st.sampled_from(["first", "fastest", "earliest", "eft"]), st.booleans())
def test_a_policy_sees_all_that_a_rule_uses(future, placement, eager):
    workload, scenario = future
    by_rule = simulate_reference(
        workload, rule(workload, placement), scenario=scenario, eager=eager
    )
    by_view = simulate_reference(workload, FromView(placement), scenario=scenario, eager=eager)
    assert same(by_rule, by_view)
    assert check(workload, by_view) == []


@given(problems(), st.sampled_from(PLACEMENTS))
def test_replay_of_what_happened_happens_again(problem, placement):
    # Zero-second tasks may share start and finish; a schedule then does not tell their order on a
    # device.
    if (problem.durations() == 0).any():
        return
    workload = Workload.of(problem)
    trace = simulate_reference(workload, rule(workload, placement))
    plan = Schedule.of(task=trace.task, device=trace.device, start=trace.start, finish=trace.finish)
    replayed = simulate_reference(workload, plan)
    assert rows(replayed) == rows(trace)
    assert replayed.job_finish.tobytes() == trace.job_finish.tobytes()


@st.composite
def planned(draw):
    """Draw a scenario of jobs of one problem, and a plan on one device or two."""
    workload, scenario = draw(futures(max_templates=1, batches=False))
    problem = workload.problems[0]
    rows_, clock = [], 0.0
    for task in problem.workflow.order.tolist():
        able = np.flatnonzero(np.isfinite(problem.durations()[task])).tolist()
        devices = draw(st.lists(st.sampled_from(able), unique=True, min_size=1, max_size=2))
        for k, device in enumerate(devices):
            rows_.append((task, device, clock, clock + 1.0, k > 0))
            clock += 1.0
    task, device, start, finish, copy = (
        (list(c) for c in zip(*rows_, strict=True)) if rows_ else ([], [], [], [], [])
    )
    return (
        workload,
        scenario,
        Schedule.of(task=task, device=device, start=start, finish=finish, copy=copy),
    )


@given(planned(), st.booleans())
def test_plans_with_copies_stand_failures_choices_and_cancellations(case, eager):
    workload, scenario, plan = case
    trace = simulate_reference(workload, plan, scenario=scenario, eager=eager)
    assert check(workload, trace) == []
    assert same(trace, simulate_reference(workload, plan, scenario=scenario, eager=eager))
    assert np.isfinite(trace.job_finish[np.isinf(scenario.cancel)]).all()
