"""The oracle for traces, tested by mutation, by hand and on simulated futures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.strategies import futures
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Scenario, Trace, Workflow, WorkflowBuilder, Workload
from weft.model.check import check
from weft.model.trace import CANCELLED, DONE, LOST
from weft.sim.reference import simulate_reference
from weft.sim.rule import Rule

COLUMNS = ("job", "task", "device", "decided", "start", "finish", "status", "batch")


def trace_of(
    workload: Workload,
    rows: list[tuple[float, ...]],
    job_finish: list[float],
    *,
    eager: bool = True,
    **scenario: object,
) -> Trace:
    """A trace by hand: rows of (job, task, device, decided, start, finish, status, batch)."""
    table = np.array(rows, float).reshape(-1, len(COLUMNS))
    columns = {
        k: table[:, i] if k in {"decided", "start", "finish"} else table[:, i].astype(np.int64)
        for i, k in enumerate(COLUMNS)
    }
    drawn = Scenario.of(workload, **scenario)
    return Trace(
        workload,
        drawn,
        **columns,
        copy=np.zeros(len(table), bool),
        job_finish=np.array(job_finish, float),
        eager=eager,
    )


def rules(trace: Trace) -> list[str]:
    return [v.rule for v in check(trace.workload, trace)]


def changed(trace: Trace, where: object, **values: object) -> Trace:
    """The same trace with some rows changed."""
    columns = trace.to_arrays()
    for key, value in values.items():
        columns[key][where] = value
    return replace(trace, **columns)


def dropped(trace: Trace, row: int) -> Trace:
    return replace(trace, **{k: np.delete(v, row) for k, v in trace.to_arrays().items()})


# -- one job of two tasks on two devices: 0 takes 2 everywhere, then 1 takes 3; moving the data
# between devices takes 2


def pair(**options: object) -> Workload:
    return Workload.of(
        Problem.from_arrays([[2.0, 2.0], [3.0, 3.0]], [[0, 1]], [10.0], bandwidth=5.0), **options
    )


# Arrives at 1, task 0 runs at once on device 0, task 1 on device 1 when its data is there: 1 + 2 +
# 2.
PAIR = [(0, 0, 0, 1, 1, 3, DONE, 0), (0, 1, 1, 3, 5, 8, DONE, 1)]


def test_a_valid_trace():
    assert rules(trace_of(pair(arrival=[1.0]), PAIR, [8.0])) == []


@pytest.mark.parametrize(
    ("row", "values", "expected"),
    [
        (0, {"start": 0.5, "finish": 2.5}, {"too early"}),
        (0, {"decided": 0.5}, {"too early"}),
        (1, {"decided": 6.0}, {"too early"}),
        (0, {"finish": 3.5}, {"wrong duration", "transfer"}),
        (1, {"finish": 4.0}, {"wrong duration", "job finish"}),
        (1, {"start": 4.0, "finish": 7.0}, {"transfer", "job finish"}),
        (1, {"start": 2.5, "finish": 5.5, "decided": 1.0}, {"order", "job finish"}),
        (
            1,
            {"device": 0, "start": 2.5, "finish": 5.5, "decided": 1.0},
            {"order", "overlap", "job finish"},
        ),
        (1, {"job": 5}, {"unknown job", "missing"}),
        (1, {"task": 5}, {"unknown task", "missing"}),
        (1, {"device": 5}, {"unknown device", "missing"}),
        (1, {"status": 7}, {"status", "missing", "wrong duration"}),
        (1, {"status": LOST}, {"lost", "missing"}),
        (1, {"status": CANCELLED}, {"cancelled", "missing"}),
        (1, {"batch": 0}, {"batch", "capacity", "wrong duration"}),
    ],
)
def test_one_wrong_value(row, values, expected):
    assert (
        set(rules(changed(trace_of(pair(arrival=[1.0]), PAIR, [8.0]), row, **values))) == expected
    )


def test_drop_and_duplicate():
    trace = trace_of(pair(arrival=[1.0]), PAIR, [8.0])
    assert rules(dropped(trace, 1)) == ["missing"]
    again = trace_of(pair(arrival=[1.0]), [*PAIR, (0, 1, 1, 8, 8, 11, DONE, 2)], [8.0])
    assert rules(again) == ["duplicate"]
    assert rules(changed(again, 2, copy=True)) == []  # one more execution, honestly marked


@pytest.mark.parametrize(
    ("finish", "expected"), [(8.0, []), (9.0, ["job finish"]), (np.nan, ["unfinished"])]
)
def test_the_finish_of_a_job(finish, expected):
    assert rules(trace_of(pair(arrival=[1.0]), PAIR, [finish])) == expected


def test_lazy_data_leaves_when_the_consumer_is_decided():
    # Decided at 4, one second after task 0 ended: the data arrives at 6.
    rows = [PAIR[0], (0, 1, 1, 4, 6, 9, DONE, 1)]
    assert rules(trace_of(pair(arrival=[1.0]), rows, [9.0], eager=False)) == []
    early = [PAIR[0], (0, 1, 1, 4, 5, 8, DONE, 1)]
    assert rules(trace_of(pair(arrival=[1.0]), early, [8.0], eager=False)) == ["transfer"]
    assert rules(trace_of(pair(arrival=[1.0]), early, [8.0], eager=True)) == []


def test_noise_and_bias():
    # Task 0: 2 * 1.5 * 0.5 = 1.5; task 1: 3 * 2 * 0.5 = 3.
    rows = [(0, 0, 0, 1, 1, 2.5, DONE, 0), (0, 1, 0, 2.5, 2.5, 5.5, DONE, 1)]
    drawn = {"factor": [1.5, 2.0], "bias": [[0.5, 1.0]]}
    assert rules(trace_of(pair(arrival=[1.0]), rows, [5.5], **drawn)) == []
    assert rules(trace_of(pair(arrival=[1.0]), rows, [5.5])) == ["wrong duration"]


# -- one task of 4 seconds on one device


def single(**options: object) -> Workload:
    return Workload.of(Problem.from_arrays([[4.0]]), **options)


def test_a_slowdown_stretches_the_rest():
    # 1 second unslowed; the other 3, slowed by 2 until 5, do 2 in 4; the last takes 0.5: 1 + 4
    # + 0.5.
    changes = [(1.0, 0, 2.0), (5.0, 0, 0.5)]
    assert rules(trace_of(single(), [(0, 0, 0, 0, 0, 5.5, DONE, 0)], [5.5], changes=changes)) == []
    assert rules(trace_of(single(), [(0, 0, 0, 0, 0, 4.0, DONE, 0)], [4.0], changes=changes)) == [
        "wrong duration"
    ]
    # A change at the very start counts for all of it: 4 * 2, then halfway (at 5 with 3 left) to
    # 0.5: 5 + 3 / 4.
    assert (
        rules(trace_of(single(), [(0, 0, 0, 1, 1, 5.0 + 4.0 / 4, DONE, 0)], [6.0], changes=changes))
        == []
    )


def test_failures():
    # Fails at 3, up again at 5 with slowdown 2: 5 + 8.
    changes = [(3.0, 0, np.inf), (5.0, 0, 2.0)]
    rows = [(0, 0, 0, 0, 0, 3, LOST, 0), (0, 0, 0, 5, 5, 13, DONE, 1)]
    good = trace_of(single(), rows, [13.0], changes=changes)
    assert rules(good) == []
    assert rules(changed(good, 0, finish=2.0)) == ["lost"]
    assert rules(trace_of(single(), [(0, 0, 0, 4, 4, 8, DONE, 0)], [8.0], changes=changes)) == [
        "down"
    ]  # starts while down
    assert rules(trace_of(single(), [(0, 0, 0, 0, 0, 4, DONE, 0)], [4.0], changes=changes)) == [
        "down"
    ]  # runs through it
    assert rules(trace_of(single(), rows, [13.0], changes=[(5.0, 0, 2.0)])) == [
        "lost"
    ]  # nothing failed


def test_an_end_at_the_moment_of_a_failure_counts():
    assert (
        rules(trace_of(single(), [(0, 0, 0, 0, 0, 4, DONE, 0)], [4.0], changes=[(4.0, 0, np.inf)]))
        == []
    )


def test_cancellations():
    good = trace_of(single(), [(0, 0, 0, 0, 0, 3, CANCELLED, 0)], [np.nan], cancel=[3.0])
    assert rules(good) == []
    assert rules(changed(good, 0, finish=2.0)) == ["cancelled"]
    assert rules(changed(good, 0, start=3.0, decided=3.0)) == [
        "cancelled"
    ]  # nothing starts any more
    done = trace_of(single(), [(0, 0, 0, 0, 0, 4, DONE, 0)], [4.0], cancel=[3.0])
    assert set(rules(done)) == {"cancelled"}
    assert (
        rules(replace(done, scenario=Scenario.of(done.workload, cancel=[4.0]))) == []
    )  # it ended in time
    assert rules(trace_of(single(), [(0, 0, 0, 0, 0, 4, DONE, 0)], [np.nan], cancel=[5.0])) == [
        "job finish"
    ]
    assert rules(trace_of(single(arrival=[2.0]), [], [np.nan], cancel=[2.0])) == []  # never arrived


def test_the_queue_is_served_in_order():
    two = Workload.of(Problem.from_arrays([[1.0]]), arrival=[0.0, 1.0])
    rows = [(0, 0, 0, 1.5, 1.5, 2.5, DONE, 0), (1, 0, 0, 2, 2.5, 3.5, DONE, 1)]
    good = trace_of(two, rows, [2.5, 3.5])
    assert rules(good) == []
    assert rules(changed(good, 1, decided=1.25)) == ["queue"]


# -- branches: a, then b or c; d after c


def branching(**options: object) -> Workload:
    b = WorkflowBuilder()
    for name in "abcd":
        b.task(name, work=1.0)
    b.choice("a", {"left": 0.5, "right": 0.5})
    b.edge("a", "b", when="left")
    b.edge("a", "c", when="right")
    b.edge("c", "d")
    b.edge("b", "d")
    return Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0, 1.0])), **options)


def test_branches():
    left = [(0, 0, 0, 0, 0, 1, DONE, 0), (0, 1, 0, 1, 1, 2, DONE, 1), (0, 3, 0, 2, 2, 3, DONE, 2)]
    assert rules(trace_of(branching(), left, [3.0], outcome=[0])) == []
    assert sorted(rules(trace_of(branching(), left, [3.0], outcome=[1]))) == [
        "branch",
        "missing",
        "order",
    ]
    both = [*left, (0, 2, 1, 1, 1, 2, DONE, 3)]
    assert rules(trace_of(branching(), both, [3.0], outcome=[0])) == ["branch"]


@pytest.mark.parametrize(
    "edges",
    [
        # d needs b (always) and a (perhaps): d must not start before a has chosen.
        {("a", "d"): "yes", ("b", "d"): None},
        # c follows when yes; d needs b and c. The answer is no: c is skipped when a ends, at 5.
        {("a", "c"): "yes", ("b", "d"): None, ("c", "d"): None},
    ],
    ids=["chosen", "skipped"],
)
def test_a_task_waits_until_all_its_inputs_are_decided(edges):
    b = WorkflowBuilder()
    names = sorted({name for edge in edges for name in edge})
    for name in names:
        b.task(name, work=5.0 if name == "a" else 1.0)
    b.choice("a", {"yes": 0.5, "no": 0.5})
    for (u, v), when in edges.items():
        b.edge(u, v, when=when)
    w = Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0, 1.0])))
    last = names.index("d")
    rows = [(0, 0, 0, 0, 0, 5, DONE, 0), (0, 1, 1, 0, 0, 1, DONE, 1)]
    good = trace_of(w, [*rows, (0, last, 1, 5, 5, 6, DONE, 2)], [6.0], outcome=[1])
    assert rules(good) == []
    early = changed(good, 2, decided=1.0, start=1.0, finish=2.0)
    assert rules(replace(early, job_finish=np.array([5.0]))) == ["order"]


# -- batches: two tasks of kind x (work 1 and 3), one of kind y, on a device that takes two at once,
# with 10 bytes


def batching() -> Workload:
    tasks = Workflow(
        work=[1.0, 3.0, 1.0],
        src=[],
        dst=[],
        data=[],
        kind=[0, 0, 1],
        kinds=("x", "y"),
        memory=[6.0, 4.0, 4.0],
    )
    return Workload.of(Problem.bind(tasks, Cluster(speed=[1.0, 1.0], memory=10.0, batch=[2, 1])))


BATCH = [(0, 0, 0, 0, 0, 3, DONE, 0), (0, 1, 0, 0, 0, 3, DONE, 0), (0, 2, 1, 0, 0, 1, DONE, 1)]


def test_a_batch_takes_as_long_as_its_longest_member():
    assert rules(trace_of(batching(), BATCH, [3.0])) == []
    assert rules(changed(trace_of(batching(), BATCH, [3.0]), 0, finish=1.0)) == ["wrong duration"]


def test_what_may_not_run_together():
    trace = trace_of(batching(), BATCH, [3.0])
    mixed = changed(trace, 2, device=0, batch=0, finish=3.0)
    assert set(rules(mixed)) == {"batch", "capacity", "memory"}
    assert set(rules(changed(trace, [0, 1], device=1))) == {"capacity", "overlap"}
    assert set(rules(changed(trace, 1, batch=7))) == {"overlap", "wrong duration"}
    assert set(rules(changed(trace, 1, start=0.5, finish=3.5))) >= {"batch"}
    small = Workload.of(
        Problem.bind(
            trace.workload.problems[0].workflow, Cluster(speed=[1.0, 1.0], memory=9.0, batch=[2, 1])
        )
    )
    assert [v.rule for v in check(small, trace)] == ["memory"]  # 6 + 4


def test_a_batch_outlives_a_cancelled_member():
    # Two jobs of one task in one batch; the longer one is cancelled at 2, the group goes on until
    # 3 all the same.
    tasks = [Workflow(work=[work], src=[], dst=[], data=[]) for work in (1.0, 3.0)]
    cluster = Cluster(speed=[1.0], batch=2)
    w = Workload.of([Problem.bind(t, cluster) for t in tasks])
    rows = [(0, 0, 0, 0, 0, 3, DONE, 0), (1, 0, 0, 0, 0, 2, CANCELLED, 0)]
    good = trace_of(w, rows, [3.0, np.nan], cancel=[np.inf, 2.0])
    assert rules(good) == []
    assert good.busy.tolist() == [3.0]
    assert set(rules(changed(good, 0, finish=2.0))) == {"wrong duration", "job finish"}


# -- corners


def test_a_device_that_cannot_run_it():
    w = Workload.of(Problem.from_arrays([[1.0, np.inf]]))
    assert rules(trace_of(w, [(0, 0, 1, 0, 0, 1, DONE, 0)], [1.0])) == ["cannot run"]


def test_a_batch_is_decided_at_once_and_holds_a_task_once():
    trace = trace_of(batching(), BATCH, [3.0])
    assert rules(changed(trace, 0, decided=0.0)) == []
    later = trace_of(
        batching(),
        [tuple(x + 1 if 3 <= i <= 5 else x for i, x in enumerate(row)) for row in BATCH],
        [4.0],
    )
    assert rules(changed(later, 0, decided=0.5)) == ["batch"]
    assert set(rules(changed(trace, 1, task=0, finish=1.0))) >= {"batch", "duplicate", "missing"}


def test_what_comes_first_at_one_time():
    # A failure counts before a cancellation, and an end before both.
    lost = trace_of(
        single(), [(0, 0, 0, 0, 0, 3, LOST, 0)], [np.nan], cancel=[3.0], changes=[(3.0, 0, np.inf)]
    )
    assert rules(lost) == []
    assert rules(trace_of(single(), [(0, 0, 0, 0, 0, 4, DONE, 0)], [np.nan], cancel=[4.0])) == [
        "job finish"
    ]
    nothing = Workload.of(Problem.from_arrays(np.zeros((0, 1))), arrival=[2.0])
    assert rules(trace_of(nothing, [], [2.0])) == []
    assert rules(trace_of(nothing, [], [np.nan], cancel=[2.0])) == []
    assert rules(trace_of(nothing, [], [2.0], cancel=[2.0])) == ["cancelled"]


def test_the_copy_of_a_done_task_outlives_its_job():
    # Task 0 is done at 3; its copy runs until 4 although the job is cancelled at 3.5.
    rows = [(0, 0, 0, 1, 1, 3, DONE, 0), (0, 0, 1, 1, 2, 4, DONE, 1)]
    trace = trace_of(pair(arrival=[1.0]), rows, [np.nan], cancel=[3.5])
    assert rules(changed(trace, 1, copy=True)) == []


# -- the target decides, not what the trace says of itself


def test_a_trace_is_held_against_the_target():
    trace = trace_of(pair(arrival=[1.0]), PAIR, [8.0])
    problem = trace.workload.problems[0]
    assert check(problem, trace) == []
    slower = Problem.from_arrays([[2.0, 2.0], [4.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    assert [v.rule for v in check(slower, trace)] == ["wrong duration"]
    with pytest.raises(InvalidInput, match="2 jobs with 4 tasks"):
        check(pair(arrival=[0.0, 1.0]), trace)


def test_a_real_run_keeps_the_order_but_has_its_own_seconds():
    trace = changed(trace_of(pair(arrival=[1.0]), PAIR, [8.0]), 1, start=3.5)
    assert rules(trace) == ["transfer", "wrong duration"]
    assert rules(measured(trace)) == []


def measured(trace: Trace) -> Trace:
    return replace(trace, measured=True)


# A measured run of `pair`: task 0 takes 2.5 on device 0; device 1 is lost at 4 and up again at 5,
# which loses the first attempt of task 1; the second one is done at 7.25.
MEASURED = [
    (0, 0, 0, 1, 1, 3.5, DONE, 0),
    (0, 1, 1, 3.5, 3.75, 4, LOST, 1),
    (0, 1, 1, 5, 5, 7.25, DONE, 2),
]


def lossy(rows=MEASURED, finish: float = 7.25) -> Trace:
    changes = [(4.0, 1, np.inf), (5.0, 1, 1.0)]
    return measured(trace_of(pair(arrival=[1.0]), rows, [finish], changes=changes))


def test_a_measured_run_may_lose_a_device_and_try_again():
    assert rules(lossy()) == []
    assert set(rules(replace(lossy(), measured=False))) == {"transfer", "wrong duration"}
    failed = [MEASURED[0], (0, 1, 0, 3.5, 3.75, 4, LOST, 1), (0, 1, 0, 4, 6, 7.25, DONE, 2)]
    assert rules(lossy(failed)) == []  # an attempt that failed by itself


@pytest.mark.parametrize(
    ("mutate", "rule"),
    [
        (lambda t: changed(t, 1, finish=4.5), "down"),  # ran on after the loss was noticed
        (lambda t: changed(t, 2, start=4.5, decided=4.5), "down"),  # begun while it was down
        (lambda t: changed(t, 1, start=3.0, decided=2.0), "order"),  # before its input existed
        (lambda t: changed(t, 0, finish=6.0), "order"),
        (lambda t: changed(t, 2, device=0, start=2.0, decided=2.0), "overlap"),
        (lambda t: changed(t, 1, status=DONE), "duplicate"),
        (lambda t: changed(t, 2, status=LOST), "missing"),
        (lambda t: changed(t, 2, copy=True), "missing"),
        (lambda t: changed(t, 2, status=CANCELLED), "cancelled"),
        (lambda t: changed(t, 2, decided=6.0), "too early"),
        (lambda t: changed(t, 2, finish=4.0), "wrong duration"),
        (lambda t: changed(t, 2, finish=8.0), "job finish"),
        (lambda t: changed(t, 2, batch=1), "batch"),
        (lambda t: dropped(t, 0), "missing"),
        (lambda t: dropped(t, 2), "missing"),
        (lambda t: replace(t, job_finish=np.array([np.nan])), "unfinished"),
    ],
)
def test_a_wrong_measured_trace_is_refused(mutate, rule):
    assert rule in rules(mutate(lossy()))


def test_a_task_done_by_copies_only_is_missing():
    trace = trace_of(pair(arrival=[1.0]), PAIR, [8.0])
    assert rules(changed(trace, 0, copy=True)) == ["missing"]


# -- simulated futures -----------------------------------------------------------------

rule_names = st.sampled_from(["first", "fastest", "earliest", "eft", "mru"])


def simulated(future: tuple[Workload, Scenario], placement: str, *, eager: bool = True) -> Trace:
    workload, scenario = future
    return simulate_reference(
        workload, Rule("r", placement, np.zeros(workload.instances)), scenario=scenario, eager=eager
    )


@given(futures(), rule_names, st.booleans())
@settings(max_examples=100)
def test_simulated_futures_pass(future, placement, eager):
    assert check(future[0], simulated(future, placement, eager=eager)) == []


@given(
    futures(min_tasks=1),
    rule_names,
    st.integers(0, 10**6),
    st.sampled_from(["later", "earlier", "longer", "drop", "status", "arrival"]),
)
@settings(max_examples=150)
def test_mutated_futures_do_not(future, placement, seed, mutation):
    trace = simulated(future, placement)
    assume(len(trace))
    r = seed % len(trace)
    start, finish = float(trace.start[r]), float(trace.finish[r])
    if mutation == "later":
        broken = changed(trace, r, finish=finish + 1.0)
    elif mutation == "earlier":
        assume(finish - start > 1e-6 * finish)
        broken = changed(trace, r, finish=(start + finish) / 2)
    elif mutation == "longer":
        broken = changed(trace, r, start=start - 1.0)
    elif mutation == "drop":
        assume(trace.status[r] == DONE and np.isfinite(trace.job_finish[trace.job[r]]))
        broken = dropped(trace, r)
    elif mutation == "status":
        broken = changed(trace, r, status=(trace.status[r] + 1 + seed % 2) % 3)
    else:
        broken = changed(trace, r, decided=trace.workload.arrival[trace.job[r]] - 1.0)
    assert check(future[0], broken)
