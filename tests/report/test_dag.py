"""Workflows as pictures: layout, labels, summaries."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.report_examples import EVIL, layered
from weft.model import Workflow, WorkflowBuilder
from weft.report.dag_svg import TASKS_UP_TO, dag_svg
from weft.report.layers import crossings, lay_out

SVG = "{http://www.w3.org/2000/svg}"


def nodes(picture: str) -> list[str]:
    return [
        g.find(f"{SVG}text").text
        for g in ET.fromstring(picture).iter(f"{SVG}g")
        if g.get("class") == "node"
    ]


def test_every_task_and_edge_is_drawn():
    workflow = layered(60, 2).workflow
    picture = dag_svg(workflow)
    assert sorted(nodes(picture)) == sorted(workflow.task_names)
    assert picture.count('class="edge"') == workflow.m
    assert dag_svg(workflow) == picture


def test_branches_are_dashed_and_say_their_probability():
    b = WorkflowBuilder()
    for name in "abc":
        b.task(name)
    b.choice("a", {"left": 0.25, "right": 0.75})
    b.edge("a", "b", when="left")
    b.edge("a", "c", when="right")
    b.edge("b", "c")
    picture = dag_svg(b.build())
    assert picture.count("stroke-dasharray") == 2
    assert re.findall(r">(0\.\d+)</text>", picture) == ["0.25", "0.75"]
    assert "if left (probability 0.25)" in picture


def test_large_workflows_are_counted():
    workflow = layered(TASKS_UP_TO + 200, 2).workflow
    picture = dag_svg(workflow)
    counts = [int(label.split()[0]) for label in nodes(picture)]
    assert sum(counts) == workflow.n
    assert "600 tasks and" in picture
    assert "one box for each level and kind" in picture


def test_long_chains_and_many_kinds_are_banded():
    n = 2000
    chain = Workflow(
        work=np.ones(n),
        src=np.arange(n - 1),
        dst=np.arange(1, n),
        data=0.0,
        kind=np.arange(n) % 20,
        kinds=[f"k{i}" for i in range(20)],
    )
    picture = dag_svg(chain)
    assert "band of about 67 levels" in picture
    assert any("other" in label for label in nodes(picture))
    assert sum(int(label.split()[0]) for label in nodes(picture)) == n


def test_names_are_data_and_xml_stays_valid():
    workflow = Workflow(
        work=[1, 1],
        src=[0],
        dst=[1],
        data=[1],
        names=(EVIL, "\x00\x1b"),
        kinds=(EVIL, "b"),
        kind=[0, 1],
        name=EVIL,
    )
    picture = ET.fromstring(dag_svg(workflow))
    assert not [e for e in picture.iter() if "img" in e.tag]


def test_empty_and_single():
    for n in (0, 1):
        assert len(nodes(dag_svg(Workflow(work=np.ones(n), src=[], dst=[], data=[])))) == n


def test_known_crossings():
    # Two layers in order: (0, 3) and (1, 2) cross once; a full 2 x 2 has one crossing whatever the
    # order; K(3,3) has 9.
    assert crossings([[0, 1], [2, 3]], [[0, 3], [1, 2]]) == 1
    assert crossings([[0, 1], [2, 3]], [[0, 2], [0, 3], [1, 2], [1, 3]]) == 1
    assert crossings([[0, 1, 2], [3, 4, 5]], [[u, v] for u in range(3) for v in range(3, 6)]) == 9


def test_a_tangled_tree_is_untangled():
    # Six chains between shuffled ends: some order has no crossing.
    edges = [(k, 6 + (5 * k + 2) % 6) for k in range(6)]
    layout = lay_out([0] * 6 + [1] * 6, edges)
    assert crossings(layout.layers, layout.paths) == 0


@given(st.integers(2, 25), st.integers(0, 10_000))
@settings(max_examples=40)
def test_order_never_gets_worse_and_nodes_keep_their_distance(n, seed):
    rng = np.random.default_rng(seed)
    levels = np.sort(rng.integers(0, 4, n))
    levels = np.unique(levels, return_inverse=True)[1].tolist()
    edges = [
        (u, v) for u in range(n) for v in range(n) if levels[u] < levels[v] and rng.random() < 0.2
    ]
    layout = lay_out(levels, edges)
    first = [
        [v for v in range(len(layout.layer_of)) if layout.layer_of[v] == k]
        for k in range(len(layout.layers))
    ]
    assert crossings(layout.layers, layout.paths) <= crossings(first, layout.paths)
    assert [sorted(layer) for layer in layout.layers] == first
    for layer in layout.layers:
        places = layout.place[[v for v in layer if v < n]]
        assert (np.diff(places) >= 1 - 1e-9).all()
    for (u, v), path in zip(edges, layout.paths, strict=True):
        assert (path[0], path[-1]) == (u, v)
        assert [layout.layer_of[x] for x in path] == list(range(levels[u], levels[v] + 1))


def recurring(kinds: int):
    """400 levels that each have one task of every kind, so that the picture is a summary."""
    n = 400 * kinds
    return Workflow(
        work=[1.0] * n,
        src=list(range(n - kinds)),
        dst=[t + kinds for t in range(n - kinds)],
        data=[1.0] * (n - kinds),
        kind=[t % kinds for t in range(n)],
        kinds=tuple(f"kind{k}" for k in range(kinds)),
    )


def test_a_kind_keeps_its_row_and_the_colour_of_the_chart():
    node = re.compile(r'class="node".*?kind (kind\d)</title><rect [^>]*?y="([^"]+)"[^>]*--(c\d+)')
    found = node.findall(dag_svg(recurring(3), legend=False))
    assert {(name, color) for name, _, color in found} == {(f"kind{k}", f"c{k}") for k in range(3)}
    assert len({(name, y) for name, y, _ in found}) == 3


def test_one_kind_too_many_is_shown_and_two_are_others():
    assert "other" not in dag_svg(recurring(9))
    assert "other" in dag_svg(recurring(10))
