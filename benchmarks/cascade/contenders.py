"""Ways to run the same cascade: weft, Ray Serve with a batch queue per stage, a pool of threads.

Each has `submit(payload) -> Future` and `close()`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cascade.description import CascadeDescription, load_cascade
from weft.runtime.cascade.stage import UnitSetting

EXAMPLES = Path(__file__).parents[2] / "examples" / "cascade"
STAGES = ("small", "medium", "large")
UNSURE = "unsure"


class Example(NamedTuple):
    """A cascade file of the examples, the module of its stages, and payloads."""

    file: Path
    module: str
    payloads: list[Any]
    in_time: float
    """Seconds within which a request counts as in time."""

    def description(self) -> CascadeDescription:
        return load_cascade(self.file)

    def stages(self) -> Any:
        sys.path.insert(0, str(self.file.parent))
        return importlib.import_module(self.module)


def example(name: str, count: int) -> Example:
    """Return the emulated devices, or the networks that classify shapes."""
    if name == "emulated":
        numbers = np.random.default_rng(1).random((count, 2)).tolist()
        folder = EXAMPLES / "emulated"
        return Example(folder / "cascade.toml", "emulated_stages", numbers, 0.6)
    sys.path.insert(0, str(EXAMPLES))
    from shapes import draw

    images = [image.tobytes() for image in draw(count, seed=11)[0]]
    return Example(EXAMPLES / "pinned.toml", "stages", images, 0.3)


def model_of(stages: Any, stage: str, unit: UnitSetting) -> Any:
    """Load the model of a stage."""
    return getattr(stages, f"load_{stage}", getattr(stages, "load", None))(unit)


def one_by_one(stages: Any, models: dict[str, Any], payload: Any) -> Iterator[tuple[Any, Any]]:
    """Take a request through its stages; yield value and outcome of each."""
    outcome: Any = UNSURE
    for stage in STAGES:
        if outcome == UNSURE:
            ((payload, outcome),) = getattr(stages, stage)(models[stage], [payload])
            yield payload, outcome


class ThreadPipeline:
    """A thread per unit; each takes a request through all stages, without batches."""

    def __init__(self, what: Example) -> None:
        self.stages = what.stages()
        self.free: list[dict[str, Any]] = []
        for name in what.description().stream.problem.cluster.names:
            unit = UnitSetting(name, 1)
            self.free.append({stage: model_of(self.stages, stage, unit) for stage in STAGES})
        self.pool = ThreadPoolExecutor(len(self.free))

    def submit(self, payload: Any) -> Future[Any]:
        """Queue a request."""
        return self.pool.submit(self.run, payload)

    def run(self, payload: Any) -> Any:
        """Take a unit that is free, and the request through the stages."""
        models = self.free.pop()
        try:
            return list(one_by_one(self.stages, models, payload))[-1][0]
        finally:
            self.free.append(models)

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()


class RayPipeline:
    """Ray Serve: a deployment per stage with a replica per unit, each with `@serve.batch`."""

    def __init__(self, what: Example) -> None:
        import ray
        from ray import serve

        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init("local", num_cpus=16, **options)
        cluster = what.description().stream.problem.cluster
        units = list(zip(cluster.names, cluster.batch.tolist(), strict=True))
        claims = tempfile.mkdtemp()
        deployed = [_ray_stage(what, stage, units, claims) for stage in STAGES]
        self.handle = serve.run(_ray_cascade().bind(*deployed), name="cascade", route_prefix=None)
        self.ray, self.serve = ray, serve
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def submit(self, payload: Any) -> Future[Any]:
        """Send a request."""

        async def answer() -> Any:
            return await self.handle.remote(payload)

        return asyncio.run_coroutine_threadsafe(answer(), self.loop)

    def close(self) -> None:
        """End all processes of Ray."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.serve.shutdown()
        self.ray.shutdown()


def _ray_stage(what: Example, stage: str, units: list[tuple[str, int]], claims: str) -> Any:
    from ray import serve

    folder, module = str(what.file.parent), what.module

    class RayStage:
        def __init__(self) -> None:
            sys.path.insert(0, folder)
            stages = importlib.import_module(module)
            self.call = getattr(stages, stage)
            for name, batch in units:  # a replica per unit: the first one that nobody has
                with suppress(FileExistsError):
                    path = Path(claims) / f"{stage}-{name}"
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                    self.answer.set_max_batch_size(batch)
                    setting = type("Unit", (), {"name": name, "threads": 1})()
                    load = getattr(stages, f"load_{stage}", getattr(stages, "load", None))
                    self.model = load(setting)
                    break
            self.pool = ThreadPoolExecutor(1)

        @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.0)
        async def answer(self, batch: list[Any]) -> list[Any]:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.pool, self.call, self.model, batch)

        async def __call__(self, payload: Any) -> Any:
            return await self.answer(payload)

    made = serve.deployment(
        name=stage,
        num_replicas=len(units),
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0},
    )
    return made(RayStage).bind()


def _ray_cascade() -> Any:
    from ray import serve

    @serve.deployment(max_ongoing_requests=5000, ray_actor_options={"num_cpus": 0})
    class RayCascade:
        def __init__(self, *stages: Any) -> None:
            self.stages = stages

        async def __call__(self, payload: Any) -> Any:
            outcome: Any = "unsure"
            for stage in self.stages:
                if outcome == "unsure":
                    payload, outcome = await stage.remote(payload)
            return payload

    return RayCascade
