"""`weft bench`: how fast it is here."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "measure the speed of weft on this machine, with a peer library beside it"
EXAMPLE = "  weft bench --quick --out speed.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--out", type=Path, metavar="JSON", help="also write the figures and the machine here")


def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    from weft.cli.output import emit, progress
    from weft.experiments import speed

    lines = list(progress(speed.measures(quick=args.quick), total=speed.count(quick=args.quick), what="bench"))
    if args.out is not None:
        speed.write(lines, args.out)
    document = speed.document(lines)
    if args.json:
        emit(document)
        return
    machine = document["machine"]
    assert isinstance(machine, dict)
    print(f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, Python {machine['versions']['python']}\n")
    print(speed.table(lines))
    print("\nSeconds of processor time.")
