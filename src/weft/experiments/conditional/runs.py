"""The steps of the experiment on conditional task graphs: each gives plain values, in any of several processes; kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft.experiments.conditional.adaptation import Adaptation
from weft.experiments.conditional.any_graph import ANY, AnyGraph
from weft.experiments.conditional.contenders import (
    PAPER_RULES,
    StreamContender,
    StreamEvaluator,
    gather,
    number,
)
from weft.experiments.harness import Checkpoint, Progress
from weft.formats.native.stream_toml import load_stream
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import Arrivals, ConditionalStream
from weft.policies.conditional.files import Learned
from weft.policies.conditional.rollout import Rollout
from weft.policies.conditional.rules import ConditionalRule
from weft.sim.vector.batch import StepBatch, StepOptions, Waiting

PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BASELINE_POINTS = (0.0, 0.2, 0.5, 0.8, 1.0)
WAITINGS: tuple[Waiting, ...] = ("event", "paper")
ROLLOUT = "rollout"
COMPARED = ("index", "best")
"""Who plays the same draws as the rollouts."""


@dataclass(frozen=True)
class ConditionalPlan:
    """How much is done: jobs and seeds of a draw at each p(c), and seeds of each change at run time."""

    jobs: int
    seeds: int
    changes: int
    regular: int = 1
    """Seeds at each p(c) with jobs every 8 ms."""
    streams: int = 2
    """Random streams for the policy that plays on any graph, and call graphs at most."""
    checked: int = 10_000
    """Jobs of the comparison with the authors' baselines: their number, or the digits differ."""
    rollouts: int = 0
    """Seeds at some p(c) for rollouts, some hundred times as slow as others."""
    processes: int = 1


class Step(NamedTuple):
    """What is done at once: a kind, a place (number of a p(c), of a stream; a way of changing) and a seed."""

    kind: str
    place: int | str = 0
    seed: int = 0

    @property
    def key(self) -> str:
        """Its name on disk."""
        return f"{self.kind} {self.place} {self.seed}"


class Stage:
    """Everybody who plays, and what is played on."""

    def __init__(self, plan: ConditionalPlan) -> None:
        self.plan, self.stream = plan, load_stream("conditional-paper").with_jobs(plan.jobs)
        self.entered, self.arena = gather(self.stream), StreamEvaluator(self.stream)
        universal = self.entered.find(ANY)
        self.adaptation = Adaptation.of(self.stream, self.entered, seeds=plan.changes)
        self.any_graph = AnyGraph(
            universal.who if universal is not None else None, plan.streams, min(plan.jobs, 1000)
        )  # type: ignore[arg-type]

    def players(self, waiting: Waiting) -> list[StreamContender]:
        """Who plays with a way of waiting: all but those trained for the paper's, which have siblings trained for the other."""
        return [
            c for c in self.entered.contenders if waiting == "paper" or c.trained_waiting != "paper"
        ]

    def steps(self) -> list[Step]:
        """All that is to be done, in order."""
        plan, points = self.plan, range(len(PROBABILITIES))
        steps = [Step("baseline", i) for i in range(len(BASELINE_POINTS))]
        steps += [Step("point", i, seed) for seed in range(1, plan.seeds + 1) for i in points]
        steps += [
            Step("change", kind, seed)
            for kind in self.adaptation.kinds
            for seed in range(1, plan.changes + 1)
        ]
        steps += [Step("regular", i, seed) for seed in range(1, plan.regular + 1) for i in points]
        steps += [Step(f"any {kind}", at) for kind, at in self.any_graph.steps]
        steps += [
            Step(ROLLOUT, PROBABILITIES.index(p), seed)
            for seed in range(1, plan.rollouts + 1)
            for p in BASELINE_POINTS
        ]
        return [*steps, Step("training")]

    def do(self, step: Step) -> Any:
        """Do one of them; plain values."""
        if step.kind.startswith("any "):
            return self.any_graph.play(step.kind.removeprefix("any "), int(step.place))
        if step.kind == "training":
            return self._training()
        if step.kind == "change":
            return self.adaptation.play(str(step.place), step.seed)
        doers: dict[str, Callable[[int, int], Any]] = {
            "baseline": self._baseline,
            "point": self._point,
            "regular": self._regular,
            ROLLOUT: self._rollout,
        }
        return doers[step.kind](int(step.place), step.seed)

    def draw(self, point: int, seed: int) -> tuple[FloatArray, IntArray]:
        """The jobs of one draw at a p(c), as the authors' program draws them."""
        p = PROBABILITIES[point]
        return self.stream.with_probability("D", [p, 1.0 - p]).draw_ticks(seed, authors=True)

    def _baseline(self, point: int, _seed: int) -> list[list[float]]:
        """The authors' rules in the authors' semantics on the authors' draws, ms."""
        stream = self.stream.with_jobs(self.plan.checked)
        at = [BASELINE_POINTS[point]]
        return [
            (
                mean_times(stream, ConditionalRule(name), probabilities=at, seeds=range(1, 6))[0]
                * 1000
            ).tolist()
            for name in PAPER_RULES
        ]

    def _point(
        self, point: int, seed: int
    ) -> dict[str, dict[str, tuple[float, list[float]] | None]]:
        """All contenders on one draw, in both ways of waiting: milliseconds, and what the units did; None where one never ends."""
        draw = self.draw(point, seed)
        found: dict[str, dict[str, tuple[float, list[float]] | None]] = {
            waiting: {} for waiting in WAITINGS
        }
        for waiting in WAITINGS:
            for contender in self.players(waiting):
                fleet = self.arena.play(contender, waiting, draw)
                usage = self.arena.usage()
                if fleet is not None:
                    usage.add(fleet)
                found[waiting][contender.name] = (
                    None if fleet is None else (float(fleet.jct(0).mean()) * 1000, usage.numbers())
                )
        return found

    def _regular(self, point: int, seed: int) -> dict[str, float | None]:
        """All contenders on one draw with a job every 8 ms, as the paper's text has it."""
        p = PROBABILITIES[point]
        even = replace(self.stream, arrivals=Arrivals("regular", gap=self.stream.arrivals.gap))
        draw = even.with_probability("D", [p, 1.0 - p]).draw_ticks(seed)
        return {c.name: self._milliseconds(c, draw) for c in self.players("event")}

    def _milliseconds(
        self, contender: StreamContender, draw: tuple[FloatArray, IntArray]
    ) -> float | None:
        fleet = self.arena.play(contender, "event", draw)
        return None if fleet is None else float(fleet.jct(0).mean()) * 1000

    def _rollout(self, point: int, seed: int) -> dict[str, Any]:
        """Rollouts on one draw, beside those they are built on."""
        draw, found = self.draw(point, seed), dict[str, Any]()
        compared = [c for name in COMPARED if (c := self.entered.find(name)) is not None]
        for contender in compared:
            found[contender.name] = self._milliseconds(contender, draw)
        network = next(
            (c for c in compared if isinstance(c.who, Learned) and c.trained_waiting == "event"),
            None,
        )
        rule = next((c.who for c in compared if isinstance(c.who, ConditionalRule)), None)
        if rule is None:
            return found
        policy = Rollout(
            weights=rule.weights, proposer=network.who if network is not None else None
        )  # type: ignore[arg-type]
        fleet = StepBatch(self.stream, 1, policy.options("event"))
        fleet.place(0, *draw)
        begin = time.process_time()
        steps, _, changed, futures = policy.play(fleet)[0].tolist()
        counts = {
            "steps": steps,
            "changed": changed,
            "futures": futures,
            "cpu_seconds": time.process_time() - begin,
        }
        return found | {ROLLOUT: float(fleet.jct(0).mean()) * 1000} | counts

    def _training(self) -> list[dict[str, Any]]:
        """Learning curves from the records of the trainings; scores over the best of the paper's rules on draws of the same length."""
        rows = []
        for contender in self.entered.contenders:
            if isinstance(contender.who, Learned):
                best = best_rule_score(self.stream, contender.who)
                record = contender.who.training
                points = [
                    {
                        "samples": entry["samples"],
                        "reward_rate": entry.get("reward_rate"),
                        "entropy": entry.get("entropy"),
                        "relative": number(np.exp(entry["score"] - best))
                        if "score" in entry
                        else None,
                    }
                    for entry in record.get("curve", [])
                    if "samples" in entry
                ]
                kept = {
                    key: record.get(key)
                    for key in ("algorithm", "seed", "seeds", "samples", "cpu_seconds", "score")
                }
                kept["imitation"] = record.get("settings", {}).get("imitation")
                kept["rollouts_seconds"] = record.get("lessons", {}).get("cpu_seconds")
                rows.append(
                    {
                        "policy": contender.name,
                        "about": contender.who.about,
                        **kept,
                        "curve": points,
                    }
                )
        return rows


def mean_times(
    stream: ConditionalStream,
    rule: ConditionalRule,
    *,
    task: str = "D",
    probabilities: Sequence[float] = PROBABILITIES,
    seeds: Sequence[int] = range(1, 41),
    options: StepOptions | None = None,
    authors: bool = True,
) -> FloatArray:
    """(probabilities, seeds) mean job completion time in seconds; the branches of `task` are taken with p and 1 - p.

    Examples
    --------
    >>> from weft.formats.native.stream_toml import load_stream
    >>> stream = load_stream("conditional-paper").with_jobs(500)
    >>> mean_times(stream, ConditionalRule("fifo"), probabilities=[0.0, 1.0], seeds=[1]).round(3).tolist()
    [[0.135], [0.036]]
    """
    fleet = StepBatch(stream, 1, options, authors=authors)
    times = np.zeros((len(probabilities), len(seeds)))
    for i, p in enumerate(probabilities):
        variant = stream.with_probability(task, [p, 1.0 - p])
        for j, seed in enumerate(seeds):
            fleet.place(0, *variant.draw_ticks(seed, authors=authors))
            rule.play(fleet)
            times[i, j] = fleet.jct(0).mean()
    return times


def best_rule_score(stream: ConditionalStream, policy: Learned) -> float:
    """Mean log of seconds a job takes under the best of the paper's rules, at the p(c) a policy was trained for."""
    world = policy.environment
    fixed = isinstance(world.get("probability"), int | float)
    points = [float(world["probability"])] if fixed else list(PROBABILITIES)
    short, options = (
        stream.with_jobs(int(world.get("jobs", 2000))),
        StepOptions(waiting=world.get("waiting", "event")),
    )
    times = [
        mean_times(
            short,
            ConditionalRule(name),
            probabilities=points,
            seeds=range(1, 4),
            options=options,
            authors=False,
        ).mean(axis=1)
        for name in PAPER_RULES
    ]
    return float(np.log(np.min(times, axis=0)).mean())


# -- in several processes, taken up again ----------------------------------------------


_STAGES: dict[ConditionalPlan, Stage] = {}
"""Of a process that was started for the steps: made once."""


def _do_elsewhere(plan: ConditionalPlan, step: Step) -> Any:
    if plan not in _STAGES:
        _STAGES[plan] = Stage(plan)
    return _STAGES[plan].do(step)


def carry_out(stage: Stage, progress: Checkpoint, progress: Progress) -> Iterator[tuple[Step, Any]]:
    """Each step with its result, in order, in as many processes as the plan says."""
    function = stage.do if stage.plan.processes <= 1 else partial(_do_elsewhere, stage.plan)
    return progress.run(function, stage.steps(), processes=stage.plan.processes, progress=progress)
