"""Subcommands of `weft train`: options, progress bar, the loop over seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from weft.cli.arguments import add_option
from weft.cli.values import folder, whole


class Trainable(NamedTuple):
    """One subcommand: its help, its options and its action."""

    summary: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


class Outcome(NamedTuple):
    """The result of one training: its score (low is good), its cost, how to write it."""

    score: float
    seconds: float
    save: Callable[[Path], Path]


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every training has."""
    add_option(parser, "--seeds", whole(1), "N", "number of trainings", default=1)
    add_option(parser, "--seed", whole(0), "N", "first seed", default=0)
    add_out(parser)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the folder to write to."""
    # The default is a text, since argparse reads (and so checks) only those.
    add_option(parser, "--out", folder, "DIR", "folder for the model", default="trained")


def need_torch() -> None:
    """Raise `MissingExtra` if torch is not installed."""
    from importlib.util import find_spec

    from weft.errors import MissingExtra

    if find_spec("torch") is None:
        raise MissingExtra("torch", "learn")


class Bar:
    """A progress bar on the terminal, with the best score so far."""

    def __init__(self, name: str, seed: int, total: int, *, unit: str) -> None:
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            from weft.cli.output import BAR

            self._bar = tqdm(
                total=total,
                desc=f"{name}, seed {seed}",
                unit=unit,
                unit_scale=True,
                file=sys.stderr,
                leave=False,
                **BAR,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, done: float, score: float) -> None:
        """Move on to `done` units."""
        if self._bar is not None:
            self._bar.set_postfix(best=f"{score:.4f}", refresh=False)
            self._bar.update(done - self._bar.n)


def train_seeds(
    args: argparse.Namespace,
    name: str,
    train: Callable[[int, Bar], Outcome],
    *,
    total: int,
    unit: str,
    meaning: str,
) -> None:
    """Train once per seed, keep the model with the lowest score, and print a table.

    `meaning` is the quantity that the score measures; the first line of the table shows it.
    """
    from weft.cli.output import emit

    rows: list[dict[str, Any]] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with Bar(name, seed, total, unit=unit) as bar:
            outcome = train(seed, bar)
        if not rows or outcome.score < min(row["score"] for row in rows):
            path = outcome.save(args.out / name)
        rows.append({"seed": seed, "score": outcome.score, "cpu_seconds": outcome.seconds})
    if args.json:
        emit({"policy": name, "file": str(path), "trainings": rows})
        return
    print(f"score (low is good): {meaning}")
    for row in rows:
        print(
            f"  seed {row['seed']}: score {row['score']:.4f} "
            f"in {row['cpu_seconds']:.0f} s of processor time"
        )
    best = min(rows, key=lambda row: row["score"])
    print(f"best: seed {best['seed']}, score {best['score']:.4f}\nwrote {path}")
