"""`weft history`: durations, links and drift measured in real runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_flag, add_option, needs
from weft.cli.values import output

if TYPE_CHECKING:
    from weft.runtime.costs.history import History
    from weft.runtime.costs.summaries import Durations

SUMMARY = "show measurements of real runs: durations by task kind and device, links, drift"
EXAMPLE = """\
  weft history
  weft history --project ../other --export other.csv
  weft history --import other.csv
  weft history --trace trace.txt

  The history belongs to the project of the current folder: the nearest folder upwards with a
  pyproject.toml, setup.py, .git or .hg, else the folder itself. $WEFT_HISTORY names one file for
  all projects."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    which = parser.add_mutually_exclusive_group()
    add_option(which, "--file", Path, "FILE", "the history (default: that of the project)")
    add_option(which, "--project", Path, "FOLDER", "the history of the project of this folder")
    text = "add the measurements of a .csv, .json or .sqlite file"
    add_option(parser, "--import", Path, "FILE", text, dest="source")
    add_option(parser, "--export", output, "FILE", "write all measurements, as .csv or .json")
    add_flag(parser, "--clear", "delete all measurements")
    text = "add the durations of a trace of another engine (see: weft list formats)"
    add_option(parser, "--trace", Path, "FILE", text)
    add_option(
        parser, "--device", str, "KIND", "with --trace: the kind of device (default: cpu or gpu)"
    )


def run(args: argparse.Namespace) -> None:
    """Change the history as asked, and print it."""
    from dataclasses import asdict

    from weft.cli.output import emit
    from weft.errors import InvalidInput
    from weft.runtime.costs.history import History
    from weft.runtime.costs.project import default_path

    needs(args, "--device", "--trace")
    if args.file is not None and not args.file.is_file():
        raise InvalidInput(f"{args.file}: there is no such history")
    if args.project is not None and not args.project.is_dir():
        raise InvalidInput(f"{args.project}: there is no such folder")
    history = History(default_path(args.project) if args.project is not None else args.file)
    _change(history, args)
    if args.export is not None and not args.json:
        return
    known, links = history.durations(), history.links()
    if args.json:
        durations = [asdict(d) for d in known]
        moved = [asdict(link) for link in links]
        emit({"file": str(history.path), "durations": durations, "links": moved})
    elif not known:
        print(
            f"{history.path} is empty; weft run fills the history of its script's project "
            "(--project FOLDER shows another one)"
        )
    else:
        _print(known, [_link(asdict(link)) for link in links])


def _change(history: History, args: argparse.Namespace) -> None:
    """Clear, add and write measurements; say how many on stderr."""
    if args.clear:
        history.clear()
    if args.source is not None:
        new = history.import_from(args.source)
        print(f"read {args.source}: {new} new measurements", file=sys.stderr)
    if args.trace is not None:
        from weft.runtime.costs.history_files import import_recording

        count = import_recording(history, args.trace, device=args.device)
        print(f"read {args.trace}: {count} measurements", file=sys.stderr)
    if args.export is not None:
        count = history.export_to(args.export)
        print(f"wrote {args.export}: {count} measurements", file=sys.stderr)


def _print(known: list[Durations], links: list[dict[str, Any]]) -> None:
    """Print the table of durations, and that of links if there are any."""
    from weft.report.tables import Column, table_text

    rows = [
        {
            **{key: getattr(d, key) for key in ("kind", "device", "work", "output")},
            "runs": d.count,
            **dict(zip(("low", "median", "high"), d.quartiles, strict=True)),
            "drift": "" if d.drift == 1.0 else f"{d.drift:.2f} times",
        }
        for d in known
    ]
    columns = (
        *("kind", "device", "work", "runs"),
        Column("low", "lower quartile", unit="s", digits=3),
        Column("median", unit="s", digits=3),
        Column("high", "upper quartile", unit="s", digits=3),
        Column("output", unit="B"),
        "drift",
    )
    print(table_text(rows, columns))
    if links:
        shown = ("source", "target", Column("count", "transfers"), "bandwidth")
        print("\n" + table_text(links, (*shown, Column("latency", unit="s"))))


def _link(link: dict[str, Any]) -> dict[str, Any]:
    from weft.model.explain.quantities import format_bytes

    return {**link, "bandwidth": f"{format_bytes(float(link['bandwidth']))}/s"}
