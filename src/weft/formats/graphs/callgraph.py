"""Conditional call graphs (`conditional-graph-v1`): calls of services as choices.

Services are tasks. Every call that is not made by all requests is a choice of its own with the
branches "call" and "skip". Calls of real requests depend on each other, so the graph comes with the
counted shapes of requests, from which `draw` draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_cells, check_graph
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes
from weft.model import Workflow, WorkflowBuilder
from weft.model.columns import FloatArray, IntArray

FORMAT = "conditional-graph-v1"
CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class CallGraph:
    """A graph with choices; (shapes, choices) branches of requests and their counts."""

    workflow: Workflow
    shapes: IntArray
    counts: FloatArray

    def draw(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """Draw (jobs, choices) branches of requests from those that were counted."""
        drawn: IntArray = self.shapes[
            rng.choice(len(self.shapes), size=jobs, p=self.counts / self.counts.sum())
        ]
        return drawn


def load_callgraph(path: str | Path) -> CallGraph:
    """Read a call graph, JSON or gzipped JSON."""
    path = Path(path)
    with naming(str(path)):
        text = decode_text(read_bytes(path))
        record = Record(parse_json(text))
        if record.text("format") != FORMAT:
            raise InvalidInput(f"is of format '{record.text('format')}'; expected '{FORMAT}'")
        return _graph(record)


def _graph(record: Record) -> CallGraph:
    names = record.child("nodes").strings("name")
    edges = record.child("edges")
    src, dst = edges.integers("src"), edges.integers("dst")
    share = edges.floats("prob_given_src")
    if (
        not src.shape == dst.shape == share.shape == (src.size,)
        or not ((share >= 0) & (share <= 1)).all()
    ):
        raise InvalidInput(
            "its edges need src, dst and prob_given_src of one length, probabilities within [0, 1]"
        )
    if len(src) and (min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= len(names)):
        raise InvalidInput(f"its edges name nodes beyond the {len(names)} there are")
    check_graph(len(names), len(src))
    builder = WorkflowBuilder(record.text("id"))
    for name in names:
        builder.task(name, work=1.0, kind=name)
    choice_of: dict[int, int] = {}
    for e in range(len(src)):
        u, v = names[src[e]], names[dst[e]]
        if share[e] >= CERTAIN:
            builder.edge(u, v)
            continue
        call = f"call {v}"
        builder.choice(u, {call: float(share[e]), f"skip {v}": 1.0 - float(share[e])})
        builder.edge(u, v, when=call)
        choice_of[e] = len(choice_of)
    variants = record.children("variants")
    check_cells(
        len(variants) * len(choice_of), f"{len(variants)} variants of {len(choice_of)} choices"
    )
    shapes = np.ones((len(variants), len(choice_of)), np.int64)
    for i, variant in enumerate(variants):
        for e in np.atleast_1d(variant.integers("edges")).tolist():
            if e in choice_of:
                shapes[i, choice_of[e]] = 0
    counts = [variant.floats("count") for variant in variants]
    for variant, count in zip(variants, counts, strict=True):
        if count.ndim or not 0 <= float(count) < np.inf:
            raise InvalidInput(
                f"{variant.path('count')} is {shown(variant.raw('count'))}; it must be a finite "
                "number, zero or more"
            )
    return CallGraph(builder.build(), shapes, np.array(counts, float))
