"""The verb `train`: its subcommands, and the run of the chosen one."""

from __future__ import annotations

import argparse

from weft.cli.arguments import add_subcommand
from weft.cli.train import conditional, imitation, own_workflow, workflow
from weft.cli.train.trainable import Trainable

SUMMARY = "train a policy or a planner's network; keep the best of several seeds"
EXAMPLE = """  weft train conditional --stream mine.toml --out trained
  weft evaluate trained/own fifo --stream mine.toml            # every verb takes the result
  weft train tuned-list --seconds 900
  weft train deepsched --batches 3000"""

TRAINABLES: dict[str, Trainable] = {
    **conditional.TRAINABLES,
    **own_workflow.TRAINABLES,
    **workflow.TRAINABLES,
    **imitation.TRAINABLES,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one subcommand per trainable."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, trainable in TRAINABLES.items():
        example = f"  {trainable.example}"
        trainable.add_arguments(add_subcommand(commands, name, trainable.summary, example))


def run(args: argparse.Namespace) -> None:
    """Train, keep checkpoints, and print the result."""
    from weft.cli.output import notice

    with notice("preparing the training"):
        import weft.learn.settings
        import weft.policies.load
        import weft.sim.simulate  # noqa: F401  # numba takes a second to load
    TRAINABLES[args.what].run(args)
