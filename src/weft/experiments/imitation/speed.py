"""Time to schedule the document's sizes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.imitation.contenders import heft
from weft.experiments.imitation.runs import draw_large
from weft.learn.imitation.deepsched.paper import inputs_of, paper_answer, schedule_of, untrained
from weft.learn.imitation.deepsched.runtimes import (
    onnx_runtime,
    plan_through,
    torch_runtime,
    use_one_thread,
    write_paper_onnx,
)
from weft.learn.imitation.deepsched.training import net_of
from weft.learn.onnx_session import onnx_session
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
GENERATIONS = {486: 100, 10_000: 5, 84_654: 1}
"""Timed generations of the GA; all generations take the same time."""


def measure(tasks: int, *, repeats: int = 3) -> Iterator[dict[str, Any]]:
    """Yield median processor seconds per contender and runtime."""
    use_one_thread()
    problem = draw_large(tasks, DEVICES)
    reference = heft(problem)
    basis = {"tasks": tasks, "devices": DEVICES, "edges": problem.m}

    def row(
        name: str, runtime: str, seconds: float, finish: Any = None, **more: Any
    ) -> dict[str, Any]:
        quality = None if finish is None else float(np.mean(finish) / reference.finish.mean())
        return (
            basis
            | {
                "contender": name,
                "runtime": runtime,
                "seconds": seconds,
                "turnaround_over_heft": quality,
            }
            | more
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
            for found in _paper(problem, Path(folder), 1 if tasks > 20_000 else repeats)
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
        generations=generations,
        generation_seconds=seconds / (generations + 1),
    )


def _paper(problem: Problem, folder: Path, repeats: int) -> Iterator[tuple[str, float]]:
    """Time the document's network, untrained: weights do not matter."""
    net = untrained(problem.n, problem.p)

    def by_torch() -> Any:
        return schedule_of(problem, *paper_answer(net, *inputs_of(problem, net.tasks)))

    yield "torch", _timed(by_torch, repeats)[0]
    session = onnx_session(write_paper_onnx(net, folder / "paper.onnx"))

    def by_onnx() -> Any:
        machines, tasks = inputs_of(problem, net.tasks)
        logits, times = session.run(None, {"machines": machines[None], "tasks": tasks[None]})
        return schedule_of(problem, logits[0], times[0])

    yield "onnxruntime", _timed(by_onnx, repeats)[0]


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
    for _ in measure(40, repeats=1):
        pass
