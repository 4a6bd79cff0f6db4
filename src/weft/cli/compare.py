"""`weft compare`: planners and policies side by side, in the same simulator."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import (
    add_option,
    add_problems,
    add_seconds,
    add_uncertainty,
    read_problem,
    uncertainty,
)
from weft.cli.values import names, page, whole
from weft.errors import UnknownName

if TYPE_CHECKING:
    from weft.report.comparison import Comparison

SUMMARY = "compare planners and policies on the same problems and scenarios"
EXAMPLE = """\
  weft compare montage.json --gpus 4xV100+2xT4 --planners heft,cpop,peft --policies fifo,eft \\
      --noise 0.2 --scenarios 20 --report report.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_problems(parser, "workflows or problems in any known format", many="+")
    text = "planners (default: heft,cpop,peft; see: weft list planners)"
    add_option(parser, "--planners", names, "A,B", text)
    add_option(
        parser, "--policies", names, "A,B", "policies by name (see: weft list policies) or file"
    )
    text = "number of scenarios to draw; the figures are means over them"
    add_option(parser, "--scenarios", whole(1), "N", text, default=1)
    add_seconds(parser)
    objectives = "makespan, mean, p95 or p99 completion, or deadline"
    add_option(parser, "--objective", str, "NAME", objectives, default="makespan")
    add_uncertainty(parser)
    add_option(parser, "--report", page, "HTML", "a page with the table, DAGs and Gantt charts")


def run(args: argparse.Namespace) -> None:
    """Compare, write and print."""
    from weft.cli.output import emit, notice

    with notice("comparing"):
        table = _compared(args)
    try:
        if args.report is not None:
            table.to_html(args.report)
    finally:  # a full disk does not take the table
        if args.json:
            emit(table.document())
        else:
            print(table)
    if args.report is not None and not args.json:
        print(f"\nwrote {args.report}")


def _refuse_swapped(
    chosen: list[str], fitting: Container[str], others: Container[str], remedy: str
) -> None:
    """Refuse a name that belongs to the other option."""
    for name in chosen:
        if name not in fitting and name in others:
            raise UnknownName(f"'{name}' {remedy} {name}")


def _compared(args: argparse.Namespace) -> Comparison:
    from weft.cli.output import track
    from weft.planners import PLANNERS
    from weft.planners.planner import load_planner
    from weft.policies import POLICIES
    from weft.policies.load import load_policy
    from weft.report.compare import compare

    chosen = args.planners
    if chosen is None:
        chosen = [] if args.policies else ["heft", "cpop", "peft"]
    _refuse_swapped(chosen, PLANNERS, POLICIES, "is a policy; give it as --policies")
    _refuse_swapped(args.policies or [], POLICIES, PLANNERS, "is a planner; give it as --planners")
    contenders: list[Any] = [load_planner(name) for name in chosen]
    contenders += [load_policy(name) for name in args.policies or []]
    return compare(
        [read_problem(path, args) for path in args.file],
        contenders,
        scenarios=args.scenarios,
        seed=args.seed,
        seconds=args.seconds,
        objective=args.objective,
        track=lambda pairs: track(pairs, total=len(args.file) * len(contenders), what="compare"),
        **uncertainty(args),
    )
