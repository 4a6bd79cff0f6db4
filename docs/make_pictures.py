"""Draw the picture and write the table of the README: ``python docs/make_pictures.py``.

The picture has two plans of the problem of `examples/demo.py` on one time axis, once for light and
once for dark pages. The table goes to docs/results/demo.json, where `make_results.py` reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.generators import generate_problem

DOCS = Path(__file__).parent
CLUSTER = "4xV100+2xA100+4xT4"
PLANNERS = ["lookahead", "cpop", "heft-deft", "peft", "heft", "min-min", "round-robin"]
POLICIES = ["replan-switch", "fifo"]
SHOWN = ("heft", "lookahead")

WIDTH, LEFT, RIGHT, TOP = 860, 62, 12, 26
ROW, GAP = 13, 40


@dataclass(frozen=True)
class Look:
    """Colours of a page: text, lines, and one per task kind."""

    text: str
    line: str
    bound: str
    kinds: tuple[str, ...]


LOOKS = {
    "light": Look(
        text="#24292f",
        line="#d0d7de",
        bound="#cf222e",
        kinds=(
            "#bc4c00",
            "#bf8700",
            "#1a7f37",
            "#8250df",
            "#0969da",
            "#0b7285",
            "#a40e56",
            "#57606a",
        ),
    ),
    "dark": Look(
        text="#e6edf3",
        line="#30363d",
        bound="#ff7b72",
        kinds=(
            "#f0883e",
            "#d29922",
            "#3fb950",
            "#bc8cff",
            "#58a6ff",
            "#39c5cf",
            "#f778ba",
            "#8b949e",
        ),
    ),
}


def main() -> None:
    problem = generate_problem("epigenomics", CLUSTER, lanes=3, chunks=12, ccr=0.5, seed=7)
    plans = [weft.plan(problem, name) for name in SHOWN]
    (DOCS / "img").mkdir(exist_ok=True)
    for name, look in LOOKS.items():
        text = picture(problem, plans, look)
        (DOCS / "img" / f"plans-{name}.svg").write_text(text, encoding="utf-8")
    comparison = weft.compare([problem], [*PLANNERS, *POLICIES])
    (DOCS / "results" / "demo.json").write_text(table(comparison), encoding="utf-8")
    print(f"pictures in {DOCS / 'img'}")


def picture(problem: weft.Problem, plans: list[weft.Plan], look: Look) -> str:
    """Return the plans below each other as one SVG, with the lower bound across both."""
    panel = ROW * problem.p
    height = TOP + len(plans) * (panel + GAP) - GAP + 24
    longest = max(plan.makespan for plan in plans)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = [
        _panel(problem, plan, look, TOP + k * (panel + GAP), scale) for k, plan in enumerate(plans)
    ]
    bound = plans[0].bound
    x, bottom = LEFT + bound * scale, height - 24
    parts.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom}" stroke="{look.bound}" '
        f'stroke-dasharray="4 3"/>'
        f'<text x="{x:.1f}" y="{bottom + 16}" fill="{look.bound}" text-anchor="middle">'
        f"no schedule is shorter than {bound:.1f} s</text>"
    )
    title = f"{problem.n} tasks on {problem.p} GPUs, planned by {' and '.join(SHOWN)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{title}">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(problem: weft.Problem, plan: weft.Plan, look: Look, top: float, scale: float) -> str:
    workflow, schedule = problem.workflow, plan.schedule
    title = f'<tspan font-weight="bold">{plan.planner}</tspan>: {plan.makespan:.1f} s'
    rows = [f'<text x="{LEFT}" y="{top - 8}" fill="{look.text}">{title}</text>']
    for device, name in enumerate(problem.cluster.names):
        y = top + device * ROW
        rows.append(
            f'<text x="{LEFT - 6}" y="{y + ROW - 3}" fill="{look.text}" font-size="10" '
            f'text-anchor="end">{name}</text>'
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + ROW - 0.5}" y2="{y + ROW - 0.5}" '
            f'stroke="{look.line}" stroke-width="0.5"/>'
        )
    columns = (schedule.task, schedule.device, schedule.start, schedule.finish)
    for task, device, start, finish in zip(*(c.tolist() for c in columns), strict=True):
        width = max((finish - start) * scale - 0.4, 0.4)
        colour = look.kinds[int(workflow.kind[task]) % len(look.kinds)]
        rows.append(
            f'<rect x="{LEFT + start * scale:.1f}" y="{top + device * ROW + 1}" '
            f'width="{width:.1f}" height="{ROW - 3}" fill="{colour}"/>'
        )
    return "\n".join(rows)


def table(comparison: weft.Comparison) -> str:
    """Return the comparison as the data of a table."""
    rows = [
        [f"`{row.contender}`", row.kind, row.makespan, 100 * row.gap, 100 * row.utilisation]
        for row in comparison.rows
    ]
    lines = ",\n".join(
        f"    {json.dumps([c if isinstance(c, str) else round(c, 2) for c in row])}" for row in rows
    )
    head = {
        "columns": ["contender", "kind", "makespan", "gap to bound", "utilisation"],
        "align": "llrrr",
        "decimals": [None, None, 2, 1, 0],
        "suffix": ["", "", " s", " %", " %"],
    }
    body = "".join(f"   {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    origin = (
        ' "measured_with": "docs/make_pictures.py",\n "provenance": "written by that script",\n'
    )
    plans = f'  "plans": {{\n{body}   "rows": [\n{lines}\n   ]\n  }}\n'
    return f'{{\n{origin} "tables": {{\n{plans} }}\n}}\n'


if __name__ == "__main__":
    main()
