"""How long a decision takes, how many the environment makes, and what the cards of the shipped policies say of their training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.experiments.gpu_cluster.contenders import LEARNED, contender
from weft.generators import heterogeneous_gpus, scale_ccr
from weft.generators.instances import TASK_KINDS
from weft.model import Cluster, Problem, Scenario, Workflow, Workload
from weft.policies import POLICIES, simulate
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.rules import RulePolicy
from weft.rng import generator
from weft.sim.kernel.rules import run_to_end
from weft.sim.kernel.tables import make_sim
from weft.sim.view import CompiledPolicy, Policy

READY, DEVICES, LENGTH = 32, 16, 10
ENVIRONMENT = "weft.learn.workflow.env"
"""Where `decisions_per_second(seconds)` lives, once it does."""


def busy_state(seed: int = 0) -> Workload:
    """Chains of tasks: 16 have a task running, one on each device, and 32 more their next task ready, at almost every decision.

    So it is for whoever keeps the chains level, as an upward rank does.

    Examples
    --------
    >>> workload = busy_state()
    >>> workload.cluster.p, workload.instances
    (16, 480)
    """
    chains = READY + DEVICES
    rng, n = generator(seed, "busy state"), chains * LENGTH
    src = np.flatnonzero(np.arange(n) % LENGTH < LENGTH - 1)
    workflow = Workflow(
        name="chains",
        work=np.exp(0.5 * rng.standard_normal(n)),
        src=src,
        dst=src + 1,
        data=np.ones(len(src)),
        kind=rng.integers(0, TASK_KINDS, n),
        kinds=tuple(f"k{k}" for k in range(TASK_KINDS)),
    )
    cluster = sixteen()
    return Workload.of(Problem.bind(scale_ccr(workflow, 1.0, cluster), cluster))


def sixteen() -> Cluster:
    """The first drawn cluster with four of each of four types."""
    return next(
        c for c in (heterogeneous_gpus(seed, kinds=4) for seed in count()) if c.p == DEVICES
    )


def decision_rows(names: Sequence[str], *, rounds: int) -> list[dict[str, Any]]:
    """Median time of a decision of everybody who decides as the work goes on."""
    workload = busy_state()
    future = Scenario.draw(workload, seed=1, noise=0.2)
    deciding = [name for name in names if contender(name).kind not in {"plan", "yardstick"}]
    return [
        decision_row(name, POLICIES.create(contender(name).maker), workload, future, rounds=rounds)
        for name in deciding
    ]


def decision_row(
    name: str, policy: Policy, workload: Workload, future: Scenario, *, rounds: int
) -> dict[str, Any]:
    """Processor time of a simulation over the number of decisions: the simulator's own share is in it.

    What is worked out once for a workload is counted apart (`begin`).
    """
    begins, spent = [], []
    compiled = isinstance(policy, RulePolicy | CompiledPolicy)
    for _ in range(rounds if compiled else min(rounds, 3)):
        first = time.thread_time()
        run = _ready_to_run(policy, workload, future)
        second = time.thread_time()
        run()
        begins.append(second - first)
        spent.append(time.thread_time() - second)
    _, *begins = begins if len(begins) > 1 else begins * 2  # the first may compile
    _, *spent = spent if len(spent) > 1 else spent * 2
    return {
        "policy": name,
        "compiled": compiled,
        "microseconds": 1e6 * float(np.median(spent)) / workload.instances,
        "begin_microseconds": 1e6 * float(np.median(begins)),
    }


def _ready_to_run(policy: Policy, workload: Workload, future: Scenario) -> Callable[[], object]:
    if isinstance(policy, RulePolicy):
        sim = make_sim(workload, future, policy.rule(workload), eager=True)
        return lambda: run_to_end(sim)
    if isinstance(policy, CompiledPolicy):
        policy.begin(workload, seed=0)
        sim = make_sim(workload, future, None, eager=True, copies=getattr(policy, "copies", False))
        if isinstance(policy, ReplanningPolicy):
            plans = policy.portfolio(sim)
            return lambda: policy.live_by(sim, plans)
        return lambda: policy.live(sim)
    return lambda: simulate(workload, policy, scenario=future)


def environment_rate(seconds: float = 3.0) -> float | None:
    """Decisions a second of the learning environment on one core, observations included; None while there is none."""
    if find_spec(ENVIRONMENT) is None:
        return None
    measure = getattr(import_module(ENVIRONMENT), "decisions_per_second", None)
    return None if measure is None else float(measure(seconds))


# -- cards -----------------------------------------------------------------------------

X_KEYS = (
    "steps",
    "decisions",
    "samples",
    "step",
    "episode",
    "update",
    "updates",
    "round",
    "iteration",
    "generation",
    "episodes",
    "seconds",
)
Y_KEYS = (
    "score",
    "all",
    "ratio",
    "relative",
    "best",
    "value",
    "makespan",
    "jct",
    "return",
    "reward",
    "loss",
)


def training_rows(
    names: Sequence[str], folders: Sequence[Path] | None = None
) -> list[dict[str, Any]]:
    """What the cards beside the shipped weights say: minutes, seed and curve, as far as they do."""
    places = (
        folders
        if folders is not None
        else [
            Path(weft.__file__).parent / "policies" / name
            for name in ("workflow_policies", "graphs")
        ]
    )
    rows = []
    for name in (n for n in LEARNED if n in names):
        card = _card(name, places)
        if card is not None:
            rows.append({"policy": name, **_record(card)})
    return rows


def _card(name: str, places: Sequence[Path]) -> Mapping[str, Any] | None:
    for place in places:
        for path in [place / f"{name}.json", *sorted(place.glob(f"{name}-*.json"))]:
            if path.exists():
                found = json.loads(path.read_text(encoding="utf-8"))
                return found if isinstance(found, dict) else None
    return None


def _record(card: Mapping[str, Any]) -> dict[str, Any]:
    record = {**card, **card["training"]} if isinstance(card.get("training"), dict) else card
    minutes = record.get("minutes")
    if minutes is None:
        seconds = next(
            (
                record[key]
                for key in ("wall_seconds", "seconds", "cpu_seconds")
                if isinstance(record.get(key), int | float)
            ),
            None,
        )
        minutes = None if seconds is None else seconds / 60
    x, y, curve = _curve(record.get("curve") or [])
    return {
        "minutes": minutes,
        "seed": record.get("seed"),
        "algorithm": record.get("algorithm"),
        "x": x,
        "y": y,
        "curve": curve,
    }


def _curve(entries: Sequence[Any]) -> tuple[str, str, list[list[float]]]:
    """Name of either axis and the points: of dicts the first known keys, of pairs and numbers as they come."""
    if not entries:
        return "", "", []
    first = entries[0]
    if isinstance(first, Mapping):
        x = next((key for key in X_KEYS if key in first), "")
        y = next((key for key in Y_KEYS if any(key in entry for entry in entries)), "")
        points = [
            [float(entry.get(x, k)), float(entry[y])]
            for k, entry in enumerate(entries)
            if y and entry.get(y) is not None
        ]
        return x or "entry", y, points
    if isinstance(first, Sequence):
        return "step", "score", [[float(entry[0]), float(entry[1])] for entry in entries]
    return "entry", "score", [[float(k), float(value)] for k, value in enumerate(entries)]
