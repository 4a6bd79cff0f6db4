"""DOT, the language of Graphviz: a useful subset to read, and workflows to write.

Read: one ``digraph`` with nodes, chains of edges, subgraphs (flattened), default attributes,
comments. Node attributes ``work``, ``kind``, ``memory``, ``cores`` and ``durations`` (a JSON
object); edge attribute ``data`` or ``bytes``, or a ``label`` that is a number. Sizes may have
units. All other attributes are drawing and are skipped. Where no node has ``work``, each has one
unit, and a warning says so. A node's ``label`` is the name of its task.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.graphs.taskgraph import number_kinds, whole_cores
from weft.formats.holding import REMEDY
from weft.formats.native.weft_json import write_json
from weft.formats.parsing.limits import check_cells, check_graph, max_cells
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import parse_json
from weft.model import Workflow

Attributes = dict[str, str]

_TOKEN = re.compile(  # possessive and atomic: linear in the length of the text
    r"""(?P<space>\s++|//[^\n]*+|(?>/\*.*?\*/)|\#[^\n]*+)
      | "(?P<quoted>(?:[^"\\]|\\.)*+)"
      | (?P<word>-?(?:\.\d++|\d++(?:\.\d*+)?)(?![\w.])|[^\W\d]\w*+)
      | (?P<stop>;[\s;]*+)
      | (?P<mark>->|--|[{}\[\],=:])
      | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
TOKEN_CELLS = 16
"""Cells that one token counts for: reading a million takes about a second."""

_READ = frozenset(
    {"work", "kind", "memory", "cores", "durations", "data", "bytes", "label", "when"}
)
"""The attributes that are read; the others are for drawing."""
_ESCAPE = re.compile(r'\\(["\\])')


class AssumedWork(UserWarning):
    """A graph without durations counts every task as one unit of work."""


@dataclass
class _Graph:
    nodes: dict[str, Attributes] = field(default_factory=dict)
    edges: list[tuple[str, str, Attributes]] = field(default_factory=list)
    name: str | None = None


class _Tokens:
    """The tokens of a text, one ahead: (is it a mark, text, position)."""

    def __init__(self, text: str) -> None:
        self._all = text
        self._stream = self._scan(text)
        self.is_mark, self.text, self._at = next(self._stream)

    @property
    def line(self) -> int:
        """The line of the next token, counted only where an error needs it."""
        return self._all.count("\n", 0, self._at) + 1

    @staticmethod
    def _scan(text: str) -> Iterator[tuple[bool, str, int]]:
        most = max_cells() // TOKEN_CELLS
        count = 0
        for match in _TOKEN.finditer(text):
            found = match.lastgroup
            if found == "space":
                continue
            count += 1
            if count > most:
                check_cells(TOKEN_CELLS * count, f"a graph of {count} words and marks or more")
            if found == "word":
                yield False, match[0], match.start()
            elif found == "mark":
                yield True, match[0], match.start()
            elif found == "stop":
                yield True, ";", match.start()
            elif found == "quoted":
                yield False, _ESCAPE.sub(r"\1", match["quoted"]), match.start()
            elif found == "unknown":
                at = match.start()
                raise InvalidInput(
                    f"line {text.count(chr(10), 0, at) + 1}: {shown(text[at : at + 20])} is not "
                    "understood (HTML labels and undirected graphs are not read)"
                )
        while True:
            yield True, "", len(text)

    def next(self) -> str:
        text = self.text
        self.is_mark, self.text, self._at = next(self._stream)
        return text

    def take(self, mark: str) -> bool:
        """Skip a mark if it is the next token; return whether it was."""
        if self.is_mark and self.text == mark and mark:
            self.next()
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self._unexpected(f"'{mark}'")

    def word(self) -> str:
        if self.is_mark:
            raise self._unexpected("a name")
        return self.next()

    def _unexpected(self, wanted: str) -> InvalidInput:
        found = shown(self.text) if self.text else "the end of the file"
        return InvalidInput(f"line {self.line}: {wanted} was expected, {found} found")


def read_dot(text: str, *, name: str) -> Workflow:
    """Return the workflow of a DOT text.

    Examples
    --------
    >>> text = 'digraph g { a [work=2]; b [work=3, kind="conv"]; a -> b [data="1 kB"] }'
    >>> w = read_dot(text, name="file")
    >>> w.name, w.work.tolist(), w.data.tolist()
    ('g', [2.0, 3.0], [1000.0])
    """
    graph = _parse(_Tokens(text))
    names = _task_names(graph.nodes)
    rows = list(graph.nodes.values())
    check_graph(len(names), len(graph.edges))
    index = {node: i for i, node in enumerate(graph.nodes)}
    kinds, kind = number_kinds([row.get("kind", "task") for row in rows])
    workflow = Workflow(
        name=graph.name or name,
        names=names,
        kinds=kinds,
        kind=kind,
        work=_work(graph.nodes),
        memory=np.array(
            [
                quantity(row.get("memory", 0.0), "bytes", f"memory of task '{t}'")
                for t, row in graph.nodes.items()
            ],
            float,
        ),
        cores=whole_cores(
            np.array(
                [
                    quantity(row.get("cores", "1"), "number", f"cores of task '{t}'")
                    for t, row in graph.nodes.items()
                ],
                float,
            ),
            names,
        ),
        durations=_durations(graph.nodes),
        src=np.array([index[e[0]] for e in graph.edges], np.int64),
        dst=np.array([index[e[1]] for e in graph.edges], np.int64),
        data=np.array([_data(*edge) for edge in graph.edges], float),
    )
    if workflow.n and not _with_costs(graph.nodes):
        warnings.warn(
            f"no node of graph '{workflow.name}' has a duration, so every task counts as 1 s on a "
            "device of speed 1; give durations as attributes: a [work=2.5] or "
            'a [durations="{\\"cpu\\": 2.5}"]',
            AssumedWork,
            stacklevel=2,
        )
    return workflow


def _task_names(nodes: dict[str, Attributes]) -> tuple[str, ...]:
    """Return the labels; those of several nodes get the identifiers of their nodes."""
    labels = []
    for node, row in nodes.items():
        label = row.get("label", "")
        if label.startswith(f"{node}\n"):  # as `write_dot` writes it
            label = node
        lines = re.split(r"\\[nlr]|\n", label.replace(r"\N", node))
        labels.append(node if label == node else " ".join(" ".join(lines).split()) or node)
    count = Counter(labels)
    names = tuple(
        label if count[label] == 1 else f"{label} ({node})"
        for node, label in zip(nodes, labels, strict=True)
    )
    return names if len(dict.fromkeys(names)) == len(names) else tuple(nodes)


def _parse(tokens: _Tokens) -> _Graph:
    graph = _Graph()
    if not tokens.is_mark and tokens.text.lower() == "strict":
        tokens.next()
    if tokens.word().lower() != "digraph":
        raise InvalidInput("is not a directed graph; it must begin with 'digraph'")
    if not tokens.is_mark:
        graph.name = tokens.next()
    tokens.expect("{")
    defaults: list[tuple[Attributes, Attributes]] = [
        ({}, {})
    ]  # of nodes and of edges, one entry per level of subgraphs
    while defaults:
        if tokens.take("}"):
            defaults.pop()
        elif tokens.take("{"):
            defaults.append((dict(defaults[-1][0]), dict(defaults[-1][1])))
        elif not tokens.take(";") and not tokens.take(","):
            _statement(tokens, graph, defaults[-1])
    if tokens.text or not tokens.is_mark:
        raise InvalidInput(f"line {tokens.line}: {shown(tokens.text)} follows the end of the graph")
    return graph


def _statement(tokens: _Tokens, graph: _Graph, defaults: tuple[Attributes, Attributes]) -> None:
    word = tokens.word()
    if word.lower() == "subgraph":
        if not tokens.is_mark:
            tokens.next()
        return
    if word.lower() in {"node", "edge", "graph"} and tokens.is_mark and tokens.text == "[":
        given = _attributes(tokens)
        if word.lower() != "graph":
            defaults[word.lower() == "edge"].update(given)
        return
    if tokens.take("="):
        tokens.word()
        return
    chain = [_node(word, tokens)]
    while tokens.take("->"):
        if tokens.is_mark and tokens.text == "{":
            raise InvalidInput(
                f"line {tokens.line}: an edge to a group of nodes is not read; write one edge "
                "per node"
            )
        chain.append(_node(tokens.word(), tokens))
    given = _attributes(tokens)
    for node in chain:
        graph.nodes.setdefault(node, dict(defaults[0]))
    if len(chain) == 1:
        graph.nodes[word].update(given)
    graph.edges += [(a, b, {**defaults[1], **given}) for a, b in pairwise(chain)]


def _node(word: str, tokens: _Tokens) -> str:
    while tokens.take(":"):  # a port only places the end of an arrow
        tokens.word()
    return word


def _attributes(tokens: _Tokens) -> Attributes:
    made: Attributes = {}
    while tokens.take("["):
        while not tokens.take("]"):
            key = tokens.word()
            value = tokens.word() if tokens.take("=") else "true"
            if key in _READ:
                made[key] = value
            if not tokens.take(","):
                tokens.take(";")
    return made


def _with_costs(nodes: dict[str, Attributes]) -> list[str]:
    return [task for task, row in nodes.items() if "work" in row or "durations" in row]


def _work(nodes: dict[str, Attributes]) -> np.ndarray:
    given = _with_costs(nodes)
    if not given:
        return np.ones(len(nodes))
    if len(given) < len(nodes):
        missing = next(
            task for task, row in nodes.items() if "work" not in row and "durations" not in row
        )
        raise InvalidInput(
            f"task '{missing}' has no work, while task '{given[0]}' has; give it to all or to none"
        )
    return np.array(
        [
            quantity(row.get("work", "0"), "number", f"work of task '{task}'")
            for task, row in nodes.items()
        ],
        float,
    )


def _durations(nodes: dict[str, Attributes]) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    # A default of durations is written once in the file but makes a row for every node.
    length = sum(len(row.get("durations", "")) for row in nodes.values())
    check_cells(length, f"durations of {length} characters in all")
    for i, (task, row) in enumerate(nodes.items()):
        if "durations" in row:
            given = Record(parse_json(row["durations"]), f"durations of task '{task}'")
            for device in given.content:
                seconds = given.floats(device, np.nan)
                if seconds.ndim:
                    raise InvalidInput(
                        f"duration of task '{task}' on '{device}' is {shown(seconds)}; it must be "
                        "a number"
                    )
                if device not in columns:
                    devices = len(columns) + 1
                    what = f"durations of {len(nodes)} tasks on {devices} devices"
                    check_cells(devices * len(nodes), what)
                    columns[device] = np.full(len(nodes), np.nan)
                columns[device][i] = seconds
    return columns


def _data(src: str, dst: str, row: Attributes) -> float:
    if "when" in row:
        raise InvalidInput(
            f"edge '{src}' -> '{dst}' belongs to a branch ('{row['when']}'), which DOT cannot say "
            "in full; use weft JSON"
        )
    for key in ("data", "bytes"):
        if key in row:
            return quantity(row[key], "bytes", f"{key} of edge '{src}' -> '{dst}'")
    try:
        return quantity(row.get("label", "0"), "bytes", "label")
    except InvalidInput:  # a label is free text; if it is no size, the edge has no data
        return 0.0


def write_dot(workflow: Workflow) -> bytes:
    """Return a DOT graph that `read_dot` reads as the same workflow."""
    if not workflow.name:
        raise InvalidInput("the workflow has the name '', which dot cannot hold; rename it")
    if workflow.durations and not workflow.n:
        raise InvalidInput(
            f"workflow '{workflow.name}' has durations of no task, which dot cannot hold; {REMEDY}"
        )
    lines = [f"digraph {_quoted(workflow.name)} {{"]
    lines += [
        f"  {_quoted(workflow.task_name(t))} [{_node_text(workflow, t)}];"
        for t in range(workflow.n)
    ]
    for e, (u, v) in enumerate(zip(workflow.src.tolist(), workflow.dst.tolist(), strict=True)):
        lines.append(
            f"  {_quoted(workflow.task_name(u))} -> {_quoted(workflow.task_name(v))} "
            f"[{_edge_text(workflow, e)}];"
        )
    return ("\n".join([*lines, "}"]) + "\n").encode("utf-8")


def _node_text(w: Workflow, t: int) -> str:
    kind = w.kinds[int(w.kind[t])]
    label = _quoted(f"{w.task_name(t)}\n{kind}, {w.work[t]:g}")
    made = f"label={label}, work={_quoted(repr(float(w.work[t])))}, kind={_quoted(kind)}"
    made += f", memory={_quoted(repr(float(w.memory[t])))}, cores={int(w.cores[t])}"
    if w.durations:
        durations = {
            device: column[t : t + 1].reshape(()) for device, column in w.durations.items()
        }
        made += f", durations={_quoted(' '.join(write_json(durations).decode().split()))}"
    return made


def _edge_text(w: Workflow, e: int) -> str:
    return f"label={_quoted(f'{w.data[e]:g} B')}, data={_quoted(repr(float(w.data[e])))}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
