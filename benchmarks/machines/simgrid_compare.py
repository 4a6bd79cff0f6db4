"""Makespans of replayed plans on shared links, weft's beside those of SimGrid.

Drawn graphs on 2 to 8 nodes, behind one switch or two, with a ratio of communication to computation
(CCR) of 0.2 to 5. HEFT plans each one with independent links; weft and SimGrid replay the same
placement and order. Where latencies differ, SimGrid weights transfers by them; weft's slow
simulator then replays the plan with the same weights too, to show that nothing else differs.
SimGrid runs in the Python given by --python, which needs the package `simgrid` (from PyPI, or
Debian's python3-simgrid).

    python benchmarks/machines/simgrid_compare.py --python PYTHON --write docs/results/simgrid.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import weft
from weft.model.columns import FloatArray
from weft.planners.contention import independent
from weft.sim.kernel.tables import replay_order
from weft.sim.reference import simulate_reference
from weft.sim.simulate import simulate
from weft.sim.traffic import Traffic, fix_rate

REPLAY = Path(__file__).with_name("simgrid_replay.py")
RATE, LATENCY = 1e8, 1e-4
TOPOLOGIES = ("one switch", "two switches", "two switches, far")


@dataclass(frozen=True)
class Case:
    topology: str
    nodes: int
    ccr: float
    seed: int


class WeightedTraffic(Traffic):
    """Transfers whose rates are max-min fair times one over the latency of their route."""

    def __init__(self, workload: weft.Workload) -> None:
        super().__init__(workload)
        self._latency = workload.cluster.latency

    def _share(self, now: float) -> None:
        self._reshare = False
        unfixed = [f for f in self.moving if f.since <= now]
        weight = {id(f): 1.0 / float(self._latency[f.source, f.target]) for f in unfixed}
        left = list(self._rate)
        while unfixed:
            users = [sum(weight[id(f)] for f in unfixed if x in f.route) for x in range(len(left))]
            shares = [x / n if n else np.inf for x, n in zip(left, users, strict=True)]
            narrow = shares.index(min(shares))
            for flow in [f for f in unfixed if narrow in f.route]:
                rate = shares[narrow] * weight[id(flow)]
                for link in flow.route:
                    left[link] -= rate
                fix_rate(flow, rate, now)
            unfixed = [f for f in unfixed if narrow not in f.route]


def cases() -> list[Case]:
    """Return 72 cases with equal latencies, and 36 with a trunk of ten times the latency."""
    return [Case(*row) for row in product(TOPOLOGIES, (2, 4, 6, 8), (0.2, 1.0, 5.0), range(3))]


def problem_of(case: Case) -> weft.Problem:
    rng = np.random.default_rng([case.seed, case.nodes, int(case.ccr * 10)])
    tasks = int(rng.integers(20, 61))
    pairs = sorted(
        {
            (int(u), v)
            for v in range(3, tasks)
            for u in rng.integers(max(0, v - 12), v, rng.integers(1, 4))
        }
    )
    work = rng.lognormal(1.0, 0.6, tasks)
    data = rng.lognormal(0.0, 0.6, len(pairs))
    data = np.ceil(data * (case.ccr * work.mean() * RATE / data.mean()))  # whole bytes
    src, dst = np.array(pairs).T
    workflow = weft.Workflow(work=work, src=src, dst=dst, data=data)
    names = [f"n{i}" for i in range(case.nodes)]
    speed = rng.uniform(0.5, 2.0, case.nodes)
    devices = [weft.Device(n, node=n, speed=float(s)) for n, s in zip(names, speed, strict=True)]
    return weft.Problem.bind(workflow, weft.Cluster.of(devices, network=network_of(case, names)))


def network_of(case: Case, names: list[str]) -> weft.Topology:
    if case.topology == "one switch":
        return weft.Topology.star(names, RATE, latency=LATENCY)
    half = len(names) // 2
    ports = {
        n: weft.Port(RATE, latency=LATENCY, switch="left" if i < half else "right")
        for i, n in enumerate(names)
    }
    far = 10 * LATENCY if case.topology.endswith("far") else 0.0
    return weft.Topology(ports, [weft.Trunk("left", "right", RATE * half / 2.0, far)])


def by_weft(problem: weft.Problem, plan: weft.Schedule) -> FloatArray:
    trace = simulate(weft.Workload.of(problem), plan)
    assert weft.check(problem, trace) == []
    return finish_of(problem, trace)


def by_weights(problem: weft.Problem, plan: weft.Schedule) -> FloatArray:
    with patch("weft.sim.reference.Traffic", WeightedTraffic):
        return finish_of(problem, simulate_reference(weft.Workload.of(problem), plan))


def finish_of(problem: weft.Problem, trace: weft.Trace) -> FloatArray:
    finish = np.zeros(problem.n)
    finish[trace.task] = trace.finish
    return finish


def by_simgrid(python: str, problem: weft.Problem, plan: weft.Schedule) -> FloatArray:
    answer = subprocess.run(
        [python, str(REPLAY)],
        input=json.dumps(record_of(problem, plan)),
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(answer.stdout))


def record_of(problem: weft.Problem, plan: weft.Schedule) -> dict[str, Any]:
    """Return a problem and the order of a plan as SimGrid replays it."""
    w, c = problem.workflow, problem.cluster
    network, routes = c.network, c.routes
    assert network is not None
    assert routes is not None
    latency = [p.latency for p in network.ports.values() for _ in range(2)]
    latency += [t.latency for t in network.trunks for _ in range(2)]
    nodes = range(len(c.node_names))
    order = plan.task[replay_order(problem, plan)]
    device = np.zeros(problem.n, np.int64)
    device[plan.task] = plan.device
    return {
        "nodes": len(nodes),
        "rate": routes.rate.tolist(),
        "latency": latency,
        "routes": [
            (a, b, [x for x in routes.path[a, b].tolist() if x >= 0])
            for a in nodes
            for b in nodes
            if a != b
        ],
        "order": order.tolist(),
        "node": c.node[device].tolist(),
        "seconds": [problem.duration(t, int(device[t])) for t in range(problem.n)],
        "src": w.src.tolist(),
        "dst": w.dst.tolist(),
        "data": w.data.tolist(),
    }


Row = tuple[Case, float, float, float, float]
"""A case and its makespans: independent links, weft, SimGrid, weft with SimGrid's weights."""


def compare(python: str) -> list[Row]:
    """Replay all cases."""
    rows = []
    for case in cases():
        problem = problem_of(case)
        apart = weft.plan(independent(problem), "heft")
        ours = by_weft(problem, apart.schedule)
        theirs = by_simgrid(python, problem, apart.schedule)
        weighted = by_weights(problem, apart.schedule)
        made = [float(x.max()) for x in (ours, theirs, weighted)]
        rows.append((case, apart.makespan, *made))
        print(case, *made, file=sys.stderr)
    return rows


def table(rows: list[Row]) -> dict[str, Any]:
    body: list[list[Any]] = []
    for topology, ccr in product(TOPOLOGIES, (0.2, 1.0, 5.0)):
        mine = [r for r in rows if (r[0].topology, r[0].ccr) == (topology, ccr)]
        apart, ours, theirs, weighted = (np.array([r[k] for r in mine]) for k in (1, 2, 3, 4))
        far, near = (100 * np.abs(x / theirs - 1.0) for x in (ours, weighted))
        slow = float((ours / apart).mean())
        body.append([topology, ccr, len(mine), slow, far.mean(), far.max(), near.max()])
    return {
        "columns": ["topology", "CCR", "cases", "shared / independent", "mean difference",
                    "largest difference", "largest with SimGrid's weights"],
        "align": "lrrrrrr",
        "decimals": [None, 1, 0, 2, 4, 4, 4],
        "suffix": ["", "", "", "", " %", " %", " %"],
        "rows": body,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="a Python with simgrid")
    parser.add_argument("--write", type=Path, help="the JSON file of the tables")
    options = parser.parse_args()
    rows = compare(options.python)
    made = table(rows)
    text = json.dumps(
        {
            "measured_with": "benchmarks/machines/simgrid_compare.py",
            "provenance": "written by the script; SimGrid 3.32 (Debian), model CM02",
            "tables": {"makespans": made},
        },
        indent=1,
    )
    if options.write:
        options.write.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
