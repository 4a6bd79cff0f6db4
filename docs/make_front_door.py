"""Write tables of docs/results/front_door.json from the outputs of the commands that measured it.

    python benchmarks/runtime/executor_overhead.py > executors.txt
    python benchmarks/session_decisions.py > sessions.txt
    weft train conditional --stream examples/streams/wide.toml --json > wide.json
    python docs/make_front_door.py --executors executors.txt --conditions "2 cores"
    python docs/make_front_door.py --sessions sessions.txt --streams *.json --conditions "2 cores"

Tables that are not given stay as they are.
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


def streams(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the table of trained streams."""
    return {
        "columns": ["stream", "trained", f"`{SHIPPED}`", "best other", "by", "processor time"],
        "align": "lrrllr",
        "decimals": [None, 2, 2, None, None, 0],
        "suffix": ["", "", "", "", "", " s"],
        "rows": [stream(result) for result in results],
    }


def last_line(path: Path) -> Any:
    """Return the JSON document in the last line of a file."""
    return json.loads(path.read_text(encoding="utf-8").strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executors", type=Path)
    parser.add_argument("--sessions", type=Path)
    parser.add_argument("--streams", type=Path, nargs="+")
    parser.add_argument("--conditions", required=True, help="the machine and its load")
    args = parser.parse_args()
    known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.is_file() else {}
    tables, conditions = known.get("tables", {}), known.get("provenance", {})
    given: dict[str, Any] = {}
    if args.executors:
        given["executors"] = executors(last_line(args.executors))
    if args.sessions:
        given["sessions"] = sessions(last_line(args.sessions))
    if args.streams:
        results = [json.loads(path.read_text(encoding="utf-8")) for path in args.streams]
        given["streams"] = streams(results)
    document = {
        "measured_with": "the commands in docs/make_front_door.py",
        "provenance": conditions | dict.fromkeys(given, args.conditions),
        "tables": tables | given,
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fill_pages()


if __name__ == "__main__":
    main()
