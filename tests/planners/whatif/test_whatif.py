"""What if: changes and their texts, answers with known arithmetic, the tornado."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.strategies import problems
from weft.errors import WeftError
from weft.planners.whatif import AddDevice, Bandwidth, Faster, Latency, RemoveDevice, parse_change
from weft.planners.whatif.changes import select_devices


@pytest.fixture
def two():
    """A chain of 2 s and 3 s on a, 1 s and 9 s on b, and 2 s of data between them."""
    return weft.Problem.from_arrays(
        [[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0, devices=["a", "b"]
    )


TEXTS = (
    "add 1xA100",
    "add 2xT4@0.5",
    "remove T4:0",
    "remove 2xT4",
    "bandwidth x2.0",
    "bandwidth V100,T4=x3.0",
    "latency n0=x0.5",
    "faster align=1.5",
    "speed A100=1.2",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_written_again(text):
    assert str(parse_change(text)) == text


def test_numbers_may_be_short():
    assert parse_change("bandwidth 2") == Bandwidth(2.0)
    assert parse_change("faster a=b=x2") == Faster("a=b", 2.0)
    assert parse_change("add A100") == AddDevice("A100")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ad 1xA100", "unknown change 'ad'; did you mean 'add'"),
        ("add", "is incomplete; write it like: add 1xA100"),
        ("bandwidth fast", "'fast' is not a number; write it like: bandwidth x2"),
        ("bandwidth x0", "factor must be a finite number above zero"),
        ("bandwidth xnan", "factor must be a finite number above zero"),
        ("faster 2", "has no name; write it like: faster align=1.5"),
        ("add 0xa", "^add 0xa: the count must be 1 or more"),
        ("add 1xa@-1", "price is -1.0; it must be 0 or more"),
        ("remove c", "no device or kind is called 'c'"),
        ("remove 2xdevice", "cannot remove 2xdevice"),
        ("faster c=2", "no task has the kind 'c'"),
        ("speed c=2", "no device or kind is called 'c'"),
        ("bandwidth a,b,c=2", "a link has two ends, not 3"),
        ("add 1xA10O", "unknown kind of device 'A10O'; did you mean"),
        ("add 1xA100", "the speed of a A100.* in cluster 'cluster' is not known"),
    ],
)
def test_a_wrong_change_is_one_line(two, text, complaint):
    with pytest.raises(WeftError, match=complaint) as error:
        weft.whatif(two, text)
    assert "\n" not in str(error.value)


def test_known_answers(two):
    assert weft.plan(two).makespan == 6.0  # 1 s on b, 2 s to a, 3 s there
    quick = weft.whatif(two, "bandwidth x4")
    assert (quick.after.makespan, quick.saved, quick.moved, quick.kept) == (4.5, 1.5, (), 4.5)
    assert quick.sentence == (
        "with 4 times the bandwidth of all links, the makespan is 4.5 s instead of 6 s: 1.5 s "
        "(25 %) less; no schedule is below 4.5 s. 0 of 2 tasks move."
    )
    # Without b: 2 + 3 on a.
    gone = weft.whatif(two, RemoveDevice("b"))
    assert (gone.after.makespan, gone.saved, gone.moved) == (5.0, 1.0, ("t0",))
    assert np.isnan(gone.kept)
    # Both changes: (1 + 9) / 4 on b.
    both = weft.whatif(two, ["remove a", "speed b=4"])
    assert both.after.makespan == pytest.approx(2.5)
    none = weft.whatif(two, "latency x2")  # there is none
    assert "nothing changes: the makespan stays 6 s" in none.sentence


def test_prices():
    tasks = weft.Workflow(work=[3600.0, 3600.0], src=[], dst=[], data=[])
    problem = weft.Problem.bind(tasks, weft.Cluster(speed=[1.0], price=[3.0]))
    twin = weft.whatif(problem, "add device")  # twice the price, half the time
    assert (twin.before.cost, twin.after.cost, twin.saved_cost) == (6.0, 6.0, 0.0)
    assert weft.whatif(problem, "add device@1").after.cost == 4.0


def test_a_published_kind_joins_a_cluster_of_published_devices():
    tasks = weft.Workflow(work=[19.5, 19.5], src=[], dst=[], data=[])
    problem = weft.Problem.bind(tasks, weft.gpu_cluster("1xT4"))
    answer = weft.whatif(problem, "add 1xA100")
    cluster = answer.after.problem.cluster
    assert cluster.kinds[1].startswith("A100")
    assert cluster.speed[1] == 19.5  # TFLOP/s, fp32
    assert answer.after.makespan == 2.0  # both on the A100: 19.5 / 8.1 > 2


def test_an_added_device_has_the_links_of_its_kind():
    cluster = weft.gpu_cluster("2xV100+2xT4")
    tasks = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    made = AddDevice("V100", 2).apply(weft.Problem.bind(tasks, cluster)).cluster
    assert made.names[4:] == ("V100:2", "V100:3")
    assert made.nodes[4:] == ("node0", "node0")
    pair, far = cluster.bandwidth[0, 1], cluster.bandwidth[0, 2]
    assert made.bandwidth[4, 5] == made.bandwidth[4, 0] == made.bandwidth[1, 4] == pair
    assert made.bandwidth[4, 2] == far


@given(problems(), st.data())
@settings(max_examples=40, deadline=None)
def test_changes_act_on_durations_and_links(problem, data):
    cluster, before = problem.cluster, problem.durations()
    kind = data.draw(st.sampled_from(problem.workflow.kinds))
    mine = problem.workflow.kind == problem.workflow.kinds.index(kind)
    faster = Faster(kind, 2.0).apply(problem).durations()
    np.testing.assert_allclose(faster, np.where(mine[:, None], before / 2.0, before))
    twice = Latency(2.0).apply(Bandwidth(0.5).apply(problem)).cluster
    for i in range(cluster.p):
        for j in range(cluster.p):
            assert twice.transfer_time(i, j, 7.0) == pytest.approx(
                2.0 * cluster.transfer_time(i, j, 7.0)
            )
    again = select_devices(problem, list(range(cluster.p)))
    assert np.array_equal(again.durations(), before)


@given(problems())
@settings(max_examples=30, deadline=None)
def test_better_machines_are_never_worse(problem):
    # The old plan stays possible, so an answer is never longer than it.
    for text in ("bandwidth x2", "latency x0.5", f"add {problem.cluster.kinds[0]}"):
        answer = weft.whatif(problem, text)
        assert answer.after.makespan <= answer.before.makespan * (1 + 1e-9)
        assert weft.check(answer.after.problem, answer.after) == []
        assert answer.after.bound <= answer.after.makespan * (1 + 1e-9)


def test_the_tornado_of_a_chain():
    # Only the task of 3 s and its device matter: 20 % faster saves 3 - 3 / 1.2 = 0.5 s.
    workflow = weft.Workflow(
        work=[3.0, 1.0], kinds=("long", "short"), kind=[0, 1], src=[], dst=[], data=[]
    )
    cluster = weft.Cluster(speed=[1.0, 1.0], kinds=("x", "y"))
    found = weft.tornado(weft.Problem.bind(workflow, cluster))
    by_name = {row.what: row for row in found.rows}
    assert by_name["tasks: long"].saved == pytest.approx(0.5)
    assert by_name["tasks: long"].lost == pytest.approx(3 / 0.8 - 3)
    assert by_name["tasks: short"].saved == by_name["tasks: short"].lost == 0.0
    assert by_name["one x"].lost == 1.0  # one after the other
    assert found.rows[0].saved == pytest.approx(0.5)
    assert "500 ms (17 %) less" in found.sentence
    assert [row.saved for row in found.rows] == sorted((r.saved for r in found.rows), reverse=True)
    with pytest.raises(WeftError, match="share is 1; it must lie between 0 and 1"):
        weft.tornado(weft.Problem.bind(workflow, cluster), share=1)


def test_the_last_device_that_runs_a_task_is_not_taken_away():
    problem = weft.Problem.from_arrays([[1.0, np.inf]])
    assert next(r for r in weft.tornado(problem).rows if r.what == "one device").worse is not None
    problem = weft.Problem.from_arrays([[np.inf, 1.0]])  # the last one is needed
    assert next(r for r in weft.tornado(problem).rows if r.what == "one device").worse is None
    with pytest.raises(WeftError, match="task 't0' fits none of the devices d0"):
        weft.whatif(problem, "remove d1")


@pytest.mark.parametrize("count", ["1000000000", "9" * 5000])
def test_more_devices_than_memory_holds_are_refused(count):
    problem = weft.Problem.from_arrays([[1.0, 2.0]], devices=["a", "b"])
    with pytest.raises(weft.InvalidInput, match=r"a cluster of .* devices takes"):
        weft.whatif(problem, f"add {count}xa")


def test_variants_must_be_chosen_first():
    ways = {"t0": (weft.Variant("a"), weft.Variant("b", factor=0.5))}
    flow = weft.Workflow(work=[1.0], src=[], dst=[], data=[], variants=ways)
    problem = weft.Problem.bind(flow, weft.Cluster(speed=[1.0]))
    for ask in (lambda p: weft.whatif(p, "add 1xdevice"), weft.tornado):
        with pytest.raises(weft.InvalidInput, match="has variants; choose them first: "):
            ask(problem)
        assert ask(weft.plan(problem).problem).before.makespan == 0.5
