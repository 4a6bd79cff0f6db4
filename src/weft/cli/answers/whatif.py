"""`weft whatif`: the makespan with other machines or faster tasks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from weft.cli.arguments import (
    add_flag,
    add_option,
    add_planner,
    add_problems,
    needs,
    planning,
    read_problem,
)
from weft.cli.values import number, picture

if TYPE_CHECKING:
    from weft.model import Problem
    from weft.planners.whatif import WhatIf

SUMMARY = "ask what would change with other machines, links or faster tasks"
EXAMPLE = """\
  weft whatif montage.json --gpus 4xV100+2xT4 --add 1xA100 --remove T4:0 --bandwidth x2
  weft whatif montage.json --gpus 4xV100+2xT4 --tornado --picture tornado.svg"""

CHANGES = {
    "add": ("2xA100", "add devices of a kind; with a price per hour: 2xA100@3.5"),
    "remove": ("NAME", "remove a device by name, or some of a kind: 2xT4"),
    "bandwidth": ("x2", "faster links: all, or between two nodes, kinds or devices: V100,T4=x2"),
    "latency": ("x0.5", "latency of links: all, or some, as for --bandwidth"),
    "faster": ("KIND=1.5", "tasks of a kind become this many times as fast"),
    "speed": ("NAME=1.2", "a device or a kind of device becomes this many times as fast"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_problems(parser, "a workflow or problem")
    group = parser.add_argument_group("changes, in the order given; all may be repeated")
    for name, (example, text) in CHANGES.items():
        group.add_argument(f"--{name}", dest="changes", action=_Append, metavar=example, help=text)
    add_flag(
        parser,
        "--tornado",
        "try every device kind, link and task kind 20 %% faster and slower, a device more or less",
    )
    text = "how much faster and slower in --tornado, as a share"
    add_option(parser, "--share", number(above=0, most=0.99), "X", text, default=0.2)
    add_planner(parser)
    add_option(parser, "--picture", picture, "FILE", "the tornado as HTML, SVG or PNG")


class _Append(argparse.Action):
    """Action that appends the text of a change: the option's name and its value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Append."""
        name = (option_string or "").removeprefix("--")
        namespace.changes = [*(namespace.changes or ()), f"{name} {values}"]


def run(args: argparse.Namespace) -> None:
    """Answer and print."""
    from weft.cli.output import notice, show
    from weft.errors import InvalidInput

    if bool(args.changes) == args.tornado:
        raise InvalidInput("give either changes or --tornado; see: weft whatif --help")
    if args.picture is not None and not args.tornado:
        raise InvalidInput("--picture is the picture of --tornado; add --tornado")
    needs(args, "--share", "--tornado")
    with notice(f"reading {args.file.name}"):
        from weft.planners.whatif import whatif

        problem = read_problem(args.file, args)
    if args.tornado:
        _tornado(problem, args)
        return
    with notice("planning with and without the changes"):
        answer = whatif(problem, args.changes, **planning(args))
    show(args, answer.as_dict(), _text(answer))


def _text(answer: WhatIf) -> str:
    from weft.cli.output import wrapped
    from weft.report.answers import before_and_after
    from weft.report.labels import shortened

    sentence = answer.sentence[0].upper() + answer.sentence[1:]
    lines = [wrapped(sentence), "", before_and_after(answer)]
    if answer.moved:
        lines += ["", "moved: " + ", ".join(shortened(name, 28) for name in answer.moved[:3])]
        lines[-1] += f" and {len(answer.moved) - 3:,} more" if len(answer.moved) > 3 else ""
    return "\n".join(lines)


def _tornado(problem: Problem, args: argparse.Namespace) -> None:
    from weft.cli.output import show_answer, track
    from weft.planners.whatif import tornado
    from weft.report.answers import save_tornado, tornado_text

    found = tornado(
        problem,
        share=args.share,
        **planning(args),
        track=lambda pairs: track(pairs, total=len(pairs), what="what if"),
    )
    show_answer(args, found.as_dict(), tornado_text(found), lambda path: save_tornado(found, path))
