"""Insertion on many devices with mostly equal links, against the insertion for any links."""

from __future__ import annotations

import numpy as np
import pytest

from weft.model import Cluster, Device, Links, Problem, Schedule, Workflow
from weft.model import check as oracle
from weft.model.check import check
from weft.planners import plan
from weft.planners.lists import common_link as module
from weft.planners.lists.common_link import common_link, insert
from weft.planners.lists.heft import insert_in_order
from weft.planners.lists.insertion import ANYWHERE
from weft.planners.lists.ranks import rank_order
from weft.sim.kernel.ranks import upward_rank


def drawn(seed: int, *, links: Links, n: int = 300, p: int = 130) -> Problem:
    """Draw a problem with ties: few different speeds, works and sizes, tasks without any."""
    rng = np.random.default_rng(seed)
    src, dst = np.sort(rng.integers(0, n, (2, 2 * n)), axis=0)
    pairs = np.unique(np.stack([src, dst], axis=1)[src < dst], axis=0)
    workflow = Workflow(
        work=rng.choice([0.0, 1.0, 2.0, 2.5], n),
        src=pairs[:, 0],
        dst=pairs[:, 1],
        data=rng.choice([0.0, 1.0, 4.0], len(pairs)),
        memory=rng.choice([1.0, 8.0], n),
    )
    devices = [
        Device(
            f"d{i}",
            node=f"n{i // 4}",
            speed=float(rng.choice([1.0, 2.0, 3.0])),
            memory=float(rng.choice([2.0, 16.0])),
        )
        for i in range(p)
    ]
    return Problem.bind(workflow, Cluster.of(devices, links))


LINKS = {
    "equal": Links(bandwidth=2.0, latency=0.1),
    "free": Links(),
    "nodes": Links(bandwidth=1.0, latency=0.5, node_bandwidth=8.0, node_latency=0.0),
}


@pytest.mark.parametrize("large", [10, 10_000], ids=["renumbered", "as given"])
@pytest.mark.parametrize("links", LINKS)
def test_the_same_plan_as_for_any_links(
    links: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE", large)
    for seed in range(4):
        problem = drawn(seed, links=LINKS[links])
        a, order = problem.arrays, rank_order(problem, upward_rank(problem))
        link = common_link(a.latency, a.per_byte)
        assert link is not None
        assert link.alone == (links != "nodes")
        able = np.isfinite(problem.per_work[problem.row]).argmax(axis=1)
        some = np.where(np.arange(problem.n) % 3 == 0, able, ANYWHERE)
        for pin in (np.full(problem.n, ANYWHERE), some):
            expected, found = insert_in_order(a, order, pin), insert(a, order, pin)
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, other)
        assert check(problem, plan(problem, "heft")) == []


def test_links_that_differ_have_no_common_one() -> None:
    rng = np.random.default_rng(0)
    every = rng.random((150, 150))
    assert common_link(every, every) is None
    assert common_link(np.zeros((8, 8)), np.ones((8, 8))) is None  # few devices


def test_the_oracle_reads_inputs_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn(1, links=LINKS["nodes"], p=8)
    arrays = plan(problem, "heft").schedule.to_arrays()
    arrays["start"][5:] *= 0.5
    arrays["finish"][5:] = arrays["start"][5:] + 0.5 * (arrays["finish"][5:] - arrays["start"][5:])
    broken = Schedule.of(**arrays)
    whole = check(problem, broken)
    assert any(violation.rule in ("order", "transfer") for violation in whole)
    monkeypatch.setattr(oracle, "INPUT_ROWS", 7)
    assert check(problem, broken) == whole
