"""Draw the pictures of the README: ``python docs/make_pictures.py``."""

from __future__ import annotations

from pathlib import Path

import weft
from weft.generators import generate_problem
from weft.report.dag_svg import dag_svg

FOLDER = Path(__file__).parent / "img"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    problem = generate_problem(
        "epigenomics", "2xV100+2xA100+2xT4", lanes=2, chunks=8, ccr=0.5, seed=7
    )
    weft.save_gantt(weft.plan(problem, "heft"), FOLDER / "gantt.svg")
    (FOLDER / "dag.svg").write_text(dag_svg(problem.workflow), encoding="utf-8")
    print(f"pictures in {FOLDER}")


if __name__ == "__main__":
    main()
