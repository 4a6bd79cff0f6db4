"""`weft reproduce`: run the experiment of a source document, or of all four."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import Path

from weft.cli.arguments import add_flag, add_option
from weft.cli.values import folder
from weft.errors import InvalidInput, UnknownName
from weft.registry import closest

SUMMARY = "run the experiment of a source document; write results.json and report.html"
EXAMPLE = """  weft reproduce conditional --quick
  weft reproduce gpu-cluster --quick --out gpus
  weft reproduce streams --data ~/data
  weft reproduce families --quick
  weft reproduce all --quick            # the verdicts of all four documents"""

EXPERIMENTS = {
    "all": "weft.experiments.documents.experiment",
    "batch-curves": "weft.experiments.batch_curves.experiment",
    "conditional": "weft.experiments.conditional.experiment",
    "families": "weft.experiments.families.experiment",
    "gpu-cluster": "weft.experiments.gpu_cluster.experiment",
    "imitation": "weft.experiments.imitation.experiment",
    "shift": "weft.experiments.shift.experiment",
    "streams": "weft.experiments.streams.experiment",
}
"""Name -> module with `reproduce(folder, quick=, track=)` and `table(results)`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(EXPERIMENTS)}")
    add_flag(parser, "--quick", "fewer repetitions: at most a few minutes")
    add_option(parser, "--out", folder, "FOLDER", "folder to write to (default: reproduce/NAME)")
    text = "folder of data sets that are not part of weft (default: WEFT_DATA)"
    add_option(parser, "--data", Path, "FOLDER", text)


def run(args: argparse.Namespace) -> None:
    """Run the experiment, write its files and print its table."""
    from weft.cli.output import notice, show, track

    if args.name not in EXPERIMENTS:
        raise UnknownName(f"unknown experiment '{args.name}'{closest(args.name, EXPERIMENTS)}")
    if args.data is not None:
        if not args.data.is_dir():
            raise InvalidInput(f"--data {args.data}: there is no such folder")
        os.environ["WEFT_DATA"] = str(args.data)  # also for the processes of the experiment
    with notice(f"preparing {args.name}"):
        experiment = import_module(EXPERIMENTS[args.name])
    out = args.out if args.out is not None else Path("reproduce") / args.name
    results = experiment.reproduce(
        out,
        quick=args.quick,
        track=lambda steps: track(steps, total=len(steps), what=f"reproduce {args.name}"),
    )
    files = f"{out / 'results.json'} and {out / 'report.html'}"
    show(args, results, f"{experiment.table(results)}\n\nwrote {files}")
