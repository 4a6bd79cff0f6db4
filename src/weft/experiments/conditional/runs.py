"""Steps of the conditional experiment."""

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
    contenders,
    number,
)
from weft.experiments.harness import Checkpoint, Keyed
from weft.formats.native.stream_toml import load_stream
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import Arrivals, ConditionalStream
from weft.policies.conditional.pair_network import PairPolicy
from weft.policies.conditional.rollout import Rollout
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.progress import Track
from weft.sim.vector.batch import Idle, StepBatch, StepOptions

PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BASELINE_POINTS = (0.0, 0.2, 0.5, 0.8, 1.0)
WAITINGS: tuple[Idle, ...] = ("event", "block")
ROLLOUT = "rollout"
COMPARED = ("index", "best")
"""Contenders on the same draws as the rollouts."""


class StepSeeds(NamedTuple):
    """Number of draws: per p(c), per change at run time, and so on."""

    point: int
    change: int
    regular: int = 1  # per p(c) with a job every 8 ms
    rollout: int = 0  # at some p(c); rollouts are some hundred times slower


@dataclass(frozen=True)
class ConditionalPlan:
    """Amount of work: jobs per draw, and draws per kind of step."""

    jobs: int
    seeds: StepSeeds
    streams: int = 2
    """Random streams for the policy `any`; also the maximal number of call graphs."""
    checked: int = 10_000
    """Jobs of the comparison with the authors' baselines; digits agree for 10,000 only."""
    processes: int = 1


@dataclass(frozen=True)
class Step(Keyed, key="{kind} {place} {seed}"):
    """One step: kind, place (index of p(c) or stream, or a change) and seed."""

    kind: str
    place: int | str = 0
    seed: int = 0


class RunSetup:
    """Contenders and streams of the experiment."""

    def __init__(self, plan: ConditionalPlan) -> None:
        self.plan, self.stream = plan, load_stream("conditional-paper").with_jobs(plan.jobs)
        self.entered, self.evaluator = contenders(self.stream), StreamEvaluator(self.stream)
        universal = self.entered[ANY].who if ANY in self.entered else None
        assert universal is None or isinstance(universal, PairPolicy)
        self.adaptation = Adaptation.of(self.stream, self.entered, seeds=plan.seeds.change)
        self.any_graph = AnyGraph(universal, plan.streams, min(plan.jobs, 1000))

    def contenders(self, waiting: Idle) -> list[StreamContender]:
        """Return contenders of a waiting semantics; one trained for "block" has no other."""
        return [
            c for c in self.entered.values() if waiting == "block" or c.trained_waiting != "block"
        ]

    def steps(self) -> list[Step]:
        """Return all steps in order."""
        plan, points = self.plan, range(len(PROBABILITIES))
        steps = [Step("baseline", i) for i in range(len(BASELINE_POINTS))]
        steps += [Step("point", i, seed) for seed in range(1, plan.seeds.point + 1) for i in points]
        steps += [
            Step("change", kind, seed)
            for kind in self.adaptation.kinds
            for seed in range(1, plan.seeds.change + 1)
        ]
        regular = range(1, plan.seeds.regular + 1)
        steps += [Step("regular", i, seed) for seed in regular for i in points]
        steps += [Step(f"any {kind}", at) for kind, at in self.any_graph.steps]
        steps += [
            Step(ROLLOUT, PROBABILITIES.index(p), seed)
            for seed in range(1, plan.seeds.rollout + 1)
            for p in BASELINE_POINTS
        ]
        return [*steps, Step("training")]

    def run(self, step: Step) -> Any:
        """Run one step; return plain values."""
        if step.kind.startswith("any "):
            return self.any_graph.run(step.kind.removeprefix("any "), int(step.place))
        if step.kind == "training":
            return self._training()
        if step.kind == "change":
            return self.adaptation.run(str(step.place), step.seed)
        functions: dict[str, Callable[[int, int], Any]] = {
            "baseline": self._baseline,
            "point": self._point,
            "regular": self._regular,
            ROLLOUT: self._rollout,
        }
        return functions[step.kind](int(step.place), step.seed)

    def draw(self, point: int, seed: int) -> tuple[FloatArray, IntArray]:
        """Return the jobs of one draw at a p(c), in the order of the authors' program."""
        p = PROBABILITIES[point]
        return self.stream.with_probability("D", [p, 1.0 - p]).draw_ticks(seed, authors=True)

    def _baseline(self, point: int, _seed: int) -> list[list[float]]:
        """Return ms of the authors' rules in their semantics on their draws."""
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
        """Return ms and unit usage of all contenders; None if unfinished."""
        draw = self.draw(point, seed)
        found: dict[str, dict[str, tuple[float, list[float]] | None]] = {
            waiting: {} for waiting in WAITINGS
        }
        for waiting in WAITINGS:
            for contender in self.contenders(waiting):
                batch = self.evaluator.run(contender, waiting, draw)
                usage = self.evaluator.usage()
                if batch is not None:
                    usage.add(batch)
                found[waiting][contender.name] = (
                    None if batch is None else (float(batch.jct(0).mean()) * 1000, usage.numbers())
                )
        return found

    def _regular(self, point: int, seed: int) -> dict[str, float | None]:
        """Run all contenders with a job every 8 ms, as in the paper's text."""
        p = PROBABILITIES[point]
        even = replace(self.stream, arrivals=Arrivals("regular", gap=self.stream.arrivals.gap))
        draw = even.with_probability("D", [p, 1.0 - p]).draw_ticks(seed)
        return {c.name: self._milliseconds(c, draw) for c in self.contenders("event")}

    def _milliseconds(
        self, contender: StreamContender, draw: tuple[FloatArray, IntArray]
    ) -> float | None:
        batch = self.evaluator.run(contender, "event", draw)
        return None if batch is None else float(batch.jct(0).mean()) * 1000

    def _rollout(self, point: int, seed: int) -> dict[str, Any]:
        """Run rollouts on one draw, and the policies they are built on."""
        draw, found = self.draw(point, seed), dict[str, Any]()
        compared = [c for name in COMPARED if (c := self.entered.get(name)) is not None]
        for contender in compared:
            found[contender.name] = self._milliseconds(contender, draw)
        trained = [c.who for c in compared if c.trained_waiting == "event"]
        network = next((who for who in trained if isinstance(who, TrainedNetwork)), None)
        rule = next((c.who for c in compared if isinstance(c.who, ConditionalRule)), None)
        if rule is None:
            return found
        policy = Rollout(weights=rule.weights, proposer=network)
        batch = StepBatch(self.stream, 1, policy.options("event"))
        batch.place(0, *draw)
        begin = time.process_time()
        steps, _, changed, futures = policy.run(batch)[0].tolist()
        counts = {
            "steps": steps,
            "changed": changed,
            "futures": futures,
            "cpu_seconds": time.process_time() - begin,
        }
        return found | {ROLLOUT: float(batch.jct(0).mean()) * 1000} | counts

    def _training(self) -> list[dict[str, Any]]:
        """Return learning curves relative to the best of the paper's rules."""
        rows = []
        for contender in self.entered.values():
            if isinstance(contender.who, TrainedNetwork):
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
                kept["rollouts_seconds"] = _rollout_seconds(record)
                rows.append(
                    {
                        "policy": contender.name,
                        "about": contender.who.about,
                        **kept,
                        "curve": points,
                    }
                )
        return rows


def _rollout_seconds(record: dict[str, Any]) -> float | None:
    """Return the processor time of all trainings from rollouts on a card, if any."""
    training, total = record.get("rollouts", record.get("lessons")), 0.0  # older cards: "lessons"
    if training is None:
        return None
    while training is not None:
        total, training = total + training["cpu_seconds"], training.get("before")
    return total


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
    """Return (probabilities, seeds) mean job completion time in seconds.

    Examples
    --------
    >>> from weft.formats.native.stream_toml import load_stream
    >>> stream = load_stream("conditional-paper").with_jobs(500)
    >>> rule = ConditionalRule("unit-fifo")
    >>> times = mean_times(stream, rule, probabilities=[0.0, 1.0], seeds=[1])
    >>> times.round(3).tolist()
    [[0.135], [0.036]]
    """
    batch = StepBatch(stream, 1, options, authors=authors)
    times = np.zeros((len(probabilities), len(seeds)))
    for i, p in enumerate(probabilities):
        variant = stream.with_probability(task, [p, 1.0 - p])
        for j, seed in enumerate(seeds):
            batch.place(0, *variant.draw_ticks(seed, authors=authors))
            rule.run(batch)
            times[i, j] = batch.jct(0).mean()
    return times


def best_rule_score(stream: ConditionalStream, policy: TrainedNetwork) -> float:
    """Return the mean log time of the best paper rule at a policy's p(c)."""
    world = policy.environment
    fixed = isinstance(world.get("probability"), int | float)
    points = [float(world["probability"])] if fixed else list(PROBABILITIES)
    short, options = (
        stream.with_jobs(int(world.get("jobs", 2000))),
        StepOptions(idle=world.get("idle", "event")),
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


# -- processes -------------------------------------------------------------------------


_SETUPS: dict[ConditionalPlan, RunSetup] = {}
"""Setups of a worker process, created once."""


def _run_in_worker(plan: ConditionalPlan, step: Step) -> Any:
    if plan not in _SETUPS:
        _SETUPS[plan] = RunSetup(plan)
    return _SETUPS[plan].run(step)


def run_steps(setup: RunSetup, checkpoint: Checkpoint, track: Track) -> Iterator[tuple[Step, Any]]:
    """Yield each step with its result, in order, in the processes of the plan."""
    function = setup.run if setup.plan.processes <= 1 else partial(_run_in_worker, setup.plan)
    return checkpoint.run(function, setup.steps(), processes=setup.plan.processes, track=track)
