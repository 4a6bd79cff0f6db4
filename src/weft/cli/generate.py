"""`weft generate`: a workflow by name, size and seed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from weft.cli.arguments import add_cluster, add_seed, read_cluster
from weft.cli.values import number, output, whole

SUMMARY = "make a workflow: layered, cholesky, montage, ... (see: weft list generators)"
EXAMPLE = (
    "  weft generate cholesky --tiles 8 --out cholesky.json\n"
    "  weft generate cholesky --help      shows the options of this generator"
)


MEANINGS = {
    "alpha": "shape: a layer has alpha x sqrt(tasks) tasks; 0.5 is long, 2 is wide",
    "arity": "children of each task of the tree",
    "block": "elements per side of a block",
    "branches": "parallel branches of a block, or the most branches of a choice",
    "ccr": "mean transfer time over mean duration, at speed 1 and 1 GB/s",
    "data": "bytes that a task passes on",
    "data_sigma": "spread of the bytes: standard deviation of their logarithm",
    "depth": "levels of the tree",
    "density": "0 to 1: how many tasks of the layer above are parents",
    "element": "bytes of an element of the matrix",
    "jump": "the most layers between a task and its parents",
    "kinds": "number of task kinds",
    "max_parents": "the most parents of a task",
    "nothing": "probability that a choice may lead to no task",
    "ordered": "each stage takes the items in order",
    "regularity": "0 to 1: how equal the layers are; 1: all of the same width",
    "share": "share of the tasks with several children that choose one",
    "sigma": "spread of the work: standard deviation of its logarithm",
    "size": "blocks per side of the matrix",
    "tasks": "the most tasks; the graph becomes as large as its shape allows",
    "tile_size": "elements per side of a tile",
    "tiles": "tiles per side of the matrix",
    "width": "parallel tasks of a stage",
    "work": "mean work of a task",
}
"""Options of generators -> their help; all others are counts of what they name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="the generator; its options follow")
    parser.add_argument(
        "--out",
        type=output,
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

    options = generator_options(argv[0])
    parser.prog += f" {argv[0]}"  # hints name the help that lists these options
    for positional in parser._get_positional_actions():  # noqa: SLF001  # no public way
        positional.help = argparse.SUPPRESS  # the name, which the program has now
    group = parser.add_argument_group(f"options of {argv[0]}")
    for name, default in options.items():
        flag, shown = f"--{name.replace('_', '-')}", "none" if default is None else default
        how: dict[str, Any] = {"type": _reader(name, default), "metavar": "X"}
        if isinstance(default, bool):
            how = {"action": argparse.BooleanOptionalAction, "default": None}
        text = MEANINGS.get(name, f"number of {name}")
        group.add_argument(flag, dest=f"option_{name}", help=f"{text} (default: {shown})", **how)


def run(args: argparse.Namespace) -> None:
    """Make it and write it."""
    from weft.cli.output import show
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
    document = {"name": made.name, "tasks": made.n, "edges": made.m, "seed": args.seed}
    text = f"{made.name}: {made.n} tasks, {made.m} edges, written to {args.out}"
    show(args, {**document, "out": str(args.out)}, text)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    given = {key: value for key, value in vars(args).items() if value is not None}
    return {
        key.removeprefix("option_"): value
        for key, value in given.items()
        if key.startswith("option_")
    }


def _reader(name: str, default: object) -> Any:
    if name == "tasks" or isinstance(default, int):
        return whole()  # its generator has the bound
    return str if isinstance(default, str) else number()
