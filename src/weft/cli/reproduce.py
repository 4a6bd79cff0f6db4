"""`weft reproduce`: the experiments of the source documents, their numbers beside ours."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from weft.errors import UnknownName
from weft.registry import closest

SUMMARY = "run the experiment of a source document; write results.json and report.html"
EXAMPLE = """  weft reproduce conditional --quick
  weft reproduce gpu-cluster --quick --out gpus"""

EXPERIMENTS = {
    "conditional": "weft.experiments.conditional.experiment",
    "deepsched": "weft.experiments.imitation.experiment",
    "gpu-cluster": "weft.experiments.gpu_cluster.experiment",
    "shift": "weft.experiments.shift.experiment",
}
"""Name -> module with `reproduce(folder, quick=, watch=)` and `table(results)`; `watch` is given the list of steps."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(EXPERIMENTS)}")
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions: a few minutes at most"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where to write (default: reproduce/NAME)"
    )


def run(args: argparse.Namespace) -> None:
    """Reproduce, write and print."""
    from weft.cli.output import emit, progress

    if args.name not in EXPERIMENTS:
        raise UnknownName(f"unknown experiment '{args.name}'{closest(args.name, EXPERIMENTS)}")
    experiment = import_module(EXPERIMENTS[args.name])
    folder = args.out if args.out is not None else Path("reproduce") / args.name
    results = experiment.reproduce(
        folder,
        quick=args.quick,
        watch=lambda steps: progress(steps, total=len(steps), what=f"reproduce {args.name}"),
    )
    if args.json:
        emit(results)
        return
    print(experiment.table(results))
    print(f"\nwrote {folder / 'results.json'} and {folder / 'report.html'}")
