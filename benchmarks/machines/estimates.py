"""What planners gain by counting set-ups and shared links, in the simulator.

Drawn graphs of 40 to 100 tasks of six kinds. "links": four nodes behind two switches with a trunk
of half their rate, at three ratios of communication to computation. "set-ups": six devices that
load kinds, which takes from a half to four times the mean task, into caches for two of six kinds.
"both": all of it. Each planner plans once as if links were independent and set-ups took no time,
and once with its estimates; both plans are replayed with everything on.

    python benchmarks/machines/estimates.py --write docs/results/machines.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.generators import layered
from weft.planners import PLANNERS
from weft.planners.replays import Estimate, replayed

PLANNERS_COMPARED = ("heft", "cpop", "peft", "dls", "mct", "anytime")
RATE = 1e9


def draw(machines: str, case: int) -> weft.Problem:
    """Draw a problem with set-ups, shared links, or both."""
    rng = np.random.default_rng([7, case])
    ccr = (0.2, 1.0, 3.0)[case % 3] if machines != "set-ups" else 0.1
    tasks = int(rng.integers(40, 101))
    flow = layered(tasks=tasks, alpha=1.0, density=0.3, ccr=ccr, kinds=6, seed=case)
    setup, options = {}, {}
    if machines != "links":
        load = (0.5, 1.0, 4.0)[case % 3]
        setup = {f"k{k}": weft.Setup(load * rng.uniform(0.5, 1.5), memory=1.0) for k in range(6)}
        options = {"setup": setup, "cache": 2.0, "switch": 0.05}
    speeds = rng.uniform(0.5, 2.0, 6 if machines == "set-ups" else 4)
    names = [f"n{i}" for i in range(len(speeds))]
    devices = [
        weft.Device(n, node=n, speed=float(s), **options)
        for n, s in zip(names, speeds, strict=True)
    ]
    network = None
    if machines != "set-ups":
        half = len(names) // 2
        racks = {"left": names[:half], "right": names[half:]}
        network = weft.Topology.racks(racks, up=RATE, oversubscription=2, latency=1e-5)
    links = weft.Links(bandwidth=RATE) if network is None else None
    cluster = weft.Cluster.of(devices, links, network=network)
    return weft.Problem.bind(flow, cluster)


def gain(problem: weft.Problem, name: str, seconds: float) -> float:
    """Return the makespan without estimates over that with them."""
    planner, limit = PLANNERS.create(name), seconds if name == "anytime" else None
    blind = planner.solve(Estimate().apply(problem, setups=False), seconds=limit).schedule
    before = replayed(problem, blind)
    after = weft.plan(problem, name, seconds=limit)
    assert weft.check(problem, before) == weft.check(problem, after) == []
    return before.makespan / after.makespan


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=30, help="problems of each sort")
    parser.add_argument("--seconds", type=float, default=0.5, help="time of anytime")
    parser.add_argument("--write", type=Path, help="a JSON file to write")
    args = parser.parse_args()
    lines: list[list[Any]] = []
    for machines in ("links", "set-ups", "both"):
        problems = [draw(machines, case) for case in range(args.cases)]
        row: list[Any] = [machines, args.cases]
        for name in PLANNERS_COMPARED:
            gains = np.array([gain(problem, name, args.seconds) for problem in problems])
            row.append(100 * (1.0 - 1.0 / float(np.exp(np.log(gains).mean()))))
            print(f"{machines}, {name}: {row[-1]:.1f} % shorter, worst {gains.min():.3f}")
        lines.append(row)
    if args.write is not None:
        table = {
            "columns": ["machines", "cases", *PLANNERS_COMPARED],
            "align": "lr" + "r" * len(PLANNERS_COMPARED),
            "decimals": [None, 0, *[1] * len(PLANNERS_COMPARED)],
            "suffix": ["", "", *[" %"] * len(PLANNERS_COMPARED)],
            "rows": lines,
        }
        document = {
            "measured_with": "python " + " ".join(sys.argv),
            "provenance": f"written by the script; anytime had {args.seconds:g} s",
            "tables": {"estimates": table},
        }
        args.write.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
