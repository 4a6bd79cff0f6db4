"""Set-up of devices: known answers, the oracle, policies that count it, formats, plans."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

import weft
from tests.support.strategies import problems
from weft.formats.native.cluster_toml import read_cluster_toml, write_cluster_toml
from weft.formats.native.stream_toml import read_stream_toml
from weft.policies.conditional.rules import ConditionalRule
from weft.sim.reference import simulate_reference
from weft.sim.rule import Rule
from weft.sim.vector.batch import StepBatch

GB = 1e9


def workload(kinds: str, *devices: weft.Device) -> weft.Workload:
    """Return one task of two seconds per letter, one job each, in order, a second apart."""
    cluster = weft.Cluster.of(devices)
    made = [
        weft.Problem.bind(
            weft.Workflow(work=[2.0], src=[], dst=[], data=[], kinds=(k,), name=k), cluster
        )
        for k in dict.fromkeys(kinds)
    ]
    names = [p.name for p in made]
    return weft.Workload.of(
        made, template=[names.index(k) for k in kinds], arrival=np.arange(len(kinds)) * 0.1
    )


def lengths(jobs: weft.Workload, policy: str = "fifo") -> list[float]:
    trace = weft.simulate(jobs, policy)
    assert weft.check(jobs, trace) == []
    return (trace.finish - trace.start).round(9).tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [2.0, 2.0, 2.0, 2.0]),
        ({"setup": {"a": 5.0}}, [7.0, 2.0, 2.0, 2.0]),  # everything fits: loaded once
        ({"setup": {"*": 1.0}}, [3.0, 3.0, 2.0, 2.0]),
        ({"setup": {"*": weft.Setup(1.0, 2 * GB)}, "cache": 3 * GB}, [3.0, 3.0, 3.0, 2.0]),
        ({"setup": {"a": weft.Setup(5.0, pinned=True)}}, [2.0, 2.0, 2.0, 2.0]),
        ({"switch": 0.5}, [2.0, 2.5, 2.5, 2.0]),  # a, b, a, a
    ],
)
def test_set_up_takes_the_time_of_the_file(options, expected):
    jobs = workload("abaa", weft.Device("gpu", **options))
    assert lengths(jobs) == expected
    twin = simulate_reference(jobs, Rule("fifo", "first", np.zeros(4)))
    assert np.array_equal(twin.finish, weft.simulate(jobs, "fifo").finish)


def test_the_kind_used_least_recently_is_dropped_and_a_pinned_one_is_not():
    setup = {k: weft.Setup(1.0, 1 * GB, pinned=k == "p") for k in "abcp"}
    jobs = workload("abacbp", weft.Device("gpu", setup=setup, cache=3 * GB))
    # Beside p there is room for two: c drops b (a was used after it), so b is loaded again.
    assert lengths(jobs) == [3.0, 3.0, 2.0, 3.0, 3.0, 2.0]


def test_a_failure_empties_the_cache():
    jobs = workload("aaa", weft.Device("gpu", setup={"a": 5.0}))
    future = weft.Scenario.of(jobs, changes=[(9.5, 0, np.inf), (10.0, 0, 1.0)])
    trace = weft.simulate(jobs, "fifo", scenario=future)
    done = trace.status == 0
    assert trace.finish[done].tolist() == [7.0, 9.0, 17.0]  # the third is lost at 9.5
    assert weft.check(jobs, trace) == []


def test_earliest_finish_goes_where_the_kind_is_loaded():
    slow = weft.Device("slow", speed=0.5, setup={"a": weft.Setup(9.0, pinned=True), "b": 9.0})
    quick = weft.Device("quick", setup={"a": 9.0, "b": weft.Setup(9.0, pinned=True)})
    jobs = workload("ab", slow, quick)
    for policy in ("eft", "rank-first", "shortest"):
        trace = weft.simulate(jobs, policy)
        assert trace.device[np.argsort(trace.job)].tolist() == [0, 1], policy


class Watching:
    """Commit everything to the first device, and keep the views."""

    name = "watching"

    def begin(self, workload, *, seed=0):
        self.seen = []

    def decide(self, view):
        self.seen.append((view.loaded.tolist(), view.setup.tolist()))
        return weft.Decision(int(view.ready[0]), 0)


def test_policies_see_what_is_loaded_and_the_set_up_behind_the_queue():
    jobs = workload("aba", weft.Device("gpu", setup={"*": weft.Setup(1.0, GB)}, cache=GB))
    fast, slow = Watching(), Watching()
    weft.simulate(jobs, fast)
    simulate_reference(jobs, slow)
    assert fast.seen == slow.seen
    # At first nothing is loaded; then a is, and runs; then b waits in the queue and will drop it.
    assert fast.seen[0] == ([[0, 0, -1]], [[1.0], [1.0]])
    assert fast.seen[1] == ([[1, 0, 0]], [[0.0], [1.0]])
    assert fast.seen[2] == ([[1, 0, 0]], [[1.0], [0.0]])


@pytest.mark.parametrize("change", [{"setup": {}}, {"switch": 0.0}, {"cache": np.inf}])
def test_the_oracle_refuses_other_set_ups(change):
    device = weft.Device("gpu", setup={"*": weft.Setup(1.0, 2 * GB)}, cache=3 * GB, switch=0.25)
    jobs = workload("abab", device)
    trace = weft.simulate(workload("abab", dataclasses.replace(device, **change)), "fifo")
    found = weft.check(jobs, dataclasses.replace(trace, workload=jobs))
    assert {v.rule for v in found} == {"wrong duration"}


def test_set_ups_survive_files(tmp_path):
    cluster = weft.Cluster.of(
        [
            weft.Device("a", setup={"x": weft.Setup(2.0, GB, pinned=True), "*": 1.0}, cache=3 * GB),
            weft.Device("b", switch=0.5),
        ]
    )
    weft.save(cluster, tmp_path / "c.json")
    weft.save(cluster, tmp_path / "c.npz")
    again = read_cluster_toml(write_cluster_toml(cluster).decode(), name="x")
    for other in (again, *map(weft.load_cluster, (tmp_path / "c.json", tmp_path / "c.npz"))):
        assert np.array_equal(other.setup_of(["x", "y"]), cluster.setup_of(["x", "y"]))
        assert np.array_equal(other.cache, cluster.cache)
        assert np.array_equal(other.switch, cluster.switch)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"setup": {"a": -1.0}}, "takes -1 s"),
        ({"setup": {"a": weft.Setup(1.0, 5.0)}, "cache": 4.0}, "needs 5 bytes"),
        ({"setup": {"*": weft.Setup(1.0, pinned=True)}}, "name the kinds"),
        ({"switch": -1.0}, "switch"),
    ],
)
def test_bad_set_ups_are_refused(options, complaint):
    with pytest.raises(weft.InvalidInput, match=complaint):
        weft.Cluster.of([weft.Device("gpu", **options)])


STREAM = """
jobs = 300
tick = "1 ms"
[arrivals]
process = "poisson"
gap = "50 ms"
[[tasks]]
name = "detect"
time = "10 ms"
then = "classify"
[[tasks]]
name = "classify"
time = "10 ms"
[[units]]
name = "gpu"
count = 2
batch = 4
setup = {{"*" = {{time = "40 ms", memory = "4 GB"}}}}
cache = "{cache}"
"""


def test_units_of_streams_that_hold_both_kinds_are_quicker():
    def jct(cache: str, rule: str) -> float:
        stream = read_stream_toml(STREAM.format(cache=cache), name="two stages")
        batch = StepBatch(stream, 1)
        batch.place(0, *stream.draw_ticks(1))
        ConditionalRule(rule).run(batch)
        return float(batch.jct(0).mean())

    assert jct("8 GB", "unit-fifo") < jct("4 GB", "unit-fifo")
    # The rule that counts the set-up stays with the kind that is loaded.
    assert jct("4 GB", "batch-aware") < jct("4 GB", "unit-fifo")


@settings(max_examples=60, deadline=None)
@given(problems(setups=True, max_tasks=6, max_devices=3))
def test_plans_count_the_set_up(problem):
    plan = weft.plan(problem, "heft")
    assert weft.check(problem, plan) == []
    assert plan.makespan >= plan.bound * (1 - 1e-9)
