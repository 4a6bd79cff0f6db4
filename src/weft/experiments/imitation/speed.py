"""Time to schedule the document's sizes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.imitation.contenders import TRIVIAL, heft
from weft.experiments.imitation.paper import (
    inputs_of,
    paper_answer,
    sample_of,
    schedule_of,
    train_paper,
)
from weft.experiments.imitation.runs import draw_large
from weft.experiments.imitation.runtimes import (
    net_of,
    onnx_runtime,
    plan_through,
    torch_runtime,
    use_one_thread,
    write_paper_onnx,
)
from weft.experiments.onnx_session import onnx_session
from weft.model import Problem
from weft.planners import plan
from weft.planners.imitation.deepsched.network import bundled_network
from weft.planners.search.genetic import Genetic

SIZES = (486, 10_000, 84_654)
DEVICES = 188
DOCUMENT = {
    "HEFT": (31.5, 305.5, 670.0),
    "GA": (67.5, 602.5, 3967.0),
    "network": (0.125, 0.125, 0.125),
}
"""Table I, in seconds."""

POPULATION = 60
NOTHING: Mapping[str, Any] = {}
GENERATIONS = {486: 100, 10_000: 5, 84_654: 1}
"""Timed generations of the GA; all generations take the same time."""


def measure(tasks: int, *, repeats: int = 3, training: float = 1.0) -> Iterator[dict[str, Any]]:
    """Yield median processor seconds and turnaround per contender and runtime.

    The document's network is trained for `training` processor seconds on problems of this size.
    """
    use_one_thread()
    problem = draw_large(tasks, DEVICES)
    reference = heft(problem)
    basis = {"tasks": tasks, "devices": DEVICES, "edges": problem.m}

    def row(
        name: str, runtime: str, seconds: float, finish: Any, more: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        quality = float(np.mean(finish) / reference.finish.mean())
        return (
            basis
            | {
                "contender": name,
                "runtime": runtime,
                "seconds": seconds,
                "turnaround_over_heft": quality,
            }
            | dict(more)
        )

    seconds, found = _timed(lambda: heft(problem), repeats)
    yield row("HEFT", "compiled", seconds, found.finish)
    seconds, found = _timed(lambda: plan(problem, "deepsched").schedule, repeats)
    yield row("deepsched", "compiled", seconds, found.finish)
    with tempfile.TemporaryDirectory() as folder:
        runtimes = {
            "onnxruntime": onnx_runtime(bundled_network(), Path(folder)),
            "torch": torch_runtime(net_of(bundled_network())),
        }
        for name, runtime in runtimes.items():
            seconds, rows = _timed(
                partial(plan_through, problem, *runtime), 1 if tasks > 20_000 else repeats
            )
            yield row("deepsched", name, seconds, rows.finish)
        yield from (
            row("paper", *found)
            for found in _paper(problem, Path(folder), 1 if tasks > 20_000 else repeats, training)
        )
    generations = GENERATIONS.get(tasks, 1)
    planner = Genetic(
        population=POPULATION, generations=generations, objective="waiting", seeded=False
    )
    seconds, found = _timed(lambda: plan(problem, planner).schedule, 1)
    yield row(
        "GA",
        "compiled",
        seconds,
        found.finish,
        {"generations": generations, "generation_seconds": seconds / (generations + 1)},
    )
    for name, baseline in TRIVIAL.items():
        seconds, found = _timed(partial(baseline, problem), 1)
        yield row(name, "compiled", seconds, found.finish)


def _paper(
    problem: Problem, folder: Path, repeats: int, training: float
) -> Iterator[tuple[Any, ...]]:
    """Train and time the document's network, which needs weights for every size."""
    curve: list[dict[str, float]] = []
    samples = (sample_of(draw_large(problem.n, problem.p, seed=k), problem.n) for k in count(2))
    batch = 4 if problem.n < 5000 else 1
    net = train_paper(samples, steps=10_000, seconds=training, batch=batch, progress=curve.append)
    steps = {"training_steps": curve[-1]["step"], "training_seconds": curve[-1]["seconds"]}

    def by_torch() -> Any:
        return schedule_of(problem, *paper_answer(net, *inputs_of(problem, net.tasks)))

    seconds, found = _timed(by_torch, repeats)
    yield "torch", seconds, found.finish, steps
    session = onnx_session(write_paper_onnx(net, folder / "paper.onnx"))

    def by_onnx() -> Any:
        machines, tasks = inputs_of(problem, net.tasks)
        logits, times = session.run(None, {"machines": machines[None], "tasks": tasks[None]})
        return schedule_of(problem, logits[0], times[0])

    seconds, found = _timed(by_onnx, repeats)
    yield "onnxruntime", seconds, found.finish, steps


def _timed(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return median processor seconds and the last result."""
    took, found = [], None
    for _ in range(repeats):
        begin = time.process_time()
        found = call()
        took.append(time.process_time() - begin)
    return float(np.median(took)), found


def warm_up() -> None:
    """Compile, or read from the cache, before the measurement."""
    for _ in measure(40, repeats=1, training=0.0):
        pass
