"""`weft train` for networks of planners: deepsched imitates HEFT."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from weft.cli.arguments import add_option
from weft.cli.train.trainable import Bar, Trainable, add_common_arguments, need_torch
from weft.cli.values import whole


def _deepsched_arguments(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--batches", whole(1), "N", "batches of 12 problems each", default=650)
    add_common_arguments(parser)


def _train_deepsched(args: argparse.Namespace) -> None:
    from weft.cli.output import emit

    need_torch()
    from weft.learn.imitation.deepsched import training
    from weft.planners.imitation.deepsched.network import save_network

    runs: list[Any] = []
    for seed in range(args.seed, args.seed + args.seeds):
        with Bar("deepsched", seed, args.batches, unit=" batches") as bar:
            settings = training.DeepSchedSettings(batches=args.batches)

            def show(so_far: training.DeepSchedProgress, bar: Bar = bar) -> None:
                bar.show(so_far.batches, so_far.score)

            runs.append(training.train(settings, seed=seed, progress=show))
        best = min(runs, key=lambda run: (math.isnan(run.score), run.score))
        record = best.record() | {"seeds": [run.seed for run in runs]}
        path = save_network(best.best, args.out / "deepsched", record)
        if runs[-1].interrupted:
            print(
                f"weft: stopped after {runs[-1].batches:,} batches; the best so far is in {path}",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
    if args.json:
        emit({"file": str(path), "trainings": [run.record() for run in runs]})
        return
    print(
        "score (1 is best): mean turnaround of the network and of HEFT, the larger over the smaller"
    )
    for run in runs:
        print(
            f"  seed {run.seed}: score {run.score:.4f}, {run.batches:,} batches "
            f"in {run.cpu_seconds:.0f} s of processor time"
        )
    print(f"best: seed {best.seed}, score {best.score:.4f}\nwrote {path}")


TRAINABLES = {
    "deepsched": Trainable(
        "train the network that imitates HEFT",
        "weft train deepsched --batches 3000 --out trained",
        _deepsched_arguments,
        _train_deepsched,
    )
}
