"""The first tasks of a graph that Dask places, on workers of unlike speed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weft.runtime.deciders.whole_plan import PlanRow

pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'weft-scheduling[dask]'"
)

from weft.runtime.backends.dask.first_tasks import place_first_tasks
from weft.runtime.backends.dask.tasks import work_seconds


def threads(*seconds, up=True):
    return [
        SimpleNamespace(site=SimpleNamespace(seconds=s, address=f"w{k}", up=up))
        for k, s in enumerate(seconds)
    ]


GRAPH = {
    "few": PlanRow(0, 0, ()),
    "most": PlanRow(1, 0, ()),
    "x": PlanRow(2, 0, (1,)),
    "y": PlanRow(3, 0, (2, 0)),
}
KINDS = {key: key for key in GRAPH}


def test_the_fastest_worker_gets_what_most_tasks_depend_on():
    assert place_first_tasks(GRAPH, KINDS, threads(4.0, 1.0, 2.0)) == {"most": "w1", "few": "w2"}


def test_dask_chooses_where_it_cannot_be_said_or_does_not_matter():
    assert place_first_tasks(GRAPH, KINDS, threads(1.4, 1.0, 1.0)) == {}  # alike
    assert place_first_tasks(GRAPH, KINDS, threads(4.0, 0.0, 1.0)) == {}  # one is not measured
    assert place_first_tasks(GRAPH, KINDS, []) == {}
    assert place_first_tasks(GRAPH, KINDS, threads(4.0)) == {}
    assert place_first_tasks(GRAPH, KINDS, threads(4.0, 1.0, up=False)) == {}


def test_many_tasks_of_a_kind_are_left_to_the_next_free_worker():
    many = {f"part{k}": PlanRow(k, 0, ()) for k in range(7)}
    alone = {"lone": PlanRow(7, 0, ()), "last": PlanRow(8, 0, tuple(range(8)))}
    kinds = {**dict.fromkeys(many, "part"), "lone": "lone", "last": "last"}
    assert place_first_tasks(many | alone, kinds, threads(2.0, 1.0, 1.5)) == {"lone": "w1"}
    assert (
        place_first_tasks(many | alone, kinds, threads(2.0, 1.0, 1.5, 1.5)) == {}
    )  # too few of a kind,
    # but more tasks than threads: Dask gives several to each worker


def test_a_worker_is_measured_once():
    assert work_seconds() == work_seconds() > 0
