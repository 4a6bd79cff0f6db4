"""Write docs/results/front_door.json from the outputs of the commands that measured it.

python benchmarks/executor_overhead.py > executors.txt
python benchmarks/session_decisions.py > sessions.txt
weft train conditional --stream examples/streams/wide.toml --json > wide.json
python docs/make_front_door.py executors.txt sessions.txt wide.json ... --conditions "2 cores"
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from make_results import main as fill_pages

TARGET = Path(__file__).parent / "results" / "front_door.json"
OWN, SHIPPED = "own", "conditional-any"


def executors(medians: dict[str, float]) -> dict[str, Any]:
    """Return the table of microseconds per call."""
    rows = [[name, 1e6 * seconds] for name, seconds in medians.items()]
    return {"columns": ["", "us per call"], "align": "lr", "decimals": [None, 1], "rows": rows}


def sessions(found: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the table of microseconds per decision."""
    columns = ["policy", *found]
    names = sorted({name for each in found.values() for name in each})
    rows = [[f"`{name}`", *(each.get(name) for each in found.values())] for name in names]
    align, decimals = "l" + "r" * len(found), [None, *(0 for _ in found)]
    return {"columns": columns, "align": align, "decimals": decimals, "rows": rows}


def stream(result: dict[str, Any]) -> list[Any]:
    """Return the row of a trained stream: itself, `conditional-any`, the best of the others."""
    mean = {row["policy"]: 1000 * row["mean"] for row in result["rows"]}
    best = min((p for p in mean if p not in (OWN, SHIPPED)), key=mean.__getitem__)
    beside = f"{mean[best]:.2f} (`{best}`)"
    seconds = result["cpu_seconds"]
    return [
        f"`{result['stream']}`",
        mean[OWN],
        mean.get(SHIPPED),
        beside,
        result["origin"],
        seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("executors", type=Path)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("streams", type=Path, nargs="+")
    parser.add_argument("--conditions", required=True, help="the machine and its load")
    args = parser.parse_args()

    def last_line(path: Path) -> Any:
        return json.loads(path.read_text(encoding="utf-8").strip().splitlines()[-1])

    columns = ["stream", "trained", f"`{SHIPPED}`", "best other", "trained by", "processor time"]
    streams = {
        "columns": columns,
        "align": "lrrllr",
        "decimals": [None, 2, 2, None, None, 0],
        "suffix": ["", "", "", "", "", " s"],
        "rows": [stream(json.loads(path.read_text(encoding="utf-8"))) for path in args.streams],
    }
    tables = {
        "executors": executors(last_line(args.executors)),
        "sessions": sessions(last_line(args.sessions)),
        "streams": streams,
    }
    document = {
        "measured_with": "the commands in docs/make_front_door.py",
        "provenance": args.conditions,
        "tables": tables,
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fill_pages()


if __name__ == "__main__":
    main()
