"""Tables of docs/results/cascade.json, written by the benchmarks of cascades and routers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = {
    "weft tuned": "weft, tuned",
    "weft tuned, norm 2": "weft, tuned for norm 2",
    "weft tuned, norm 3": "weft, tuned for norm 3",
    "fifo": "weft, FIFO with full batches",
    "ray serve": "Ray Serve",
}
"""Contenders as the tables call them; all others are called as they are."""


def put_table(
    path: Path,
    name: str,
    columns: Sequence[tuple[str, int | None, str]],
    rows: list[list[Any]],
    *,
    commands: Sequence[str],
    conditions: str,
) -> None:
    """Set one table of a file of docs/results, with its own commands and conditions.

    `columns` are name, decimals (None: text) and suffix; all other tables stay as they are.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    document["measured_with"] = "the commands that each table names"
    document["provenance"] = "written by these commands"
    document["tables"][name] = {
        "columns": [title for title, _, _ in columns],
        "align": "".join("l" if decimals is None else "r" for _, decimals, _ in columns),
        "decimals": [decimals for _, decimals, _ in columns],
        "suffix": [suffix for _, _, suffix in columns],
        "measured_with": list(commands),
        "conditions": conditions,
        "rows": rows,
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def put_load(path: Path, document: dict[str, Any]) -> None:
    """Write the rows of `load.py --json`: completion times, and one request alone."""
    commands = [about["command"] for about in document["commands"]]
    conditions = (
        f"load 1 is {document['capacity']:.1f} requests per second; load of the machine "
        f"{min(a['machine_load'] for a in document['commands']):.0f} to "
        f"{max(a['machine_load'] for a in document['commands']):.0f}"
    )
    columns = [
        *(("load", None, ""), ("seconds", 0, ""), ("contender", None, ""), ("mean", 0, "")),
        *(("simulated", 0, ""), ("difference", 0, " %"), ("p95", 0, ""), ("p99", 0, "")),
        *(("per second", 1, ""), ("in time", 0, " %")),
    ]
    loaded = [row for row in document["rows"] if row["load"] > 0]
    loaded.sort(key=lambda row: (row["seconds"], row["load"]))
    rows = [
        [
            *(f"{row['load']:g}", row["seconds"], NAMES.get(row["contender"], row["contender"])),
            *(row["mean"], row.get("simulated"), _difference(row), row["p95"], row["p99"]),
            *(row["throughput"], 100.0 * row["in_time"]),
        ]
        for row in loaded
    ]
    if rows:
        put_table(
            path, document["example"], columns, rows, commands=commands, conditions=conditions
        )
    alone = [row for row in document["rows"] if "alone" in row]
    if document["example"] == "emulated" and alone:  # only these devices tell their own time
        put_table(
            path,
            "alone",
            [("contender", None, ""), ("ms beyond its device", 2, "")],
            [[NAMES.get(row["contender"], row["contender"]), row["alone"]] for row in alone],
            commands=commands,
            conditions=conditions,
        )


def _difference(row: dict[str, Any]) -> float | None:
    """Return by how many per cent the simulated mean is above the measured one."""
    return 100.0 * (row["simulated"] / row["mean"] - 1.0) if "simulated" in row else None
