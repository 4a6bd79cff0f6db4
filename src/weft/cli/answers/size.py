"""`weft size`: which machines to rent for a deadline or a budget."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli.arguments import add_file, add_flag, add_option, add_planner, planning
from weft.cli.values import number, picture

SUMMARY = "choose machines to rent: cheapest for a deadline, fastest for a budget"
EXAMPLE = """\
  weft size montage.json --catalogue prices.toml --deadline 2h --picture front.svg

  The catalogue is a cluster file of all that could be rented; its devices (or nodes) have a
  price per hour, and count says how many there are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_file(parser, "a workflow in any known format")
    add_option(parser, "--catalogue", Path, "TOML", "a cluster file with prices", required=True)
    text = "rent the cheapest machines that finish within this time: 2h, 90 min"
    add_option(parser, "--deadline", _seconds, "T", text)
    text = "rent the fastest machines for this money, in the unit of the prices"
    add_option(parser, "--budget", number(above=0), "M", text)
    add_flag(parser, "--whole-nodes", "nodes are rented as a whole, not by device")
    add_planner(parser)
    add_option(parser, "--picture", picture, "FILE", "time against rent, as HTML, SVG or PNG")


def _seconds(text: str) -> float:
    from weft.errors import InvalidInput
    from weft.formats.parsing.quantity import quantity

    try:
        return quantity(text, "seconds", "it")
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> None:
    """Choose and print."""
    from weft.cli.output import notice, show_answer, track

    with notice(f"reading {args.file.name}"):
        from weft.formats import load, load_cluster
        from weft.planners.sizing import size
        from weft.report.answers import save_front, sizing_text

        problem = load(args.file, cluster=load_cluster(args.catalogue))
    found = size(
        problem,
        deadline=args.deadline,
        budget=args.budget,
        **planning(args),
        whole_nodes=args.whole_nodes,
        track=lambda clusters: track(clusters, what="clusters"),
    )
    show_answer(args, found.as_dict(), sizing_text(found), lambda path: save_front(found, path))
