"""One policy for any conditional graph, compared with all rules on unseen graphs.

Seeds of random streams are not used in training. Call graphs of real services come from
$WEFT_DATA if it is set; they have no durations and units, so these are drawn as for random streams,
and jobs are drawn from the recorded requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.conditional.contenders import number
from weft.experiments.harness import data_folder
from weft.formats.graphs.callgraph import CallGraph, load_callgraph
from weft.generators.conditional_streams import (
    conditional_stream_of,
    own_kinds,
    random_conditional_stream,
)
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import WINDOW
from weft.policies.conditional.pair_network import PairPolicy
from weft.policies.conditional.rules import RULES, ConditionalRule
from weft.report.statistics import half_width
from weft.rng import generator
from weft.sim.vector.batch import StepBatch, StepOptions

UNSEEN = 90_000_000
"""First seed of the evaluation."""
ANY = "any"
SETS = {
    "random": "random conditional graphs of 4 to 14 tasks on one to six units",
    "larger": "random conditional graphs of 20 to 30 tasks, larger than any in training",
    "call graphs": "call graphs of services (Alibaba 2021), 8 to 76 tasks, drawn units and "
    "durations",
}


def callgraph_files() -> list[Path]:
    """Return the call graphs in $WEFT_DATA, if any."""
    folder = data_folder("conditional_callgraphs")
    return sorted(folder.glob("*/*.json.gz")) if folder is not None else []


@dataclass(eq=False)
class AnyGraph:
    """Runs the policy and all rules; `logs[set][name]` has log mean times per stream."""

    policy: PairPolicy | None
    streams: int
    jobs: int
    draws: int = 2
    logs: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @property
    def steps(self) -> list[tuple[str, int]]:
        """(set, index) of all streams; none without the policy."""
        if self.policy is None:
            return []
        sizes = {
            "random": self.streams,
            "larger": self.streams // 2,
            "call graphs": min(len(callgraph_files()), self.streams),
        }
        return [(kind, i) for kind, size in sizes.items() for i in range(size)]

    def run(self, kind: str, at: int) -> dict[str, float]:
        """Run all contenders on one stream; return logarithms of their mean times."""
        assert self.policy is not None
        stream, draws = self._stream(kind, at)
        batch = StepBatch(stream, len(draws), StepOptions(idle="event", window=WINDOW))
        contenders: dict[str, PairPolicy | ConditionalRule] = {ANY: self.policy}
        contenders |= {name: ConditionalRule(name) for name in RULES if name != "index"}
        logs = {}
        for name, who in contenders.items():
            for s, draw in enumerate(draws):
                batch.place(s, *draw)
            who.run(batch)
            mean = float(np.mean([batch.jct(s).mean() for s in range(batch.size)]))
            logs[name] = float(np.log(mean))
        return logs

    def add(self, kind: str, logs: dict[str, float]) -> None:
        """Add the result of `run`."""
        for name, log in logs.items():
            self.logs.setdefault(kind, {}).setdefault(name, []).append(log)

    def _stream(
        self, kind: str, at: int
    ) -> tuple[ConditionalStream, list[tuple[FloatArray, IntArray]]]:
        seed = UNSEEN + at
        if kind != "call graphs":
            size = {"least": 4, "most": 14} if kind == "random" else {"least": 20, "most": 30}
            stream = random_conditional_stream(seed, jobs=self.jobs, **size)
            return stream, [stream.draw_ticks(seed + d) for d in range(self.draws)]
        graph = load_callgraph(callgraph_files()[at])
        stream = conditional_stream_of(
            own_kinds(graph.workflow), generator(seed, "call graph"), jobs=self.jobs
        )
        return stream, [_requests(stream, graph, seed + d) for d in range(self.draws)]

    def document(self) -> dict[str, Any]:
        """Return results as plain values."""
        return {
            "jobs": self.jobs,
            "draws": self.draws,
            "sets": {
                kind: {"about": SETS[kind], "streams": len(logs[ANY]), "rows": _rows(logs)}
                for kind, logs in self.logs.items()
            },
        }


def _requests(
    stream: ConditionalStream, graph: CallGraph, seed: int
) -> tuple[FloatArray, IntArray]:
    """Return arrivals of the stream, and branches of recorded requests."""
    return stream.draw_ticks(seed)[0], graph.draw(stream.jobs, generator(seed, "requests"))


def _rows(logs: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return ratios to the policy with intervals, and the share of streams won."""
    own = np.array(logs[ANY])
    rules = {name: np.array(found) for name, found in logs.items() if name != ANY}
    rows = [_row(name, found - own) for name, found in rules.items()]
    hindsight = np.min(list(rules.values()), axis=0)
    rows.append(_row("best rule per stream, in hindsight", hindsight - own))
    won = float(np.mean(own <= hindsight + 1e-12))
    return [
        {
            "policy": ANY,
            "over_any": 1.0,
            "low": 1.0,
            "high": 1.0,
            "worst": 1.0,
            "quicker": None,
            "first": won,
        },
        *rows,
    ]


def _row(name: str, ratio: FloatArray) -> dict[str, Any]:
    middle, width = float(ratio.mean()), half_width(ratio)
    return {
        "policy": name,
        "over_any": number(np.exp(middle)),
        "low": number(np.exp(middle - width)),
        "high": number(np.exp(middle + width)),
        "worst": number(np.exp(ratio.min())),
        "quicker": float(np.mean(ratio < 0)),
        "first": None,
    }
