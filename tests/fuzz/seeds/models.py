"""Seeds of trained models: cards and numbers of policies, and job lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import weft
from tests.fuzz.seeds.seed import Seed
from weft.experiments.imitation.job_lists import read_job_lists
from weft.formats.model_file import BUNDLED, Model, read_model, save_model
from weft.formats.native.stream_toml import load_stream
from weft.model import Problem, Workload

POLICIES = (
    *("conditional-any", "conditional-best", "conditional-pi4", "decima", "dqn", "index"),
    *("lachesis", "portfolio", "replan-switch", "search-replanning", "tuned-list"),
)
"""A bundled policy of each kind of model."""


def model_seeds(folder: Path) -> dict[str, Seed]:
    """Return the seeds of the one format of models, of predictors and of lists to learn from."""
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.1, 1e-300])}
    settings = {"features": ["a", "b"]}
    model = Model(name="mine", kind="test", about="", settings=settings, arrays=arrays)
    card = save_model(model, folder / "seed")
    text, numbers = card.read_bytes(), card.with_suffix(".safetensors").read_bytes()
    return {
        "job lists": Seed(".json", json.dumps(LISTS).encode(), read_job_lists),
        "model card": Seed(".json", text, read_model, ((".safetensors", numbers),)),
        "model numbers": Seed(".safetensors", numbers, read_model, ((".json", text),)),
    }


def policy_seeds() -> dict[str, Seed]:
    """Return cards and numbers of bundled policies; each that is accepted must decide soundly."""
    made = {}
    for name in (*POLICIES, "deepsched"):
        card = BUNDLED / f"{name}.json"
        numbers = card.with_suffix(".safetensors")
        read = _read_planner if name == "deepsched" else _read_policy
        text = card.read_bytes()
        beside = ((".safetensors", numbers.read_bytes()),) if numbers.exists() else ()
        made[f"card {name}"] = Seed(".json", text, read, beside, share=0.3)
        if beside:
            other = ((".json", text),)
            made[f"numbers {name}"] = Seed(".safetensors", beside[0][1], read, other, share=0.3)
    return made


PROBLEM = Problem.from_arrays(
    [[2.0, 1.0], [3.0, 4.0], [1.0, 1.0], [2.0, 2.0]],
    [[0, 1], [0, 2], [1, 3], [2, 3]],
    [10.0, 20.0, 5.0, 0.0],
    bandwidth=5.0,
)
STREAM = load_stream("conditional-paper").with_jobs(3)


def _read_policy(path: Path) -> None:
    policy = weft.load_policy(path)
    workload, scenario = STREAM.draw(1)
    if "conditional" not in read_model(path).kind:
        workload, scenario = Workload.of(PROBLEM), None
    trace = weft.simulate(workload, policy, scenario=scenario)
    assert not weft.check(workload, trace), weft.check(workload, trace)


def _read_planner(path: Path) -> None:
    plan = weft.plan(PROBLEM, "deepsched", weights=str(path))
    assert not weft.check(PROBLEM, plan.schedule)


LISTS = {
    "format": "job-lists-v1",
    "lists": {"a": {"arrival_time": [0.0, 1.5], "burst_time": [3, 2.0], "priority": [0, 10]}},
}
