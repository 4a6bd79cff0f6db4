"""`weft generate`: a workflow by name, size and seed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.cli.arguments import add_cluster, add_seed, read_cluster
from weft.cli.values import number, whole

SUMMARY = "make a workflow: layered, cholesky, montage, ... (see: weft list generators)"
EXAMPLE = (
    "  weft generate cholesky --tiles 8 --out cholesky.json\n"
    "  weft generate cholesky --help      shows the options of this generator"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="the generator; its options follow")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write it (.json, .npz, ...; default: JSON on stdout)",
    )
    add_seed(parser)
    add_cluster(parser)


def extend(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add the options of the generator that is named first."""
    if not argv or argv[0].startswith("-"):
        return
    from weft.generators import generator_options

    group = parser.add_argument_group(f"options of {argv[0]}")
    for name, default in generator_options(argv[0]).items():
        flag, shown = f"--{name.replace('_', '-')}", "none" if default is None else default
        if isinstance(default, bool):
            group.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=None,
                dest=f"option_{name}",
                help=f"default: {shown}",
            )
        else:
            group.add_argument(
                flag,
                type=_reader(name, default),
                metavar="X",
                dest=f"option_{name}",
                help=f"default: {shown}",
            )


def run(args: argparse.Namespace) -> None:
    """Make it and write it."""
    from weft.cli.output import emit
    from weft.formats import save
    from weft.formats.native.weft_json import write_json
    from weft.formats.native.weft_schema import encode
    from weft.generators import generate, generate_problem

    cluster, options = read_cluster(args), _options(args)
    made = (
        generate(args.name, seed=args.seed, **options)
        if cluster is None
        else generate_problem(args.name, cluster, seed=args.seed, **options)
    )
    if args.out is None:
        print(write_json(encode(made)).decode().rstrip())
        return
    save(made, args.out)
    if args.json:
        emit(
            {
                "name": made.name,
                "tasks": made.n,
                "edges": made.m,
                "seed": args.seed,
                "out": str(args.out),
            }
        )
    else:
        print(f"{made.name}: {made.n} tasks, {made.m} edges, written to {args.out}")


def _options(args: argparse.Namespace) -> dict[str, Any]:
    given = {key: value for key, value in vars(args).items() if value is not None}
    return {
        key.removeprefix("option_"): value
        for key, value in given.items()
        if key.startswith("option_")
    }


def _reader(name: str, default: object) -> Any:
    return (
        whole(0)
        if name == "tasks" or isinstance(default, int)
        else str
        if isinstance(default, str)
        else number()
    )
