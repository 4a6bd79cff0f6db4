"""The process on the head of a lab: it connects to an engine and runs rounds.

It writes one JSON document per line: each round, and the errors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from shutil import copyfile
from typing import Any

from benchmarks.lab.ways import FIRST, OWN, SIDES, Round, run_way
from benchmarks.lab.workloads import WORKLOADS, at_once

import weft
from weft.errors import WeftError

WARM_SCALE = 0.1
"""Scale of the runs that only load or compile what a way needs."""


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    ready = verbs.add_parser("ready")
    ready.add_argument("engine", choices=SIDES)
    ready.add_argument("address")
    ready.add_argument("hosts", type=int)
    rounds = verbs.add_parser("rounds")
    rounds.add_argument("engine", choices=SIDES)
    rounds.add_argument("address")
    rounds.add_argument("workload", choices=WORKLOADS)
    rounds.add_argument("ways", nargs="+")
    rounds.add_argument("--first", type=int, default=1, help="number of the first round")
    rounds.add_argument("--rounds", type=int, default=5)
    rounds.add_argument("--scale", type=float, default=1.0)
    rounds.add_argument("--traces", type=Path)
    one = verbs.add_parser("one")
    one.add_argument("engine", choices=SIDES)
    one.add_argument("address")
    one.add_argument("workload", choices=WORKLOADS)
    one.add_argument("--scale", type=float, default=1.0)
    one.add_argument("--after", type=float, default=2.0)
    args = parser.parse_args()
    side = SIDES[args.engine](args.address)
    try:
        if args.verb == "ready":
            side.ready(args.hosts)
        elif args.verb == "one":
            run_one(side, args)
        else:
            run_rounds(side, args)
    finally:
        side.close()


def run_one(side: Any, args: argparse.Namespace) -> None:
    """Run a workload once, report when the fault is due, and then the outcome."""
    expected = WORKLOADS[args.workload](at_once, args.scale)
    timer = threading.Timer(args.after, lambda: say(ready=True))
    timer.start()
    try:
        made = side.weft(args.workload, args.scale, history=False)
    except WeftError as error:
        say(outcome="error", words=str(error)[:300])
    else:
        say(outcome="right" if same(made.value, expected) else "wrong")
    sys.stdout.flush()
    os._exit(0)  # connections to a host that is gone may keep threads


def run_rounds(side: Any, args: argparse.Namespace) -> None:
    """Run all ways in turn, in another order each round; the first turn of each only warms up."""
    expected = WORKLOADS[args.workload](at_once, args.scale)
    with tempfile.TemporaryDirectory() as folder:
        scratch, learned = Path(folder), Path(folder) / "learned.sqlite"

        def go(way: str, number: int) -> Round:
            say(begin=way, round=number, at=time.time())
            made = run_way(side, way, args.workload, args.scale, learned=learned, scratch=scratch)
            if not same(made.value, expected):
                raise ValueError(f"{way}: the result is wrong: {made.value!r:.200}")
            say(way=way, round=number, seconds=made.seconds)
            if made.trace is not None and args.traces is not None and number > 0:
                keep(made, args.traces / f"{args.engine}-{args.workload}-{way}-{number}.json")
            return made

        go(OWN, 0)
        go(FIRST, 0)  # its history is the one run that later ones know
        (scratch / "first.sqlite").rename(learned)
        if args.traces is not None:
            args.traces.mkdir(parents=True, exist_ok=True)
            copyfile(learned, args.traces / f"{args.engine}-{args.workload}.sqlite")
        for way in args.ways:  # what it compiles is compiled once per installation
            if way not in (OWN, FIRST):
                small = min(args.scale, WARM_SCALE)
                run_way(side, way, args.workload, small, learned=learned, scratch=scratch)
        for number in range(args.first, args.rounds + 1):
            turn = number % len(args.ways)
            for way in (*args.ways[turn:], *args.ways[:turn]):
                go(way, number)


def keep(made: Round, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    weft.save(made.trace, path)
    path.with_suffix(".txt").write_text(weft.explain(made.trace).sentence, encoding="utf-8")


def same(value: Any, expected: Any) -> bool:
    """Compare results; sums of floating point numbers may differ in the last digits."""
    if isinstance(expected, float):
        return isinstance(value, float) and abs(value - expected) <= 1e-9 * max(1, abs(expected))
    if isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(expected, dict):
        return list(value) == list(expected) and same(list(value.values()), [*expected.values()])
    return bool(value == expected)


if __name__ == "__main__":
    main()
