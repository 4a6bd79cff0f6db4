"""The workflow as a picture: an SVG drawn by levels, without any dependency."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

import numpy as np

from weft.model import Workflow
from weft.model.explain.quantities import format_bytes, format_number
from weft.model.workflow import ALWAYS
from weft.report.labels import escaped, shortened
from weft.report.layers import Layout, in_rows, lay_out
from weft.report.palette import CATEGORIES, swatch, variable

TASKS_UP_TO = 400
"""Larger workflows are drawn by level and kind, with counts."""
EDGES_UP_TO = 2500
BANDS, KINDS = 30, 8
OTHER = -1
"""The colour of several kinds together: grey."""
NODE, ROW, GAP = 24, 34, 64
"""Pixels: height of a node, distance of rows, width between levels."""
LETTER = 7.2
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class _DagNode:
    label: str
    about: str
    kind: int
    level: int
    task: int = -1  # -1: several tasks


@dataclass(frozen=True)
class _Edge:
    src: int
    dst: int
    about: str
    label: str = ""
    dashed: bool = False
    width: float = 1.2


@dataclass(frozen=True)
class _DagPicture:
    nodes: list[_DagNode]
    edges: list[_Edge]
    kinds: list[tuple[int, str]]
    note: str
    rows: list[int] = field(default_factory=list)  # of the nodes, if they are fixed


def dag_legend(workflow: Workflow) -> str:
    """Return kinds and colours of a workflow, and the note of a summary, as HTML."""
    picture = _picture(workflow)
    keys = "".join(
        swatch(_fill(kind), escaped(shortened(name, 32)))
        for kind, name in (picture.kinds if len(picture.kinds) > 1 else [])
    )
    note = f"<span>{escaped(picture.note)}</span>" if picture.note else ""
    return f'<p class="keys">{keys}{note}</p>' if keys or note else ""


def dag_svg(workflow: Workflow, *, legend: bool = True) -> str:
    """Draw a workflow by levels, coloured by kind; edges of a choice are dashed.

    Examples
    --------
    >>> w = Workflow(work=[1, 2], src=[0], dst=[1], data=[8e6])
    >>> dag_svg(w).count('class="node"')
    2
    """
    picture = _picture(workflow)
    levels, edges = [node.level for node in picture.nodes], [(e.src, e.dst) for e in picture.edges]
    layout = in_rows(picture.rows, levels, edges) if picture.rows else lay_out(levels, edges)
    return _drawn(workflow, picture, layout, legend)


def _picture(workflow: Workflow) -> _DagPicture:
    large = workflow.n > TASKS_UP_TO or workflow.m > EDGES_UP_TO
    return _summary(workflow) if large else _tasks(workflow)


def _tasks(workflow: Workflow) -> _DagPicture:
    nodes = [
        _DagNode(
            shortened(workflow.task_name(t), 20),
            _about(workflow, t),
            int(workflow.kind[t]),
            int(workflow.level[t]),
            t,
        )
        for t in range(workflow.n)
    ]
    edges = [_task_edge(workflow, e) for e in range(workflow.m)]
    used = np.unique(workflow.kind).tolist()
    return _DagPicture(nodes, edges, [(k, workflow.kinds[k]) for k in used], "")


def _about(workflow: Workflow, task: int) -> str:
    parts = [workflow.task_name(task), f"kind {workflow.kinds[workflow.kind[task]]}"]
    if workflow.work[task]:
        parts.append(f"work {format_number(float(workflow.work[task]))}")
    if workflow.memory[task]:
        parts.append(f"memory {format_bytes(float(workflow.memory[task]))}")
    return ", ".join(parts)


def _task_edge(workflow: Workflow, edge: int) -> _Edge:
    u, v = int(workflow.src[edge]), int(workflow.dst[edge])
    about = (
        f"{workflow.task_name(u)} → {workflow.task_name(v)}: "
        f"{format_bytes(float(workflow.data[edge]))}"
    )
    choices, choice = workflow.choices, int(workflow.choices.edge_choice[edge])
    if choice == ALWAYS:
        return _Edge(u, v, about)
    branch = choices.branches(choice)[int(choices.edge_branch[edge])]
    share = format_number(float(choices.probability[branch]), digits=3)
    return _Edge(
        u, v, f"{about}, if {choices.labels[branch]} (probability {share})", share, dashed=True
    )


def _summary(workflow: Workflow) -> _DagPicture:
    """Merge the tasks of a kind on a level, or on a band of levels if there are many."""
    levels = int(workflow.level.max()) + 1
    bands = min(BANDS, levels)
    band = workflow.level * bands // levels
    shown, group = _shown_kinds(workflow)
    key = band * len(shown) + group[workflow.kind]
    found, member, count = np.unique(key, return_inverse=True, return_counts=True)
    nodes, rows = [], []
    for code, size in zip(found.tolist(), count.tolist(), strict=True):
        level, row = divmod(code, len(shown))
        kind, name = shown[row]
        label = shortened(f"{size:,} {TIMES} {name}", 22)
        nodes.append(_DagNode(label, f"{size:,} tasks of kind {name}", kind, level))
        rows.append(row)
    edges = _summed_edges(workflow, member.reshape(-1), band, len(found))
    by = "level" if bands == levels else f"band of about {levels / bands:.0f} levels"
    note = (
        f"{workflow.n:,} tasks and {workflow.m:,} edges, drawn as one box for each {by} and kind "
        "with the number of its tasks"
    )
    inside = "" if bands == levels else "; edges inside a band are left out"
    recurring = len(nodes) > 1.5 * len(shown)  # then a row for each kind is easier to follow
    return _DagPicture(nodes, edges, shown, note + inside, rows if recurring else [])


def _shown_kinds(workflow: Workflow) -> tuple[list[tuple[int, str]], np.ndarray]:
    """Return colours and names of kinds that have one, and the row of every kind."""
    count = np.bincount(workflow.kind, minlength=len(workflow.kinds))
    most = KINDS + (len(count) == KINDS + 1)  # "other" is at least two kinds
    common = np.sort(np.argsort(-count, kind="stable")[:most])
    group = np.full(len(workflow.kinds), len(common))
    group[common] = np.arange(len(common))
    shown = [(k, workflow.kinds[k]) for k in common.tolist()]
    if len(common) < len(workflow.kinds):
        shown.append((OTHER, "other"))
    return shown, group


def _summed_edges(
    workflow: Workflow, member: np.ndarray, band: np.ndarray, groups: int
) -> list[_Edge]:
    across = band[workflow.src] < band[workflow.dst]
    key = member[workflow.src[across]] * groups + member[workflow.dst[across]]
    found, where, count = np.unique(key, return_inverse=True, return_counts=True)
    data = np.bincount(where.reshape(-1), weights=workflow.data[across], minlength=len(found))
    maybe = np.bincount(
        where.reshape(-1),
        weights=workflow.choices.edge_choice[across] != ALWAYS,
        minlength=len(found),
    )
    edges = []
    for k, code in enumerate(found.tolist()):
        about = f"{int(count[k]):,} edges, {format_bytes(float(data[k]))}"
        width = 1.0 + min(5.0, float(np.log10(count[k])) * 1.3)
        edges.append(
            _Edge(
                code // groups, code % groups, about, dashed=bool(maybe[k] == count[k]), width=width
            )
        )
    return edges


# -- drawing ----------------------------------------------------------------------


def _drawn(workflow: Workflow, picture: _DagPicture, layout: Layout, with_legend: bool) -> str:
    left, wide, width = _columns(picture, layout)
    low = float(layout.place.min(initial=0.0))
    y = (layout.place - low + 0.5) * ROW + 8
    legend, foot = "", layout.height * ROW + 14
    if with_legend:
        legend, foot = _legend(picture, width, layout.height * ROW + 28)
    width = max(width, 320.0)
    body = [
        _edge(picture.edges[e], path, left, wide, y, layout) for e, path in enumerate(layout.paths)
    ]
    body += [
        _node(node, left[node.level], wide[node.level], float(y[v]))
        for v, node in enumerate(picture.nodes)
    ]
    title = f"Workflow {workflow.name}: {workflow.n:,} tasks, {workflow.m:,} edges"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {foot:.0f}" '
        f'width="{width:.0f}" height="{foot:.0f}" '
        f'font-family="system-ui,-apple-system,Segoe UI,Liberation Sans,sans-serif" font-size="12">'
        f"<title>{escaped(title)}</title><desc>{escaped(picture.note or title)}</desc>"
        f"{''.join(body)}{legend}</svg>"
    )


def _columns(picture: _DagPicture, layout: Layout) -> tuple[list[float], list[float], float]:
    """Return left edge and width of each level; gaps grow with the spread of edges."""
    wide = [40.0] * len(layout.layers)
    for node in picture.nodes:
        wide[node.level] = max(wide[node.level], len(node.label) * LETTER + 18)
    left, x = [], 12.0
    for level, size in enumerate(wide):
        left.append(x)
        crowd = len(layout.layers[level + 1]) if level + 1 < len(layout.layers) else 0
        x += size + GAP + min(90.0, 2.0 * max(crowd, len(layout.layers[level])))
    return left, wide, (left[-1] + wide[-1] if left else 0.0) + 12


def _fill(kind: int) -> str:
    return variable("muted" if kind == OTHER else f"c{kind % len(CATEGORIES)}")


def _ink(kind: int) -> str:
    return variable("paper" if kind == OTHER else f"i{kind % len(CATEGORIES)}")


def _node(node: _DagNode, x: float, width: float, y: float) -> str:
    box = (
        f'<rect x="{x:.1f}" y="{y - NODE / 2:.1f}" width="{width:.1f}" height="{NODE}" rx="6" '
        f'style="fill:{_fill(node.kind)}"/>'
    )
    place = f'x="{x + width / 2:.1f}" y="{y + 4:.1f}" text-anchor="middle"'
    text = f'<text {place} style="fill:{_ink(node.kind)}">{escaped(node.label)}</text>'
    task = f' data-task="{node.task}"' if node.task >= 0 else ""
    return f'<g class="node"{task}><title>{escaped(node.about)}</title>{box}{text}</g>'


def _edge(
    edge: _Edge,
    path: list[int],
    left: list[float],
    wide: list[float],
    y: np.ndarray,
    layout: Layout,
) -> str:
    spans = [
        (left[layout.layer_of[v]], left[layout.layer_of[v]] + wide[layout.layer_of[v]], float(y[v]))
        for v in path
    ]
    here, height = spans[0][1], spans[0][2]
    line = [f"M{here:.1f} {height:.1f}"]
    for begin, end, at in spans[1:]:
        bend = (begin - here) / 2
        line.append(
            f"C{here + bend:.1f} {height:.1f} {begin - bend:.1f} {at:.1f} {begin:.1f} {at:.1f}"
        )
        line.append(f"H{end:.1f}")
        here, height = end, at
    dash = ' stroke-dasharray="5 4"' if edge.dashed else ""
    style = (
        f'fill="none" style="stroke:{variable("muted")}" stroke-width="{edge.width:.1f}" '
        f'stroke-opacity="0.55"{dash}'
    )
    curve = f'<path d="{" ".join(line[:-1])}" {style}/>'
    return (
        f'<g class="edge"><title>{escaped(edge.about)}</title>{curve}{_edge_label(edge, spans)}</g>'
    )


def _edge_label(edge: _Edge, spans: list[tuple[float, float, float]]) -> str:
    if not edge.label:
        return ""
    (_, end, y0), (begin, _, y1) = spans[0], spans[1]
    halo = (
        f'style="fill:{variable("ink")};stroke:{variable("paper")}" stroke-width="4" '
        'paint-order="stroke"'
    )
    # The point of the curve at t = 0.7: past the middle, where branches have parted.
    x, y = end + (begin - end) * 0.658, y0 + (y1 - y0) * 0.784 + 4
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="11"'
    return f"<text {place} {halo}>{escaped(edge.label)}</text>"


def _legend(picture: _DagPicture, width: float, y: float) -> tuple[str, float]:
    """Return kinds in rows below the picture, a summary's note, and the height so far."""
    parts, x, room = [], 12.0, max(width, 320.0)
    for kind, name in picture.kinds if len(picture.kinds) > 1 else []:
        label = shortened(name, 24)
        size = 30 + len(label) * LETTER
        if x + size > room and x > 12:
            x, y = 12.0, y + 20
        square = (
            f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" rx="3" '
            f'style="fill:{_fill(kind)}"/>'
        )
        parts.append(
            f'{square}<text x="{x + 17:.1f}" y="{y:.1f}" '
            f'style="fill:{variable("ink")}">{escaped(label)}</text>'
        )
        x += size
    for line in textwrap.wrap(picture.note, max(20, int((room - 24) / 6.2))):
        y += 20
        parts.append(
            f'<text x="12" y="{y:.1f}" style="fill:{variable("muted")}">{escaped(line)}</text>'
        )
    return "".join(parts), y + 14
