"""Every planner and policy on drawn workloads, under numba's bounds checks.

    python -m tests.support.bounds 40

runs all of them, on 40 draws each; names after the number choose some. To compile all takes half an
hour. `Unsupported` is an answer; any other error and any invalid schedule or trace is a violation.
"""

# ruff: noqa: T201  # a command
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

import weft
from tests.support.instances import DISTURBED
from weft.errors import Unsupported
from weft.formats.native.stream_toml import load_stream, read_stream_toml
from weft.generators.conditional_streams import random_conditional_stream
from weft.model import Cluster, Problem, Topology, Variant, Workflow, WorkflowBuilder, Workload
from weft.model.scenario import Scenario
from weft.planners.plan_cache import PlanCache
from weft.sim.vector.batch import StepBatch

SECONDS = 0.05
"""A time limit for the planners that take one."""

KINDS = ("a", "b", "c")


def drawn_workload(seed: int) -> Workload:
    """Draw a workload; the features follow from the seed, so few seeds cover all of them."""
    rng = np.random.default_rng(seed)
    cluster = drawn_cluster(rng, seed)
    most = (14, 5, 40)[seed % 3]
    shapes = [
        drawn_workflow(rng, cluster, 0 if rng.random() < 0.1 else int(rng.integers(1, most)), seed)
        for _ in range(int(rng.integers(1, 4)))
    ]
    jobs = int(rng.integers(1, 9))
    arrival = np.sort(rng.uniform(0.0, 12.0, jobs)) * (seed % 4 > 0)
    return Workload.of(
        [Problem.bind(shape, cluster) for shape in shapes],
        arrival=arrival,
        template=rng.integers(0, len(shapes), jobs),
        deadline=arrival + rng.choice([1.0, 10.0, np.inf], jobs),
        priority=rng.choice([0.0, 1.0, 2.0], jobs),
    )


def drawn_cluster(rng: np.random.Generator, seed: int) -> Cluster:
    """Draw devices: one or several, that batch (with curves or without), share nodes or forbid."""
    p = 1 if seed % 5 == 1 else int(rng.integers(2, 7))
    batch = rng.integers(1, 6, p) if seed % 2 else np.ones(p, np.int64)
    sizes = np.arange(int(batch.max()))
    growth = {k: rng.choice([0.0, 0.1, 0.7], p) for k in ("a", "*") if seed % 4 == 3}
    nodes = tuple(rng.choice(["x", "y"], p)) if seed % 3 == 2 else ("x",) * p
    capacity = {"cores": dict.fromkeys(nodes, 4.0), "licence": dict.fromkeys(nodes, 2.0)}
    able = np.arange(p) == 0  # the first device can run everything
    rate = np.where(able, 1.0, rng.choice([0.0, 1.0, 3.0], p))
    return Cluster(
        speed=rng.uniform(0.5, 2.0, p),
        bandwidth=rng.uniform(1.0, 10.0),
        latency=rng.uniform(0.0, 0.3),
        throughput={"b": rate} if seed % 6 > 3 else {},
        batch=batch,
        batch_curve={k: 1.0 + np.outer(rise, sizes) for k, rise in growth.items()},
        power=rng.uniform(50.0, 300.0, p),
        idle_power=10.0,
        nodes=nodes,
        capacity=capacity if seed % 3 == 2 else {},
        network=Topology.star(tuple(dict.fromkeys(nodes)), up=3.0) if seed % 8 == 5 else None,
        **(_setup(rng, p) if seed % 8 in (2, 5) else {}),
    )


def _setup(rng: np.random.Generator, p: int) -> dict[str, Any]:
    """Draw times to load kinds, into caches that hold one or two of them."""
    rows = {k: np.c_[rng.uniform(0.0, 1.0, p), np.ones(p), np.zeros(p)] for k in KINDS[:2]}
    return {"setup": rows, "cache": rng.choice([1.0, 2.0], p), "switch": rng.uniform(0.0, 0.2, p)}


def drawn_workflow(rng: np.random.Generator, cluster: Cluster, n: int, seed: int) -> Workflow:
    """Draw a graph; every seventh seed has choices."""
    builder = WorkflowBuilder("drawn")
    for t in range(n):
        builder.task(
            f"t{t}",
            work=float(rng.choice([0.0, 1.0, rng.lognormal(0.0, 0.7)])),
            kind=str(rng.choice(KINDS)),
            cores=int(rng.integers(1, 4)) if cluster.capacity else 1,
            needs={"licence": float(rng.integers(0, 3))} if cluster.capacity else {},
        )
    chooses = [t for t in range(n) if seed % 7 == 6 and rng.random() < 0.3]
    for t in chooses:
        builder.choice(f"t{t}", {"yes": 0.3, "no": 0.7})
    for v in range(n):
        for u in range(v):
            if rng.random() < min(0.3, 3.0 / n):
                when = str(rng.choice(["yes", "no"])) if u in chooses else None
                builder.edge(f"t{u}", f"t{v}", data=float(rng.uniform(0.0, 5.0)), when=when)
    return builder.build()


def futures(seed: int) -> Iterator[tuple[Workload, Scenario]]:
    """Draw workloads with their scenarios: calm, disturbed, and streams of conditional jobs."""
    workload = drawn_workload(seed)
    yield workload, Scenario.draw(workload, seed=seed)
    yield workload, Scenario.draw(workload, seed=seed, **DISTURBED)
    for stream in (random_conditional_stream(seed, jobs=12), load_stream("conditional-paper")):
        yield stream.with_jobs(12).draw(seed)


def sweep_policy(name: str, seed: int) -> int:
    """Simulate a policy on the draws of a seed; return how many it supports."""
    done = 0
    for workload, scenario in futures(seed):
        with suppress(Unsupported):
            trace = weft.simulate(workload, name, scenario=scenario, seed=seed)
            refuse(weft.check(workload, trace))
            done += 1
    return done


def sweep_planner(name: str, seed: int) -> int:
    """Plan the problems of a seed, and replay each plan; return how many are supported."""
    done = 0
    for problem in drawn_workload(seed).problems:
        with suppress(Unsupported):
            plan = weft.plan(problem, name, seconds=SECONDS, seed=seed)
            refuse(weft.check(problem, plan.schedule))
            refuse(weft.check(Workload.of(problem), weft.simulate(problem, plan, seed=seed)))
            assert plan.bound <= plan.makespan * (1 + 1e-9)
            done += 1
    return done


def sweep_changes(_: str, seed: int) -> int:
    """Change plans of a seed, and plan problems of one shape with a cache."""
    done, cache = 0, PlanCache(plans=3)
    for problem in drawn_workload(seed).problems:
        with suppress(Unsupported):
            plan = weft.plan(problem, "heft", seed=seed)
            names = problem.cluster.names[1:2] if problem.p > 2 else ()
            longer = {0: 3.0} if problem.n else {}
            changed = weft.replan(plan, lost=names, longer=longer)
            refuse(weft.check(changed.problem, changed.schedule))
            done += 1
        for planner in ("heft", "anytime", "anytime"):
            with suppress(Unsupported):
                found = cache.plan(problem, planner, seed=done, **EFFORT.get(planner, {}))
                refuse(weft.check(problem, found.schedule))
                done += 1
    return done


EFFORT: dict[str, dict[str, Any]] = {"anytime": {"iterations": 300}}


def sweep_variants(_: str, seed: int) -> int:
    """Plan the problems of a seed with two ways to run every task of a kind."""
    done = 0
    ways = (Variant("as it is"), Variant("wide", factor=0.6, cores=2, accuracy=0.5, cost=1.0))
    for problem in drawn_workload(seed).problems:
        kinds = {problem.workflow.kinds[k] for k in problem.workflow.kind.tolist()}
        workflow = replace(problem.workflow, variants=dict.fromkeys(kinds & {"a"}, ways))
        with suppress(Unsupported):
            plan = weft.plan(Problem.bind(workflow, problem.cluster), "heft", seed=seed)
            refuse(weft.check(plan.problem, plan.schedule))
            done += 1
    return done


NETWORK = """
[network]
[[network.ports]]
nodes = ["u0", "u1", "v"]
up = "3 MB/s"
"""


def sweep_steps(_: str, seed: int) -> int:
    """Step through streams on a network, with drawn actions that are allowed."""
    rng = np.random.default_rng(seed)
    stream = read_stream_toml(STEPS + NETWORK, name="steps").with_jobs(9)
    batch = StepBatch(stream, 3)
    steps = batch.reset(seed)
    for _ in range(60):
        allowed = steps.mask.reshape(batch.size, batch.units, -1)
        chosen = [[rng.choice(np.flatnonzero(some)) for some in units] for units in allowed]
        steps = batch.step(chosen)
    return 60


STEPS = """
tick = "1 ms"
[arrivals]
process = "poisson"
gap = "4 ms"
[[tasks]]
name = "a"
time = "3 ms"
output = "6 kB"
then = "b"
[[tasks]]
name = "b"
time = "2 ms"
[[units]]
name = "u"
count = 2
batch = 3
[[units]]
name = "v"
batch = 1
"""


def refuse(violations: list[Any]) -> None:
    """Raise the first violation."""
    assert not violations, str(violations[0])


def main(arguments: list[str]) -> int:
    """Sweep all names, or those given; return 1 if anything went wrong."""
    seeds, chosen = int(arguments[0]), arguments[1:]
    sweeps = [
        *((sweep_planner, name, f"planner {name}") for name in weft.list_planners()),
        *((sweep_policy, name, f"policy {name}") for name in weft.list_policies()),
        (sweep_changes, "changes", "changed and cached plans"),
        (sweep_variants, "variants", "tasks with variants"),
        (sweep_steps, "steps", "steps on a network"),
    ]
    wrong = 0
    for sweep, name, about in sweeps:
        if chosen and name not in chosen:
            continue
        begin, done, kinds = time.process_time(), 0, set()
        for seed in range(seeds):
            try:
                done += sweep(name, seed)
            except Exception as error:  # noqa: BLE001  # any error is a violation
                wrong += 1
                if type(error) not in kinds:
                    traceback.print_exc(limit=-4)
                    print(f"VIOLATION {about}, seed {seed}", file=sys.stderr)
                kinds.add(type(error))
        took = time.process_time() - begin
        print(f"{about}: {done} done, {took:.0f} s of processor time", flush=True)
    print(f"{wrong} violations")
    return 1 if wrong else 0


def checked(arguments: list[str]) -> int:
    """Run `main` in a process with bounds checks; return its exit code."""
    with tempfile.TemporaryDirectory() as cache:
        variables = {
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_OPT": "0",  # to compile takes most of the time
            "NUMBA_CACHE_DIR": cache,  # the usual cache holds code without the checks
        }
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, *arguments]
        return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit((main if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else checked)(sys.argv[1:]))
