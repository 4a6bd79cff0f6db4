"""The model: errors name object and value, columns are read-only, draws repeat."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import futures, problems, workloads
from weft.errors import InvalidInput, UnknownName
from weft.model import (
    Choices,
    Cluster,
    Device,
    Links,
    Problem,
    Scenario,
    Schedule,
    Trace,
    Workflow,
    WorkflowBuilder,
    Workload,
)
from weft.model.network.topology import Topology
from weft.model.oracle.consequences import active_instances
from weft.model.workload import OF_PROBLEMS


def flow(n: int, edges: list[tuple[int, int]], **options: object) -> Workflow:
    src, dst = ([e[i] for e in edges] for i in (0, 1))
    return Workflow(
        **{"work": np.ones(n), "src": src, "dst": dst, "data": np.ones(len(edges))} | options
    )


# -- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: flow(3, [(0, 1), (1, 2), (2, 1)], name="w"),
            "workflow 'w' has a cycle: task 't1' -> task 't2' -> task 't1'",
        ),
        (
            lambda: flow(4, [(2, 0), (0, 1), (1, 2), (2, 3)]),
            "cycle: task 't0' -> task 't1' -> task 't2' -> task 't0'",
        ),
        (lambda: flow(2, [(0, 1), (1, 0)], names=("x", "y")), "task 'x' -> task 'y' -> task 'x'"),
        (lambda: flow(2, [(1, 1)]), "task 't1' depends on itself"),
        (lambda: flow(2, [(0, 1), (0, 1)]), "edge task 't0' -> task 't1' is given twice"),
        (lambda: flow(2, [(0, 2)]), "edge 0 has the target 2, but there are 2 tasks (0 to 1)"),
        (lambda: flow(2, [(-1, 0)]), "edge 0 has the source -1"),
        (
            lambda: flow(2, [], work=[1.0, np.nan]),
            "work of task 't1' is nan; it must be a finite number, zero or more",
        ),
        (lambda: flow(2, [], work=[-1.0, 0.0]), "work of task 't0' is -1.0"),
        (lambda: flow(2, [(0, 1)], data=[-3.0]), "data of edge task 't0' -> task 't1' is -3.0"),
        (lambda: flow(2, [(0, 1)], data=[np.inf]), "is inf"),
        (lambda: flow(2, [], memory=[0.0, -1.0]), "memory of task 't1' is -1.0"),
        (lambda: flow(2, [], cores=[0, 1]), "cores of task 't0' is 0; it must be 1 or more"),
        (lambda: flow(2, [], cores=[1.5, 1]), "cores must hold whole numbers; found 1.5"),
        (lambda: flow(2, [], cores=[np.nan, 1]), "cores must hold whole numbers; found nan"),
        (lambda: flow(2, [], kind=[0, 4]), "kind of task 't1' is 4; it must be below 1"),
        (lambda: flow(2, [], names=("a",)), "has 2 tasks but 1 task names"),
        (lambda: flow(2, [], names=("a", "a")), "task 'a' is given twice (numbers 0 and 1)"),
        (lambda: flow(2, [], work="many"), "must hold numbers"),
        (
            lambda: flow(2, [], durations={"d0": [1.0, -2.0]}),
            "duration on 'd0' of task 't1' is -2.0",
        ),
        (lambda: flow(2, [], memory=[1.0]), "memory has shape (1,), expected (2,)"),
        (lambda: Cluster(speed=[]), "cluster 'cluster' has no devices"),
        (lambda: Cluster([Device("a")]), "make a cluster of them with Cluster.of"),
        (
            lambda: Cluster(speed=[1.0, 0.0]),
            "speed of device 'd1' is 0.0; it must be a finite number above zero",
        ),
        (lambda: Cluster(speed=[1.0], names=("a", "b")), "has 1 devices but 2 device names"),
        (lambda: Cluster(speed=[1.0, 1.0], names=("a", "a")), "device 'a' is given twice"),
        (
            lambda: Cluster(speed=[1.0, 1.0], bandwidth=0.0),
            "bandwidth of link 'd0' -> 'd1' is 0.0; it must be above zero",
        ),
        (
            lambda: Cluster(speed=[1.0, 1.0], latency=[[0, np.nan], [0, 0]]),
            "latency of link 'd0' -> 'd1' is nan",
        ),
        (lambda: Cluster(speed=[1.0], batch=0), "batch of device 'd0' is 0"),
        (lambda: Cluster(speed=[1.0], memory=np.nan), "memory of device 'd0' is nan"),
        (lambda: Cluster(speed=[1.0], power=-5.0), "power of device 'd0' is -5.0"),
        (
            lambda: Cluster(speed=[1.0], throughput={"gemm": [-1.0]}),
            "throughput of 'gemm' of device 'd0' is -1.0",
        ),
        (lambda: Problem.from_arrays([[1.0, -2.0]]), "duration of task 0 on device 1 is -2.0"),
        (lambda: Problem.from_arrays([1.0, 2.0]), "must be an (n, p) matrix; got shape (2,)"),
        (lambda: Problem.from_arrays([[1.0]], [[0.5, 1.0]]), "edges must be pairs of task numbers"),
        (lambda: Problem.from_arrays([[1.0]], [0, 0]), "edges must be pairs of task numbers"),
        (Problem.from_arrays, "give either durations, or both work and speed"),
        (
            lambda: Problem.from_arrays([[1.0]], work=[1.0], speed=[1.0]),
            "give either durations, or both work and speed",
        ),
        (
            lambda: Problem.from_arrays([[1.0], [np.inf]]),
            "task 't1' fits no device: its durations are all inf or NaN",
        ),
        (
            lambda: Problem.from_arrays([[1.0]], memory=[9.0], device_memory=8.0),
            (
                "task 't0' fits no device of 'cluster': it needs 9 bytes of memory, the largest "
                "device has 8"
            ),
        ),
        (lambda: Workload.of([]), "needs at least one problem"),
        (lambda: Workload.of(one(), arrival=[-1.0]), "arrival of job 0 is -1.0"),
        (lambda: Workload.of(one(), arrival=[0.0, np.nan]), "arrival of job 1 is nan"),
        (
            lambda: Workload.of(one(), arrival=[0.0], template=[3]),
            "template of job 0 is 3; it must be 0 to 0",
        ),
        (lambda: Workload.of(one(), deadline=np.nan), "deadline of job 0 is nan"),
        (lambda: Workload.of([one(), Problem.from_arrays([[1.0, 1.0]])]), "is bound to cluster"),
        (lambda: Workload.of([pair(1.0), pair(2.0)]), "is bound to cluster"),
        (
            lambda: Scenario.of(Workload.of(one()), factor=0.0),
            "duration factor of instance 0 is 0.0",
        ),
        (
            lambda: Scenario.of(Workload.of(one()), factor=[1.0, 1.0]),
            "factor has shape (2,), expected (1,)",
        ),
        (
            lambda: Scenario.of(Workload.of(one()), changes=[(1.0, 7, 2.0)]),
            "device of change 0 is 7; it must be 0 to 0",
        ),
        (
            lambda: Scenario.of(Workload.of(one()), changes=[(1.0, 0, 0.0)]),
            "slowdown of change 0 is 0.0",
        ),
        (
            lambda: Scenario.of(Workload.of(one()), changes=[(1.0, 0)]),
            "rows of (time, device, slowdown)",
        ),
        (lambda: Scenario.of(Workload.of(one()), cancel=[-1.0]), "cancellation of job 0 is -1.0"),
        (lambda: Scenario.draw(Workload.of(one()), noise=-1.0), "noise is -1.0"),
        (
            lambda: Scenario.draw(Workload.of(one()), cancellations=2.0),
            "cancellations is 2.0; it must be a number 0 or more, at most 1",
        ),
        (
            lambda: Schedule.of(device=[0], start=[0.0], finish=[np.inf]),
            "task 0 is scheduled from 0.0 to inf; times must be finite",
        ),
    ],
)
def test_errors_name_the_object_and_the_value(make, text):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def one() -> Problem:
    return Problem.from_arrays([[1.0]])


def pair(bandwidth: float) -> Problem:
    return Problem.from_arrays([[1.0, 1.0]], bandwidth=bandwidth)


def test_a_long_cycle_is_shortened():
    n = 50
    with pytest.raises(InvalidInput, match=r"cycle: task '.*' -> \.\.\. -> ") as caught:
        flow(n, [(i, (i + 1) % n) for i in range(n)])
    assert str(caught.value).count("->") == 7


def two() -> WorkflowBuilder:
    b = WorkflowBuilder()
    b.task("prepare")
    b.task("train")
    return b


def test_the_builder_offers_the_closest_name():
    b = two()
    with pytest.raises(UnknownName, match="unknown task 'prepar'; did you mean 'prepare'"):
        b.edge("prepar", "train")
    with pytest.raises(UnknownName, match="'trian' names an unknown task; did you mean 'train'"):
        b.choice("trian", {"yes": 1.0})
    with pytest.raises(InvalidInput, match="task 'train' is given twice"):
        b.task("train")
    b.choice("prepare", {"good": 0.5, "bad": 0.5})
    b.edge("prepare", "train", when="goood")
    with pytest.raises(
        UnknownName,
        match="taken when 'goood', which is no branch of 'prepare'; did you mean 'good'",
    ):
        b.build()


@pytest.mark.parametrize("shares", [{"a": 0.5, "b": 0.4}, {"a": -0.5, "b": 1.5}, {"a": np.nan}, {}])
def test_probabilities(shares):
    b = two()
    b.choice("prepare", shares)
    with pytest.raises(InvalidInput, match="the branches of task 'prepare' have probabilities"):
        b.build()


def test_two_branches_of_one_name():
    b = two()
    b.choice("prepare", {"a": 1.0})
    b.choice("prepare", {"a": 1.0})
    with pytest.raises(InvalidInput, match="task 'prepare' has two branches called 'a'"):
        b.build()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"edge_choice": [0, 0]}, "for 2 edges, but there are 1"),
        ({"edge_choice": [1]}, "branch 1 of choice 1, which does not exist"),
        ({"edge_branch": [2]}, "branch 2 of choice 0, which does not exist"),
        ({"task": [9]}, "choice 0 belongs to task 9"),
        ({"task": [1]}, "leaves task 't0' but its choice belongs to task 't1'"),
        ({"first": [0]}, "1 choices begin at [0]"),
        ({"first": [0, 3]}, "1 choices begin at [0, 3] among 2 probabilities"),
    ],
)
def test_broken_choice_columns(change, text):
    columns = {
        "task": [0],
        "first": [0, 2],
        "probability": [0.5, 0.5],
        "edge_choice": [0],
        "edge_branch": [1],
    } | change
    choices = Choices(labels=("a", "b"), **{k: np.array(v) for k, v in columns.items()})
    with pytest.raises(InvalidInput) as caught:
        flow(2, [(0, 1)], choices=choices)
    assert text in str(caught.value)


# -- columns -------------------------------------------------------------------------


def test_columns_cannot_be_written():
    problem = pair(1.0)
    workload = Workload.of(problem)
    scenario, schedule = Scenario.of(workload), Schedule.of(device=[0], start=[0.0], finish=[1.0])
    columns = [
        problem.work,
        problem.per_work,
        problem.row,
        problem.workflow.src,
        problem.workflow.order,
        problem.cluster.bandwidth,
    ]
    columns += [
        problem.cluster.per_byte,
        *problem.arrays,
        workload.arrival,
        workload.first_instance,
        scenario.factor,
    ]
    columns += [
        schedule.start,
        schedule.copy,
        problem.workflow.choices.edge_choice,
        problem.mean_per_work,
    ]
    for column in columns:
        assert not column.flags.writeable
    schedule.to_arrays()["start"][0] = 5.0  # a copy for the user
    assert schedule.start[0] == 0.0


def test_the_callers_array_stays_the_callers():
    work, edges, order = np.array([1.0, 2.0]), np.array([[0, 1]]), np.array([1, 0])
    problem = Problem.from_arrays(work=work, speed=[1.0], edges=edges, data=1.0, bandwidth=1.0)
    schedule = Schedule.of(task=order, device=[0, 0], start=[2.0, 0.0], finish=[3.0, 2.0])
    work[0], edges[0, 0], order[0] = 99.0, 1, 7
    assert work.flags.writeable
    assert problem.work.tolist() == [1.0, 2.0]
    assert problem.workflow.src.tolist() == [0]
    assert schedule.task.tolist() == [0, 1]


def test_trace_columns_are_sorted():
    workload = Workload.of(one(), arrival=[0.0, 0.0])
    trace = Trace(
        workload,
        Scenario.of(workload),
        **{
            k: np.array(v)
            for k, v in {
                "job": [1, 0],
                "task": [0, 0],
                "device": [0, 0],
                "status": [0, 0],
                "batch": [1, 0],
            }.items()
        },
        **{
            k: np.array(v)
            for k, v in {"decided": [0.0, 0.0], "start": [1.0, 0.0], "finish": [2.0, 1.0]}.items()
        },
        copy=np.zeros(2, bool),
        job_finish=np.array([1.0, 2.0]),
    )
    assert trace.job.tolist() == [0, 1]
    assert (trace.makespan, float(trace.jct), trace.utilisation) == (2.0, 1.5, 1.0)


# -- forms ---------------------------------------------------------------------------


def test_product_and_dense_forms_agree():
    work, speed = np.array([1.0, 6.0, 0.0]), np.array([1.0, 2.0])
    edges, data = [[0, 1], [0, 2]], [3.0, 4.0]
    product = Problem.from_arrays(
        work=work, speed=speed, edges=edges, data=data, bandwidth=2.0, latency=0.5
    )
    dense = Problem.from_arrays(work[:, None] / speed, edges, data, bandwidth=2.0, latency=0.5)
    assert len(product.per_work) == 1
    assert len(dense.per_work) == 3
    assert (
        product.durations().tolist()
        == dense.durations().tolist()
        == [[1.0, 0.5], [6.0, 3.0], [0.0, 0.0]]
    )
    assert product.transfer(1, 0, 1) == dense.transfer(1, 0, 1) == 2.5  # 0.5 + 4 / 2
    assert product.transfer(1, 1, 1) == 0.0


def test_tasks_of_alike_memory_share_a_row():
    # Devices of 4 and 8 bytes: needs up to 4 fit both, up to 8 the second only. A thousand tasks,
    # two rows.
    memory = np.tile([0.0, 1.0, 4.0, 5.0, 8.0], 200)
    problem = Problem.from_arrays(
        work=np.ones(1000), speed=[1.0, 2.0], memory=memory, device_memory=[4.0, 8.0]
    )
    assert problem.per_work.tolist() == [[1.0, 0.5], [np.inf, 0.5]]
    assert problem.row[:5].tolist() == [0, 0, 0, 1, 1]
    assert problem.duration(3, 0) == np.inf
    assert problem.duration(3, 1) == 0.5


def test_zero_work_on_a_device_that_cannot_run_it():
    cluster = Cluster(speed=[1.0, 1.0], throughput={"gpu": [0.0, 2.0]})
    problem = Problem.bind(Workflow(work=[0.0], src=[], dst=[], data=[], kinds=("gpu",)), cluster)
    assert problem.durations().tolist() == [[np.inf, 0.0]]  # not NaN
    bare = Workflow(
        work=[0.0, 1.0], src=[], dst=[], data=[], kinds=("gpu",), durations={"d1": [np.nan, 3.0]}
    )
    assert Problem.bind(bare, cluster).durations().tolist() == [[np.inf, 0.0], [np.inf, 3.0]]


def test_a_kind_without_tasks_may_run_nowhere():
    cluster = Cluster(speed=[2.0], throughput={"unused": [0.0]})
    problem = Problem.bind(
        Workflow(work=[4.0], src=[], dst=[], data=[], kinds=("used", "unused")), cluster
    )
    assert problem.mean_per_work[0] == 0.5
    assert problem.duration(0, 0) == 2.0


def test_measured_durations_by_name_then_by_kind():
    cluster = Cluster.of(
        [Device("a", kind="gpu"), Device("b", kind="gpu"), Device("c", kind="cpu", speed=4.0)]
    )
    b = WorkflowBuilder()
    b.task("both", durations={"gpu": 2.0, "b": 1.0})
    b.task("kind", durations={"gpu": 3.0, "b": 3.0})
    b.task("speed", work=8.0)
    assert Problem.bind(b.build(), cluster).durations().tolist() == [
        [2.0, 1.0, np.inf],
        [3.0, 3.0, np.inf],
        [8.0, 8.0, 2.0],
    ]


def test_links_between_nodes():
    c = Cluster.of(
        [Device("a", node="x"), Device("b", node="x"), Device("c", node="y")],
        Links(bandwidth=2.0, latency=1.0, node_latency=0.0),
    )
    assert c.transfer_time(0, 1, 4.0) == 2.0  # within a node: no latency
    assert c.transfer_time(0, 2, 4.0) == 3.0
    assert c.transfer_time(2, 2, 4.0) == 0.0


@given(problems(choices=True))
def test_indexes_agree_with_the_edges(problem):
    w = problem.workflow
    place = np.empty(w.n, np.int64)
    place[w.order] = np.arange(w.n)
    assert sorted(w.order.tolist()) == list(range(w.n))
    assert (place[w.src] < place[w.dst]).all()
    assert (w.level[w.src] < w.level[w.dst]).all()
    for t in range(w.n):
        assert w.dst[w.pred_edge[w.pred_ptr[t] : w.pred_ptr[t + 1]]].tolist() == [t] * int(
            (w.dst == t).sum()
        )
        assert w.src[w.succ_ptr[t] : w.succ_ptr[t + 1]].tolist() == [t] * int((w.src == t).sum())
        assert w.parents(t).tolist() == w.src[w.dst == t].tolist()
        assert w.children(t).tolist() == w.dst[w.src == t].tolist()
    for e in range(w.m):
        assert problem.durations()[w.src[e]].min() < np.inf
    owned = w.choices.edge_choice >= 0
    assert (w.choices.task[w.choices.edge_choice[owned]] == w.src[owned]).all()


def test_choices_follow_their_edges_when_these_are_sorted():
    b = WorkflowBuilder()
    for name in "abcd":
        b.task(name)
    b.choice("a", {"x": 0.5, "y": 0.3, "z": 0.2})
    for target, when in (("d", "x"), ("c", "z"), ("b", "y")):
        b.edge("a", target, data=float(ord(target)), when=when)
    w = b.build()
    assert w.dst.tolist() == [1, 2, 3]
    assert w.data.tolist() == [98.0, 99.0, 100.0]
    assert w.choices.edge_branch.tolist() == [1, 2, 0]


# -- workloads and scenarios -----------------------------------------------------------


def test_jobs_are_sorted_by_arrival():
    long, short = Problem.from_arrays([[1.0], [1.0]]), one()
    w = Workload.of(
        [long, short],
        template=[0, 1, 0],
        arrival=[5.0, 1.0, 5.0],
        deadline=[9.0, 8.0, 7.0],
        priority=[1, 2, 3],
    )
    assert w.arrival.tolist() == [1.0, 5.0, 5.0]
    assert w.template.tolist() == [1, 0, 0]
    assert w.deadline.tolist() == [8.0, 9.0, 7.0]  # equal arrivals keep their order
    assert w.first_instance.tolist() == [0, 1, 3, 5]
    assert [w.task_of(i) for i in range(5)] == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_jobs_without_tasks_have_no_instances():
    w = Workload.of([Problem.from_arrays(np.zeros((0, 1))), one()], template=[0, 1, 0, 1])
    assert w.instances == 2
    assert [w.task_of(i) for i in range(2)] == [(1, 0), (3, 0)]


@given(workloads(), st.integers(0, 2**40))
def test_a_seed_is_a_future(workload, seed):
    chances = {"noise": 0.3, "bias": 0.2, "slowdowns": 1.0, "failures": 1.0, "cancellations": 0.5}
    first, again = (Scenario.draw(workload, seed=seed, **chances) for _ in range(2))
    for column in vars(first):
        assert getattr(first, column).tobytes() == getattr(again, column).tobytes()
    quiet = Scenario.draw(workload, seed=seed)
    assert quiet.outcome.tolist() == first.outcome.tolist()  # a stream of its own
    assert (quiet.factor == 1.0).all()
    assert np.isinf(quiet.cancel).all()
    assert (np.diff(first.change_time) >= 0).all()
    assert (first.cancel >= workload.arrival).all()
    for d in range(workload.cluster.p):  # no device stays down for ever
        slowdowns = first.change_slowdown[first.change_device == d]
        assert not len(slowdowns) or np.isfinite(slowdowns[-1])


def test_draws_have_the_mean_they_promise():
    w = Workload.of(Problem.from_arrays(np.ones((20_000, 1))))
    assert Scenario.draw(w, seed=1, noise=0.5).factor.mean() == pytest.approx(
        1.0, abs=0.02
    )  # standard error 0.004
    b = two()
    b.choice("prepare", {"a": 0.2, "b": 0.0, "c": 0.8})
    many = Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0])), arrival=np.zeros(10_000))
    share = np.bincount(Scenario.draw(many, seed=1).outcome, minlength=3) / 10_000
    assert share.tolist() == pytest.approx([0.2, 0.0, 0.8], abs=0.02)
    assert share[1] == 0.0


def test_the_likeliest_branch_without_outcomes():
    b = two()
    b.choice("prepare", {"a": 0.4, "b": 0.4, "c": 0.2})
    b.choice("train", {"x": 0.1, "y": 0.9})
    w = Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0])), arrival=[0.0, 1.0])
    assert Scenario.of(w).outcome.tolist() == [0, 1, 0, 1]
    with pytest.raises(
        InvalidInput, match="outcome of choice 1 is branch 2, but it has 2 branches"
    ):
        Scenario.of(w, outcome=[0, 2, 0, 1])


@given(futures())
def test_active_instances_against_a_walk(future):
    workload, scenario = future
    active = active_instances(workload, scenario)
    for job in range(workload.jobs):
        w, first = workload.problem_of(job).workflow, int(workload.first_instance[job])
        runs = {}
        for task in w.order.tolist():
            into = np.flatnonzero(w.dst == task).tolist()
            runs[task] = not into
            for e in into:
                c = int(w.choices.edge_choice[e])
                chosen = (
                    c < 0
                    or scenario.outcome[workload.first_choice[job] + c] == w.choices.edge_branch[e]
                )
                runs[task] |= runs[int(w.src[e])] and bool(chosen)
        assert active[first : first + w.n].tolist() == [runs[t] for t in range(w.n)]


def test_without_a_bandwidth_data_moves_in_no_time():
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0]], [[0, 1]], [1e9])
    assert problem.transfer(0, 0, 1) == 0.0
    assert Problem.from_arrays([[1.0] * 2] * 2, [[0, 1]], [8.0], bandwidth=2).transfer(0, 0, 1) == 4


def test_arrays_with_names():
    durations = [[1.0, 9.0], [9.0, 1.0]]
    problem = Problem.from_arrays(durations, [[0, 1]], names=["a", "b"], devices=["cpu", "gpu"])
    assert problem.workflow.names == ("a", "b")
    assert problem.cluster.names == ("cpu", "gpu")
    assert problem.durations().tolist() == durations
    product = Problem.from_arrays(work=[1.0], speed=[2.0], names=["a"], devices=["cpu"])
    assert (product.workflow.names, product.cluster.names) == (("a",), ("cpu",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"]}, "workflow 'problem' has 2 tasks but 1 task names"),
        ({"names": ["a", "a"]}, "task 'a' is given twice"),
        ({"names": "ab"}, "names is 'ab'; it must be a list of names"),
        ({"devices": 3}, "devices is 3; it must be a list of names"),
    ],
)
def test_bad_names_of_arrays(options, message):
    with pytest.raises(InvalidInput, match=message):
        Problem.from_arrays([[1.0], [2.0]], **options)


def test_the_name_of_a_task_that_fits_no_device():
    with pytest.raises(InvalidInput, match="task 'b' fits no device"):
        Problem.from_arrays([[1.0], [np.inf]], names=["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"durations": [[1.0, 1e-300]]}, "task 't0' takes 1e-300 seconds on device 'd1'; it must"),
        ({"durations": [[1.0, 1e-320]]}, "task 't0' takes 9.99989e-321 seconds on device 'd1'"),
        ({"work": [1.0, 1e-160], "speed": [1.0]}, "task 't1' takes 1e-160 seconds"),
        ({"work": [1e200], "speed": [1.0, 1e-200]}, "task 't0' takes more seconds than a float"),
        # Each is finite, but their sum is 2e308, and the largest float is 1.8e308.
        (
            {"durations": [[1e308], [1e308]]},
            "add up to more seconds than a float can hold; task 't0' takes up to 1e\\+308",
        ),
        ({"durations": [[1e308, 1e308]]}, "add up to more seconds than a float can hold"),
        (
            {"bandwidth": 5e-324},
            "moving 8 bytes over link 'd0' -> 'd1' takes more seconds .* 4.94066e-324",
        ),
        ({"bandwidth": 1e200}, "link 'd0' -> 'd1' takes too few seconds .* bandwidth 1e\\+200"),
        ({"latency": 1e-200}, "link 'd0' -> 'd1' takes too few seconds \\(latency 1e-200"),
    ],
)
def test_times_out_of_range_are_refused(arguments, complaint):
    if "bandwidth" in arguments or "latency" in arguments:
        arguments = {"durations": np.ones((2, 2)), "edges": [[0, 1]], "data": 8.0, **arguments}
    with pytest.raises(InvalidInput, match=complaint):
        Problem.from_arrays(**arguments)


def test_times_at_the_limits_are_accepted():
    small = Problem.from_arrays([[1e-150, 0.0], [0.0, 1.0]], [[0, 1]], 1.0, bandwidth=1e150)
    assert small.transfer(0, 0, 1) == 1e-150
    assert Problem.from_arrays(work=[1e308], speed=[1.0, 5e-324]).duration(0, 0) == 1e308
    assert Problem.from_arrays(np.zeros((0, 2))).n == 0


@pytest.mark.parametrize("name", [f.name for f in fields(Cluster) if f.name not in OF_PROBLEMS])
def test_jobs_share_every_field_of_their_machines(name):
    """The first problem's cluster counts energy, rent and the rest: no other may differ."""
    other = {
        "names": ("x", "y"),
        "kinds": ("cpu", "gpu"),
        "nodes": ("m", "n"),
        "batch": [2, 1],
        "batch_curve": {"*": [[1.0, 1.5], [1.0, 1.5]]},
        "setup": {"*": [[1.0, 0.0, 0.0]] * 2},
        "capacity": {"cores": {"node0": 3.0}},
        "network": Topology.star(["node0"], 1.0),
    }
    most = {"batch": [2, 2]} if name == "batch_curve" else {}
    clusters = [
        Cluster(speed=[1.0, 1.0], **most, **options) for options in ({}, {name: other.get(name, 7)})
    ]
    one, two = (Problem.bind(flow(1, []), cluster) for cluster in clusters)
    for both in ([one, two], [two, one]):
        with pytest.raises(InvalidInput, match=rf"which differs in {name}; bind all problems to o"):
            Workload.of(both)
