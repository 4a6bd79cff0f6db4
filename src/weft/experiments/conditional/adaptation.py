"""Probabilities that change at run time: who follows, how soon, and what it costs those who do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from weft.experiments.conditional.contenders import (
    StreamContender,
    StreamEntrants,
    StreamEvaluator,
    half_width,
    number,
)
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, ProbabilityDrift
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.sim.vector.batch import Idle

BINS = 40
"""Parts of a run for which mean completion times are told."""
FOLLOWED = ("unit-fifo", "shortest-remaining", "index", "pi0", "pi1", "pi2", "pi3", "pi4", "best")
LEARNING = "pi3"
"""Who also goes on learning: the one that was trained for every p(c) but cannot see which it is."""
ABOUT = {
    "steps": "p(c) is 0.9, from a third of the run on 0.1, and in the last third 0.9 again",
    "walk": "p(c) moves at random from 0.5, by 0.15 per square root of a second, reflected at 0 and 1",
}


@dataclass(eq=False)
class Adaptation:
    """Contenders on draws whose p(c) moves, with waiting until the next event."""

    stream: ConditionalStream
    contenders: list[StreamContender]
    seeds: int
    arena: StreamEvaluator
    pupil: StreamContender | None = None
    waiting: Idle = "event"
    times: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[FloatArray]]] = field(default_factory=dict)
    paths: dict[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, stream: ConditionalStream, entered: StreamEntrants, *, seeds: int) -> Adaptation:
        """Take those who say something here; the index and pi4 also with an estimate that forgets nothing."""
        chosen = [c for name in FOLLOWED if (c := entered.find(name)) is not None]
        chosen += [
            c.remembering(np.inf, f"{c.name}, never forgets")
            for c in chosen
            if c.name in {"index", "pi4"}
        ]
        pupil = entered.find(LEARNING) if find_spec("torch") is not None else None
        found = cls(stream, chosen, seeds, StreamEvaluator(stream), pupil=pupil)
        names = [c.name for c in chosen] + ([f"{LEARNING}, learns on"] if pupil is not None else [])
        for kind in found.kinds:
            found.times[kind] = {name: np.full(seeds, np.nan) for name in names}
            found.curves[kind] = {name: [] for name in names}
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        """How p(c) can move."""
        return tuple(ABOUT)

    @property
    def span(self) -> float:
        """Seconds in which jobs arrive."""
        return self.stream.jobs * self.stream.arrivals.gap

    def changed(self, kind: str) -> ConditionalStream:
        """The stream with a moving p(c)."""
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

    def play(self, kind: str, seed: int) -> dict[str, Any]:
        """All contenders on one draw: the mean time of each and its course; and that of p(c)."""
        stream = self.changed(kind)
        arrival, outcome = stream.draw_ticks(seed)
        path = _binned(stream.probabilities(arrival * stream.tick, seed)[stream.watched[0]][:, 0])
        rows = {}
        for contender in self.contenders:
            fleet = self.arena.play(contender, self.waiting, (arrival, outcome))
            if fleet is not None:
                rows[contender.name] = _row(fleet.jct(0))
        if self.pupil is not None:
            rows[f"{LEARNING}, learns on"] = _row(self._learn(stream, (arrival, outcome), seed))
        return {"path": path.tolist(), "rows": rows}

    def take(self, kind: str, seed: int, played: dict[str, Any]) -> None:
        """Take in what `play` gave."""
        if seed == 1:
            self.paths[kind] = np.array(played["path"])
        for name, row in played["rows"].items():
            self.times[kind][name][seed - 1] = row["mean"]
            self.curves[kind][name].append(np.array(row["curve"]))

    def _learn(
        self, stream: ConditionalStream, draw: tuple[FloatArray, IntArray], seed: int
    ) -> FloatArray:
        from weft.learn.conditional.online import play_online

        assert self.pupil is not None
        assert isinstance(self.pupil.who, TrainedNetwork)
        return play_online(self.pupil.who, stream, draw, waiting=self.waiting, seed=seed)

    def document(self) -> dict[str, Any]:
        """What was found, as plain values. Curves of steps are means over seeds, those of the walk belong to its first draw."""
        bins = min(BINS, self.stream.jobs)
        return {
            "waiting": self.waiting,
            "seeds": self.seeds,
            "online_learning": None if self.pupil is None else f"{LEARNING}, learns on",
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
    """Means over equal parts of the jobs, in the order of arrival."""
    return np.array([part.mean() for part in np.array_split(values, min(BINS, len(values)))])
