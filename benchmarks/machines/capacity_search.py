"""`anytime` beside `exact` on nodes whose tasks share cores, memory and licences.

Thirty drawn cases of 30 to 60 tasks on one to four nodes. `exact` has a minute for each, `anytime`
a second; the table counts how often `anytime` is within 3 % of the best schedule of `exact`.

    python benchmarks/machines/capacity_search.py --write docs/results/capacity.json
    python benchmarks/machines/capacity_search.py --exact-from docs/results/capacity.json
    python benchmarks/machines/capacity_search.py --exact-from docs/results/capacity.json --again

With --again, `exact` runs again for cases that it has not proved; the better result counts. Before
the cases, HEFT plans 10,000 tasks on 32 nodes with three capacities.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.generators import layered

CASES = 30
ALLOWED = 0.03
SHAPES = ((0.5, 0.3), (1.0, 0.5), (2.0, 0.2))
"""Shape and density of the layered graphs."""


def draw(case: int) -> weft.Problem:
    """Draw a case: the number of a case is its seed."""
    rng = np.random.default_rng([13, case])
    tasks = 30 + case % CASES  # 30 to 59
    alpha, density = SHAPES[case % 3]
    flow = layered(tasks=tasks, alpha=alpha, density=density, ccr=0.0, sigma=0.8, seed=case)
    nodes = 1 + case // 3 % 4
    unlike = case % 2 == 1
    devices, capacity = [], {"cores": {}, "memory": {}, "licence": {}}
    for n in range(nodes):
        slots, speed = int(rng.integers(3, 7)), float(rng.choice([1.0, 1.5, 2.0]) if unlike else 1)
        devices += [
            weft.Device(f"n{n}s{i}", node=f"n{n}", speed=speed, cores=16) for i in range(slots)
        ]
        capacity["cores"][f"n{n}"] = float(rng.choice([8, 12, 16]))
        capacity["memory"][f"n{n}"] = float(rng.choice([32, 64]))
        capacity["licence"][f"n{n}"] = float(rng.integers(1, 4))
    links = weft.Links(bandwidth=1.0, node_bandwidth=np.inf)
    cluster = weft.Cluster.of(devices, links, capacity=capacity, name=f"nodes-{nodes}")
    ccr = (0.0, 0.3, 1.0)[int(rng.integers(3))]
    workflow = weft.Workflow(
        name=f"case-{case}",
        work=np.round(flow.work * 20.0) + 1.0,
        src=flow.src,
        dst=flow.dst,
        data=np.round(rng.gamma(2.0, 10.0 * ccr, flow.m)) if ccr else np.zeros(flow.m),
        cores=rng.choice([1, 2, 4, 6, 8], tasks, p=[0.3, 0.3, 0.2, 0.1, 0.1]),
        memory=rng.choice([1.0, 4.0, 8.0, 16.0, 24.0], tasks),
        needs={"licence": rng.choice([0.0, 1.0], tasks, p=[0.75, 0.25])},
    )
    return weft.Problem.bind(workflow, cluster)


def row_of(case: int, known: dict[str, Any] | None, args: argparse.Namespace) -> dict[str, Any]:
    """Plan a case by both planners; the times of `exact` may be known."""
    problem = draw(case)
    row = {"tasks": problem.n, "nodes": len(problem.cluster.node_names)}
    best, bound = (np.inf, 0.0) if known is None else (known["exact"], known["bound"])
    if known is None or (args.again and best > bound * (1 + 1e-9)):
        exact = weft.plan(problem, "exact", seconds=args.exact_seconds)
        assert weft.check(problem, exact) == []
        best, bound = min(best, exact.makespan), max(bound, exact.bound)
    row |= {"exact": best, "bound": bound}
    plan = weft.plan(problem, "anytime", seconds=args.seconds, seed=args.seed)
    assert weft.check(problem, plan) == []
    heft = weft.plan(problem, "heft")
    return row | {"anytime": plan.makespan, "heft": heft.makespan, "seconds": plan.seconds}


def draw_large(tasks: int = 10_000, nodes: int = 32, slots: int = 4) -> weft.Problem:
    """Draw a layered graph on nodes with cores, memory and licences."""
    rng = np.random.default_rng(13)
    flow = layered(tasks=tasks, alpha=1.0, density=0.02, seed=0)
    devices = [
        weft.Device(f"n{n}s{i}", node=f"n{n}", speed=1.0 + n % 4, cores=16)
        for n in range(nodes)
        for i in range(slots)
    ]
    amounts = {"cores": 16.0, "memory": 64.0, "licence": 2.0}
    capacity = {name: {f"n{n}": x for n in range(nodes)} for name, x in amounts.items()}
    workflow = weft.Workflow(
        work=flow.work,
        src=flow.src,
        dst=flow.dst,
        data=flow.data,
        cores=rng.choice([1, 2, 4, 8], tasks),
        memory=rng.choice([1.0, 4.0, 8.0, 16.0], tasks),
        needs={"licence": rng.choice([0.0, 1.0], tasks, p=[0.75, 0.25])},
    )
    return weft.Problem.bind(workflow, weft.Cluster.of(devices, capacity=capacity))


def large(calls: int = 15) -> dict[str, Any]:
    """Measure HEFT on the large problem; return a table of milliseconds."""
    problem, spent = draw_large(), []
    assert weft.check(problem, weft.plan(problem, "heft")) == []
    for _ in range(calls):
        start = time.perf_counter()
        weft.plan(problem, "heft")
        spent.append(1000 * (time.perf_counter() - start))
    shape = [f"{problem.n:,}", len(problem.cluster.node_names), problem.p, 3]
    return {
        "columns": ["tasks", "nodes", "devices", "capacities", "HEFT, median", "slowest"],
        "align": "rrrrrr",
        "decimals": [None, 0, 0, 0, 0, 0],
        "suffix": ["", "", "", "", " ms", " ms"],
        "rows": [[*shape, float(np.median(spent)), max(spent)]],
    }


def table(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Summarise by number of nodes."""
    lines = []
    for nodes in sorted({row["nodes"] for row in rows.values()}):
        own = [row for row in rows.values() if row["nodes"] == nodes]
        above = np.array([row["anytime"] / row["exact"] - 1.0 for row in own])
        heft = np.array([row["heft"] / row["exact"] - 1.0 for row in own])
        proved = sum(row["exact"] <= row["bound"] * (1 + 1e-9) for row in own)
        lines.append(
            [
                str(nodes),
                len(own),
                int(proved),
                100 * heft.mean(),
                100 * above.mean(),
                100 * above.max(),
                int((above <= ALLOWED).sum()),
            ]
        )
    return {
        "columns": [
            "nodes",
            "cases",
            "proved by exact",
            "HEFT above exact",
            "anytime above exact, mean",
            "largest",
            "cases within 3 %",
        ],
        "align": "rrrrrrr",
        "decimals": [None, 0, 0, 1, 2, 2, 0],
        "suffix": ["", "", "", " %", " %", " %", ""],
        "rows": lines,
    }


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="time of anytime")
    parser.add_argument("--exact-seconds", type=float, default=60.0, help="time of exact")
    parser.add_argument("--seed", type=int, default=0, help="seed of anytime")
    parser.add_argument("--exact-from", type=Path, help="a file with earlier results of exact")
    parser.add_argument("--again", action="store_true", help="run exact where it proved nothing")
    parser.add_argument("--write", type=Path, help="a JSON file to write after each case")
    args = parser.parse_args()
    known = json.loads(args.exact_from.read_text())["cases"] if args.exact_from else {}
    weft.plan(draw(0), "anytime", seconds=0.5)  # loads or compiles the kernels
    heft = large()
    print("HEFT:", dict(zip(heft["columns"], heft["rows"][0], strict=True)), flush=True)
    more = " more where an earlier run had not proved its plan" if args.again else ""
    rows: dict[str, dict[str, Any]] = {}
    for case in range(CASES):
        row = rows[f"case-{case}"] = row_of(case, known.get(f"case-{case}"), args)
        above = row["anytime"] / row["exact"] - 1.0
        print(
            f"case {case}: {row['tasks']} tasks, {row['nodes']} nodes, exact {row['exact']:g} "
            f"(bound {row['bound']:.4g}), anytime {row['anytime']:g} ({above:+.2%}), "
            f"heft {row['heft']:g}",
            flush=True,
        )
        if args.write is not None:
            document = {
                "measured_with": "python " + " ".join(sys.argv),
                "provenance": f"exact {args.exact_seconds:g} s{more}, anytime {args.seconds:g} s",
                "tables": {"large": heft, "search": table(rows)},
                "cases": rows,
            }
            args.write.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    above = np.array([row["anytime"] / row["exact"] - 1.0 for row in rows.values()])
    print(f"{int((above <= ALLOWED).sum())} of {CASES} within 3 %; mean {above.mean():+.2%}")


if __name__ == "__main__":
    main()
