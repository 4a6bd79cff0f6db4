"""`weft profile`: measure the devices of this machine."""

from __future__ import annotations

import argparse
from typing import Any

SUMMARY = "find the devices of this machine and measure them"
EXAMPLE = "  weft profile --quick"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--dry",
        action="store_true",
        help="do not keep the result; by default runs use it as a prior",
    )


def run(args: argparse.Namespace) -> None:
    """Find, measure, keep and print."""
    from dataclasses import asdict

    from weft.cli.output import emit, progress
    from weft.report.quantities import format_bytes
    from weft.report.tables import Column, table_text
    from weft.runtime.costs.profiler import discover, measure, save_profile

    found = discover()
    measures = [
        m
        for device in progress(found, total=len(found), what="profile")
        for m in measure(device, quick=args.quick)
    ]
    kept = None if args.dry else save_profile(found, measures)
    if args.json:
        emit(
            {
                "devices": [asdict(d) for d in found],
                "measures": [asdict(m) for m in measures],
                "kept": None if kept is None else str(kept),
            }
        )
        return
    for device in found:
        print(f"{device.name}: {device.model}, {device.cores} cores, {format_bytes(device.memory)}")
    rows = [
        {
            "device": m.device,
            "measure": m.what,
            "median": _shown(m.median, m.unit),
            "middle half": _range(m),
        }
        for m in measures
    ]
    print(
        "\n"
        + table_text(
            rows, (Column("device"), Column("measure"), Column("median"), Column("middle half"))
        )
    )
    if kept is not None:
        print(f"\nsaved to {kept}; used until real runs provide measurements")


def _shown(value: float, unit: str) -> str:
    from weft.report.quantities import format_bytes, format_number, format_seconds

    if unit == "s":
        return format_seconds(value)
    return f"{format_bytes(value)}/s" if unit == "B/s" else f"{format_number(value / 1e9)} GFLOP/s"


def _range(m: Any) -> str:
    return f"{_shown(m.low, m.unit)} to {_shown(m.high, m.unit)}"
