"""The command: campaigns with counts, progress on stderr, a table, exit code 1 on any violation."""

# ruff: noqa: T201  # a command
from __future__ import annotations

import argparse
import faulthandler
import shlex
import sys
from pathlib import Path

from tests.chaos.campaigns import LIMIT, Tally, kill_drivers, kill_ray_workers, kill_workers
from tests.chaos.cascade import kill_units
from tests.chaos.results import add_results
from tests.chaos.service import attack_service
from tests.chaos.soak import soak_service


def main(arguments: list[str] | None = None) -> int:
    """Run the campaigns; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Kill workers and drivers of real runs, and units of a cascade, at any moment; "
        "attack a service.",
        epilog="example: python -m tests.chaos --local 50 --driver 30 --dask 10 --ray 10 "
        "--service 600 --cascade 300; a saturated service: --soak 1800 with 0 for all others",
    )
    parser.add_argument("--local", type=int, default=50, help="runs on local processes")
    parser.add_argument("--driver", type=int, default=30, help="drivers killed and resumed")
    parser.add_argument("--dask", type=int, default=10, help="runs on Dask")
    parser.add_argument("--ray", type=int, default=10, help="runs on Ray")
    parser.add_argument("--service", type=float, default=600, help="seconds of attacks on services")
    parser.add_argument("--soak", type=float, default=0, help="seconds of a saturated service")
    parser.add_argument("--cascade", type=float, default=0, help="seconds of a cascade")
    parser.add_argument("--tasks", type=int, default=100, help="tasks per run")
    parser.add_argument("--driver-backend", default="local", help="backend of the killed drivers")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to go on")
    parser.add_argument("--out", type=Path, help="a JSON file of tables for the documentation")
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    tallies = {
        name: kill_workers(name, getattr(args, name), args.tasks, _tell, args.first)
        for name in ("local", "dask")
        if getattr(args, name)
    }
    if args.ray:
        tallies["ray"] = kill_ray_workers(args.ray, args.tasks, _tell, args.first)
    if args.driver:
        tallies["driver"] = kill_drivers(
            args.driver, args.tasks, _tell, args.driver_backend, args.first
        )
    if args.service:
        tallies["service"] = attack_service(args.service, _tell)
    soak = soak_service(args.soak, _tell) if args.soak else None
    if args.cascade:
        tallies["cascade"] = kill_units(args.cascade, _tell)
    faulthandler.cancel_dump_traceback_later()
    if tallies:
        print(table(tallies))
    if args.out is not None:
        shown = [word for word in given if word not in ("--out", str(args.out))]
        add_results(args.out, shlex.join(["python", "-m", "tests.chaos", *shown]), tallies, soak)
    wrong = [text for tally in tallies.values() for text in tally.wrong]
    wrong += soak.wrong if soak else []
    for text in wrong:
        print(f"VIOLATION {text}", file=sys.stderr)
    return 1 if wrong else 0


def table(tallies: dict[str, Tally]) -> str:
    """Return the outcomes as a table."""
    head = ["campaign", *(name.replace("_", " ") for name in Tally().numbers)]
    rows = [[name, *map(str, tally.numbers.values())] for name, tally in tallies.items()]
    width = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(w) for cell, w in zip(row, width, strict=True))
        for row in [head, *rows]
    )


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)  # a run that hangs is a violation


if __name__ == "__main__":
    _tell("killing workers and drivers")
    sys.exit(main())
