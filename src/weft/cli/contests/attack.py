"""`weft attack`: small problems on which one contender is much worse than another."""

from __future__ import annotations

import argparse

from weft.cli.arguments import add_option, add_seconds, add_seed, options_of
from weft.cli.values import problem_file, whole

SUMMARY = "search for small problems on which a planner or policy is much worse than another"
EXAMPLE = """\
  weft attack heft --against cpop --out worst.json
  weft plan worst.json --planner heft --gantt worst.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "contender", metavar="NAME", help="the planner or policy to attack, by name or file"
    )
    text = "the planner or policy to compare with (a name that is both means the planner)"
    parser.add_argument("--against", required=True, metavar="NAME", help=text)
    for name, least, default, text in (
        ("tasks", 2, 8, "tasks of each problem"),
        ("devices", 1, 3, "devices of each problem"),
        ("runs", 1, 8, "annealing runs from different starts"),
        ("steps", 1, 300, "problems tried per run"),
    ):
        add_option(parser, f"--{name}", whole(least), "N", text, default=default)
    add_seconds(parser)
    add_seed(parser)
    add_option(parser, "--out", problem_file, "FILE", "the worst problem, as weft's JSON")


def run(args: argparse.Namespace) -> None:
    """Attack, write and print."""
    from weft.cli.output import emit, notice, track

    with notice(f"attacking {args.contender}"):
        from weft.experiments.arena.attack import attack
        from weft.formats import save
        from weft.report.tables import Column, table_text

    found = attack(
        args.contender,
        args.against,
        **options_of(args, "tasks", "devices", "runs", "steps", "seconds", "seed"),
        track=lambda steps: track(steps, total=len(steps), what="attack"),
    )
    if args.out is not None:
        save(found.worst.problem, args.out)
    if args.json:
        emit(
            {
                "contender": found.contender,
                "against": found.against,
                "evaluations": found.evaluations,
                "runs": [
                    {key.strip(): value for key, value in row.items()} for row in found.rows()
                ],
                "out": None if args.out is None else str(args.out),
            }
        )
        return
    rows, names = found.rows(), {found.contender, found.against}
    columns = [Column(k, unit="s") if k.strip() in names else Column(k) for k in rows[0]]
    print(table_text(rows, columns))
    print(
        f"\n{found.contender} takes {found.worst.ratio:.3f} times as long as {found.against} on "
        f"the worst of {found.evaluations:,} problems"
    )
    if args.out is not None:
        print(f"wrote {args.out}")
