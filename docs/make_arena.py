"""Write docs/results/attack.json and arena.json: ``python docs/make_arena.py``.

The first comes from the library of the arena, the second from a contest at equal time (minutes).
"""

from __future__ import annotations

import json
from pathlib import Path

from weft.experiments.arena.contest import contend
from weft.experiments.arena.library import load_library

RESULTS = Path(__file__).parent / "results"
CONTENDERS = ("heft", "cpop", "peft", "lookahead", "min-min", "anytime", "eft", "heft-replanned")
SECONDS = 0.1


def write(
    name: str, measured_with: str, table: str, columns: dict[str, int | None], rows: list
) -> None:
    """Write one table; `columns` has the decimals of each."""
    document = {
        "measured_with": measured_with,
        "provenance": "written by docs/make_arena.py",
        "tables": {
            table: {
                "columns": list(columns),
                "align": ["l" if places is None else "r" for places in columns.values()],
                "decimals": list(columns.values()),
                "rows": rows,
            }
        },
    }
    text = json.dumps(document, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Write both files."""
    library = load_library().values()
    found = [
        [
            f"`{i.attack['contender']}`",
            f"`{i.attack['against']}`",
            i.attack["makespan"] / i.attack["against_makespan"],
            i.attack["makespan"] / i.best,
            i.attack["against_makespan"] / i.best,
        ]
        for i in library
        if i.origin == "adversarial"
    ]
    columns = {"contender": None, "against": None, "ratio": 2}
    columns |= {"contender over optimum": 2, "against over optimum": 2}
    write("attack", "weft attack", "found", columns, found)
    chosen = [i for i in library if i.origin != "real"]
    rows = contend(CONTENDERS, chosen, seconds=SECONDS)
    cells = [
        [f"`{r['contender']}`", r["drawn"], r["adversarial"], r["worst"], r["best_known"]]
        for r in rows
    ]
    columns = {"contender": None, "drawn": 3, "adversarial": 3, "worst": 2}
    columns[f"best known of {len(chosen)}"] = 0
    command = f"weft arena --contenders {','.join(CONTENDERS)} --seconds {SECONDS}"
    write("arena", command, "contest", columns, cells)


if __name__ == "__main__":
    main()
