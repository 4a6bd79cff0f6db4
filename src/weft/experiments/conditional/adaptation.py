"""Branch probabilities that change at run time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from weft.experiments.conditional.contenders import StreamContender, StreamEvaluator, number
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.report.statistics import half_width
from weft.sim.vector.batch import Idle

BINS = 40
"""Points per curve: means over equal parts of the jobs."""
ADAPTING = ("unit-fifo", "shortest-remaining", "index", "pi0", "pi1", "pi2", "pi3", "pi4", "best")
LEARNING = "pi3"
"""The policy that also learns online: trained for every p(c), without an estimate of it."""
ABOUT = {
    "steps": "p(c) is 0.9 in the first third of the run, 0.1 in the second, 0.9 in the last",
    "walk": "random walk from 0.5 by 0.15 per square root of a second, reflected at 0 and 1",
}


@dataclass(eq=False)
class Adaptation:
    """Runs contenders on draws with a changing p(c); units wait until the next event."""

    stream: ConditionalStream
    contenders: list[StreamContender]
    seeds: int
    evaluator: StreamEvaluator
    learner: StreamContender | None = None
    waiting: Idle = "event"
    times: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[FloatArray]]] = field(default_factory=dict)
    paths: dict[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, stream: ConditionalStream, entered: Mapping[str, StreamContender], *, seeds: int
    ) -> Adaptation:
        """Select contenders; the index and pi4 also with an estimate over all outcomes."""
        chosen = [c for name in ADAPTING if (c := entered.get(name)) is not None]
        chosen += [
            c.remembering(np.inf, f"{c.name}, unlimited memory")
            for c in chosen
            if c.name in {"index", "pi4"}
        ]
        learner = entered.get(LEARNING) if find_spec("torch") is not None else None
        found = cls(stream, chosen, seeds, StreamEvaluator(stream), learner=learner)
        names = [c.name for c in chosen] + (
            [f"{LEARNING}, learning online"] if learner is not None else []
        )
        for kind in found.kinds:
            found.times[kind] = {name: np.full(seeds, np.nan) for name in names}
            found.curves[kind] = {name: [] for name in names}
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the changes of p(c)."""
        return tuple(ABOUT)

    @property
    def span(self) -> float:
        """Seconds until the last arrival."""
        return self.stream.jobs * self.stream.arrivals.gap

    def changed(self, kind: str) -> ConditionalStream:
        """Return the stream with a changing p(c)."""
        if kind == "walk":
            return self.stream.with_drift(
                "D", ProbabilityDrift("walk", np.array([[0.5, 0.5]]), spread=0.15)
            )
        rows = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])
        return self.stream.with_drift(
            "D",
            ProbabilityDrift(
                "steps", rows, times=np.array([0.0, self.span / 3, 2 * self.span / 3])
            ),
        )

    def run(self, kind: str, seed: int) -> dict[str, Any]:
        """Run all contenders on one draw; return times, curves and p(c)."""
        stream = self.changed(kind)
        arrival, outcome = stream.draw_ticks(seed)
        path = _binned(stream.probabilities(arrival * stream.tick, seed)[stream.watched[0]][:, 0])
        rows = {}
        for contender in self.contenders:
            batch = self.evaluator.run(contender, self.waiting, (arrival, outcome))
            if batch is not None:
                rows[contender.name] = _row(batch.jct(0))
        if self.learner is not None:
            rows[f"{LEARNING}, learning online"] = _row(
                self._learn(stream, (arrival, outcome), seed)
            )
        return {"path": path.tolist(), "rows": rows}

    def add(self, kind: str, seed: int, simulated: dict[str, Any]) -> None:
        """Add the result of `run`."""
        if seed == 1:
            self.paths[kind] = np.array(simulated["path"])
        for name, row in simulated["rows"].items():
            self.times[kind][name][seed - 1] = row["mean"]
            self.curves[kind][name].append(np.array(row["curve"]))

    def _learn(
        self, stream: ConditionalStream, draw: tuple[FloatArray, IntArray], seed: int
    ) -> FloatArray:
        from weft.experiments.conditional.online import simulate_online

        assert self.learner is not None
        assert isinstance(self.learner.who, TrainedNetwork)
        return simulate_online(self.learner.who, stream, draw, waiting=self.waiting, seed=seed)

    def document(self) -> dict[str, Any]:
        """Return results as plain values.

        Curves of "steps" are means over seeds; those of "walk" belong to its first draw.
        """
        bins = min(BINS, self.stream.jobs)
        return {
            "waiting": self.waiting,
            "seeds": self.seeds,
            "online_learning": None if self.learner is None else f"{LEARNING}, learning online",
            "time": [(i + 0.5) * self.span / bins for i in range(bins)],
            "kinds": {kind: self._kind(kind) for kind in self.kinds},
        }

    def _kind(self, kind: str) -> dict[str, Any]:
        best = min(
            (t for t in self.times[kind].values() if np.isfinite(t).all()),
            key=lambda t: float(t.mean()),
        )
        rows = [
            {
                "policy": name,
                "mean": number(times.mean()),
                "half_width": number(half_width(times)),
                "over_best": number(times.mean() / best.mean()),
                "over_best_half_width": number(half_width(times / best)),
            }
            for name, times in self.times[kind].items()
        ]
        curves = {
            name: [number(x) for x in (np.mean(lines, axis=0) if kind == "steps" else lines[0])]
            for name, lines in self.curves[kind].items()
            if lines
        }
        return {
            "about": ABOUT[kind],
            "rows": rows,
            "probability": [number(x) for x in self.paths[kind]],
            "curves": curves,
        }


def _row(seconds: FloatArray) -> dict[str, Any]:
    return {"mean": float(seconds.mean()) * 1000, "curve": _binned(seconds * 1000).tolist()}


def _binned(values: FloatArray) -> FloatArray:
    """Return means over equal parts of the jobs in order of arrival."""
    return np.array([part.mean() for part in np.array_split(values, min(BINS, len(values)))])
