"""`weft compare`: planners and policies side by side, in the same simulator."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import (
    add_cluster,
    add_seed,
    add_uncertainty,
    names,
    number,
    uncertainty,
    whole,
)

if TYPE_CHECKING:
    from weft.report.compare import Comparison

SUMMARY = "compare planners and policies on the same problems and scenarios"
EXAMPLE = """\
  weft compare montage.json --gpus 4xV100+2xT4 --planners heft,cpop,peft --policies fifo,eft \\
      --noise 0.2 --scenarios 20 --report report.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="workflows or problems in any known format",
    )
    add_cluster(parser)
    parser.add_argument(
        "--planners",
        type=names,
        metavar="A,B",
        help="default: heft,cpop,peft (see: weft list planners)",
    )
    parser.add_argument("--policies", type=names, metavar="A,B", help="see: weft list policies")
    parser.add_argument(
        "--scenarios", type=whole(1), default=1, metavar="N", help="futures to draw (default: 1)"
    )
    parser.add_argument(
        "--seconds",
        type=number(above=0),
        metavar="S",
        help="time limit of each plan, for planners that search",
    )
    parser.add_argument(
        "--objective",
        default="makespan",
        metavar="NAME",
        help="what counts: makespan (default), mean, p95 or p99 completion, or deadline",
    )
    add_uncertainty(parser)
    add_seed(parser)
    parser.add_argument(
        "--report",
        type=Path,
        metavar="HTML",
        help="write a page with the table, the DAGs and the Gantt charts",
    )


def run(args: argparse.Namespace) -> None:
    """Compare, write and print."""
    from weft.cli.output import emit, notice

    with notice("comparing"):
        table = _compared(args)
    if args.report is not None:
        table.to_html(args.report)
    if args.json:
        emit(table.document())
    else:
        print(table)
        if args.report is not None:
            print(f"\nwrote {args.report}")


def _compared(args: argparse.Namespace) -> Comparison:
    from weft.cli.arguments import read_problem
    from weft.cli.output import progress
    from weft.planners import PLANNERS
    from weft.policies.load import load_policy
    from weft.report.compare import compare

    chosen = (
        args.planners
        if args.planners is not None
        else ([] if args.policies else ["heft", "cpop", "peft"])
    )
    contenders = [PLANNERS.create(name) for name in chosen] + [
        load_policy(name) for name in args.policies or []
    ]
    return compare(
        [read_problem(path, args) for path in args.file],
        contenders,
        scenarios=args.scenarios,
        seed=args.seed,
        seconds=args.seconds,
        objective=args.objective,
        progress=lambda pairs: progress(
            pairs, total=len(args.file) * len(contenders), what="compare"
        ),
        **uncertainty(args),
    )
