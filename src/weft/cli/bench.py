"""`weft bench`: measure speed, and plan quality at equal time budgets."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from weft.cli.arguments import add_flag, add_option, needs
from weft.cli.values import output
from weft.errors import InvalidInput

SUMMARY = "measure the speed of weft, or the quality of its plans, on this machine"
EXAMPLE = """  weft bench --quick --out speed.json
  weft bench --quality --graphs static_graphs
  weft bench --conditional
  weft bench --large --quick"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_flag(parser, "--quick", "leave out long measurements")
    add_flag(parser, "--conditional", "learning and deciding for streams of conditional jobs")
    text = "ten million tasks, changes of large plans, search on large graphs (half an hour)"
    add_flag(parser, "--large", text)
    add_flag(parser, "--quality", "planners at equal time budgets: gap to the best known makespan")
    graphs = "graphs with best known makespans (results.json); default: generated ones"
    add_option(parser, "--graphs", Path, "FOLDER", graphs)
    add_option(parser, "--out", output, "JSON", "write the figures to this file too")


def run(args: argparse.Namespace) -> None:
    """Measure and print the table."""
    needs(args, "--graphs", "--quality")
    if args.conditional + args.quality + args.large > 1:
        raise InvalidInput(
            "--conditional, --quality and --large are different benchmarks; give one of them"
        )
    if args.quality:
        _quality(args)
    else:
        _speed(args)


def _quality(args: argparse.Namespace) -> None:
    from weft.cli.output import emit, track
    from weft.experiments.benchmarks import quality
    from weft.formats.parsing.source import write_file

    cases = (
        quality.static_cases(args.graphs) if args.graphs is not None else quality.generated_cases()
    )
    budgets = quality.BUDGETS[:2] if args.quick else quality.BUDGETS
    scores = list(
        track(
            quality.scores(cases, budgets=budgets),
            total=quality.count(cases, budgets=budgets),
            what="quality",
        )
    )
    rate = quality.decodes_per_second()
    document = {"decodes_per_second": rate, "scores": quality.document(scores)}
    if args.out is not None:
        write_file(args.out, json.dumps(document, indent=1, allow_nan=False) + "\n")
    if args.json:
        emit(document)
        return
    print(
        f"{len(cases)} graphs; mean gap to the best known makespan, by ratio of communication to "
        "computation, then by size\n"
    )
    for by in ("ccr", "tasks"):
        print(quality.table(quality.summary(scores, by=by)) + "\n")
    print(
        f"The decoder makes {rate:,.0f} schedules per second of processor time (50 tasks, 8 "
        "devices)."
    )


def _speed(args: argparse.Namespace) -> None:
    from weft.cli.output import emit, notice, track

    with notice("preparing the benchmark"):
        from weft.experiments.benchmarks import conditional as conditional_speed
        from weft.experiments.benchmarks import scale, speed
        from weft.formats.parsing.source import write_file

    if args.conditional:
        found, total = conditional_speed.measures(quick=args.quick), conditional_speed.count()
    elif args.large:
        found, total = scale.measures(quick=args.quick), scale.count()
    else:
        found, total = speed.measures(quick=args.quick), speed.count(quick=args.quick)
    lines = list(track(found, total=total, what="bench"))
    document = scale.results(lines) if args.large else speed.document(lines)
    if args.out is not None:
        write_file(args.out, json.dumps(document, indent=1) + "\n")
    if args.json:
        emit(document)
        return
    machine = document["machine"]
    assert isinstance(machine, dict)
    print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, Python "
        f"{machine['versions']['python']}\n"
    )
    print(speed.table(lines))
    print("\nSeconds of processor time.")
