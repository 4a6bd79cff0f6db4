"""The oracle for schedules, tested by mutation: every violation is caught by its name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.instances import schedule_of
from tests.support.strategies import problems
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Schedule, Workflow, WorkflowBuilder, Workload
from weft.model.check import Violation, check

seeds = st.integers(0, 2**32 - 1)


def naive(problem: Problem, seed: int, *, copies: bool = False) -> dict[str, np.ndarray]:
    """Return a valid schedule: topological order, random devices, early starts."""
    rng = np.random.default_rng(seed)
    w, rows = problem.workflow, []
    free = [0.0] * problem.p
    for task in w.order.tolist():
        able = [d for d in range(problem.p) if np.isfinite(problem.duration(task, d))]
        for copy in (False, True) if copies and rng.random() < 0.4 else (False,):
            device = int(rng.choice(able))
            start = free[device]
            for e in range(problem.m):
                if w.dst[e] == task:
                    start = max(
                        start,
                        min(
                            r[3] + problem.transfer(e, r[1], device)
                            for r in rows
                            if r[0] == w.src[e]
                        ),
                    )
            free[device] = start + problem.duration(task, device)
            rows.append((task, device, start, free[device], copy))
    names = ("task", "device", "start", "finish", "copy")
    types = (np.int64, np.int64, float, float, bool)
    return {name: np.array([r[i] for r in rows], types[i]) for i, name in enumerate(names)}


def rules(problem: Problem, columns: dict[str, np.ndarray]) -> set[str]:
    return {v.rule for v in check(problem, Schedule.of(**columns))}


def moved(columns: dict[str, np.ndarray], row: int, start: float) -> dict[str, np.ndarray]:
    """The same with one row shifted to another start."""
    new = {k: v.copy() for k, v in columns.items()}
    new["finish"][row] += start - new["start"][row]
    new["start"][row] = start
    return new


def changed(columns: dict[str, np.ndarray], row: int, **values: float) -> dict[str, np.ndarray]:
    new = {k: v.copy() for k, v in columns.items()}
    for key, value in values.items():
        new[key][row] = value
    return new


def neighbours(columns: dict[str, np.ndarray]) -> list[tuple[int, int]]:
    """Pairs of rows that follow one another on a device, both longer than nothing."""
    long = [
        r
        for r in range(len(columns["task"]))
        if columns["finish"][r] - columns["start"][r] > 1e-6 * columns["finish"][r]
    ]
    long.sort(key=lambda r: (columns["device"][r], columns["start"][r]))
    return [
        (a, b) for a, b in itertools.pairwise(long) if columns["device"][a] == columns["device"][b]
    ]


@given(problems(choices=True), seeds, st.booleans())
def test_a_valid_schedule_passes(problem, seed, copies):
    assert check(problem, Schedule.of(**naive(problem, seed, copies=copies))) == []


@given(problems(min_tasks=1), seeds)
def test_drop(problem, seed):
    columns = naive(problem, seed)
    r = seed % problem.n
    name = problem.workflow.task_name(int(columns["task"][r]))
    found = check(problem, Schedule.of(**{k: np.delete(v, r) for k, v in columns.items()}))
    assert Violation("missing", f"task '{name}' is not scheduled") in found


@given(problems(min_tasks=1), seeds)
def test_duplicate(problem, seed):
    columns = naive(problem, seed)
    twice = {k: np.append(v, v[seed % problem.n]) for k, v in columns.items()}
    twice["start"][-1] += 1e6
    twice["finish"][-1] += 1e6
    assert rules(problem, twice) == {"duplicate"}
    twice["copy"][-1] = True  # honestly marked, it is one more execution
    assert rules(problem, twice) == set()


@given(problems(min_tasks=1), seeds)
def test_only_a_copy_is_missing(problem, seed):
    columns = naive(problem, seed)
    assert "missing" in rules(problem, changed(columns, seed % problem.n, copy=True))


@given(problems(min_tasks=1), seeds, st.sampled_from(["task", "device"]), st.sampled_from([-1, 99]))
def test_unknown_numbers(problem, seed, column, number):
    assert f"unknown {column}" in rules(
        problem, changed(naive(problem, seed), seed % problem.n, **{column: number})
    )


@given(problems(min_tasks=1), seeds)
def test_shift_before_zero(problem, seed):
    assert "too early" in rules(problem, moved(naive(problem, seed), seed % problem.n, -1.0))


@given(problems(min_tasks=1), seeds, st.sampled_from([0.5, 1.5]))
def test_wrong_duration(problem, seed, factor):
    columns = naive(problem, seed)
    r = seed % problem.n
    length = columns["finish"][r] - columns["start"][r]
    assume(length > 1e-6 * columns["finish"][r])
    assert "wrong duration" in rules(
        problem, changed(columns, r, finish=columns["start"][r] + factor * length)
    )


@pytest.mark.parametrize("which", ["previous", "next"])
@given(problems(min_tasks=2, max_devices=2), seeds)
def test_overlap_with_a_neighbour(which, problem, seed):
    columns = naive(problem, seed)
    pairs = neighbours(columns)
    assume(pairs)
    a, b = pairs[seed % len(pairs)]
    middle = (columns["start"] + columns["finish"]) / 2
    length = columns["finish"][a] - columns["start"][a]
    task, start = (b, middle[a]) if which == "previous" else (a, middle[b] - length)
    assert "overlap" in rules(problem, moved(columns, task, start))


@given(problems(min_tasks=1), seeds)
def test_a_device_that_cannot_run_it(problem, seed):
    bad = np.argwhere(np.isinf(problem.durations()))
    assume(len(bad))
    task, device = bad[seed % len(bad)].tolist()
    columns = naive(problem, seed)
    found = rules(
        problem, changed(columns, int(np.flatnonzero(columns["task"] == task)[0]), device=device)
    )
    w, c = problem.workflow, problem.cluster
    short = {"memory"} if w.memory[task] > c.memory[device] else set()
    short |= {"cores"} if w.cores[task] > c.cores[device] else set()
    assert (short or {"cannot run"}) <= found


@given(problems(min_tasks=2), seeds, st.booleans())
def test_start_before_an_input_arrives(problem, seed, copies):
    columns, w = naive(problem, seed, copies=copies), problem.workflow
    cases = []
    for r, task in enumerate(columns["task"].tolist()):
        for e in np.flatnonzero(w.dst == task).tolist():
            parents = np.flatnonzero(columns["task"] == w.src[e]).tolist()
            to = int(columns["device"][r])
            arrive = min(
                columns["finish"][x] + problem.transfer(e, int(columns["device"][x]), to)
                for x in parents
            )
            first = min(columns["finish"][x] for x in parents)
            if arrive - first > 1e-6 * arrive:
                cases.append((r, "transfer", (arrive + first) / 2))
            if first > 0:
                cases.append((r, "order", 0.999 * first))
    assume(cases)
    row, rule, start = cases[seed % len(cases)]
    assert rule in rules(problem, moved(columns, row, start))


@given(problems(min_tasks=2, max_tasks=6), seeds)
def test_swap_of_a_task_and_its_parent(problem, seed):
    columns, w = naive(problem, seed), problem.workflow
    assume(problem.m)
    e = seed % problem.m
    a, b = (int(np.flatnonzero(columns["task"] == t)[0]) for t in (w.src[e], w.dst[e]))
    assume(columns["start"][b] > columns["finish"][a] or columns["finish"][b] > columns["start"][b])
    assume(columns["finish"][a] > columns["start"][a] or columns["start"][b] > columns["finish"][a])
    swapped = {k: v.copy() for k, v in columns.items()}
    swapped["task"][[a, b]] = swapped["task"][[b, a]]
    assert rules(problem, swapped)


# -- known answers ---------------------------------------------------------------


def two_devices(**options: object) -> Problem:
    # Task 0 takes 2 on both; then task 1 takes 3 on both; moving 10 bytes at 5 bytes per
    # second takes 2.
    return Problem.from_arrays([[2.0, 2.0], [3.0, 3.0]], [[0, 1]], [10.0], bandwidth=5.0, **options)


def test_messages_name_task_device_and_values():
    late = Schedule.of(device=[0, 1], start=[0.0, 3.0], finish=[2.0, 6.0])
    assert [str(v) for v in check(two_devices(), late)] == [
        "transfer: task 't1' starts on 'd1' at 3 before the data of task 't0' arrives at 4"
    ]
    early = Schedule.of(device=[0, 0], start=[0.0, 1.0], finish=[2.0, 4.0])
    assert [str(v) for v in check(two_devices(), early)] == [
        "overlap: task 't1' starts on 'd0' at 1 while task 't0' runs until 2",
        "order: task 't1' starts on 'd0' at 1 before task 't0' ends at 2",
    ]


def test_data_comes_from_the_nearest_copy():
    with_copy = {
        "task": [0, 0, 1],
        "device": [0, 1, 1],
        "start": [0.0, 0.0, 2.0],
        "finish": [2.0, 2.0, 5.0],
    }
    assert check(two_devices(), Schedule.of(**with_copy, copy=[False, True, False])) == []
    assert {v.rule for v in check(two_devices(), Schedule.of(**with_copy))} == {"duplicate"}


def test_a_copy_needs_its_inputs_too():
    # Task 1 is copied to device 1 at once, but its input arrives there at 2 + 2.
    copy = schedule_of((0, 0, 0.0, 2.0), (1, 0, 2.0, 5.0), (1, 1, 3.0, 6.0))
    assert [v.rule for v in check(two_devices(), copy)] == ["transfer"]


def test_rows_without_length():
    problem = Problem.from_arrays([[2.0], [0.0], [0.0], [2.0]])
    side_by_side = Schedule.of(
        device=[0, 0, 0, 0], start=[0.0, 2.0, 2.0, 2.0], finish=[2.0, 2.0, 2.0, 4.0]
    )
    assert check(problem, side_by_side) == []
    inside = Schedule.of(
        device=[0, 0, 0, 0], start=[0.0, 1.0, 4.0, 2.0], finish=[2.0, 1.0, 4.0, 4.0]
    )
    assert [v.rule for v in check(problem, inside)] == ["overlap"]


def test_rounding_is_forgiven_and_more_is_not():
    problem = Problem.from_arrays([[1e6], [1e6]])
    for gap, expected in ((-1e-6, []), (-1e-1, ["overlap"])):  # a share of 1e-12 and of 1e-7
        s = Schedule.of(device=[0, 0], start=[0.0, 1e6 + gap], finish=[1e6, 2e6 + gap])
        assert [v.rule for v in check(problem, s)] == expected


def test_a_long_row_hides_no_later_one():
    # Task 1 overlaps task 0, and so does task 2, although task 1 ended before task 2 began.
    problem = Problem.from_arrays([[10.0], [1.0], [1.0]])
    s = Schedule.of(device=[0, 0, 0], start=[0.0, 1.0, 5.0], finish=[10.0, 2.0, 6.0])
    assert "overlap" in {v.rule for v in check(problem, s)}


def test_memory_and_kind():
    cluster = Cluster(speed=[1.0, 1.0], memory=[4.0, 8.0], throughput={"gpu": [1.0, 0.0]})
    tasks = Workflow(
        work=[1.0, 1.0],
        src=[],
        dst=[],
        data=[],
        memory=[8.0, 1.0],
        kind=[0, 1],
        kinds=("any", "gpu"),
    )
    problem = Problem.bind(tasks, cluster)
    assert check(problem, Schedule.of(device=[1, 0], start=[0.0, 0.0], finish=[1.0, 1.0])) == []
    swapped = check(problem, Schedule.of(device=[0, 1], start=[0.0, 0.0], finish=[1.0, 1.0]))
    assert [str(v) for v in swapped] == [
        "memory: task 't0' needs 8 bytes, 'd0' has 4",
        "cannot run: task 't1' cannot run on 'd1'",
    ]


def test_a_plan_covers_every_branch():
    b = WorkflowBuilder()
    a, left, right = b.task("a", work=1.0), b.task("left", work=1.0), b.task("right", work=1.0)
    b.choice(a, {"l": 1.0, "r": 0.0})
    b.edge(a, left, when="l")
    b.edge(a, right, when="r")
    problem = Problem.bind(b.build(), Cluster(speed=[1.0]))
    assert [
        str(v)
        for v in check(problem, Schedule.of(device=[0, 0], start=[0.0, 1.0], finish=[1.0, 2.0]))
    ] == ["missing: task 'right' is not scheduled"]


def test_an_empty_schedule_of_an_empty_problem():
    assert (
        check(Problem.from_arrays(np.zeros((0, 2))), Schedule.of(device=[], start=[], finish=[]))
        == []
    )


def test_a_schedule_needs_a_problem():
    with pytest.raises(InvalidInput, match="not the workload"):
        check(
            Workload.of(two_devices()),
            Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0]),
        )


def test_a_large_schedule():
    # 20,000 tasks in a chain of pairs on 50 devices: task 2k feeds 2k + 1 on the same device.
    n, p = 20_000, 50
    pairs = np.arange(n).reshape(-1, 2)
    problem = Problem.from_arrays(
        work=np.ones(n), speed=np.ones(p), edges=pairs, data=1.0, bandwidth=1.0
    )
    device, place = pairs[:, 0] // 2 % p, pairs[:, 0] // 2 // p
    start = np.stack([2.0 * place, 2.0 * place + 1], axis=1).reshape(-1)
    columns = {"device": np.repeat(device, 2), "start": start, "finish": start + 1}
    assert check(problem, Schedule.of(**columns)) == []
    columns["start"][-1] -= 1
    columns["finish"][-1] -= 1
    assert {v.rule for v in check(problem, Schedule.of(**columns))} == {"overlap", "order"}
