"""`weft size`: which machines to rent for a deadline or a budget."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli.arguments import add_seed, number

SUMMARY = "choose machines to rent: cheapest for a deadline, fastest for a budget"
EXAMPLE = """\
  weft size montage.json --catalogue prices.toml --deadline 2h --picture front.svg

  The catalogue is a cluster file of all that could be rented; its devices (or nodes) have a
  price per hour, and count says how many there are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a workflow in any known format")
    parser.add_argument(
        "--catalogue", type=Path, required=True, metavar="TOML", help="a cluster file with prices"
    )
    parser.add_argument(
        "--deadline", type=_seconds, metavar="T", help="rent the cheapest that ends by then: 2h"
    )
    parser.add_argument(
        "--budget", type=number(above=0), metavar="M", help="rent the fastest for this money"
    )
    parser.add_argument(
        "--whole-nodes", action="store_true", help="nodes are rented as a whole, not by device"
    )
    parser.add_argument(
        "--planner", default="heft", metavar="NAME", help="default: heft (see: weft list planners)"
    )
    parser.add_argument(
        "--seconds", type=number(above=0), metavar="S", help="time limit of each plan"
    )
    add_seed(parser)
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="time against rent, as HTML, SVG or PNG"
    )


def _seconds(text: str) -> float:
    from weft.errors import InvalidInput
    from weft.formats.parsing.quantity import quantity

    try:
        return quantity(text, "seconds", "it")
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> None:
    """Choose and print."""
    from weft.cli.output import emit, progress
    from weft.formats import load, load_cluster
    from weft.planners.sizing import size
    from weft.report.answers import save_front, sizing_text

    found = size(
        load(args.file, cluster=load_cluster(args.catalogue)),
        deadline=args.deadline,
        budget=args.budget,
        planner=args.planner,
        seconds=args.seconds,
        seed=args.seed,
        whole_nodes=args.whole_nodes,
        progress=lambda clusters: progress(clusters, what="clusters"),
    )
    if args.picture is not None:
        save_front(found, args.picture)
    if args.json:
        emit(found.as_dict())
        return
    print(sizing_text(found))
    if args.picture is not None:
        print(f"\nwrote {args.picture}")
