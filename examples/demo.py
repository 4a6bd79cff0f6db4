"""`make demo`: a GPU workflow on a mixed cluster, planned and simulated in several ways."""

from __future__ import annotations

from pathlib import Path

import weft
from weft.generators import generate_problem

HERE = Path(__file__).parents[1]

CLUSTER = "4xV100+2xA100+4xT4"
PLANNERS = ["heft", "cpop", "peft", "lookahead", "heft-deft", "min-min", "round-robin"]
POLICIES = ["fifo", "rank-eft", "heft-replanned", "replan-switch"]


def main() -> None:
    problems = [
        generate_problem("epigenomics", CLUSTER, lanes=3, chunks=12, ccr=0.5, seed=7),
        generate_problem("cholesky", CLUSTER, tiles=10, tile_size=7680),
    ]
    contenders = [*PLANNERS, *POLICIES]
    exact = weft.compare(problems, contenders)
    print(exact)
    print(
        "\nWith estimates wrong by 30 % and a slow period on every second device"
        " (mean of 20 scenarios):\n"
    )
    print(weft.compare(problems[:1], contenders, scenarios=20, seed=1, noise=0.3, slowdowns=0.5))

    page = HERE / "demo" / "report.html"
    page.parent.mkdir(exist_ok=True)
    exact.to_html(page)
    for problem in problems:
        plan = weft.plan(problem, "heft")
        violations = weft.check(problem, plan.schedule)
        assert not violations, violations
        weft.save_gantt(plan, page.parent / f"{problem.name}.svg")
    print(f"\nTables, graphs and Gantt charts: {page}")


if __name__ == "__main__":
    main()
