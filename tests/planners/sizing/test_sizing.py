"""Sizing: against brute force over all clusters of small catalogues, drawn and real."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.programs import data_dir
from tests.support.strategies import problems
from weft.errors import InvalidInput
from weft.model import Device, Links
from weft.planners.sizing import offers_of
from weft.planners.whatif.changes import select_devices

LINKS = Links(bandwidth=1.25e9, latency=1e-4)
KINDS = {  # name: (how many, speed, price per hour)
    "large": (2, 4.0, 4.5),
    "medium": (2, 2.0, 1.9),
    "small": (3, 1.0, 1.0),
}


def cluster(counts):
    devices = [
        Device(f"{kind}-{i}", kind=kind, speed=KINDS[kind][1], price=KINDS[kind][2])
        for kind, n in counts.items()
        for i in range(n)
    ]
    return weft.Cluster.of(devices, LINKS)


def brute_force(workflow):
    """(seconds, cost) of heft on every cluster of the catalogue, each made by itself."""
    found = []
    for counts in product(*(range(n + 1) for n, _, _ in KINDS.values())):
        if any(counts):
            machines = cluster(dict(zip(KINDS, counts, strict=True)))
            seconds = weft.plan(weft.Problem.bind(workflow, machines), "heft").makespan
            found.append((seconds, machines.price.sum() * seconds / 3600.0))
    return found


def front_of(points):
    return sorted(
        {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    )


def agree(workflow):
    """Compare fronts, and the answers to several deadlines and budgets; return how many planned."""
    catalogue = cluster({kind: n for kind, (n, _, _) in KINDS.items()})
    points = brute_force(workflow)
    whole = weft.size(workflow, catalogue)
    assert whole.complete
    assert whole.planned + whole.excluded == whole.clusters == len(points) == 35
    np.testing.assert_allclose([(r.seconds, r.cost) for r in whole.front], front_of(points))
    for limit, limited, wanted in (("deadline", 0, 1), ("budget", 1, 0)):
        known = [point[limited] for point in points]
        for most in np.linspace(0.9 * min(known), 1.1 * max(known), 5):
            answer = weft.size(workflow, catalogue, **{limit: float(most)})
            able = [point[wanted] for point in points if point[limited] <= most]
            assert (answer.best is None) == (not able)
            if answer.best is not None:
                found = (answer.best.seconds, answer.best.cost)[wanted]
                assert found == pytest.approx(min(able))
                assert answer.bound <= found * (1 + 1e-9)
    return whole


@pytest.mark.parametrize("name", ["epigenomics", "montage", "soykb"])
def test_real_workflows_against_brute_force(name):
    folder = data_dir() / "wfinstances" / "dev" / name
    files = sorted(folder.glob("*.json.gz"), key=lambda f: (f.stat().st_size, f.name))
    if not files:
        pytest.skip(f"no workflows in {folder}")
    agree(weft.load(files[0], cluster=cluster({"large": 1})).workflow)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_workflows_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = 12
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 1))
    agree(
        weft.Workflow(
            work=rng.uniform(100, 2000, n),
            src=edges[:, 0],
            dst=edges[:, 1],
            data=rng.uniform(0, 1e11, len(edges)),
        )
    )


def test_bounds_exclude_clusters():
    # A chain gains nothing from a second machine: every larger cluster is excluded.
    chain = weft.Workflow(work=[3600.0] * 4, src=[0, 1, 2], dst=[1, 2, 3], data=[0.0] * 3)
    found = weft.size(chain, cluster({"small": 3, "large": 2}), deadline=3600.0)
    assert str(found.best) == "1 large"
    assert found.best.cost == found.bound == 4.5
    assert found.planned == 2  # one small for 4, one large for 4.5
    assert found.sentence == (
        "Rent 1 large: 1 h for 4.5; no schedule meets the deadline for less than 4.5. "
        "All 11 clusters of the catalogue were examined: 2 planned, 9 excluded by bounds."
    )
    hopeless = weft.size(chain, cluster({"small": 3}), deadline=3600.0)
    assert hopeless.best is None
    assert hopeless.bound == np.inf
    assert hopeless.sentence.startswith("No plan ends within 1 h; the fastest is 1 small")


@given(problems(), st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=4, max_size=4))
@settings(max_examples=25, deadline=None)
def test_drawn_problems_against_all_subsets(problem, prices):
    priced = weft.Problem.bind(
        problem.workflow,
        weft.Cluster(
            **{
                key: getattr(problem.cluster, key)
                for key in weft.Cluster.__dataclass_fields__
                if key != "price"
            },
            price=prices[: problem.p],
        ),
    )
    found = weft.size(priced)
    points = []
    for chosen in product((False, True), repeat=problem.p):
        devices = [d for d in range(problem.p) if chosen[d]]
        if devices and np.isfinite(priced.per_work[:, devices].min(axis=1))[priced.row].all():
            made = weft.plan(select_devices(priced, devices), "heft")
            points.append((made.makespan, made.cost))
    best = min(cost for _, cost in points)
    quick = min(seconds for seconds, _ in points)
    # Interchangeable devices give the same plans up to the order of names, so bounds agree.
    assert found.front[0].seconds <= quick * (1 + 1e-9)
    assert found.front[-1].cost <= best * (1 + 1e-9)
    for rental in found.front:
        assert weft.check(rental.plan.problem, rental.plan) == []


def test_local_search_of_a_large_catalogue():
    tasks = weft.Workflow(work=np.full(40, 360.0), src=[], dst=[], data=[])
    KINDS["tiny"] = (20, 0.5, 0.9)
    try:
        catalogue = cluster({"small": 20, "large": 20, "tiny": 20})
    finally:
        del KINDS["tiny"]
    found = weft.size(tasks, catalogue, deadline=400.0, most=400)
    assert not found.complete
    assert np.isnan(found.bound)
    assert found.clusters == 21**3 - 1
    assert found.planned <= 400
    # In 360 s 20 small ones run 20 tasks and 5 large ones 20: (20 + 5 x 4.5) / 10.
    assert str(found.best) == "20 small + 5 large"
    assert found.best.cost == pytest.approx(4.25)
    assert "Local search among 9,260 clusters" in found.sentence


@pytest.mark.parametrize("most", [1, 4096])
def test_nothing_to_do_and_machines_for_nothing(most):
    free = weft.Cluster(speed=[1.0, 2.0, 1.0], kinds=("a", "b", "a"), price=[0.0, 1.0, 0.0])
    nothing = weft.Workflow(work=[], src=[], dst=[], data=[])
    assert weft.size(nothing, free, most=most).front[0].seconds == 0.0
    found = weft.size(weft.Workflow(work=[2.0], src=[], dst=[], data=[]), free, most=4096)
    assert [(r.seconds, r.cost) for r in found.front] == [(1.0, 1 / 3600), (2.0, 0.0)]


def test_nodes_are_rented_whole():
    devices = [
        Device(f"n{i}-{j}", kind="gpu", node=f"n{i}", price=1.0) for i in range(2) for j in range(2)
    ]
    catalogue = weft.Cluster.of(devices, Links(bandwidth=1e9, node_bandwidth=1e11))
    tasks = weft.Workflow(work=[3600.0] * 2, src=[], dst=[], data=[])
    problem = weft.Problem.bind(tasks, catalogue)
    assert [(o.name, o.units, o.price) for o in offers_of(problem, whole_nodes=True)] == [
        ("2xgpu", ((0, 1), (2, 3)), 2.0)
    ]
    assert [o.name for o in offers_of(problem)] == ["gpu @ n0-0", "gpu @ n1-0"]
    found = weft.size(problem, deadline=7200.0, whole_nodes=True)
    assert str(found.best) == "1 2xgpu"
    assert found.best.cost == 2.0  # two devices for an hour


def test_bad_questions():
    tasks = weft.Workflow(work=[1.0], src=[], dst=[], data=[])
    with pytest.raises(InvalidInput, match="needs a catalogue: a cluster with prices"):
        weft.size(tasks)
    with pytest.raises(InvalidInput, match="no device of catalogue 'cluster' has a price"):
        weft.size(tasks, weft.Cluster(speed=[1.0]))
    with pytest.raises(InvalidInput, match="deadline is -1; it must be above zero"):
        weft.size(tasks, cluster({"small": 1}), deadline=-1)
