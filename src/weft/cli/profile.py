"""`weft profile`: measure the devices of this machine, or a function at several batch sizes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from weft.cli.arguments import whole

SUMMARY = "find the devices of this machine and measure them, or measure a function by batch size"
EXAMPLE = """\
  weft profile --quick
  weft profile --function models:detect --item models:one_image --sizes 1,2,4,8,16 --out unit.toml

  A function takes a list of items. --item names what is repeated in it: an object of a module, a
  function without arguments that makes one, or JSON. The result is the batch curve, and the set-up
  of the first call, for the units of streams and the devices of clusters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--dry",
        action="store_true",
        help="do not keep the result; by default runs use it as a prior",
    )
    parser.add_argument(
        "--function", metavar="MODULE:NAME", help="measure this function of lists instead"
    )
    parser.add_argument(
        "--item", default="null", metavar="ITEM", help="MODULE:NAME or JSON (default: null)"
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=(1, 2, 4, 8), metavar="N,N", help="default: 1,2,4,8"
    )
    parser.add_argument("--repeats", type=whole(1), default=5, metavar="N", help="default: 5")
    parser.add_argument("--kind", metavar="KIND", help="task kind (default: the function's name)")
    parser.add_argument("--out", type=Path, metavar="TOML", help="write the curve to a file")


def run(args: argparse.Namespace) -> None:
    """Find, measure, keep and print."""
    if args.function is not None:
        _profile_function(args)
        return
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


def _sizes(text: str) -> list[int]:
    return [whole(1)(part) for part in text.split(",") if part.strip()]


def _profile_function(args: argparse.Namespace) -> None:
    """Measure a function at several batch sizes."""
    from dataclasses import asdict

    from weft.cli.output import emit
    from weft.report.quantities import format_seconds
    from weft.report.tables import Column, table_text
    from weft.runtime.costs.batch_profile import profile_batches

    function, item = _named(args.function), _item(args.item)
    name = args.kind or args.function.partition(":")[2]
    found = profile_batches(function, item, sizes=args.sizes, repeats=args.repeats, name=name)
    if args.out is not None:
        args.out.write_text(found.toml(), encoding="utf-8")
    if args.json:
        emit({**asdict(found), "batch_curve": found.curve()})
        return
    rows = [
        {"size": b, "seconds": s, "growth": f"{g:.3f}", "each": s / b}
        for b, s, g in zip(found.sizes, found.seconds, found.growth, strict=True)
    ]
    columns = (
        Column("size", "batch"),
        Column("seconds", "time", unit="s"),
        Column("growth", "over that of one"),
        Column("each", "time per task", unit="s"),
    )
    print(table_text(rows, columns))
    line = f"{format_seconds(found.alpha)} + {format_seconds(found.beta)} x b"
    print(f"line: {line}, at most {100 * found.error:.1f} % off; first call: ", end="")
    print(format_seconds(found.cold))
    print(f"\n{found.toml()}", end="")
    if args.out is not None:
        print(f"\nwrote {args.out}")


def _item(text: str) -> Any:
    """Return an item: an object of a module, what a function of a module makes, or JSON."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        found = _named(text)
        return found() if callable(found) else found


def _named(text: str) -> Any:
    """Return an object by MODULE:NAME; modules of the current folder count."""
    import sys
    from importlib import import_module

    from weft.errors import InvalidInput

    module, _, name = text.partition(":")
    if not module or not name:
        raise InvalidInput(f"'{text}' names no object; write MODULE:NAME")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise InvalidInput(f"module '{module}' cannot be imported: {error}") from None
    except AttributeError:
        raise InvalidInput(f"module '{module}' has no '{name}'") from None
    finally:
        sys.path.pop(0)


def _shown(value: float, unit: str) -> str:
    from weft.report.quantities import format_bytes, format_number, format_seconds

    if unit == "s":
        return format_seconds(value)
    return f"{format_bytes(value)}/s" if unit == "B/s" else f"{format_number(value / 1e9)} GFLOP/s"


def _range(m: Any) -> str:
    return f"{_shown(m.low, m.unit)} to {_shown(m.high, m.unit)}"
