"""`weft arena`: instances with best known makespans, a checker, contenders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_flag, add_option, add_seconds, add_seed, needs
from weft.cli.values import folder, names, output

if TYPE_CHECKING:
    from weft.experiments.arena.library import ArenaInstance

SUMMARY = "benchmark instances with best known makespans; check a schedule; compare at equal time"
EXAMPLE = """\
  weft arena                                                 # the instances
  weft arena --export folder                                 # as weft's JSON, one file each
  weft arena --instance layered-60-a --check schedule.json   # the verdict on your schedule
  weft arena --contenders heft,peft,anytime --seconds 0.1    # a table at equal time
  weft arena --certify --seconds 5                           # records and bounds, checked again"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    what = parser.add_mutually_exclusive_group()
    add_option(what, "--check", Path, "FILE", "judge a schedule (JSON or NPZ) of --instance")
    add_option(what, "--export", folder, "FOLDER", "write each instance to a file")
    add_option(what, "--contenders", names, "A,B", "planners or policies by name or file")
    text = (
        "search for shorter schedules, --seconds per planner and instance, and write the library "
        "of instances with them"
    )
    add_option(what, "--improve", output, "FILE", text)
    text = (
        "check the library: compute the bounds, prove the optima and find the best known makespans "
        "again, --seconds per planner"
    )
    add_flag(what, "--certify", text)
    add_option(parser, "--instance", str, "NAME", "this instance only (default: all)")
    add_seconds(parser, default=0.1)
    add_seed(parser)


def run(args: argparse.Namespace) -> None:
    """Run the chosen action and print its result."""
    from weft.cli.output import notice
    from weft.errors import InvalidInput

    needs(args, "--seconds --seed", "--contenders", "--improve", "--certify")
    with notice("reading the arena"):
        from weft.experiments.arena.library import find_instance, load_library

    if args.check is not None:
        if args.instance is None:
            raise InvalidInput("--check needs --instance NAME; see: weft arena")
        _check(args, find_instance(args.instance))
        return
    chosen = [find_instance(args.instance)] if args.instance else [*load_library().values()]
    if args.export is not None:
        _export(args, chosen)
    elif args.contenders is not None:
        _contend(args, [i for i in chosen if i.available])
    elif args.improve is not None:
        _improve(args, chosen)
    elif args.certify:
        _certify(args, [i for i in chosen if i.available])
    else:
        _list(args, chosen)


def _list(args: argparse.Namespace, chosen: Sequence[ArenaInstance]) -> None:
    from weft.report.tables import Column

    rows = [
        {
            "instance": i.name,
            "origin": i.origin,
            "best": i.best,
            "by": i.by,
            "bound": i.bound,
            "proof": i.proof,
            "gap": i.best / i.bound - 1,
            "here": "yes" if i.available else "needs WEFT_DATA",
        }
        for i in chosen
    ]
    columns = [
        "instance",
        "origin",
        Column("best", "best known (s)"),
        "by",
        Column("bound", "bound (s)"),
    ]
    _show(args, rows, [*columns, "proof", Column("gap", unit="%", places=1), "here"])


def _show(args: argparse.Namespace, rows: Sequence[dict[str, Any]], columns: Any) -> None:
    from weft.cli.output import show
    from weft.report.tables import table_text

    show(args, rows, table_text(rows, columns))


def _check(args: argparse.Namespace, instance: ArenaInstance) -> None:
    from weft.cli.output import show
    from weft.experiments.arena.contest import judge
    from weft.formats import load_schedule

    found = judge(instance, load_schedule(args.check))
    text = (
        f"{found.instance}: valid, {found.makespan:.6g} s, {found.verdict}\n"
        f"best known {found.best:.6g} s by {found.by}, bound {found.bound:.6g} s "
        f"(at most {100 * found.gap:.1f} % above the optimum)"
    )
    show(args, {**asdict(found), "gap": found.gap}, text)


def _export(args: argparse.Namespace, chosen: Sequence[ArenaInstance]) -> None:
    from weft.cli.output import show
    from weft.formats import save

    args.export.mkdir(parents=True, exist_ok=True)
    written = []
    for instance in chosen:
        if instance.available:
            written.append(args.export / f"{instance.name}.json")
            save(instance.problem(), written[-1])
    left = len(chosen) - len(written)
    more = f"; {left} need WEFT_DATA" if left else ""
    text = f"wrote {len(written)} instances to {args.export}{more}"
    show(args, [str(path) for path in written], text)


def _contend(args: argparse.Namespace, chosen: Sequence[ArenaInstance]) -> None:
    from weft.cli.output import track
    from weft.experiments.arena.contest import contend
    from weft.report.tables import Column

    rows = contend(
        args.contenders,
        chosen,
        seconds=args.seconds,
        seed=args.seed,
        track=lambda who: track(who, total=len(who), what="arena"),
    )
    origins = [Column(key, places=3) for key in dict.fromkeys(i.origin for i in chosen)]
    last = [Column("worst", places=3), Column("best_known", f"best known of {len(chosen)}")]
    _show(args, rows, ["contender", *origins, *last, Column("seconds", "per instance", unit="s")])
    if not args.json:
        print("\nmakespan over the best known, geometric mean; all have exact durations")


def _certify(args: argparse.Namespace, chosen: Sequence[ArenaInstance]) -> None:
    from weft.cli.output import track
    from weft.experiments.arena.contest import certify
    from weft.report.tables import Column

    rows = [
        certify(i, seconds=args.seconds, seed=args.seed)
        for i in track(chosen, total=len(chosen), what="certificates")
    ]
    records = [Column("best", "best known (s)"), Column("reached", "reached (s)"), "record"]
    bounds = [Column("bound", "bound (s)"), Column("again", "again (s)"), "certificate"]
    _show(args, rows, ["instance", *records, *bounds])


def _improve(args: argparse.Namespace, chosen: Sequence[ArenaInstance]) -> None:
    from weft.cli.output import track
    from weft.experiments.arena.contest import improve
    from weft.experiments.arena.library import save_library

    made = [
        improve(i, seconds=args.seconds, seed=args.seed) if i.available else i
        for i in track(chosen, total=len(chosen), what="records")
    ]
    save_library(made, args.improve)
    _list(args, made)
